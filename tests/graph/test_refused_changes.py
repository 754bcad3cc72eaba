"""Changes of tensors that split the graph, since compiled code couldn't make them as eager does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import framejit

CHANGES: dict[str, Callable[[torch.Tensor], object]] = {
    "through a view": lambda x: (x.detach().add_(1), x)[1],
    "that raises once the data has changed": lambda x: x.__setitem__(0, 5.0),
    "by an argument": lambda x: torch.add(x, 1, out=x.detach()),
}


@pytest.mark.only_eager("the test names the backends that it is about")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("change", CHANGES)
def test_inference_tensors_outside_of_inference_mode(change: str, backend: str):
    framejit.reset()
    found = []
    for function in (CHANGES[change], framejit.compile(CHANGES[change], backend=backend)):
        with torch.inference_mode():
            x = torch.arange(3.0)
        try:
            result = function(x)
        except RuntimeError as error:
            result = str(error)
        found.append((result.tolist() if isinstance(result, torch.Tensor) else result, x.tolist()))
    assert found[0] == found[1]
