"""Lists, tuples, deques and slices in compiled functions: results, exceptions, mutation of arguments, identity."""

from __future__ import annotations

import operator
from collections import deque, namedtuple

import pytest
import torch
from agreement import agree, agree_over_calls, raising

import framejit

x = torch.arange(6.0).reshape(2, 3)
Pair = namedtuple("Pair", "first second", defaults=[None])


class Stack(list):
    """A user's list with an attribute and an overridden method."""

    def __init__(self, *items):
        super().__init__(items)
        self.pushed = 0

    def append(self, item):
        self.pushed += 1
        super().append(item)

    def peek(self):
        return self[-1]


class Vector(tuple):
    """A user's tuple."""

    def __add__(self, other):
        return Vector(a + b for a, b in zip(self, other))


class Position:
    def __init__(self, at):
        self.at = at

    def __index__(self):
        return self.at


def slices(t, items):
    return [items[1:], items[:-1], items[::2], items[::-1], items[-2:], items[5:], items[2:0:-1], items[Position(0) : Position(2)]]


def assign_slices(t, items):
    items[1:3] = [t, t + 1, t + 2]
    items[:0] = (t,)
    items[::2] = [0] * len(items[::2])
    del items[-1]
    del items[:1]
    return items


def methods(t, items):
    items.insert(1, 11)
    items.insert(-100, 12)
    items.insert(100, 7)
    popped = [items.pop(), items.pop(0), items.pop(-2)]
    items.reverse()
    items.extend(i * 2 for i in range(3))
    items += (8, 9)
    items *= 2
    items.remove(8)
    return popped, items.index(9), items.count(9), items.copy(), items


def clear_and_fill(t, items):
    same = items
    items.clear()
    items.append(t)
    return items is same, same


def append_only(t, items):
    items.append(t + 1)
    items.append(t + 2)


def set_one(t, items):
    items[1] = t * 3
    items[-1] = items[1]
    return items[1] is items[-1]


def errors(t, items):
    empty = []
    return [
        raising(lambda: items[100]),
        raising(lambda: items[-100]),
        raising(lambda: items["a"]),
        raising(lambda: operator.setitem(items, 100, 1)),
        raising(lambda: operator.delitem(items, 100)),
        raising(lambda: empty.pop()),
        raising(lambda: items.pop(50)),
        raising(lambda: items.index("no")),
        raising(lambda: items.remove("no")),
        raising(lambda: items + (1,)),
        raising(lambda: items * "a"),
        raising(lambda: tuple(items)[7]),
        raising(lambda: (1, 2)["k"]),
        raising(lambda: (1,) + [2]),
        raising(lambda: (1,).index(3)),
        raising(lambda: {[]: 1}),
        raising(lambda: items < 3),
        raising(lambda: [1, "a"] < [1, 2]),
        raising(lambda: items[::0]),
        raising(lambda: operator.setitem(items, slice(0, 4, 2), [1])),
        raising(lambda: operator.setitem(items, slice(0, 2), 3)),
    ]


def comparisons(t):
    return [
        [1, 2] == [1, 2],
        [1, 2] != [1, 2],
        [1, 2] < [1, 3],
        [1, 2] < [1, 2, 0],
        [1, 2] >= [1],
        [] == (),
        (1, [2]) == (1, [2]),
        [t, 1] == [t, 1],
        (1, 2) < (1, 3),
        (1, "a") > (0, 5),
        [None] == [None],
        [float("nan")] == [float("nan")],
    ]


def live_iteration(t):
    items = [1, 2]
    seen = []
    for item in items:
        seen.append(item)
        if len(items) < 6:
            items.append(item * 10)
    iterator = iter(items)
    list(iterator)
    items.append(1)
    return seen, list(iterator), t + len(items)


def return_iterator(t, items):
    iterator = iter(items)
    next(iterator)
    return iterator


