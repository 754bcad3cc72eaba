"""The CTC loss with lengths in tensors: on fakes, where the sizes of what the operator remembers depend on the lengths, and under AOTAutograd."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn._reduction import get_enum

from framejit.graph.on_fakes import stand_in
from framejit.graph.rewrites import replaces
from framejit.torch_state.own_operators import declare_operator

LOSS = torch.ctc_loss
FUNCTION = torch.nn.functional.ctc_loss
"""Calls `LOSS`, and names reductions instead of numbering them. Programs call either."""
NONE, MEAN = 0, 1
"""Reductions, as torch numbers them (`torch.nn._reduction.get_enum`)."""


def losses_like(log_probs: torch.Tensor) -> torch.Tensor:
    """Tensors that look like the losses, one for each sequence. `log_probs` has the shape (time, batch, classes), or (time, classes)."""
    return log_probs.new_empty(log_probs.shape[1:2] if log_probs.dim() == 3 else ())


def loss_on_fakes(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: Any = 0, reduction: int = MEAN, zero_infinity: bool = False
) -> torch.Tensor:
    """The loss of fakes, connected in autograd's record to the tensor that requires a gradient. What isn't a usual call runs as it is, and breaks the graph."""
    given = (log_probs, targets, input_lengths, target_lengths)
    if not _is_usual(given) or not 0 <= blank < log_probs.shape[-1]:
        return LOSS(*given, blank, reduction, zero_infinity)
    losses = losses_like(log_probs)
    if log_probs.requires_grad and torch.is_grad_enabled():
        losses = losses * log_probs.sum()
    return losses if reduction == NONE else losses.sum()


def _is_usual(given: tuple[Any, ...]) -> bool:
    """Return whether all four are tensors of the dtypes and dimensions that the operator takes, with a length for each sequence."""
    if not all(isinstance(one, torch.Tensor) for one in given):
        return False
    log_probs, targets, *lengths = given
    batch = log_probs.shape[1] if log_probs.dim() == 3 else 1
    return (
        log_probs.dim() in (2, 3)
        and log_probs.dtype in (torch.float32, torch.float64)
        and targets.dim() in (1, 2)
        and targets.dtype in (torch.int32, torch.int64)
        and all(length.dtype in (torch.int32, torch.int64) and length.dim() == log_probs.dim() - 2 for length in lengths)
        and all(length.dim() == 0 or bool(length.shape[0] == batch) for length in lengths)
    )


def function_on_fakes(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: str = "mean", *rest: Any, **named: Any
) -> Any:
    """The loss of fakes, for calls that name the reduction."""
    return loss_on_fakes(log_probs, targets, input_lengths, target_lengths, blank, get_enum(reduction), *rest, **named)


stand_in(LOSS, loss_on_fakes)
stand_in(FUNCTION, function_on_fakes)


@declare_operator(
    "ctc_losses(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank, bool zero_infinity) -> Tensor"
)
def ctc_losses(
    log_probs: torch.Tensor, targets: torch.Tensor, input_lengths: torch.Tensor, target_lengths: torch.Tensor, blank: int, zero_infinity: bool
) -> torch.Tensor:
    """The losses of the sequences."""
    return LOSS(log_probs, targets, input_lengths, target_lengths, blank, NONE, zero_infinity)


@ctc_losses.fake
def _(log_probs: torch.Tensor, *_: Any) -> torch.Tensor:
    return losses_like(log_probs)


@declare_operator(
    "ctc_losses_backward(Tensor gradient, Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank,"
    " bool zero_infinity) -> Tensor"
)
def ctc_losses_backward(
    gradient: torch.Tensor,
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: torch.Tensor,
    target_lengths: torch.Tensor,
    blank: int,
    zero_infinity: bool,
) -> torch.Tensor:
    """The gradient of `log_probs`. What the loss has remembered is computed again: it has a size that depends on the lengths."""
    batched = log_probs if log_probs.dim() == 3 else log_probs.unsqueeze(1)
    lengths = [length.reshape(-1).tolist() for length in (input_lengths, target_lengths)]
    losses, alpha = torch.ops.aten._ctc_loss.default(batched, targets, *lengths, blank, zero_infinity)
    incoming = gradient.reshape(losses.shape)
    if zero_infinity:
        incoming = torch.where(losses == float("inf"), 0.0, incoming)
    found = torch.ops.aten._ctc_loss_backward.default(incoming, batched, targets, *lengths, losses, alpha, blank, zero_infinity)
    return found.reshape(log_probs.shape)


@ctc_losses_backward.fake
def _(gradient: torch.Tensor, log_probs: torch.Tensor, *_: Any) -> torch.Tensor:
    return log_probs.new_empty(log_probs.shape)


def remember_inputs(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    *tensors, ctx.blank, ctx.zero_infinity = inputs
    ctx.save_for_backward(*tensors)


@ctc_losses.gradient(remember_inputs)
def differentiate_losses(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    return ctc_losses_backward(gradient, *ctx.saved_tensors, ctx.blank, ctx.zero_infinity), None, None, None, None, None


def loss_of_ours(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: int = MEAN, zero_infinity: bool = False
) -> torch.Tensor:
    """The loss, with our operator in the place of torch's where lengths are tensors. The rest is what torch computes after it (aten/native/LossCTC.cpp)."""
    if not isinstance(input_lengths, torch.Tensor) or not isinstance(target_lengths, torch.Tensor):
        return LOSS(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)
    losses = ctc_losses(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity)
    if reduction == MEAN:
        return (losses / target_lengths.clamp_min(1).to(losses)).mean()
    return losses if reduction == NONE else losses.sum()


def function_of_ours(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: str = "mean", *rest: Any, **named: Any
) -> Any:
    """The loss with our operator, for calls that name the reduction."""
    return loss_of_ours(log_probs, targets, input_lengths, target_lengths, blank, get_enum(reduction), *rest, **named)


replaces(LOSS, loss_of_ours)
replaces(FUNCTION, function_of_ours)
