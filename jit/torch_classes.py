"""Which classes of tensors override torch's functions and operators, and how a tensor becomes one of another class."""

from __future__ import annotations

import torch
from torch.masked.maskedtensor.core import MaskedTensor
from torch.nested._internal.nested_tensor import NestedTensor

from framejit import classes

DISABLED_TORCH_FUNCTION = torch._C._disabled_torch_function_impl
DISABLED_TORCH_DISPATCH = torch._C._disabled_torch_dispatch_impl
BASE = torch._C.TensorBase
PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter)


def overrides_functions(cls: type) -> bool:
    """Whether values of a class are asked what functions of torch's mean (`__torch_function__`), by code that is to be traced."""
    if is_plain(cls) or brings_its_own(cls):
        return False
    return classes.lookup(cls, "__torch_function__", DISABLED_TORCH_FUNCTION) is not DISABLED_TORCH_FUNCTION


def overrides_operators(cls: type) -> bool:
    """Whether values of a class are asked what operators mean (`__torch_dispatch__`), which only the dispatcher knows of."""
    return not is_plain(cls) and classes.lookup(cls, "__torch_dispatch__", DISABLED_TORCH_DISPATCH) is not DISABLED_TORCH_DISPATCH


def is_plain(cls: type) -> bool:
    """Whether this is one of torch's own classes of tensors without overrides."""
    return any(cls is plain for plain in PLAIN_TENSORS)


def overrides(cls: type) -> bool:
    """Whether values of a class take part in torch's functions by code of their own."""
    return overrides_functions(cls) or overrides_operators(cls)


def is_wrapper(cls: type) -> bool:
    """Whether tensors of a class are wrappers of others, which say what they consist of (`__tensor_flatten__`). A graph has them as they are.

    Of torch's own, only distributed tensors are taken.
    """
    names = ("__tensor_flatten__", "__tensor_unflatten__")
    if not overrides_operators(cls) or any(classes.lookup(cls, name, None) is None for name in names):
        return False
    if is_distributed(cls):
        return True
    module = str(classes.module(cls))
    return not module.startswith("torch.") or module.startswith("torch.testing.")


def is_distributed(cls: type) -> bool:
    """Whether this is torch's class of tensors that are distributed over processes. It is told by name, as its module may not be there."""
    return classes.qualname(cls) == "DTensor" and classes.module(cls) == "torch.distributed.tensor"


def is_jagged(cls: type) -> bool:
    """Whether tensors of a class are torch's nested ones of the layout `torch.jagged`. A graph has them as they are, and their `__torch_function__`,
    which is torch's own, belongs to each operator."""
    return cls is NestedTensor


def is_masked(cls: type) -> bool:
    """Whether tensors of a class are torch's masked ones. A graph has those that it makes as they are; from outside, none."""
    return cls is MaskedTensor


def brings_its_own(cls: type) -> bool:
    """Whether the `__torch_function__` of a class is torch's own, and belongs to each operator of a graph: nested tensors, masked ones."""
    return is_jagged(cls) or is_masked(cls)


def stays_itself(cls: type) -> bool:
    """Whether a graph has tensors of a class as they are, and not as plain ones: what wraps others, nested tensors, masked ones."""
    return brings_its_own(cls) or is_wrapper(cls)


def is_disguised(cls: type) -> bool:
    """Whether a graph has tensors of this class as plain ones: they differ in what they are asked before a function becomes an operator."""
    return overrides_functions(cls) and not overrides_operators(cls)


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
