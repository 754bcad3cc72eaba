"""Hash keys that stand for objects which are equal without being the same: in the trace's tables, they hash and compare as the objects do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn, Protocol

from framejit.objects.core.object import Object, settle
from framejit.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class FieldsKey:
    """The hash key of an instance of a frozen dataclass, which is equal to others of its class with equal fields. `cls`: the identity of its class."""

    cls: int
    fields: tuple[Any, ...]

    def __hash__(self) -> int:
        """The instance's own hash, on which the order of sets depends."""
        return hash(self.fields)


@dataclass(frozen=True, slots=True)
class ReferenceKey:
    """The hash key of a weak reference, which hashes and compares as what it refers to does. `referent`: the hash key of that."""

    referent: Any

    def __hash__(self) -> int:
        """The hash of the referent (Objects/weakrefobject.c: weakref_hash)."""
        return hash(self.referent)


class ComparedKeys(Protocol):
    """The record that a trace has of its keys that code of the program's hashes and compares (tracing/python_keys.py)."""

    def equals(self, key: PythonKey, other: Any) -> bool:
        """Return whether a hash key of another kind, with the same hash, stands for an object that is equal to those of `key`."""

    def check_settled(self, keys: Sequence[PythonKey]) -> None:
        """Break if one of the objects may compare otherwise by now than when it became a key."""

    def check_leaving(self, keys: Sequence[tuple[PythonKey, Sequence[Object]]], table: Object) -> None:
        """Restart the trace, to break where an object became a key, if generated code that puts it into a table might hash it to another number, or find it
        equal to another. `keys`: each with the objects that may be in the table."""


class PythonKey:
    """The hash key of objects with the same hash that are equal to each other, as code of the program's says. `objects`: those that the trace has met."""

    __slots__ = ("number", "objects", "keys")

    def __init__(self, number: int, keys: ComparedKeys) -> None:
        self.number = number
        self.objects: list[Object] = []
        self.keys = keys

    def __hash__(self) -> int:
        """The hash of the objects, on which the order of sets depends."""
        return self.number

    def __eq__(self, other: object) -> bool:
        """Two such keys of one trace stand for objects that differ. A dict asks this only about keys with the same hash."""
        return self is other or (type(other) is not PythonKey and self.keys.equals(self, other))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key of a trace means nothing outside it")


def parts(key: Any) -> Iterable[Any]:
    """The hash keys of which a hash key is made."""
    if type(key) is FieldsKey:
        return key.fields
    if type(key) is ReferenceKey:
        return (key.referent,)
    return key if type(key) is tuple or type(key) is frozenset else ()


def python_keys(key: Any) -> Iterator[PythonKey]:
    """The parts of a hash key that stand for objects which code of the program's hashes and compares."""
    if type(key) is PythonKey:
        yield key
    for part in parts(key):
        yield from python_keys(part)


def check_settled(keys: Iterable[Any]) -> None:
    """Break if objects that have become keys may compare otherwise by now. Called where keys are compared without being hashed again."""
    found = [part for key in keys if type(key) is not str for part in python_keys(key)]
    if found:
        found[0].keys.check_settled(found)


def check_leaving(keys: Iterable[Any], objects: Iterable[Object], table: Object) -> None:
    """Restart the trace if generated code that puts these objects into a table, or takes them out, might hash one to another number than the program has.

    `keys`: their hash keys.
    """
    found: list[tuple[PythonKey, Sequence[Object]]] = []
    for key, obj in zip(keys, objects):
        if type(key) is PythonKey:
            found.append((key, [settle(obj)]))
        elif type(key) is not str:
            found += [(part, part.objects) for part in python_keys(key)]
    if found:
        found[0][0].keys.check_leaving(found, table)
