"""Keys of dicts and elements of sets whose `__hash__` and `__eq__` are the program's."""

from __future__ import annotations

import pathlib
import weakref
from collections import Counter, OrderedDict, defaultdict
from typing import Any

import pytest
import torch
from agreement import agree, agree_over_calls, raising
from undo import undoing

import framejit

X = torch.arange(3.0)


class Point:
    def __init__(self, x: Any, y: Any = 0) -> None:
        self.x = x
        self.y = y

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Point):
            return NotImplemented
        return self.x == other.x and self.y == other.y

    def __hash__(self) -> int:
        return hash((self.x, self.y))

    def __repr__(self) -> str:
        return f"Point({self.x}, {self.y})"


class Spec:
    __slots__ = ("shape", "dtype", "device")

    def __init__(self, shape: Any, dtype: Any, device: Any) -> None:
        self.shape, self.dtype, self.device = shape, dtype, device

    def _key(self) -> Any:
        return self.shape, self.dtype, self.device

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spec) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


class Config:
    def __init__(self, **options: Any) -> None:
        self.__dict__.update(options)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(tuple(sorted(self.__dict__.items())))


class Kept:
    """Keeps its hash."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.kept: Any = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kept) and self.value == other.value

    def __hash__(self) -> int:
        if self.kept is None:
            self.kept = hash(("kept", self.value))
        return self.kept

    def __repr__(self) -> str:
        return f"Kept({self.value})"


class Noted:
    """Counts the calls of its methods."""

    def __init__(self, value: Any, counts_hashes: bool) -> None:
        self.value = value
        self.counts_hashes = counts_hashes
        self.calls = 0

    def __eq__(self, other: object) -> bool:
        if not self.counts_hashes:
            self.calls += 1
        return isinstance(other, Noted) and self.value == other.value

    def __hash__(self) -> int:
        if self.counts_hashes:
            self.calls += 1
        return hash(self.value)

    def __repr__(self) -> str:
        return f"Noted({self.value})"


class Version(tuple):
    def __hash__(self) -> int:
        return hash(("version", tuple(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and tuple(self) == tuple(other)


class Number(int):
    def __hash__(self) -> int:
        return int(self)

    def __eq__(self, other: object) -> bool:
        return int(self) % 10 == int(other) % 10 if isinstance(other, int) else NotImplemented


class Same:
    """All have one hash."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value == other.value

    def __hash__(self) -> int:
        return 1

    def __repr__(self) -> str:
        return f"Same({self.value})"


class NeverEqual(Same):
    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = Same.__hash__


class Near(Same):
    """Equality that isn't transitive."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Near) and abs(self.value - other.value) <= 1

    __hash__ = Same.__hash__


class Greedy(Same):
    """Equality that isn't symmetric."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Greedy) and self.value >= other.value

    __hash__ = Same.__hash__


def counts() -> tuple[int, int]:
    found = framejit.statistics()
    return found["graph_breaks"], found["recompiles"]


def one_graph(program: Any, *args: Any) -> None:
    """Compare a program with eager; it must be one graph."""
    framejit.reset()
    agree(program, *args)
    assert counts() == (0, 0)


def split(program: Any, *args: Any) -> str:
    """Compare a program that must be split with eager; return the reason."""
    framejit.reset()
    agree(program, *args, fullgraph=False)
    reasons = framejit.statistics()["reasons"]
    assert reasons
    return reasons[0]


# ---- what keys are found ----


def made_inside(x: torch.Tensor) -> Any:
    first = Point(0)
    table = {first: x, Point(1): x * 2}
    table[Point(0)] = x + 5
    return table[Point(1)], table[Point(0)], Point(5) in table, len(table), next(iter(table)) is first, table.get(Point(9), 3)


def positions(x: torch.Tensor) -> Any:
    table: dict[Any, Any] = {}
    for row in range(3):
        for column in range(2):
            table.setdefault(Point(row, column), []).append(x * row)
    del table[Point(1, 1)]
    taken = table.pop(Point(2, 0)), table.pop(Point(7), None)
    table |= {Point(0, 0): 1, Point(8): 2}
    return table | {Point(8): 3}, taken, table == {Point(8): 2}, list(table.items())[0], table.popitem()


