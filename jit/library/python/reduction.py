"""The parts that copy and pickle take objects apart into (Objects/typeobject.c: object___reduce_ex___impl)."""

from __future__ import annotations

import copyreg
import struct
from collections import OrderedDict, defaultdict
from typing import Any

from framejit import breaks
from framejit.guards.source import MISSING
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, NotConstant, Object, is_own_slot
from framejit.objects.core.registry import models
from framejit.objects.types import typefields
from framejit.objects.types.constobject import NONE, c_new
from framejit.objects.types.dictmethods import factory_of
from framejit.objects.types.dictobject import DictObject, dict_of
from framejit.objects.types.listobject import ListObject
from framejit.objects.types.setobject import SetObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.objects.types.userobject import UserObject
from framejit.program import classes

POINTER = struct.calcsize("P")
MANAGED_DICT = 1 << 4


def has_hidden_state(cls: type, slots: int = 0) -> bool:
    """Return whether instances have C fields besides so many slots (Objects/typeobject.c: object_getstate_default, which refuses to copy them)."""
    size = object.__basicsize__ + POINTER * ((classes.weakrefoffset(cls) > 0) + slots)
    if classes.dictoffset(cls) and not classes.flags(cls) & MANAGED_DICT:
        size += POINTER
    return classes.itemsize(cls) > 0 or classes.basicsize(cls) > size


def overrides(vm: VM, cls: type, name: str) -> bool:
    """Return whether a class has a method of its own in the place of one of object's, or of none."""
    return vm.raw_type_lookup(cls, name) not in (MISSING, vars(object).get(name, MISSING))


@models(object.__reduce_ex__)
def reduce_ex(vm: VM, self: Object, protocol: Object) -> Object:
    """The class's own `__reduce__`, or the parts from which `__new__` and the state make the object again."""
    if vm.observe(protocol).cls is not int:
        vm.unsupported(breaks.UnsupportedCall("object.__reduce_ex__ with a protocol that is no int"))
    if isinstance(self, DictObject) and self.cls in (OrderedDict, defaultdict):
        return reduce_mapping(vm, self)
    if isinstance(self, SetObject) and self.cls in (set, frozenset):
        return TupleObject([vm.const(self.cls), TupleObject([ListObject(abstract.iterate(vm, self))]), NONE])
    if overrides(vm, self.cls, "__reduce__"):
        return abstract.call_method(vm, self, "__reduce__")
    if protocol.constant(vm) < 2:
        return reduce_by_base(vm, self)
    return reduce_newobj(vm, self)


def reduce_newobj(vm: VM, self: Object) -> Object:
    """Objects/typeobject.c: reduce_newobj."""
    if not isinstance(self, (UserObject, TupleObject, ListObject, DictObject)):
        raise NotConstant(self)
    arguments, named = arguments_of_new(vm, self)
    needs_nothing_else = arguments is None and not isinstance(self, (ListObject, DictObject))
    state = state_of(vm, self, needs_nothing_else)
    items = abstract.iter_(vm, self) if isinstance(self, ListObject) else NONE
    pairs = abstract.iter_(vm, abstract.call_method(vm, self, "items")) if isinstance(self, DictObject) else NONE
    given = [] if arguments is None else abstract.iterate(vm, arguments)
    if named is None:
        return TupleObject([vm.const(copyreg.__newobj__), TupleObject([vm.const(self.cls), *given]), state, items, pairs])  # type: ignore[attr-defined]
    parts = TupleObject([vm.const(self.cls), TupleObject(given), named])
    return TupleObject([vm.const(copyreg.__newobj_ex__), parts, state, items, pairs])  # type: ignore[attr-defined]


def arguments_of_new(vm: VM, self: Object) -> tuple[Object | None, Object | None]:
    """The arguments with which `__new__` makes an object again, and those by keyword (_PyObject_GetNewArguments); None where there are none."""
    if overrides(vm, self.cls, "__getnewargs_ex__"):
        both = vm.observe(abstract.call_method(vm, self, "__getnewargs_ex__"))
        parts = [vm.observe(part) for part in abstract.iterate(vm, both)] if both.cls is tuple else []
        if [part.cls for part in parts] != [tuple, dict]:
            raise NotConstant(self)
        return parts[0], parts[1] if abstract.truth(vm, parts[1]) else None
    if not overrides(vm, self.cls, "__getnewargs__"):
        return None, None
    found = vm.observe(abstract.call_method(vm, self, "__getnewargs__"))
    if found.cls is not tuple:
        raise NotConstant(self)
    return found, None


