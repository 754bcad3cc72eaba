"""Functions that take the place of Inductor's in code that another process runs."""

from __future__ import annotations

import pytest
import torch

from framejit.backends.inductor_again import check_metadata


def test_results_of_operators_must_be_as_on_fakes() -> None:
    check_metadata(None, (2, 3), (3, 1), torch.float32)
    check_metadata(torch.ones(2, 3), (2, 3), (3, 1), torch.float32, "kept.scaled")
    with pytest.raises(RuntimeError, match=r"operator kept\.scaled has returned a tensor of torch\.float64, and on tensors without data one of torch\.float32"):
        check_metadata(torch.ones(2, 3, dtype=torch.float64), (2, 3), (3, 1), torch.float32, "kept.scaled")
    with pytest.raises(AssertionError, match="stride"):
        check_metadata(torch.ones(3, 2).t(), (2, 3), (3, 1), torch.float32, "kept.scaled")
