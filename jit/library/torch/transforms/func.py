"""torch.func: the transformed function is an inner graph, traced as if there were no transform, and an operator runs the transform on it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
from torch import fx
from torch._functorch import eager_transforms, vmap
from torch._functorch.predispatch import lazy_load_decompositions
from torch.utils._device import DeviceContext

from framejit import breaks
from framejit.graph.body import Mapping, Transforming, transforms_of, without_record
from framejit.graph.builder import TorchVM
from framejit.library.torch.inner_graphs.changes import Reached, reachable, stored_outside
from framejit.library.torch.transforms import transforms, zero_tensors
from framejit.objects.core import abstract
from framejit.objects.core.object import Codegen, NotConstant, Object, Raise, settle
from framejit.objects.core.registry import app, models
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.types.constobject import ConstObject
from framejit.objects.types.listobject import ListObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.plain import func as plain
from framejit.torch_state.symbols import symbolic_shapes
from framejit.torch_state.torch_classes import PLAIN_TENSORS

VMAP, JVP = "torch.vmap", "torch.func.jvp"
app(vmap._flat_vmap)(plain.flat_vmap)
app(eager_transforms.grad_and_value_impl)(plain.grad_and_value)
app(eager_transforms._vjp_with_argnums)(plain.vjp)
app(eager_transforms._jvp_with_argnums)(plain.jvp)
app(eager_transforms.linearize)(plain.linearize)


@models(lazy_load_decompositions)
def load_decompositions(vm: TorchVM) -> Object:
    """functorch's decompositions needn't be loaded here: the operator that uses them loads them when it runs on fakes."""
    return vm.const(None)


@models(torch._C._are_functorch_transforms_active)
def are_transforms_active(vm: TorchVM) -> Object:
    """Return whether a transform is in force here: one that the trace has begun, or one around the call."""
    return vm.const(any(True for _ in transforms_of(vm.graph.body)) or vm.guards.read(torch._C._are_functorch_transforms_active))


@models(plain.stop)
def stop(vm: TorchVM, what: Object) -> NoReturn:
    transform, why = plain_list(vm, what)
    vm.unsupported(breaks.InsideTransform(transform, why))


def items(vm: TorchVM, values: Object) -> list[Object]:
    """The items of a list or tuple."""
    return [vm.observe(item) for item in abstract.iterate(vm, vm.observe(values))]


def plain_list(vm: TorchVM, values: Object) -> list[Any]:
    """A list of constants."""
    return [item.constant(vm) for item in items(vm, values)]


class Transform:
    """A transform with this name of a function of some arguments, which is traced as an inner graph.

    The inner graph has its own tensors for the tensors among the arguments; the others stay the same. `given`: the indices of these tensors, in order.
    """

    def __init__(self, vm: TorchVM, name: str, args: Sequence[Object], taken: Sequence[int] | None = None) -> None:
        self.vm = vm
        self.name = name
        self.args = args
        self.given = [index for index, arg in enumerate(args) if isinstance(arg, TensorObject)] if taken is None else list(taken)
        if not all(isinstance(args[index], TensorObject) and args[index].cls in PLAIN_TENSORS for index in self.given):
            self.break_graph("of what is no plain tensor")

    def break_graph(self, why: str) -> NoReturn:
        self.vm.unsupported(breaks.InsideTransform(self.name, why))

    def tensors(self) -> list[Object]:
        """The arguments for which the inner graph has its own tensors."""
        return [self.args[index] for index in self.given]

    def places(self, which: Sequence[int] | None) -> tuple[int, ...] | None:
        """Convert indices of arguments to indices among the tensors."""
        if which is None:
            return None if len(self.given) == len(self.args) else self.break_graph("of what is no plain tensor")
        if not set(which) <= set(self.given):
            self.break_graph("of what is no plain tensor")
        return tuple([self.given.index(index) for index in which])

    def trace(
        self, function: Object, seen: Callable[[int, torch.Tensor], torch.Tensor], enables_grad: bool = False, kind: Transforming | None = None
    ) -> list[Object]:
        """The result of the function, in the inner graph. `seen(index, fake)`: the fake that it gets for an argument with this one. `kind`: the description of
        the transform; by default its name, and whether it enables gradients."""
        vm, graph = self.vm, self.vm.graph
        if enables_grad and any(mode.cls is not DeviceContext for mode in graph.function_modes.stack):
            self.break_graph("under a mode that sees each of torch's functions")  # also those that torch's own code calls
        mark, before, modes = vm.trail.mark(), reachable(vm, [function, *stored_outside(vm)]), graph.modes.current
        graph.begin_inner(transform=kind or Transforming(self.name, enables_grad))
        answers = vm.answers.count()
        try:
            inside = [self.inside(index, arg, seen) if index in self.given else arg for index, arg in enumerate(self.args)]
        except RuntimeError as error:
            self.break_graph(f"of arguments that torch refuses ({error})")
        graph.modes.set_grad_enabled(enables_grad or modes.grad)
        try:
            result = vm.observe(abstract.call(vm, function, [ListObject(inside)]))
        except Raise:
            vm.answers.after_raise_inside(answers)
            self.break_graph("of a function that raises, or gives what it must not")
        graph.modes.set_grad_enabled(modes.grad)
        if graph.modes.current != modes:
            self.break_graph("of a function that leaves modes of torch's changed")
        if self.leaks(mark, before):
            self.break_graph("of a function that keeps a tensor of its own outside")
        if graph.body.changes_arguments():
            self.break_graph("of a function that changes its arguments in place, or what is outside")
        return items(vm, result)

    def leaks(self, mark: int, before: Reached) -> bool:
        """Return whether something that the function has changed holds a tensor of the inner graph. Other changes are as fine inside a transform as outside."""
        body = self.vm.graph.body.fx
        seen: set[int] = set()
        waiting = [*self.vm.effects.mutated_since(mark), *[obj for obj in before.made.values() if isinstance(obj, Object)]]
        while waiting:
            obj = settle(waiting.pop())
            if isinstance(obj, (TensorObject, PullBack)) and obj.node.graph is body:
                return True
            if id(obj) not in seen and (obj.source is None or self.vm.effects.is_mutated(obj)):
                seen.add(id(obj))
                waiting += obj.referents()
        return False

    def inside(self, index: int, arg: Object, seen: Callable[[int, torch.Tensor], torch.Tensor]) -> TensorObject:
        """The inner graph's own tensor for an argument."""
        assert isinstance(arg, TensorObject)
        return self.vm.graph.inner_argument("arg", lambda: seen(index, arg.look(self.vm)), arg.node)

    def checked(self, values: Sequence[Object]) -> Sequence[Object]:
        """Results that must be tensors."""
        if not all(isinstance(value, TensorObject) for value in values):
            self.break_graph("of a function that gives what is no tensor")
        return values

    def run(self, target: Callable[..., Any], outputs: Sequence[Object], *options: Any, further: Sequence[Sequence[Object]] = ()) -> fx.Node:
        """The node that runs the transform on the inner graph, which returns these outputs. `further`: tensors that it takes besides the arguments."""
        graph = self.vm.graph
        try:
            inner = graph.end_inner(outputs)
        except NotConstant:
            self.break_graph("of a function that gives a value of another graph")
        args = [graph.nodes_of(values) for values in (self.tensors(), *further)]
        return graph.node_of(target, (graph.attach(inner, {}), *options, *args, inner.operands), raises=False)

    def results(self, node: fx.Node) -> list[Object]:
        """The tensors that such a node returns."""
        return items(self.vm, self.vm.graph.result_of(node))


