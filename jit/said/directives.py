"""The directives in force: a stack of settings for each context, to which `with` blocks and decorated calls push.

The settings are a tuple of (kind, value), outermost first, so that traces can hold, guard and restore them as one value. A trace has its own copy
(`VM.directives`) and puts it in force where a call is split. The settings that the call has pushed are then above a mark of that call (CALL, number), which
separates them from those that were in force around the call.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from types import FunctionType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
Directives = tuple[tuple[str, Any], ...]

ERROR = "error"
"""Kind: whether a graph break is an error (bool)."""
NESTED = "nested"
"""Kind: whether calls are split inside inlined functions (bool)."""
CALL = "call"
"""Kind: the mark of a compiled call in progress (the number of its family)."""

DISABLED = "_framejit_disabled"
DISABLED_FOR_TORCH = "_torchdynamo_disable"
"""Attributes of functions that aren't to be compiled."""
MADE_BY_TORCH = "_torchdynamo_orig_callable"
"""The attribute by which torch.compile's functions name what they were made of. That is compiled and traced, for they turn torch's tracer on."""

CURRENT: ContextVar[Directives] = ContextVar("framejit_directives", default=())
"""The settings of the running context. Guards read it by its `get`."""


def push(kind: str, value: bool) -> None:
    """Begin a region: push its setting."""
    CURRENT.set((*CURRENT.get(), (kind, value)))


def pop() -> None:
    """End the innermost region."""
    CURRENT.set(popped(CURRENT.get()))


def popped(directives: Directives) -> Directives:
    """Without the innermost region, and without the marks of calls that no region of theirs stands above any more."""
    rest = directives
    while rest and rest[-1][0] == CALL:
        rest = rest[:-1]
    rest = rest[:-1]
    while rest and rest[-1][0] == CALL:
        rest = rest[:-1]
    return rest


def mark_of(directives: Directives, call: int) -> int | None:
    """Return the index of a call's mark; None if it has none."""
    return next((i for i in range(len(directives) - 1, -1, -1) if directives[i] == (CALL, call)), None)


def made_real(before: Directives, now: Directives, call: int) -> Directives:
    """The settings that a split call leaves in force: those that it has pushed itself are above its mark. `before`: the settings when the trace began."""
    if mark_of(now, call) is not None or len(now) <= len(before) or now[: len(before)] != before:
        return now
    return (*before, (CALL, call), *now[len(before) :])


def around(directives: Directives, call: int) -> Directives:
    """The settings in force around a call, which hold again after it has left its own."""
    mark = mark_of(directives, call)
    return directives if mark is None else directives[:mark]


def innermost(directives: Directives, kind: str) -> bool | None:
    """The innermost setting of a kind; None where there is none."""
    return next((value for found, value in reversed(directives) if found == kind), None)


def breaks_are_errors(before: Directives, now: Directives, call: int, fullgraph: bool) -> bool | None:
    """Return whether a graph break is an error now. A setting of the call itself decides; otherwise `fullgraph`; otherwise a setting around the call. None if
    there is none."""
    mark = mark_of(now, call)
    own = now[mark:] if mark is not None else now[len(before) :]
    inside = innermost(own, ERROR)
    if inside is not None:
        return inside
    return True if fullgraph else innermost(now, ERROR)


def is_disabled(function: Any) -> bool:
    """Return whether a function is marked by `framejit.disable` or `torch.compiler.disable`, so that it isn't compiled."""
    return isinstance(function, FunctionType) and (DISABLED in function.__dict__ or bool(function.__dict__.get(DISABLED_FOR_TORCH)))


def untraced(function: F) -> F:
    """Mark a function of framejit's that the program may call. A trace stops at the call, since framejit does not compile itself."""
    setattr(function, DISABLED, "framejit does not compile itself")
    return function
