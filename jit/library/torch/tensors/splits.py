"""Splits of a tensor into parts whose sizes depend on data, as in `x.split(counts.tolist())`: the graph checks that they add up to the size of the tensor."""

from __future__ import annotations

from typing import Any

import torch

from framejit.graph.builder import TorchVM
from framejit.objects.core import abstract, operators
from framejit.objects.core.object import Object
from framejit.objects.core.registry import models
from framejit.objects.numbers.unbackednumber import UnbackedNumber, is_checked
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchcall import enter
from framejit.objects.types.listobject import ListObject
from framejit.objects.types.tupleobject import TupleObject


def split(function: Any, name: str) -> None:
    """Register one of torch's functions that split a tensor. `name`: that of its argument for the sizes."""

    def model(vm: TorchVM, *args: Object, **kwargs: Object) -> Object:
        given = {**dict(zip(("tensor", name, "dim"), args)), **kwargs}
        tensor, sizes, dim = (vm.observe(given[key]) if key in given else vm.const(0) for key in ("tensor", name, "dim"))
        if isinstance(tensor, TensorObject) and isinstance(sizes, (ListObject, TupleObject)) and dim.cls is int and dim.is_known():
            check_sizes(vm, tensor, [vm.observe(size) for size in abstract.iterate(vm, sizes)], dim.constant(vm))
        return enter(vm, function, args, kwargs)

    models(function)(model)


def check_sizes(vm: TorchVM, tensor: TensorObject, sizes: list[Object], dim: int) -> None:
    """Have the graph check sizes of which some depend on data: none is negative, and they add up to the tensor's. An operator would ask whether that is true,
    which breaks the trace."""
    count = tensor.look(vm).dim()
    is_usual = all(size.cls is int for size in sizes) and -count <= dim < count and vm.graph.unbacked.may_check()
    if not is_usual or not any(isinstance(size, UnbackedNumber) for size in sizes):
        return
    total = vm.const(0)
    for size in sizes:
        if isinstance(size, UnbackedNumber) and not is_checked(vm, operators.compare(vm, ">=", size, vm.const(0))):
            return
        total = operators.binary_op(vm, "+", total, size)
    is_checked(vm, operators.compare(vm, "==", total, vm.graph.size(tensor, dim % count)))


split(torch.split, "split_size_or_sections")
split(torch.Tensor.split, "split_size")
split(torch.split_with_sizes, "split_sizes")
split(torch.Tensor.split_with_sizes, "split_sizes")
