"""Results of Inductor's code lie in memory of their own where eager's do."""

from __future__ import annotations

import pytest
import torch

import framejit


def a_sum_with_zeros(x):
    return torch.zeros(3) + x


def a_product_with_ones(x):
    k = torch.ones(3) * x
    return k, k.view(3, 1)


def the_other_operand_too(x):
    h = x * 2
    return h, torch.ones_like(h) * h, h.view(3, 1)


@pytest.mark.parametrize("grad", [False, True])
def test_results_are_no_arguments(grad: bool) -> None:
    for program in (a_sum_with_zeros, a_product_with_ones, the_other_operand_too):
        found = []
        for run in (program, framejit.compile(program, backend="inductor")):
            x = torch.ones(3, requires_grad=grad)
            results = run(x)
            values = [x, *(results if isinstance(results, tuple) else (results,))]
            found.append([[a.untyped_storage()._cdata == b.untyped_storage()._cdata for a in values] for b in values])
        assert found[0] == found[1]
