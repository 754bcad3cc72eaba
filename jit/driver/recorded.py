"""Takes the entries that are made while something is precompiled, in the form in which an artifact has them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

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
    """The entries that are made while something is precompiled, as bytes. `folder`: it gets the libraries of their kernels."""

    def __init__(self) -> None:
        self.folder = folder.temporary(self)
        self.entries: dict[Entry, PrecompiledEntry] = {}
        self.left_out: list[LeftOut] = []
        self.files: set[str] = set()

    def found_for(self, compiler: Any, call: Call) -> Entry | None:
        """No entry: each is made."""
        return None

    def missed(self, compiler: Any, call: Call, entries: Sequence[Entry]) -> bool:
        """Each call may be compiled."""
        return True

    def made(self, call: Call, entry: Entry) -> None:
        """Add a new entry, as bytes, if another process can make it again."""
        try:
            with folder.using(self.folder):
                data = kept.contents(entry, kept.own_of(call))
                self._check(data, call, entry)
        except (Unsaved, Absent) as error:
            self.leave_out(call, str(error) if isinstance(error, Unsaved) else f"it refers to {error}, which another process wouldn't find")
            return
        guards: Sequence[Guard] = entry.spec.guards
        self.files |= set(entry.spec.files)
        resumed = RESUMED in call.function.__qualname__
        texts = tuple(describe(guards).splitlines())
        self.entries[entry] = PrecompiledEntry(frame_key(call), name_of(call), resumed, texts, calls_of(guards, call), modes_of(guards), data)

    def _check(self, data: bytes, call: Call, entry: Entry) -> None:
        """Make the entry again as another process will. Raises InternalError if it doesn't serve the call that it was made for."""
        again = kept.bound(data, call, entry.spec.origin)
        with torch_function_stack.in_force():
            if again.tree.match(call.locals, call.function) is None:
                raise InternalError(f"an entry of an artifact rejects the call that it was made for: {recompiles.failure_of(again, call)}")

    def leave_out(self, call: Call, why: str) -> None:
        """Note that an artifact has no entry for a call."""
        self.left_out.append(LeftOut(frame_key(call), name_of(call), why))

    def covered(self) -> tuple[PrecompiledEntry, ...]:
        """The entries that calls can reach: a resume function's only if the code before the break is there too."""
        splits = any(entry.spec.replacement.step is not None for entry in self.entries)
        return tuple([made for made in self.entries.values() if splits or not made.resumed])

    def libraries(self) -> dict[str, Path]:
        """The libraries of kernels, by their hashes."""
        return {path.stem: path for path in (self.folder / "kernels").glob(f"*{folder.LIBRARY}")}


def name_of(call: Call) -> str:
    return after_break(recompiles.name_of(call.function, module_in(call.locals[0]) if call.locals else None))


def calls_of(guards: Iterable[Guard], call: Call) -> tuple[str, ...]:
    """The guards on what the arguments hold, as text, without those on the module that is called, or on the tuple and dict of a wrapper."""
    skipped = call.function.__code__.co_varnames[0] if call.locals and module_in(call.locals[0]) is not None else None
    texts = []
    for guard in guards:
        for source in (guard.source, *guard.sources()):
            local = local_of(source)
            if local is not None and local != skipped and guard.source.name_in_reports() not in ("args", "kwargs"):
                texts.append(f"{guard.source.name_in_reports()} {guard.expected()}")
                break
    return tuple(dict.fromkeys(texts))


def local_of(source: Source | None) -> str | None:
    """The name of the argument at which a path begins; None if it begins elsewhere."""
    while source is not None and not isinstance(source, Local):
        source = source.base
    return None if source is None else source.payload.name


def modes_of(guards: Iterable[Guard]) -> str:
    """The modes of torch's that matter most to a program, as text."""
    return ", ".join(
        f"{name} {state}" for guard in guards if isinstance(guard, GlobalState) for name, state in [*zip(guard.names, guard.state)][:MODES]
    )
