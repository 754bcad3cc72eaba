"""Directives for regions of a program: where graph breaks are errors, where the graph is split, and which code isn't compiled at all."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

from torch import nn

from framejit._runtime import NEVER, CompiledFunction, mark_code, set_thread_disabled
from framejit.driver.compiled_module import module_with_call
from framejit.errors import BadArgument
from framejit.said import directives
from framejit.said.vocabulary import spoken

_outer = threading.local()
"""The states to which the `with disable()` blocks of a thread return, innermost first. They aren't stored in the object, since it may be entered twice."""


class Region:
    """Base class of directives that hold inside a `with` block, or inside the calls of a decorated function."""

    kind: str
    setting: bool

    def __call__(self, function: Any) -> Any:
        """Return a function (or module) that runs the given one with the setting in force. Raises BadArgument if the argument can't be called."""
        if not callable(function):
            raise BadArgument(f"{type(self).__name__}() decorates a callable; got {type(function).__name__}")
        if isinstance(function, nn.Module):
            return module_with_call(function, self)
        kind, setting = self.kind, self.setting

        def inside(*args: Any, **kwargs: Any) -> Any:
            directives.push(kind, setting)
            try:
                return function(*args, **kwargs)
            finally:
                directives.pop()

        return functools.wraps(function)(inside)

    def __enter__(self) -> None:
        directives.push(self.kind, self.setting)

    def __exit__(self, *exc: object) -> None:
        directives.pop()


class error_on_graph_break(Region):
    """In `with error_on_graph_break(True):`, or under `@error_on_graph_break(True)`, a graph break raises Unsupported. With False, breaks are allowed.

    The directive holds for all code that is traced in the block or in calls of the decorated function, and for compiled functions that are called there. The
    innermost directive decides. Inside a function compiled with `fullgraph=True`, False allows breaks in its region. Around such a function it changes
    nothing: with `fullgraph=True`, a break is an error for the whole call.

    Raises BadArgument unless `setting` is True or False.
    """

    kind = directives.ERROR

    def __init__(self, setting: bool) -> None:
        if not isinstance(setting, bool):
            raise BadArgument(f"error_on_graph_break() takes True or False; got {setting!r}")
        self.setting = setting


@spoken
class disable_nested_graph_breaks(Region):
    """In `with disable_nested_graph_breaks():`, or under `@disable_nested_graph_breaks`, calls are split in the outermost frame only.

    If there is a graph break inside an inlined function, the compiled function calls the inlined one natively, instead of continuing inside it after the
    break. The function that is called natively is compiled by itself.
    """

    kind = directives.NESTED
    setting = False

    def __new__(cls, function: Any = None) -> Any:
        """With a callable, return the decorated callable. Without one, return a context manager and decorator."""
        self = super().__new__(cls)
        return self if function is None else self(function)


@spoken
def graph_break(msg: str = "") -> None:
    """Split the graph at this call, for the reason `msg`. Outside compiled code this does nothing."""


@spoken
def skip_frame(msg: str = "") -> None:
    """Run the function that calls this uncompiled, for the reason `msg`. Outside compiled code this does nothing.

    If the function was inlined, its caller is split around the call. If it is the compiled function itself, its call runs uncompiled.
    """


@spoken
def whole_graph(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function that was compiled with `fullgraph=True`, inside compiled code: a graph break in the call is an error."""
    directives.push(directives.ERROR, True)
    try:
        return function(*args, **kwargs)
    finally:
        directives.pop()


@spoken
class disable:
    """Run code uncompiled: use `@disable` or `disable(fn)` for a function, and `with disable():` for a block.

    A disabled function runs uncompiled, and so does everything that it calls. With `recursive=False`, only its own frame runs uncompiled, and functions that
    it calls are compiled. Where compiled code calls a disabled function, it is split. A `with` block inside a compiled function makes the rest of that call
    run uncompiled. `reason` is shown in reports.
    """

    def __new__(cls, function: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
        """With a callable, return its disabled form. Without one, return a decorator and context manager. Raises BadArgument for anything else."""
        if not isinstance(recursive, bool):
            raise BadArgument(f"disable(): recursive must be True or False; got {recursive!r}")
        self = super().__new__(cls)
        self.recursive = recursive
        self.reason = reason
        if function is None:
            return self
        return self(function)

    recursive: bool
    reason: str | None

    def __call__(self, function: Any) -> Any:
        if not callable(function):
            raise BadArgument(f"disable() takes a callable; got {type(function).__name__}")
        if isinstance(function, nn.Module):
            return module_with_call(function, self)
        if isinstance(function, CompiledFunction):
            function = function.function

        def disabled(*args: Any, **kwargs: Any) -> Any:
            before = set_thread_disabled(True)
            try:
                return function(*args, **kwargs)
            finally:
                set_thread_disabled(before)

        def not_traced(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        if not self.recursive and isinstance(function, FunctionType):
            mark_code(function.__code__, NEVER)  # nor is it compiled where native code calls it
        made = functools.wraps(function)(disabled if self.recursive else not_traced)
        setattr(made, directives.DISABLED, self.reason or "")
        return made

    def __enter__(self) -> None:
        if not self.recursive:
            raise BadArgument("disable(recursive=False) is about a function's own frame; decorate the function, or use `with disable():`")
        _outer.disabled = (set_thread_disabled(True), getattr(_outer, "disabled", None))

    def __exit__(self, *exc: object) -> None:
        before, _outer.disabled = _outer.disabled
        set_thread_disabled(before)
