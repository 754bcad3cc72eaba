"""The names that reports use for the values of a program. None of the program's code runs for it: no `__repr__`, no `__getattr__`, nothing of a metaclass."""

from __future__ import annotations

import numbers
import sys
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

from framejit.program import classes

LONG = 2000
"""Bits of an int beyond which it is not shown: Python may refuse to write it out (sys.set_int_max_str_digits)."""
PLAIN = (int, bool, float, complex, str, bytes, range, type(None), type(...))
"""Types whose `repr()` is C code that shows the value."""
NAMED = (FunctionType, BuiltinFunctionType, GetSetDescriptorType, MemberDescriptorType, MethodDescriptorType, WrapperDescriptorType)
"""Types whose `__qualname__` is a field."""
MOST_ITEMS = 20
"""Items of a tuple that are shown."""


def with_article(name: str) -> str:
    """A type's name as a noun of a sentence."""
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def kind_of(value: Any) -> str:
    """The type of a value as a noun of a sentence."""
    return with_article(classes.qualname(type(value)))


def name_of(value: Any) -> str | None:
    """The qualified name of a class, function, module, or descriptor in C; None of anything else."""
    kind = type(value)
    if classes.is_subtype(kind, type):
        return classes.qualname(value)
    if kind in NAMED:
        return str(value.__qualname__)
    if kind is CodeType:
        return str(value.co_qualname)
    name = ModuleType.__getattribute__(value, "__dict__").get("__name__") if classes.is_subtype(kind, ModuleType) else None
    return name if type(name) is str else None


def imported_name(function: FunctionType) -> str:
    """The name under which programs import a library's function: that of the package which shows it (`torch.distributed.all_reduce`), where one does."""
    qualname, module = str(function.__qualname__), function.__module__
    if type(module) is not str:
        return qualname
    head = qualname.partition(".")[0]
    defined = namespace_of(module).get(head)
    parts = module.split(".")
    packages = (".".join(parts[:count]) for count in range(1, len(parts)))
    shown = () if defined is None else (package for package in packages if namespace_of(package).get(head) is defined)
    return f"{next(iter(shown), module)}.{qualname}"


def namespace_of(module: str) -> dict[str, Any]:
    """The globals of an imported module; empty if it is none."""
    found = sys.modules.get(module)
    return ModuleType.__getattribute__(found, "__dict__") if isinstance(found, ModuleType) else {}


def short(value: Any) -> str:
    """A value as text of one line."""
    kind = type(value)
    if kind in (int, bool) and value.bit_length() > LONG:
        return f"an int of {value.bit_length()} bits"
    if kind in PLAIN or is_plain_of_library(kind):
        text = repr(value)
        return text if len(text) <= 60 else text[:57] + "..."
    if classes.is_subtype(kind, type):
        return f"class {classes.qualname(value)}"
    return kind_of(value)


def is_plain_of_library(cls: type) -> bool:
    """Return whether a class is one of torch's or NumPy's own in C whose `repr()` shows a plain value: a dtype, a device, a number."""
    if classes.flags(cls) & classes.HEAP_TYPE:
        return False
    module = classes.module(cls)
    return module == "torch" or (module == "numpy" and issubclass(cls, numbers.Number))


def constant(value: Any) -> str:
    """A constant of a code object as listings show it: in full where it is plain, else by its name and type."""
    kind = type(value)
    if kind in PLAIN and not (kind is int and value.bit_length() > LONG):
        return repr(value)
    if kind in (tuple, frozenset):
        items = list(map(constant, tuple(value)[:MOST_ITEMS])) + ["..."] * (len(value) > MOST_ITEMS)
        return f"({', '.join(items)}{',' * (len(items) == 1)})" if kind is tuple else f"frozenset({{{', '.join(items)}}})"
    name = name_of(value)
    return short(value) if name is None else f"<{classes.qualname(kind)} {name}>"
