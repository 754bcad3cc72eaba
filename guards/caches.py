"""Caches of functools.lru_cache, read without asking them: the keys that they make of arguments, and what they hold under a key."""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Collection, Mapping, Sequence
from typing import Any

GONE: Any = object()
CachedFunction: type = type(functools.lru_cache(lambda: None))
BEFORE_NAMES: Any = next(held for held in gc.get_referents(functools.lru_cache(lambda: None)) if type(held) is object)
"""The object that keys have between positional and keyword arguments (Modules/_functoolsmodule.c: kwd_mark)."""


def key_of(args: Sequence[Any], kwargs: Mapping[str, Any], typed: bool) -> Any:
    """The key under which a cache holds the result for these arguments (Modules/_functoolsmodule.c: lru_cache_make_key)."""
    if not typed and not kwargs and len(args) == 1 and type(args[0]) in (int, str):
        return args[0]
    named = (BEFORE_NAMES, *(part for item in kwargs.items() for part in item)) if kwargs else ()
    return (*args, *named, *(map(type, (*args, *kwargs.values())) if typed else ()))


def weak_parts(key: Any, weakly: Collection[int]) -> Any:
    """A key in which the objects with these addresses are weak references, so that no guard keeps them alive. Raises TypeError where there are none to one."""
    return tuple(weakref.ref(part) if id(part) in weakly else part for part in key) if type(key) is tuple else key


def strong_key(parts: Any) -> Any:
    """The key of which `weak_parts` has made parts; GONE where an object in it is gone."""
    if type(parts) is not tuple:
        return parts
    key = tuple(part() if type(part) is weakref.ref else part for part in parts)
    gone = any(type(part) is weakref.ref and found is None for part, found in zip(parts, key))
    return GONE if gone else key


def held_result(function: Any, key: Any, default: Any) -> Any:
    """Return the result that a function's cache holds under a key, or else the default. Nothing is counted, and the order of the entries stays."""
    held = gc.get_referents(function)  # its type, key, result and type of each link, the cache, the function, BEFORE_NAMES, the type of links, ...
    mark = next(index for index, found in enumerate(held) if found is BEFORE_NAMES)
    cache, link = held[mark - 2], held[mark + 1]
    found = cache.get(key, default)
    if type(found) is not link:
        return found
    return next(held[index + 1] for index in range(1, mark - 2, 3) if hash(held[index]) == hash(key) and held[index] == key)
