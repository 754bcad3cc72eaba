"""The program's calls that ask autograd for gradients: whether the graph can compute these, and the node that does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import torch
from torch import fx

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.graph.gradient_paths import accumulates_with_hooks, gradient_paths, is_laid_out_as_grad, layout_of_grad
from framejit.graph.joined import JoinedTensors
from framejit.graph.metadata import OF_BACKWARD
from framejit.graph.optional_records import OptionalRecords
from framejit.guards.kinds import ValueIs
from framejit.guards.source import CAttr
from framejit.library.torch.autograd.autograd_settings import are_hooks_set_outside
from framejit.library.torch.checkpoint.repeated_changes import RepeatedChanges, change_again_, not_changing_again_
from framejit.library.torch.hooks.gradient_hooks import Listening, grad_listening
from framejit.library.torch.inner_graphs.changes import check_read_later
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Object
from framejit.objects.tensors.tensorobject import TensorObject, read_is_leaf
from framejit.objects.tensors.torchcall import enter
from framejit.objects.types.tupleobject import TupleObject
from framejit.quick_dataclass import dataclass
from framejit.torch_state.gradient_edges import edge_of

HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")
"""Attributes of tensors that hold the hooks on them."""
METHOD = "backward() of a tensor"


def tensors_in(vm: VM, value: Object | None) -> list[TensorObject]:
    """A tensor, or those of a tuple or list of tensors."""
    return [item for item in items_of(vm, value) if isinstance(item, TensorObject)]


def items_of(vm: VM, value: Object | None) -> list[Object]:
    """The items given for some tensors: a tensor, or several in a tuple, a list or an iterator; none for None."""
    value = vm.const(None) if value is None else vm.observe(value)
    if value.cls is type(None):
        return []
    return [value] if isinstance(value, TensorObject) else [vm.observe(item) for item in abstract.iterate(vm, value)]


@dataclass(frozen=True)
class Question:
    """A call that asks autograd for gradients. `inputs`: the tensors by which it differentiates; None: all leaves that there are."""

    name: str
    outputs: list[Object]
    gradients: list[Object] | None
    inputs: list[Object] | None
    retain_graph: Object
    create_graph: bool

    def leaves(self, vm: TorchVM, listens: bool = False) -> tuple[TensorObject, ...]:
        """The leaves that a gradient reaches. Stops the trace if the graph can't ask the question. `listens`: hooks of leaves are handled by the caller."""
        check_read_later(vm, ())
        found = self.reached(vm)
        if isinstance(found, str):
            self.stop(vm, found)
        for leaf in found:
            self.rest_on(vm, leaf, listens and not self.create_graph)
        return found

    def reached(self, vm: TorchVM) -> tuple[TensorObject, ...] | str:
        """The leaves that a gradient reaches, or the reason why the graph can't ask: gradients would continue beyond its inputs, or Python code computes them.
        In a backward, only leaves that it computes itself count."""
        graph = vm.graph
        graph.reject_transformed("gradients asked for")
        tensors = [tensor for tensor in (*self.outputs, *(self.inputs or ())) if isinstance(tensor, TensorObject)]
        can_ask = graph.body is graph.outermost or (graph.body.is_backward and graph.transform_around() is None)
        if not graph.demands.takes_gradients or not can_ask or len(tensors) != len(self.outputs) + len(self.inputs or ()):
            return ""
        if graph.autograd_node is not None and are_hooks_set_outside(vm):
            return ", where hooks on saved tensors are set"
        if torch.distributed.is_available() and vm.guards.read(torch.distributed.is_initialized):
            return ", which other processes may listen to"
        if graph.part(Listening).tokens:
            return ", where backward hooks of modules are called after the graph"
        if not self.can_change_again(vm):
            return ", through BatchNorm in a checkpoint, of which another backward pass may follow"
        paths = gradient_paths([tensor.look(vm) for tensor in tensors])
        for name in (*paths.functions, *(paths.once if self.create_graph else ())):
            return f", through the autograd.Function {name.removesuffix('Backward')}"
        if graph.part(OptionalRecords).led_to([tensor.look(vm) for tensor in tensors]) is not None:
            return ", where it depends on data which tensors get a gradient"
        if self.create_graph and graph.part(JoinedTensors).are_recorded:
            return ", where a branch on data decides which tensors get a gradient of the gradient"
        known = [graph.object_of(leaf) for leaf in paths.leaves]
        found = tuple([obj for obj in known if obj is not None])
        if len(found) != len(known) or (graph.body.is_backward and not all(graph.body.makes(leaf.node) for leaf in found)):
            return ", of what was computed before"
        return found if all(leaf.fake.layout is torch.strided for leaf in found) else ", of sparse tensors"

    def can_change_again(self, vm: TorchVM) -> bool:
        """Return whether the backward pass is the only one that changes statistics, if it changes any."""
        repeating = vm.graph.part(RepeatedChanges).left
        if not any(change.follows(output.look(vm)) for change in repeating for output in self.outputs if isinstance(output, TensorObject)):
            return True
        retains = self.create_graph or abstract.truth(vm, vm.observe(self.retain_graph))
        return not retains and not vm.graph.is_inner() and all(len(change.results) == 1 for change in repeating)

    def change_again(self, vm: TorchVM, inputs: Sequence[Object]) -> None:
        """Change the statistics that the backward pass changes."""
        changes = vm.graph.part(RepeatedChanges)
        for change in changes.left:
            outputs, wanted = ([one.look(vm) for one in some if isinstance(one, TensorObject)] for some in (self.outputs, inputs))
            with vm.graph.fakes.running():
                reached = change.is_reached(outputs, wanted)
            if reached:
                vm.graph.node_of(not_changing_again_, (change.handles,))
                vm.graph.node_of(change_again_, change.now).meta[OF_BACKWARD] = True
                changes.remove(change)

    def rest_on(self, vm: TorchVM, leaf: TensorObject, listens: bool) -> None:
        """Guard that an input is a leaf and, unless the caller handles hooks, that there are none on its gradient."""
        if leaf.source is None:
            return
        no_edge = leaf.value.requires_grad and edge_of(leaf.value) is None
        why = ", of a view that was made under no_grad" if no_edge else guard_hooks(vm, leaf, listens)
        if why is not None:
            self.stop(vm, why)
        read_is_leaf(vm, leaf)

    def stop(self, vm: TorchVM, why: str = "") -> NoReturn:
        """Leave the question to autograd, after the graph."""
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
        self.note(vm)
        self.change_again(vm, inputs)
        given = {} if self.gradients is None else {"grad_outputs": TupleObject(self.gradients)}
        options = {"retain_graph": self.retain_graph, "create_graph": vm.const(self.create_graph)}
        return enter(vm, function, [TupleObject(self.outputs), TupleObject(list(inputs))], {**given, **options, **further})

    def ask_listening(self, vm: TorchVM, leaves: Sequence[Object], taps: tuple[fx.Node, ...], changes: tuple[Any, ...]) -> fx.Node:
        """The node by which the graph computes the gradients of leaves, and also returns those of other tensors (`grad_listening`)."""
        self.note(vm)
        self.change_again(vm, leaves)
        graph = vm.graph
        options: dict[str, Any] = {"allow_unused": True}
        (options["retain_graph"],) = graph.nodes_of([self.retain_graph])
        if self.gradients is not None:
            options["grad_outputs"] = graph.nodes_of(self.gradients)
        return graph.node_of(grad_listening, (graph.nodes_of(self.outputs), graph.nodes_of(leaves), taps, changes), options)

    @property
    def is_method(self) -> bool:
        """Return whether it is a call of the method `backward()` of a tensor."""
        return self.name == METHOD

    def note(self, vm: TorchVM) -> None:
        """Note that the graph is about to compute gradients, which may free the records of autograd on the fakes."""
        vm.graph.fakes.changes_with_undoing()
        if vm.graph.autograd_node is not None and not vm.graph.is_inner():
            vm.trail.set(vm.graph.autograd_node, "asks", True)
            vm.trail.set(vm.graph.autograd_node, "asks_twice", vm.graph.autograd_node.asks_twice or self.create_graph)


