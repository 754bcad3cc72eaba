"""Torch's old tensor types: `isinstance(x, torch.LongTensor)` asks for the dtype and the device of a tensor."""

from __future__ import annotations

import torch

from framejit import breaks
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import models
from framejit.objects.tensors.tensorobject import TensorObject


@models(type(torch.LongTensor).__dict__["__instancecheck__"])
def is_of_tensor_type(vm: VM, cls: Object, obj: Object) -> Object:
    """torch/csrc/tensor/python_tensor.cpp: Tensor_instancecheck. Sparse and other tensors have types of their own."""
    kind, obj = vm.observe(cls).constant(vm), vm.observe(obj)
    if not issubclass(obj.cls, torch.Tensor):
        return vm.const(False)
    if not isinstance(obj, TensorObject) or obj.cls not in (torch.Tensor, torch.nn.Parameter):
        vm.unsupported(breaks.UnsupportedCall("a check of a tensor subclass for one of torch's old tensor types"))
    looks = obj.look(vm)
    if looks.device.type not in ("cpu", "cuda") or looks.layout is not torch.strided:
        vm.unsupported(breaks.UnsupportedCall(f"a check of a tensor on {looks.device.type} for one of torch's old tensor types"))
    on_device = kind.is_cuda == (looks.device.type == "cuda") and not kind.is_xpu
    return vm.const(on_device and kind.layout is torch.strided and kind.dtype is looks.dtype)
