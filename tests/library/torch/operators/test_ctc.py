"""The CTC loss with lengths in tensors: part of the graph, with eager's losses, gradients and errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

import framejit

BACKENDS = ("eager", "aot_eager")
LONG = torch.tensor([[1, 2, 3, 4], [2, 2, 0, 0]])


def loss(x: torch.Tensor, labels: torch.Tensor, lengths: torch.Tensor, **options: Any) -> torch.Tensor:
    """As losses of speech models have it: labels are padded with zeros, and how many there are depends on their data."""
    present = labels > 0
    with torch.backends.cudnn.flags(enabled=False):
        return functional.ctc_loss(functional.log_softmax(x, -1), labels.masked_select(present), lengths, present.sum(-1), **options)


def outcome(fn: Any, x: torch.Tensor, *args: Any, **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    x = x.clone().requires_grad_()
    found = fn(x, *args, **options)
    return found, torch.autograd.grad(found.sum(), x)[0]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("zero_infinity", [False, True])
def test_one_graph_with_the_losses_of_eager(backend: str, reduction: str, zero_infinity: bool) -> None:
    """Other lengths are no reason to compile again. The last call has a sequence that is too short for its labels: its loss is infinite."""
    framejit.reset()
    compiled = framejit.compile(loss, backend=backend)
    options = {"reduction": reduction, "zero_infinity": zero_infinity}
    for labels, lengths in ((LONG, [9, 7]), (LONG.flip(1), [9, 9]), (LONG, [9, 1])):
        x = torch.randn(9, 2, 5)
        expected, found = (outcome(fn, x, labels, torch.tensor(lengths), **options) for fn in (loss, compiled))
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
        assert expected[0].isinf().any() == (lengths[1] == 1 and not zero_infinity)
    statistics = framejit.statistics()
    assert statistics["graphs"] == 1 and not statistics["reasons"], statistics


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_function_that_numbers_reductions(backend: str) -> None:
    def raw(x, labels, lengths):
        return torch.ctc_loss(x.log_softmax(-1), labels, lengths, torch.full_like(lengths, 4), 0, 2, True)

    args = (torch.randn(9, 2, 5), LONG, torch.tensor([9, 7]))
    torch.testing.assert_close(outcome(framejit.compile(raw, backend=backend, fullgraph=True), *args), outcome(raw, *args), rtol=0, atol=0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_single_sequence(backend: str) -> None:
    args = (torch.randn(9, 5), LONG[0], torch.tensor(9))
    found = outcome(framejit.compile(loss, backend=backend, fullgraph=True), *args)
    torch.testing.assert_close(found, outcome(loss, *args), rtol=0, atol=0)
    assert found[0].shape == ()


@pytest.mark.parametrize("backend", BACKENDS)
def test_lengths_that_are_too_large_raise_what_eager_raises(backend: str) -> None:
    """The setting of cudnn is back after it, and a handler of the program's sees the error."""

    def handled(x, labels, lengths):
        try:
            return loss(x, labels, lengths)
        except RuntimeError as error:
            return str(error)

    x = torch.randn(9, 2, 5)
    before = torch.backends.cudnn.enabled
    said = []
    for fn in (loss, framejit.compile(loss, backend=backend)):
        with pytest.raises(RuntimeError, match="input_lengths") as raised:
            fn(x, LONG, torch.tensor([9, 70]))
        said.append(str(raised.value))
        assert torch.backends.cudnn.enabled == before
    assert said[0] == said[1]
    compiled = framejit.compile(handled, backend=backend)
    assert compiled(x, LONG, torch.tensor([9, 70])) == handled(x, LONG, torch.tensor([9, 70])) == said[0]
    torch.testing.assert_close(compiled(x, LONG, torch.tensor([9, 7])), loss(x, LONG, torch.tensor([9, 7])))


def test_what_the_operator_does_not_take() -> None:
    """It says so itself: the tracer leaves the call to it."""
    x = torch.randn(9, 2, 5)
    for args, error in (
        ((x.half(), LONG, torch.tensor([9, 7])), RuntimeError),
        ((x, LONG, torch.tensor([9.0, 7.0])), RuntimeError),
        ((x, LONG, torch.tensor([9, 7, 7])), RuntimeError),
    ):
        for fn in (loss, framejit.compile(loss, backend="eager")):
            with pytest.raises(error):
                fn(*args)
