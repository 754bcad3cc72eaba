"""Views of fakes look like those that torch's own fake mode gives, and share memory, versions and bases with the tensors that they are views of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from framejit.graph.fake_mode import make_fake_mode

OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "view": lambda x: x.view(2, -1),
    "view of rows": lambda x: x[1:].view(-1, 4),
    "transpose": lambda x: x.transpose(0, -1),
    "t": lambda x: x[0].t(),
    "permute": lambda x: x.permute(2, 0, 1),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x[:, :1].squeeze(),
    "squeeze of a dimension": lambda x: x[:, :1].squeeze(1),
    "select": lambda x: x[1],
    "slice": lambda x: x[..., 1::2],
    "empty slice": lambda x: x[:, 3:],
    "expand": lambda x: x[:, :1].expand(2, 5, 4),
    "split": lambda x: x.split(2, -1),
    "split with sizes": lambda x: x.split([1, 3], -1),
    "chunk": lambda x: x.chunk(3, 1),
    "unbind": lambda x: x.unbind(1),
    "reshape": lambda x: x.reshape(6, 4),
    "chain": lambda x: x.view(2, 3, 2, 2).transpose(1, 2)[:, 1].flatten(1),
    "narrow": lambda x: x.narrow(1, 1, 2),
    "unflatten": lambda x: x.unflatten(-1, (2, 2)).permute(2, 0, 1, 3).unbind(0),
}


def look(fake: Any, base: Any) -> Any:
    keys = torch._C._dispatch_keys(fake).raw_repr()
    memory = fake.untyped_storage()._cdata == base.untyped_storage()._cdata
    known = type(fake), fake.dtype, fake.device, tuple(fake.shape), fake.stride(), fake.storage_offset(), keys, memory
    return *known, fake.requires_grad, fake.is_leaf, fake._is_view(), fake._base is base, fake._version, type(fake.grad_fn), fake.constant, fake.is_inference()


def looks(mode: FakeTensorMode, operation: Callable[[Any], Any], records: bool, requires_grad: bool) -> Any:
    base = mode.from_tensor(torch.randn(2, 3, 4, requires_grad=requires_grad))
    with torch.set_grad_enabled(records), mode:
        source = base * 1 if requires_grad else base
        result = operation(source)
        results = result if isinstance(result, (tuple, list)) else [result]
        before = [look(part, source) for part in results]
        if not (records and len(results) > 1):  # autograd refuses to write to one of several views
            results[-1].mul_(2)
        return before, [look(part, source) for part in results], source._version


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize(("records", "requires_grad"), [(False, False), (False, True), (True, False), (True, True)])
def test_views_are_those_of_torch(name: str, records: bool, requires_grad: bool) -> None:
    expected = looks(FakeTensorMode(allow_non_fake_inputs=False), OPERATIONS[name], records, requires_grad)
    assert looks(make_fake_mode(), OPERATIONS[name], records, requires_grad) == expected


@pytest.mark.parametrize("operation", [lambda x: x.view(5), lambda x: x[7], lambda x: x.transpose(0, 5), lambda x: x.expand(1), lambda x: x.split([1], 0)])
def test_errors_are_those_of_torch(operation: Callable[[Any], Any]) -> None:
    errors = []
    for mode in FakeTensorMode(allow_non_fake_inputs=False), make_fake_mode():
        fake = mode.from_tensor(torch.randn(2, 3))
        with mode, pytest.raises((RuntimeError, IndexError)) as raised:
            operation(fake)
        errors.append((type(raised.value), str(raised.value)))
    assert errors[0] == errors[1]


def test_views_are_not_looked_up_in_the_cache_of_torch() -> None:
    mode = make_fake_mode()
    fake = mode.from_tensor(torch.randn(2, 3))
    before = FakeTensorMode.cache_hits, FakeTensorMode.cache_misses
    with mode:
        view = fake.transpose(0, 1)[1:].unsqueeze(0)
    assert type(view) is FakeTensor
    assert (FakeTensorMode.cache_hits, FakeTensorMode.cache_misses) == before


def test_views_of_small_constants_keep_their_data() -> None:
    for mode in FakeTensorMode(allow_non_fake_inputs=False), make_fake_mode():
        with mode:
            constant: Any = torch.tensor(3).view(1)
        assert constant.constant is not None
        assert constant.constant.tolist() == [3]