def specs(x: torch.Tensor) -> Any:
    scales = {Spec((3,), torch.float32, torch.device("cpu")): 2.0, Spec((3,), torch.float64, torch.device("cpu")): 3.0}
    return x * scales[Spec(tuple(x.shape), x.dtype, x.device)]


def collections_of_them(x: torch.Tensor) -> Any:
    ordered: OrderedDict[Any, Any] = OrderedDict()
    ordered[Point(1)], ordered[Point(2)] = x, x + 1
    ordered.move_to_end(Point(1))
    lists = defaultdict(list)
    for number in range(4):
        lists[Point(number % 2)].append(number)
    return Counter([Point(1), Point(1), Point(2)]), lists, ordered, dict.fromkeys([Point(1), Point(1)], x)


def inside_others(x: torch.Tensor) -> Any:
    table = {(Point(1), "a"): x, frozenset({Point(1), Point(2)}): x * 2}
    return table[Point(1), "a"], table[frozenset({Point(2), Point(1)})], (Point(2), "a") in table


def with_classes_and_constants(x: torch.Tensor) -> Any:
    table = {Same(1): x, 1: x + 1, Same: x + 2, "a": 3, (Point(1), 2): 4}
    return table[1], table[Same(1)], table[Same], True in table, (1, 0) in {Point(1): 2}, table[Point(1), 2]


def equal_to_numbers(x: torch.Tensor) -> Any:
    table = {Number(3): x, 4: x + 1}
    table[3] = x + 7
    return table[3], table[Number(4)], 13 in table, Number(13) in table, Number(4) in {4}, {3, Number(3)}, list(table), Number(14) == 4


def numbers_among_equal_hashes(x: torch.Tensor) -> Any:
    table: dict[Any, Any] = {Same(number): number for number in range(5)}
    table[1] = 7
    table[Same(5)] = 8
    return table[1], Same(9) in table, table[Same(3)], len(table), x + 1


def subclasses_of_tuple(x: torch.Tensor) -> Any:
    table = {Version((1, 2)): x}
    return table[Version((1, 2))], (1, 2) in table, Version((1,)) in table


def never_equal(x: torch.Tensor) -> Any:
    own = NeverEqual(1)
    table = {own: x}
    return table[own], NeverEqual(1) in table, len({own, NeverEqual(1), own})


def one_hash(x: torch.Tensor) -> Any:
    table = {Same(number): x * number for number in range(4)}
    return table[Same(2)], Same(9) in table, {Same(3), Same(1), Same(3)}, [key.value for key in {Same(5), Same(2), Same(7)}]


def kept_hashes(x: torch.Tensor) -> Any:
    key = Kept(3)
    table = {key: x}
    other = Kept(3)
    return table[other], key.kept == other.kept, Kept(4) in table, table


def sets(x: torch.Tensor) -> Any:
    a, b = {Point(number) for number in range(4)}, {Point(number) for number in range(2, 6)}
    c = set(a)
    c -= {Point(1)}
    c.add(Point(9))
    c ^= b
    return a & b, a | b, a - b, a ^ b, a <= b, a == {Point(number) for number in range(4)}, c, a.isdisjoint(b), Point(3) in a & b, x + len(c)


def order_of_a_set(x: torch.Tensor) -> Any:
    points = {Point(row, column) for row in range(4) for column in range(3)}
    points.discard(Point(1, 1))
    points.add(Point(9, 9))
    points.add(Point(1, 2))
    first = points.pop()
    return [(point.x, point.y) for point in points], first, [point.x for point in points | {Point(20), Point(21)}], x + 1


def dropped_from_a_set(x: torch.Tensor) -> Any:
    points = {Point(1), Point(2), Point(3)}
    points.add(Point(10))
    points.discard(Point(10))
    points.discard(Point(2))
    return points, x + 1


def joined_with_itself(x: torch.Tensor) -> Any:
    empty: set[Any] = set()
    empty.update(empty)
    points = {Point(1)}
    points |= points
    return empty, points, x + 1


