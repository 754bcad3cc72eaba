"""Frozen dataclasses and classes as keys of dicts and elements of sets."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

import pytest
import torch
from agreement import agree

import framejit

X = torch.arange(3.0)


@dataclasses.dataclass(frozen=True)
class Place:
    row: int
    col: Any = 0


@dataclasses.dataclass(frozen=True)
class Other:
    row: int
    col: Any = 0


class Marked(Place):
    pass


@dataclasses.dataclass(frozen=True)
class Named:
    name: str
    note: str = dataclasses.field(default="", compare=False)


@dataclasses.dataclass(frozen=True, eq=False)
class ByIdentity:
    row: int


@dataclasses.dataclass(frozen=True)
class Odd:
    row: int

    def __hash__(self) -> int:
        return 1


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    row: int


@dataclasses.dataclass(unsafe_hash=True)
class Changing:
    row: int


class Kind(enum.Enum):
    A = 1


def counts() -> tuple[int, int]:
    found = framejit.statistics()
    return found["graph_breaks"], found["recompiles"]


@pytest.mark.parametrize("key", [Place(1, 2), Place(1, (2, "a")), Place(1, Kind.A), Marked(1), Slotted(3), Named("a"), ByIdentity(1)], ids=repr)
def test_looking_up_an_equal_key(key: Any) -> None:
    def found(x: torch.Tensor, key: Any) -> Any:
        table = {key: x * 2, Other(1, 2): x * 3, (1, 2): x * 4}
        again = dataclasses.replace(key)
        return [table.get(again), table[key], again in table, len(table), list(table)[0] is key, key == again]

    framejit.reset()
    agree(found, X, key)


def test_a_part_that_is_not_compared_differs() -> None:
    def found(x: torch.Tensor) -> Any:
        table = {Named("a", "first"): x}
        table[Named("a", "second")] = x + 1
        return table[Named("a")], [key.note for key in table], Named("b") in table

    agree(found, X)


def test_a_dict_from_outside() -> None:
    table = {Place(1, 2): 2.0, Place(3, 4): 3.0}

    def scaled(x: torch.Tensor, key: Place) -> torch.Tensor:
        table[Place(5, 6)] = table.get(Place(5, 6), 0.0) + 1.0
        return x * table[key]

    framejit.reset()
    compiled = framejit.compile(scaled, backend="eager")
    for key in (Place(1, 2), Place(1, 2), Place(3, 4)):
        assert torch.equal(compiled(X, key), X * table[key])
    assert table == {Place(1, 2): 2.0, Place(3, 4): 3.0, Place(5, 6): 3.0}
    assert counts()[0] == 0
    with pytest.raises(KeyError):
        compiled(X, Place(7, 8))


def test_sets_are_in_their_order() -> None:
    def ordered(x: torch.Tensor) -> Any:
        places = {Place(row, col) for row in range(4) for col in range(3)}
        places.add(Place(0, 0))
        places.discard(Place(2, 1))
        return [(place.row, place.col) for place in places], Place(3, 2) in places, places | {Place(9, 9)}, x + 1

    framejit.reset()
    agree(ordered, X)
    assert counts()[0] == 0


def test_unhashable_fields_raise() -> None:
    def table(x: torch.Tensor) -> Any:
        try:
            return {Place(1, [2]): x}
        except TypeError as error:
            return str(error), x

    agree(table, X)


def found_again(x: torch.Tensor, key: Any) -> Any:
    table = {key: x * 2}
    return [table.get(dataclasses.replace(key)) is None, table[key]]


@pytest.mark.parametrize("key", [Odd(1), Changing(1)], ids=repr)
def test_other_classes_compare_by_their_own_code(key: Any) -> None:
    framejit.reset()
    agree(found_again, X, key)
    assert counts()[0] == 0


def test_a_key_with_nan_in_it_is_left_to_native_code() -> None:
    framejit.reset()
    agree(found_again, X, Place(1, float("nan")), fullgraph=False)
    assert counts()[0] > 0


def test_only_the_class_that_is_looked_up_is_guarded() -> None:
    table: dict[Any, int] = {int: 2, float: 3, str: 5}

    def scaled(x: torch.Tensor, cls: type) -> torch.Tensor:
        return x * table[cls] + (1 if bytes in table else 0)

    framejit.reset()
    compiled = framejit.compile(scaled, backend="eager")
    assert torch.equal(compiled(X, int), X * 2)
    del table[float]
    table[list] = 7
    assert torch.equal(compiled(X, int), X * 2)
    assert counts() == (0, 0)
    table[bytes] = 8
    assert torch.equal(compiled(X, int), X * 2 + 1)
    table[int] = 9
    assert torch.equal(compiled(X, int), X * 9 + 1)
    assert counts() == (0, 2)


def test_a_class_is_added_and_removed() -> None:
    def changed(x: torch.Tensor, table: dict[Any, Any]) -> Any:
        table[int] = x
        table[list] = table.pop(str, 4)
        return list(table), table.get(float), len(table)

    framejit.reset()
    eager, compiled = {str: 1, int: 2}, {str: 1, int: 2}
    expected, found = changed(X, eager), framejit.compile(changed, backend="eager")(X, compiled)
    assert expected == found and list(eager) == list(compiled)
    assert counts()[0] == 0


def removed_from_a_dict(t: torch.Tensor, table: dict[Any, Any], elements: set[Any]) -> Any:
    del table[Place(1)]
    table.pop((Place(3), 4))
    table[Place(9)] = t
    del table[Place(9)]
    table[Place(2)] = t
    return table.popitem(), Place(1) in table


def taken_out_and_put_back(t: torch.Tensor, table: dict[Any, Any], elements: set[Any]) -> Any:
    table[Place(1)] = table.pop(Place(1))
    elements.discard(Place(2))
    elements.add(Place(2))
    return list(table), len(elements)


def removed_from_a_set(t: torch.Tensor, table: dict[Any, Any], elements: set[Any]) -> Any:
    elements.discard(Place(1))
    elements.remove((Place(3), 4))
    elements.add(Place(8))
    elements.add(Place(9))
    elements.discard(Place(9))
    elements -= {Other(1)}
    return len(elements), Place(1) in elements


@pytest.mark.parametrize("program", [removed_from_a_dict, taken_out_and_put_back, removed_from_a_set], ids=lambda program: program.__name__)
def test_keys_are_taken_out_of_containers_from_outside(program: Any) -> None:
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for step in range(3):
        pairs = [({Place(1): 1, Place(2): step, (Place(3), 4): 3, Place(7): 7}, {Place(1), Place(2), (Place(3), 4)}) for _ in range(2)]
        (table, elements), (own, taken) = pairs
        assert str(compiled(X, own, taken)) == str(program(X, table, elements))
        assert str(own) == str(table)
        assert taken == elements


def test_an_element_takes_the_place_of_an_equal_one() -> None:
    def program(t: torch.Tensor, elements: set[Any]) -> int:
        elements.add(len)
        elements.intersection_update([1, len, True])
        return len(elements)

    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        eager, own = {1.0, 2.0, ByIdentity}, {1.0, 2.0, ByIdentity}
        assert compiled(X, own) == program(X, eager)
        assert sorted(map(repr, own)) == sorted(map(repr, eager))
