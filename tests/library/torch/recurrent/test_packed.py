"""Packed sequences in compiled code: one graph, whose sizes depend on the lengths; values and gradients against eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import agree
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence, pad_packed_sequence, unpack_sequence

import framejit

BACKENDS = ("eager", "aot_eager")


def pack(x: torch.Tensor, lengths: Any, in_order: bool = False) -> PackedSequence:
    return pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=in_order)


def trained(fn: Callable[..., Any], calls: list[tuple[Any, ...]]) -> list[Any]:
    """Return the results of some calls, and the gradients of their first arguments."""
    seen = []
    for x, *others in calls:
        x = x.clone().requires_grad_()
        result = fn(x, *others)
        floats = [tensor for tensor in torch.utils._pytree.tree_leaves(result) if isinstance(tensor, torch.Tensor) and tensor.requires_grad]
        seen.append((result, torch.autograd.grad(sum((tensor * tensor).sum() for tensor in floats), x)))
    return seen


def check(fn: Callable[..., Any], calls: list[tuple[Any, ...]], backend: str, graphs: int = 1, **options: Any) -> None:
    framejit.reset()
    expected = trained(fn, calls)
    found = trained(framejit.compile(fn, backend=backend, **options), calls)
    torch.testing.assert_close(found, expected)
    statistics = framejit.statistics()
    assert statistics["graphs"] == graphs and not statistics["reasons"] and not statistics["fallbacks"], statistics


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_one_graph_for_all_lengths(backend: str, dynamic: bool) -> None:
    """Of tensors; and what is padded has the size of what was packed."""
    lstm = nn.LSTM(2, 2, batch_first=True)

    def step(x, lengths):
        output, (h, _) = lstm(pack(x, lengths))
        padded, lengths = pad_packed_sequence(output, batch_first=True, total_length=x.size(1))
        return padded + x, h, torch.arange(padded.size(1)) < lengths[:, None]

    calls = [(torch.randn(3, 5, 2), torch.tensor(lengths)) for lengths in ([2, 5, 3], [1, 2, 1], [5, 5, 5])]
    check(step, [*calls, *([(torch.randn(4, 6, 2), torch.tensor([1, 2, 4, 6]))] if dynamic else [])], backend, dynamic=dynamic)


@pytest.mark.parametrize("backend", BACKENDS)
def test_lists_of_lengths(backend: str) -> None:
    """Those that vary are symbols, be they many."""
    calls = [(torch.randn(100, 5, 2), [(first + place) % 5 + 1 for place in range(100)]) for first in range(4)]
    check(lambda x, lengths: pack(x, lengths).data.sin(), calls, backend, graphs=2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_packed_with_the_same_lengths(backend: str) -> None:
    """Two that are packed with the same tensor of lengths have as many rows; not so where the program has changed it in between."""

    def loss(x, y, lengths, change):
        rows = pack(x, lengths, in_order=True).data
        if change:
            lengths.data.sub_(1)
        return nn.functional.cross_entropy(rows, pack(y, lengths, in_order=True).data)

    x, y = torch.randn(2, 3, 4), torch.tensor([[1, 2, 3], [0, 0, 0]])
    check(loss, [(x, y, torch.tensor([3, 1]), False)], backend)
    said = []
    for fn in (loss, framejit.compile(loss, backend=backend)):
        with pytest.raises(ValueError, match="batch_size") as raised:
            fn(x, y, torch.tensor([3, 2]), True)
        said.append(str(raised.value))
    assert said[0] == said[1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_sequences_and_what_is_in_between(backend: str) -> None:
    gru = nn.GRU(2, 3, bidirectional=True)

    def step(a, b):
        packed = pack_sequence([a, b], enforce_sorted=False)
        output, h = gru(packed)
        changed = PackedSequence(output.data.relu(), *output[1:])
        return unpack_sequence(changed), h, output.data.shape[0], packed.batch_sizes[0].item()

    check(step, [(torch.randn(2, 2), torch.randn(4, 2))], backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_packed_sequence_from_outside(backend: str) -> None:
    packed = pack(torch.randn(3, 5, 2), torch.tensor([2, 5, 3]))
    for given in (packed, pack(torch.randn(2, 5, 2), [4, 1], in_order=True)):
        check(lambda data, *others: pad_packed_sequence(PackedSequence(data, *others)), [tuple(given)], backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("lengths", [[2, 3], [3, 0], [9, 1], [3, 2, 1], [1.0, 1.0]])
def test_wrong_lengths_raise(backend: str, lengths: list[Any]) -> None:
    """As in eager: out of order, empty, too long, too many."""
    agree(lambda x, lengths: pack(x, lengths, in_order=True).data, torch.randn(2, 5, 1), torch.tensor(lengths), backend=backend, fullgraph=False)


def test_changed_batch_sizes() -> None:
    """The number of sequences is forgotten with the batch sizes that it was read off."""

    def change(x, lengths):
        batch_sizes = pack(x, lengths).batch_sizes
        before = int(batch_sizes[0])
        batch_sizes.data.add_(1)
        return before, int(batch_sizes[0])

    assert framejit.compile(change, backend="eager")(torch.randn(2, 5, 1), torch.tensor([2, 3])) == (2, 3)
