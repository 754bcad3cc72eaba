"""Lists, tuples and sets of subclasses with methods of their own: what asks these methods, and what takes what is stored, as in CPython."""

from __future__ import annotations

import collections
import functools
import heapq
import itertools
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import tried

import framejit

LOG: list[Any] = []
METHODS = ("__iter__", "__len__", "__getitem__", "__contains__", "__reversed__", "__add__", "append", "extend", "pop", "add", "update", "copy")


def logged(base: Any, name: str) -> Any:
    real = getattr(base, name)

    def method(self: Any, *args: Any) -> Any:
        LOG.append(name)
        return real(self, *args)

    return method


def other_iter(base: Any) -> dict[str, Any]:
    def __iter__(self: Any) -> Any:
        LOG.append("iter")
        for item in list(base.__iter__(self))[::-1]:
            LOG.append(("step", item))
            yield item * 10

    return {"__iter__": __iter__}


def other_length(base: Any) -> dict[str, Any]:
    def __len__(self: Any) -> int:
        LOG.append("len")
        return int(base.__len__(self)) - 1

    return {"__len__": __len__}


def other_contains(base: Any) -> dict[str, Any]:
    return {"__contains__": lambda self, item: bool(LOG.append(("in", item))) or item == 77}


def kinds(base: Any) -> list[Any]:
    parts = [{}, other_iter(base), other_length(base), other_contains(base), {name: logged(base, name) for name in METHODS if hasattr(base, name)}]
    return [base, *[type(f"{base.__name__}{number}", (base,), part) for number, part in enumerate(parts)]]


SEQUENCES = [*kinds(list), *kinds(tuple)]
SETS = [*kinds(set), *kinds(frozenset)]


def shown(value: Any) -> Any:
    """A value with the types all through it, past the methods of its own."""
    for base in (list, tuple):
        if isinstance(value, base):
            return type(value).__name__, [shown(item) for item in base.__iter__(value)]
    for base in (set, frozenset):
        if isinstance(value, base):
            return type(value).__name__, sorted(base.__iter__(value))
    return value