def sorting(t, items):
    rows = [(3, "c"), (1, "b"), (3, "a"), (2, "z")]
    rows.sort(key=lambda row: row[0], reverse=True)
    words = sorted(["b", "A", "c"], key=str.lower)
    items.sort(key=lambda item: -item if isinstance(item, int) else 0)
    return rows, words, sorted({3, 1, 2}), items, sorted([2.5, 1, True]), sorted((), key=None), t


class Item:
    def __init__(self, rank):
        self.rank = rank

    def __lt__(self, other):
        return self.rank < other.rank


def sort_objects(t):
    return [item.rank for item in sorted([Item(3), Item(1), Item(2), Item(1)])], t + 1


def subclass(t):
    stack = Stack(1, 2)
    stack.append(t)
    stack.extend([5, 6])
    stack.label = "s"
    return stack, stack.pushed, stack.peek(), isinstance(stack, list), len(stack), [*stack], stack[1:], list.__len__(stack)


def mutate_subclass(t, stack):
    stack.append(t)
    stack.pushed += 5
    return stack.peek()


def vector(t):
    v = Vector((t, t + 1)) + Vector((1, 2))
    return v, type(v) is Vector, v[0], len(v), tuple(v)


def named(t):
    p = Pair(t, second=2)
    q = p._replace(first=t + 1)
    return p, q, p.first, q[1], p._fields, p._asdict(), Pair._make([1, 2]), Pair(5), Pair(1, 2) == (1, 2), [*p][1]


def named_argument(t, p):
    first, second = p
    return p.first + t, second, p._replace(second=t)


def cycle(t):
    items = [t]
    items.append(items)
    holder = {"items": items, "again": items}
    return items, holder


def nested(t, items):
    items[0].append(t)
    items[1]["k"].append(t + 1)
    items.append(items[0])
    return items[0]


def unpacking(t, items):
    a, *b, c = items
    (d, e), f = (a, b), c
    return [*items, *"xy", *range(2)], (*items, t), a, b, c, d, e, f


def unpack_errors(t):
    def two(values):
        a, b = values
        return a, b

    def star(values):
        a, b, *c = values
        return a, b, c

    return [raising(lambda: two([1])), raising(lambda: two([1, 2, 3])), raising(lambda: two(5)), raising(lambda: star([1])), star("abcd")]


def repr_of(t):
    loop = [1]
    loop.append(loop)
    return (
        repr([1, "a", (2,), (), [None, {}]]),
        str((1.5, "b")),
        f"{[1, 2]!s} {(1,)}",
        repr(loop),
        repr(Pair(1, 2)),
        repr({1: [2]}),
        repr(Stack(1)),
    )


def contains(t, items):
    return 2 in items, "z" in items, t in [t], None not in items, 3 in (1, 2), [1] in [[1]]


def multiply(t):
    grid = [[0] * 2 for _ in range(2)]
    shared = [[t]] * 2
    shared[0].append(1)
    return grid, shared, 2 * (1, 2), [1] * 0, [1] * -1, (3,) * True


def deques(t, given):
    d = deque([1, 2, 3], maxlen=3)
    d.append(4)
    d.appendleft(t)
    given.append(t)
    given.rotate(1)
    e = deque("abc")
    e.extend([1, 2])
    e.extendleft([3, 4])
    e.rotate(-2)
    return (
        d,
        d.maxlen,
        given,
        given.popleft(),
        e,
        e[0],
        e[-1],
        list(reversed(e)),
        len(e),
        2 in e,
        e.index("c"),
        e.count(1),
        e.copy(),
        deque([1]) == deque([1]),
    )


def deque_errors(t):
    d = deque([1])

    def mutate():
        for _ in d:
            d.append(1)

    return (
        raising(lambda: deque().pop()),
        raising(lambda: d[4]),
        raising(mutate),
        raising(lambda: d.remove(9)),
        raising(lambda: deque([], -1)),
        repr(d),
        repr(deque(maxlen=2)),
    )


def slice_objects(t):
    s = slice(1, None, 2)
    return s.start, s.stop, s.step, s.indices(5), [0, 1, 2, 3][s], s == slice(1, None, 2), slice(3), t[:, s]


