"""NumPy's functions on tensors: a tensor is treated as an array of its memory, and the result of a universal function is a tensor again."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy
import torch

from framejit import breaks
from framejit.objects.arrays.arraycall import call_function, call_ufunc
from framejit.objects.arrays.ndarrayobject import ArrayObject, array_asked, tensor_of_array
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Object
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchcall import enter
from framejit.objects.types.listobject import ListObject

JOINING = frozenset({"concatenate", "stack", "hstack", "vstack"})
"""Functions that convert their arguments to arrays, and return arrays."""


def has_tensor(vm: VM, obj: Object) -> bool:
    """Return whether a value is a tensor, or a list or tuple with one inside."""
    obj = vm.observe(obj)
    if obj.cls in (list, tuple):
        return any(has_tensor(vm, item) for item in abstract.iterate(vm, obj))
    return isinstance(obj, TensorObject)


def of_tensors(vm: VM, name: str, function: object, args: Sequence[Object], kwargs: dict[str, Object]) -> Object:
    """A call of one of NumPy's functions with tensors among the arguments."""
    if name in JOINING and getattr(numpy, name) is function:
        return call_function(vm, name, f"numpy.{name}", [as_array(vm, arg) for arg in args], kwargs)
    if not isinstance(function, numpy.ufunc) or function.nout != 1 or kwargs or len(args) != function.nin:
        vm.unsupported(breaks.ArrayOperation(f"numpy.{name} of a tensor"))
    found = vm.observe(call_ufunc(vm, function, [as_array(vm, arg) for arg in args]))
    if not isinstance(found, ArrayObject):
        vm.unsupported(breaks.ArrayOperation(f"numpy.{name} of a tensor"))
    if WARNING is not None:
        abstract.call(vm, vm.pin(warnings.warn), [vm.const(WARNING[0]), vm.const(WARNING[1])])
    tensor = tensor_of_array(vm, found)
    return enter(vm, torch.Tensor.to, [tensor, vm.const(torch.uint8)]) if tensor.look(vm).dtype is torch.bool else tensor


def as_array(vm: VM, obj: Object) -> Object:
    """A value with arrays in place of tensors."""
    obj = vm.observe(obj)
    if isinstance(obj, TensorObject):
        return array_asked(vm, obj)
    if obj.cls in (list, tuple) and has_tensor(vm, obj):
        return ListObject([as_array(vm, item) for item in abstract.iterate(vm, obj)])
    return obj


def said_of_tensors() -> tuple[str, type[Warning]] | None:
    """The warning that NumPy gives if a universal function is called on a tensor: the text and its category. None if it gives none."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        numpy.negative(torch.zeros(1))
    return (str(found[0].message), found[0].category) if found else None


WARNING = said_of_tensors()
"""Determined now, because warnings are ignored while code is compiled."""