def equal_constants(x: torch.Tensor, points: Any) -> Any:
    points.symmetric_difference_update([Number(3), 4, Number(5)])
    points.add(Number(5))
    return len(points), 3 in points, 4 in points, 5 in points, x + 1


def paths(x: torch.Tensor) -> Any:
    table = {pathlib.PurePosixPath("a/b"): 2.0, pathlib.PurePosixPath("a"): 3.0}
    return x * table[pathlib.PurePosixPath("a") / "b"]


def searched(x: torch.Tensor) -> Any:
    seen, todo = set(), [Config(depth=0, path=(0,))]
    while todo:
        state = todo.pop()
        if state in seen or state.depth > 2:
            continue
        seen.add(state)
        x = x + state.depth
        todo += [Config(depth=state.depth + 1, path=(*state.path, 1)), Config(depth=state.depth + 1, path=(0,))]
    return x, len(seen)


PROGRAMS = [
    made_inside, positions, specs, collections_of_them, inside_others, with_classes_and_constants, equal_to_numbers,
    numbers_among_equal_hashes, subclasses_of_tuple, never_equal, one_hash,
    kept_hashes, sets, order_of_a_set, dropped_from_a_set, joined_with_itself, paths, searched,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_keys_that_the_program_makes(program: Any) -> None:
    one_graph(program, X)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_instructions_that_are_undone_and_repeated(program: Any) -> None:
    for seed in range(3 if program is paths else 1):
        framejit.reset()
        with undoing(0.3, f"{program.__name__} {seed}"):
            agree(program, X, calls=1)


class Unhashable(Point):
    __hash__ = None  # type: ignore[assignment]


class Raising(Point):
    def __hash__(self) -> int:
        raise ValueError("no hash")


class RaisingAlone(Point):
    def __hash__(self) -> int:
        raise TypeError


class Wrong(Point):
    def __hash__(self) -> int:
        return "text"  # type: ignore[return-value]  # noqa: PLE0309


class Negative(Point):
    def __hash__(self) -> int:
        return -1

    __eq__ = Point.__eq__


class Large(Point):
    def __hash__(self) -> int:
        return 2**70 + self.x  # type: ignore[no-any-return]

    __eq__ = Point.__eq__


@pytest.mark.parametrize("cls", [Unhashable, Raising, Wrong, Negative, Large])
def test_hashes_of_all_kinds(cls: type) -> None:
    def program(x: torch.Tensor) -> Any:
        return raising(lambda: {cls(1): x}[cls(1)]), raising(lambda: cls(1) in {1, 2}), raising(lambda: len({cls(1), cls(2)})), x + 1

    one_graph(program, X)


def test_a_hash_that_raises_an_error_without_a_text() -> None:
    framejit.reset()
    agree(lambda x: (raising(lambda: {RaisingAlone(1): x}), raising(lambda: {RaisingAlone(1)}), x + 1), X, fullgraph=False)


def test_sets_that_hash_by_their_own_code() -> None:
    class Hashed(set):  # type: ignore[type-arg]
        def __hash__(self) -> int:
            return 5

        def __eq__(self, other: object) -> bool:
            return self is other

    class ByIdentity(set):  # type: ignore[type-arg]
        __hash__ = object.__hash__
        __eq__ = object.__eq__

    class Refusing(set):  # type: ignore[type-arg]
        def __hash__(self) -> int:
            raise TypeError("no hash")

    def program(x: torch.Tensor, cls: Any) -> Any:
        one = cls([1])
        sets: set[Any] = {frozenset([1])}
        was_in = one in sets, {1} in sets
        raised = raising(lambda: sets.add(one))[0]
        found = was_in, one in sets, cls([1]) in sets, raising(lambda: sets.remove(one)), one in sets, len(sets), raised
        return found, raising(lambda: sets.discard(set([1]))), len(sets), x + 1

    one_graph(program, X, Hashed)
    one_graph(program, X, ByIdentity)
    assert "look-up of a Refusing" in split(program, X, Refusing)


def test_a_missing_key_is_in_the_error() -> None:
    def program(x: torch.Tensor, key: Point) -> Any:
        try:
            return {Point(2): x}[key]
        except KeyError as error:
            return error.args[0] is key, x + 1

    one_graph(program, X, Point(1))


# ---- keys from outside ----


def outside_dict(x: torch.Tensor, table: Any, key: Any) -> Any:
    found = table.get(key)
    taken = table.pop(Point(1, 2))
    table.setdefault(Point(5), 7.0)
    table.update({Point(6): 1.0, Point(3, 4): 9.0})
    joined = table | {Point(5): 8.0}
    table[Point(3, 4)] += 1
    del table[Point(6)]
    return x * found + taken, joined, len(table), [key.x for key in table]


def outside_set(x: torch.Tensor, points: Any, key: Any) -> Any:
    was_in = key in points, [point.x for point in points]
    points.add(Point(7))
    points.add(Point(3, 4))
    points.discard(Point(1, 2))
    points.add(Point(11))
    points.discard(Point(11))
    return x + len(points), was_in, Point(1, 2) in points, points == {Point(3, 4), Point(7)}


def test_a_dict_from_outside() -> None:
    one_graph(outside_dict, X, {Point(1, 2): 2.0, Point(3, 4): 3.0}, Point(3, 4))


def test_a_set_from_outside() -> None:
    one_graph(outside_set, X, {Point(1, 2), Point(3, 4)}, Point(3, 4))


def test_a_set_from_outside_with_constants_that_are_equal_to_objects() -> None:
    one_graph(equal_constants, X, {"a", 3})


def test_keys_that_keep_their_hash_from_outside() -> None:
    def program(compile: Any) -> list[Any]:
        table = {Kept(1): 2.0, Kept(2): 3.0}
        keys = [Kept(1), Kept(2), Kept(1)]
        f = compile(lambda x, key: x * table[key])
        return [f(X, key) for key in keys] + [table, keys]

    agree_over_calls(program)


def test_calls_with_equal_keys_share_entries() -> None:
    table = {Point(1): 2.0, Point(2): 3.0}
    framejit.reset()
    compiled = framejit.compile(lambda x, key: x * table[key], backend="eager", fullgraph=True)
    for _ in range(3):
        for key in (Point(1), Point(2)):
            assert torch.equal(compiled(X, key), X * table[key])
    assert counts() == (0, 1)


def test_a_cache_that_is_filled() -> None:
    def program(compile: Any) -> list[Any]:
        cache: dict[Any, Any] = {}

        def scaled(x: torch.Tensor, config: Config) -> Any:
            if config not in cache:
                cache[config] = config.scale * 2
            return x * cache[config]

        f = compile(scaled)
        return [f(X, Config(scale=scale, name="a")) for scale in (1.0, 1.0, 2.0, 2.0)] + [len(cache), list(cache.values())]

    agree_over_calls(program)


def test_weak_containers() -> None:
    def program(compile: Any) -> list[Any]:
        points = [Point(number) for number in range(3)]
        members, values = weakref.WeakSet(points), weakref.WeakKeyDictionary({points[0]: 2.0, points[1]: 3.0})

        def f(x: torch.Tensor, point: Point) -> Any:
            return x * values[point], point in members, Point(2) in members, Point(9) in members, values.get(Point(8), 4.0)

        compiled = compile(f)
        return [compiled(X, point) for point in (points[0], points[1], points[0], Point(1))]

    agree_over_calls(program)


# ---- what changes between calls ----


@pytest.mark.parametrize("kind", [dict, set])
def test_a_key_that_has_changed_since_it_was_put_in(kind: Any) -> None:
    """Its table still has the old hash: neither its old value nor its new one finds it. So it is in a call in which only the old hash tells it from others."""

    def program(compile: Any) -> list[Any]:
        f, found = compile(lambda x, table, key: (key in table, x + 1)), []
        for before, after in ((1, 1), (2, 1), (1, 1), (1, 2), (2, 2)):
            key = Point(before)
            table = kind([(key, 3.0)]) if kind is dict else {key}
            key.x = after
            found += [f(X, table, Point(1)), f(X, table, Point(2)), f(X, table, key)]
        return found

    agree_over_calls(program, stops=True)


def test_two_keys_that_have_become_equal() -> None:
    def program(compile: Any) -> list[Any]:
        first, second = Same(1), Same(2)
        table = {first: 1, second: 2}
        f = compile(lambda x, table, key: (x + 1, table.get(key), len(table)))
        found = [f(X, table, Same(2))]
        second.value = 1
        return found + [f(X, table, Same(2)), f(X, table, Same(1)), f(X, table, second)]

    agree_over_calls(program, stops=True)


def test_methods_that_change() -> None:
    def program(compile: Any) -> list[Any]:
        class Key(Point):
            modulus = 10

            def __hash__(self) -> int:
                return 1

            def __eq__(self, other: object) -> bool:
                return isinstance(other, Key) and self.x % Key.modulus == other.x % Key.modulus

        table = {Key(3): 2.0}
        f = compile(lambda x, key: x * table.get(key, 9.0))
        found = [f(X, Key(13)), f(X, Key(13))]
        Key.modulus = 7
        found += [f(X, Key(13)), f(X, Key(10))]
        Key.__eq__ = lambda self, other: True  # type: ignore[assignment, method-assign]
        found += [f(X, Key(1))]
        Key.__hash__ = lambda self: 2  # type: ignore[method-assign]
        return found + [f(X, Key(3)), f(X, next(iter(table)))]

    agree_over_calls(program, stops=True)


def test_keys_that_are_the_same_object_in_another_call() -> None:
    def program(compile: Any) -> list[Any]:
        f = compile(lambda x, a, b: (x + 1, a in {b: 1}, len({a, b})))
        one = NeverEqual(1)
        return [f(X, one, NeverEqual(1)), f(X, one, one), f(X, NeverEqual(1), one)]

    agree_over_calls(program)


# ---- what can't be one graph ----


def counted(x: torch.Tensor, counts_hashes: bool) -> Any:
    key, other = Noted(1, counts_hashes), Noted(1, counts_hashes)
    table = {key: x}
    found = table[other], table[key]
    return found, key.calls, other.calls, table


@pytest.mark.parametrize("counts_hashes", [True, False])
def test_methods_that_count_their_calls(counts_hashes: bool) -> None:
    assert "does more than" in split(counted, X, counts_hashes)


def test_equality_that_contradicts_itself() -> None:
    def near(x: torch.Tensor) -> Any:
        table = {Near(0): x, Near(2): x + 1}
        return table[Near(1)], Near(3) in table, len(table)

    def greedy(x: torch.Tensor) -> Any:
        return Greedy(1) in {Greedy(2)}, Greedy(2) in {Greedy(1)}, x + 1

    assert "contradict" in split(near, X)
    assert "contradict" in split(greedy, X)


def test_an_object_that_equals_another_and_a_number_that_the_other_does_not_equal() -> None:
    class Equals(Same):
        def __eq__(self, other: object) -> bool:
            return bool(self.value == (other.value if isinstance(other, Same) else other))

        __hash__ = Same.__hash__

    def program(x: torch.Tensor) -> Any:
        return Same(1) in {1}, Equals(1) in {Same(1)}, Equals(1) in {1}, x + 1

    assert "contradict" in split(program, X)


def test_an_object_that_was_equal_to_a_number() -> None:
    def program(x: torch.Tensor) -> Any:
        key = Number(3)
        key.shift = 0  # type: ignore[attr-defined]
        table: dict[Any, Any] = {key: x}
        found = 3 in table
        Number.__eq__, before = (lambda self, other: False), Number.__eq__  # type: ignore[method-assign, assignment]
        try:
            return found, 3 in table, key in table, x + 1
        finally:
            Number.__eq__ = before  # type: ignore[method-assign]

    class Shifted(Same):
        def __eq__(self, other: object) -> bool:
            return self.value == other

        __hash__ = Same.__hash__

    def changed(x: torch.Tensor) -> Any:
        key = Shifted(1)
        table = {key: x}
        found = 1 in table
        key.value = 2
        return found, key in table, 1 in table, x + 1

    split(program, X)
    assert "FJ022" in split(changed, X)


def test_a_number_that_gives_way_to_an_equal_object() -> None:
    def program(x: torch.Tensor, points: Any) -> Any:
        points.discard(3)
        points.add(Number(3))
        return 3 in points, len(points), x + 1

    framejit.reset()
    agree(program, X, {3, 5}, fullgraph=False)


def test_keys_that_change_while_they_are_in() -> None:
    def looked_up(x: torch.Tensor) -> Any:
        point = Point(1)
        table = {point: x}
        point.x = 2
        return point in table, Point(1) in table, Point(2) in table, len(table), x + 1

    def joined(x: torch.Tensor) -> Any:
        point = Point(1)
        a, b = {point}, {Point(1)}
        point.x = 2
        return len(a | b), a == b, a <= b, {point: 1} == {Point(1): 1}, x + 1

    def copied(x: torch.Tensor) -> Any:
        point = Point(1)
        a = {point: 1}
        point.x = 2
        b = {**a, Point(2): 5}
        return len(b), {Point(1): 5} | a, x + 1

    for program in (looked_up, joined, copied):
        assert "FJ022" in split(program, X)


def left(x: torch.Tensor) -> Any:
    point = Point(1)
    table, points = {point: x}, {point}
    point.x = 2
    return table, points, point


def left_in_a_set(x: torch.Tensor) -> Any:
    point = Point(1)
    points = {point}
    point.x = 2
    return points, point


def left_after_a_change(x: torch.Tensor, table: Any, point: Any) -> Any:
    table["a"] = 1
    point.x = 5
    table[point] = 2
    return x + 1


def left_after_two_changes(x: torch.Tensor, table: Any, point: Any) -> Any:
    point.x = 5
    table[point] = 2
    point.x = 6
    return x + 1


def left_in_itself(x: torch.Tensor) -> Any:
    point = Point(1)
    point.table = {point: x}
    return point


def keys_of(found: Any) -> list[Any]:
    """For each table that the program has made, whether these keys are in it. That depends on the hashes with which its keys were put in."""
    return [[key in table for key in (Point(1), Point(2), Point(5), Point(6), "a")] for table in found]


def test_tables_that_leave_with_keys_that_have_changed() -> None:
    def program(compile: Any) -> list[Any]:
        made = compile(left)(X)
        tables: list[Any] = [made[0], made[1], compile(left_in_a_set)(X)[0]]
        outside: list[Any] = [{}, {}]
        for table, change in zip(outside, (left_after_a_change, left_after_two_changes)):
            compile(change)(X, table, Point(1))
        own = compile(left_in_itself)(X)
        return keys_of(tables), keys_of(outside), [key is own for key in own.table], own in own.table, [list(table) for table in outside]

    agree_over_calls(program, stops=True)


def test_a_key_that_is_changed_before_it_is_put_in() -> None:
    def program(x: torch.Tensor, table: Any, point: Any) -> Any:
        point.x = 5
        table[point] = x
        return Point(5) in table, {Point(5): 1}

    def run(compile: Any) -> list[Any]:
        table: dict[Any, Any] = {}
        return [compile(program)(X, table, Point(1)), keys_of([table])]

    agree_over_calls(run)


def test_keys_on_both_sides_of_a_break() -> None:
    def program(x: torch.Tensor, key: Any) -> Any:
        table, points = {Point(1): x, key: x + 1}, {Point(3), Point(4)}
        framejit.graph_break("between")
        table[Point(1)] = x + 5
        points.add(Point(3))
        return table, table[Point(2)], points, Point(4) in points

    framejit.reset()
    agree(program, X, Point(2), fullgraph=False)
    assert counts()[0] == 1


def test_an_object_that_is_a_key_beside_one_with_its_hash() -> None:
    class Wrapped:
        def __init__(self, of: Any) -> None:
            self.of = of

        def __eq__(self, other: object) -> bool:
            return self.of is (other.of if isinstance(other, Wrapped) else other)

        def __hash__(self) -> int:
            return hash(self.of)

    class Plain:
        pass

    def program(compile: Any) -> list[Any]:
        plain, other = Plain(), Plain()
        f = compile(lambda x, plain, other: (x + 1, plain in {Wrapped(plain): 1}, Wrapped(plain) in {plain: 1}, Wrapped(other) in {Wrapped(other), 3}))
        return [f(X, plain, other), f(X, plain, other)]

    agree_over_calls(program, stops=True)
