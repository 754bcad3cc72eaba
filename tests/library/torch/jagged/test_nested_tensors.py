"""Jagged nested tensors: as inputs, made inside and returned, forward and backward, with lengths that vary; what is guarded of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode

import framejit

BACKENDS = ("eager", "aot_eager")
LENGTHS = ((2, 4), (3, 5), (7, 7))
layer = nn.Linear(3, 5)


def jagged(*lengths: int, size: int = 3, **options: Any) -> Any:
    generator = torch.Generator().manual_seed(sum(lengths))
    return torch.nested.nested_tensor([torch.randn(length, size, generator=generator) for length in lengths], layout=torch.jagged, **options)


def plain(value: Any) -> Any:
    """Return the parts of a result that are compared, as plain values."""
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, torch.Tensor):
        if not value.is_nested:
            return value.detach().clone()
        assert isinstance(value, torch.nested._internal.nested_tensor.NestedTensor)
        return [value.requires_grad, value._ragged_idx, plain(value._values), plain(value._offsets), plain(value._lengths)]
    if isinstance(value, torch.SymInt):
        return "lengths"
    return type(value).__name__ if isinstance(value, Exception) else value


def assert_same(expected: Any, found: Any) -> None:
    assert type(expected) is type(found)
    if isinstance(expected, list):
        assert len(expected) == len(found)
        for left, right in zip(expected, found):
            assert_same(left, right)
    elif isinstance(expected, torch.Tensor):
        torch.testing.assert_close(found, expected)
    else:
        assert expected == found


def outcome(function: Callable[..., Any], args: tuple[Any, ...]) -> list[Any]:
    """Return a call's result or exception, its arguments afterwards, and the gradients."""
    for parameter in layer.parameters():
        parameter.grad = None
    try:
        result = function(*args)
    except Exception as error:
        return [plain(error), plain(args)]
    tensors = [part for part in torch.utils._pytree.tree_leaves(result) if isinstance(part, torch.Tensor) and part.requires_grad]
    if tensors:
        sum([(tensor.values() if tensor.is_nested else tensor).sin().sum() for tensor in tensors], torch.zeros(())).backward()
    leaves = [arg for arg in (*args, *layer.parameters()) if isinstance(arg, torch.Tensor) and arg.is_leaf]
    return [plain(result), plain(args), plain([leaf.grad for leaf in leaves])]


def agree(function: Callable[..., Any], calls: Callable[[], list[tuple[Any, ...]]], backend: str = "eager") -> tuple[int, int]:
    """Compare calls with eager's; gives the numbers of graphs and of breaks."""
    framejit.reset()
    compiled = framejit.compile(function, backend=backend)
    for eager_args, args in zip(calls(), calls()):
        assert_same(outcome(function, eager_args), outcome(compiled, args))
    found = framejit.statistics()
    return found["graphs"], found["graph_breaks"]


def pointwise(x: Any) -> Any:
    return (x * 2 + 1).relu() + x, x.sin() > 0


def layers(x: Any) -> Any:
    return F.layer_norm(F.gelu(layer(x)), (5,)), torch.softmax(x, -1), F.dropout(x, 0.5, training=False)


def reductions(x: Any) -> Any:
    sums = (x.detach().sum(-1), x.detach().sum(1))  # of which torch has no backward
    return *sums, x.values().sin().sum(), x.mean(-1, keepdim=True)


def shapes(x: Any) -> Any:
    y = x.reshape(x.size(0), x.size(1), 1, 3).transpose(1, 2)
    return y * 2, y.shape[0], y.size(2) == x.size(1), x.dim(), x.is_nested


def parts(x: Any) -> Any:
    return torch.nested.nested_tensor_from_jagged(x.values() * 2, x.offsets()) + x, x.offsets()[1:] - 1


def padded(x: Any) -> Any:
    return torch.nested.to_padded_tensor(x, 0.0), x.chunk(3, -1)[1] @ torch.ones(1, 2)


def in_place(x: Any) -> Any:
    y = x * 1
    y.add_(x)
    return y


CHANGING = pytest.param(in_place, marks=pytest.mark.only_eager("a change of a nested tensor splits the graphs that AOTAutograd takes"))


@pytest.mark.parametrize("function", [pointwise, layers, reductions, shapes, parts, padded, CHANGING])
def test_one_graph_for_all_lengths(function: Callable[..., Any]) -> None:
    assert agree(function, lambda: [(jagged(*lengths),) for lengths in LENGTHS]) == (1, 0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [pointwise, layers, shapes, parts])
def test_one_graph_for_all_lengths_trains(function: Callable[..., Any], backend: str) -> None:
    assert agree(function, lambda: [(jagged(*lengths, requires_grad=True),) for lengths in LENGTHS], backend) == (1, 0)


def values(rows: int) -> torch.Tensor:
    return torch.arange(3.0 * rows).reshape(rows, 3).requires_grad_()


