"""Decides what happens to an entry when a new one serves all its calls: it is dropped, unless its code for fixed sizes may be faster and was used again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framejit._runtime import Entry
from framejit.backends.registry import Backend
from framejit.driver.loader import Fate
from framejit.process.when_needed import when_needed

if TYPE_CHECKING:
    from framejit.guards import superseded
else:
    superseded = when_needed("framejit.guards.superseded")


def fate(old: Entry, new: Entry, backend: Backend) -> Fate:
    """Decide what happens to the entry `old` now that there is `new`.

    It stays if it isn't proven that the new entry serves all its calls, or if the new one would serve them worse: with a graph break, or uncompiled. It is
    preferred if it was used more than once, for sizes that are constants in it and symbols in the new entry, and the backend's code may be faster for that.
    """
    worse = new.code is None or (new.step is not None and old.step is None)
    if worse or old.code is None or not superseded.supersedes(new.spec.guards, old.spec.guards):
        return "stays"
    if backend.faster_for_fixed_sizes and old.hits > 1 and superseded.fixes_more(old.spec.guards, new.spec.guards):
        return "is preferred"
    return "goes"
