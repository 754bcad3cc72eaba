"""Iterators that come from outside: what compiled functions take of them, what they leave, and loops that break at each iteration."""

from __future__ import annotations

import copy
import resource
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from agreement import Comparison
from hypothesis import given, settings
from hypothesis import strategies as st

import framejit

x = torch.arange(3.0)
out = open(2, "wb", buffering=0, closefd=False)  # writing to a file splits the graph

MAKERS: dict[str, Callable[[int], Iterator[Any]]] = {
    "range": lambda n: iter(range(7, 7 + 300 * n, 300)),
    "range down": lambda n: iter(range(n, 0, -1)),
    "list": lambda n: iter([x + i for i in range(n)]),
    "mixed list": lambda n: iter([x, 1, "a", None, 2.5][:n]),
    "reversed list": lambda n: reversed([x + i for i in range(n)]),
    "tuple": lambda n: iter((x, 3, x + 1, 4)[:n]),
    "reversed tuple": lambda n: reversed((x, 3, x + 1, 4)[:n]),
    "text": lambda n: iter("aé€𝄞"[:n]),
    "ascii": lambda n: iter("abcd"[:n]),
    "bytes": lambda n: iter(b"abcd"[:n]),
    "keys": lambda n: iter({f"k{i}": i for i in range(n)}),
    "values": lambda n: iter({f"k{i}": x * i for i in range(n)}.values()),
    "items": lambda n: iter({f"k{i}": x * i for i in range(n)}.items()),
    "reversed items": lambda n: reversed({f"k{i}": x * i for i in range(n)}.items()),
    "enumerate": lambda n: enumerate([x + i for i in range(n)], 10),
    "big enumerate": lambda n: enumerate("abcd"[:n], 2**63 - 2),
    "zip": lambda n: zip(range(n), [x] * (n + 1), "abcdefg"),
    "strict zip": lambda n: zip(range(n), [x] * n, strict=True),
    "zip of one twice": lambda n: zip(*[iter([x + i for i in range(n)])] * 2),
    "nested": lambda n: enumerate(zip(enumerate(range(n)), {1: 2, 3: 4, 5: 6}.items())),
}


def take(it: Any) -> Any:
    return next(it, "none"), next(it, "none")


def drain(it: Any) -> Any:
    return list(it), next(it, "none")


def with_else(it: Any) -> Any:
    given = []
    for item in it:
        given.append(item)
    else:
        given.append("else")
    return given, next(it, "still none"), list(it)


def with_break(it: Any) -> Any:
    given = []
    for item in it:
        if len(given) == 1:
            continue_here = True
            break
        given.append(item)
    else:
        continue_here = False
    return given, continue_here


def in_pairs(it: Any) -> Any:
    return list(zip(it, it))


def left_in_enumerate(it: Any) -> Any:
    numbered = enumerate(it, 5)
    first = next(numbered, None)
    return first, numbered


def passed_on(it: Any) -> Any:
    return it, iter(it) is it, x + 1


def stop(it: Any) -> Any:
    try:
        return it.__next__(), it.__next__(), it.__next__()
    except StopIteration:
        return "stopped"


PROGRAMS = [take, drain, with_else, with_break, in_pairs, left_in_enumerate, passed_on, stop]


def drained(value: Any) -> Any:
    """Iterators replaced by what they still give."""
    if hasattr(value, "__next__") and not isinstance(value, type):
        return list(value)
    return tuple(map(drained, value)) if type(value) is tuple else value


def outcome(fn: Callable[..., Any], *args: Any) -> Any:
    """The result or the exception, then what is left in the arguments."""
    try:
        result = "returned", drained(fn(*args))
    except Exception as error:
        result = "raised", (type(error), str(error))
    return result, tuple(left(arg) for arg in args if not isinstance(arg, dict))


def left(value: Any) -> Any:
    """Return the items left in an argument; the error's text if a strict zip raises one."""
    try:
        return list(value)
    except ValueError as error:
        return str(error)


def same(fn: Callable[..., Any], compiled: Callable[..., Any], make: Callable[[], tuple[Any, ...]]) -> None:
    Comparison().same(outcome(fn, *make()), outcome(compiled, *make()))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("name", MAKERS)
def test_given_by_the_user(name: str, program: Callable[..., Any]) -> None:
    """In one graph, however far the iterator has gone; afterwards it goes on where eager leaves it."""
    framejit.reset()
    compiled = framejit.compile(program, backend="eager", fullgraph=True)

    def make(length: int, taken: int) -> tuple[Any, ...]:
        iterator = MAKERS[name](length)
        for _ in range(taken):
            next(iterator, None)
        return (iterator,)

    for length, taken in ((4, 0), (4, 0), (4, 1), (2, 1), (1, 0), (0, 0), (2, 9)):
        same(program, compiled, lambda: make(length, taken))


def beside_the_protocol(it: Any) -> Any:
    first = next(it, None)
    hint = it.__length_hint__()
    second, rest = copy.copy(it), it.__reduce__()[1:]
    return first, hint, list(second), rest, bool(it), isinstance(it, list), type(it), next(it, None)


