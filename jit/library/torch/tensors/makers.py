"""Makers of tensors other than operators: Parameters, lists with tensors in them, the constructors of classes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy
import torch

from framejit import breaks
from framejit.graph.autograd_node import MAKES_LEAF
from framejit.graph.builder import TorchVM
from framejit.library.numpy.functions import tensor_of_numpy
from framejit.library.torch.overrides.override_functions import of_class
from framejit.library.torch.tensors.number_lists import tensor_of_ints
from framejit.library.torch.tensors.parameters import make_parameter
from framejit.objects.arrays.ndarrayobject import ArrayObject
from framejit.objects.core import abstract
from framejit.objects.core.object import Object
from framejit.objects.core.registry import models
from framejit.objects.numbers.numberobject import NumberObject
from framejit.objects.numbers.unbackednumber import as_tensor
from framejit.objects.tensors.tensorkind import kind_of_class
from framejit.objects.tensors.tensorobject import TensorObject, number_out_of
from framejit.objects.tensors.torchcall import enter
from framejit.objects.types.constobject import ConstObject
from framejit.objects.types.listobject import ListObject
from framejit.objects.types.tupleobject import TupleObject

# Parameters.


@models(torch.Tensor._make_subclass)
def make_subclass(vm: TorchVM, cls: Object, data: Object, require_grad: Object | None = None, *others: Object, **named: Object) -> Object:
    """The function that `torch.nn.Parameter` calls, and tensor subclasses that don't record where their data comes from."""
    real, tensor = vm.observe(cls).constant(vm), vm.observe(data)
    is_leaf = require_grad is not None and bool(vm.observe(require_grad).constant(vm))
    if isinstance(tensor, TensorObject) and kind_of_class(real).is_disguised and not is_leaf and not (others or named):
        detached = vm.observe(enter(vm, torch.Tensor.detach, [tensor]))
        assert isinstance(detached, TensorObject)
        return of_class(vm, detached, real)
    if real is not torch.nn.Parameter or not isinstance(tensor, TensorObject) or others or named:
        vm.unsupported(breaks.UnsupportedCall("torch.Tensor._make_subclass of a class of the program's"))
    if vm.graph.autograd_node is not None:
        vm.unsupported(MAKES_LEAF)
    made = enter(vm, make_parameter, [tensor, vm.const(False) if require_grad is None else require_grad])
    assert isinstance(made, TensorObject)
    made.cls = real
    return made


# Lists with tensors or symbolic numbers in them.

MOST_ELEMENTS = 64
"""Lists with tensors in them that are longer become tensors natively, and the values of longer lists of numbers are guarded."""
MOST_INTS = 1024
"""The values of lists of ints that are longer are guarded."""
DTYPES: dict[type, Callable[[], torch.dtype]] = {
    bool: lambda: torch.bool, int: lambda: torch.int64, float: torch.get_default_dtype,
    complex: lambda: torch.promote_types(torch.get_default_dtype(), torch.complex32),
}  # fmt: skip
"""The dtypes that the types of numbers in a list stand for."""


def making(function: Any) -> Callable[..., Object]:
    """The model of `torch.tensor` or `torch.as_tensor`."""

    def make(vm: TorchVM, data: Object, *args: Object, **kwargs: Object) -> Object:
        data = vm.observe(data)
        of_numpy = tensor_of_numpy(vm, function, [data, *args], kwargs)
        if of_numpy is not None:
            return of_numpy
        if not args and set(kwargs) <= {"dtype", "device"}:
            if isinstance(data, NumberObject) and data.cls is int and data.is_symbolic(vm) and is_small(vm, data):
                return enter(vm, torch.full, [vm.const(()), data], {"dtype": vm.const(torch.int64), **kwargs})
            if data.cls is float and takes_floats(vm, kwargs.get("dtype")) and is_unknown(vm, data):
                number = in_double(vm, data)
                if number is not None:
                    where = {"dtype": vm.const(torch.get_default_dtype()), "device": default_device(vm), **kwargs, "copy": vm.const(True)}
                    return enter(vm, torch.Tensor.to, [number], where)
            found = of_flags(vm, data, **kwargs) if data.cls in (list, tuple) else None
            if found is None and data.cls in (list, tuple) and has_unknown(vm, data):
                found = of_list(vm, data, **kwargs)
            if found is not None:
                return found
        return enter(vm, function, [data, *args], kwargs)

    return make


