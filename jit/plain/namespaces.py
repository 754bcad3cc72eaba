"""dir() and SimpleNamespaces in plain Python (Objects/object.c: _dir_object; Objects/typeobject.c: object___dir___impl; Objects/namespaceobject.c)."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any


def names_of(obj: Any) -> list[Any]:
    """`dir(obj)`. Special methods are looked up on the class."""
    return sorted(type(obj).__dir__(obj))  # type: ignore[call-arg]


def names_of_object(self: Any) -> list[Any]:
    """`object.__dir__(self)`: the names in the object's own dict, and those of its class."""
    own = getattr(self, "__dict__", None)
    names = dict.fromkeys(own) if isinstance(own, dict) else {}
    cls = getattr(self, "__class__", None)
    if cls is not None:
        add_names_of_class(names, cls)
    return list(names)


def names_of_class(self: Any) -> list[Any]:
    """`type.__dir__(self)`."""
    names: dict[Any, None] = {}
    add_names_of_class(names, self)
    return list(names)


def add_names_of_class(names: dict[Any, None], cls: Any) -> None:
    """merge_class_dict: add the names of a class and of its bases, in the order in which they are found."""
    own = getattr(cls, "__dict__", {})
    if isinstance(own, dict | MappingProxyType):
        for name in own:
            names[name] = None
    else:
        names.update(own)
    bases = getattr(cls, "__bases__", ())
    try:
        count = len(bases)
    except Exception:
        count = 0
    for place in range(count):
        add_names_of_class(names, bases[place])


def names_of_module(self: Any) -> Any:
    """`ModuleType.__dir__(self)` (Objects/moduleobject.c: module_dir): what the module's own `__dir__` gives, if it has one."""
    names = self.__dict__
    if not isinstance(names, dict):
        raise TypeError("<module>.__dict__ is not a dictionary")
    return names["__dir__"]() if "__dir__" in names else list(names)


def equal_namespaces(self: Any, other: Any) -> bool:
    """`self == other` of two SimpleNamespaces (Objects/namespaceobject.c: namespace_richcompare)."""
    return bool(self.__dict__ == other.__dict__)
