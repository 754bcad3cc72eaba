"""Copies of what a program returns or changes, in a plain form that two runs can be compared by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy
import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

DEPTH = 12
"""Objects inside so many others are compared by their class alone: an object may lead back to itself."""


def plain(value: Any) -> Any:
    """The part of a result that is compared: the type and numbers of an array, the tensors of a module."""
    if isinstance(value, numpy.ndarray):
        return type(value), value.dtype.str, torch.from_numpy(value.copy()) if value.dtype.kind in "biufc" else value.tolist()
    if isinstance(value, numpy.generic):
        return type(value), value.item()
    if isinstance(value, torch.nn.Module):
        return [plain(tensor) for tensor in (*value.parameters(), *value.buffers())]
    if is_traceable_wrapper_subclass(value):
        return type(value), [plain(getattr(value, name)) for name in value.__tensor_flatten__()[0]]  # type: ignore[attr-defined]
    if isinstance(value, torch.Tensor):
        with torch._C.DisableTorchFunctionSubclass():
            dense = value.to_dense() if value.layout is not torch.strided and not value.is_nested else value
            parts = dense.unbind() if dense.is_nested else (dense,)
            return type(value), [torch.Tensor.detach(part).clone() for part in parts]
    return value


def snapshot(value: Any, depth: int = 0) -> Any:
    """A copy of all that is compared of a value. It has no classes of a library, only their names, so that another process can read it.

    Modules have their parameters, gradients and buffers, optimizers their state, other objects their attributes.
    """
    if isinstance(value, (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)):
        return value
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if is_traceable_wrapper_subclass(value):
        return kind, [snapshot(getattr(value, name), depth) for name in value.__tensor_flatten__()[0]]  # type: ignore[attr-defined]
    if isinstance(value, (torch.Tensor, numpy.ndarray, numpy.generic)):
        return kind, getattr(value, "requires_grad", False), plain(value)[1:]
    if isinstance(value, torch.nn.Module):
        parts = (value.named_parameters(), ((name, parameter.grad) for name, parameter in value.named_parameters()), value.named_buffers())
        return kind, value.training, [{name: snapshot(tensor) for name, tensor in part} for part in parts]
    if isinstance(value, torch.optim.Optimizer):
        return kind, snapshot(value.state_dict())
    return kind, _contents(value, depth + 1) if depth < DEPTH else None


def _contents(value: Any, depth: int) -> Any:
    """The items of a container, or the attributes of an object."""
    if isinstance(value, Mapping):
        items = {str(snapshot(key, depth)): snapshot(item, depth) for key, item in value.items()}
        return items, tuple(getattr(value, "batch_size", ()))
    if isinstance(value, (list, tuple)):
        return [snapshot(item, depth) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(str(snapshot(item, depth)) for item in value)
    if callable(value):
        return getattr(value, "__qualname__", "")
    return {name: snapshot(item, depth) for name, item in getattr(value, "__dict__", {}).items()}
