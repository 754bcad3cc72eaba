"""Reentrant checkpoints none of whose arguments requires a gradient; and policies of selective checkpoints that come from outside."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import pytest
import torch
from agreement import agree
from printed_warnings import own_printer
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import framejit

X = torch.arange(6.0).reshape(2, 3)


@pytest.fixture(autouse=True)
def warnings_printed_by_python(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Reentrant checkpoints warn of arguments without gradients. pytest records warnings, which splits graphs."""
    framejit.reset()
    monkeypatch.setattr(warnings, "_showwarnmsg_impl", own_printer())
    monkeypatch.setattr(warnings, "showwarning", warnings._showwarning_orig)  # type: ignore[attr-defined]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def breaks() -> int:
    return int(framejit.statistics()["graph_breaks"])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_nothing_is_recorded(backend: str) -> None:
    layer = nn.Linear(3, 3)

    def through(x: torch.Tensor) -> Any:
        hidden = checkpoint(lambda y: (layer(y).relu(), y.sum()), x, use_reentrant=True)
        return hidden[0] * 2, hidden[1], hidden[0].requires_grad, layer(hidden[0])

    expected, found = through(X), framejit.compile(through, backend=backend, fullgraph=True)(X)
    for left, right in zip(expected, found):
        assert left == right if isinstance(left, bool) else torch.equal(left, right) and left.requires_grad == right.requires_grad
    expected[3].sum().backward()
    gradient, layer.weight.grad = layer.weight.grad, None
    found[3].sum().backward()
    assert torch.equal(gradient, layer.weight.grad)


def test_an_argument_that_is_given_back_splits_the_graph() -> None:
    def through(x: torch.Tensor) -> Any:
        y = x + 1
        return checkpoint(lambda z: z, y, use_reentrant=True) is y, y

    agree(through, X, fullgraph=False)
    assert breaks() > 0


def keeps(operators: Any, ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_SAVE if op in operators else CheckpointPolicy.PREFER_RECOMPUTE


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_policy_made_for_each_call(backend: str) -> None:
    def through(x: torch.Tensor, contexts: Any) -> torch.Tensor:
        return checkpoint(lambda y: torch.mm(y, y.t()).sin(), x, use_reentrant=False, context_fn=contexts)

    compiled = framejit.compile(through, backend=backend)
    for operator in (torch.ops.aten.mm.default, torch.ops.aten.mm.default, torch.ops.aten.sin.default):
        contexts = functools.partial(create_selective_checkpoint_contexts, functools.partial(keeps, {operator}))
        x, y = X.clone().requires_grad_(), X.clone().requires_grad_()
        expected, found = through(x, contexts), compiled(y, contexts)
        assert torch.equal(expected, found)
        expected.sum().backward()
        found.sum().backward()
        assert torch.equal(x.grad, y.grad)
    assert (breaks(), framejit.statistics()["recompiles"]) == (0, 1)
