"""FRAMEJIT_CHECK=guards and =results: compares native guards with their Python reference, and compiled calls with eager ones."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from framejit import config
from framejit._runtime import CompiledFunction, Entry, Unset, set_call_checker, set_guard_checker, set_thread_checking
from framejit.driver import second_run
from framejit.errors import CheckError
from framejit.guards.source import MISSING, Call
from framejit.torch_state.torch_function_stack import set_aside


def install(settings: config.Config) -> None:
    """Make the runtime call this module before each call of a function that is compiled with these checks."""
    checks = settings.checks()
    if "guards" in checks:
        set_guard_checker(check_guards)
    if "results" in checks:
        set_call_checker(check_call)


def settings_of(compiled: CompiledFunction) -> config.Config | None:
    """The options that a function was compiled with; None for one that wasn't compiled by `compile`."""
    options = getattr(compiled.compile_callback, "options", None)
    return getattr(options, "config", None)


LOOKS = 8
"""The number of further comparisons in which a disagreement must persist to be an error: another thread may change something back and forth."""


def check_guards(compiled: CompiledFunction, args: tuple[Any, ...], function: FunctionType) -> None:
    """Raises CheckError where an entry's native tree and its guards' reference disagree on a call of `function`. `args`: the raw argument slots."""
    settings = settings_of(compiled)
    if settings is None or "guards" not in settings.checks():
        return
    call = Call(tuple(MISSING if arg is Unset else arg for arg in args), function)
    for entry in compiled.entries:
        disagreement = compare_verdicts(entry, call)
        if disagreement is not None and all(compare_verdicts(entry, call) is not None for _ in range(LOOKS)):
            raise CheckError(f"guards of {function.__qualname__}: {disagreement}")


def compare_verdicts(entry: Entry, call: Call) -> str | None:
    """Describe how an entry's native tree and the Python reference of its guards disagree on a call; return None if they don't.

    The native tree is asked before and after: where it changes its mind, another thread is at work. A program that is near its recursion limit may leave the
    reference no room, and then nothing is compared.
    """
    guards = getattr(entry.spec, "guards", None)
    if guards is None or not entry.tree.alive:
        return None
    before = entry.tree.match(call.locals, call.function) is not None
    try:
        with set_aside():
            failing = next((guard for guard in guards if not guard.check(guard.source.fetch(call), call)), None)
    except RecursionError:
        return None
    if before == (failing is None) or entry.tree.failing(call.locals, call.function) == -1 or not entry.tree.alive:
        return None
    if before != (entry.tree.match(call.locals, call.function) is not None):
        return None
    number = entry.spec.origin.number
    if failing is not None:
        return f"entry {number} accepts a call that the reference rejects: {failing.source.describe()} expected that it {failing.expected()}"
    rejecting = guards[entry.tree.failing(call.locals, call.function) or 0]
    text = f"{rejecting.source.describe()} expected that it {rejecting.expected()}"
    return f"entry {number} rejects a call that the reference accepts: {text}"


def check_call(compiled: CompiledFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """In place of a call: runs it, and some of them eagerly on copies too. Raises CheckError where the two differ."""
    outer = set_thread_checking(True)
    try:
        settings = settings_of(compiled)
        if settings is None or "results" not in settings.checks() or not compiled.compile_callback.is_sampled():  # type: ignore[attr-defined]
            return compiled(*args, **kwargs)
        backend = compiled.compile_callback.options.backend.name  # type: ignore[attr-defined]
        return second_run.compare_with_eager(compiled, args, kwargs, backend)
    finally:
        set_thread_checking(outer)
