"""Stand-ins for the arguments of a loop's function while it is traced, whose values aren't known; and the results of loops on fakes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._higher_order_ops.map import map_impl
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.utils import registered_hop_fake_fns
from torch._subclasses.fake_tensor import FakeTensor

from framejit.graph.on_fakes import stand_in


def copy_of(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor that looks like another and has its values."""
    return tensor.clone()


def copy_on_fakes(tensor: torch.Tensor) -> torch.Tensor:
    """A copy without a value: fakes of small constants know their values, and so do their clones."""
    copy = tensor.clone()
    if isinstance(copy, FakeTensor):
        copy.constant = None
    return copy


stand_in(copy_of, copy_on_fakes)


def keeping_numbers(operator: Callable[..., Any]) -> Callable[..., Any]:
    """Run an operator on fakes, without the requirement that a node returns the numbers which its function reads from tensors."""

    def run(*args: Any) -> Any:
        mode = detect_fake_mode(args)
        assert mode is not None and mode.shape_env is not None
        with mode.shape_env.ignore_fresh_unbacked_symbols():
            return operator(*args)

    return run


for _operator in (map_impl, scan_op):
    if _operator not in registered_hop_fake_fns:  # torch does the same for those that are registered, which is all of them from 2.13 on
        stand_in(_operator, keeping_numbers(_operator))
