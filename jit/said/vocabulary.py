"""Functions by which a program speaks to framejit and which mean something else in a trace. jit/user/ has their code, jit/library/directives/ their meaning."""

from __future__ import annotations

from typing import Any, TypeVar

F = TypeVar("F")

VOCABULARY: dict[str, Any] = {}
"""The functions, by their names. All of them are there when framejit has been imported, and the library is loaded later."""


def spoken(function: F) -> F:
    """Make a function known to the library."""
    VOCABULARY[getattr(function, "__name__")] = function
    return function
