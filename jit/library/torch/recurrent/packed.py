"""Packed sequences: on fakes, where the numbers of rows and steps depend on the lengths and the number of sequences doesn't, and under AOTAutograd."""

from __future__ import annotations

from typing import Any

import torch
from torch import SymInt, fx
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensor, FakeTensorMode

from framejit.graph.on_fakes import stand_in
from framejit.graph.rewrites import rewrites
from framejit.graph.unbacked import MEMOS
from framejit.torch_state.own_operators import declare_operator
from framejit.torch_state.symbols import is_true, symbolic_shapes

PACK = torch._VF._pack_padded_sequence
PAD = torch._VF._pad_packed_sequence
PACKED_MEMO = "packed_memo"
"""The attribute in which fakes of lengths remember the numbers of rows and steps of the sequences."""
MEMOS.append(PACKED_MEMO)


def number_of_sequences(batch_sizes: torch.Tensor) -> Any:
    """The first of the batch sizes, which is the number of all sequences, if they are unchanged since an operator has returned them; else None.

    It is stored as the item of the whole tensor, which it would be with a single step. So it is dropped like such items when the tensor is changed.
    """
    return batch_sizes.item_memo if isinstance(batch_sizes, FakeTensor) else None


def first_size(batch_sizes: torch.Tensor) -> torch.Tensor:
    """The number of all sequences."""
    return batch_sizes[0]


def first_size_on_fakes(batch_sizes: torch.Tensor) -> torch.Tensor:
    """The number of all sequences, as a fake whose item is known."""
    found, known = batch_sizes[0], number_of_sequences(batch_sizes)
    found.item_memo = known  # type: ignore[attr-defined]
    return found


def new_size(least: Any, most: Any) -> int | SymInt:
    """A size that depends on data, within these bounds."""
    mode = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE)
    env = mode.shape_env if isinstance(mode, FakeTensorMode) else None
    if env is None or not env.allow_dynamic_output_shape_ops:
        raise DynamicOutputShapeException(torch.ops.aten._pack_padded_sequence.default)
    if type(most) is int and least == most:
        return most
    size = env.create_unbacked_symint()
    lower = env.bound_sympy(least.node.expr).lower if isinstance(least, SymInt) else least
    upper = env.bound_sympy(most.node.expr).upper if isinstance(most, SymInt) else most
    symbolic_shapes.constrain_range(size, min=max(1, int(lower)), max=int(upper) if getattr(upper, "is_Integer", True) else None)
    if isinstance(most, SymInt):
        torch._check(size <= most)
    return size


def sizes_of(lengths: torch.Tensor, batch: Any, time: Any) -> tuple[Any, Any]:
    """The numbers of rows and steps of sequences with these lengths: the same numbers each time, until the lengths are changed."""
    if lengths.is_inference() or not isinstance(lengths, FakeTensor):
        return new_size(batch, batch * time), new_size(1, time)
    now = lengths._version, lengths.fake_mode.epoch
    known = getattr(lengths, PACKED_MEMO, None)
    if known is None or known[0] != now:
        known = now, (new_size(batch, batch * time), new_size(1, time))
        setattr(lengths, PACKED_MEMO, known)
    return known[1]  # type: ignore[no-any-return]


