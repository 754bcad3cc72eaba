"""dir() in plain Python, and the methods in C that it calls (Objects/object.c: _dir_object; Objects/typeobject.c: object___dir___impl)."""

from __future__ import annotations

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
    for name in getattr(cls, "__dict__", ()):
        names[name] = None
    for base in getattr(cls, "__bases__", ()):
        add_names_of_class(names, base)


def names_of_module(self: Any) -> Any:
    """`ModuleType.__dir__(self)` (Objects/moduleobject.c: module_dir): what the module's own `__dir__` gives, if it has one."""
    names = self.__dict__
    return names["__dir__"]() if "__dir__" in names else list(names)
