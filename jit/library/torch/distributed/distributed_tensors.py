"""torch.distributed.tensor: distributed tensors are values of the graph as they are. The methods that convert to them and back, which communicate, are nodes.

    d = DTensor.from_local(x, mesh, [Shard(0)])         # a node; mesh and placements belong to its target
    (d * 2).redistribute(placements=[Replicate()]).to_local()

The device mesh of a tensor is guarded by identity, its placements by value.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import BuiltinMethodType, FunctionType
from typing import Any

import torch
from torch import fx
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

from framejit import breaks
from framejit.breaks import Break
from framejit.graph.builder import TorchVM
from framejit.graph.fake import storages
from framejit.graph.trace_state import TraceState
from framejit.guards.kinds import ValueIs
from framejit.guards.source import Source
from framejit.library.torch.overrides.made_wrappers import WrapperTensors, flattens, guard_value
from framejit.objects.core import abstract
from framejit.objects.core.delivery import Delivery
from framejit.objects.core.object import VM, NotConstant, Object
from framejit.objects.core.registry import models, unsupported, wrapper_for, wraps
from framejit.objects.tensors.tensorkind import kind_of_class, tensor_kind
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchcall import enter
from framejit.objects.tensors.torchobject import TorchConstObject, make_constructor
from framejit.objects.types.constobject import CONST_BUILDERS
from framejit.torch_state.torch_classes import is_distributed

ALLOWS_OTHERS = getattr(torch._C, "_get_dtensor_allow_implicit_replication", None)
"""Says whether operators take distributed tensors and others together."""


@tensor_kind(40)
class DistributedTensors(WrapperTensors):
    """Tensors that are distributed over processes: wrappers of one local tensor and a layout."""

    name = "distributed"

    def holds_class(self, cls: type) -> bool:
        return is_distributed(cls) and flattens(cls)

    def meet(self, state: TraceState) -> None:
        if not state.demands.takes_distributed:
            state.vm.unsupported(breaks.TensorSubclass("DTensor, in a graph that the backend can't compile"))
        if ALLOWS_OTHERS is not None:
            state.vm.guards.read(ALLOWS_OTHERS)
        super().meet(state)

    def guard_contents(self, vm: VM, made: Object) -> None:
        """Guard how a distributed tensor lies on its device mesh, and its part in this process."""
        vm.observe(abstract.getattr_(vm, made, "_local_tensor"))
        layout = vm.observe(abstract.getattr_(vm, made, "_spec"))
        mesh = vm.observe(abstract.getattr_(vm, layout, "mesh"))
        if mesh.source is None:
            vm.unsupported(breaks.TensorSubclass("DTensor, whose device mesh isn't from outside"))
        vm.guard(ValueIs, mesh.source, mesh.value)
        for name in ("placements", "tensor_meta", "shard_order", "use_strided_shard_as_shard_order"):
            if name in layout.value.__dict__:
                guard_value(vm, abstract.getattr_(vm, layout, name), layout)

    def refusal_as_output(self, state: TraceState, node: fx.Node) -> Break | None:
        """AOTAutograd makes views of inputs with an operator that distributed tensors don't have."""
        if node.op == "placeholder" or state.instruction_of(node) is None:
            return None
        outside = storages(fake for fake in state.input_fakes() if is_distributed(type(fake)))
        return VIEW_LEAVES if storages([node.meta["example_value"]]) & outside else None


VIEW_LEAVES = breaks.NotInsideAutogradNode("a view of a distributed tensor from outside, which leaves the graph,")


class PlacementObject(TorchConstObject):
    """The layout of a distributed tensor along one dimension of its device mesh: immutable, compared by value."""

    __slots__ = ()

    def getattr(self, vm: VM, name: str) -> Object:
        if isinstance(vm.raw_type_lookup(self.cls, name), FunctionType):
            return super().getattr(vm, name)
        found = getattr(self.constant(vm), name, None)
        if type(found) in (int, str):
            return vm.const(found)
        return PlacementQuestion(self, name) if name in QUESTIONS else super().getattr(vm, name)