def guard_hooks(vm: TorchVM, leaf: TensorObject, listens: bool = False) -> str | None:
    """Guard that there are no hooks on the gradient of a tensor from outside; if there are, return so. `listens`: the caller handles the tensor's own."""
    if leaf.source is None:
        return None
    if accumulates_with_hooks(leaf.value):
        return ", of a tensor with hooks"
    for name in HOOKS:
        if getattr(leaf.value, name) is None:
            vm.guard(ValueIs, leaf.source.child(CAttr, name), None)
        elif not listens:
            return ", of a tensor that has hooks, or had some"
    return None


def question(vm: TorchVM, name: str, given: Mapping[str, Object], outputs: str, gradients: str) -> Question:
    """The question that a call asks, given its arguments by name."""
    return Question(
        name,
        items_of(vm, given[outputs]),
        items_of(vm, given.get(gradients)) or None,
        items_of(vm, given.get("inputs")) or None,
        given.get("retain_graph") or vm.const(None),
        "create_graph" in given and abstract.truth(vm, vm.observe(given["create_graph"])),
    )


def layout_for(vm: TorchVM, leaf: Object, gradient: Object, is_used: bool) -> torch.memory_format | None:
    """The layout in which a gradient must be copied before it becomes a `.grad`; None if it already has that layout, and memory of its own.

    `is_used`: it is also used elsewhere, or is to be differentiated in turn.
    """
    if not isinstance(leaf, TensorObject) or not isinstance(gradient, TensorObject):
        return None
    mine, found = leaf.look(vm), gradient.look(vm)
    if not is_used and is_laid_out_as_grad(mine, found) and vm.graph.fakes.sharing_memory([found]) == [found]:
        return None
    return layout_of_grad(mine)
