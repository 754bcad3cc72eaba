"""`copy.deepcopy` of tensors in plain Python."""

from __future__ import annotations

import copy
from typing import Any

import torch


def deepcopy(tensor: torch.Tensor, memo: dict[Any, Any]) -> torch.Tensor:
    """torch.Tensor.__deepcopy__ of a leaf: if several tensors are copied together, a storage is copied once, so that they still share memory."""
    if id(tensor) in memo:
        found: torch.Tensor = memo[id(tensor)]
        return found
    with torch.no_grad():
        made = in_copied_storage(tensor, memo.setdefault("torch", {}))
        if tensor.requires_grad:
            made.requires_grad_()
        if tensor.grad is not None:
            made.grad = copy.deepcopy(tensor.grad, memo)
        if tensor.__dict__:
            made.__dict__.update(copy.deepcopy(tensor.__dict__, memo))
    memo[id(tensor)] = made
    return made


def in_copied_storage(tensor: torch.Tensor, storages: dict[Any, Any]) -> torch.Tensor:
    """A tensor like another, in the copy of its storage. `storages` has the copies made so far, by their originals; a missing one is added. It has a model."""
    raise NotImplementedError
