"""torch.dropout with probabilities that vary."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import framejit


def outcome(function: Any, p: float) -> Any:
    torch.manual_seed(0)
    try:
        return function(p)
    except RuntimeError as error:
        return str(error)


@pytest.mark.only_eager("the test names the backends that it is about")
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("train", [False, True])
def test_what_is_no_probability_raises(train: bool, backend: str, dynamic: bool | None):
    framejit.reset()
    x = torch.rand(2, 3)

    def function(p: float) -> torch.Tensor:
        return torch.dropout(x, p, train)

    compiled = framejit.compile(function, backend=backend, dynamic=dynamic)
    for p in (0.5, 0.25, 1.5, math.nan, -0.1, 1.0, 0.75):
        found, expected = outcome(compiled, p), outcome(function, p)
        assert found == expected if isinstance(expected, str) else torch.allclose(found, expected)
