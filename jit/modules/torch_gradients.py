"""Gradients asked for inside compiled code: computed by the graph where it holds all that they depend on, else natively, between two graphs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.graph.gradient_hooks import grad_without_hooks
from framejit.graph.gradient_paths import (
    accumulates_with_hooks,
    gradient_paths,
    in_order_of_accumulation,
    is_laid_out_as_grad,
    layout_of_grad,
)
from framejit.guards.kinds import ValueIs
from framejit.guards.source import CAttr
from framejit.modules.app import gradients as app
from framejit.modules.changes import check_read_later
from framejit.objects import abstract
from framejit.objects.registry import models
from framejit.objects.tensorobject import TensorObject, read_is_leaf
from framejit.objects.torchcall import enter
from framejit.objects.tupleobject import TupleObject
from framejit.torch_classes import is_disguised

if TYPE_CHECKING:
    from framejit.objects.object import VM, Object


def tensors_in(vm: VM, value: Object | None) -> list[TensorObject]:
    """A tensor, or those of a tuple or list of tensors."""
    return [item for item in items_of(vm, value) if isinstance(item, TensorObject)]


def items_of(vm: VM, value: Object | None) -> list[Object]:
    """What is given for some tensors: a tensor, or several in a tuple, a list or an iterator; nothing for None."""
    value = vm.const(None) if value is None else vm.observe(value)
    if value.cls is type(None):
        return []
    return [value] if isinstance(value, TensorObject) else [vm.observe(item) for item in abstract.iterate(vm, value)]


@dataclass(frozen=True)
class Question:
    """A call that asks autograd for gradients, as it is written. `inputs`: of which tensors; None: of all leaves that there are."""

    name: str
    outputs: list[Object]
    gradients: list[Object] | None
    inputs: list[Object] | None
    retain_graph: Object
    create_graph: bool

    def leaves(self, vm: TorchVM, listens: bool = False) -> tuple[TensorObject, ...]:
        """The leaves that a gradient reaches. Stops the trace where the graph can't ask the question. `listens`: hooks of leaves are taken care of."""
        check_read_later(vm, ())
        found = self.reached(vm)
        if isinstance(found, str):
            self.stop(vm, found)
        for leaf in found:
            self.rest_on(vm, leaf, listens and not self.create_graph)
        return found

    def reached(self, vm: TorchVM) -> tuple[TensorObject, ...] | str:
        """The leaves that a gradient reaches; or why the graph can't ask: gradients would go on from its inputs, or what computes them is Python."""
        graph = vm.graph
        tensors = [tensor for tensor in (*self.outputs, *(self.inputs or ())) if isinstance(tensor, TensorObject)]
        if not graph.demands.takes_gradients or graph.body is not graph.outermost or len(tensors) != len(self.outputs) + len(self.inputs or ()):
            return ""
        if graph.autograd_node is not None and vm.guards.read(torch._C._autograd._top_saved_tensors_default_hooks, True) is not None:
            return ", where hooks on saved tensors are set"
        if torch.distributed.is_available() and vm.guards.read(torch.distributed.is_initialized):
            return ", which other processes may listen to"
        paths = gradient_paths([tensor.look(vm) for tensor in tensors])
        for name in (*paths.functions, *(paths.once if self.create_graph else ())):
            return f", through the autograd.Function {name.removesuffix('Backward')}"
        known = [graph.object_of(leaf) for leaf in paths.leaves]
        found = tuple([obj for obj in known if obj is not None])
        if len(found) != len(known):
            return ", of what was computed before"
        return found if all(leaf.fake.layout is torch.strided for leaf in found) else ", of sparse tensors"

    def rest_on(self, vm: TorchVM, leaf: TensorObject, listens: bool) -> None:
        """Guard that an input is a leaf and, unless hooks are taken care of, that nobody listens to its gradient."""
        if leaf.source is None:
            return
        if accumulates_with_hooks(leaf.value):
            self.stop(vm, ", of a tensor with hooks")
        for name in HOOKS:
            if getattr(leaf.value, name) is None:
                vm.guard(ValueIs, leaf.source.child(CAttr, name), None)
            elif not listens:
                self.stop(vm, ", of a tensor that has hooks, or had some")
        read_is_leaf(vm, leaf)

    def stop(self, vm: TorchVM, why: str = "") -> NoReturn:
        """Leave the question to autograd, behind the graph."""
        node = vm.graph.autograd_node
        if node is not None:
            for wanted in self.inputs or ():
                if isinstance(wanted, TensorObject):
                    node.asked_about(wanted, f"the gradient of a tensor for {self.name}")
            if self.create_graph:
                node.asked_twice()
        vm.unsupported(breaks.UnsupportedOperation(self.name + why))

    def ask(self, vm: TorchVM, inputs: Sequence[Object], function: Callable[..., Any] = torch.autograd.grad, **further: Object) -> Object:
        """Have the graph compute the gradients of these tensors, by this function."""
        if vm.graph.autograd_node is not None:
            vm.trail.set(vm.graph.autograd_node, "asks", True)
            vm.trail.set(vm.graph.autograd_node, "asks_twice", vm.graph.autograd_node.asks_twice or self.create_graph)
        given = {} if self.gradients is None else {"grad_outputs": TupleObject(self.gradients)}
        options = {"retain_graph": self.retain_graph, "create_graph": vm.const(self.create_graph)}
        return enter(vm, function, [TupleObject(self.outputs), TupleObject(list(inputs))], {**given, **options, **further})


