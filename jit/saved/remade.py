"""Callables that say how the next process makes them again."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

MAKING = "_framejit_making"
"""The attribute of a function that holds its maker and the arguments."""


def made_by(function: F, maker: Callable[..., Any], *args: Any) -> F:
    """Note that `maker(*args)` makes a function like this one, in any process. `maker` is a function of a module of framejit's."""
    function.__dict__[MAKING] = maker, args
    return function


def making(function: FunctionType) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
    """The maker and the arguments that were noted for a function; None if there are none."""
    return function.__dict__.get(MAKING)


class ByValue:
    """A code object that is saved by its contents, and not by a name."""

    def __init__(self, code: CodeType) -> None:
        self.code = code
