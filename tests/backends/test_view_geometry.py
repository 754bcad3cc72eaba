"""Views of arguments that are changed, by indices and sizes that vary: each lies where eager's lies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framejit

BACKENDS = pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])


def row(x, i):
    a = x[i]
    x.t()[0] = 9
    return a


def row_taken_later(x, i):
    x.t().mul_(2)
    return x[i], x.t()


def column(x, i):
    a = x[:, i]
    x.t()[0] = 9
    return a


def rows(x, i):
    a = x[i:]
    x.mul_(2)
    return a, x.narrow(0, i, 1)


def part_of_a_row(x, i):
    a = x[i][1:]
    x.unsqueeze(0).add_(1)
    return a


def row_of_what_is_changed(x, i):
    a = x[i]
    b = x.t()
    b.add_(1)
    return a, b[i], x


def detached(x, i):
    x.t().mul_(2)
    return x[i].detach()


PROGRAMS = [row, row_taken_later, column, rows, part_of_a_row, row_of_what_is_changed, detached]
ARGUMENTS: dict[str, Callable[[], torch.Tensor]] = {
    "whole": lambda: torch.arange(9.0).view(3, 3).clone(),
    "part": lambda: torch.arange(30.0).view(5, 6)[1:4, 2:5],
    "transposed": lambda: torch.arange(40.0).view(8, 5)[1::2, 1:4][:3].t(),
}


def story(run: Callable[..., Any], make: Callable[[], torch.Tensor], *more: Any) -> list[Any]:
    x = make()
    results = run(x, *more)
    results = results if isinstance(results, tuple) else (results,)
    places = [(value.stride(), value.storage_offset(), value.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()) for value in results]
    return [*map(torch.clone, results), x.clone(), places]


@BACKENDS
@pytest.mark.parametrize("argument", ARGUMENTS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_an_index_that_varies(program: Callable[..., Any], argument: str, backend: str) -> None:
    compiled = framejit.compile(program, backend=backend)
    for index in (1, 2, 0, 1):
        torch.testing.assert_close(story(compiled, ARGUMENTS[argument], index), story(program, ARGUMENTS[argument], index))


def placed(x, i):
    x.t().mul_(2)
    return x.as_strided((2,), (1,), i), torch.as_strided(x, (3, 2), (2, 1), storage_offset=i)[1]


def parts_of_chunks(x, i):
    x.t().mul_(2)
    return x.chunk(2)[1][i - 2 :], x[i].as_strided((2,), (1,))


@BACKENDS
@pytest.mark.parametrize("program", [row_taken_later, column, rows, placed, parts_of_chunks], ids=lambda program: program.__name__)
def test_an_argument_that_begins_elsewhere_in_its_storage_from_call_to_call(program: Callable[..., Any], backend: str) -> None:
    compiled = framejit.compile(program, backend=backend)
    for first, index in ((1, 1), (2, 2), (4, 0), (0, 1)):
        found = [story(run, lambda first=first: torch.arange(40.0).view(8, 5)[first : first + 3, 1:4], index) for run in (compiled, program)]
        torch.testing.assert_close(*found)


def read_at_a_fixed_place(x, i):
    return x.as_strided((2,), (1,), 9) + x[i, 0], (x * 2).as_strided((2,), (1,), i)


def changed_at_a_fixed_place(x, i):
    x[i:].as_strided((2,), (1,), 9).add_(1)
    return x.as_strided((2,), (1,), None) * 2


@BACKENDS
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("program", [read_at_a_fixed_place, changed_at_a_fixed_place], ids=lambda program: program.__name__)
def test_places_that_count_from_where_the_storage_begins(program: Callable[..., Any], backend: str, dynamic: bool) -> None:
    compiled = framejit.compile(program, backend=backend, dynamic=dynamic)
    for first, index in ((1, 1), (2, 1), (0, 1)):
        found = [story(run, lambda first=first: torch.arange(40.0).view(8, 5)[first : first + 3, 1:4], index) for run in (compiled, program)]
        torch.testing.assert_close(*[results[:-1] for results in found])


@BACKENDS
def test_sizes_that_vary(backend: str) -> None:
    def program(x):
        last, (first, second) = x[x.shape[0] - 1], x.chunk(2)
        x.t()[0] = 9
        return last, first, second

    compiled = framejit.compile(program, backend=backend, dynamic=True, fullgraph=True)
    for size in (3, 4, 5):
        torch.testing.assert_close(*[story(run, lambda size=size: torch.arange(40.0).view(5, 8)[:size, 1 : size + 1]) for run in (compiled, program)])


@BACKENDS
def test_gradients_through_a_row_of_a_changed_weight(backend: str) -> None:
    def program(w, i):
        with torch.no_grad():
            w.t().mul_(2)
        return w[i], w[i].detach()

    compiled = framejit.compile(program, backend=backend)
    for index in (1, 2, 0):
        found = []
        for run in (program, compiled):
            weight = torch.arange(30.0).view(5, 6)[1:4, 2:5].clone().requires_grad_()
            row, plain = run(weight, index)
            (row * plain).sum().backward()
            found.append((row.detach(), plain, weight.grad))
        torch.testing.assert_close(*found)


def first_of_several(x):
    with torch.no_grad():
        x.mul_(2)
    return x.unbind(0)[0].view(-1), x


def pieces(x):
    with torch.no_grad():
        x[0] = x.sum()
    return *x.split(2), x.chunk(3)[1].t()


def iterated(x):
    with torch.no_grad():
        x.add_(1)
    _, second, _ = x
    return (second,)


@BACKENDS
@pytest.mark.parametrize("program", [first_of_several, pieces, iterated], ids=lambda program: program.__name__)
def test_views_of_operators_with_several_results_lie_in_the_argument_that_is_changed(program: Callable[..., Any], backend: str) -> None:
    found = []
    for run in (program, framejit.compile(program, backend=backend, fullgraph=True)):
        leaf = torch.arange(9.0).view(3, 3).requires_grad_()
        x = leaf * 1
        results = run(x)
        (results[0] * 3).sum().backward()
        with pytest.raises(RuntimeError, match="Such functions do not allow the output views to be modified inplace") as raised:
            results[0].add_(1)
        with torch.no_grad():
            results[0].mul_(10)
            x.add_(1)
        found.append(([value.detach().clone() for value in results], x.detach(), leaf.grad, str(raised.value)))
    torch.testing.assert_close(found[1][:-1], found[0][:-1])
    assert found[1][-1] == found[0][-1]
