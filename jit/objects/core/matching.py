"""Matching of subjects by the instructions of `match` statements (Python/ceval.c: match_keys, match_class). If they would raise, the trace breaks."""

from __future__ import annotations

from typing import NoReturn

from framejit import breaks
from framejit.guards import abstract_bases
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Object
from framejit.objects.types.tupleobject import TupleObject
from framejit.plain import support
from framejit.program import classes

SEQUENCE, MAPPING, SELF = 1 << 5, 1 << 6, 1 << 22
"""Flags of types: Py_TPFLAGS_SEQUENCE, Py_TPFLAGS_MAPPING, _Py_TPFLAGS_MATCH_SELF."""


def is_sequence(vm: VM, subject: Object) -> bool:
    """MATCH_SEQUENCE."""
    return has_flag(vm, subject, SEQUENCE)


def is_mapping(vm: VM, subject: Object) -> bool:
    """MATCH_MAPPING."""
    return has_flag(vm, subject, MAPPING)


def has_flag(vm: VM, subject: Object, flag: int) -> bool:
    """Return whether the subject's class has a flag. Registering a class with an abstract base class changes it, which abc's own counter shows."""
    return class_has_flag(vm, vm.observe(subject).cls, flag)


def class_has_flag(vm: VM, cls: type, flag: int) -> bool:
    """`has_flag` for a class. One that the trace makes has got the flags of its stand-in from its bases (Objects/typeobject.c: inherit_patma_flags)."""
    if id(cls) in classes.STAND_INS:
        for base in classes.mro(cls)[1:]:
            for each in (SEQUENCE, MAPPING) if flag in (SEQUENCE, MAPPING) else (flag,):
                class_has_flag(vm, base, each)  # guarded
        return bool(classes.flags(cls) & flag)
    if classes.flags(cls) & classes.IMMUTABLE_TYPE:
        return bool(classes.flags(cls) & flag)
    return bool(vm.guards.vouch_for_abc(abstract_bases.has_flag, cls, flag))


def match_keys(vm: VM, subject: Object, keys: Object) -> Object:
    """MATCH_KEYS: the values of all keys as a tuple, or None."""
    return vm.call_app(support.match_keys, [subject, keys])


def match_class(vm: VM, subject: Object, cls: Object, count: int, names: Object) -> Object:
    """MATCH_CLASS: the attributes that the sub-patterns ask for as a tuple, or None. `count`: the number of those without names."""
    cls = vm.observe(cls)
    if not issubclass(cls.cls, type):
        raises(vm)
    if not abstract.truth(vm, abstract.call(vm, vm.const(isinstance), [subject, cls])):
        return vm.const(None)
    attributes: list[Object] = []
    positional: list[str] = []
    if count:
        known = abstract.lookup_attr(vm, cls, "__match_args__")
        if known is None:
            if count > 1 or not classes.flags(cls.value) & SELF:
                raises(vm)
            attributes.append(subject)
        else:
            positional = positional_names(vm, vm.observe(known), count)
    every = [*positional, *vm.observe(names).constant(vm)]
    if len(set(every)) < len(every):
        raises(vm)
    for name in every:
        found = abstract.lookup_attr(vm, subject, name)
        if found is None:
            return vm.const(None)
        attributes.append(found)
    return TupleObject(attributes)


def positional_names(vm: VM, known: Object, count: int) -> list[str]:
    """The first names in `__match_args__`."""
    if known.cls is not tuple:
        raises(vm)
    names = [vm.observe(name) for name in abstract.iterate(vm, known)[:count]]
    if len(names) < count or any(name.cls is not str for name in names):
        raises(vm)
    return [name.constant(vm) for name in names]


def raises(vm: VM) -> NoReturn:
    """Break, so that the native instruction raises its own error."""
    vm.unsupported(breaks.UnsupportedOperation("a class pattern that doesn't fit its class"))
