"""Registered opaque objects (`register_opaque_type`) from outside, which operators of `torch.library` take as arguments: inputs of the graph.

An object of a reference type is a black box: another object of its class runs the same entry. The operator may change it, at the time when the graph runs, so
the program can't look into it afterwards in the same trace, nor can the trace have changes pending that the operator might see. For the same reason, the node
of the operator always runs, and is never run again; and the operator may only return tensors, since a fake implementation can't tell anything else without
looking into the object. An object of a value type is a constant, and all that it holds is guarded.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import MemberDescriptorType, NoneType
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from framejit import breaks
from framejit.graph.opaque_objects import FakeOpaque
from framejit.graph.operator_call import OperatorCall, Phase, rule
from framejit.graph.prune import has_tensor
from framejit.graph.trace_state import TraceState
from framejit.guards.source import MISSING, Source
from framejit.objects.core.naming import callable_name
from framejit.objects.core.object import VM, Namespace, NotConstant, Object
from framejit.objects.core.registry import wraps
from framejit.objects.types.userobject import UserObject
from framejit.program import classes
from framejit.torch_state.opaque_types import OpaqueBase, is_of_constants, is_registered

PLAIN = frozenset({bool, int, float, complex, str, bytes, NoneType, torch.dtype, torch.device})
"""Types of attributes that don't change when an operator changes their object."""


@wraps(OpaqueBase, shared=True)
class OpaqueObject(UserObject):
    """An object of a class that can be registered. `node`: its placeholder, once an operator has taken it. `is_exposed`: whether the program has its dict."""

    __slots__ = ("node", "is_exposed")

    def __init__(self, cls: type, source: Source | None = None, value: Any = MISSING) -> None:
        super().__init__(cls, source, value)
        self.node: fx.Node | None = None
        self.is_exposed = False

    @property
    def is_value(self) -> bool:
        """Return whether it is of a value type, whose objects are constants."""
        return is_of_constants(self.cls)

    def _check_as_outside(self, vm: VM) -> None:
        """Break if an operator may have changed what it holds."""
        if self.node is not None and not self.is_value:
            vm.unsupported(breaks.UnsupportedValue(f"{self!r}, which an operator of the graph has taken and may have changed"))

    def instance_dict(self, vm: VM) -> Namespace | None:
        self._check_as_outside(vm)
        return super().instance_dict(vm)

    def instance_dict_as_value(self, vm: VM) -> Namespace | None:
        vm.trail.set(self, "is_exposed", True)
        return super().instance_dict_as_value(vm)

    def get_slot(self, vm: VM, member: MemberDescriptorType) -> Object:
        self._check_as_outside(vm)
        return super().get_slot(vm, member)

    def fetched(self) -> Iterator[Object]:
        """The values that the program has taken out of it."""
        yield from (entry[1] for entry in (self.attrs.entries if self.attrs is not None else {}).values() if entry)
        yield from (value for value in self.slots.values() if value is not None)


class OpaqueArgument(Object):
    """An opaque object as the argument of an operator."""

    __slots__ = ("node",)

    def __init__(self, owner: OpaqueObject, node: fx.Node) -> None:
        super().__init__(owner.cls, owner.source, owner.value)
        self.node = node

    def as_graph_argument(self, vm: VM) -> fx.Node:
        return self.node


def as_argument(vm: VM, operator: Any, obj: Object) -> Object:
    """An observed argument of an operator, as the operator's node takes it."""
    if not isinstance(obj, OpaqueObject) or obj.source is None or not is_registered(obj.cls):
        return obj
    name = callable_name(operator)
    if vm.graph.autograd_node is not None:
        vm.unsupported(breaks.UnsupportedCall(f"{name} with {obj!r}, an opaque object that AOTAutograd is not to trace with"))
    if vm.graph.is_inner():
        vm.unsupported(breaks.UnsupportedCall(f"{name} with {obj!r}, an opaque object, in a graph inside the graph"))
    if obj.is_value:
        rest_on_contents(vm, name, obj)
    else:
        take(vm, name, obj)
    if obj.node is None:
        vm.trail.set(obj, "node", placeholder(vm, obj))
    assert obj.node is not None
    return OpaqueArgument(obj, obj.node)


