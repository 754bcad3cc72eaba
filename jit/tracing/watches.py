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


def takes_item_of(frame: Frame | None, container: Object) -> bool:
    """Return whether the current instruction of a frame is `container[key]`."""
    return frame is not None and frame.instruction.op == "BINARY_SUBSCR" and settle(frame.stack[-2]) is container
