"""Callables that say how the next process makes them again."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

MAKING = "_framejit_making"
"""The attribute of a function that holds a reference to it, its maker and the arguments. `functools.wraps` copies attributes to other functions."""


def made_by(function: F, maker: Callable[..., Any], *args: Any) -> F:
    """Note that `maker(*args)` makes a function like this one, in any process. `maker` is a function of a module of framejit's."""
    function.__dict__[MAKING] = weakref.ref(function), maker, args
    return function


def making(function: FunctionType) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
    """The maker and the arguments that were noted for a function; None if there are none."""
    reference, *noted = function.__dict__.get(MAKING, (None,))
    return (noted[0], noted[1]) if reference is not None and reference() is function else None


class ByValue:
    """A code object that is saved by its contents, and not by a name."""

    def __init__(self, code: CodeType) -> None:
        self.code = code
