"""Masked tensors made in compiled code: operators on them, their data and masks, gradients, and what is left to native code."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.masked import MaskedTensor, as_masked_tensor, masked_tensor

import framejit

BACKENDS = ("eager", "aot_eager")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def counting() -> None:
    framejit.reset()


def reduced(x: torch.Tensor) -> Any:
    made = masked_tensor(x.detach(), x > 0)
    return made.sum(1).get_data(), made.mean(0).to_tensor(0.0), made.amax(1).get_mask(), torch.softmax(made, 1).to_tensor(0.0)


def computed(x: torch.Tensor) -> Any:
    made = (masked_tensor(x.detach(), x > 0) * 2 + 1).sqrt()
    return made.to_tensor(-1.0), (made < 1.2).get_data(), made.shape, made.dtype, type(made).__name__


def agree(f: Any, backend: str) -> None:
    compiled = framejit.compile(f, backend=backend)
    for _ in range(2):
        x = torch.randn(4, 6)
        for left, right in zip(f(x), compiled(x), strict=True):
            assert torch.equal(left, right) if isinstance(left, torch.Tensor) else left == right


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", (reduced, computed))
def test_what_is_computed_with_masked_tensors_is_one_graph(f: Any, backend: str) -> None:
    agree(f, backend)
    assert (framejit.statistics()["graphs"], framejit.statistics()["graph_breaks"]) == (1, 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_through_masked_tensors(backend: str) -> None:
    def f(x: torch.Tensor) -> Any:
        made = as_masked_tensor(x, x > 0) * 2
        return made.mean(0).to_tensor(0.0), made.to_tensor(0.0)

    gradients = []
    for run in (f, framejit.compile(f, backend=backend)):
        x = torch.linspace(-1, 2, 12).reshape(3, 4).requires_grad_()
        first, second = run(x)
        (first.square().sum() + second.sum()).backward()
        assert isinstance(x.grad, MaskedTensor)
        gradients.append((first.detach(), second.detach(), x.grad.to_tensor(0.0)))
    for left, right in zip(*gradients):
        torch.testing.assert_close(right, left)
    if backend == "eager":
        assert (framejit.statistics()["graphs"], framejit.statistics()["graph_breaks"]) == (1, 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_masked_tensors_that_come_from_outside_or_leave(backend: str) -> None:
    def f(x: torch.Tensor) -> Any:
        return masked_tensor(x, x > 0) * 2

    def g(made: Any) -> Any:
        return (made + 1).to_tensor(0.0) * 2

    x = torch.randn(4, 3)
    found = framejit.compile(f, backend=backend)(x)
    assert type(found) is MaskedTensor and torch.equal(found.to_tensor(0.0), f(x).to_tensor(0.0))
    assert torch.equal(framejit.compile(g, backend=backend)(found), g(found))


@pytest.mark.parametrize("backend", BACKENDS)
def test_arithmetic_between_masked_tensors_and_across_a_break(backend: str) -> None:
    def f(x: torch.Tensor) -> Any:
        made = masked_tensor(x, x > 0)
        together = (made + made * 2).to_tensor(0.0)
        print(end="")
        return together, made.sum().get_data()

    agree(f, backend)


def test_errors_of_masked_tensors_are_raised() -> None:
    def f(x: torch.Tensor, mask: Any) -> Any:
        return masked_tensor(x, mask).get_data()

    for mask, error in ((torch.ones(3), TypeError), (torch.ones(2, dtype=torch.bool), ValueError), (True, TypeError)):
        with pytest.raises(error):
            framejit.compile(f, backend="eager")(torch.ones(3), mask)


MASKED: dict[str, Any] = {
    "sum": lambda x, mask: torch.masked.sum(x, 1, mask=mask),
    "mean": lambda x, mask: torch.masked.mean(x, (0, 1), mask=mask),
    "amax": lambda x, mask: torch.masked.amax(x, 0, keepdim=True, mask=mask),
    "std": lambda x, mask: torch.masked.std(x, 1, mask=mask, unbiased=True),
    "softmax": lambda x, mask: torch.masked.softmax(x, 1, mask=mask),
    "normalize": lambda x, mask: torch.masked.normalize(x, 2.0, 1, mask=mask),
    "logsumexp": lambda x, mask: torch.masked.logsumexp(x, 1, mask=mask),
    "cumsum": lambda x, mask: torch.masked.cumsum(x, 1, mask=mask),
    "without a mask": lambda x, mask: torch.masked.sum(x, 1),
}
"""By name: functions of torch.masked, of a tensor and a mask."""


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MASKED)
def test_functions_of_tensors_with_masks_are_one_graph(name: str, backend: str) -> None:
    """The mask's last row lets everything through, and its first nothing."""
    x, mask = torch.randn(3, 4), torch.tensor([[False] * 4, [True, False, True, False], [True] * 4])
    compiled = framejit.compile(MASKED[name], backend=backend, fullgraph=True)
    left, right = x.clone().requires_grad_(), x.clone().requires_grad_()
    expected, found = MASKED[name](left, mask), compiled(right, mask)
    torch.testing.assert_close(found, expected, equal_nan=True)
    given = torch.randn_like(expected)
    torch.testing.assert_close(torch.autograd.grad(found, right, given), torch.autograd.grad(expected, left, given), equal_nan=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_functions_of_masked_tensors_run_natively(backend: str) -> None:
    x = torch.randn(3, 4)
    made = masked_tensor(x, x > 0)
    compiled = framejit.compile(lambda made: torch.masked.sum(made, 1), backend=backend)
    expected, found = torch.masked.sum(made, 1), compiled(made)
    assert type(found) is type(expected) and torch.equal(found, expected)
