"""Finds the entries of an artifact for the calls of a compiled function, and decides about calls that it has no entry for."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from pickle import UnpicklingError
from typing import Any

from framejit import config, logs
from framejit._runtime import Entry
from framejit.driver import kept
from framejit.driver.artifact_file import ArtifactContents
from framejit.driver.compiled_module import class_made_for, module_in
from framejit.driver.request import Origin
from framejit.errors import NotPrecompiled
from framejit.guards.source import Call, Path
from framejit.reporting import arguments, recompiles
from framejit.saved import folder
from framejit.saved.names import Absent
from framejit.torch_state import torch_function_stack


class UnpackedArtifact:
    """The contents of an artifact, with its libraries of kernels in a folder of this process, from which they can be loaded."""

    def __init__(self, contents: ArtifactContents) -> None:
        self.contents = contents
        self.folder = folder.temporary(self)
        for name, data in contents.libraries.items():
            folder.write(self.folder / "kernels" / (name + folder.LIBRARY), data)
        self.by_frame: dict[str, list[int]] = {}
        for number, entry in enumerate(contents.entries):
            self.by_frame.setdefault(entry.frame, []).append(number)


class PrecompiledEntries:
    """The entries of an artifact for one compiled function: those that were made in this process and that no call has matched yet, and why others weren't."""

    def __init__(self) -> None:
        self.waiting: dict[int, Entry] = {}
        self.taken: set[int] = set()
        self.unusable: dict[int, str] = {}


class BoundArtifact:
    """An artifact that calls of a compiled function, its resume functions, and the functions that native code calls at its breaks take their entries from.

    `on_miss`: what becomes of a call without an entry: "error", "eager" or "compile".
    """

    def __init__(self, unpacked: UnpackedArtifact, on_miss: str) -> None:
        self.unpacked = unpacked
        self.on_miss = on_miss

    def found_for(self, compiler: Any, call: Call) -> Entry | None:
        """The entry for a call that none of the compiler's entries matches, or None."""
        if compiler.precompiled is None:
            compiler.precompiled = PrecompiledEntries()
            for _ in self.unpacked.contents.entries:
                compiler.history.next_number()  # entries that are compiled come after these
        known: PrecompiledEntries = compiler.precompiled
        for number in self.unpacked.by_frame.get(frame_key(call, compiler.class_made_for(call)), ()):
            if number in known.taken or number in known.unusable:
                continue
            if number not in known.waiting:
                self._make(number, known, compiler, call)
            entry = known.waiting.get(number)
            if entry is None:
                continue
            with torch_function_stack.in_force():
                matches = entry.tree.match(call.locals, call.function) is not None
            if matches:
                del known.waiting[number]
                known.taken.add(number)
                logs.info("cache", f"entry {number} of the artifact serves {call.function.__qualname__}")
                return entry
        return None

    def _make(self, number: int, known: PrecompiledEntries, compiler: Any, call: Call) -> None:
        module = module_in(call.locals[0]) if call.locals else None
        origin = Origin(number, None, None if module is None else weakref.ref(module))
        try:
            with folder.using(self.unpacked.folder):
                entry = kept.bound(self.unpacked.contents.entries[number].data, compiler.kept_call(call, origin), files_checked=True)
        except Absent as absent:
            known.unusable[number] = f"{absent} isn't there"
        except Exception as error:
            known.unusable[number] = f"it can't be read: {type(error).__name__}: {error}"
            if config.current().strict and not isinstance(error, UnpicklingError):
                raise
        else:
            known.waiting[number] = entry
            if compiler.resumed_after is None:
                name_arguments(entry, arguments.names(call, module))

    def missed(self, compiler: Any, call: Call, entries: Sequence[Entry]) -> bool:
        """Say whether a call for which no entry was found may be compiled; otherwise it runs uncompiled. Raises NotPrecompiled if it must not run at all."""
        if self.on_miss == "compile":
            return True
        if self.on_miss == "eager" or compiler.upcall_use is not None or self._is_left_out(compiler, call):
            return False
        raise self._error(compiler, call, entries)

    def _is_left_out(self, compiler: Any, call: Call) -> bool:
        """Return whether this is the rest of a call after a graph break for which the artifact has no code."""
        frame = frame_key(call, compiler.class_made_for(call))
        return compiler.resumed_after is not None and frame not in self.unpacked.by_frame

    def _error(self, compiler: Any, call: Call, entries: Sequence[Entry]) -> NotPrecompiled:
        module = module_in(call.locals[0]) if call.locals else None
        name = recompiles.name_of(call.function, module, compiler.history.resumed_at)
        known: PrecompiledEntries = compiler.precompiled
        entries = (*entries, *known.waiting.values())
        lines = [f"entry {number}: {why}" for number, why in known.unusable.items()]
        lines += recompiles.listing(entries, call) if entries else []
        lines = lines or [f"it has none for this function; it was made for {self.unpacked.contents.target}"]
        failures = [failure for failure in (recompiles.failure_of(entry, call) for entry in entries) if failure is not None]
        why = "\n".join([f"the artifact has no entry for this call of {name}, and on_miss is 'error'", *lines])
        return NotPrecompiled(why, name, failures)

    def made(self, asked: kept.KeptCall, entry: Entry) -> None:
        """An entry that was compiled because the artifact has none: nothing is done with it."""


def name_arguments(entry: Entry, names: Mapping[Path, str]) -> None:
    """Have reports about an entry name the arguments of a wrapper as the program does: the names aren't saved."""
    if entry.spec.guards:
        root = entry.spec.guards[0].source  # all paths of an entry begin at one object
        while root.base is not None:
            root = root.base
        root.names.update(names)


def frame_key(call: Call, cls: type | None = None) -> str:
    """A hash that identifies the function that is called, and the forward of the module that it is called for, in any process. `cls`: the class that framejit
    has made for that module, if the call is that of a resume function, which doesn't show it."""
    return kept.short(kept.frame_of(call, cls or (class_made_for(call.locals[0]) if call.locals else None)))
