"""torch.autograd.Function: its forward is inlined; its backward is traced too, and attached to the results of the forward in the graph."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

import torch
from torch import fx
from torch.autograd.function import NestedIOFunction, once_differentiable

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.graph.call_data import name_of
from framejit.graph.fake import storages
from framejit.library.torch.autograd.custom_gradient import BackwardGraph, ForwardGraph, GradientRule
from framejit.library.torch.inner_graphs.backward_code import BackwardCode, SideEffects, gradients_like, trace_backward, with_gradients_off
from framejit.library.torch.transforms.func import JVP, VMAP, items
from framejit.library.torch.transforms.func_rules import call_with_rule, mapping_graph, transforms_inside
from framejit.objects.core import abstract
from framejit.objects.core.object import Object
from framejit.objects.core.registry import models
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.types.constobject import ConstObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.plain import autograd as plain
from framejit.program import classes
from framejit.torch_state.operator_facts import is_pointwise

ONCE = once_differentiable(lambda ctx: None).__code__
COMPUTED = "keeps for its backward what its setup_context computes"
"""Part of the reason for which a Function can't be traced inside transforms: in eager, each level computes its own."""
MOST_RESULTS = 3
"""The most results of a Function whose backward gets None for results that nothing is computed from: it is traced for each combination of them."""
APPLY = inspect.getattr_static(torch.autograd.Function, "apply")
"""A classmethod in Python or, from torch 2.14 on, a class method descriptor in C."""


@models(getattr(APPLY, "__func__", APPLY))
def function_apply(vm: TorchVM, cls: Object, *args: Object, **kwargs: Object) -> Object:
    """Trace `apply`. Stops if the backward does something besides computing gradients: autograd runs it later, and maybe more than once."""
    real = vm.observe(cls).constant(vm)
    vm.graph.reject_transformed(f"the autograd.Function {real.__name__}")
    transforms, function = list(vm.graph.transforms_around()), vm.const(real)
    if transforms and not abstract.truth(vm, vm.call_app(plain.sets_up_context, [function])):
        vm.unsupported(breaks.InsideTransform(transforms[0], "of a function that uses an autograd.Function without a setup_context"))
    if classes.is_subtype(real, NestedIOFunction):
        vm.unsupported(breaks.UnsupportedOperation("an autograd.Function with nested arguments"))
    given = bound(vm, real, args, kwargs)
    before = next(iter(reversed(vm.graph.body.fx.nodes))) if transforms else None
    result, has_vmap = None, False
    has_rule = bool(transforms) and abstract.truth(vm, vm.call_app(plain.has_rule, [function]))
    if has_rule:
        body = mapping_graph(vm, given)
        if body is not None:
            result = call_with_rule(vm, function, given, body)
            transforms, has_vmap = transforms_inside(vm, body), True
            if not transforms:
                return result
    check_transforms(vm, function, transforms, has_rule)
    needs_grad = tuple([isinstance(value, TensorObject) and may_need_grad(vm, value, bool(transforms)) for value in given])
    if result is None:
        ctx, result = items(vm, vm.call_app(plain.forward, [function, vm.const(needs_grad), TupleObject(given)]))
    else:
        ctx = vm.call_app(plain.set_up, [function, vm.const(needs_grad), TupleObject(given), result])
    modes = vm.graph.modes.current
    if not ((modes.grad or transforms) and not modes.inference and any(needs_grad)):
        return vm.call_app(plain.without_gradient, [ctx, result, TupleObject(given)])
    return Application(vm, real, ctx, result, given, before, JVP in transforms, has_vmap).differentiable()


def check_transforms(vm: TorchVM, cls: Object, transforms: Sequence[str], has_rule: bool) -> None:
    """Stop the trace if torch would not run a Function's own forward and backward inside these transforms: a `jvp` belongs to them, and torch.vmap refuses
    a Function without a rule. `has_rule`: it has one, which isn't needed, since none of the Function's arguments is mapped."""
    if JVP in transforms and not abstract.truth(vm, vm.call_app(plain.has_jvp, [cls])):
        vm.unsupported(breaks.InsideTransform(JVP, "of a function that uses an autograd.Function without a jvp"))
    if VMAP in transforms and not has_rule and not abstract.truth(vm, vm.call_app(plain.is_mapped_by_torch, [cls])):
        vm.unsupported(breaks.InsideTransform(VMAP, "of a function that uses an autograd.Function without a rule for it, or with two"))


def may_need_grad(vm: TorchVM, value: TensorObject, in_transform: bool) -> bool:
    """Return whether an argument of a Function requires a gradient. In a transform it may at each level, which its fake doesn't show."""
    fake = value.look(vm)
    return fake.requires_grad or (in_transform and (fake.is_floating_point() or fake.is_complex()))


