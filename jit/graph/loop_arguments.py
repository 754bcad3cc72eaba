"""What stands for an argument of a loop's function while that is traced: nothing is known of its value, be it the first one's."""

from __future__ import annotations

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framejit.graph.on_fakes import stand_in


def copy_of(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor that looks like another and has its values."""
    return tensor.clone()


def copy_on_fakes(tensor: torch.Tensor) -> torch.Tensor:
    """Fakes of small constants know their values, and so do their clones."""
    copy = tensor.clone()
    if isinstance(copy, FakeTensor):
        copy.constant = None
    return copy


stand_in(copy_of, copy_on_fakes)
