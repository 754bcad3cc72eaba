"""What a program says of single functions: that a call is one node, splits the graph, gives the same each time, or is traced by another function."""

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
    """How calls of a function are traced."""

    NODE = enum.auto()
    """A call is one node of the graph, which takes the arguments as they stand, where nodes can take such."""
    ANY_STRUCTURE = enum.auto()
    """A call is one node of the graph, which takes the tensors that are anywhere in the arguments."""
    NATIVE = enum.auto()
    """Calls aren't traced: they split the graph."""
    CONSTANT = enum.auto()
    """Calls are made while tracing, and what they give is a constant."""


_declared: dict[int, tuple[Callable[[], Any], Any]] = {}
"""By the ids of functions: what gives the function as long as it lives, and its Treatment, or the function that is traced in its place."""


def allow_in_graph(function: F) -> F:
    """Have calls of a function be one node of the graph: what it does isn't traced, and nothing that it reads is guarded.

    While tracing, it is called with tensors that have no data; backends that trace graphs themselves (`aot_eager`, `inductor`) see the operators that it runs.
    Its arguments and its result may be any structure that `torch.utils._pytree` knows: tensors, constants, modules, and containers of such, and of
    classes registered there. What it does besides computing its result, backends such as `inductor` leave out: a function that is to run as it is
    must be a custom operator (`torch.library.custom_op`).

    Args:
        function: a function or another callable, in Python or in C. It is given back unchanged, so that this works as a decorator too.

    Raises:
        BadArgument: for what can't be called.
    """
    return _declare(function, Treatment.NODE, "allow_in_graph")


def disallow_in_graph(function: F) -> F:
    """Have calls of a function split the graph, and run natively between its parts: one of torch's functions, say, that a backend gets wrong.

    `allow_in_graph` takes that back. Raises BadArgument for what can't be called.
    """
    return _declare(function, Treatment.NATIVE, "disallow_in_graph")


def assume_constant_result(function: F) -> F:
    """Have a function called while tracing, and its result taken for a constant: it gives the same for the same arguments, as long as the process lives.

    Nothing that it reads is guarded; of an object among its arguments, only which one it is. Raises BadArgument for what can't be called.
    """
    return _declare(function, Treatment.CONSTANT, "assume_constant_result")


def substitute_in_graph(original: Callable[..., Any], *, skip_signature_check: bool = False) -> Callable[[F], F]:
    """`@substitute_in_graph(original)`: have the decorated function traced where a program calls `original`, a function in C, say.

    Outside compiled code, and at graph breaks, `original` itself runs.

    Args:
        original: a function of which framejit has no model of its own.
        skip_signature_check: the functions may take different parameters.

    Raises:
        BadArgument: `original` can't be called, or the decorated object is no function in Python, or takes other parameters.
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
    """What was said of a function; None if nothing was."""
    found = _found(function)
    return found if isinstance(found, Treatment) else None


def substitute_of(function: Any) -> FunctionType | None:
    """The function that is traced in the place of another; None if none is."""
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
    """What gives the function as long as it lives, and takes its entry out of the table then."""
    key = id(function)
    try:
        return weakref.ref(function, lambda gone: _declared.pop(key, None))
    except TypeError:
        return lambda: function


def _parameters(function: Any) -> list[tuple[str, Any]] | None:
    """The names and defaults of a function's parameters; None where nobody knows them."""
    try:
        return [(parameter.name, parameter.default) for parameter in inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        return None
