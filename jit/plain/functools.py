"""functools in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

MISSING = object()


def reduce(function: Callable[[Any, Any], Any], iterable: Iterable[Any], initial: Any = MISSING, /) -> Any:
    """functools.reduce."""
    try:
        iterator = iter(iterable)
    except TypeError:
        iterator = None
    if iterator is None:
        raise TypeError("reduce() arg 2 must support iteration")
    if initial is MISSING:
        value = next(iterator, MISSING)
        if value is MISSING:
            raise TypeError("reduce() of empty iterable with no initial value")
    else:
        value = initial
    for item in iterator:
        value = function(value, item)
    return value


class ComparisonKey:
    """The key of functools.cmp_to_key."""

    __slots__ = ("obj", "compare")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, obj: Any, compare: Callable[[Any, Any], int]) -> None:
        self.obj = obj
        self.compare = compare

    def __lt__(self, other: Any) -> bool:
        return self.compare(self.obj, other.obj) < 0

    def __gt__(self, other: Any) -> bool:
        return self.compare(self.obj, other.obj) > 0

    def __eq__(self, other: Any) -> bool:
        return self.compare(self.obj, other.obj) == 0

    def __le__(self, other: Any) -> bool:
        return self.compare(self.obj, other.obj) <= 0

    def __ge__(self, other: Any) -> bool:
        return self.compare(self.obj, other.obj) >= 0


def cmp_to_key(mycmp: Callable[[Any, Any], int]) -> Callable[[Any], ComparisonKey]:
    """functools.cmp_to_key."""
    return lambda obj: ComparisonKey(obj, mycmp)


def cached_property_get(self: Any, instance: Any, owner: type | None = None) -> Any:
    """functools.cached_property.__get__, without the lock: a trace has one thread."""
    if instance is None:
        return self
    if self.attrname is None:
        raise TypeError("Cannot use cached_property instance without calling __set_name__ on it.")
    cache = instance.__dict__
    value = cache.get(self.attrname, MISSING)
    if value is MISSING:
        value = self.func(instance)
        cache[self.attrname] = value
    return value
