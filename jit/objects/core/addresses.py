"""Addresses of data as keys of dicts and elements of sets: a trace knows of them only whether they are equal to each other."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from framejit import breaks
from framejit.objects.core.hash_keys import check_settled
from framejit.objects.core.object import VM, Object

LOWEST_ADDRESS = 1 << 12
"""The lowest address of data: Linux maps nothing to the first page."""


def tell_keys_apart(vm: VM, key: Any, table: Iterable[Any]) -> None:
    """Break if a hash key that a table doesn't have may be equal to one that it has, which only running the program shows."""
    if may_be_address(key):
        for other in table:
            _tell_apart(vm, key, other)


def tell_tables_apart(vm: VM, a: Collection[Any], b: Collection[Any]) -> None:
    """Break if a hash key of one table may be equal to one of the other, which only running the program shows."""
    check_settled((*a, *b))
    if any(may_be_address(key) and type(key) is not int for key in (*a, *b)):
        for key in a:
            tell_keys_apart(vm, key, () if key in b else b)


def may_be_address(key: Any) -> bool:
    """Return whether a hash key, or a part of it, is or may be the address of some data."""
    if type(key) is tuple:
        return any(map(may_be_address, key))
    if type(key) is int:
        return bool(key >= LOWEST_ADDRESS)
    return issubclass(type(key), Object) and key.is_address  # isinstance would ask a class of the program's for its `__class__`


def _tell_apart(vm: VM, key: Any, other: Any) -> None:
    if type(key) is tuple:
        if type(other) is tuple and len(key) == len(other):
            for pair in zip(key, other):
                _tell_apart(vm, *pair)
    elif may_be_address(key) and may_be_address(other) and (type(key) is int) != (type(other) is int):
        vm.unsupported(breaks.UnsupportedOperation(ON_ADDRESSES))


ON_ADDRESSES = "on the address of a tensor's data, of which a trace knows only whether it is another's"
"""The words of a graph break for any other use of an address than a comparison with another address."""
