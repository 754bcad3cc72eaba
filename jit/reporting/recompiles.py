"""Finds out why no entry matches a call, and reports it: which guard of each entry failed, what changed, and what would avoid it."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from torch import nn

from framejit import breaks, logs
from framejit._runtime import Entry
from framejit.errors import RecompileError, UserFrame, program_name
from framejit.guards.dynamic import NONE, Dimensions
from framejit.guards.kinds import Change, Guard
from framejit.guards.source import Call, Path
from framejit.process.when_needed import when_needed
from framejit.program.code_kinds import MODULE_CALLS
from framejit.torch_state.torch_function_stack import in_force

explain = when_needed("framejit.guards.explain")

NOTHING: Mapping[Path, Dimensions] = {}
UNKNOWN = Change((), Guard)
"""The cause of a recompile if no guard fails any more, because something has changed and changed back."""


def name_of(function: types.FunctionType, module: nn.Module | None, resumed_at: UserFrame | None = None) -> str:
    """The name of a function in reports. For the function of torch that runs every module's calls, it is the module's class.

    `resumed_at`: for a resume function, the place where the program continues.
    """
    name = program_name(function.__qualname__)
    owner = f"the module {type(module).__qualname__}" if module is not None and function.__code__.co_filename == MODULE_CALLS else name
    if resumed_at is None:
        return owner
    inner = "" if resumed_at.function in (owner, program_name(function.__code__.co_qualname)) else f" of {resumed_at.function}"
    return f"{owner}{',' if inner else ''} from line {resumed_at.lineno}{inner} on"


def first_failing(entry: Entry, call: Call) -> Any:
    """The first guard of an entry that fails for a call; None if all hold."""
    with in_force():
        number = entry.tree.failing(call.locals, call.function)
    if number is None or number < 0:
        return None
    return entry.spec.guards[number]


def cause_of(entry: Entry, call: Call) -> Change:
    """The change that makes an entry not match a call: the path and the kind of the first guard that fails."""
    guard = first_failing(entry, call)
    return UNKNOWN if guard is None else guard.change(call)  # type: ignore[no-any-return]


def failure_of(entry: Entry, call: Call) -> Any:
    """The first failing guard of an entry, with what it expected and found (framejit.guards.explain.Failure); None if all guards hold."""
    guard = first_failing(entry, call)
    return None if guard is None else explain.failure_of(guard, call)


def is_symbolic(guard: Guard, call: Call, varying: Mapping[Path, Dimensions]) -> bool:
    """Return whether a guard fails only because of sizes and numbers that are known to vary (`varying`), and are symbolic in the next entry."""
    differing = [difference for difference in guard.differences(guard.source.fetch(call)) if difference.what != "stride"]
    known = varying.get(guard.source.path(), NONE)
    return bool(differing) and (known is None or all(difference.what == "size" and difference.dim in known for difference in differing))


def listing(entries: Iterable[Entry], call: Call, everything: bool = False, varying: Mapping[Path, Dimensions] = NOTHING) -> list[str]:
    """Texts that say why the entries don't match a call. Entries that differ only in what they expect of the same value share a text.

    `everything`: name all failing guards of each entry, not only the first one. `varying`: the sizes and numbers that are symbolic from now on.
    """
    alike: dict[Any, tuple[Any, list[str], list[int], list[Any]]] = {}
    for entry in sorted(entries, key=lambda entry: entry.spec.origin.number):
        found = explain.failures(entry.spec.guards, call) if everything else [failure_of(entry, call)]
        for failure in [failure for failure in found if failure is not None] or [None]:
            key = None if failure is None else (type(failure.guard), failure.source, failure.found, failure.line, failure.hint)
            _, expected, numbers, differences = alike.setdefault(key, (failure, [], [], []))
            if entry.spec.origin.number not in numbers:  # those of other functions have numbers of their own
                numbers.append(entry.spec.origin.number)
            if failure is not None and failure.expected not in expected:
                expected.append(failure.expected)
                differences += failure.numbers
    lines = []
    for failure, expected, numbers, differences in alike.values():
        text = "its guards hold now"
        if failure is not None:
            symbolic = is_symbolic(failure.guard, call, varying)
            text = str(replace(failure, expected=explain.listed(expected), numbers=tuple(differences), symbolic=symbolic))
        lines.append(f"entr{'y' if len(numbers) == 1 else 'ies'} {', '.join(map(str, numbers))}: {text}")
    return lines


def log(name: str, number: int, entries: tuple[Entry, ...], call: Call, varying: Mapping[Path, Dimensions]) -> None:
    """Log that a function is compiled again. `varying`: the sizes and numbers that are symbolic in the new entry."""
    if logs.enabled("recompiles"):
        text = "\n".join(listing(entries, call, logs.enabled("recompiles", detail=True), varying))
        logs.info("recompiles", f"recompiling {name}: no entry fits; this makes entry {number}", text)


def log_other(name: str, number: int, entries: tuple[Entry, ...], call: Call, detail: bool) -> None:
    """Log that a function is compiled because the entries of other modules couldn't be shared. With `detail`, they are entries of other functions, and only
    `+recompiles` shows it."""
    if entries and logs.enabled("recompiles", detail):
        text = "\n".join(listing(entries, call, logs.enabled("recompiles", detail=True)))
        write = logs.debug if detail else logs.info
        write("recompiles", f"compiling {name}: nothing compiled for others of its kind fits; this makes entry {number}", text)


def error(name: str, why: str, entries: tuple[Entry, ...], call: Call) -> RecompileError:
    """The error for a call that no entry matches, if the program has made that an error. `why` names the stance or the option."""
    failures = [failure for failure in (failure_of(entry, call) for entry in entries) if failure is not None]
    text = "\n".join(listing(entries, call)) if entries else "nothing has been compiled for it yet"
    return RecompileError(f"{name} would have to be compiled{' again' if entries else ''}, and {why}\n{text}", name, failures)


def over_limit(name: str, limit: str, entry: Entry, call: Call) -> tuple[breaks.Break, list[UserFrame]]:
    """The break reason of a call that runs uncompiled because of a limit, and the user's frames that it points to. It names what changes between calls, which
    is found by the guards of `entry`, the latest one."""
    failure = failure_of(entry, call)
    if failure is None:
        return breaks.RecompileLimit(name, limit, "unknown", "Call it with fewer kinds of arguments"), []
    line = failure.line
    lines = [] if line is None else [line] if line.caller is None else [line.caller, line]
    where = [UserFrame(line.filename, line.function, line.lineno, *line.columns) for line in lines]
    advice = failure.hint or "keep it the same on every call"
    return breaks.RecompileLimit(name, limit, failure.difference, advice[0].upper() + advice[1:]), where
