"""torch.equal and torch.allclose: their bool is a number that depends on data, computed by the graph. A branch that raises checks it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from framejit.graph.builder import TorchVM
from framejit.objects.core.object import Object
from framejit.objects.core.registry import models
from framejit.objects.tensors.tensorobject import TensorObject, number_out_of
from framejit.objects.tensors.torchcall import enter
from framejit.torch_state.own_operators import declare_operator


@declare_operator("are_equal(Tensor a, Tensor b) -> Tensor")
def are_equal(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The bool of torch.equal as a tensor. A comparison of the elements isn't the same: a tensor with NaNs is equal to itself."""
    return torch.tensor(torch.equal(a, b))


@are_equal.fake
def looks(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.empty((), dtype=torch.bool)


def are_alike(vm: TorchVM, tensors: Sequence[Object]) -> bool:
    """Return whether these are two strided tensors of the same dtype and device, and the data of one isn't known. Others are left to torch."""
    if len(tensors) != 2 or not all(isinstance(tensor, TensorObject) and not tensor.kind.is_disguised for tensor in tensors):
        return False
    first, second = (tensor.look(vm) for tensor in tensors if isinstance(tensor, TensorObject))
    is_unknown = getattr(first, "constant", None) is None or getattr(second, "constant", None) is None
    is_same = first.dtype is second.dtype and first.device == second.device and first.layout is second.layout is torch.strided
    return is_same and is_unknown and not vm.graph.is_inner()


def detached(vm: TorchVM, tensors: Sequence[Object]) -> list[Object]:
    return [enter(vm, torch.Tensor.detach, [tensor]) for tensor in tensors]


@models(torch.equal, torch.Tensor.equal)
def equal(vm: TorchVM, *args: Object, **kwargs: Object) -> Object:
    if not kwargs and are_alike(vm, tensors := [vm.observe(arg) for arg in args]):
        found = bool_of(vm, enter(vm, are_equal.overload, detached(vm, tensors)))
        if found is not None:
            return found
    return enter(vm, torch.equal, args, kwargs)


@models(torch.allclose, torch.Tensor.allclose)
def all_close(vm: TorchVM, *args: Object, **kwargs: Object) -> Object:
    """aten/src/ATen/native/TensorCompare.cpp: allclose."""
    if are_alike(vm, tensors := [vm.observe(arg) for arg in args[:2]]):
        close = enter(vm, torch.isclose, [*detached(vm, tensors), *args[2:]], kwargs)
        found = bool_of(vm, enter(vm, torch.all, [close]))
        if found is not None:
            return found
    return enter(vm, torch.allclose, args, kwargs)


def bool_of(vm: TorchVM, flag: Object) -> Object | None:
    """The bool in a tensor; None if it can't be part of the graph."""
    assert isinstance(flag, TensorObject)
    return number_out_of(vm, flag, "__bool__")