def question(vm: TorchVM, name: str, given: Mapping[str, Object], outputs: str, gradients: str) -> Question:
    """The question that a call's arguments ask, by their names."""
    return Question(
        name,
        items_of(vm, given[outputs]),
        items_of(vm, given.get(gradients)) or None,
        items_of(vm, given.get("inputs")) or None,
        given.get("retain_graph") or vm.const(None),
        "create_graph" in given and abstract.truth(vm, vm.observe(given["create_graph"])),
    )


HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")
GRAD, BACKWARD, TENSOR_BACKWARD = map(inspect.signature, (torch.autograd.grad, torch.autograd.backward, torch.Tensor.backward))

USUAL = (("only_inputs", True), ("is_grads_batched", False))
"""Arguments of `torch.autograd.grad` that change nothing when they are given so."""


@models(torch.autograd.grad)
def autograd_grad(vm: TorchVM, *args: Object, **kwargs: Object) -> Object:
    """The call itself enters the graph."""
    given = GRAD.bind(*args, **kwargs).arguments
    asked = question(vm, "torch.autograd.grad", given, "outputs", "grad_outputs")
    if vm.observe(given["inputs"]).cls is dict or any(abstract.truth(vm, vm.observe(given[name])) is not usual for name, usual in USUAL if name in given):
        asked.stop(vm)
    tensors = [*asked.outputs, *(asked.inputs or ())]
    if vm.graph.function_modes.asks_modes() or any(isinstance(tensor, TensorObject) and is_disguised(tensor.cls) for tensor in tensors):
        asked.stop(vm, ", which is overridden")
    asked.leaves(vm)
    return asked.ask(vm, asked.inputs or [], **{name: given[name] for name in ("allow_unused", "materialize_grads") if name in given})


@models(torch.autograd.backward)
def autograd_backward(vm: TorchVM, *args: Object, **kwargs: Object) -> Object:
    given = BACKWARD.bind(*args, **kwargs).arguments
    asked = question(vm, "torch.autograd.backward", given, "tensors", "grad_tensors")
    if "grad_variables" in given:
        asked.stop(vm)
    return run_backward(vm, asked)


@models(torch.Tensor.backward)
def tensor_backward(vm: TorchVM, *args: Object, **kwargs: Object) -> Object:
    return run_backward(vm, question(vm, "backward() of a tensor", TENSOR_BACKWARD.bind(*args, **kwargs).arguments, "self", "gradient"))


