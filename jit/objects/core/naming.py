"""The names of callables in messages, as programs write them."""

from __future__ import annotations

from typing import Any

INTERNAL_OWNERS = ("pybind11_", "_VariableFunctions")
"""Types whose purpose is to hold functions: programs never name them."""


def callable_name(function: Any) -> str:
    """The qualified name of a callable; dotted if it would be unclear otherwise."""
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or type(function).__qualname__
    return dotted(function) if str(name).startswith(INTERNAL_OWNERS) else str(name)


def dotted(function: Any) -> str:
    """The dotted name of a callable written in C."""
    name = getattr(function, "__name__", None)
    if isinstance(name, str) and str(getattr(function, "__qualname__", name)).startswith(INTERNAL_OWNERS):
        module = getattr(function, "__module__", None)
        return f"{module if isinstance(module, str) else 'torch'}.{name}"
    owner = getattr(function, "__objclass__", None)
    if owner is None:
        receiver = getattr(function, "__self__", None)
        owner = receiver if issubclass(type(receiver), type) else None
    prefix = owner.__qualname__ if owner is not None else getattr(function, "__module__", None)
    name = getattr(function, "__qualname__" if owner is None else "__name__", repr(function))
    return f"{prefix}.{name}" if prefix else str(name)