@pytest.mark.parametrize("name", ["range", "list", "tuple", "reversed tuple", "text", "items"])
def test_other_methods(name: str) -> None:
    """They run natively, after what was taken has been taken for real."""
    framejit.reset()
    compiled = framejit.compile(beside_the_protocol, backend="eager")
    for length in (4, 2, 0):
        same(beside_the_protocol, compiled, lambda: (MAKERS[name](length),))
    assert framejit.statistics()["fallbacks"] == 0, framejit.statistics()["reasons"]


def step_and_change(it: Any, xs: Any) -> Any:
    first = next(it, "none")
    xs.append(x)
    return first, next(it, "none"), next(it, "none")


def change_and_step(it: Any, xs: Any) -> Any:
    xs.insert(0, x)
    return next(it, "none"), next(it, "none")


def clear_and_step(it: Any, xs: Any) -> Any:
    first = next(it, "none")
    del xs[:]
    return first, next(it, "none"), list(it)


def step_both(a: Any, b: Any) -> Any:
    return next(a, "none"), next(b, "none"), next(a, "none")


def items_are_items(it: Any, xs: Any) -> Any:
    return next(it, None) is (xs[0] if xs else None)


LISTS = [step_and_change, change_and_step, clear_and_step, items_are_items]


@pytest.mark.parametrize("program", LISTS, ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("make_iterator", [iter, reversed, enumerate, lambda xs: zip(xs, xs)], ids=["iter", "reversed", "enumerate", "zip"])
def test_the_list_changes(program: Callable[..., Any], order: tuple[int, ...], make_iterator: Any) -> None:
    """An iterator over the very list that the function changes, and over another."""
    framejit.reset()
    compiled = framejit.compile(program, backend="eager")

    def make(aliased: int, length: int) -> tuple[Any, ...]:
        first, second = [x + i for i in range(length)], [x - i for i in range(length)]
        return make_iterator(second if aliased else first), second

    for aliased in order * 2:
        for length in (3, 1, 0):
            same(program, compiled, lambda: make(aliased, length))


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2)])
def test_one_iterator_by_two_ways(order: tuple[int, ...]) -> None:
    framejit.reset()
    compiled = framejit.compile(step_both, backend="eager")

    def make(kind: int) -> tuple[Any, ...]:
        one, other = iter([x, 1, 2, 3]), iter([x + 1, 5, 6])
        return [(one, one), (one, other), (zip(one, one), other), (enumerate(one), one)][kind]

    for kind in order * 2:
        same(step_both, compiled, lambda: make(kind))


def zip_and_inner(z: Any, inner: Any) -> Any:
    return next(z, "none"), next(inner, "none"), next(z, "none"), next(z, "none")


def test_inner_iterators_are_told_apart() -> None:
    framejit.reset()
    compiled = framejit.compile(zip_and_inner, backend="eager")

    def make(kind: int) -> tuple[Any, ...]:
        a, b, c = iter([x, 1, 2]), iter([x + 1, 5, 6]), iter([7, 8, 9])
        return [(zip(a, b), c), (zip(a, b), a), (zip(a, b), b), (zip(a, a), c), (zip(a, a), a)][kind]

    for kind in (0, 1, 2, 3, 4, 4, 3, 2, 1, 0):
        same(zip_and_inner, compiled, lambda: make(kind))


def change_dict(it: Any, mapping: Any) -> Any:
    first = next(it, None)
    mapping["new"] = 1
    return first, next(it, None)


def test_the_dict_changes() -> None:
    framejit.reset()
    compiled = framejit.compile(change_dict, backend="eager")
    for present in (False, True, False):
        for over_it in (True, False):

            def make() -> tuple[Any, ...]:
                mapping = {"a": x, "b": x + 1}
                if present:
                    mapping["new"] = x
                return iter(mapping.items() if over_it else {"c": 1}.items()), mapping

            eager, ours = make(), make()
            results = [outcome(lambda pair=pair, fn=fn: fn(*pair)) for pair, fn in ((eager, change_dict), (ours, compiled))]
            Comparison().same(results[0], results[1])
            Comparison().same(eager[1], ours[1])


def test_strict_zip_of_different_lengths() -> None:
    framejit.reset()
    compiled = framejit.compile(drain, backend="eager")
    for a, b in ((2, 2), (2, 1), (1, 2), (0, 3), (0, 0)):
        same(drain, compiled, lambda: (zip([x] * a, [x] * b, strict=True),))


def count(it: Any, t: Any) -> Any:
    for _ in it:
        t = t + 1
    return t


def test_long_iterators_are_not_unrolled_whole() -> None:
    framejit.reset()
    compiled = framejit.compile(count, backend="eager")
    iterator = iter([None] * 3500)
    torch.testing.assert_close(compiled(iterator, x), x + 3500)
    assert next(iterator, "none") == "none"
    statistics = framejit.statistics()
    assert statistics["fallbacks"] == 0 and statistics["frames"] <= 5, statistics


# Loops that break at each iteration.


def helper(t: Any) -> Any:
    t = t + 1
    out.write(b"")
    return t * 0.5


def over_range(t: Any, n: int) -> Any:
    for _ in range(n):
        t = helper(t)
    return t


