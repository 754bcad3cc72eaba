"""Attributes of a class that the trace has set (Objects/typeobject.c: type_setattro): plain data, such as counters and caches."""

from __future__ import annotations

import gc
from enum import EnumType
from typing import Any

from framejit import breaks
from framejit.guards.source import MISSING, Source, TypeAttr
from framejit.objects.core.object import VM, Codegen, Object, settle
from framejit.program import classes

ITS_OWN = type.__setattr__


class ClassChanges(Object):
    """The attributes that the trace has set on one class, whose real ones it replaces when they are replayed. `cls` is the metaclass."""

    __slots__ = ("stores",)

    def __init__(self, value: type, source: Source) -> None:
        super().__init__(type(value), source, value)
        self.stores: dict[str, Object] = {}

    def store(self, vm: VM, name: str, value: Object) -> None:
        """Set an attribute."""
        old = self.stores.get(name)
        self.stores[name] = value
        if old is None:
            vm.trail.changed(self, self.stores.pop, name)
        else:
            vm.trail.changed(self, self.stores.__setitem__, name, old)
        vm.effects.mutated(self)

    def replaced(self) -> list[tuple[Source, Object]]:
        assert self.source is not None
        return [(self.source.child(TypeAttr, name), settle(value)) for name, value in self.stores.items()]

    def replay(self, cg: Codegen) -> None:
        for name, value in self.stores.items():
            cg.load_const(self.value)
            cg.load_const(name)
            cg.load(value)
            cg.call_const(ITS_OWN, 3)
            cg.pop_top()

    def referents(self) -> list[Object]:
        return list(self.stores.values())


def dict_of_class(cls: type) -> dict[str, Any]:
    """The dict that holds a class's attributes. It is changed by setting attributes of the class only."""
    (found,) = gc.get_referents(classes.class_dict(cls))
    assert type(found) is dict
    return found


def check_store(vm: VM, cls: type, name: str, value: Object) -> None:
    """Break unless setting this attribute only sets it: names of special methods change what C code does with instances, and descriptors what others read."""
    meta = type(cls)
    is_plain = classes.can_change(cls) and not (name.startswith("__") and name.endswith("__"))
    is_plain = is_plain and not issubclass(meta, EnumType) and vm.raw_type_lookup(meta, name) is MISSING
    known = vm.type_lookup(cls, name) if is_plain else None
    is_plain = is_plain and (known is None or vm.raw_type_lookup(known.cls, "__set__") is MISSING)
    if not is_plain or any(vm.raw_type_lookup(value.cls, special) is not MISSING for special in ("__get__", "__set__", "__delete__", "__set_name__")):
        vm.unsupported(breaks.UnsupportedOperation(f"changing the class {classes.qualname(cls)}"))
