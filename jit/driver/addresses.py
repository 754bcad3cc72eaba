"""The objects whose addresses the entries of a function depend on, by path: where they are new in each call, the next entries are not to depend on them."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Any

from framejit.guards.kinds import AddressIs, Guard
from framejit.guards.source import Path
from framejit.program import classes

FEW = 2
"""So many objects at one path that have ended show that it has a new one in each call."""


class Addresses:
    """The objects whose addresses entries have been made for, held weakly. An entry goes with its object, so that no limit of entries counts it."""

    def __init__(self) -> None:
        self._known: dict[Path, list[weakref.ref[Any]]] = {}

    def note(self, guards: Iterable[Guard], apart_from: object) -> None:
        """Note the objects of a new entry, apart from the module whose call it serves."""
        for guard in guards:
            if isinstance(guard, AddressIs) and guard.value is not apart_from and classes.weakrefoffset(type(guard.value)):
                known = self._known.setdefault(guard.source.path(), [])
                if all(reference() is not guard.value for reference in known):
                    known.append(weakref.ref(guard.value))

    def varying(self, limit: int) -> Iterator[Path]:
        """The paths at which a few objects have ended, or at which there were as many as an option allows entries."""
        for path, known in self._known.items():
            if len(known) >= limit or sum(reference() is None for reference in known) >= FEW:
                yield path

    def forget(self) -> None:
        """Forget all objects."""
        self._known.clear()