def test_made_inside_of_a_list() -> None:
    def of_list(a: torch.Tensor, b: torch.Tensor) -> Any:
        return layer(torch.nested.nested_tensor([a, b], layout=torch.jagged)).sin(), torch.nested.as_nested_tensor([b, a], layout=torch.jagged)

    assert agree(of_list, lambda: [(values(rows), values(rows + 2)) for rows in (2, 4, 5)]) == (2, 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_made_inside_of_values(backend: str) -> None:
    def of_offsets(values: torch.Tensor, offsets: torch.Tensor) -> Any:
        x = torch.nested.nested_tensor_from_jagged(values, offsets)
        return x.cos(), (x * x).values()

    def of_lengths(values: torch.Tensor, lengths: torch.Tensor) -> Any:
        return torch.nested.nested_tensor_from_jagged(values, lengths=lengths) * 2

    assert agree(of_offsets, lambda: [(values(rows), torch.tensor([0, 2, rows])) for rows in (4, 6, 9)], backend) == (2, 0)
    assert agree(of_lengths, lambda: [(values(rows), torch.tensor([2, rows - 2])) for rows in (4, 6, 9)], backend) == (2, 0)


def test_which_lengths_are_one_is_guarded() -> None:
    def same(x: Any, y: Any) -> Any:
        return x.size(1) == y.size(1), x.shape[1] != y.shape[1], x.size(1) == 4

    def add(x: Any, y: Any) -> Any:
        return x + y

    def with_offsets(values: torch.Tensor, offsets: torch.Tensor, x: Any) -> Any:
        return torch.nested.nested_tensor_from_jagged(values, offsets).size(1) == x.size(1)

    def pairs() -> list[tuple[Any, ...]]:
        x, y, z = jagged(2, 4), jagged(2, 4), jagged(3, 1)
        return [(x, x * 2), (x, y), (z, z), (z, x), (z.sin(), z)]

    def triples() -> list[tuple[Any, ...]]:
        x, y = jagged(2, 4), jagged(2, 4)
        return [(x.values(), x.offsets(), x), (x.values(), y.offsets(), x), (x.values(), x.offsets().clone(), x), (y.values(), y.offsets(), y)]

    agree(same, pairs)
    agree(add, pairs)
    agree(with_offsets, triples)


def test_what_is_guarded() -> None:
    def with_gaps() -> Any:
        return torch.nested.nested_tensor_from_jagged(torch.ones(6, 3), torch.tensor([0, 3, 6]), torch.tensor([2, 3]))

    def look(x: Any) -> Any:
        return x * 2, x.dtype, x.size(-1), x.requires_grad, x.dim()

    first = [(jagged(2, 4),), (jagged(2, 4, dtype=torch.float64),), (jagged(2, 4, size=4),), (jagged(2, 4, 5),), (torch.ones(2, 3, 3),)]
    agree(look, lambda: [*first, (jagged(2, 4).transpose(1, 2),), (with_gaps(),), (jagged(1, 0),), (jagged(2, 4),)])
    agree(look, lambda: [(jagged(2, 4),), (jagged(2, 4, requires_grad=True),), (jagged(2, 4, requires_grad=True) * 2,), (jagged(3, 5),)])
    agree(lambda x: x * getattr(x, "times", 1), lambda: [(jagged(2, 4),), (with_times(3),), (with_times(4),), (jagged(2, 4),)])
    agree(lambda x: (x._get_max_seqlen(), x._get_min_seqlen()), lambda: [(jagged(2, 4),), (jagged(5, 9),), (jagged(1, 7),)])


def with_times(times: int) -> Any:
    x = jagged(2, 4)
    x.times = times
    return x


def test_changes_of_one_from_outside_run_natively() -> None:
    def change(x: Any) -> Any:
        x.mul_(2)
        return x.sum(-1)

    def change_values(x: Any) -> Any:
        x.values().add_(1)
        return x * 1

    for backend in BACKENDS:
        for function in (change, change_values):
            assert agree(function, lambda: [(jagged(2, 4),), (jagged(3, 5),)], backend)[1] == 1


def test_lengths_across_a_break_and_returned() -> None:
    def split(x: Any) -> Any:
        batch, length, size = x.shape
        print(batch, size)
        return x.reshape(batch, length, size, 1), [x.size(1) == length]

    agree(split, lambda: [(jagged(2, 4),), (jagged(3, 5),)])
    x = jagged(2, 4)
    assert framejit.compile(lambda x: (x * 2).shape, backend="eager")(x) == x.shape


def test_what_needs_data_splits() -> None:
    found = agree(lambda x: [part * 2 for part in x.unbind()], lambda: [(jagged(2, 4),), (jagged(3, 5),)])
    assert found[1] == 1

    def attention(x: Any) -> Any:
        heads = x.unflatten(-1, (1, 3)).transpose(1, 2)
        return F.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2)

    agree(attention, lambda: [(jagged(2, 4),), (jagged(3, 5),)])


def test_modes_are_asked() -> None:
    class Doubling(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            return result * 2 if func is torch.sin else result

    def under_a_mode(x: Any) -> Any:
        with Doubling():
            return torch.sin(x)

    assert agree(under_a_mode, lambda: [(jagged(2, 4),), (jagged(3, 5),)]) == (1, 0)


def test_where_overrides_are_switched_off() -> None:
    def flat(x: Any) -> Any:
        y = x.unsqueeze(-1)
        with torch._C.DisableTorchFunctionSubclass():
            return y * 2, y.flatten(2, 3)

    assert agree(flat, lambda: [(jagged(2, 4),), (jagged(3, 5),)])[1] >= 1


def test_a_backward_that_the_backend_cannot_trace_runs_natively() -> None:
    def sums(x: Any) -> Any:
        return x.sum(1)

    framejit.reset()
    x = jagged(2, 4, requires_grad=True)
    compiled = framejit.compile(sums, backend="aot_eager")
    assert_same(plain(sums(x)), plain(compiled(x)))
    assert framejit.statistics()["graphs"] == 0


def test_tensors_of_sizes_that_vary() -> None:
    def make(x: torch.Tensor, y: torch.Tensor) -> Any:
        return torch.tensor([x.size(0), y.size(0), 3]), torch.tensor(x.size(0)), torch.tensor([[x.size(0)], [2]], dtype=torch.float32)

    for backend in BACKENDS:
        assert agree(make, lambda: [(torch.ones(n), torch.ones(n + 3)) for n in (2, 3, 5, 9)], backend) == (2, 0)
