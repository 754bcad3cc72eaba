"""Sparse tensors in graphs: what depends on how many elements one has isn't known of tensors without data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from framejit import breaks
from framejit.objects.object import VM, Object
from framejit.objects.registry import models
from framejit.objects.tensorobject import TensorObject
from framejit.objects.torchcall import enter

BY_ELEMENTS = (
    "_nnz", "values", "indices", "_values", "_indices", "is_coalesced", "crow_indices", "col_indices", "ccol_indices", "row_indices",
)  # fmt: skip
"""Methods that tell of the elements of a sparse tensor: their number, or tensors of so many rows."""


def asks_for_elements(method: Callable[..., Any]) -> None:
    """Have a method of sparse tensors run natively."""

    def ask(vm: VM, tensor: TensorObject) -> Object:
        if tensor.look(vm).layout is not torch.strided:
            vm.unsupported(breaks.DataDependent(f"{method.__name__}() of a sparse tensor"))
        return enter(vm, method, [tensor])

    models(method)(ask)


for _name in BY_ELEMENTS:
    asks_for_elements(getattr(torch.Tensor, _name))
