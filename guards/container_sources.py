"""Sources inside containers: keys and values at a position, elements, items at keys that are found at other paths, items of iterators and of caches."""

from __future__ import annotations

import gc
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from typing import Any

from framejit.guards.caches import BEFORE_NAMES, GONE, CachedFunction, held_result, strong_key
from framejit.guards.iterators import field as iterator_field
from framejit.guards.iterators import upcoming
from framejit.guards.source import MISSING, Call, Source
from framejit.program import classes
from framejit.program.naming import constant


class DictKey(Source):
    """The i-th key of a dict, in its order (for keys that are objects rather than constants)."""

    __slots__ = ()
    accessor = "dict_key"
    form = "list({0})[{1}]"

    def step(self, value: Any) -> Any:
        keys = list(dict.keys(value)) if issubclass(type(value), dict) else []
        return keys[self.payload] if self.payload < len(keys) else MISSING


class DictValueAt(Source):
    """The value at the i-th position of a dict, in its order (goes with DictKey)."""

    __slots__ = ()
    accessor = "dict_value_at"
    form = "list({0}.values())[{1}]"

    def step(self, value: Any) -> Any:
        values = list(dict.values(value)) if issubclass(type(value), dict) else []
        return values[self.payload] if self.payload < len(values) else MISSING


class ViewedDict(Source):
    """The dict of a view of its keys, values or items."""

    __slots__ = ()
    accessor = "viewed_dict"
    form = "{0}.mapping"

    def step(self, value: Any) -> Any:
        return gc.get_referents(value)[0] if type(value) in VIEWS else MISSING


VIEWS: tuple[Any, ...] = tuple(type(view(family())) for family in (dict, OrderedDict) for view in (family.keys, family.values, family.items))
"""The types of views of dicts."""


class SetElement(Source):
    """The n-th element of a set or frozenset (or of the set part of a subclass) in the order of iteration. Payload: n, from 0."""

    __slots__ = ()
    accessor = "set_element"
    form = "list({0})[{1}]"

    def step(self, value: Any) -> Any:
        family = next((family for family in (set, frozenset) if issubclass(type(value), family)), None)
        elements: list[Any] = [] if family is None else list(family.__iter__(value))
        return elements[self.payload] if self.payload < len(elements) else MISSING


class LookedUp(Source):
    """The item of a container from outside at a key, an int or str, that is itself found at another path. Payload: that path.

    An entry with such a source serves other keys too, if its guards on what is found hold.
    """

    __slots__ = ()

    def __init__(self, base: Source | None, payload: Source) -> None:
        super().__init__(base, payload)
        self.depth = max(self.depth, payload.depth + 1)

    def own_key(self) -> Any:
        return self.payload.path()

    def lookups(self) -> int:
        assert self.base is not None
        return max(self.base.lookups(), self.payload.lookups()) + 1

    def fetch(self, call: Call) -> Any:
        assert self.base is not None
        container, key = self.base.fetch(call), self.payload.fetch(call)
        return self.look_up(container, key) if container is not MISSING and type(key) in (int, str) else MISSING

    def look_up(self, container: Any, key: Any) -> Any:
        """Return the item of the container at an exact int or str, or MISSING."""
        raise NotImplementedError

    def moved(self, places: Mapping[Source, Source]) -> Source:
        assert self.base is not None
        base, key = self.base.moved(places), self.payload.moved(places)
        return places.get(self) or (self if base is self.base and key is self.payload else base.child(type(self), key))

    def text(self, of: Callable[[Source], str]) -> str:
        assert self.base is not None
        return f"{of(self.base)}[{of(self.payload)}]"


class ItemLookedUp(LookedUp):
    """`d[key]` of a dict (or the dict part of a subclass), for a key that is found at another path."""

    __slots__ = ()
    accessor = "item_looked_up"

    def look_up(self, container: Any, key: Any) -> Any:
        return dict.get(container, key, MISSING) if issubclass(type(container), dict) else MISSING


class IndexLookedUp(LookedUp):
    """`seq[i]` of an exact list or tuple, 0 <= i, for an index that is found at another path."""

    __slots__ = ()
    accessor = "index_looked_up"

    def look_up(self, container: Any, key: Any) -> Any:
        return container[key] if type(container) in (list, tuple) and type(key) is int and 0 <= key < len(container) else MISSING


class DequeIndex(Source):
    """`d[i]` of a collections.deque or of a subclass, 0 <= i (the sequence slot of deque itself)."""

    __slots__ = ()
    accessor = "deque_index"
    form = "{0}[{1}]"

    def step(self, value: Any) -> Any:
        return deque.__getitem__(value, self.payload) if issubclass(type(value), deque) and self.payload < deque.__len__(value) else MISSING


class ItemCount(Source):
    """The number of items of a list or deque (the length slot of list or deque itself)."""

    __slots__ = ()
    accessor = "item_count"
    form = "len({0})"
    is_new_each_time = True

    def step(self, value: Any) -> Any:
        cls = list if issubclass(type(value), list) else deque if issubclass(type(value), deque) else None
        return MISSING if cls is None else cls.__len__(value)


class Cached(Source):
    """A result in the cache of a function under functools.lru_cache, read without asking the cache. Payload: its key, as of `caches.weak_parts`."""

    __slots__ = ()
    accessor = "cached"

    def step(self, value: Any) -> Any:
        key = strong_key(self.payload)
        return held_result(value, key, MISSING) if type(value) is CachedFunction and key is not GONE else MISSING

    def text(self, of: Callable[[Source], str]) -> str:
        assert self.base is not None
        parts = self.payload if type(self.payload) is tuple else (self.payload,)
        return f"{of(self.base)}({', '.join(map(part_text, parts))})"


def part_text(part: Any) -> str:
    """A part of a cache's key as reports show it."""
    if type(part) is weakref.ref:
        return classes.qualname(type(part()))
    return "*" if part is BEFORE_NAMES else constant(part)


class IteratorItem(Source):
    """The item that an exact builtin iterator gives after `payload` further items (0: the one that next() gives), read without advancing it.

    MISSING if the iterator ends before that, or if guards/iterators.py doesn't know its type.
    """

    __slots__ = ()
    accessor = "iterator_item"

    def step(self, value: Any) -> Any:
        items = upcoming(value)
        return items[self.payload] if self.payload < len(items) else MISSING

    def text(self, of: Callable[[Source], str]) -> str:
        assert self.base is not None
        return f"list({of(self.base)})[{self.payload}]" if self.payload else f"next({of(self.base)})"


class IteratorField(Source):
    """A field of an exact builtin iterator. Payload: a name as `iterators.field` takes it."""

    __slots__ = ()
    accessor = "iterator_field"

    def step(self, value: Any) -> Any:
        found = iterator_field(value, self.payload)
        return found[0] if found else MISSING

    def text(self, of: Callable[[Source], str]) -> str:
        assert self.base is not None
        return f"{self.payload.rpartition('.')[2]} of {of(self.base)}"