def bound(vm: TorchVM, real: type[torch.autograd.Function], args: Sequence[Object], kwargs: dict[str, Object]) -> list[Object]:
    """The arguments of a forward. One with a `setup_context` also takes them by name, and its defaults count as arguments."""
    if real.setup_context is plain.DEFAULT_SETUP:
        if kwargs:
            vm.unsupported(breaks.UnsupportedOperation("an autograd.Function with keyword arguments"))
        return [vm.observe(arg) for arg in args]
    try:
        arguments = inspect.signature(real.forward).bind(*args, **kwargs)
    except TypeError:
        vm.unsupported(breaks.UnsupportedOperation(f"the autograd.Function {real.__name__} with these arguments"))
    arguments.apply_defaults()
    return [vm.observe(value) if isinstance(value, Object) else vm.from_real(value) for value in arguments.args]


class Application:
    """A Function whose forward has been traced: `ctx`, its result, and its arguments.

    `before`: inside a transform of torch.func, the last node of the graph before the forward; else None. `pushes`: one of the transforms is a `jvp`.
    `has_vmap`: its result was computed by its `vmap` method.
    """

    def __init__(
        self,
        vm: TorchVM,
        real: type[torch.autograd.Function],
        ctx: Object,
        result: Object,
        args: list[Object],
        before: fx.Node | None,
        pushes: bool,
        has_vmap: bool,
    ) -> None:
        self.vm, self.real, self.ctx, self.result, self.args, self.before = vm, real, ctx, result, args, before
        self.pushes, self.has_vmap = pushes, has_vmap
        self.transformed = before is not None
        items = result.items(vm) if isinstance(result, TupleObject) and result.cls is tuple else [result]
        self.items = [vm.observe(item) for item in items]
        self.tensors = [item for item in self.items if isinstance(item, TensorObject)]
        self.saved = self.recorded("to_save")
        self.materializes = abstract.truth(vm, abstract.getattr_(vm, ctx, "materialize_grads"))

    def recorded(self, name: str) -> list[Object]:
        """The tensors in a field of `ctx` that the program has set."""
        return [self.vm.observe(item) for item in abstract.iterate(self.vm, abstract.getattr_(self.vm, self.ctx, name))]

    def differentiable(self) -> Object:
        """The result, with a backward that autograd knows."""
        vm, graph = self.vm, self.vm.graph
        if graph.function_modes.asks_modes() or any(isinstance(obj, TensorObject) and obj.kind.is_disguised for obj in (*self.args, *self.saved)):
            self.break_graph("is overridden: whether its backward is, depends on who asks for gradients")
        if graph.autograd_node is not None and not self.transformed:
            graph.autograd_node.check_leaves([obj.fake for obj in self.inputs()])
        gradients, bodies = with_gradients_off(vm, self.backwards)
        kept: list[Any] = []
        tangents, forward = with_gradients_off(vm, self.forwards) if self.pushes else ([], None)
        rule = self.rule(graph.nodes_of(gradients), bodies, graph.nodes_of(tangents), forward, kept)
        traced = [*bodies.values(), *([] if forward is None else [forward[0]])]
        args = (
            tuple([graph.attach(body.graph, {}) for body in traced]),
            graph.nodes_of(self.tensors),
            graph.nodes_of(self.saved),
            tuple(kept),
            graph.nodes_of(self.inputs()),
        )
        reason = self.reason("whose backward reads what changes before it runs")
        for body in traced:
            graph.runs_later(body.reached, body.reads_outside, reason)
        node = graph.node_of(rule.operator_in_transform(self.copied(), self.has_vmap) if self.transformed else rule.operator(), args)
        if graph.autograd_node is not None and not rule.once and not rule.again:
            graph.autograd_node.differentiable_once(node)
        made = graph.result_of(node)
        assert isinstance(made, TupleObject)
        results = iter(made.items(vm))
        items = [next(results) if isinstance(item, TensorObject) else item for item in self.items]
        return TupleObject(items) if isinstance(self.result, TupleObject) else items[0]

    def copied(self) -> tuple[bool, ...]:
        """Return for each result whether it shares memory with no argument, other result or saved tensor of the Function: copying it changes nothing then."""
        memory = [storages([obj.fake]) for obj in (*self.inputs(), *self.tensors, *self.saved) if isinstance(obj, TensorObject)]
        return tuple([memory.count(storages([obj.fake])) == 1 + (obj in self.saved) for obj in self.tensors])

    def inputs(self) -> list[TensorObject]:
        """The arguments that have gradients."""
        return [arg for arg in self.args if isinstance(arg, TensorObject)]

    def backwards(self) -> tuple[list[Object], dict[tuple[bool, ...], BackwardCode]]:
        """The stand-ins for the gradients of the results, and the backward for each combination of gradients that aren't None."""
        gradients, found = gradients_like(self.vm, self.tensors), {}
        for which in self.choices():
            given = [gradient if is_given else self.vm.const(None) for gradient, is_given in zip(gradients, which)]
            body = self.backward(given) if all(which) else self.backward_without(given)
            if body is not None:
                found[which] = body
            elif all(which):
                self.break_graph("gives no gradients, or not as many as it has arguments")
        return gradients, found

    def choices(self) -> Iterable[tuple[bool, ...]]:
        """The combinations of results that may have a gradient other than None."""
        count = len(self.tensors)
        if self.materializes:
            return [(True,) * count]
        if count > MOST_RESULTS:
            self.break_graph("has gradients that are None, and many results")
        return itertools.product((True, False), repeat=count)

    def backward_without(self, gradients: list[Object]) -> BackwardCode | None:
        """The backward if some gradients are None; None if it raises."""
        found = self.vm.attempt(lambda: (self.backward(gradients),))
        if found is None:
            self.break_graph("has a backward that can't be traced where a gradient is None")
        body: BackwardCode | None = found[0]
        return body

    def backward(self, gradients: list[Object]) -> BackwardCode | None:
        """The backward for these gradients; None if it returns none."""
        vm = self.vm

        def run() -> list[Object] | None:
            return self.of_inputs(vm.observe(vm.call_app(plain.backward, [vm.const(self.real), self.ctx, TupleObject([*self.padded(gradients)])])))

        try:
            return trace_backward(vm, [self.ctx, abstract.getattr_(vm, vm.const(self.real), "backward")], run)
        except SideEffects:
            self.break_graph("has side effects in its backward")

    def padded(self, gradients: list[Object]) -> Iterator[Object]:
        """An argument of the backward for each result; None for one that isn't a tensor."""
        following = iter(gradients)
        return (next(following) if isinstance(item, TensorObject) else self.vm.const(None) for item in self.items)

    def of_inputs(self, found: Object) -> list[Object] | None:
        """The backward's results for the arguments that have gradients; None if autograd doesn't accept the results."""
        assert isinstance(found, TupleObject)
        values = [self.vm.observe(value) for value in found.items(self.vm)]
        count = len(self.args)
        if len(values) < count or not all(is_none(value) for value in values[count:]):
            return None
        pairs = list(zip(self.args, values))
        if any(not is_none(value) and not (isinstance(arg, TensorObject) and isinstance(value, TensorObject)) for arg, value in pairs):
            return None
        return [value for arg, value in pairs if isinstance(arg, TensorObject)]

    def forwards(self) -> tuple[list[Object], tuple[BackwardCode, tuple[bool, ...]]]:
        """The stand-ins for the tangents of the inputs that may have some, and the `jvp` for them, with the results that have tangents."""
        vm = self.vm
        moved = [arg for arg in self.inputs() if may_need_grad(vm, arg, True)]
        tangents = gradients_like(vm, moved)
        given = TupleObject([tangents[moved.index(arg)] if arg in moved else vm.const(None) for arg in self.args])
        ctx = vm.call_app(plain.forward_context, [self.ctx])
        which: list[bool] = []

        def run() -> list[Object] | None:
            found = vm.observe(vm.call_app(plain.jvp, [vm.const(self.real), ctx, given]))
            assert isinstance(found, TupleObject)
            values = [vm.observe(value) for value in found.items(vm)]
            which[:] = [isinstance(value, TensorObject) for value in values]
            return [value for value in values if isinstance(value, TensorObject)] if which == [item in moving for item in self.items] else None

        moving = [item for item in self.tensors if may_need_grad(vm, item, True) and item not in self.recorded("non_differentiable")]
        try:
            body = trace_backward(vm, [self.ctx, ctx, abstract.getattr_(vm, vm.const(self.real), "jvp")], run)
        except SideEffects:
            self.break_graph("has side effects in its jvp")
        if body is None or not body.again or not self.materializes or not all(self.copied()):
            self.break_graph("has a jvp that gives something else than a tangent for each result, or tangents of views")
        return tangents, (body, tuple([item in moving for item in self.tensors]))

    def rule(
        self,
        gradients: tuple[Any, ...],
        bodies: dict[tuple[bool, ...], BackwardCode],
        tangents: tuple[Any, ...],
        forward: tuple[BackwardCode, tuple[bool, ...]] | None,
        kept: list[Any],
    ) -> GradientRule:
        """The rule that the graph gives to autograd. Values that the backward and the `jvp` use and the forward hasn't saved are appended to `kept`."""
        dirty, non_differentiable = self.recorded("dirty_tensors"), self.recorded("non_differentiable")
        graph = self.vm.graph
        if self.transformed and dirty:
            self.break_graph("changes a tensor in place")
        if any(obj not in self.tensors for obj in dirty):
            self.break_graph("changes a tensor that it doesn't give")
        if graph.autograd_node is not None and self.share_memory(dirty, graph.input_fakes()):
            self.break_graph("changes a tensor from outside")
        if self.transformed and any(self.is_computed(node) for node in graph.nodes_of(self.saved)):
            self.break_graph(COMPUTED)
        backwards = {which: BackwardGraph(self.operands(body, gradients, "gradient", kept), takes_any_layout(body)) for which, body in bodies.items()}
        pushed = None if forward is None else ForwardGraph(self.operands(forward[0], tangents, "tangent", kept), self.moved(), forward[1])
        once, again = is_once_differentiable(self.real), all(body.again for body in bodies.values())
        if (graph.autograd_node is None or self.transformed) and not once and not again:
            self.break_graph("has a backward of which autograd records something else than its operators")
        return GradientRule(
            self.real.__name__,
            tuple([index for index, obj in enumerate(self.tensors) if obj in dirty]),
            tuple([index for index, obj in enumerate(self.tensors) if obj in non_differentiable]),
            self.materializes,
            once,
            again,
            backwards,
            pushed,
        )

    def operands(self, body: BackwardCode, given: tuple[Any, ...], kind: str, kept: list[Any]) -> tuple[tuple[str, int], ...]:
        """The operands of a traced graph, in order. `given`: nodes for its arguments of this kind."""
        saved, found = self.vm.graph.nodes_of(self.saved), []
        for node in body.graph.operands:
            if node in given:
                found.append((kind, given.index(node)))
            elif node in saved:
                found.append(("saved", saved.index(node)))
            else:
                if self.transformed and self.is_computed(node):
                    self.break_graph(COMPUTED)
                if node not in kept:
                    kept.append(node)
                found.append(("kept", kept.index(node)))
        return tuple(found)

    def is_computed(self, node: Any) -> bool:
        """Return whether a node has been made since the forward began, and isn't a result."""
        return is_later(node, self.before) and node not in self.vm.graph.nodes_of(self.tensors)

    def moved(self) -> tuple[int, ...]:
        """Indices of the arguments that may have tangents, among those that are tensors."""
        return tuple([index for index, arg in enumerate(self.inputs()) if may_need_grad(self.vm, arg, True)])

    def share_memory(self, tensors: Sequence[Object], fakes: list[torch.Tensor]) -> bool:
        """Return whether some tensors share memory with others."""
        sharing = self.vm.graph.fakes.sharing_memory(fakes) if tensors else []
        return any(isinstance(obj, TensorObject) and any(obj.fake is fake for fake in sharing) for obj in tensors)

    def break_graph(self, why: str) -> NoReturn:
        """Stop the trace, so that the Function runs natively."""
        self.vm.unsupported(self.reason(f"which {why}"))

    def reason(self, why: str) -> breaks.Break:
        """The reason why it runs natively."""
        around = self.vm.graph.transform_around()
        if around is not None:
            return breaks.InsideTransform(around, f"of a function that uses the autograd.Function {self.real.__name__}, {why}")
        return breaks.UnsupportedOperation(f"the autograd.Function {self.real.__name__}, {why}")


def takes_any_layout(body: BackwardCode) -> bool:
    """Return whether a traced backward only runs operators that compute element by element."""
    return all(is_pointwise(name_of(node)) for node in body.graph.graph.nodes if node.op not in ("placeholder", "output"))


def is_once_differentiable(real: type[torch.autograd.Function]) -> bool:
    """Return whether a Function's backward is decorated with `once_differentiable`, possibly under other decorators."""
    function: Any = real.backward
    while function is not None:
        if getattr(function, "__code__", None) is ONCE:
            return True
        function = getattr(function, "__wrapped__", None)
    return False


def is_later(node: Any, before: fx.Node | None) -> bool:
    """Return whether an argument of a node is a node that was made after another, and isn't a placeholder."""
    return before is not None and isinstance(node, fx.Node) and node.op != "placeholder" and node > before


def is_none(value: Object) -> bool:
    """Return whether a value is None."""
    return isinstance(value, ConstObject) and value.value is None