def alone(index: int, fake: torch.Tensor) -> torch.Tensor:
    """A tensor as seen by functions under a transform that hides no dimension."""
    return without_record(fake)


def one_of(fake: torch.Tensor, dim: int) -> torch.Tensor:
    """A tensor mapped along a dimension, as the mapped function sees it. That is traced even if there is nothing to map, since torch also calls it then."""
    is_empty = fake.size(dim) == 0
    if symbolic_shapes.guard_or_false(is_empty) if type(is_empty) is torch.SymBool else is_empty:
        sizes, strides = list(fake.size()), list(fake.stride())
        del sizes[dim], strides[dim]
        found = fake.new_empty_strided(sizes, strides)
        return found.conj() if fake.is_conj() else found
    return without_record(fake.select(dim, 0))


@models(plain.call_vmapped)
def call_vmapped(vm: TorchVM, function: Object, args: Object, dims: Object, randomness: Object, size: Object) -> Object:
    """Call a function under torch.vmap. Tensors that are not mapped are the same as outside."""
    mapped = plain_list(vm, dims)
    taken = [index for index, dim in enumerate(mapped) if dim is not None]
    transform = Transform(vm, VMAP, items(vm, args), taken)
    how = vm.observe(randomness).constant(vm)
    kind = Transforming(transform.name, False, Mapping(vm.observe(size), how))
    leaves, out_dims, rest = transform.trace(function, lambda index, fake: one_of(fake, mapped[index]), kind=kind)
    found, where = items(vm, leaves), plain_list(vm, out_dims)
    outputs = [item for item in found if isinstance(item, TensorObject)]
    others = [item for item, dim in zip(found, where, strict=True) if not isinstance(item, TensorObject)]
    if not outputs or any(not isinstance(item, ConstObject) and item.source is None for item in others):
        transform.break_graph("of a function that gives what is no tensor")
    kept = tuple([dim for item, dim in zip(found, where) if isinstance(item, TensorObject)])
    if any(dim is not None for item, dim in zip(found, where) if not isinstance(item, TensorObject)):
        transform.break_graph("of a function that gives what is no tensor")
    made = iter(transform.results(transform.run(transforms.vmap, outputs, tuple([mapped[index] for index in taken]), kept, how)))
    return TupleObject([ListObject([next(made) if isinstance(item, TensorObject) else item for item in found]), rest])


