"""Why no entry matches a call: the guard that failed on each entry, what is to blame, and how that is told."""

from __future__ import annotations

import importlib
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
from framejit.library import MODULE_CALLS
from framejit.torch_function_stack import in_force

NOTHING: Mapping[Path, Dimensions] = {}
UNKNOWN = Change((), Guard)
"""What has changed and changed back: no guard fails any more."""


def explain() -> Any:
    """framejit.guards.explain, which is loaded when first needed."""
    return importlib.import_module("framejit.guards.explain")


def name_of(function: types.FunctionType, module: nn.Module | None, resumed_at: UserFrame | None = None) -> str:
    """What to call the function in reports: the module's class, where it is only what runs every module's calls. `resumed_at`: of a resume function,
    where the program goes on.
    """
    name = program_name(function.__qualname__)
    owner = f"the module {type(module).__qualname__}" if module is not None and function.__code__.co_filename == MODULE_CALLS else name
    if resumed_at is None:
        return owner
    inner = "" if resumed_at.function in (owner, program_name(function.__code__.co_qualname)) else f" of {resumed_at.function}"
    return f"{owner}{',' if inner else ''} from line {resumed_at.lineno}{inner} on"


def first_failing(entry: Entry, call: Call) -> Any:
    """The guard of the entry that fails first; None where all hold."""
    with in_force():
        number = entry.tree.failing(call.locals, call.function)
    if number is None or number < 0:
        return None
    return entry.spec.guards[number]


def cause_of(entry: Entry, call: Call) -> Change:
    """The guard of the entry that the call fails."""
    guard = first_failing(entry, call)
    return UNKNOWN if guard is None else guard.change(call)  # type: ignore[no-any-return]


def failure_of(entry: Entry, call: Call) -> Any:
    """The first failing guard of an entry, explained; None where all hold."""
    guard = first_failing(entry, call)
    return None if guard is None else explain().failure_of(guard, call)


def is_symbolic(guard: Guard, call: Call, varying: Mapping[Path, Dimensions]) -> bool:
    """Whether the numbers that keep a guard from holding are all among those that vary."""
    differing = [difference for difference in guard.differences(guard.source.fetch(call)) if difference.what != "stride"]
    known = varying.get(guard.source.path(), NONE)
    return bool(differing) and (known is None or all(difference.what == "size" and difference.dim in known for difference in differing))


def listing(entries: Iterable[Entry], call: Call, everything: bool = False, varying: Mapping[Path, Dimensions] = NOTHING) -> list[str]:
    """Why each entry doesn't serve the call, by its number; `everything`: all failing guards, not only the first of each; `varying`: what is symbolic
    from now on.

    Entries that differ only in what they expect at the same place are told of together.
    """
    alike: dict[Any, tuple[Any, list[str], list[int], list[Any]]] = {}
    for entry in sorted(entries, key=lambda entry: entry.spec.origin.number):
        found = explain().failures(entry.spec.guards, call) if everything else [failure_of(entry, call)]
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
            text = str(replace(failure, expected=explain().listed(expected), numbers=tuple(differences), symbolic=symbolic))
        lines.append(f"entr{'y' if len(numbers) == 1 else 'ies'} {', '.join(map(str, numbers))}: {text}")
    return lines


def log(name: str, number: int, entries: tuple[Entry, ...], call: Call, varying: Mapping[Path, Dimensions]) -> None:
    """Report that a function is compiled again. `varying`: what is symbolic in the new entry."""
    if logs.enabled("recompiles"):
        text = "\n".join(listing(entries, call, logs.enabled("recompiles", detail=True), varying))
        logs.info("recompiles", f"recompiling {name}: no entry fits; this makes entry {number}", text)


def log_other(name: str, number: int, entries: tuple[Entry, ...], call: Call, detail: bool) -> None:
    """Report that what was compiled for other modules (`detail`, for `+recompiles` only: for other functions) could not be shared."""
    if entries and logs.enabled("recompiles", detail):
        text = "\n".join(listing(entries, call, logs.enabled("recompiles", detail=True)))
        write = logs.debug if detail else logs.info
        write("recompiles", f"compiling {name}: nothing compiled for others of its kind fits; this makes entry {number}", text)


def error(name: str, why: str, entries: tuple[Entry, ...], call: Call) -> RecompileError:
    """The error of a call that nothing compiled fits, where that is one."""
    failures = [failure for failure in (failure_of(entry, call) for entry in entries) if failure is not None]
    text = "\n".join(listing(entries, call)) if entries else "nothing has been compiled for it yet"
    return RecompileError(f"{name} would have to be compiled{' again' if entries else ''}, and {why}\n{text}", name, failures)


def over_limit(name: str, limit: str, entry: Entry, call: Call) -> tuple[breaks.Break, list[UserFrame]]:
    """The reason to run a call uncompiled because of a limit, and where to look: what changes between calls, seen from the latest entry."""
    failure = failure_of(entry, call)
    if failure is None:
        return breaks.RecompileLimit(name, limit, "unknown", "Call it with fewer kinds of arguments"), []
    line = failure.line
    lines = [] if line is None else [line] if line.caller is None else [line.caller, line]
    where = [UserFrame(line.filename, line.function, line.lineno, *line.columns) for line in lines]
    advice = failure.hint or "keep it the same on every call"
    return breaks.RecompileLimit(name, limit, failure.difference, advice[0].upper() + advice[1:]), where
