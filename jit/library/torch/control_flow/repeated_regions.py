"""Regions that are traced once: the guards of one trace are checked for the arguments of another call.

    for layer in self.layers:
        x = layer(x)      # a region: self.layers[1] is called as self.layers[0] was, and has parameters of its own

What a trace does follows from its guards; otherwise an entry would be wrong for other calls. So a region does the same with other arguments if the guards
hold for them, along the same paths: the facts about `self.layers[0].norm.eps` hold for `self.layers[1].norm.eps`. These guards become guards of the
entry. The other region is a node with the first one's graph, and with operands that are found in the same way.

A region is traced itself if guards don't say everything: after side effects, with numbers that vary, with arguments that contain more than
tensors, constants and values from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import fx

from framejit.graph.builder import TorchVM
from framejit.graph.fake import version_of
from framejit.graph.inner import likeness
from framejit.guards.container_sources import LookedUp
from framejit.guards.kinds import Guard, TensorMatch, TypeIs, exact_key
from framejit.guards.source import MISSING, Pinned, Source
from framejit.library.torch.inner_graphs.inner_function import FunctionGraph
from framejit.objects.core.object import Object, settle
from framejit.objects.numbers.numberobject import NumberObject
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.types.constobject import ConstObject
from framejit.objects.types.funcobject import FunctionObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.quick_dataclass import dataclass
from framejit.torch_state.torch_classes import PLAIN_TENSORS

CONSTANTS = frozenset({int, float, bool, str, type(None), torch.dtype, torch.device})
"""Types of arguments that are compared by value."""
MOST = 8
"""The number of regions with similar arguments that are remembered: layers of several kinds may alternate."""


class Unknown(Exception):
    """Signal: an argument, or a result, has more to it than can be compared."""


@dataclass(frozen=True, slots=True)
class RegionCall:
    """A call of a region's function. `tensors`, `outside`: the arguments that are tensors, and the other values from outside, each in order, including those
    in tuples. `key`: two calls are only compared if their keys are equal.
    """

    key: Any
    function: Object
    tensors: tuple[TensorObject, ...]
    outside: tuple[Object, ...]

    def sourced(self) -> list[Object]:
        """All arguments that are tensors or from outside, in an order that is the same for calls of one key."""
        return [*self.outside, *self.tensors]


def call_of_region(vm: TorchVM, function: Object, args: Object, names: Object) -> RegionCall | None:
    """A call that can be compared with others; None if it can't."""
    function, graph = settle(vm.observe(function)), vm.graph
    if not isinstance(function, FunctionObject) or function.source is None or graph.function_modes.stack or graph.transform_around() is not None:
        return None
    tensors: list[TensorObject] = []
    outside: list[Object] = []
    try:
        described = describe(vm, args, tensors, outside)
    except Unknown:
        return None
    state = graph.modes.current, graph.modes.switches.differences(), vm.directives, graph.function_modes.level, vm.is_handling()
    key = id(function), described, vm.observe(names).constant(vm), repr(state)
    return RegionCall(key, function, tuple(tensors), tuple(outside))


def describe(vm: TorchVM, arg: Object, tensors: list[TensorObject], outside: list[Object]) -> Any:
    """A description of an argument without its tensors and values from outside, which are appended to these lists."""
    arg = settle(vm.observe(arg))
    if isinstance(arg, TensorObject):
        tensors.append(arg)
        return torch.Tensor
    if arg.source is not None:
        outside.append(arg)
        return Object
    if type(arg) is TupleObject and arg.cls is tuple:
        return tuple([describe(vm, item, tensors, outside) for item in arg.items(vm)])
    if type(arg) in (ConstObject, NumberObject) and arg.cls in CONSTANTS and arg.is_known():
        return exact_key(arg.constant(vm))
    raise Unknown


@dataclass(frozen=True, slots=True)
class Unmoved:
    """The parts of the trace's state, besides values, that tracing a region must leave unchanged."""

    readers: int
    storages: int
    grad_looks: int

    @classmethod
    def now(cls, vm: TorchVM) -> Unmoved:
        return cls(len(vm.graph.readers), len(vm.graph.storages), vm.graph.modes.grad_looks)


def has_changes(vm: TorchVM) -> bool:
    """Return whether the trace has changed anything from outside apart from tensors, whose changes show on their Objects."""
    return any(not isinstance(effect, TensorObject) for effect in vm.effects.all())


def look(tensor: TensorObject, vm: TorchVM) -> Any:
    """The facts that traced functions can find out about a tensor. Raises Unknown if that is more than its fake shows."""
    fake = tensor.look(vm)
    if tensor.cls not in PLAIN_TENSORS or fake.layout is not torch.strided or (tensor.attrs is not None and tensor.attrs.entries):
        raise Unknown
    grad = settle(tensor.grad) if isinstance(tensor.grad, Object) else tensor.grad
    if grad is not MISSING and grad.cls is not type(None):
        raise Unknown
    return tensor.cls, likeness(fake), fake.is_leaf, fake._is_view(), fake.is_inference(), version_of(fake), grad is MISSING


