"""Attributes of classes as found by one trace: each is looked up once, along the real MRO, and guarded if a program can change it."""

from __future__ import annotations

from typing import Any

from framejit import breaks
from framejit.guards.kinds import IsMissing, IsPresent, Length, TypeIs, ValueIs
from framejit.guards.source import MISSING, Index, OwnAttr, Pinned, SlotMember, TypeAttr
from framejit.objects.core.object import Object
from framejit.objects.types.classchanges import ClassChanges, check_store, dict_of_class
from framejit.program import classes
from framejit.tracing.trace import Trace

SCALARS = frozenset({int, float, bool, str, bytes, complex, tuple, type(None)})
"""Types of values that are compared by value, and guarded if that is asked for."""
BY_VALUE = frozenset(map(id, SCALARS))
"""The ids of these types: a value's type may have a metaclass with a `__hash__` of the program's."""


class ClassLookups:
    """The look-ups of one trace. Keys are the ids of classes: a metaclass may have a `__hash__` of the program's."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.raw_attributes: dict[tuple[int, str], Any] = {}
        self.attributes: dict[tuple[int, str], Object | None] = {}
        self._alive: dict[int, type] = {}  # the classes whose ids are in the keys
        self._looked_into: set[int] = set()
        self._changed: dict[int, ClassChanges] = {}

    def raw(self, cls: type, name: str) -> Any:
        """VM.raw_type_lookup. Breaks for an attribute that the trace has set."""
        if self._changed and self._stored(cls, name) is not None:
            self._trace.unsupported(breaks.UnsupportedOperation(f"C code on {name} of the class {classes.qualname(cls)}, which has been set"))
        if id(cls) in classes.STAND_INS:
            base = self._base_with(cls, name)
            return MISSING if base is None else classes.class_dict(base)[name]
        key = (id(cls), name)
        if key in self.raw_attributes:
            return self.raw_attributes[key]
        trace = self._trace
        self._alive[id(cls)] = cls
        found = self._find(cls, name)
        if classes.can_change(cls):
            source = trace.root_source.child(Pinned, cls).child(TypeAttr, name)
            if found is MISSING:
                trace.guard(IsMissing, source)
            elif id(type(found)) not in BY_VALUE:
                trace.guard(ValueIs, source, found)
            elif found is None:
                trace.guard(TypeIs, source, type(None))
        self.raw_attributes[key] = found
        trace.trail.learned(self, self.raw_attributes.pop, key)
        return found

    def _base_with(self, cls: type, name: str) -> type | None:
        """The class in the MRO of one that the trace has made that has an attribute of this name itself. Look-ups in the real ones are guarded."""
        for base in classes.mro(cls):
            found = classes.class_dict(base).get(name, MISSING) if id(base) in classes.STAND_INS else self.raw(base, name)
            if found is not MISSING and name in classes.class_dict(base):
                return base
        return None

    def _find(self, cls: type, name: str) -> Any:
        for base in classes.mro(cls):
            if id(base) not in self._looked_into:
                self._look_into(base)
            namespace = classes.class_dict(base)
            if name in namespace:
                return namespace[name]
        return MISSING

    def _look_into(self, cls: type) -> None:
        """Break for a class whose own dict has keys that compare with code of the program, which would run at each look-up in it."""
        if not classes.has_names_only(cls):
            self._trace.unsupported(breaks.UnsupportedValue(f"a {classes.qualname(cls)}, whose class has keys that are no strings"))
        self._alive[id(cls)] = cls
        self._looked_into.add(id(cls))

    def object_of(self, cls: type, name: str) -> Object | None:
        """VM.type_lookup."""
        stored = self._stored(cls, name) if self._changed else None
        if stored is not None:
            return stored
        if id(cls) in classes.STAND_INS:
            base = self._base_with(cls, name)
            if base is None or base is not cls and id(base) not in classes.STAND_INS:
                return None if base is None else self.object_of(base, name)
            return classes.STAND_INS[id(base)].own(self._trace, name)  # type: ignore[no-any-return]
        key = (id(cls), name)
        if key in self.attributes:
            return self.attributes[key]
        trace = self._trace
        raw = self.raw(cls, name)
        found: Object | None = None
        if raw is not MISSING:
            source = trace.root_source.child(Pinned, cls).child(TypeAttr, name)
            if not classes.can_change(cls):
                found = trace.pin(raw)
            elif id(type(raw)) in BY_VALUE:
                found = trace.observe(trace.wrap(raw, source))
            else:
                if classes.instances_change_class(type(raw)):
                    trace.guard(TypeIs, source, type(raw))
                found = trace.observe_at(raw, source, False)
        self.attributes[key] = found
        trace.trail.learned(self, self.attributes.pop, key)
        return found

    def store(self, cls: type, name: str, value: Object) -> None:
        """VM.store_on_class."""
        check_store(self._trace, cls, name, value)
        if self._trace.met(dict_of_class(cls)) is not None:
            self._trace.unsupported(breaks.UnsupportedOperation(f"changing the class {classes.qualname(cls)}, whose __dict__ has been read"))
        changes = self._changed.get(id(cls))
        if changes is None:
            changes = self._changed[id(cls)] = ClassChanges(cls, self._trace.root_source.child(Pinned, cls))
        changes.store(self._trace, name, value)

    def _stored(self, cls: type, name: str) -> Object | None:
        """The attribute that the trace has set on the first class of the MRO that has one of the name; None if it hasn't set that one.

        If it has set any of them, the guards hold which class that is.
        """
        mro = classes.mro(cls)
        stores = [None if changes is None else changes.stores.get(name) for changes in [self._changed.get(id(base)) for base in mro]]
        if not any(stores):
            return None
        self.rest_on_bases(cls)
        for base, stored in zip(mro, stores):
            if stored is not None:
                return stored
            is_there = name in classes.class_dict(base)
            if classes.can_change(base) and id(base) not in classes.STAND_INS:
                source = self._trace.root_source.child(Pinned, base).child(OwnAttr, name)
                self._trace.guard(IsPresent if is_there else IsMissing, source)
            if is_there:
                return None
        return None

    def rest_on_bases(self, cls: type) -> None:
        """VM.rest_on_bases."""
        key = (id(cls), "")  # no attribute has this name
        if key in self.raw_attributes or not classes.can_change(cls) or id(cls) in classes.STAND_INS:
            return
        trace, mro = self._trace, classes.mro(cls)
        pinned = trace.root_source.child(Pinned, cls)
        source = pinned.child(SlotMember, type.__dict__["__mro__"])  # not as an attribute, which would ask the metaclass
        trace.guard(TypeIs, pinned, type(cls))
        trace.guard(Length, source, len(mro))
        for i in range(1, len(mro) - 1):  # between the class itself and object
            trace.guard(ValueIs, source.child(Index, i), mro[i])
        self._alive[id(cls)] = cls
        self.raw_attributes[key] = cls
        trace.trail.learned(self, self.raw_attributes.pop, key)