def run_backward(vm: TorchVM, asked: Question) -> Object:
    """The graph computes the gradients of the leaves; storing them in `.grad`, or adding them to what is there, is traced as if the program did it."""
    reached = asked.leaves(vm, listens=True)
    leaves = reached if asked.inputs is None else [leaf for leaf in asked.inputs if leaf in reached]
    if not leaves or (asked.inputs is not None and len(set(leaves)) != len(asked.inputs)):
        asked.stop(vm)
    if any(has_had_hooks(leaf) for leaf in leaves):
        return run_backward_with_hooks(vm, asked, leaves)
    gradients = asked.ask(vm, leaves, allow_unused=vm.const(True))
    assert isinstance(gradients, TupleObject)
    found = [vm.observe(item) for item in gradients.items(vm)]
    if any(isinstance(item, TensorObject) and item.look(vm).layout is not torch.strided for item in found):
        asked.stop(vm, ", which gives a sparse gradient")
    layouts = [
        vm.const(layout_for(vm, leaf, item, asked.create_graph or item in found[:index]))
        for index, (leaf, item) in enumerate(zip(leaves, found, strict=True))
    ]
    vm.call_app(app.accumulate, [TupleObject(list(leaves)), gradients, TupleObject(layouts), vm.const(asked.create_graph)])
    return vm.const(None)


def has_had_hooks(leaf: TensorObject) -> bool:
    """Whether there are hooks on a leaf from outside, or were. The trace may have taken off some that are still there while the graph runs."""
    return leaf.source is not None and any(getattr(leaf.value, name) is not None for name in HOOKS)


def hooks_of(vm: TorchVM, leaf: TensorObject) -> tuple[list[Object], list[Object]]:
    """The hooks on the gradient of a leaf from outside, and those that are called when it has been added to its `.grad`."""
    found: list[list[Object]] = []
    for name in HOOKS:
        real = None if leaf.source is None else getattr(leaf.value, name)
        if leaf.source is None or real is None:
            found.append([])
        else:
            hooks = vm.wrap(real, leaf.source.child(CAttr, name))
            found.append([vm.observe(hook) for hook in abstract.iterate(vm, abstract.call_method(vm, hooks, "values"))])
    return found[0], found[1]


def run_backward_with_hooks(vm: TorchVM, asked: Question, leaves: Sequence[TensorObject]) -> Object:
    """Hooks of leaves are traced as if the program called them, in the order in which autograd does."""
    fakes = [output.look(vm) for output in asked.outputs if isinstance(output, TensorObject)]
    with vm.graph.fakes.running():
        order = in_order_of_accumulation(fakes, [leaf.look(vm) for leaf in leaves])
    gradients = asked.ask(vm, leaves, grad_without_hooks, allow_unused=vm.const(True))
    assert isinstance(gradients, TupleObject)
    found = [vm.observe(item) for item in gradients.items(vm)]
    if any(isinstance(item, TensorObject) and item.look(vm).layout is not torch.strided for item in found):
        asked.stop(vm, ", which gives a sparse gradient")
    for index in order:
        before, after = hooks_of(vm, leaves[index])
        layout = vm.const(layout_of_grad(leaves[index].look(vm)))
        vm.call_app(app.accumulate_with_hooks, [leaves[index], found[index], TupleObject(before), layout, TupleObject(after)])
    return vm.const(None)


def layout_for(vm: TorchVM, leaf: Object, gradient: Object, is_used: bool) -> torch.memory_format | None:
    """The layout in which a gradient has to be copied before it is somebody's `.grad`; None where it is laid out so, and in memory of its own.

    `is_used`: it is somebody else's as well, or is to be differentiated in turn.
    """
    if not isinstance(leaf, TensorObject) or not isinstance(gradient, TensorObject):
        return None
    mine, found = leaf.look(vm), gradient.look(vm)
    if not is_used and is_laid_out_as_grad(mine, found) and vm.graph.fakes.sharing_memory([found]) == [found]:
        return None
    return layout_of_grad(mine)
