"""Suspended generators as guards see them: the C++ accessors and leaves against their Python reference, while the generators go on."""

from __future__ import annotations

from typing import Any

import pytest
from guarding import HERE, agrees, call_of, matched, slot

from framejit.guards.build import build
from framejit.guards.generators import READABLE, HasEnded, Suspended, SuspendedAt, SuspendedFunction, SuspendedSlot, suspended
from framejit.guards.kinds import Equals, IsMissing, IsPresent, TypeIs
from framejit.guards.source import MISSING, Root, Slot

pytestmark = pytest.mark.skipif(not READABLE, reason="suspended frames can't be read")


def counting(n):
    total = 0
    for i in range(n):
        total += i
        got = yield total
        del got
    return total


def with_cells(n):
    add = lambda k: n + k
    yield add, [1, (yield n)]


def raising(n):
    try:
        yield n
        raise ValueError(n)
    except ValueError:
        yield n + 1


def look(generator: Any, kind: Any, payload: Any = None) -> Any:
    """Return the value that the reference reads from a generator, having checked that the native accessor reads the same."""
    source = slot(Root()).child(kind, payload)
    expected = source.fetch(call_of(generator))
    found = matched(build([], [source], []), generator)
    assert (found is None) == (expected is MISSING)
    assert found is None or found[0] is expected
    assert agrees(build([IsMissing(source, HERE)], [], []), generator) == (expected is MISSING)
    assert agrees(build([IsPresent(source, HERE)], [], []), generator) == (expected is not MISSING)
    return expected


def guards_on(found: Suspended) -> list[Any]:
    """Trees for guards of which one holds where a generator was found, and others hold elsewhere."""
    filled = tuple([value is not MISSING for value in found.slots])
    payloads = [
        (found.code, found.offset, filled), (found.code, found.offset + 2, filled), (guards_on.__code__, found.offset, filled),
        (found.code, found.offset, (*filled, True)), (found.code, found.offset, filled[:-1]),
        (found.code, found.offset, (None,) * len(filled)), (found.code, found.offset, (not filled[0], *filled[1:])),
    ]  # fmt: skip
    return [build([SuspendedAt(slot(Root()), HERE, *payload)], [], []) for payload in payloads]


@pytest.mark.parametrize("make", [counting, with_cells, raising], ids=lambda make: make.__name__)
def test_generators_are_read_alike_at_each_place(make):
    generator, end = make(3), object()
    trees: list[Any] = [build([HasEnded(slot(Root()), HERE)], [], []), build([TypeIs(slot(Root()), HERE, type(generator))], [], [])]
    held: list[bool] = []
    while True:
        found = suspended(generator)
        if found is not None:
            trees += guards_on(found)
            assert look(generator, SuspendedFunction) is make
        held.append(any([agrees(tree, generator) for tree in trees[2:]]))
        for index in range(8):
            look(generator, SuspendedSlot, Slot(index, ""))
        agrees(trees[0], generator), agrees(trees[1], generator)
        if next(generator, end) is end:
            break
    assert held[0]
    assert agrees(trees[0], generator) and not any([agrees(tree, generator) for tree in trees[2:]])
    assert suspended(generator) is None and look(generator, SuspendedSlot, Slot(0, "n")) is MISSING


def test_a_generator_whose_frame_is_in_use_is_not_read():
    generator = counting(3)
    found = suspended(generator)
    assert found is not None and len(found.slots) == 4
    tree = build([SuspendedAt(slot(Root()), HERE, found.code, found.offset, (None,) * 4)], [], [])
    assert agrees(tree, generator)
    line = generator.gi_frame.f_lineno
    assert line == counting.__code__.co_firstlineno
    assert agrees(tree, generator)
    frame = generator.gi_frame
    assert not agrees(tree, generator) and suspended(generator) is None
    del frame
    assert agrees(tree, generator)


@pytest.mark.parametrize("value", [None, 3, counting, [counting(3)], iter([1])], ids=lambda value: type(value).__name__)
def test_other_values_are_no_generators(value):
    assert suspended(value) is None and look(value, SuspendedFunction) is MISSING and look(value, SuspendedSlot, Slot(0, "n")) is MISSING
    assert not agrees(build([HasEnded(slot(Root()), HERE)], [], []), value)
    assert not agrees(build([SuspendedAt(slot(Root()), HERE, counting.__code__, 0, ())], [], []), value)


async def coroutine():
    return 1


def test_coroutines_are_no_generators():
    made = coroutine()
    assert suspended(made) is None and not agrees(build([HasEnded(slot(Root()), HERE)], [], []), made)
    made.close()
    assert not agrees(build([HasEnded(slot(Root()), HERE)], [], []), made)


def test_a_variable_is_guarded_as_it_changes():
    """The tree keeps no memo of what a generator's slots hold."""
    source = slot(Root()).child(SuspendedSlot, Slot(1, "total"))
    tree = build([Equals(source, HERE, 1)], [], [])
    generator = counting(5)
    found = []
    for _ in range(4):
        next(generator)
        found.append((agrees(tree, generator), agrees(tree, generator)))
    assert found == [(False, False), (True, True), (False, False), (False, False)]


def test_a_guard_says_where_a_generator_waits():
    generator = counting(3)
    found = suspended(generator)
    assert found is not None
    guard = SuspendedAt(slot(Root()), HERE, found.code, found.offset, (True, True, True, True))
    assert guard.expected() == f"is a generator of counting() that waits in line {counting.__code__.co_firstlineno}"
    assert guard.found(generator, call_of(generator)).endswith("with other variables set")
    next(generator)
    assert guard.found(generator, call_of(generator)).endswith(f"waits in line {counting.__code__.co_firstlineno + 4}")
