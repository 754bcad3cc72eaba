"""An entry that is said to supersede another serves all of its calls, for the programs and sizes of the sweep. Obvious cases are recognised."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from shape_programs import FUNCTIONS, ShapeProgram

import framejit
from framejit.guards.superseded import fixes_more, supersedes


def entries_of(function: Any, calls: Any, dynamic: bool) -> list[Any]:
    """The entries that calls make, each made without the others."""
    found = []
    for args in calls:
        compiled = framejit.compile(function, backend="eager", dynamic=dynamic, isolate_recompiles=True)
        try:
            compiled(*args)
        except (RuntimeError, ValueError, IndexError, ZeroDivisionError):
            pass
        found += [(entry, compiled.function, args) for entry in compiled.entries]
    return found


def serves(entry: Any, function: Any, args: Any) -> bool:
    return entry.tree.failing(args, function) is None


@pytest.mark.parametrize("program", FUNCTIONS[::2], ids=lambda program: program.name)
def test_an_entry_that_supersedes_another_serves_its_calls(program: ShapeProgram) -> None:
    calls = [program.make(*sizes) for sizes in program.calls]
    entries = entries_of(program.function, calls[:5], dynamic=False) + entries_of(program.function, calls[:7], dynamic=True)
    for (general, _, _), (special, function, own) in itertools.permutations(entries, 2):
        if supersedes(general.spec.guards, special.spec.guards):
            assert serves(general, function, own)
            assert all(serves(general, function, args) for args in calls if serves(special, function, args))


def of(function: Any, *args: Any, dynamic: bool = True) -> Any:
    ((entry, _, _),) = entries_of(function, [args], dynamic)
    return entry.spec.guards


def add(x: torch.Tensor, n: int = 2) -> torch.Tensor:
    return x * n + x.shape[0]


def short(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.shape[0] < 5 else x - 1


def test_symbols_serve_what_was_made_for_one_size() -> None:
    general = of(add, torch.ones(3, 4), 7)
    for args in ((torch.ones(5, 6), 7), (torch.ones(3, 4), 9)):
        special = of(add, *args, dynamic=False)
        assert supersedes(general, special) and fixes_more(special, general)
        assert not supersedes(special, general) and not fixes_more(general, special)


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ((torch.ones(1, 4), 7), "a size of one"),
        ((torch.ones(0, 4), 7), "no rows"),
        ((torch.ones(3, 4, dtype=torch.float64), 7), "another dtype"),
        ((torch.ones(3), 7), "another number of dimensions"),
        ((torch.ones(4, 3).t(), 7), "other strides"),
        ((torch.ones(3, 4, requires_grad=True), 7), "a gradient"),
        ((torch.ones(3, 4), True), "a bool"),
        ((torch.ones(3, 4), 7.0), "a float"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_calls_are_not_served(args: Any, why: str) -> None:
    general = of(add, torch.ones(3, 4), 7)
    assert not supersedes(general, of(add, *args, dynamic=False))


def test_modes_count() -> None:
    general = of(add, torch.ones(3, 4), 7)
    with torch.no_grad():
        assert not supersedes(general, of(add, torch.ones(3, 4), 7, dynamic=False))


def test_a_branch() -> None:
    """A condition that doesn't follow from the other entry's."""
    few, many = of(short, torch.ones(3)), of(short, torch.ones(9))
    assert not supersedes(few, many) and not supersedes(many, few) and supersedes(few, few)
    assert supersedes(few, of(short, torch.ones(4), dynamic=False)) and not supersedes(many, of(short, torch.ones(4), dynamic=False))


def test_an_int_beyond_64_bits() -> None:
    """The guard walk computes with no such int: what an entry asks of it isn't so there."""

    def large(x: torch.Tensor, n: int) -> torch.Tensor:
        return x + 1 if n > 5 else x - 1

    general = of(large, torch.ones(3), 9)
    assert supersedes(general, of(large, torch.ones(3), 2**62, dynamic=False))
    assert not supersedes(general, of(large, torch.ones(3), 2**70, dynamic=False))


def test_equal_sizes() -> None:
    """One symbol for two sizes that were equal: another entry has two."""
    square, any_size = of(lambda x: x + 1, torch.ones(3, 3)), of(lambda x: x + 1, torch.ones(3, 4))
    assert not supersedes(square, any_size)
    assert supersedes(of(add, torch.ones(3, 4)), of(add, torch.ones(4, 4)))
    assert not fixes_more(of(add, torch.ones(4, 4)), of(add, torch.ones(3, 4)))


def test_what_only_z3_can_say() -> None:
    """No condition of the one entry stands in the other, and no numbers that are tried out speak against it."""

    def by_four(x: torch.Tensor, wide: bool) -> torch.Tensor:
        return x + 1 if (x.shape[0] % 2 == 0 if wide else x.shape[0] % 4 == 0) else x - 1

    def guards(size: int, wide: bool) -> Any:
        """Without the guard on `wide` itself."""
        return [guard for guard in of(by_four, torch.ones(size), wide) if guard.source.describe() != "wide"]

    assert supersedes(guards(8, True), guards(8, False))
    assert not supersedes(guards(8, False), guards(8, True))


def test_an_entry_for_fixed_sizes_supersedes_none() -> None:
    """Two entries for the same sizes: there is nothing to be gained."""
    special = of(add, torch.ones(3, 4), 7, dynamic=False)
    assert not supersedes(special, special)
