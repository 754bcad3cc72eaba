"""Takes the entries that are made while something is precompiled, in the form in which an artifact has them."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from framejit._runtime import Entry
from framejit.driver import kept
from framejit.driver.artifact_file import LeftOut, PrecompiledEntry
from framejit.driver.compiled_module import module_in
from framejit.driver.precompiled import frame_key
from framejit.errors import RESUMED, InternalError, after_break
from framejit.guards.explain import describe
from framejit.guards.global_state import GlobalState
from framejit.guards.kinds import Guard
from framejit.guards.source import Call, Local, Source
from framejit.reporting import recompiles
from framejit.saved import folder
from framejit.saved.names import Absent, Unsaved
from framejit.torch_state import torch_function_stack

MODES = 2
"""So many of torch's modes, the first ones of the guard on them, are named in reports."""


class RecordedEntries:
    """The entries that are made while something is precompiled, as bytes.

    `folder`: it gets the libraries of their kernels. `has_data`: whether tensors have the data that they will have when the program runs. `takes_splits`:
    whether calls that are split are recorded: the program runs, so that what follows a graph break is compiled too, and nothing is claimed about other calls.
    `outermost`: the frames that the program's own calls reach, which need no graph break before them.
    """

    def __init__(self, has_data: bool) -> None:
        self.has_data = has_data
        self.takes_splits = False
        self.folder = folder.temporary(self)
        self.entries: dict[Entry, PrecompiledEntry] = {}
        self.left_out: list[LeftOut] = []
        self.outermost: set[str] = set()
        self.files: set[str] = set()

    def found_for(self, compiler: Any, call: Call) -> Entry | None:
        """No entry: each is made."""
        return None

    def missed(self, compiler: Any, call: Call, entries: Sequence[Entry]) -> bool:
        """Each call may be compiled."""
        return True

    def made(self, asked: kept.KeptCall, entry: Entry) -> None:
        """Add a new entry, as bytes, if another process can make it again."""
        call = asked.call
        try:
            self._reject_data(entry)
            if entry.spec.replacement.step is not None and not self.takes_splits:
                raise Unsaved("it ends in a graph break")
            with folder.using(self.folder):
                data = kept.contents(entry, asked.own)
                self._check(data, asked)
        except (Unsaved, Absent) as error:
            why = str(error) if isinstance(error, Unsaved) else f"it refers to {error}, which another process wouldn't find"
            advice = "; if no gradients are needed, precompile under torch.no_grad()" if torch.is_grad_enabled() and is_whole(entry) else ""
            self.leave_out(call, why + advice)
            return
        guards: Sequence[Guard] = entry.spec.guards
        self.files |= set(entry.spec.files)
        resumed = RESUMED in call.function.__qualname__
        text = zlib.compress(describe(guards).encode())
        self.entries[entry] = PrecompiledEntry(
            frame_key(call, asked.own.cls), name_of(call), resumed, len(guards), calls_of(guards, call), others_of(guards, call), modes_of(guards), text, data
        )  # fmt: skip

    def _reject_data(self, entry: Entry) -> None:
        """Raise Unsaved if an entry depends on data that fake tensors don't have."""
        read = None if self.has_data else next((guard.source for guard in entry.spec.guards if is_of_data(guard.source)), None)
        if read is not None:
            raise Unsaved(f"it depends on {read.name_in_reports()}, which is a fake tensor's")

    def _check(self, data: bytes, asked: kept.KeptCall) -> None:
        """Make the entry again as another process will. Raises InternalError if it doesn't serve the call that it was made for."""
        try:
            again, call = kept.bound(data, asked), asked.call
        except UnpicklingError as error:
            raise InternalError(f"an entry of an artifact can't be read: {error}") from error
        with torch_function_stack.in_force():
            if again.tree.match(call.locals, call.function) is None:
                raise InternalError(f"an entry of an artifact rejects the call that it was made for: {recompiles.failure_of(again, call)}")

    def leave_out(self, call: Call, why: str) -> None:
        """Note that an artifact has no entry for a call."""
        self.left_out.append(LeftOut(frame_key(call), name_of(call), why))

    def covered(self) -> tuple[PrecompiledEntry, ...]:
        """The entries that calls can reach: resume functions and functions that native code calls only if the code before a break is there too."""
        splits = any(entry.spec.replacement.step is not None for entry in self.entries)
        return tuple([made for made in self.entries.values() if splits or made.frame in self.outermost])

    def libraries(self) -> dict[str, Path]:
        """The libraries of kernels, by their hashes."""
        return {path.stem: path for path in (self.folder / "kernels").glob(f"*{folder.LIBRARY}")}


def is_whole(entry: Entry) -> bool:
    """Return whether an entry has code for its whole frame."""
    return entry.code is not None and entry.spec.replacement.step is None


def name_of(call: Call) -> str:
    return after_break(recompiles.name_of(call.function, module_in(call.locals[0]) if call.locals else None))


def calls_of(guards: Iterable[Guard], call: Call) -> tuple[str, ...]:
    """The guards on what the arguments hold, as text, without those on the module that is called, or on the tuple and dict of a wrapper."""
    named = [(guard.source.name_in_reports(), guard) for guard in guards if is_of_arguments(guard.source, call)]
    return tuple(dict.fromkeys(f"{name} {guard.expected()}" for name, guard in named if name not in ("args", "kwargs")))


def others_of(guards: Iterable[Guard], call: Call) -> dict[str, int]:
    """Count the guards that aren't on arguments, by what they are about."""
    return dict(Counter(subject_of(guard) for guard in guards if not is_of_arguments(guard.source, call)))


def subject_of(guard: Guard) -> str:
    """Describe in words what a guard is about, if it isn't about arguments."""
    source: Source | None = guard.source
    if isinstance(guard, GlobalState):
        return "torch's modes and settings"
    while source is not None and not isinstance(source, Local):
        source = source.base
    return "the module" if source is not None else "functions, classes and globals"


def is_of_data(source: Source | None) -> bool:
    """Return whether a path leads to the data of a tensor."""
    while source is not None and not source.is_data:
        source = source.base
    return source is not None


def is_of_arguments(source: Source | None, call: Call) -> bool:
    """Return whether a path begins at an argument, other than the module that is called."""
    module = call.function.__code__.co_varnames[0] if call.locals and module_in(call.locals[0]) is not None else None
    while source is not None and not isinstance(source, Local):
        source = source.base
    return source is not None and source.payload.name != module


def modes_of(guards: Iterable[Guard]) -> str:
    """The modes of torch's that matter most to a program, as text."""
    return ", ".join(
        f"{name} {state}" for guard in guards if isinstance(guard, GlobalState) for name, state in [*zip(guard.names, guard.state)][:MODES]
    )
