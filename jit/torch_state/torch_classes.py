"""Functions about classes of tensors: which of them override torch's functions and operators, and how a tensor becomes one of another class."""

from __future__ import annotations

import torch
from torch.nested._internal.nested_tensor import NestedTensor

from framejit.program import classes

DISABLED_TORCH_FUNCTION = torch._C._disabled_torch_function_impl
DISABLED_TORCH_DISPATCH = torch._C._disabled_torch_dispatch_impl
BASE = torch._C.TensorBase
PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter)


def has_torch_function(cls: type) -> bool:
    """Return whether values of a class are asked what functions of torch's mean (`__torch_function__`). Subclasses of torch.Tensor inherit torch's default
    one."""
    return not is_plain(cls) and classes.lookup(cls, "__torch_function__", DISABLED_TORCH_FUNCTION) is not DISABLED_TORCH_FUNCTION


def overrides_operators(cls: type) -> bool:
    """Return whether values of a class are asked what operators mean (`__torch_dispatch__`), which only the dispatcher knows of."""
    return not is_plain(cls) and classes.lookup(cls, "__torch_dispatch__", DISABLED_TORCH_DISPATCH) is not DISABLED_TORCH_DISPATCH


def is_plain(cls: type) -> bool:
    """Return whether this is one of torch's own classes of tensors without overrides."""
    return cls is PLAIN_TENSORS[0] or cls is PLAIN_TENSORS[1]


def is_distributed(cls: type) -> bool:
    """Return whether this is torch's class of tensors that are distributed over processes. It is told by name, as its module may not be there."""
    return classes.qualname(cls) == "DTensor" and classes.module(cls) == "torch.distributed.tensor"


def is_jagged(cls: type) -> bool:
    """Return whether tensors of a class are torch's nested ones of the layout `torch.jagged`."""
    return cls is NestedTensor


def as_class(tensor: torch.Tensor, cls: type) -> torch.Tensor:
    """The tensor as one of another class, with the same data, of which autograd knows where it comes from (runs in generated code too)."""
    with torch._C.DisableTorchFunction(), torch.enable_grad():
        found: torch.Tensor = BASE.as_subclass(tensor, cls)
    return found


def store_grad(grad: torch.Tensor | None, tensor: torch.Tensor) -> None:
    """`tensor.grad = grad` (runs in generated code); nothing is asked, as the trace has done so."""
    with torch._C.DisableTorchFunction():
        tensor.grad = grad


def store_data(data: torch.Tensor, tensor: torch.Tensor) -> None:
    """`tensor.data = data` (runs in generated code); nothing is asked, as the trace has done so."""
    with torch._C.DisableTorchFunction():
        tensor.data = data


def storage_of(tensor: torch.Tensor) -> torch.UntypedStorage:
    """`tensor.untyped_storage()` (runs in generated code); nothing is asked."""
    with torch._C.DisableTorchFunction():
        return tensor.untyped_storage()


def address_of(tensor: torch.Tensor) -> int:
    """`tensor.data_ptr()` (runs in generated code); nothing is asked."""
    with torch._C.DisableTorchFunction():
        return tensor.data_ptr()
