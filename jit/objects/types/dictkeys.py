"""Keys of dicts: which of them guards can look up, which compare themselves by code of the program's, and whether an OrderedDict has them all in its order."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from framejit.objects.core.object import VM, Object
from framejit.objects.types.constobject import ConstObject, is_plain

PASSED_OVER = "going through an OrderedDict whose order was passed over by methods of dict"
"""The operation that graph-break reports name where the order of an OrderedDict lacks some of its keys."""


def is_in_order(mapping: OrderedDict[Any, Any]) -> bool:
    """Return whether the order that an OrderedDict keeps has exactly the keys of the dict: methods of dict that are called on it bypass its order.

    Iterating over it hashes the keys, which must be plain.
    """
    try:
        return len(list(OrderedDict.__iter__(mapping))) == dict.__len__(mapping)
    except KeyError:
        return False


def compares_by_identity(cls: Any) -> bool:
    """Return whether instances of a class are equal only to themselves."""
    return cls.__hash__ is object.__hash__ and cls.__eq__ is object.__eq__


def is_class_key(key: Any) -> bool:
    """Return whether a hash key is a class that is equal to itself only: its metaclass leaves comparisons to `object`."""
    return issubclass(type(key), type) and compares_by_identity(type(key))


def is_item(key: Any) -> bool:
    """Return whether guards look the value of a hash key up by the key, and not by its place in the dict."""
    return type(key) is str or is_plain(key) or is_class_key(key)


def const_key(vm: VM, key: Any) -> Object:
    """The Object of a plain constant key."""
    return ConstObject(key) if type(key) is str else vm.const(key)


def to_move(order: list[Any], wanted: list[Any]) -> list[Any]:
    """Return the keys to move to the end, one after the other, which bring an OrderedDict from one order of its keys into another.

    They are the wanted keys from the first on that comes before its predecessor in the present order.
    """
    places = {name: place for place, name in enumerate(order)}
    ahead = -1
    for number, name in enumerate(wanted):
        if places[name] < ahead:
            return wanted[number:]
        ahead = places[name]
    return []


def pop_from_ordered(mapping: OrderedDict[Any, Any], key: Any, default: Any) -> Any:
    """OrderedDict.pop, which leaves a key that the order doesn't have, and `del` doesn't (runs in generated code)."""
    found = dict.get(mapping, key, default)
    if dict.__contains__(mapping, key):
        OrderedDict.__delitem__(mapping, key)
    return found