def differentiable(places: Sequence[int]) -> Callable[[int, torch.Tensor], torch.Tensor]:
    """The view that functions under `grad` and `vjp` have of their arguments: those at these indices are leaves."""

    def seen(index: int, fake: torch.Tensor) -> torch.Tensor:
        return alone(index, fake).requires_grad_(index in places)

    return seen


@models(plain.call_grad_and_value)
def call_grad_and_value(vm: TorchVM, function: Object, args: Object, which: Object) -> Object:
    wanted = plain_list(vm, which)
    transform = Transform(vm, "torch.func.grad", items(vm, args))
    places = transform.places(wanted)
    output, aux, rest = transform.trace(function, differentiable(wanted), enables_grad=True)
    outputs = transform.checked([output, *items(vm, aux)])
    made = transform.results(transform.run(transforms.grad_and_value, outputs, places))
    gradients, output, others = made[: len(wanted)], made[len(wanted)], made[len(wanted) + 1 :]
    return TupleObject([ListObject(gradients), output, ListObject(others), rest])


@models(plain.call_jvp)
def call_jvp(vm: TorchVM, function: Object, args: Object, which: Object, tangents: Object, strict: Object) -> Object:
    vm.graph.fakes.stop_caching()
    zero_tensors.keep_fakes()
    wanted = None if vm.observe(which).cls is type(None) else plain_list(vm, which)
    transform = Transform(vm, JVP, items(vm, args))
    places, along = transform.places(wanted), transform.checked(items(vm, tangents))
    outputs, aux, rest = transform.trace(function, alone)
    outs, others = transform.checked(items(vm, outputs)), transform.checked(items(vm, aux))
    is_strict = bool(vm.observe(strict).constant(vm))
    made = transform.results(transform.run(transforms.jvp, [*outs, *others], places, len(outs), is_strict, further=[along]))
    count = len(outs)
    return TupleObject([ListObject(made[:count]), ListObject(made[count : 2 * count]), ListObject(made[2 * count :]), rest])


class PullBack(Object):
    """The function that a node of a `vjp` returns. It can't leave the graph: if it would, a restart leaves the whole `vjp` to native code."""

    __slots__ = ("vm", "node", "place")
    transform = "torch.func.vjp"

    def __init__(self, vm: TorchVM, node: fx.Node, place: Any) -> None:
        self.cls = type(plain.vjp)
        self.source = None
        self.value = None
        self.attrs = None
        self.vm, self.node, self.place = vm, node, place

    def as_graph_argument(self, vm: Any) -> Any:
        return self.node

    def reconstruct(self, cg: Codegen) -> None:
        self.vm.restart(self.place, breaks.InsideTransform(self.transform, "whose function leaves the graph"))


@models(plain.call_vjp)
def call_vjp(vm: TorchVM, function: Object, args: Object, which: Object) -> Object:
    place = vm.place()
    transform = Transform(vm, "torch.func.vjp", items(vm, args))
    wanted = None if vm.observe(which).cls is type(None) else plain_list(vm, which)
    places = transform.places(wanted)
    outputs, aux, rest = transform.trace(function, differentiable(transform.given if wanted is None else wanted), enables_grad=True)
    outs, others = transform.checked(items(vm, outputs)), transform.checked(items(vm, aux))
    node = transform.run(transforms.vjp, [*outs, *others], places, len(outs))
    graph, count = vm.graph, len(outs) + len(others)
    made = [graph.call_on_nodes(operator.getitem, (node, index)) for index in range(count)]
    backward = PullBack(vm, graph.node_of(operator.getitem, (node, count)), place)
    return TupleObject([ListObject(made[: len(outs)]), ListObject(made[len(outs) :]), rest, backward])


@models(plain.call_pull_back)
def call_pull_back(vm: TorchVM, backward: Object, gradients: Object, retain_graph: Object, create_graph: Object) -> Object:
    values = items(vm, gradients)
    if not all(isinstance(value, TensorObject) for value in values):
        vm.unsupported(breaks.InsideTransform("torch.func.vjp", "whose function is given what is no tensor"))
    how = [vm.observe(option).constant(vm) for option in (retain_graph, create_graph)]
    graph = vm.graph
    node = graph.node_of(transforms.pull_back, (*graph.nodes_of([backward]), graph.nodes_of(values), *how))
    return ListObject(items(vm, graph.result_of(node)))
