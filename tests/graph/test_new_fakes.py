"""Fakes are made with the fields and keys that torch's constructor gives them."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor

from framejit.graph.fake_mode import make_fake_mode
from framejit.graph.new_fakes import new_fake


@pytest.mark.parametrize("device", ["cpu", "cuda:0", "cuda:1"])
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("is_unsafe", [False, True])
def test_fields_and_keys_are_those_of_the_constructor(device: str, requires_grad: bool, is_unsafe: bool) -> None:
    for _ in range(2):
        mode, elem = make_fake_mode(), torch.empty_strided((2, 3), (1, 2), dtype=torch.float16, device="meta", requires_grad=requires_grad)
        mode._allow_unsafe_data_ptr_access = is_unsafe
        made, expected = new_fake(mode, elem, torch.device(device)), FakeTensor(mode, elem, torch.device(device))
        assert type(made) is FakeTensor
        assert made.__dict__ == expected.__dict__
        assert torch._C._dispatch_keys(made) == torch._C._dispatch_keys(expected)
        assert (made.shape, made.stride(), made.dtype, made.device, made.requires_grad) == ((2, 3), (1, 2), torch.float16, torch.device(device), requires_grad)
        assert made.untyped_storage()._cdata == elem.untyped_storage()._cdata
        assert made.is_leaf
        assert made._version == expected._version


def test_a_mode_is_not_kept_by_later_fakes() -> None:
    first, second = make_fake_mode(), make_fake_mode()
    elem = torch.empty(2, device="meta")
    for mode in first, second, first:
        assert new_fake(mode, elem, torch.device("cpu")).fake_mode is mode