def over_list(t: Any, n: Any) -> Any:
    last = None
    for item in n:
        t = helper(t)
        last = item
    else:
        t = t - 1
    return t, last


def summing(t: Any, n: int) -> Any:
    total = 0
    for i in range(n):
        t = helper(t)
        total = total + i * 2
    return t, total, i


def over_enumerate(t: Any, n: Any) -> Any:
    total = 0
    for i, item in enumerate(n):
        t = helper(t)
        total = total + i
    return t, total, item


def over_zip(t: Any, n: Any) -> Any:
    last = None
    for pair in zip(n, n):
        t = helper(t)
        last = pair
    return t, last


def over_items(t: Any, n: Any) -> Any:
    last = None
    for key, value in n.items():
        t = helper(t)
        last = key, value
    return t, last


def in_two_loops(t: Any, n: int) -> Any:
    for _ in range(n):
        for _ in range(3):
            t = helper(t)
        else:
            t = t + 2
        if t is None:
            break
    else:
        t = t * 2
    return t


def left_early(t: Any, n: Any) -> Any:
    for item in n:
        if item is None:
            continue
        t = helper(t)
        if item == "end":
            break
    else:
        t = t * 2
    return t


def with_next(t: Any, n: Any) -> Any:
    items = iter(n)
    while (item := next(items, None)) is not None:
        t = helper(t)
    return t, item


LOOPS: list[tuple[Callable[..., Any], Callable[[int], Any]]] = [
    (over_range, lambda n: n),
    (summing, lambda n: n),
    (in_two_loops, lambda n: n),
    (over_list, lambda n: [x] * n),
    (over_list, lambda n: (x,) * n),
    (over_list, lambda n: {i: i for i in range(n)}),
    (over_enumerate, lambda n: list(range(n))),
    (over_zip, lambda n: [x] * n),
    (over_items, lambda n: {i: 1.5 for i in range(n)}),
    (left_early, lambda n: [None, 2] * (n // 2)),
    (left_early, lambda n: [2.5] * n + ["end", None, 1]),
    (with_next, lambda n: [x] * n),
]


@pytest.mark.parametrize("number", range(len(LOOPS)), ids=lambda number: f"{LOOPS[number][0].__name__}{number}")
def test_loops_with_a_break(number: int) -> None:
    """As many graphs for a thousand iterations as for five."""
    fn, make = LOOPS[number]
    counts = []
    framejit.reset()
    compiled = framejit.compile(fn, backend="eager")
    unrolled_argument = fn in (over_enumerate, over_zip, over_items) or (fn is over_list and number == 5)
    for n in (6, 6, 50, 400):
        Comparison().same(fn(x, make(n)), compiled(x, make(n)))
        statistics = framejit.statistics()
        counts.append(statistics["frames"])
        assert statistics["fallbacks"] == 0, statistics["reasons"]
    assert counts[0] == counts[1]
    assert unrolled_argument or counts[-1] <= counts[1] + 3, counts
    assert counts[-1] <= 9, counts


@pytest.mark.slow
def test_a_hundred_thousand_iterations() -> None:
    framejit.reset()
    compiled = framejit.compile(over_range, backend="eager")
    compiled(x, 50)
    frames = framejit.statistics()["frames"]
    compiled(x, 1000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    torch.testing.assert_close(compiled(x, 100_000), over_range(x, 1000))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4096, "KiB"
    assert framejit.statistics()["frames"] <= frames + 2
    assert framejit.statistics()["fallbacks"] == 0


steps = st.lists(st.sampled_from(["next", "inner", "list", "append", "pop", "pair", "number"]), max_size=7)


def play(program: list[str], xs: list[Any], it: Any, outer: Any) -> Any:
    given: list[Any] = []
    for step in program:
        if step == "next":
            given.append(next(it, "none"))
        elif step == "inner":
            given.append(next(outer, "none"))
        elif step == "list":
            given += list(it)
        elif step == "append":
            xs.append(x)
        elif step == "pop" and xs:
            given.append(xs.pop())
        elif step == "pair":
            given += list(zip(it, "ab"))
        elif step == "number":
            given += list(enumerate(outer))[:2]
    return given


@given(steps, st.lists(st.sampled_from(["iter", "reversed", "same", "enumerate", "zip"]), min_size=1, max_size=3), st.integers(0, 3))
@settings(deadline=None, max_examples=60)
def test_related_iterators_are_left_as_in_eager(program: list[str], kinds: list[str], length: int) -> None:
    """One compiled function given iterators that are related in changing ways."""
    framejit.reset()
    compiled = framejit.compile(play, backend="eager")

    def make(kind: str) -> tuple[Any, ...]:
        xs = [x + i for i in range(length)]
        other = [x - i for i in range(length + 1)]
        it = iter(xs) if kind in ("iter", "same", "enumerate") else reversed(xs) if kind == "reversed" else iter(other)
        outer = {"same": it, "enumerate": enumerate(it), "zip": zip(it, xs)}.get(kind) or iter(other)
        return program, xs, it, outer

    for kind in kinds * 2:
        same(play, compiled, lambda: make(kind))