class PlacementQuestion(Object):
    """A bound method that asks a placement what kind it is."""

    __slots__ = ("placement", "name")

    def __init__(self, placement: PlacementObject, name: str) -> None:
        super().__init__(BuiltinMethodType)
        self.placement = placement
        self.name = name

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        given = [vm.observe(arg).constant(vm) for arg in args]
        named = {name: vm.observe(arg).constant(vm) for name, arg in kwargs.items()}
        return vm.const(getattr(self.placement.constant(vm), self.name)(*given, **named))


QUESTIONS = ("is_shard", "is_replicate", "is_partial")


def wrap_placement(vm: VM, value: Any, source: Source) -> Object:
    """Wrap a placement: guarded by value, when asked for. Unusual ones are ordinary objects."""
    if type(value) not in (Shard, Replicate, Partial):
        return wrapper_for(object).wrap(vm, value, source)
    return PlacementObject(value, source, pending=source is not None)


def real_of(vm: VM, value: Object) -> Any:
    """An argument that isn't a tensor. The identity of a device mesh is guarded."""
    value = vm.observe(value)
    if value.cls is DeviceMesh and value.source is not None:
        vm.guard(ValueIs, value.source, value.value)
        return value.value
    if value.cls in (list, tuple, torch.Size):
        return value.cls(real_of(vm, item) for item in abstract.iterate(vm, value))
    return value.as_real(vm)


def target_of(function: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    """The function of a node that calls a method of distributed tensors."""

    def call(tensor: torch.Tensor) -> Any:
        return function(tensor, **options)

    call.__name__ = function.__name__
    return call


def makes_node(function: Callable[..., Any], refused: Callable[[dict[str, Any]], bool] = lambda options: False) -> None:
    """Make calls of a method nodes. `refused`: whether a call with these arguments, besides the tensor, runs natively."""
    signature = inspect.signature(function)

    def call(vm: TorchVM, *args: Object, **kwargs: Object) -> Object:
        (_, tensor), *others = signature.bind(*args, **kwargs).arguments.items()
        tensor = vm.observe(tensor)
        try:
            options = {name: real_of(vm, value) for name, value in others}
        except NotConstant:
            options = None
        if options is None or refused(options) or not isinstance(tensor, TensorObject):
            vm.unsupported(breaks.TensorSubclass(f"DTensor, of which {function.__name__}() is given what no node can take"))
        if "async_op" in options:
            options["async_op"] = False  # otherwise its local tensor is of another class, which must be waited for
        kind = kind_of_class(DTensor)
        assert isinstance(kind, DistributedTensors)
        kind.meet(vm.graph)
        return enter(vm, target_of(function, options), [tensor])

    models(function)(call)


def part_of_mesh(vm: VM, mesh: Object, key: Object) -> Object:
    """`mesh["tp"]`, which is the same in each call."""
    return vm.pin(real_of(vm, mesh)[real_of(vm, key)])


def layout_of(vm: VM, tensor: TensorObject) -> Any:
    """The layout of a distributed tensor that an operator has made."""
    return tensor.look(vm)._spec  # type: ignore[attr-defined]


def read_mesh(vm: VM, tensor: TensorObject) -> Object:
    """`tensor.device_mesh`"""
    return vm.pin(layout_of(vm, tensor).mesh)


def read_placements(vm: VM, tensor: TensorObject) -> Object:
    """`tensor.placements`"""
    return vm.from_real(layout_of(vm, tensor).placements)


wraps(Placement)(wrap_placement)
for cls in (Shard, Replicate, Partial):
    models(cls)(make_constructor(cls))
    CONST_BUILDERS[cls] = lambda vm, value: PlacementObject(value)
makes_node(DTensor.from_local, lambda options: options.get("run_check") or options.get("device_mesh") is None)
makes_node(DTensor.to_local)
makes_node(DTensor.redistribute)
makes_node(DTensor.full_tensor)
unsupported(breaks.TensorSubclass("DTensor, made by distribute_tensor(), which communicates"), distribute_tensor)
models(DeviceMesh.__getitem__)(part_of_mesh)
models(DTensor.device_mesh.fget)(read_mesh)
models(DTensor.placements.fget)(read_placements)
