"""all() and any() of items of which some depend on the data of tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import framejit

x = torch.arange(6.0).reshape(2, 3)
AS_CALLS = pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python writes all() and any() of a generator expression out as a loop")


@pytest.fixture(autouse=True)
def fresh() -> None:
    framejit.reset()


def checked(xs, ys):
    a = xs[0].sin()
    if not all(torch.equal(given, known) for given, known in zip(xs, ys, strict=True)):
        raise RuntimeError("other inputs")
    return a * 2


def chosen(xs, ys):
    if any(torch.equal(given, known) for given, known in zip(xs, ys, strict=True)):
        return xs[0] * 2
    return ys[0] + xs[1]


def returned(xs, ys):
    return xs[0] + 1, all([(given > known).any() for given, known in zip(xs, ys)]), any(torch.isfinite(given).all() for given in xs)


def of_items(xs, ys):
    values = [(given - known).abs().max().item() for given, known in zip(xs, ys)]
    return xs[0] * 2 if all(value < 0.5 for value in values) else xs[1] * 3


def with_known_items(xs, ys):
    first = any([xs[0].sum() > 100, len(xs) == 2, xs[1].sum() > 100])
    second = all([xs[0].sum() > 100, len(xs) == 2])
    return xs[0] + first, second, all([torch.equal(xs[0], ys[0]), None])


GIVEN: list[tuple[list[torch.Tensor], list[torch.Tensor]]] = [
    ([x, x + 1], [x.clone(), x + 1]), ([x, x + 1], [x.clone(), x]), ([x, x + 1], [x + 1, x - 1]), ([x.log(), x.log()], [x.log(), x]),
]  # fmt: skip


def outcome(run: Callable[..., Any], given: Any) -> Any:
    try:
        return run(*given)
    except Exception as error:
        return type(error), error.args


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, tuple):
        return len(found) == len(expected) and all(same(a, b) for a, b in zip(found, expected))
    if isinstance(expected, torch.Tensor):
        return torch.equal(found.nan_to_num(7), expected.nan_to_num(7))
    return type(found) is type(expected) and found == expected


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [*(pytest.param(program, marks=AS_CALLS) for program in (checked, chosen, returned, of_items)), with_known_items])
def test_they_are_computed_with_the_graph(program, backend):
    compiled = framejit.compile(program, backend=backend)
    for given in GIVEN[:1] if program is checked else GIVEN:
        assert same(outcome(compiled, given), outcome(program, given))
    found = framejit.statistics()
    assert (found["graphs"], found["graph_breaks"], found["fallbacks"]) == (1, 0, 0), found["reasons"]
    for given in GIVEN:  # `checked` raises for some: those calls run uncompiled
        assert same(outcome(compiled, given), outcome(program, given))


def steps(xs: list[torch.Tensor], seen: list[int]) -> Iterator[Any]:
    for number, a in enumerate(xs):
        seen.append(number)
        yield a.sum() > 0


def that_note(xs, ys):
    seen: list[int] = []
    found = all(steps(xs, seen))
    return xs[0] + 1, found, len(seen)


def that_leave_an_iterator(xs, ys):
    iterator = iter([a.sum() > 0 for a in xs])
    found = all(iterator)
    return xs[0] + 1, found, len(list(iterator))


def that_leave_an_iterator_of_a_generator(xs, ys):
    iterator = zip([1, 2, 3], xs)
    found = any(a.sum() < number for number, a in iterator)
    return xs[0] + 1, found, len(list(iterator))


def that_write(xs, ys):
    total, other, row = xs[0].sum(), xs[0].clone(), torch.zeros(3)
    found = all(total.copy_(a.max()) > 4 for a in xs), any(torch.mul(a, 2, out=other).sum() > -1e9 for a in xs), all(row.fill_(i).sum() > 0 for i in (0, 5))
    return xs[0] + total, found, total.item(), other.tolist(), row.tolist()


def that_write_items(xs, ys):
    def put(row, i):
        row[i] = 1
        return row.sum() > 5

    row = xs[0].sum(0)
    return row + 0, any(put(row, i) for i in range(3)), row.tolist()


def that_change_what_is_outside(xs, ys):
    ys.clear()
    found = all(steps(xs, ys))
    return xs[0] + 1, found, len(ys)


def that_raise(xs, ys):
    return xs[0] + 1, any(1 if number > 1 else a.sum() > -1e9 for number, a in zip([1, 2], xs, strict=True)), all(a.sum() > 1e9 for a in [*xs, None])


def that_may_fail(xs, ys):
    numbers = (xs[0] > 100).sum(), (xs[1] > 100).sum()
    row = xs[0].flatten()
    return row + 1, all(number != 0 and 7 // number > 1 for number in numbers), all(row[number] > 100 for number in (*numbers, numbers[0] + 50))


THAT_DO_MORE = [
    that_write, that_write_items, that_change_what_is_outside, that_raise, that_may_fail, that_note, that_leave_an_iterator,
    that_leave_an_iterator_of_a_generator,
]  # fmt: skip


@pytest.mark.parametrize("program", THAT_DO_MORE)
def test_items_that_the_program_may_not_reach_split_the_graph_if_they_do_more_than_compute(program):
    compiled = framejit.compile(program, backend="eager")
    for xs, ys in GIVEN:
        assert same(outcome(compiled, (list(xs), [])), outcome(program, (list(xs), [])))
    assert framejit.statistics()["graph_breaks"] >= 1


def test_what_guards_read_decides():
    """The data of small tensors from outside is guarded, so that branches that depend on it are chosen while tracing."""

    @framejit.compile(backend="eager")
    def step(a, flags):
        return a * 2 if all(flag.item() for flag in flags) and not any(flag.item() for flag in flags) else a + 1

    for flags in ([True, True], [False, False]):
        assert torch.equal(step(x, [torch.tensor(flag) for flag in flags]), x + 1)
    assert framejit.statistics()["graph_breaks"] == 0
