"""Changes of tensors by numbers of a higher kind (`counts *= 0.5`): eager refuses them, and fake tensors don't."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framejit import breaks
from framejit.graph.operator_call import OperatorCall, Phase, rule
from framejit.graph.trace_state import TraceState
from framejit.torch_state.operator_exceptions import CHANGE_BY_ARITHMETIC

LIKE = {torch.SymInt: 1, torch.SymFloat: 1.0, torch.SymBool: True}
"""A number for each class of symbolic numbers, which is promoted as they are."""


@rule(Phase.REFUSE)
def reject_promoted_change(state: TraceState, operation: OperatorCall) -> None:
    """Stop the trace at a change that raises in eager, after what the program has changed before. AOTAutograd would cut the result to the tensor's dtype."""
    if operation.name not in CHANGE_BY_ARITHMETIC or not all(type(fake) is FakeTensor for fake in operation.fakes):
        return
    changed, *others = operation.fake_args or (None,)
    if isinstance(changed, torch.Tensor) and not all(fits(changed, other) for other in others):
        state.vm.unsupported(breaks.UnsupportedOperation(f"{operation.name} of a tensor of {changed.dtype}, to which the result's dtype can't be cast"))


def fits(changed: torch.Tensor, other: Any) -> bool:
    """Return whether the dtype to which a tensor and another value are promoted can be cast to the tensor's."""
    other = LIKE.get(type(other), other)
    if not isinstance(other, (torch.Tensor, bool, int, float, complex)):
        return True
    return torch.can_cast(torch.result_type(alike(changed), alike(other)), changed.dtype)


def alike(value: Any) -> Any:
    """A small tensor that is promoted as a fake is. To compare fakes, torch would look first whether one is a distributed tensor, and import that class."""
    return torch.empty((1,) * value.dim(), dtype=value.dtype, device="meta") if isinstance(value, torch.Tensor) else value
