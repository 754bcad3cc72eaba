"""Views with a size of -1 beside one that depends on data, as in `x[mask].view(n, -1)`: the graph checks that n is not 0, so that -1 has one meaning."""

from __future__ import annotations

from typing import Any

import torch

from framejit.graph.builder import TorchVM
from framejit.objects.core import abstract, operators
from framejit.objects.core.object import Object
from framejit.objects.core.registry import models
from framejit.objects.numbers.unbackednumber import UnbackedNumber, is_checked
from framejit.objects.tensors.torchcall import enter
from framejit.objects.types.listobject import ListObject
from framejit.objects.types.tupleobject import TupleObject


def view(function: Any, name: str) -> None:
    """Register one of torch's functions that give a tensor another shape. `name`: that of its argument for the shape."""

    def model(vm: TorchVM, *args: Object, **kwargs: Object) -> Object:
        check_sizes(vm, [kwargs[name]] if name in kwargs else list(args[1:]))
        return enter(vm, function, args, kwargs)

    models(function)(model)


def check_sizes(vm: TorchVM, shape: list[Object]) -> None:
    """Have the graph check that the sizes in a shape that depend on data are greater than 0, if another one is -1. An operator would ask whether that is true,
    which breaks the trace."""
    sizes = [vm.observe(size) for size in shape]
    if len(sizes) == 1 and isinstance(sizes[0], (ListObject, TupleObject)):
        sizes = [vm.observe(size) for size in abstract.iterate(vm, sizes[0])]
    unknown = [size for size in sizes if isinstance(size, UnbackedNumber)]
    if not unknown or not vm.graph.unbacked.may_check() or any(size.cls is not int for size in sizes):
        return
    if any(size.is_known() and size.constant(vm) == -1 for size in sizes):
        for size in unknown:
            is_checked(vm, operators.compare(vm, ">", size, vm.const(0)))


view(torch.Tensor.view, "size")
view(torch.Tensor.reshape, "shape")
view(torch.reshape, "shape")