def default_device(vm: TorchVM) -> Object:
    """The device on which a tensor is made if none is named."""
    made = enter(vm, torch.empty, [vm.const(0)])
    assert isinstance(made, TensorObject)
    return vm.const(made.fake.device)


def takes_floats(vm: TorchVM, dtype: Object | None) -> bool:
    """Return whether a tensor of this dtype, or without a given one, accepts any float: for an int dtype, a float that doesn't fit is an error."""
    given = None if dtype is None else vm.observe(dtype).constant(vm)
    return given is None or given.is_floating_point or given.is_complex


def in_double(vm: TorchVM, number: Object) -> Object | None:
    """A float as a tensor of one double, which is converted to the same result as by `torch.tensor`; None if that can't be in the graph. (`torch.full` rejects
    floats that don't fit a smaller dtype, which become infinite in `torch.tensor`.)"""
    found = as_tensor(vm, number)
    if not isinstance(found, NumberObject):
        return found
    return enter(vm, torch.full, [vm.const(()), found], {"dtype": vm.const(torch.float64), "device": vm.const("cpu")})


def is_unknown(vm: TorchVM, item: Object) -> bool:
    """Return whether this is a number that depends on data, or a symbolic one."""
    return item.is_symbolic(vm) or (isinstance(item, NumberObject) and item.symbol(vm) is not None)


def has_unknown(vm: TorchVM, data: Object) -> bool:
    """Return whether there is a tensor or a symbolic number in nested lists and tuples."""
    for item in abstract.iterate(vm, data):
        item = vm.observe(item)
        if isinstance(item, TensorObject) or is_unknown(vm, item):
            return True
        if item.cls in (list, tuple) and has_unknown(vm, item):
            return True
    return False


def of_flags(vm: TorchVM, data: Object, dtype: Object | None = None, device: Object | None = None) -> Object | None:
    """A tensor made from a list of bools some of which vary; None for other lists."""
    flags = [vm.observe(item) for item in abstract.iterate(vm, data)]
    if not 0 < len(flags) <= MOST_INTS or not all(type(flag) is ConstObject and flag.cls is bool for flag in flags):
        return None
    if not (dtype is None or vm.observe(dtype).constant(vm) is torch.bool) or torch.get_default_device().type != "cpu":
        return None
    numbers = [vm.graph.shapes.number_of_flag(flag) for flag in flags]  # type: ignore[arg-type]
    if not any(numbers):
        return None
    ints = [number or NumberObject(int(flag.constant(vm))) for number, flag in zip(numbers, flags, strict=True)]
    made = enter(vm, torch.Tensor.to, [enter(vm, tensor_of_ints, [ListObject(list(ints))]), vm.const(torch.bool)])
    return made if device is None else enter(vm, torch.Tensor.to, [made, device])


def of_list(vm: TorchVM, data: Object, dtype: Object | None = None, device: Object | None = None) -> Object | None:
    """A tensor made from nested lists of numbers and of tensors with one element; None if that is left to native code.

    torch/csrc/utils/tensor_new.cpp: internal_new_from_data. The elements are read as numbers: no gradient passes through them.
    """
    found = elements(vm, data)
    if found is None:
        return None
    sizes, leaves = found
    if torch.get_default_device().type != "cpu" or not all(is_small(vm, leaf) for leaf in leaves):
        return None
    given = None if dtype is None else vm.observe(dtype).constant(vm)
    if 0 < len(leaves) <= MOST_INTS and all(leaf.cls is int for leaf in leaves) and given in (None, torch.int64):
        made = enter(vm, torch.Tensor.reshape, [enter(vm, tensor_of_ints, [ListObject(leaves)]), vm.const(tuple(sizes))])
        return made if device is None else enter(vm, torch.Tensor.to, [made, device])
    if not 0 < len(leaves) <= MOST_ELEMENTS or not all(map(is_element, leaves)):
        return None
    if given is not None and not (given.is_floating_point or given.is_complex) and not any(isinstance(leaf, TensorObject) for leaf in leaves):
        for leaf in leaves:
            leaf.constant(vm)  # a number that doesn't fit is an error, but not in what Inductor makes of symbolic numbers
        return None
    into = given or inferred([leaf.look(vm).dtype if isinstance(leaf, TensorObject) else DTYPES[leaf.cls]() for leaf in leaves])
    if not all(is_exact(leaf, into) for leaf in leaves):
        return None
    parts: list[Object] = [element(vm, leaf, into) for leaf in leaves]
    stacked = enter(vm, torch.stack, [ListObject(parts)])
    shaped = enter(vm, torch.Tensor.reshape, [stacked, vm.const(tuple(sizes))])
    return shaped if device is None else enter(vm, torch.Tensor.to, [shaped, device])


