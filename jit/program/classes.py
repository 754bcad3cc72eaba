"""Facts about classes, read past their metaclasses: whatever a metaclass overrides (`__getattribute__`, `__eq__`, properties), none of its code runs."""

from __future__ import annotations

from collections.abc import Callable
from types import GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any
from weakref import WeakSet

HEAP_TYPE = 1 << 9
"""Include/object.h: Py_TPFLAGS_HEAPTYPE: made by a class statement, or by C code that could have used one."""
IMMUTABLE_TYPE = 1 << 8
"""Py_TPFLAGS_IMMUTABLETYPE: its attributes can't be assigned to."""

mro: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
"""`cls.__mro__`."""
class_dict: Callable[[type], Any] = type.__dict__["__dict__"].__get__
"""`cls.__dict__`."""
flags: Callable[[type], int] = type.__dict__["__flags__"].__get__
"""`cls.__flags__`."""
dictoffset: Callable[[type], int] = type.__dict__["__dictoffset__"].__get__
"""`cls.__dictoffset__`: 0 where instances have no `__dict__`."""
weakrefoffset: Callable[[type], int] = type.__dict__["__weakrefoffset__"].__get__
"""`cls.__weakrefoffset__`: 0 where instances have no field for weak references."""
basicsize: Callable[[type], int] = type.__dict__["__basicsize__"].__get__
"""`cls.__basicsize__`, in bytes."""
itemsize: Callable[[type], int] = type.__dict__["__itemsize__"].__get__
"""`cls.__itemsize__`: 0 where all instances are of one size."""
name: Callable[[type], str] = type.__dict__["__name__"].__get__
"""`cls.__name__`."""
qualname: Callable[[type], str] = type.__dict__["__qualname__"].__get__
"""`cls.__qualname__`."""
module: Callable[[type], Any] = type.__dict__["__module__"].__get__
"""`cls.__module__`; a program can set it to what is no string."""


def is_subtype(cls: type, base: type) -> bool:
    """PyType_IsSubtype: `issubclass` without `__subclasscheck__`."""
    return type.__dict__["__subclasscheck__"](base, cls)  # type: ignore[no-any-return]


def lookup(cls: type, name: str, default: Any = None) -> Any:
    """_PyType_Lookup: what the first class of the MRO that has the name has under it; no descriptor is asked."""
    return next((class_dict(base)[name] for base in mro(cls) if name in class_dict(base)), default)


def has_names_only(cls: type) -> bool:
    """Return whether the keys of the class's own dict are exact strings, which compare without any code. A class gets others when it is made, or never."""
    if not known_by_identity(cls):
        return _only_strings(cls)
    if cls not in _WITH_NAMES_ONLY and _only_strings(cls):
        _WITH_NAMES_ONLY.add(cls)
    return cls in _WITH_NAMES_ONLY


def _only_strings(cls: type) -> bool:
    return set(map(type, class_dict(cls))) <= {str}


_WITH_NAMES_ONLY: WeakSet[type] = WeakSet()
"""Classes that have been looked through."""

OF_A_CLASS = (MemberDescriptorType, GetSetDescriptorType)
"""The types of the descriptors that making a class adds to it, such as those of its slots."""
STAND_INS: dict[int, Any] = {}
"""The Objects of classes that running traces have made, by the id of the real class that stands for each of them meanwhile (objects/types/madeclass.py)."""


def can_change(cls: type) -> bool:
    """Return whether a program can assign to attributes of the class."""
    return flags(cls) & (HEAP_TYPE | IMMUTABLE_TYPE) == HEAP_TYPE


def instances_change_class(cls: type) -> bool:
    """Return whether a program can assign to `__class__` of the class's instances (Objects/typeobject.c: object_set_class)."""
    return can_change(cls) or cls is ModuleType


def is_metaclass(cls: type) -> bool:
    """Return whether the class is a metaclass of the program's. A class of it may get another metaclass."""
    return cls is not type and issubclass(cls, type) and can_change(cls)


def known_by_identity(cls: type) -> bool:
    """Return whether classes of this class's metaclass hash and compare by identity, so that a dict or set of classes may be asked for this one."""
    meta = type(cls)
    return meta is type or all(lookup(meta, special) is getattr(object, special) for special in ("__hash__", "__eq__"))


def holds_stand_in(value: Any) -> bool:
    """Return whether a constant is, or contains, what stands for a class that a running trace makes, or one of that class's own descriptors."""
    if id(value) in STAND_INS or (type(value) in OF_A_CLASS and id(value.__objclass__) in STAND_INS):
        return True
    return type(value) in (tuple, frozenset) and any(map(holds_stand_in, value))
