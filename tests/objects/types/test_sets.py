"""Sets and frozensets in compiled functions."""

from __future__ import annotations

import enum
import gc
import weakref

import pytest
import torch
from agreement import agree, raising

import framejit

x = torch.arange(6.0).reshape(2, 3)


class Node:
    pass


class Tags(set):
    """A user's set."""

    def add(self, item):
        super().add(str(item))


def build(t):
    s = {1, 2, 3}
    s.add(2)
    s.add(9)
    s.discard(1)
    s.discard(100)
    s.update([5], (6,))
    return s, len(s), 5 in s, frozenset(s), set("hello") == set("olleh"), {*s, 7}, {i % 3 for i in range(9)}, bool(set())


def algebra(t):
    a, b = {1, 2, 3}, frozenset([2, 3, 4])
    return (
        a | b,
        a & b,
        a - b,
        a ^ b,
        b | a,
        type(b | a).__name__,
        a <= {1, 2, 3, 4},
        a < a,
        a >= {1},
        a.isdisjoint({9}),
        a.issubset(range(9)),
        a == {3, 2, 1},
        a != b,
    )


def methods(t):
    a = {1, 2, 3}
    return (
        a.union([4], [5]),
        a.intersection([1, 2], [2]),
        a.difference([1]),
        a.symmetric_difference([1, 9]),
        a.copy() is a,
        a.issuperset([1]),
    )


def inplace(t, s):
    s |= {10}
    s &= {1, 2, 10}
    s -= {1}
    s ^= {10, 11}
    s.intersection_update([2, 11])
    s.difference_update([99])
    s.symmetric_difference_update([5])
    return s


def mutate(t, s):
    s.add(7)
    s.remove(1)
    return 1 in s, 7 in s, len(s)


def clear(t, s):
    s.clear()
    s.add("z")


def errors(t):
    def grow():
        s = {1}
        for item in s:
            s.add(item + 1)

    return (
        raising(lambda: {1}.remove(2)),
        raising(lambda: set().pop()),
        raising(grow),
        raising(lambda: {[]}),
        raising(lambda: {1} | [2]),
        raising(lambda: {1} < 3),
        raising(lambda: hash({1})),
    )


def order(t):
    return list({5, 1, 900, 33, 8}), [c for c in {"b", "a", "c"}], sorted(frozenset("cab")), {3, 1}.pop()


def nodes(t):
    a, b = Node(), Node()
    s = {a, b, a}
    return len(s), a in s, Node() in s, t + len(s)


def tensors(t):
    u = t + 1
    return len({t, u, t}), t in {u}


def subclass(t):
    s = Tags([1])
    s.add(2)
    s.label = 3
    return sorted(map(str, s)), s.label, isinstance(s, set), type(s | {1}).__name__


def frozen(t):
    f = frozenset([1, 2])
    return (
        f | {3},
        {f: 1}[frozenset([2, 1])],
        hash(f) == hash(frozenset([2, 1])),
        {1, 2} in [{2, 1}],
        {f} == {frozenset([1, 2])},
        {1, 2} in {f},
    )


def texts(t):
    return repr({1}), repr(set()), repr(frozenset([1])), str(frozenset())


GIVEN = [(inplace, {1, 2, 3}), (mutate, {1, 2}), (mutate, {1}), (clear, {"a"})]
ALONE = [build, algebra, methods, errors, order, nodes, tensors, subclass, frozen, texts]


@pytest.mark.parametrize(("program", "given"), GIVEN, ids=[f"{p.__name__}-{i}" for i, (p, _) in enumerate(GIVEN)])
def test_with_argument(program, given):
    agree(program, x, given)


@pytest.mark.parametrize("program", ALONE, ids=lambda program: program.__name__)
def test_sets_agree_with_eager(program):
    agree(program, x)


def test_other_elements_recompile():
    def has(t, s):
        return t + (3 in s)

    compiled = agree(has, x, {1, 2})
    assert torch.equal(compiled(x, {3}), x + 1)


class Color(enum.Enum):
    RED = 1
    BLUE = 2


def double(t):
    return t * 2


