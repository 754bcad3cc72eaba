"""Objects of C classes in compiled functions: which of them can be copied, pickled, or made by `__new__` alone, and what is said of the others."""

from __future__ import annotations

import _struct
import _thread
import collections
import contextvars
import copy
import functools
import hashlib
import io
import itertools
import queue
import re
import sys
import types
from typing import Any

import pytest
from agreement import agree_in_text, tried

import framejit


async def numbers():
    yield 1


MAKERS: dict[str, Any] = {
    "lock": _thread.allocate_lock, "rlock": _thread.RLock, "queue": queue.SimpleQueue, "hash": hashlib.sha256, "context": contextvars.Context,
    "keys of a context": lambda: contextvars.copy_context().keys(), "pattern": lambda: re.compile("a"), "match": lambda: re.match("a", "a"),
    "struct": lambda: _struct.Struct("i"), "unpacking": lambda: _struct.Struct("i").iter_unpack(b""), "memory": lambda: memoryview(b"ab"),
    "asend": lambda: numbers().asend(None), "aclose": lambda: numbers().aclose(), "text": lambda: io.StringIO("ab"), "flags": lambda: sys.flags,
    "iterator of memory": lambda: iter(memoryview(b"ab")), "iterator of a list": lambda: iter([1]), "count": lambda: itertools.count(3),
    "key": lambda: functools.cmp_to_key(lambda a, b: 0)(1), "partial": lambda: functools.partial(int, base=2), "deque": lambda: collections.deque([1]),
    "namespace": lambda: types.SimpleNamespace(a=1), "union": lambda: int | str, "object": object, "method of a wrapper": lambda: (1).__add__,
}  # fmt: skip

DEEDS: dict[str, Any] = {
    "copy": copy.copy,
    "reduce": lambda value: value.__reduce_ex__(4),
    "object's new": lambda value: object.__new__(type(value)),
}


@pytest.mark.parametrize("made", MAKERS)
def test_what_can_be_copied(made: str) -> None:
    value = MAKERS[made]()
    for deed in DEEDS.values():
        framejit.reset()  # or the limit of recompiles is reached before long
        agree_in_text(lambda: kind(tried(deed, value)))  # it is called here


def kind(result: Any) -> Any:
    """Return a deed's result if it is a tuple, such as an exception's type and text; else the name of its type, which shows no address."""
    return result if isinstance(result, tuple) else type(result).__name__


class Holds:
    def __init__(self):
        self.lock = _thread.allocate_lock()


class Packs(_struct.Struct):
    pass


class Slotted:
    __slots__ = ("a", "__dict__", "__weakref__")


def test_what_holds_such_an_object() -> None:
    agree_in_text(lambda: [tried(copy.deepcopy, value) for value in (Holds(), [_thread.allocate_lock()], Packs("i"))])
    agree_in_text(lambda: [type(copy.copy(value)).__name__ for value in (Holds(), Slotted())])
