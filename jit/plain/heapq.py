"""heapq in plain Python, with the same layouts as those that its C code makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Before = Callable[[Any, Any], bool]

item_at, store, size = list.__getitem__, list.__setitem__, list.__len__
"""The C code reads the list storage of an instance of a subclass of list, whatever methods that has."""


def less(a: Any, b: Any) -> bool:
    """The order of a heap with its smallest item first."""
    return bool(a < b)


def more(a: Any, b: Any) -> bool:
    """The order of a heap with its largest item first."""
    return bool(b < a)


def rise(heap: list[Any], start: int, position: int, before: Before) -> None:
    """Move the item at `position` towards `start` to its place (Modules/_heapqmodule.c: siftdown)."""
    item = item_at(heap, position)
    while position > start:
        parent = (position - 1) >> 1
        if not before(item, item_at(heap, parent)):
            break
        store(heap, position, item_at(heap, parent))
        position = parent
    store(heap, position, item)


def sink(heap: list[Any], position: int, before: Before) -> None:
    """Move the item at `position` to a leaf, then up to its place (Modules/_heapqmodule.c: siftup)."""
    start, end = position, size(heap)
    item = item_at(heap, position)
    child = 2 * position + 1
    while child < end:
        right = child + 1
        if right < end and not before(item_at(heap, child), item_at(heap, right)):
            child = right
        store(heap, position, item_at(heap, child))
        position = child
        child = 2 * position + 1
    store(heap, position, item)
    rise(heap, start, position, before)


def heappush(heap: list[Any], item: Any) -> None:
    """heapq.heappush."""
    list.append(heap, item)
    rise(heap, 0, size(heap) - 1, less)


def take(heap: list[Any], before: Before) -> Any:
    """Remove and return the first item."""
    if not size(heap):
        raise IndexError("index out of range")
    last = list.pop(heap)
    if not size(heap):
        return last
    first = item_at(heap, 0)
    store(heap, 0, last)
    sink(heap, 0, before)
    return first


def exchange(heap: list[Any], item: Any, before: Before) -> Any:
    """Return the first item and put another in its place."""
    if not size(heap):
        raise IndexError("index out of range")
    first = item_at(heap, 0)
    store(heap, 0, item)
    sink(heap, 0, before)
    return first


def arrange(heap: list[Any], before: Before) -> None:
    """Turn a list into a heap."""
    for position in reversed(range(size(heap) // 2)):
        sink(heap, position, before)


def heappop(heap: list[Any]) -> Any:
    """heapq.heappop."""
    return take(heap, less)


def heappop_max(heap: list[Any]) -> Any:
    """heapq._heappop_max."""
    return take(heap, more)


def heapreplace(heap: list[Any], item: Any) -> Any:
    """heapq.heapreplace."""
    return exchange(heap, item, less)


def heapreplace_max(heap: list[Any], item: Any) -> Any:
    """heapq._heapreplace_max."""
    return exchange(heap, item, more)


def heappushpop(heap: list[Any], item: Any) -> Any:
    """heapq.heappushpop."""
    return exchange(heap, item, less) if size(heap) and item_at(heap, 0) < item else item


def heapify(heap: list[Any]) -> None:
    """heapq.heapify."""
    arrange(heap, less)


def heapify_max(heap: list[Any]) -> None:
    """heapq._heapify_max."""
    arrange(heap, more)