def of_lists(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that applies a call to lists only, and gives the outcome and the list afterwards."""
    return lambda s: (tried(call, s), s) if isinstance(s, list) else None


def extended(target: Any, items: Any) -> Any:
    target.extend(items)
    return target


def added_in_place(target: Any, items: Any) -> Any:
    target += items
    return target


def with_slice(items: Any, where: slice) -> Any:
    target = [0, 9, 8, 7]
    target[where] = items
    return target


def assigned_to_itself(target: Any) -> None:
    target[:] = target
    target[1:2] = target


def two(items: Any) -> Any:
    first, *rest = items
    return first, rest


class Reflected:
    """Adds itself to what stands before it, and has items."""

    def __radd__(self, other: Any) -> str:
        return "reflected"

    def __iter__(self) -> Any:
        return iter([7])


ANY: dict[str, Callable[[Any], Any]] = {
    "copies": lambda s: (list(s), tuple(s), sorted(set(s)), sorted(frozenset(s)), dict.fromkeys(s), list(collections.deque(s)), type(s)(s)),
    "displays": lambda s: ([0, *s], (*s,), sorted({*s}), (lambda *a: a)(*s), (lambda *a: a)(1, *s)),
    "unpacking": two,
    "list.extend": lambda s: (extended([0], s), added_in_place([0], s)),
    "slices": lambda s: (with_slice(s, slice(1, 2)), tried(with_slice, s, slice(0, 6, 2)), tried(with_slice, s, slice(None, None, -1))),
    "functions": lambda s: (sum(s), min(s), max(s), sorted(s), list(zip(s, s)), list(enumerate(s)), list(map(str, s)), any(s), all(s)),
    "reduce": lambda s: (functools.reduce(operator.add, s), list(itertools.chain(s, s)), list(itertools.islice(s, 2)), list(itertools.combinations(s, 2))),
    "in": lambda s: (1 in s, 77 in s, len(s), bool(s)),
    "==": lambda s: (s == [1, 2, 3], s == (1, 2, 3), s == {1, 2, 3}, s != s),
    "repr": lambda s: (repr(s), f"{s}"),
    "join": lambda s: ",".join(map(str, s)),
    "set methods": lambda s: [
        sorted(getattr({1, 10, 0}, name)(s)) for name in ("union", "intersection", "difference", "symmetric_difference")
    ],
    "isdisjoint": lambda s: ({1}.isdisjoint(s), {10}.isdisjoint(s), frozenset({10}).isdisjoint(s)),
    "issubset": lambda s: ({1}.issubset(s), {10}.issubset(s), {1, 2, 3}.issuperset(s)),
}  # fmt: skip
OF_SEQUENCES: dict[str, Callable[[Any], Any]] = {
    "+": lambda s: (tried(operator.add, [0], s), tried(operator.add, (0,), s), tried(operator.add, s, [4]), tried(operator.mul, s, 2)),
    "items": lambda s: (s[0], s[-1], s[1:], s.count(2), s.index(2), tried(lambda: list(reversed(s)))),
    "+=": of_lists(lambda s: (added_in_place(s, (4,)), tried(added_in_place, s, Reflected()), tried(added_in_place, s, 4), tried(operator.imul, s, 2))),
    "itself": of_lists(lambda s: (extended(s, s), added_in_place(s, s))),
    "[:] = itself": of_lists(assigned_to_itself),
    "heap": of_lists(lambda s: (heapq.heappush(s, 0), heapq.heappop(s), heapq.heapify(s), heapq.heappushpop(s, 5))),
    "methods": of_lists(lambda s: (s.append(4), s.insert(0, 5), s.sort(), s.reverse(), s.remove(2), s.pop(), s.copy())),
    "stored": of_lists(lambda s: (operator.setitem(s, 0, 5), operator.setitem(s, slice(0, 1), [7, 8]), operator.delitem(s, 0))),
    "pairs": lambda s: dict([type(s)([1, 2])]),
    "texts": lambda s: ("-".join(type(s)("abc")), tried(lambda: "ab".startswith(type(s)(["a"]))), tried(isinstance, 3, type(s)([str, int]))),
}  # fmt: skip
CASES = [("any", name) for name in ANY] + [("sequences", name) for name in OF_SEQUENCES]


@pytest.mark.parametrize(("which", "name"), CASES)
def test_each_operation_asks_the_methods_that_c_code_asks(which: str, name: str) -> None:
    operation = ANY[name] if which == "any" else OF_SEQUENCES[name]
    these = [*SEQUENCES, *SETS] if which == "any" else SEQUENCES

    def program(x: torch.Tensor) -> Any:
        LOG.clear()
        return [(LOG.append(kind.__name__), shown(operation(kind([1, 2, 3])))) for kind in these], list(LOG), x + 1

    framejit.reset()
    expected = program(torch.ones(1))[:2]
    got = framejit.compile(program, backend="eager", fullgraph=name not in ("texts", "==", "copies"))(torch.ones(1))[:2]
    for kind, left, right in zip(these, expected[0], got[0]):
        assert left == right, kind
    assert got[1] == expected[1]


class Backwards(list[Any]):
    def __iter__(self) -> Any:
        return iter(list.__iter__(self[::-1]))


class BackwardsTuple(tuple[Any, ...]):
    def __iter__(self) -> Any:
        return iter(tuple.__getitem__(self, slice(None, None, -1)))


@pytest.mark.parametrize("cls", [Backwards, BackwardsTuple])
@pytest.mark.parametrize(
    "call",
    [torch.tensor, torch.as_tensor, lambda s: torch.arange(27).reshape(3, 3, 3)[s], lambda s: torch.ones(1, 2).new_tensor(s), lambda s: torch.zeros(s).shape],
)
def test_torch_asks_for_the_items_of_a_sequence_as_in_eager(cls: Any, call: Any) -> None:
    def program(x: torch.Tensor) -> Any:
        return call(cls([1, 2, 0])), x + 1

    framejit.reset()
    expected, got = program(torch.ones(1))[0], framejit.compile(program, backend="eager")(torch.ones(1))[0]
    assert got.tolist() == expected.tolist() if isinstance(expected, torch.Tensor) else got == expected


def test_reversed_asks_for_a_length() -> None:
    class Endless:
        def __getitem__(self, index: int) -> int:
            return index

    def function(x: torch.Tensor) -> Any:
        return tried(lambda: list(reversed(Endless()))), x + 1

    found = framejit.compile(function, backend="eager", fullgraph=True)(torch.ones(2))
    assert found[0] == function(torch.ones(2))[0]
    assert "has no len" in str(found[0])
