"""id(): addresses of objects from outside are looked up and compared without their numbers, which are guarded once the program uses them as such."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

import framejit


class Plain:
    pass


FIRST, SECOND = Plain(), Plain()
X = torch.ones(2)
BY_ID, IDS = {id(FIRST): 1}, {id(SECOND)}


def among_numbers(x: torch.Tensor, value: Any) -> Any:
    return x + BY_ID.get(id(value), 5), id(value) in IDS


def beside_a_text(x: torch.Tensor, value: Any) -> Any:
    made: dict[Any, int] = {}
    made[id(value)] = 1
    made["a"] = 2
    return x + made[id(value)], list(made) == [id(value), "a"], id(value) in made


def joined_by_numbers(x: torch.Tensor, value: Any) -> Any:
    made = {}
    made[id(value)] = 1
    made.update(BY_ID)
    return x + len(made), sorted(made)


def looked_up_by_numbers(x: torch.Tensor, value: Any) -> Any:
    made = {}
    made[id(value)] = 1
    return x, [made.get(key) for key in BY_ID], next(iter(BY_ID)) in made


def seen_as_a_whole(x: torch.Tensor, value: Any) -> Any:
    made = {}
    made[id(value)] = 1
    return x, made.keys() & BY_ID.keys(), made == BY_ID, {**made}, dict(made), made.pop(id(value)), len(made)


def as_a_number(x: torch.Tensor, value: Any) -> Any:
    return x, id(value), f"{id(value)}", hash(id(value)) == id(value), {id(value): 3}, id(value) % 7


def across_a_break(x: torch.Tensor, value: Any) -> Any:
    made = {}
    made[id(value)] = 1
    print(end="")
    return x + made[id(value)], list(made) == [id(value)]


def of_constants(x: torch.Tensor, value: Any) -> Any:
    made = {}
    made[id(None)] = 1
    made[id(value)] = 2
    made[id(int)] = 3
    return x + made[id(None)] + made[id(type(3))], id(None) in made, id(value) in made


def of_equal_values(x: torch.Tensor, value: Any) -> Any:
    made = {}
    made[id(value)] = 1
    return x + len(made), id(value) == id(1), id(value) in made


@pytest.mark.parametrize(
    "program",
    [
        among_numbers, beside_a_text, joined_by_numbers, looked_up_by_numbers, seen_as_a_whole, as_a_number, across_a_break, of_constants, of_equal_values,
    ],
)  # fmt: skip
def test_addresses_agree(program: Any) -> None:
    compiled = framejit.compile(program, backend="eager")
    for value in (FIRST, SECOND, FIRST, Plain(), 1, 2, ()):
        assert repr(compiled(X, value)) == repr(program(X, value))


def test_addresses_of_two_values_are_compared() -> None:
    def compared(x: torch.Tensor, a: Any, b: Any) -> Any:
        made = {}
        made[id(a)] = 1
        return x + (id(b) in made), id(a) == id(b), id(a) != id(b)

    compiled = framejit.compile(compared, backend="eager")
    for pair in ((FIRST, SECOND), (FIRST, FIRST), (SECOND, SECOND), (SECOND, FIRST), (1, 1), (1, 2), ((), ()), (FIRST, 1)):
        assert repr(compiled(X, *pair)) == repr(compared(X, *pair))


def test_a_deep_copy_serves_other_objects_of_the_same_form() -> None:
    def copied(x: torch.Tensor, settings: Any) -> Any:
        made = copy.deepcopy(settings)
        made["sizes"].append(made["sizes"][0])
        return x * len(made["sizes"]), made["sizes"] is made["again"]

    framejit.reset()
    compiled = framejit.compile(copied, backend="eager")
    sizes = [[1, 2], [1, 2], [1, 2]]
    for item, other in ((0, 0), (1, 1), (2, 2)):
        assert repr(compiled(X, {"sizes": sizes[item], "again": sizes[other]})) == repr(copied(X, {"sizes": sizes[item], "again": sizes[other]}))
    assert framejit.statistics()["graphs"] == 1
    assert compiled(X, {"sizes": sizes[0], "again": sizes[1]})[1] is False
    assert framejit.statistics()["graphs"] == 2
