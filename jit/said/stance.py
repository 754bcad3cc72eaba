"""set_stance(): what calls of compiled functions do where they would have to compile, for the process or for a part of the program."""

from __future__ import annotations

import functools
import inspect
import threading
import weakref
from collections.abc import Callable
from typing import Any

from framejit._runtime import set_globally_eager, set_thread_eager
from framejit.errors import BadArgument, suggestion

STANCES: dict[str, str] = {
    "default": "compile",
    "force_eager": "run uncompiled, compiled or not",
    "eager_on_recompile": "run what is compiled, and run uncompiled what isn't",
    "fail_on_recompile": "run what is compiled; what isn't is an error",
    "eager_while_compiling": "run what is compiled; run uncompiled what isn't, while a thread compiles it",
    "eager_then_compile": "run uncompiled at the first call of each function, compile at the second, with symbols for what differs",
}
"""Every stance, with what calls do under it."""

SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE

_lock = threading.Lock()


class _Thread(threading.local):
    def __init__(self) -> None:
        self.stances: list[str] = []


_thread = _Thread()
_process: list[tuple[str, weakref.ref[set_stance] | None]] = [("default", None)]
"""Stances announced for the process, with who announced each, oldest first. The last one holds. Who is gone will not take back a stance."""


def current() -> str:
    """The stance in force on this thread."""
    return _thread.stances[-1] if _thread.stances else _process[-1][0]


def enter(stance: str) -> None:
    """A region of this thread begins."""
    _thread.stances.append(stance)
    _tell_runtime()


def leave() -> None:
    """The innermost region of this thread ends."""
    _thread.stances.pop()
    _tell_runtime()


def announce(made: set_stance) -> Callable[[], None]:
    """A stance is set until further notice: for the rest of the region that this thread is in, else for the process. Gives its undoing."""
    stances = _thread.stances
    if stances:
        place, before = len(stances) - 1, stances[-1]
        stances[-1] = made.stance
        _tell_runtime()
        return functools.partial(_restore, stances, place, before)
    with _lock:
        settled = max(i for i, (_, by) in enumerate(_process) if by is None or by() is None)
        del _process[:settled]
        own = (made.stance, weakref.ref(made))
        _process.append(own)
    _tell_runtime()
    return functools.partial(_take_back, own)


def _restore(stances: list[str], place: int, before: str) -> None:
    if stances is _thread.stances and place < len(stances):
        stances[place] = before
        _tell_runtime()


def _take_back(own: Any) -> None:
    with _lock:
        if own in _process:
            _process.remove(own)
    _tell_runtime()


def _tell_runtime() -> None:
    """Being forced to eager is asked for at every call, so the runtime knows it itself."""
    set_globally_eager(_process[-1][0] == "force_eager")
    set_thread_eager(_thread.stances[-1] == "force_eager" if _thread.stances else None)


class set_stance:
    """The behaviour of compiled functions when no compiled code fits a call.

    - "default": compile.
    - "force_eager": run uncompiled, also where something compiled would fit.
    - "eager_on_recompile": run what is compiled; where nothing fits, run the call uncompiled.
    - "fail_on_recompile": run what is compiled; where nothing fits, raise `RecompileError`, which says why.
    - "eager_while_compiling": run what is compiled; where nothing fits, run the call uncompiled, while a thread beside the program compiles it.
    - "eager_then_compile": run the first call of each function uncompiled, compile from the second on; sizes and numbers among the
        arguments that differ in the first two calls are symbolic.

    `set_stance(name)` holds for the whole process from then on; called inside a `with set_stance(...)` block, for the rest of that block.
    `with set_stance(name):` and `@set_stance(name)` hold for the block or the calls, on the running thread only, nested as they are
    written, whatever is set for the process meanwhile. Inside compiled code it splits the graph.

    Raises:
        BadArgument: an unknown name, with a suggestion; a decorated object that isn't callable, or whose calls are suspended
            (generator and coroutine functions).
    """

    def __init__(self, stance: str = "default") -> None:
        if not isinstance(stance, str) or stance not in STANCES:
            raise BadArgument(f"set_stance(): there is no stance {stance!r}{suggestion(str(stance), STANCES, listing=True)}")
        self.stance = stance
        self._undo: Callable[[], None] | None = announce(self)

    def _retract(self) -> None:
        """Take back the announcement for the process: the object is used for a block or a function."""
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()

    def __enter__(self) -> None:
        self._retract()
        enter(self.stance)

    def __exit__(self, *exc: object) -> None:
        leave()

    def __call__(self, function: Any) -> Any:
        self._retract()
        if not callable(function):
            raise BadArgument(f"set_stance() decorates a callable; got {type(function).__name__}")
        code = getattr(function, "__code__", None)
        if code is not None and code.co_flags & SUSPENDS:
            raise BadArgument(f"set_stance() can't decorate {code.co_qualname}: its calls are suspended; use `with set_stance(...)` inside it")
        stance = self.stance

        def under_stance(*args: Any, **kwargs: Any) -> Any:
            enter(stance)
            try:
                return function(*args, **kwargs)
            finally:
                leave()

        return functools.wraps(function)(under_stance)