def alias(t, items):
    other = items[0]
    other.append(t)
    items[0] = [9]
    return other, items


GIVEN = [
    (slices, [1, 2, 3, x]),
    (assign_slices, [1, 2, 3, 4, 5]),
    (methods, [1, 2, 3]),
    (clear_and_fill, [1, x]),
    (append_only, [x]),
    (append_only, []),
    (set_one, [1, 2, 3]),
    (errors, [1, 2, 3, 4]),
    (return_iterator, [1, 2, 3]),
    (return_iterator, (1, x, 3)),
    (sorting, [3, 1, 2]),
    (mutate_subclass, Stack(1, 2)),
    (named_argument, Pair(x, 3)),
    (nested, [[], {"k": []}]),
    (unpacking, [1, 2, 3, x]),
    (unpacking, (1, 2)),
    (contains, [1, 2, None]),
    (deques, deque([1, 2])),
    (alias, [[1], [2]]),
]
ALONE = [
    comparisons,
    live_iteration,
    sort_objects,
    subclass,
    vector,
    named,
    cycle,
    unpack_errors,
    repr_of,
    multiply,
    deque_errors,
    slice_objects,
]


@pytest.mark.parametrize(("program", "given"), GIVEN, ids=[f"{p.__name__}-{i}" for i, (p, _) in enumerate(GIVEN)])
def test_with_argument(program, given):
    agree(program, x, given)


@pytest.mark.parametrize("program", ALONE, ids=lambda program: program.__name__)
def test_lists_agree_with_eager(program):
    agree(program, x)


def test_an_append_guards_no_length():
    compiled = agree(append_only, x, [1])
    items = [1, 2, 3]
    before = framejit.statistics()["recompiles"]
    compiled(x, items)
    assert framejit.statistics()["recompiles"] == before
    assert len(items) == 5


def test_another_length_recompiles():
    def total(t, items):
        for item in items:
            t = t + item
        return t

    compiled = agree(total, x, [1, 2])
    before = framejit.statistics()["recompiles"]
    assert torch.equal(compiled(x, [1, 2, 3]), x + 6)
    assert framejit.statistics()["recompiles"] == before + 1


def item_then_insert(t, items):
    first = items[0]
    items.insert(0, t + 1)
    return items[1] is first, items


def item_then_store(t, items):
    item = items[1]
    items[1] = items[0]
    return item * 2, items


def item_then_delete(t, items):
    item = items[0]
    del items[0]
    return item, items[0], bool(items)


def item_of_an_item_then_append(t, items):
    item = items[2][0]
    items[2].append(t)
    items.append(items[2])
    return item + 1, items[2][0], items


def items_of_a_tuple(t, items):
    items = tuple(items), items
    return items[0][0], items[1][1], bool(items), items[0][-1]


@pytest.mark.parametrize("program", [item_then_insert, item_then_store, item_then_delete, item_of_an_item_then_append, items_of_a_tuple])
def test_one_item_and_what_becomes_of_the_list(program):
    compiled = agree(program, x, [x, x + 1, [x + 2]])
    for items in ([x, x + 3, [x]], [x, 2, [3, 4], 5]):
        assert type(compiled(x, list(items))) is tuple
        agree(program, x, items)


def test_one_item_is_guarded_to_be_there():
    def pick(t, items, pair):
        return t + items[1] + pair[0]

    compiled = agree(pick, x, [1, 2], (3, 4))
    before = framejit.statistics()["recompiles"]
    assert torch.equal(compiled(x, [7, 2, 9], (3,)), x + 5)
    assert framejit.statistics()["recompiles"] == before
    with pytest.raises(IndexError, match="list index out of range"):
        compiled(x, [1], (3, 4))
    with pytest.raises(IndexError, match="tuple index out of range"):
        compiled(x, [1, 2], ())