def is_small(vm: TorchVM, leaf: Object) -> bool:
    """Return whether this isn't an int from outside that doesn't fit 64 bits, for which torch.tensor raises otherwise than operators. Such an int is fixed."""
    if not isinstance(leaf, NumberObject) or leaf.cls is not int or not leaf.is_symbolic(vm) or vm.graph.shapes.keeps_small(leaf):
        return True
    leaf.constant(vm)
    return False


def elements(vm: TorchVM, data: Object) -> tuple[list[int], list[Object]] | None:
    """The sizes and the elements of nested lists; None if lists at the same level differ in length."""
    items = [vm.observe(item) for item in abstract.iterate(vm, data)]
    if not items or items[0].cls not in (list, tuple):
        return [len(items)], items
    inner = [elements(vm, item) if item.cls in (list, tuple) else None for item in items]
    leaves: list[Object] = []
    for part in inner:
        if part is None or inner[0] is None or part[0] != inner[0][0]:
            return None
        leaves += part[1]
    assert inner[0] is not None
    return [len(items), *inner[0][0]], leaves


def is_element(leaf: Object) -> bool:
    """Return whether this can be one number of a tensor: torch warns of a tensor that requires a gradient."""
    if isinstance(leaf, TensorObject):
        fake = leaf.fake
        plain_cpu = leaf.cls in (torch.Tensor, torch.nn.Parameter) and fake.device.type == "cpu" and not fake.requires_grad
        return plain_cpu and all(type(size) is int for size in fake.shape) and math.prod(fake.shape) == 1
    return leaf.cls in DTYPES


def inferred(dtypes: Sequence[torch.dtype]) -> torch.dtype:
    """The dtype of a tensor whose elements have these dtypes."""
    found = dtypes[0]
    for dtype in dtypes[1:]:
        found = torch.promote_types(found, dtype)
    return found


def is_exact(leaf: Object, into: torch.dtype) -> bool:
    """Return whether operators convert an element to the same value as a conversion through a Python number would."""
    if not isinstance(leaf, TensorObject):
        return into.is_floating_point or leaf.cls in (int, bool) or into.is_complex
    kind = leaf.fake.dtype
    return kind is into or (into.is_floating_point and not kind.is_complex) or (into is torch.int64 and kind is torch.bool)


def element(vm: TorchVM, leaf: Object, into: torch.dtype) -> Object:
    """An element as a tensor without dimensions."""
    dtype = vm.const(into)
    if not isinstance(leaf, TensorObject):
        number = in_double(vm, leaf) if leaf.cls is float else None
        if number is not None:
            return enter(vm, torch.Tensor.to, [number, dtype])
        return enter(vm, torch.full, [vm.const(()), leaf], {"dtype": dtype, "device": vm.const("cpu")})
    part = enter(vm, torch.Tensor.reshape, [leaf, vm.const(())])
    assert isinstance(part, TensorObject)
    if part.fake.dtype is into:
        return part
    if not part.fake.dtype.is_floating_point:
        part = enter(vm, torch.Tensor.to, [part, vm.const(torch.float64 if into.is_floating_point else torch.int64)])
    return enter(vm, torch.Tensor.to, [part, dtype])


make_tensor = making(torch.tensor)
models(torch.tensor)(make_tensor)
models(torch.as_tensor)(making(torch.as_tensor))


# Tensors of given sizes.