def placeholder(vm: Any, obj: OpaqueObject) -> fx.Node:
    """A new input of the graph for an opaque object. The fake implementation of an operator gets an object of a value type itself."""
    return vm.graph.inputs.of_opaque(obj, obj.value if obj.is_value else FakeOpaque(obj.value))  # type: ignore[no-any-return]


def take(vm: VM, name: str, obj: OpaqueObject) -> None:
    """Let an operator have an object of a reference type. From now on it counts as changed, so that it is guarded to be none of the other objects."""
    if any(isinstance(effect, Object) and not is_only_taken(effect) for effect in vm.effects.all()):
        vm.unsupported(breaks.UnsupportedCall(f"{name} with {obj!r}, an opaque object, while the program's own changes are to be made after the graph"))
    if obj.is_exposed or not all(value.cls in PLAIN for value in obj.fetched()):
        vm.unsupported(breaks.UnsupportedCall(f"{name} with {obj!r}, an opaque object that the program has looked into"))
    vm.effects.mutated(obj)


def is_only_taken(effect: Object) -> bool:
    """Return whether a value from outside counts as changed only because an operator has taken it."""
    return isinstance(effect, OpaqueObject) and not effect.stored


def rest_on_contents(vm: VM, name: str, obj: OpaqueObject) -> None:
    """Guard everything that an object of a value type holds, which are constants. Breaks if the trace has changed it."""
    if vm.effects.is_mutated(obj) or (obj.attrs is not None and vm.effects.is_mutated(obj.attrs)):
        vm.unsupported(breaks.UnsupportedCall(f"{name} with {obj!r}, an opaque value that the program has changed"))
    try:
        for value in contents(vm, obj):
            value.constant(vm)
    except NotConstant as needed:
        vm.unsupported(breaks.UnsupportedCall(f"{name} with {obj!r}, an opaque value that holds {needed.obj!r}"))


def contents(vm: VM, obj: OpaqueObject) -> Iterator[Object]:
    """The values of all attributes and slots of an object, observed."""
    namespace = obj.instance_dict(vm)
    for _, value in (namespace.open(vm) if namespace is not None else {}).values():
        yield vm.observe(value)
    for cls in classes.mro(obj.cls):
        for member in vars(cls).values():
            if type(member) is MemberDescriptorType:
                yield vm.observe(obj.get_slot(vm, member))


# Operators that take objects of reference types.


@rule(Phase.CHECK)
def reject_answer_of_opaque(state: TraceState, operation: OperatorCall) -> None:
    """Stop the trace at an operator on an opaque object that returns something else than tensors."""
    if has_opaque(operation) and operation.result is not None and not all(map(has_tensor, pytree.tree_leaves(operation.result))):
        state.vm.unsupported(breaks.UnsupportedOperation(f"{operation.name}, which gives something else than tensors for an opaque object"))


@rule(Phase.CHECK)
def reject_handled_opaque(state: TraceState, operation: OperatorCall) -> None:
    """Stop the trace at an operator on an opaque object if the program handles exceptions: a graph with it isn't run again."""
    if has_opaque(operation) and state.vm.note_handlers():
        state.vm.unsupported(breaks.UnsupportedOperation(f"{operation.name}, which may change an opaque object, under a handler of the program's"))


@rule(Phase.NODE)
def keep_opaque(state: TraceState, operation: OperatorCall) -> None:
    """Keep the node of an operator on an opaque object, whether its result is used or not."""
    if has_opaque(operation):
        assert operation.node is not None
        state.body.keep(operation.node)


def has_opaque(operation: OperatorCall) -> bool:
    return any(isinstance(given, FakeOpaque) for given in (*operation.fake_args, *operation.fake_kwargs.values()))
