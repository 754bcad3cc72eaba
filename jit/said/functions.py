"""Directives for single functions: calls of a function are one node, split the graph, have a constant result, or are traced as another function."""

from __future__ import annotations

import enum
import inspect
import weakref
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from framejit.errors import BadArgument

F = TypeVar("F", bound=Callable[..., Any])


class Treatment(enum.Enum):
    """The ways in which calls of a function can be traced."""

    NODE = enum.auto()
    """A call is one node of the graph, which takes the arguments unchanged, if a node can take them."""
    ANY_STRUCTURE = enum.auto()
    """A call is one node of the graph, which takes the tensors that are anywhere in the arguments."""
    NATIVE = enum.auto()
    """Calls aren't traced: they split the graph."""
    CONSTANT = enum.auto()
    """Calls are made while tracing, and their results are constants."""


_declared: dict[int, tuple[Callable[[], Any], Any]] = {}
"""The declared functions, by id. Each has a reference that returns the function as long as it lives, and its Treatment or the function that is traced in
its place."""


def allow_in_graph(function: F) -> F:
    """Make calls of a function one node of the graph. The function isn't traced, and nothing that it reads is guarded.

    While tracing, the function is called with tensors that have no data. Backends that trace graphs themselves (`aot_eager`, `inductor`) see the operators
    that it runs. Arguments and result may be any structure that `torch.utils._pytree` knows: tensors, constants, modules, and containers of these, also of
    classes registered there. Backends such as `inductor` drop side effects of the function. A function that must keep them must be a custom operator
    (`torch.library.custom_op`).

    Args:
        function: a function or another callable, in Python or in C. It is returned unchanged, so that this also works as a decorator.

    Raises:
        BadArgument: the argument can't be called.
    """
    return _declare(function, Treatment.NODE, "allow_in_graph")


def disallow_in_graph(function: F) -> F:
    """Make calls of a function split the graph, and run natively between its parts. This helps, for example, if a backend compiles a torch function wrongly.

    `allow_in_graph` undoes this. Raises BadArgument if the argument can't be called.
    """
    return _declare(function, Treatment.NATIVE, "disallow_in_graph")


def assume_constant_result(function: F) -> F:
    """Declare that a function always returns the same for the same arguments. It is called while tracing, and its result is a constant in compiled code.

    Nothing that the function reads is guarded, and objects among its arguments are guarded only by identity. Raises BadArgument if the argument can't be
    called.
    """
    return _declare(function, Treatment.CONSTANT, "assume_constant_result")


def substitute_in_graph(original: Callable[..., Any], *, skip_signature_check: bool = False) -> Callable[[F], F]:
    """`@substitute_in_graph(original)` makes framejit trace the decorated function where a program calls `original`, which may be a function in C.

    Outside compiled code, and at graph breaks, `original` itself runs.

    Args:
        original: a function for which framejit has no model.
        skip_signature_check: don't check that both functions take the same parameters.

    Raises:
        BadArgument: `original` can't be called, or the decorated object isn't a Python function, or takes other parameters.
    """
    if not callable(original):
        raise BadArgument(f"substitute_in_graph() takes a function; got {type(original).__qualname__}")

    def decorate(function: F) -> F:
        if not isinstance(function, FunctionType):
            raise BadArgument(f"substitute_in_graph() decorates a function in Python; got {type(function).__qualname__}")
        if not skip_signature_check and (expected := _parameters(original)) not in (None, _parameters(function)):
            raise BadArgument(f"substitute_in_graph(): {function.__qualname__} takes other parameters than {original!r}: {expected}")
        _declared[id(original)] = (_reference(original), function)
        return function  # type: ignore[return-value]

    return decorate


def treatment_of(function: Any) -> Treatment | None:
    """Return the treatment that was declared for calls of a function; None if none was declared."""
    found = _found(function)
    return found if isinstance(found, Treatment) else None


def substitute_of(function: Any) -> FunctionType | None:
    """The function that `substitute_in_graph` has declared to be traced in place of this one; None if there is none."""
    found = _found(function)
    return found if isinstance(found, FunctionType) else None


def _found(function: Any) -> Any:
    known = _declared.get(id(function))
    return known[1] if known is not None and known[0]() is function else None


def _declare(function: F, treatment: Treatment, name: str) -> F:
    if not callable(function):
        raise BadArgument(f"{name}() takes a function; got {type(function).__qualname__}")
    _declared[id(function)] = (_reference(function), treatment)
    return function


def _reference(function: Any) -> Callable[[], Any]:
    """A reference that returns the function as long as it lives. When the function is freed, its entry is removed from the table."""
    key = id(function)
    try:
        return weakref.ref(function, lambda gone: _declared.pop(key, None))
    except TypeError:
        return lambda: function


def _parameters(function: Any) -> list[tuple[str, Any]] | None:
    """The names and defaults of a function's parameters; None if they aren't known."""
    try:
        return [(parameter.name, parameter.default) for parameter in inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        return None
