"""Finds what repeats in a sequence of numbers, and the best places to cut it.

    0 1 [2 3 4] [2 3 4] [2 3 4] 5       a period of 3, three times

A run of equal layers may be cut at any distance from its beginning. The best one is that with the fewest values crossing a cut.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy

from framejit.quick_dataclass import dataclass

LEAST_PERIOD = 2
"""The fewest nodes of a region."""
MOST_PERIOD = 4000
"""The most nodes of a region that are looked for: the search takes time in proportion to this, and to the number of nodes."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part of a sequence that consists of `count` equal parts of `period` items, from `start` on."""

    start: int
    period: int
    count: int

    @property
    def cuts(self) -> range:
        """The places of the cuts, both ends included."""
        return range(self.start, self.start + self.period * self.count + 1, self.period)


def repeats(labels: Sequence[int], crossing: Sequence[int], least: int) -> list[Repeat]:
    """The parts of a sequence that repeat right after themselves, in order, without overlap. Each saves at least `least` items.

    `crossing`: for each place before an item, and for the end, the cost of a cut there.
    """
    found: list[Repeat] = []
    waiting = [(0, len(labels))]
    items = numpy.asarray(labels)
    while waiting:
        begin, end = waiting.pop()
        best = longest(items[begin:end])
        if best is None or best[1] < least:
            continue
        start, length, period = begin + best[0], best[1], best[2]
        repeat = best_cut(start, length, period, crossing)
        found.append(repeat)
        waiting += [(begin, repeat.cuts[0]), (repeat.cuts[-1], end)]
    return sorted(found, key=lambda repeat: repeat.start)


def longest(items: numpy.ndarray) -> tuple[int, int, int] | None:
    """The longest stretch whose items are all equal to those one period later: its start, its length, and the period. None if there is none."""
    best: tuple[int, int, int] | None = None
    for period in range(LEAST_PERIOD, min(len(items) // 2, MOST_PERIOD) + 1):
        if best is not None and len(items) - period <= best[1]:
            break
        differs = numpy.flatnonzero(items[:-period] != items[period:])
        edges = numpy.concatenate(([-1], differs, [len(items) - period]))
        lengths = numpy.diff(edges) - 1
        place = int(lengths.argmax())
        length = int(lengths[place])
        if length >= period and (best is None or length > best[1]):
            best = int(edges[place]) + 1, length, period
    return best


def best_cut(start: int, length: int, period: int, crossing: Sequence[int]) -> Repeat:
    """Cut a stretch where the fewest values cross, and of these ways choose the one with the most parts."""

    def cost(repeat: Repeat) -> tuple[int, int, int]:
        return max(crossing[cut] for cut in repeat.cuts), -repeat.count, repeat.start

    ways = [Repeat(first, period, (start + length + period - first) // period) for first in range(start, start + period)]
    return min((way for way in ways if way.count > 1), key=cost)
