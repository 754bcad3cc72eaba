"""Notes whether a trace observes certain values while something runs in it: a call that hasn't observed them can be copied with others in their place."""

from __future__ import annotations

from collections.abc import Sequence

from framejit.ceval.frame import Frame
from framejit.objects.core.object import Object, settle
from framejit.quick_dataclass import dataclass


@dataclass(slots=True, eq=False)
class Watch:
    """The values to look out for, by identity, the lists among them, of which items may be taken, and whether one has been observed."""

    values: frozenset[int]
    lists: Sequence[Object]
    seen: bool = False

    def note(self, observed: Object, frame: Frame | None) -> None:
        """Note that the current instruction of a frame observes a value."""
        if id(observed) in self.values and not (any(observed is items for items in self.lists) and takes_item_of(frame, observed)):
            self.seen = True


class Watches:
    """The watches of a trace that have begun and not ended, of calls inside one another. `values`: what they look out for, all together."""

    def __init__(self) -> None:
        self.values: frozenset[int] = frozenset()
        self.begun: list[Watch] = []

    def begin(self, values: Sequence[Object], lists: Sequence[Object]) -> Watch:
        """Look out for more values, inside what the others watch."""
        watch = Watch(frozenset(map(id, (*values, *lists))), lists)
        self.begun.append(watch)
        self.values |= watch.values
        return watch

    def end(self) -> None:
        """End the watch that has begun last."""
        self.begun.pop()
        self.values = frozenset().union(*[each.values for each in self.begun])

    def note(self, observed: Object, frame: Frame | None) -> None:
        """Note that the current instruction of a frame observes a value."""
        for watch in self.begun:
            watch.note(observed, frame)


def takes_item_of(frame: Frame | None, container: Object) -> bool:
    """Return whether the current instruction of a frame is `container[key]`."""
    return frame is not None and frame.instruction.op == "BINARY_SUBSCR" and settle(frame.stack[-2]) is container
