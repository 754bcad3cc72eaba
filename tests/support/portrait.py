"""Object graphs as comparable text: values, types, identity, cycles and sharing, so that eager and compiled runs can be compared."""

from __future__ import annotations

import collections
import functools
import types
from typing import Any

import torch


def portrait(*roots: Any) -> list[Any]:
    """Return a row for each distinct object reachable from `roots`. Objects that have an identity are named by their order of discovery."""
    numbers: dict[int, int] = {}
    keep: list[Any] = []
    rows: list[Any] = []

    def name(value: Any) -> Any:
        if value is None or value is ... or isinstance(value, (bool, int, str, bytes, type, torch.dtype, torch.device)):
            return (type(value).__name__, value)
        if isinstance(value, (float, complex)):
            return (type(value).__name__, repr(value))
        if id(value) not in numbers:
            numbers[id(value)] = len(keep)
            keep.append(value)
        return f"#{numbers[id(value)]}"

    rows.append([name(root) for root in roots])
    done = 0
    while done < len(keep):
        value = keep[done]
        rows.append((f"#{done}", type(value).__qualname__, parts(value, name)))
        done += 1
    return rows


def parts(value: Any, name: Any) -> Any:
    """Return the content of one object, with its parts replaced by their names."""
    own = {key: name(part) for key, part in vars(value).items()} if hasattr(value, "__dict__") and not isinstance(value, type) else {}
    if isinstance(value, torch.Tensor):
        return value.detach().tolist(), str(value.dtype), value.requires_grad, own
    if isinstance(value, (list, tuple, collections.deque)):
        return [name(item) for item in value], getattr(value, "maxlen", None), own
    if isinstance(value, dict):
        return [(name(key), name(item)) for key, item in value.items()], name(getattr(value, "default_factory", None)), own
    if isinstance(value, (set, frozenset)):
        return sorted(repr(name(item)) for item in value), own
    if isinstance(value, types.FunctionType):
        cells = [name(cell) for cell in value.__closure__ or ()]
        return value.__code__.co_code, value.__qualname__, name(value.__defaults__), name(value.__kwdefaults__), cells, own
    if isinstance(value, types.CellType):
        try:
            return name(value.cell_contents)
        except ValueError:
            return "empty"
    if isinstance(value, types.BuiltinFunctionType):
        return value.__qualname__, isinstance(value.__self__, types.ModuleType) or name(value.__self__)
    if isinstance(value, types.MethodType):
        return name(value.__func__), name(value.__self__)
    if isinstance(value, functools.partial):
        return name(value.func), name(value.args), name(value.keywords)
    if isinstance(value, (range, slice)):
        return repr(value)
    if isinstance(value, BaseException):
        return name(value.args), own
    members = [member for cls in type(value).__mro__ for member in getattr(cls, "__slots__", ())]
    return own, {member: name(getattr(value, member)) for member in members if hasattr(value, member)}
