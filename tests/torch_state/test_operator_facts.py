"""operator_facts.py and operator_exceptions.py: what is computed from schemas and tags is true of the operators, and each row of the table is needed."""

from __future__ import annotations

import operator
import sys

import pytest
import torch

from framejit.torch_state import operator_exceptions
from framejit.torch_state.operator_exceptions import UnstatedFact
from framejit.torch_state.operator_facts import changes_form, changes_tensor_itself, keeps_elements, only_writes, overloads_of_method

METHODS = [name for name in dir(torch.Tensor) if name.endswith("_") and not name.endswith("__")]
DIMENSIONS_ONLY = {"squeeze_", "unsqueeze_", "t_", "transpose_", "swapaxes_", "swapdims_", "detach_"}
OF_NAMED_DIMENSIONS = {"rename_", "align_to_"}
"""Methods that torch has no more since 2.13."""
ROWS = {name: value for name, value in vars(operator_exceptions).items() if isinstance(value, UnstatedFact)}


def test_methods_that_change_the_form_of_a_tensor_are_tagged() -> None:
    assert set(filter(changes_form, METHODS)) - OF_NAMED_DIMENSIONS == DIMENSIONS_ONLY | {"as_strided_", "resize_", "resize_as_", "set_"}
    assert {"requires_grad_", "register_hook"} <= set(filter(changes_tensor_itself, dir(torch.Tensor)))


def test_methods_that_are_told_dimensions_only_keep_all_elements() -> None:
    assert set(filter(keeps_elements, METHODS)) == DIMENSIONS_ONLY


@pytest.mark.parametrize("name", ["add_", "sub_", "mul_", "div_", "copy_", "fill_", "zero_", "clamp_", "neg_", "masked_fill_", "exp_", "index_add_"])
def test_methods_that_write_what_they_compute(name: str) -> None:
    assert only_writes(name)


OTHERS = ["add", "item", "normal_", "bernoulli_", "resize_", "set_", "detach_", "requires_grad_", "retain_grad", "map_", "share_memory_", "__setitem__", "no_"]


@pytest.mark.parametrize("name", OTHERS)
def test_methods_that_do_something_else_than_write(name: str) -> None:
    assert not only_writes(name)


UNARY = [name for name in METHODS if only_writes(name) and any(len(overload._schema.arguments) == 1 for overload in overloads_of_method(name))]


@pytest.mark.parametrize("name", UNARY)
def test_what_only_writes_gives_the_same_tensor_with_data_that_its_argument_determines(name: str) -> None:
    given = torch.arange(6).reshape(2, 3).to(torch.int64 if name in ("bitwise_not_",) else torch.float32)
    first, second = given.clone(), given.clone()
    state = torch.get_rng_state()
    try:
        found = getattr(first, name)()
    except RuntimeError as error:
        pytest.skip(str(error))  # only for sparse tensors
    getattr(second, name)()
    assert found is first and first.shape == given.shape and first.stride() == given.stride() and first.dtype == given.dtype
    assert torch.equal(first.nan_to_num(), second.nan_to_num()) and torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("row", ROWS)
def test_a_row_of_the_table_is_about_operators_and_says_why_it_is_there(row: str) -> None:
    known = {schema.name.partition("::")[2] for schema in torch._C._jit_get_all_schemas()}
    known |= {f"{name.rpartition('.')[2]}_step" for name in sys.modules if name.startswith("torch.optim.")}
    owners = (torch, torch.Tensor, torch.nn.functional, torch.overrides, operator)
    unknown = {name for name in ROWS[row].names if name not in known and not any(hasattr(owner, name) for owner in owners)}
    assert unknown <= OF_NAMED_DIMENSIONS and len(ROWS[row].names) > 1
    assert all(text.endswith(".") and text[0].isupper() for text in (ROWS[row].fact, ROWS[row].why))


def test_the_table_has_no_name_that_a_tag_vouches_for() -> None:
    assert not any(map(changes_form, ROWS["CHANGE_TENSOR_ITSELF"].names - OF_NAMED_DIMENSIONS))