def packed_looks(input: torch.Tensor, lengths: torch.Tensor, batch_first: bool, sizes: Any = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Tensors that look like packed data and their batch sizes. `sizes`: the numbers of rows and steps, if they are known."""
    batch, time = input.shape[:2] if batch_first else (input.shape[1], input.shape[0])
    rows, steps = sizes_of(lengths, batch, time) if sizes is None else sizes
    batch_sizes = lengths.new_empty((steps,))
    batch_sizes.item_memo = batch  # type: ignore[attr-defined]
    return input.new_empty((rows, *input.shape[2:])), batch_sizes


def padded_looks(
    data: torch.Tensor, batch_sizes: torch.Tensor, batch_first: bool, total_length: Any, batch: Any = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Tensors that look like padded data and the lengths of the sequences. `batch`: the number of sequences, if it is known."""
    batch = number_of_sequences(batch_sizes) if batch is None else batch
    if batch is None:
        batch = new_size(1, data.shape[0])
    padded = data.new_empty((total_length, batch, *data.shape[1:]))
    return padded.transpose(0, 1) if batch_first else padded, batch_sizes.new_empty((batch,))


def pack_on_fakes(input: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The result of packing fakes, connected in autograd's record to the argument that requires a gradient."""
    is_plain = input.dim() >= 2 and lengths.dim() == 1 and lengths.dtype is torch.int64 and lengths.device.type == "cpu"
    if not is_plain or not is_true(lengths.shape[0] == input.shape[0 if batch_first else 1]):
        raise DynamicOutputShapeException(torch.ops.aten._pack_padded_sequence.default)  # the operator itself reports the error
    data, batch_sizes = packed_looks(input, lengths, batch_first)
    return with_way_back(data, input), batch_sizes


def pad_on_fakes(
    data: torch.Tensor, batch_sizes: torch.Tensor, batch_first: bool, padding_value: float, total_length: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """The result of padding fakes, connected in autograd's record to the argument that requires a gradient."""
    is_plain = data.dim() >= 1 and batch_sizes.dim() == 1 and batch_sizes.dtype is torch.int64 and batch_sizes.device.type == "cpu"
    if not is_plain or not is_true(batch_sizes.shape[0] <= total_length):
        raise DynamicOutputShapeException(torch.ops.aten._pack_padded_sequence.default)
    padded, lengths = padded_looks(data, batch_sizes, batch_first, total_length)
    return with_way_back(padded, data), lengths


def with_way_back(made: torch.Tensor, origin: torch.Tensor) -> torch.Tensor:
    """A tensor whose autograd record contains another tensor, if that requires a gradient."""
    return made * origin.sum() if origin.requires_grad and torch.is_grad_enabled() else made


stand_in(PACK, pack_on_fakes)
stand_in(PAD, pad_on_fakes)
stand_in(first_size, first_size_on_fakes)


# Two operators of our own for AOTAutograd, each of which is the other's backward. It can't trace torch's own on fakes: one gets wrong sizes
# there, the other iterates over the batch sizes, of which fakes have no data.


@declare_operator("pack(Tensor input, Tensor lengths, bool batch_first, SymInt[]? sizes) -> (Tensor, Tensor)")
def pack(input: torch.Tensor, lengths: torch.Tensor, batch_first: bool, sizes: list[int] | None) -> tuple[torch.Tensor, torch.Tensor]:
    """The data of sequences, packed, and their batch sizes. `sizes`: the numbers of rows and steps, if they are known."""
    return PACK(input, lengths, batch_first)  # type: ignore[no-any-return]


@declare_operator("pad(Tensor data, Tensor batch_sizes, bool batch_first, Scalar value, SymInt total_length, SymInt? batch) -> (Tensor, Tensor)")
def pad(
    data: torch.Tensor, batch_sizes: torch.Tensor, batch_first: bool, value: float, total_length: int, batch: int | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Padded sequences, and their lengths. `batch`: the number of sequences, if it is known."""
    return PAD(data, batch_sizes, batch_first, value, total_length)  # type: ignore[no-any-return]


pack.fake(packed_looks)
pad.fake(lambda data, batch_sizes, batch_first, value, total_length, batch: padded_looks(data, batch_sizes, batch_first, total_length, batch))


def remember_packed(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    input, _, ctx.batch_first, _ = inputs
    ctx.save_for_backward(output[1])
    ctx.batch, ctx.time = input.shape[:2] if ctx.batch_first else (input.shape[1], input.shape[0])


@pack.gradient(remember_packed)
def differentiate_packed(ctx: Any, gradient: torch.Tensor, _: Any) -> tuple[Any, ...]:
    (batch_sizes,) = ctx.saved_tensors
    padded, _ = pad(gradient, batch_sizes, ctx.batch_first, 0, ctx.time, ctx.batch)
    return padded, None, None, None


def remember_padded(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    data, batch_sizes, ctx.batch_first, *_ = inputs
    ctx.save_for_backward(output[1])
    ctx.sizes = [data.shape[0], batch_sizes.shape[0]]


@pad.gradient(remember_padded)
def differentiate_padded(ctx: Any, gradient: torch.Tensor, _: Any) -> tuple[Any, ...]:
    (lengths,) = ctx.saved_tensors
    data, _ = pack(gradient, lengths, ctx.batch_first, ctx.sizes)
    return data, None, None, None, None, None


OURS = {PACK: pack, PAD: pad}


@rewrites(*OURS)
def put_ours(node: fx.Node) -> None:
    """Put our operator in the place of torch's."""
    node.target, node.args = OURS[node.target].overload, (*node.args, None)
