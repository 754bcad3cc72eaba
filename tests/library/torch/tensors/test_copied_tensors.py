"""`copy.deepcopy` of tensors, and of what holds tensors, in compiled code: what shares memory goes on sharing it, and graphs and breaks are counted."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from agreement import Comparison, outcome
from torch import nn
from torch.utils._pytree import tree_leaves

import framejit

BACKENDS = ("eager", "aot_eager")


class Tied(nn.Module):
    """A model with a tied weight, and buffers that see one storage."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 3)
        self.head = nn.Linear(3, 5, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("table", torch.arange(6.0).view(2, 3))
        self.register_buffer("turned", self.table.t())
        self.register_buffer("row", self.table[1])


def best_state(model, x):
    out = (x @ model.head.weight.t()).sum()
    return out, copy.deepcopy(model.state_dict())


def state_behind_a_change(model, x):
    with torch.no_grad():
        model.table.add_(x.sum())
    kept = copy.deepcopy(model.state_dict())
    with torch.no_grad():
        model.turned.mul_(2)
    return kept, model.turned + 0


def whole_and_parts(model, x):
    y = x * 2
    return copy.deepcopy([y, y, y[0], y.t(), {"column": y[1:, 0]}, (y + 1, "text")])


def changed_apart(model, x):
    y = x * 2
    z = copy.deepcopy([y, y[0]])
    y.add_(1)
    z[0].mul_(3)
    return y, z, z[0][0] is z[1]


def with_a_gradient(model, x):
    y = (x * 2).requires_grad_()
    (y * y).sum().backward()
    z = copy.deepcopy(y)
    return z.detach(), z.grad, y.grad, z.grad is y.grad, z.requires_grad, z.is_leaf


def one_memo(model, x):
    memo: dict[Any, Any] = {}
    y = x * 2
    first, second = copy.deepcopy(y, memo), copy.deepcopy([y], memo)
    return first, second, first is second[0], memo[id(y)] is first


def with_attributes(model, x):
    y = x * 2
    y.notes = [1]
    z = copy.deepcopy(y)
    z.notes.append(2)
    return y.notes, z.notes, z


ONE_GRAPH = (best_state, state_behind_a_change, whole_and_parts, changed_apart, with_a_gradient, one_memo, with_attributes)


def part_first(model, x):
    y = x * 2
    return copy.deepcopy([y[0], y])


def no_leaf(model, x):
    return copy.deepcopy(model.head.weight * 2)


def expanded(model, x):
    return copy.deepcopy(x.sum().expand(2, 2))


def lazily_conjugate(model, x):
    return copy.deepcopy(torch.complex(x, x).conj())


def two_types(model, x):
    y = x * 2
    return copy.deepcopy([y, y.view(torch.int32)])


def an_argument(model, x):
    return copy.deepcopy({"x": x}), x + 1


NATIVELY = (part_first, no_leaf, expanded, lazily_conjugate, two_types, an_argument)


def memory(result: Any) -> list[Any]:
    """Return for each tensor of a result the number of its memory, its offset there, the size of the memory, and whether it has no base."""
    tensors = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    places = [tensor.untyped_storage().data_ptr() for tensor in tensors]
    return [(places.index(place), t.storage_offset(), t.untyped_storage().nbytes(), t._base is None) for t, place in zip(tensors, places)]


def compare(program: Any, backend: str) -> None:
    framejit.reset()
    torch.manual_seed(0)
    model = Tied()
    expected, compiled = copy.deepcopy(model), framejit.compile(program, backend=backend, isolate_recompiles=True)
    for _ in range(3):
        x = torch.randn(4, 3)
        left, right = outcome(program, (expected, x), {}), outcome(compiled, (model, x), {})
        Comparison().same((left, expected.state_dict()), (right, model.state_dict()))
        assert memory(left[1]) == memory(right[1])
    assert framejit.statistics()["fallbacks"] == framejit.statistics()["recompiles"] == 0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", ONE_GRAPH, ids=lambda program: program.__name__)
def test_copies_in_one_graph(program: Any, backend: str) -> None:
    compare(program, backend)
    assert (framejit.statistics()["graphs"], framejit.statistics()["graph_breaks"]) == (1, 0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", NATIVELY, ids=lambda program: program.__name__)
def test_copies_that_are_made_natively(program: Any, backend: str) -> None:
    compare(program, backend)
    assert framejit.statistics()["graph_breaks"] == 1


def test_a_copied_buffer_that_becomes_a_part_of_another_tensor_is_copied_as_such() -> None:
    model = nn.Module()
    model.register_buffer("table", torch.arange(3.0))
    program = lambda: copy.deepcopy(model.state_dict())
    compiled = framejit.compile(program, backend="eager", isolate_recompiles=True)
    for buffer in (torch.arange(3.0), torch.arange(6.0)[3:], torch.arange(3.0)):
        model.table = buffer
        left, right = program(), compiled()
        Comparison().same(left, right)
        assert memory(left) == memory(right)


def test_buffers_that_come_to_share_memory_share_it_in_copies() -> None:
    model = nn.Module()
    program = lambda: copy.deepcopy(model.state_dict())
    compiled = framejit.compile(program, backend="eager", isolate_recompiles=True)
    buffer = torch.arange(3.0)
    for other in (torch.arange(3.0), buffer.view(3), buffer, torch.arange(3.0)):
        model.register_buffer("a", buffer)
        model.register_buffer("b", other)
        left, right = program(), compiled()
        Comparison().same(left, right)
        assert memory(left) == memory(right)
