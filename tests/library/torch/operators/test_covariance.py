"""torch.cov and torch.corrcoef: part of the graph, with eager's results and gradients."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

import framejit

BACKENDS = ("eager", "aot_eager")
CALLS: dict[str, Any] = {
    "cov": lambda x: torch.cov(x),
    "method": lambda x: x.cov(correction=0),
    "correlation": lambda x: torch.corrcoef(x * 3) + x.corrcoef(),
    "one variable": lambda x: (torch.cov(x[0]), torch.corrcoef(x[0]), torch.cov(x[:1])),
    "ints": lambda x: torch.cov((x * 100).long()),
    "complex": lambda x: (torch.cov(torch.complex(x, x.flip(0))), torch.corrcoef(torch.complex(x, x.flip(0)))),
}


@pytest.mark.only_eager("the test names the backends that it is about")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CALLS)
def test_results_and_gradients(name: str, backend: str) -> None:
    """Later calls have other numbers of observations, which are symbolic then; torch differentiates means of complex numbers for one number only."""
    framejit.reset()
    compiled, call = framejit.compile(CALLS[name], backend=backend), CALLS[name]
    for size in (5, 9, 7):
        x = torch.randn(3, size)
        left, right = x.clone().requires_grad_(), x.clone().requires_grad_()
        expected, found = call(left), compiled(right)
        torch.testing.assert_close(found, expected, equal_nan=True)
        outputs = [out for out in (expected if isinstance(expected, tuple) else (expected,)) if out.requires_grad]
        if outputs:
            own = [out for out in (found if isinstance(found, tuple) else (found,)) if out.requires_grad]
            gradients = [torch.autograd.grad(sum(out.abs().sum() for out in outs), leaf)[0] for outs, leaf in ((outputs, left), (own, right))]
            torch.testing.assert_close(*gradients, equal_nan=True)
            assert [out.stride() for out in own] == [out.stride() for out in outputs]
    statistics = framejit.statistics()
    assert (statistics["graph_breaks"], statistics["fallbacks"]) == (0, 0) and statistics["graphs"] <= (3 if name == "complex" else 2), statistics


@pytest.mark.only_eager("the test names the backends that it is about")
@pytest.mark.parametrize("backend", BACKENDS)
def test_calls_that_warn_or_have_weights_run_natively(backend: str) -> None:
    compiled = framejit.compile(lambda x, weights=None: torch.cov(x, fweights=weights), backend=backend)
    x = torch.randn(3, 4)
    weights = torch.tensor([1, 2, 3, 1])
    torch.testing.assert_close(compiled(x, weights), torch.cov(x, fweights=weights))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert torch.equal(compiled(x[:, :1]).isnan(), torch.cov(x[:, :1]).isnan())
    assert sum("degrees of freedom" in str(one.message) for one in told) in (1, 2)
    with pytest.raises(RuntimeError, match="two or fewer dimensions"):
        compiled(x[None])
