"""What becomes of an entry when a new one serves all its calls: it goes, unless its code is for fixed sizes that come again and may be faster for that."""

from __future__ import annotations

from framejit._runtime import Entry
from framejit.backends.registry import Backend
from framejit.driver.loader import Fate
from framejit.guards.superseded import fixes_more, supersedes


def fate(old: Entry, new: Entry, backend: Backend) -> Fate:
    """What becomes of `old` now that there is `new`.

    It stays where it isn't proven that all its calls are served, and where the new one would serve them worse: with a graph break, or uncompiled. Where it
    was used more than once, for sizes that are constants in it and symbols in the new one, code of some backends is faster: it is preferred.
    """
    worse = new.code is None or (new.step is not None and old.step is None)
    if worse or old.code is None or not supersedes(new.spec.guards, old.spec.guards):
        return "stays"
    if backend.faster_for_fixed_sizes and old.hits > 1 and fixes_more(old.spec.guards, new.spec.guards):
        return "is preferred"
    return "goes"
