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


def a_copy_of_a_changed_argument(x, w):
    x[torch.tensor([True, False, True])] = 0
    return x.clone()


def a_part_of_such_a_copy(x, w):
    x.index_fill_(0, torch.tensor([0]), 5.0)
    return x.clone().view(-1)[1:], w * 2


def what_is_copied_to_an_argument(x, w):
    y = x.clone()
    y[torch.tensor([True, False, True])] = 0
    x.copy_(y)
    return y


def two_copies_of_one_tensor(x, w):
    y = (x * w.detach()).sin()
    return y.clone(), y.clone()


def copies_by_operators_that_usually_do_more(x, w):
    h = (x * w.detach()).sin()
    return torch.cat([h]), h.repeat(1), torch.nn.functional.pad(h, (0, 0)), torch.cat([h.view(-1)])[1:], h


COPIES = [
    a_copy_of_a_changed_argument,
    a_part_of_such_a_copy,
    what_is_copied_to_an_argument,
    two_copies_of_one_tensor,
    copies_by_operators_that_usually_do_more,
]


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("program", COPIES, ids=lambda program: program.__name__)
def test_copies_stay_as_they_were(program, grad: bool) -> None:
    found = []
    for run in (program, framejit.compile(program, backend="inductor")):
        x, w = torch.arange(3.0), torch.ones(3, requires_grad=grad)
        results = run(x, w)
        values = [x, *(results if isinstance(results, tuple) else (results,))]
        with torch.no_grad():
            for number, value in enumerate(values):
                value.add_(10**number)
        found.append([value.tolist() for value in values])
    assert found[0] == found[1]


def test_copies_of_arguments_in_one_storage():
    def program(x, y):
        y.index_fill_(0, torch.tensor([0]), 5.0)
        return y.clone(), x.clone(), y[1:]

    found = []
    for run in (program, framejit.compile(program, backend="inductor")):
        both = torch.arange(4.0)
        results = run(both[:3], both[1:])
        for result in results:
            result.add_(100)
        found.append([value.tolist() for value in (both, *results)])
    assert found[0] == found[1]