@dataclass(frozen=True, slots=True, eq=False)
class TracedRegion:
    """A region that has been traced, whose node runs it by `run`. `guards`: the trace's guards about arguments from outside, and about what is reached from
    them. `operands`: those of its graph; `looks`: the looks of these, and of the arguments that are tensors. `results`, `structure`: see FunctionGraph.
    """

    call: RegionCall
    run: Callable[..., Any]
    module: fx.GraphModule
    name: str
    guards: tuple[Guard, ...]
    operands: tuple[TensorObject, ...]
    looks: dict[int, Any]
    results: list[Object]
    structure: Object

    def operands_for(self, vm: TorchVM, call: RegionCall) -> list[Object] | None:
        """The operands with which the graph computes another call; None if it may not. In that case the caller undoes the guards added meanwhile."""
        places = self.places_in(call)
        if places is None or has_changes(vm):
            return None
        values: dict[Source, Any] = {}
        for guard in self.guards:
            moved = guard.moved(lambda source: source.moved(places))
            if moved.sources() != guard.sources():
                if not moved.check(fetched(vm, moved.source, values), vm.call):
                    return None
                vm.rest_on(moved)
        stands_for = dict(zip(map(id, self.call.tensors), call.tensors))
        if any(stands_for[id(tensor)] is not other for tensor, other in zip(self.call.tensors, call.tensors)):
            return None
        for operand in self.operands:
            if id(operand) not in stands_for:
                stands_for[id(operand)] = found_at(vm, operand, places, values)
        if len({id(tensor) for tensor in stands_for.values()}) < len(stands_for):
            return None
        try:
            alike = all(look(stands_for[key], vm) == looked for key, looked in self.looks.items())
        except Unknown:
            return None
        return [stands_for[id(operand)] for operand in self.operands] if alike else None

    def places_in(self, call: RegionCall) -> dict[Source, Source] | None:
        """For each argument from outside, by path, the path of the one in its place; None if the arguments are related in another way."""
        places: dict[Source, Source] = {}
        for one, other in zip(self.call.outside, call.outside, strict=True):
            assert one.source is not None and other.source is not None
            if places.setdefault(one.source, other.source) is not other.source:
                return None
        for one, other in zip(self.call.sourced(), call.sourced(), strict=True):
            inside = None if one.source is None or one.source.base is None else one.source.base.moved(places)
            if inside is not None and one.source is not None and inside is not one.source.base:
                if other.source is None or inside.child(type(one.source), one.source.payload) is not other.source:
                    return None
        return places


def fetched(vm: TorchVM, source: Source, values: dict[Source, Any]) -> Any:
    """The real value at a path. `values`: the values fetched so far."""
    if source.base is None:
        return vm.call
    if source not in values:
        base = fetched(vm, source.base, values)
        values[source] = MISSING if base is MISSING else source.fetch(vm.call) if isinstance(source, LookedUp) else source.step(base)
    return values[source]


def found_at(vm: TorchVM, operand: TensorObject, places: dict[Source, Source], values: dict[Source, Any]) -> TensorObject:
    """The tensor in the place of an operand from outside."""
    assert operand.source is not None
    source = operand.source.moved(places)
    found = operand if source is operand.source else vm.observe(vm.wrap(fetched(vm, source, values), source))
    assert isinstance(found, TensorObject)  # its type has been compared
    return found


def on_the_way(sources: Iterable[Source | None]) -> set[Source]:
    """The paths that these lead through. Code that looks at what is there may reach the values at the ends on another way than by its arguments."""
    found: set[Source] = set()
    for source in sources:
        base = None if source is None else source.base
        while base is not None and base.base is not None and base not in found:
            if not isinstance(base, Pinned):
                found.add(base)
            base = base.base
    return found


def below(source: Source | None, places: set[Source]) -> bool:
    """Return whether a path, or that of a key by which it looks something up, goes through one of these."""
    while source is not None and source not in places:
        if isinstance(source, LookedUp) and below(source.payload, places):
            return True
        source = source.base
    return source is not None


def note_region(
    vm: TorchVM, call: RegionCall, traced: FunctionGraph, looked_at: Sequence[Object], run: Callable[..., Any], module: fx.GraphModule, name: str
) -> None:
    """Remember a region that has been traced, if guards alone determine the arguments for which it does the same."""
    known = vm.graph.traced_regions.setdefault(call.key, [])
    objects = [vm.graph.object_of(node.meta["example_value"]) for node in traced.graph.operands]
    operands = [obj for obj in objects if obj is not None]
    at_tensors = {tensor.source for tensor in call.tensors if tensor.source is not None}
    guards = [*guards_below(vm, {arg.source for arg in call.outside if arg.source is not None})]
    if (
        len(known) >= MOST
        or len(operands) < len(objects)
        or any(operand.source is None and operand not in call.tensors for operand in operands)
        or any(not isinstance(guard, (TensorMatch, TypeIs)) for guard in guards_below(vm, at_tensors))
        or has_changes(vm)
        or not all(is_plain(settle(obj)) for obj in looked_at)
        or not on_the_way(arg.source for arg in call.sourced()).isdisjoint(settle(obj).source for obj in looked_at)
        or any(not isinstance(result, TensorObject) and (type(result) is not ConstObject or result.source is not None) for result in traced.leaves)
    ):
        return
    try:
        looks = {id(tensor): look(tensor, vm) for tensor in (*call.tensors, *operands)}
    except Unknown:
        return
    region = TracedRegion(call, run, module, name, tuple(guards), tuple(operands), looks, traced.leaves, traced.structure)
    known.append(region)
    vm.trail.learned(region, known.remove, region)


def is_plain(obj: Object) -> bool:
    """Return whether guards cover everything that a trace has found out about a value from outside."""
    if isinstance(obj, NumberObject):
        return obj.is_known()
    return not isinstance(obj, TensorObject) or (obj.cls in PLAIN_TENSORS and not obj.has_more())


def guards_below(vm: TorchVM, places: set[Source]) -> Iterator[Guard]:
    """The guards so far about these values, and about what is reached from them."""
    return (guard for guard in vm.guards.since(0) if any(below(source, places) for source in guard.sources()))