def reduce_by_base(vm: VM, self: Object) -> Object:
    """copyreg._reduce_ex, of protocols before 2: the nearest base in C makes the object again, from a value of that base."""
    base = next(cls for cls in classes.mro(self.cls) if not classes.flags(cls) & classes.HEAP_TYPE)
    if base is self.cls or not isinstance(self, (UserObject, TupleObject, ListObject, DictObject)) or c_new(self.cls) is not base.__new__:
        raise NotConstant(self)
    slots = vm.raw_type_lookup(self.cls, "__slots__")
    if slots is not MISSING and not (type(slots) is tuple and not slots):
        raise NotConstant(self)  # these protocols refuse slots
    value = NONE if base is object else abstract.call(vm, vm.const(base), [self], {})
    state = state_of(vm, self, is_whole=False)
    parts = [vm.const(copyreg._reconstructor), TupleObject([vm.const(self.cls), vm.const(base), value])]  # type: ignore[attr-defined]
    return TupleObject([*parts, state] if abstract.truth(vm, state) else parts)


def state_of(vm: VM, self: Object, is_whole: bool) -> Object:
    """The state that `__getstate__` gives, which an instance may have as an attribute of its own too (object_getstate). `is_whole`: see default_state."""
    namespace = self.instance_dict(vm)
    is_hooked = not is_own_slot(vm.raw_type_lookup(self.cls, "__getattribute__"), "__getattribute__")
    if is_hooked or overrides(vm, self.cls, "__getstate__") or (namespace is not None and "__getstate__" in namespace.open(vm)):
        if is_whole and has_hidden_state(self.cls):
            raise NotConstant(self)  # if this finds object's own __getstate__, that has to refuse the hidden state
        return abstract.call_method(vm, self, "__getstate__")
    return default_state(vm, self, is_whole)


@models(object.__getstate__)
def getstate(vm: VM, self: Object) -> Object:
    """Call object's own `__getstate__`, which the program calls itself, or which a `__getattribute__` of the program's finds."""
    if not isinstance(self, (UserObject, TupleObject, ListObject, DictObject)):
        raise NotConstant(self)
    return default_state(vm, self, is_whole=False)


def default_state(vm: VM, self: Object, is_whole: bool) -> Object:
    """The `__dict__` of an instance, or None, and the values of its slots (object_getstate_default). `is_whole`: the object is made of nothing else."""
    names = slot_names(vm, self)
    if is_whole and has_hidden_state(self.cls, len(names)):
        raise NotConstant(self)
    namespace = self.instance_dict(vm)
    state = NONE if namespace is None or not namespace.open(vm) else namespace
    values = [(vm.const(name), value) for name in names if (value := abstract.lookup_attr(vm, self, name)) is not None]
    return TupleObject([state, dict_of(vm, values)]) if values else state


def slot_names(vm: VM, self: Object) -> list[str]:
    """The names of the slots that a class and its bases declare, as copyreg._slotnames finds them. It keeps them in the class, which the trace doesn't do."""
    record: Any = vm.raw_type_lookup(self.cls, "__slotnames__")
    if record is not MISSING and (type(record) is not list or id(self.cls) in classes.STAND_INS):
        raise NotConstant(self)
    vm.rest_on_bases(self.cls)
    names: list[str] = []
    for cls in classes.mro(self.cls):
        declared = typefields.own_attribute(vm, cls, "__slots__") if classes.flags(cls) & classes.HEAP_TYPE else None
        if declared is None:
            continue
        slots = declared.as_real(vm)
        if type(slots) not in (str, tuple, list) or not all(type(name) is str for name in slots):
            raise NotConstant(self)
        own = classes.name(cls).lstrip("_")
        for name in (slots,) if type(slots) is str else slots:
            is_private = name.startswith("__") and not name.endswith("__") and own
            names += [] if name in ("__dict__", "__weakref__") else [f"_{own}{name}" if is_private else name]
    if record is not MISSING and "__slotnames__" in classes.class_dict(self.cls) and record != names:
        raise NotConstant(self)
    return names


def reduce_mapping(vm: VM, mapping: DictObject) -> Object:
    """The parts that an OrderedDict or a defaultdict is copied from: its class, its factory, its attributes, and an iterator over its items."""
    factory = vm.observe(factory_of(vm, mapping)) if mapping.cls is defaultdict else NONE
    arguments = [] if factory.cls is type(None) else [factory]
    namespace = mapping.instance_dict(vm)
    state = NONE if namespace is None or not namespace.open(vm) else namespace
    items = abstract.iter_(vm, abstract.call_method(vm, mapping, "items"))
    return TupleObject([vm.const(mapping.cls), TupleObject(arguments), state, NONE, items])
