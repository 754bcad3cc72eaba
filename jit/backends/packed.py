"""Packing and padding sequences in what AOTAutograd makes of graphs: two operators of our own, each of which is the other's backward.

AOTAutograd can't trace torch's own on fakes: the one is told wrong sizes there, the other goes through the batch sizes, of which fakes have no data.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from framejit.graph.inner import nodes_inside
from framejit.graph.packed import PACK, PAD, packed_looks, padded_looks

LIBRARY = torch.library.Library("framejit", "FRAGMENT")
LIBRARY.define("pack(Tensor input, Tensor lengths, bool batch_first, SymInt[]? sizes) -> (Tensor, Tensor)")
LIBRARY.define("pad(Tensor data, Tensor batch_sizes, bool batch_first, Scalar value, SymInt total_length, SymInt? batch) -> (Tensor, Tensor)")


@torch.library.impl(LIBRARY, "pack", "CompositeExplicitAutograd")
def pack(input: torch.Tensor, lengths: torch.Tensor, batch_first: bool, sizes: list[int] | None) -> tuple[torch.Tensor, torch.Tensor]:
    """The data of sequences, packed, and their batch sizes. `sizes`: how many rows and steps there will be, where that is known."""
    return PACK(input, lengths, batch_first)  # type: ignore[no-any-return]


@torch.library.impl(LIBRARY, "pad", "CompositeExplicitAutograd")
def pad(
    data: torch.Tensor, batch_sizes: torch.Tensor, batch_first: bool, value: float, total_length: int, batch: int | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Padded sequences, and their lengths. `batch`: how many they will be, where that is known."""
    return PAD(data, batch_sizes, batch_first, value, total_length)  # type: ignore[no-any-return]


@torch.library.register_fake("framejit::pack", lib=LIBRARY)
def fake_pack(input: torch.Tensor, lengths: torch.Tensor, batch_first: bool, sizes: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return packed_looks(input, lengths, batch_first, sizes)


@torch.library.register_fake("framejit::pad", lib=LIBRARY)
def fake_pad(
    data: torch.Tensor, batch_sizes: torch.Tensor, batch_first: bool, value: float, total_length: Any, batch: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    return padded_looks(data, batch_sizes, batch_first, total_length, batch)


def remember_packed(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    input, _, ctx.batch_first, _ = inputs
    ctx.save_for_backward(output[1])
    ctx.batch, ctx.time = input.shape[:2] if ctx.batch_first else (input.shape[1], input.shape[0])


def differentiate_packed(ctx: Any, gradient: torch.Tensor, _: Any) -> tuple[Any, ...]:
    (batch_sizes,) = ctx.saved_tensors
    padded, _ = torch.ops.framejit.pad(gradient, batch_sizes, ctx.batch_first, 0, ctx.time, ctx.batch)
    return padded, None, None, None


def remember_padded(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    data, batch_sizes, ctx.batch_first, *_ = inputs
    ctx.save_for_backward(output[1])
    ctx.sizes = [data.shape[0], batch_sizes.shape[0]]


def differentiate_padded(ctx: Any, gradient: torch.Tensor, _: Any) -> tuple[Any, ...]:
    (lengths,) = ctx.saved_tensors
    data, _ = torch.ops.framejit.pack(gradient, lengths, ctx.batch_first, ctx.sizes)
    return data, None, None, None, None, None


torch.library.register_autograd("framejit::pack", differentiate_packed, setup_context=remember_packed, lib=LIBRARY)
torch.library.register_autograd("framejit::pad", differentiate_padded, setup_context=remember_padded, lib=LIBRARY)


def replace(gm: fx.GraphModule) -> None:
    """Put our operators in the place of torch's, in the graph and in graphs inside of it."""
    for node in nodes_inside(gm):
        if node.op == "call_function" and node.target in OPERATORS:
            node.target, node.args = OPERATORS[node.target], (*node.args, None)


OPERATORS = {PACK: torch.ops.framejit.pack.default, PAD: torch.ops.framejit.pad.default}
