"""Entries on disk whose graphs return views: of inputs, of parameters, of one another, with and without gradients."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framejit
from tests.driver.test_kept import on_disk  # noqa: F401

WEIGHT = torch.nn.Parameter(torch.linspace(-1, 1, 12).reshape(3, 4))


def of_an_argument(x: torch.Tensor) -> Any:
    return x.t(), x * 2


def of_an_argument_in_steps(x: torch.Tensor) -> Any:
    return x.t()[1:].unsqueeze(0), (x * WEIGHT).sum()


def of_a_parameter(x: torch.Tensor) -> Any:
    return WEIGHT[1], x @ WEIGHT.t()


def of_a_result(x: torch.Tensor) -> Any:
    y = x.sin() * WEIGHT
    return y, y.t(), y[0]


def of_a_value(x: torch.Tensor) -> Any:
    y = x.exp() + WEIGHT
    return y[:2], y[1:].t()


def with_another_type(x: torch.Tensor) -> Any:
    return x.view(torch.int32), x * WEIGHT


def as_complex(x: torch.Tensor) -> Any:
    z = torch.view_as_complex(x.view(3, 2, 2))
    return z, torch.view_as_real(z * 2) * WEIGHT.view(3, 2, 2)


def detached(x: torch.Tensor) -> Any:
    return x.detach()[0], (x * WEIGHT).sum(0)


def without_gradients(x: torch.Tensor) -> Any:
    with torch.no_grad():
        view = x.view(4, 3)
    return view, x.cos() * WEIGHT


def with_numbers(x: torch.Tensor) -> Any:
    return x.reshape(-1)[2:], x.shape[0] * 2, x.sum(0) + WEIGHT.sum(0)


CASES = (
    of_an_argument, of_an_argument_in_steps, of_a_parameter, of_a_result, of_a_value, with_another_type, as_complex, detached, without_gradients, with_numbers,
)  # fmt: skip


def outcome(function: Callable[..., Any], gradients: bool, rows: int = 3) -> list[Any]:
    """Everything that a program can see of the results: values, memory that they share, records, gradients, and what a change of one does to the others."""
    x = torch.linspace(-2, 2, 4 * rows).reshape(rows, 4).requires_grad_(gradients)
    given, WEIGHT.grad = (x * 1.0 if gradients else x), None
    with torch.set_grad_enabled(gradients):
        results = [each for each in function(given) if isinstance(each, torch.Tensor)]
        storages = [each.untyped_storage().data_ptr() for each in (given, WEIGHT, *results)]
        seen: list[Any] = [storages.index(storage) for storage in storages]
        seen += [(each.requires_grad, each.is_leaf, each.stride(), each.storage_offset(), each.dtype) for each in results]
        losses = [(each.abs() if each.is_complex() else each).sum() * (index + 1) for index, each in enumerate(results) if each.grad_fn]
        if gradients:
            torch.stack(losses).sum().backward()
        seen += [None if each is None else each.tolist() for each in (x.grad, WEIGHT.grad)]
    with torch.no_grad():
        before = WEIGHT.clone()
        for each in results:
            each.mul_(3)
            seen.append([other.tolist() for other in (given, WEIGHT, *results)])
        WEIGHT.copy_(before)
    return seen


def agree(found: Any, expected: Any) -> bool:
    if isinstance(expected, (list, tuple)):
        return len(found) == len(expected) and all(map(agree, found, expected))
    return found == pytest.approx(expected, rel=1e-5, abs=1e-5) if isinstance(expected, (float, complex)) else found == expected


@pytest.mark.only_eager(reason="names its backend itself")
@pytest.mark.parametrize("gradients", [True, False], ids=["training", "inference"])
@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_views_are_made_again(on_disk: pathlib.Path, function: Callable[..., Any], gradients: bool) -> None:  # noqa: F811
    expected = outcome(function, gradients)
    for is_kept in (False, True):
        framejit.reset()
        compiled = framejit.compile(function, backend="inductor")
        for _ in range(2):
            assert agree(outcome(compiled, gradients), expected)
        assert (framejit.statistics()["frames"] == 0) is is_kept


@pytest.mark.only_eager(reason="names its backend itself")
@pytest.mark.parametrize("gradients", [True, False], ids=["training", "inference"])
def test_views_of_sizes_that_vary(on_disk: pathlib.Path, gradients: bool) -> None:  # noqa: F811
    def several(x: torch.Tensor) -> Any:
        y = (x * WEIGHT[0]).tanh()
        return x.t(), x[1:], x.shape[0] + 1, y, y[:, 1:], (x * 2).exp().t()

    for is_kept in (False, True):
        framejit.reset()
        compiled = framejit.compile(several, backend="inductor", dynamic=True)
        for rows in (3, 5, 4):
            assert agree(outcome(compiled, gradients, rows), outcome(several, gradients, rows))
        assert (framejit.statistics()["frames"] == 0) is is_kept