@pytest.mark.parametrize("passed_on", [True, False])
def test_an_item_that_nothing_looks_at_is_guarded_to_be_there(passed_on):
    def pick(t, items, pair):
        taken = items[1], pair[1]
        return (t + 1, taken) if passed_on else t + 1

    compiled = agree(pick, x, [1, 2], (3, 4))
    before = framejit.statistics()["recompiles"]
    assert passed_on is (type(compiled(x, [3, "text", 4], (3, 4, 5))) is tuple)
    assert framejit.statistics()["recompiles"] == before
    with pytest.raises(IndexError, match="list index out of range"):
        compiled(x, [1], (3, 4))
    with pytest.raises(IndexError, match="tuple index out of range"):
        compiled(x, [1, 2], (3,))


def test_sorting_a_list_that_changes_meanwhile():
    def program(compile):
        def f(t, items):
            def key(item):
                items.append(item)
                return item

            try:
                items.sort(key=key)
            except ValueError as error:
                return t + 1, str(error), items

        def g(t, items):
            try:
                items.sort()
            except TypeError:
                return t + 1, items

        return [compile(f)(x, [2, 1]), compile(g)(x, [5, 4, 3, *range(70), "a", 1])]

    agree_over_calls(program)


@pytest.mark.parametrize("reverse", (None, 2.5, "yes", [1], 2, -1, True, 10**30, b"", Position(1)), ids=lambda value: str(value)[:9])
@pytest.mark.parametrize("sort", (list.sort, sorted), ids=("sort", "sorted"))
def test_what_reverse_may_be_when_sorting(sort, reverse):
    """It must be an int in Python 3.11, and may be anything from 3.12 on."""

    def program(t, items):
        try:
            found = sort(items, reverse=reverse)
        except (TypeError, OverflowError) as error:
            return str(error), items, t
        return found, items, t + 1

    agree(program, x, [3, 1, 2], fullgraph=False)


class Changing:
    """Changes a list when it is asked for an index, for items, or whether it is equal to something."""

    def __init__(self, items, change, number=3):
        self.items, self.change, self.number = items, change, number

    def __index__(self):
        self.change(self.items)
        return self.number

    def __iter__(self):
        yield from [7] * self.number
        self.change(self.items)

    def __eq__(self, other):
        self.change(self.items)
        return False

    __hash__ = None


def grow(items):
    items.extend([1, 2])


def cut(items):
    del items[2:]


def store(items):
    items[1] = 70


MEANWHILE = {
    "item": lambda items, other: items[other],
    "store": lambda items, other: operator.setitem(items, other, 9),
    "delete": lambda items, other: operator.delitem(items, other),
    "slice": lambda items, other: items[:other],
    "store slice": lambda items, other: operator.setitem(items, slice(other, None), [5]),
    "delete slice": lambda items, other: operator.delitem(items, slice(None, other)),
    "pop": lambda items, other: items.pop(other),
    "insert": lambda items, other: items.insert(other, 9),
    "repeat": lambda items, other: items * other,
    "repeat in place": lambda items, other: operator.imul(items, other),
    "index": lambda items, other: items.index(2, other),
    "count": lambda items, other: items.count(other),
    "contains": lambda items, other: other in items,
    "store items": lambda items, other: operator.setitem(items, slice(1, 4), other),
    "store items at the end": lambda items, other: operator.setitem(items, slice(-2, None), other),
    "extend": lambda items, other: items.extend(other),
}


@pytest.mark.parametrize("change", [list.clear, grow, cut, store], ids=lambda change: change.__name__)
@pytest.mark.parametrize("name", MEANWHILE)
@pytest.mark.timeout(60)
def test_a_list_that_changes_meanwhile(name, change):
    if change is grow and name in ("count", "contains"):
        change = cut  # they would compare for ever

    def program(t):
        items = [0, 1, 2, 3, 4]
        try:
            found = MEANWHILE[name](items, Changing(items, change))
        except (IndexError, ValueError) as error:
            return t + 1, items, type(error), str(error)
        return t, items, found

    agree(program, x, fullgraph=not (name.startswith("store items") and change is not store))
