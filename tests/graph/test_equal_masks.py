"""Masks that are computed twice: they select equally many elements, in one graph, unless something has been changed in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

import framejit

BACKENDS = ("eager", "aot_eager")


def loss(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(x[labels != -100], labels[labels != -100])


def shifted_loss(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """As models of transformers have it: what the masks are computed of is computed twice, too."""
    return functional.cross_entropy(x[:, :-1][labels[..., 1:].to(torch.int64).ne(-100)], labels[..., 1:][labels[..., 1:].to(torch.int64).ne(-100)])


def added(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    y = x * 1
    y[~(labels > 2)] += x[~(labels > 2)] * 2
    return y


def of_two(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return x[(labels > 0) & (labels < 3)] * labels[(labels > 0) & (labels < 3)][:, None]


def kept(x: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The second mask is a tensor of its own."""
    first, second = labels > 0, labels > 0
    product = x[first] * labels[second][:, None]
    second[0] = False
    return product, first, second


ONE_GRAPH: list[Callable[..., Any]] = [loss, shifted_loss, added, of_two, kept]


def arguments() -> tuple[torch.Tensor, torch.Tensor]:
    labels = torch.randint(0, 5, (2, 6))
    labels[1, 3:] = -100
    return torch.randn(2, 6, 5), labels


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", ONE_GRAPH, ids=lambda program: program.__name__)
def test_equal_masks_select_equally_many(program: Callable[..., Any], backend: str) -> None:
    framejit.reset()
    compiled = framejit.compile(program, backend=backend)
    for _ in range(3):
        x, labels = arguments()
        torch.testing.assert_close(compiled(x, labels), program(x, labels), rtol=0, atol=0)
    statistics = framejit.statistics()
    assert (statistics["graphs"], statistics["reasons"]) == (1, []), statistics


def changed_between(x: torch.Tensor, labels: torch.Tensor) -> list[torch.Tensor]:
    labels = labels.clone()
    found = [x[labels != -100].sum(0)]
    labels[0, 0] = -100
    found.append(x[labels != -100].sum(0))
    labels.data[0, 1] = -100
    found.append(x[labels != -100].sum(0))
    labels.view(-1)[2:4].fill_(-100)
    return [*found, x[labels != -100].sum(0)]


def first_changed(x: torch.Tensor, labels: torch.Tensor) -> list[torch.Tensor]:
    first = labels > 2
    found = [x[first].sum(0)]
    first[0] = True
    return [*found, x[labels > 2].sum(0), x[first].sum(0)]


def other_constant(x: torch.Tensor, labels: torch.Tensor) -> list[torch.Tensor]:
    return [x[labels > 1].sum(0), x[labels > 2].sum(0), x[labels >= 1].sum(0), x[labels == True].sum(0), x[labels == 1].sum(0)]


def drawn(x: torch.Tensor, labels: torch.Tensor) -> list[torch.Tensor]:
    found = [x[torch.rand(2, 6) > 0.5].sum(0), x[torch.rand(2, 6) > 0.5].sum(0)]
    return [*found, x[torch.randint_like(labels, 2) > 0].sum(0), x[torch.randint_like(labels, 2) > 0].sum(0)]


def of_one_in_a_branch(x: torch.Tensor, labels: torch.Tensor) -> list[torch.Tensor]:
    """After a break, what was known before it is no longer."""
    found = [x[labels > 2].sum(0)]
    labels = labels.clone()
    framejit.graph_break()
    found.append(x[labels > 2].sum(0))
    labels[0] = 4
    return [*found, x[labels > 2].sum(0)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [changed_between, first_changed, other_constant, drawn, of_one_in_a_branch], ids=lambda program: program.__name__)
def test_masks_that_only_look_alike(program: Callable[..., Any], backend: str) -> None:
    compiled = framejit.compile(program, backend=backend)
    for seed in range(3):
        x, labels = arguments()
        torch.manual_seed(seed)
        expected = program(x, labels)
        torch.manual_seed(seed)
        torch.testing.assert_close(compiled(x, labels), expected, rtol=0, atol=0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_input_that_shares_memory_with_another_is_changed_between(backend: str) -> None:
    def program(x: torch.Tensor, labels: torch.Tensor, row: torch.Tensor) -> list[torch.Tensor]:
        found = [x[labels > 2].sum(0)]
        row.fill_(4)
        return [*found, x[labels > 2].sum(0)]

    compiled = framejit.compile(program, backend=backend)
    for _ in range(2):
        x, labels = arguments()
        mine, theirs = labels.clone(), labels.clone()
        torch.testing.assert_close(compiled(x, mine, mine[0]), program(x, theirs, theirs[0]), rtol=0, atol=0)
        torch.testing.assert_close(compiled(x, mine, torch.zeros(6)), program(x, theirs, torch.zeros(6)), rtol=0, atol=0)