def sized(function: Any) -> Callable[..., Object]:
    """The model of a function of sizes: a tensor among them stands for its item."""

    def make(vm: TorchVM, *sizes: Object, **kwargs: Object) -> Object:
        return enter(vm, function, [as_size(vm, vm.observe(size)) for size in sizes], kwargs)

    return make


def as_size(vm: TorchVM, size: Object) -> Object:
    """A size as a number, if it is a tensor."""
    is_index = isinstance(size, TensorObject) and size.look(vm).dim() == 0
    return (number_out_of(vm, size, "__index__") or size) if is_index and isinstance(size, TensorObject) else size


for _function in (torch.zeros, torch.ones, torch.empty):
    models(_function)(sized(_function))


@models(torch.nn.functional.pad)
def pad(vm: TorchVM, input: Object, pad: Object, *args: Object, **kwargs: Object) -> Object:
    """torch.nn.functional.pad. Tensors among the numbers of elements to be added stand for their items."""
    given = vm.observe(pad)
    if given.cls in (list, tuple):
        given = TupleObject([as_size(vm, vm.observe(size)) for size in abstract.iterate(vm, given)])
    return enter(vm, torch.nn.functional.pad, [input, given, *args], kwargs)


# Constructors of classes, which take sizes or numbers.

LEGACY: dict[Any, Callable[[], torch.dtype]] = {
    torch.Tensor: torch.get_default_dtype, torch.FloatTensor: lambda: torch.float32, torch.DoubleTensor: lambda: torch.float64,
    torch.LongTensor: lambda: torch.int64, torch.IntTensor: lambda: torch.int32, torch.BoolTensor: lambda: torch.bool,
}  # fmt: skip


def constructing(dtype: Callable[[], torch.dtype], name: str) -> Callable[..., Object]:
    """The model of a class's constructor: of one list of numbers, or of sizes."""

    def construct(vm: TorchVM, *args: Object) -> Object:
        given = [vm.observe(arg) for arg in args]
        where = {"dtype": vm.const(dtype()), "device": vm.const("cpu")}
        if len(given) == 1 and given[0].cls in (list, tuple):
            if are_numbers(vm, given[0], dtype()):
                return make_tensor(vm, *given, **where)
        elif len(given) == 1 and given[0].cls is torch.Size:
            return enter(vm, torch.empty, given, where)
        elif len(given) == 1 and isinstance(given[0], ArrayObject) and given[0].cls is numpy.ndarray:
            shared = abstract.call(vm, vm.const(torch.from_numpy), given)  # the memory is the array's if the dtype is
            return abstract.call(vm, vm.const(torch.Tensor.to), [shared, where["dtype"]])
        elif all(arg.cls is int for arg in given):
            return enter(vm, torch.empty, [*given] or [vm.const(0)], where)
        vm.unsupported(breaks.UnsupportedCall(f"{name}() of other things than numbers or sizes"))

    return construct


def are_numbers(vm: TorchVM, data: Object, dtype: torch.dtype) -> bool:
    """Return whether nested lists contain only numbers, of a type that the dtype takes unchanged."""
    kinds = (int, bool, float) if dtype.is_floating_point else (int, bool) if dtype is not torch.bool else (bool,)
    for item in abstract.iterate(vm, data):
        item = vm.observe(item)
        if item.cls not in kinds and not (item.cls in (list, tuple) and are_numbers(vm, item, dtype)):
            return False
    return True


@models(torch.Tensor.__new__)
def tensor_new(vm: TorchVM, cls: Object, *args: Object) -> Object:
    """The function that `__new__` of the program's classes calls: for a tensor it returns a view of it, of the class."""
    real, given = vm.observe(cls).constant(vm), vm.observe(args[0]) if len(args) == 1 else None
    if isinstance(given, TensorObject):
        if given.look(vm).dtype is not torch.get_default_dtype():
            vm.unsupported(breaks.UnsupportedCall("torch.Tensor.__new__ of a tensor of another dtype than the default one"))
        return of_class(vm, given, real)
    made = constructing(torch.get_default_dtype, "torch.Tensor.__new__")(vm, *args)
    assert isinstance(made, TensorObject)
    return made if real is torch.Tensor else of_class(vm, made, real)


for _class, _dtype in LEGACY.items():
    models(_class)(constructing(_dtype, f"torch.{_class.__name__.rpartition('.')[2]}"))
