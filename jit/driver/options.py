"""`Options`, which holds the arguments of one `compile()`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Protocol

from framejit._runtime import Entry
from framejit.backends.registry import Backend
from framejit.config import Config
from framejit.driver import retained
from framejit.driver.declared import DeclaredShapes
from framejit.guards.source import Call
from framejit.quick_dataclass import dataclass


class Precompiled(Protocol):
    """Entries that were made before, for other processes or by other ones."""

    def found_for(self, compiler: Any, call: Call) -> Entry | None:
        """The entry for a call that none of the compiler's entries matches, or None."""

    def missed(self, compiler: Any, call: Call, entries: Sequence[Entry]) -> bool:
        """Say whether a call for which no entry was found may be compiled; otherwise it runs uncompiled. Raises NotPrecompiled if it must not run at all.
        `entries`: those of the compiler."""

    def made(self, asked: Any, entry: Entry) -> None:
        """Take note of a new entry, which was compiled for a call (kept.KeptCall)."""


@dataclass(frozen=True, slots=True)
class Options:
    """The arguments of one `compile()`.

    `isolated`: share entries with no other compiled function. `dynamic`: which sizes and numbers are symbolic: all (True), none (False), or those that
    vary (None). `shapes`: the declared sizes of arguments. `regions`: whether parts of a graph that repeat are compiled once: True, False, or where it pays
    (None). `branches`: "break" if branches that depend on data split calls although both ways could be in the graph. `precompiled`: where entries are looked
    for before one is made, and what happens to a call that has none there.
    """

    backend: Backend
    fullgraph: bool
    config: Config
    isolated: bool = False
    dynamic: bool | None = None
    shapes: DeclaredShapes = DeclaredShapes()
    regions: bool | None = None
    branches: str | None = None
    precompiled: Precompiled | None = None

    @property
    def shareable(self) -> bool:
        """Return whether entries may serve other functions and modules. CUDA graphs are recorded for the addresses of one module's parameters."""
        return not self.isolated and not self.backend.cudagraphs()

    @property
    def learns_sizes(self) -> bool:
        """Return whether sizes and ints that have been seen to vary are symbolic in later entries."""
        return not self.backend.static_shapes and (self.config.automatic_dynamic if self.dynamic is None else self.dynamic)

    def same_as(self, other: Options) -> bool:
        """Return whether both options lead to the same entries."""
        ours, theirs = self.backend, other.backend
        return (
            self.fullgraph == other.fullgraph
            and self.dynamic is other.dynamic
            and self.regions is other.regions
            and self.branches == other.branches
            and self.shapes == other.shapes
            and self.precompiled is other.precompiled
            and self.config == other.config
            and type(ours) is type(theirs)
            and retained.function_of(ours) is retained.function_of(theirs)
            and all(getattr(ours, known.name) == getattr(theirs, known.name) for known in fields(Backend) if known.name not in ("call", "kwargs"))
            and are_alike(ours.kwargs, theirs.kwargs)
        )


def are_alike(ours: Any, theirs: Any) -> bool:
    """Return whether two values of a backend's option mean the same: they are equal plain values, or the same object."""
    if type(ours) is not type(theirs):
        return False
    if isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(are_alike(value, theirs[key]) for key, value in ours.items())
    if isinstance(ours, (list, tuple)):
        return len(ours) == len(theirs) and all(map(are_alike, ours, theirs))
    return ours is theirs or (isinstance(ours, (str, int, float)) and ours == theirs)
