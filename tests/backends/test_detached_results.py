"""Results that are detached from views of intermediate results have eager's numbers, memory and records under backends that trace the graph again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framejit

BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])


def transposed_and_detached(x):
    y = (x * 2).mT
    return y, y.detach()


def detached_first(x):
    y = (x * 2).mT
    return y.detach(), y


def detached_before_a_view(x):
    y = x * 2
    return y.detach(), y.mT


def detached_rows(x):
    y = (x * 2)[1:]
    return y.detach(), (y * 3).sum()


def detached_twice(x):
    y = (x[1:] * 2).mT
    return y.detach(), y.detach().mT, y


def views_of_data(x):
    y = x * 2
    return y.data.mT[1:], y[0], torch.detach(y).view(-1)


def view_of_an_argument(x):
    y = x.mT
    return y, y.detach()


def changed_after_it(x):
    y = (x * 2).mT
    z = y.detach()
    z.add_(1)
    return z, y


def without_gradients(x):
    y = (x * 2).mT
    with torch.no_grad():
        z = y.detach()[1:]
    return z, y


PROGRAMS = [
    transposed_and_detached, detached_first, detached_before_a_view, detached_rows, detached_twice, views_of_data, view_of_an_argument, changed_after_it,
    without_gradients,
]  # fmt: skip


@BACKENDS
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_detached_views_are_as_in_eager(program: Callable[[Any], Any], dynamic: bool, backend: str) -> None:
    """By themselves, AOTAutograd returns the numbers before the view, and Inductor a view without its gradient."""
    x = torch.arange(12.0).view(3, 4).requires_grad_()
    expected, found = program(x), framejit.compile(program, backend=backend, dynamic=dynamic)(x)
    torch.testing.assert_close(found, expected)
    for theirs, ours in zip(expected, found):
        assert (theirs.requires_grad, theirs.is_leaf, theirs.stride()) == (ours.requires_grad, ours.is_leaf, ours.stride())
    shared, among = ([[a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr() for a in results] for b in results] for results in (expected, found))
    assert shared == among
    gradients = [torch.autograd.grad(sum(value.square().sum() for value in results if value.requires_grad), x)[0] for results in (expected, found)]
    torch.testing.assert_close(gradients[1], gradients[0])
