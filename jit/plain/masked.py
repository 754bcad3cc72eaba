"""torch.masked, without the class that it makes at each call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.masked import _ops, is_masked_tensor


def combine(function: Callable[..., Any], op: Any, input: Any, mask: Any, *args: Any) -> Any:
    """torch.masked._ops._combine_input_and_mask: the input, with the neutral element of the operation, such as 0 for a sum, in masked places.

    `function`: the real one.
    """
    if is_masked_tensor(input) or (mask is not None and not callable(op)):
        return function(op, input, mask, *args)
    if mask is None:
        return input
    return _ops._where(_ops._input_mask(input, mask=mask), input, _ops._reduction_identity(op.__name__, input, *args))