def test_sets_of_what_is_compared_by_identity():
    """The program asks sets of classes, functions and members of enumerations from outside, as `type(module) in SKIPPED` does."""

    def looked_up(t, kinds, functions, colors):
        found = [type(module) in kinds for module in (torch.nn.ReLU(), torch.nn.Linear(2, 2))]
        return t + 1, found, double in functions, Color.RED in colors, len(kinds), kinds | {int}, sorted(kind.__name__ for kind in kinds)

    sets = {torch.nn.ReLU, torch.nn.Dropout}, {double, len}, {Color.RED}
    compiled = agree(looked_up, x, *sets)
    agree(looked_up, x, *map(frozenset, sets))
    assert compiled(x, {torch.nn.Linear}, {len}, {Color.BLUE})[1:4] == ([False, True], False, False)
    assert compiled(x, *sets)[1:4] == ([True, False], True, True)


def test_changed_sets_of_classes():
    def changed(t, kinds):
        kinds.add(float)
        kinds.discard(int)
        return t + 1, int in kinds, float in kinds

    agree(changed, x, {int, str})


def test_a_class_in_a_set_is_not_kept_alive():
    compiled = framejit.compile(lambda t, kinds: t + (int in kinds), backend="eager", fullgraph=True)
    made = type("Made", (), {})
    assert torch.equal(compiled(x, {made, int}), x + 1)
    gone = weakref.ref(made)
    del made
    gc.collect()
    assert gone() is None
    assert torch.equal(compiled(x, {int, str}), x + 1)
    assert torch.equal(compiled(x, {str}), x)


def test_what_questions_leave_of_an_iterator():
    def asked(t, own):
        results = []
        for kind in (set(own), frozenset(own)):
            for items in ((1, 2, 3), (3, 1, 1, 2, 4), (), (5,), ("1", 1, 2), (1, [], 2)):
                for question in (kind.issubset, kind.issuperset, kind.isdisjoint):
                    left = iter(items)
                    results.append((raising(lambda question=question, left=left: question(left)), list(left)))
        return t + 1, results

    for own in ((), (1,), (1, 2)):
        agree(asked, x, own)


class Part:
    pass


def test_membership_in_sets_of_objects_from_outside():
    one, other, third = Part(), Part(), torch.nn.Identity()

    def f(t, part, parts):
        made = Part()
        return t * (part in parts) + (made in parts) * 5 + len(parts) + (2 if parts else 0), (part not in parts), (third in parts)

    for kind in (set, frozenset):
        compiled = framejit.compile(f, backend="eager", fullgraph=True)
        for part, parts in ((one, {one}), (other, {one}), (one, {one, "text", third}), (other, {one, other, 2}), (third, {third}), (one, {one})):
            result, expected = compiled(x, part, kind(parts)), f(x, part, kind(parts))
            assert torch.equal(result[0], expected[0]) and result[1:] == expected[1:]


def test_set_of_objects_that_changes_between_calls():
    one, other = Part(), Part()
    parts = {one, other}
    compiled = framejit.compile(lambda t, part: t * 2 if part in parts else t, backend="eager", fullgraph=True)
    before = framejit.statistics()["frames"]
    assert torch.equal(compiled(x, one), x * 2) and torch.equal(compiled(x, other), x * 2)
    parts.discard(other)
    assert torch.equal(compiled(x, one), x * 2)
    assert framejit.statistics()["frames"] == before + 1  # the others in the set don't matter
    assert torch.equal(compiled(x, other), x) and torch.equal(compiled(x, Part()), x)
    parts.add(other)
    assert torch.equal(compiled(x, other), x * 2)


def test_objects_that_decide_themselves_what_they_equal_are_left_to_native_code():
    class Equal:
        def __hash__(self):
            return object.__hash__(one)

        def __eq__(self, other):
            return True

    one = Part()
    f = lambda t, part, parts: t * (part in parts)
    compiled = framejit.compile(f, backend="eager")
    for parts in ({Part()}, {Equal()}, {Part(), Equal()}, {Part()}):
        assert torch.equal(compiled(x, one, parts), f(x, one, parts))
    original = Part.__eq__
    Part.__eq__, Part.__hash__ = lambda self, other: True, lambda self: 1
    try:
        parts = {Part()}
        assert torch.equal(compiled(x, one, parts), f(x, one, parts))
    finally:
        Part.__eq__, Part.__hash__ = original, object.__hash__


def test_set_of_objects_keeps_nothing_alive():
    part = Part()
    gone = weakref.ref(part)
    compiled = framejit.compile(lambda t, part, parts: t * (part in parts), backend="eager", fullgraph=True)
    compiled(x, part, {part})
    del part
    gc.collect()
    assert gone() is None
