"""Weak references from outside, those that torch makes in compiled functions, and finalizers."""

from __future__ import annotations

import weakref
from types import FunctionType
from typing import Any

from torch import nn
from torch.distributions import transforms
from torch.optim import Optimizer

from framejit import breaks
from framejit.guards.kinds import IsMissing, KeyAbsent, ValueIs
from framejit.guards.source import Item, Referent, Source
from framejit.objects.core import abstract
from framejit.objects.core.delivery import Delivery
from framejit.objects.core.object import VM, Codegen, NotConstant, Object
from framejit.objects.core.registry import app as traced_as
from framejit.objects.core.registry import models, rules, unsupported, wrapper_for, wraps
from framejit.plain import weak_references as app
from framejit.program import classes

OUTLIVE_STEPS = (nn.Module, nn.Parameter, Optimizer)
"""Types of objects that programs don't release in the middle of a call."""


class WeakReferenceObject(Object):
    """A weakref.ref: calling it gives its referent, which is looked up again in each call of the compiled code."""

    __slots__ = ()
    is_true = True

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        assert self.source is not None
        source, target = self.source.child(Referent), self.value()
        if target is None:
            vm.guard(IsMissing, source)
            return vm.const(None)
        if vm.resumed and not issubclass(type(target), OUTLIVE_STEPS):
            # An object that only the state of a resumed frame keeps alive may be gone by now in eager.
            vm.unsupported(breaks.UnsupportedCall("a weak reference after a graph break"))
        return vm.wrap(target, source)


@wraps(weakref.ReferenceType, shared=True)
def wrap_reference(vm: VM, value: Any, source: Source) -> Object:
    """Wrap a weak reference. One of a subclass may do anything when it is called: it is an instance of a user's class."""
    if type(value) is not weakref.ReferenceType:
        return wrapper_for(object).wrap(vm, value, source)
    return WeakReferenceObject(weakref.ReferenceType, source, value)


class WeakReferenceMade(Object):
    """A weakref.ref that the trace has made in library code, to an object that isn't needed once its owner has released it, such as a dict of hooks."""

    __slots__ = ("target",)
    is_true = True

    def __init__(self, target: Object) -> None:
        super().__init__(weakref.ReferenceType)
        self.target = target

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        return self.target

    def reconstruct(self, cg: Codegen) -> None:
        cg.load(self.target)
        cg.call_const(weakref.ref, 1)

    def referents(self) -> list[Object]:
        return [self.target]


@models(app.weak_reference)
def weak_reference(vm: VM, value: Object) -> Object:
    return WeakReferenceMade(vm.observe(value))


# Looking up in a WeakKeyDictionary from outside, whose code would make a weak reference to the key.


def looked_up(vm: VM, args: list[Object]) -> Object | None:
    """The value of a key, None if it is missing; guarded. Raises NotConstant unless both come from outside, and the key is compared by identity."""
    table, key = map(vm.observe, args)
    if table.source is None or table.cls is not weakref.WeakKeyDictionary or key.source is None or not classes.weakrefoffset(key.cls):
        raise NotConstant(table)
    if (vm.raw_type_lookup(key.cls, "__hash__"), vm.raw_type_lookup(key.cls, "__eq__")) != (object.__hash__, object.__eq__):
        raise NotConstant(key)
    data = vm.observe(abstract.getattr_(vm, table, "data"))
    if data.source is None or data.cls is not dict or vm.effects.is_mutated(data):
        raise NotConstant(data)
    vm.guard(ValueIs, key.source, key.value)
    reference = next((known for known in list(data.value) if isinstance(known, weakref.ReferenceType) and known() is key.value), None)
    if reference is None:
        vm.guard(KeyAbsent, data.source, weakref.ref(key.value))
        return None
    return vm.observe(vm.wrap(data.value[reference], data.source.child(Item, reference)))


@rules(weakref.WeakKeyDictionary.__contains__)
def has_key(vm: VM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    try:
        return None if kwargs or len(args) != 2 else vm.const(looked_up(vm, args) is not None)
    except NotConstant:
        return None


@rules(weakref.WeakKeyDictionary.__getitem__, weakref.WeakKeyDictionary.get)
def value_of_key(vm: VM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """The value, or the default of `get`. A KeyError, which has the reference, is left to the program's own call."""
    has_default = function.value is weakref.WeakKeyDictionary.get
    try:
        found = None if kwargs or not 2 <= len(args) <= 2 + has_default else looked_up(vm, args[:2])
    except NotConstant:
        return None
    if found is None and has_default and not kwargs:
        return args[2] if len(args) > 2 else vm.const(None)
    return found


# Finalizers share one dict, which also changes in the compiler, whenever an object with a finalizer dies.
METHODS = [getattr(method, "fget", method) for method in vars(weakref.finalize).values()]
unsupported(breaks.UnsupportedCall("a method of weakref.finalize"), *(method for method in METHODS if type(method) is FunctionType))

if hasattr(transforms, "weakref"):
    for _transform, _inverse in ((transforms.Transform, app.inverse), (transforms.ComposeTransform, app.inverse_of_parts)):
        traced_as(vars(_transform)["inv"].fget)(_inverse)
