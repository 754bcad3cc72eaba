"""NumPy's arrays: their methods, operators and attributes, the functions that make arrays, and the ways between arrays and tensors."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy
import torch

from framejit import breaks
from framejit.objects import abstract, arrayfunctions, operators
from framejit.objects.arraycall import (
    EMPTY,
    Operands,
    call_function,
    call_ufunc,
    constant_array,
    getitem,
    has_array,
    setitem,
)
from framejit.objects.arrayfunctions import Target
from framejit.objects.arrayrules import FUNCTIONS
from framejit.objects.constobject import SCALARS
from framejit.objects.ndarrayobject import TORCH_TYPES, ArrayObject, array_of_tensor, tensor_of_array
from framejit.objects.object import VM, NotConstant, Object
from framejit.objects.registry import model_of, models
from framejit.objects.tensorobject import TensorObject, tensor_tolist
from framejit.objects.torchcall import enter
from framejit.objects.tupleobject import TupleObject

OWNERS: tuple[type, ...] = (
    numpy.ndarray,
    *{base for code in "?bhilqBHILQefdgFDG" for base in numpy.dtype(code).type.__mro__ if issubclass(base, numpy.generic)},
)
"""Arrays, and the classes of NumPy's scalars, which have the same methods."""


def on_arrays(name: str, model: Callable[..., Object]) -> None:
    """Register what a method or attribute means for arrays and computed scalars. Other values go to the model that was there before."""
    for owner in OWNERS:
        descriptor = vars(owner).get(name)
        if descriptor is not None:
            models(descriptor)(with_constants(descriptor, model, model_of(descriptor)))


def with_constants(descriptor: Any, model: Callable[..., Object], before: Callable[..., Object] | None) -> Callable[..., Object]:
    """The model of a method: that of constants where no array is given."""

    def called(vm: VM, self: Object, *args: Object, **kwargs: Object) -> Object:
        self = vm.observe(self)
        if isinstance(self, ArrayObject) or any(has_array(vm, arg) for arg in args):
            return model(vm, self, *args, **kwargs)
        if before is not None:
            return before(vm, self, *args, **kwargs)
        return on_constants(vm, descriptor.__name__, descriptor.__get__ if not callable(descriptor) else descriptor, [self, *args], kwargs)

    return called


def on_constants(vm: VM, name: str, function: Callable[..., Any], args: Sequence[Object], kwargs: dict[str, Object]) -> Object:
    """What NumPy makes of constants: a constant, or a new array."""
    try:
        real_args = [vm.observe(arg).as_real(vm) for arg in args]
        real_kwargs = {key: vm.observe(arg).as_real(vm) for key, arg in kwargs.items()}
    except NotConstant as needed:
        vm.unsupported(breaks.UnsupportedCall(f"numpy.{name} on {needed.obj!r}"))
    try:
        with numpy.errstate(all="raise"):
            found = function(*real_args, **real_kwargs)
    except FloatingPointError as error:
        vm.unsupported(breaks.UnsupportedOperation(f"numpy.{name}: {error}"))
    except Exception as error:
        vm.raise_(type(error), *error.args)
    return of_constants(vm, name, found)


def of_constants(vm: VM, name: str, found: Any) -> Object:
    """The Object of what NumPy has made of constants."""
    if isinstance(found, numpy.ndarray):
        return constant_array(vm, found)
    if type(found) in (list, tuple):
        items = [of_constants(vm, name, item) for item in found]
        return vm.from_real(items) if type(found) is list else TupleObject(items)
    if isinstance(found, (numpy.dtype, type)):
        return vm.const(found)
    if not isinstance(found, numpy.generic) and type(found) not in SCALARS:
        vm.unsupported(breaks.UnsupportedCall(f"numpy.{name}, which returns a {type(found).__name__}"))
    return vm.from_real(found)


# Operators.


def is_number(vm: VM, obj: Object) -> bool:
    """Whether NumPy takes a value as an operand without asking it anything."""
    obj = vm.observe(obj)
    if isinstance(obj, ArrayObject) or obj.cls in (bool, int, float, complex, list, tuple):
        return True
    return issubclass(obj.cls, numpy.generic)


def binary_slot(name: str, ufunc: Any, through: Callable[..., Any], swapped: bool) -> None:
    def model(vm: VM, self: Object, other: Object, *modulo: Object) -> Object:
        if modulo or not is_number(vm, other):
            vm.unsupported(breaks.ArrayOperation(f"{name} of an array and {vm.observe(other)!r}"))
        return call_ufunc(vm, ufunc, [other, self] if swapped else [self, other], EMPTY, through)

    on_arrays(name, model)


def unary_slot(name: str, ufunc: Any, through: Callable[..., Any]) -> None:
    on_arrays(name, lambda vm, self: call_ufunc(vm, ufunc, [self], EMPTY, through))


UFUNC_OF: dict[str, Any] = {
    "+": numpy.add, "-": numpy.subtract, "*": numpy.multiply, "/": numpy.true_divide, "//": numpy.floor_divide, "%": numpy.remainder, "**": numpy.power,
    "@": numpy.matmul, "<<": numpy.left_shift, ">>": numpy.right_shift, "&": numpy.bitwise_and, "|": numpy.bitwise_or, "^": numpy.bitwise_xor,
    "<": numpy.less, "<=": numpy.less_equal, "==": numpy.equal, "!=": numpy.not_equal, ">": numpy.greater, ">=": numpy.greater_equal,
}  # fmt: skip
for _symbol, (_left, _right, _real) in (*operators.BINARY.items(), *operators.COMPARE.items()):
    binary_slot(_left, UFUNC_OF[_symbol], _real, swapped=False)
    if _symbol in operators.BINARY:
        binary_slot(_right, UFUNC_OF[_symbol], _real, swapped=True)
for _symbol, _name in operators.INPLACE.items():
    binary_slot(_name, UFUNC_OF[_symbol[:-1]], operators.INPLACE_REAL[_symbol], swapped=False)
for _name, _ufunc in (("neg", numpy.negative), ("pos", numpy.positive), ("invert", numpy.invert), ("abs", numpy.absolute)):
    unary_slot(f"__{_name}__", _ufunc, getattr(operator, _name))


# Attributes.


def shape_of(vm: VM, self: ArrayObject) -> TupleObject:
    return TupleObject(self.sizes(vm))


def size_of(vm: VM, self: ArrayObject) -> Object:
    total = vm.const(1)
    for size in self.sizes(vm):
        total = operators.binary_op(vm, "*", total, size)
    return total


def viewed(name: str, target: Target) -> Callable[..., Object]:
    """The model of an attribute that is an array."""
    return lambda vm, self: call_function(vm, name, operator.attrgetter(name), [self], EMPTY, target)


def kept_from(name: str) -> Callable[..., Object]:
    """The model of what a tensor doesn't know of its array."""
    return lambda vm, self, *args, **kwargs: vm.unsupported(breaks.ArrayOperation(f".{name} of an array"))


on_arrays("shape", shape_of)
on_arrays("size", size_of)
on_arrays("ndim", lambda vm, self: vm.const(len(self.sizes(vm))))
on_arrays("dtype", lambda vm, self: vm.const(self.dtype(vm)))
on_arrays("itemsize", lambda vm, self: vm.const(self.dtype(vm).itemsize))
on_arrays("nbytes", lambda vm, self: operators.binary_op(vm, "*", size_of(vm, self), vm.const(self.dtype(vm).itemsize)))
on_arrays("T", viewed("T", arrayfunctions.numpy_transpose))
on_arrays("real", viewed("real", arrayfunctions.numpy_real))
on_arrays("imag", viewed("imag", arrayfunctions.numpy_imag))
for _name in ("flags", "strides", "base", "ctypes", "data", "flat", "__array_interface__", "__array_struct__"):
    on_arrays(_name, kept_from(_name))


# Methods.


def method(name: str) -> Callable[..., Any]:
    """A method, called with the array first."""
    return lambda array, *args, **kwargs: getattr(array, name)(*args, **kwargs)


def as_method(name: str, target: Target, function_name: str, given: Callable[..., Sequence[Object]] | None = None) -> None:
    """A method that `target` computes. `given`: which of its arguments that takes."""
    call = method(name)

    def model(vm: VM, self: Object, *args: Object, **kwargs: Object) -> Object:
        for_graph = None if given is None else given(vm, self, *args)
        return call_function(vm, function_name, call, [self, *args], kwargs, target, for_graph)

    on_arrays(name, model)


SAME_AS_FUNCTIONS = (
    "sum", "prod", "mean", "std", "var", "max", "min", "argmax", "argmin", "all", "any", "cumsum", "cumprod", "round", "clip", "take", "repeat", "squeeze",
    "swapaxes", "ravel", "trace", "diagonal", "dot", "searchsorted", "argsort", "reshape", "ptp",
)
"""Methods that take what the functions of their names take behind the array."""
for _name in SAME_AS_FUNCTIONS:
    as_method(_name, FUNCTIONS[_name], _name)
as_method("astype", arrayfunctions.numpy_astype, "astype", lambda vm, self, *how: [self])
as_method("copy", arrayfunctions.numpy_copy, "copy", lambda vm, self, *how: [self])
as_method("__copy__", arrayfunctions.numpy_copy, "copy", lambda vm, self, *how: [self])
as_method("view", arrayfunctions.numpy_same, "view", lambda vm, self, *how: [self])
as_method("flatten", arrayfunctions.numpy_ravel, "flatten")
as_method(
    "transpose", arrayfunctions.numpy_transpose, "transpose",
    lambda vm, self, *axes: [self, TupleObject(list(axes))] if len(axes) > 1 or (axes and vm.observe(axes[0]).cls is int) else [self, *axes],
)  # fmt: skip
for _name in ("conj", "conjugate"):
    on_arrays(_name, lambda vm, self: call_ufunc(vm, numpy.conjugate, [self], EMPTY, numpy.conjugate))


def sort(vm: VM, self: ArrayObject, *args: Object, **kwargs: Object) -> Object:
    """In place."""
    found = call_function(vm, "sort", numpy.sort, [self, *args], kwargs)
    assert isinstance(found, ArrayObject)
    setitem(vm, self, vm.const(...), found)
    return vm.const(None)


def fill(vm: VM, self: ArrayObject, value: Object) -> Object:
    setitem(vm, self, vm.const(...), value)
    return vm.const(None)


def item(vm: VM, self: ArrayObject, *index: Object) -> Object:
    """One element as a Python number."""
    if index:
        found = getitem(vm, self, TupleObject(list(index)) if len(index) > 1 else index[0])
        return found.number(vm) if isinstance(found, ArrayObject) else found
    return self.number(vm)


on_arrays("sort", sort)
on_arrays("fill", fill)
on_arrays("item", item)
on_arrays("tolist", lambda vm, self: tensor_tolist(vm, self.tensor(vm)))
for _name in ("__float__", "__int__", "__bool__", "__index__"):
    on_arrays(_name, lambda vm, self, name=_name: self.number(vm, name))
on_arrays("__getitem__", getitem)


def store(vm: VM, self: ArrayObject, key: Object, value: Object) -> Object:
    setitem(vm, self, key, value)
    return vm.const(None)


on_arrays("__setitem__", store)


def items(vm: VM, self: ArrayObject) -> Object:
    """Its rows, which are views, or its elements, each as it is when it is reached: here, where the loop begins."""
    count = self.length(vm).constant(vm)
    abstract.refuse_many(vm, self, count)
    return vm.from_real([getitem(vm, self, vm.const(index)) for index in range(count)]).iter(vm)


on_arrays("__len__", lambda vm, self: self.length(vm))
on_arrays("__iter__", items)


# Functions that make arrays.


def tensors_as_arrays(vm: VM, args: Sequence[Object]) -> list[Object]:
    """np.asarray(tensor) is the array of its memory."""
    seen = [vm.observe(arg) for arg in args]
    return [array_of_tensor(vm, arg) if isinstance(arg, TensorObject) else arg for arg in seen]


def of_values(function: Callable[..., Any], name: str) -> None:
    """np.array, np.asarray and their like."""

    @models(function)
    def make(vm: VM, value: Object, *args: Object, **kwargs: Object) -> Object:
        value, *rest = tensors_as_arrays(vm, [value, *args])
        if isinstance(value, ArrayObject):
            is_copy = name == "array" and not ("copy" in kwargs and not vm.observe(kwargs["copy"]).constant(vm))
            return call_function(vm, name, function, [value, *rest], kwargs, arrayfunctions.numpy_astype if is_copy or rest or "dtype" in kwargs else
                                 arrayfunctions.numpy_same, [value])  # fmt: skip
        if has_array(vm, value):
            return call_function(vm, name, function, [value, *rest], kwargs, arrayfunctions.numpy_array, [value])
        return on_constants(vm, name, function, [value, *rest], kwargs)


for _name in ("array", "asarray", "asanyarray", "ascontiguousarray"):
    of_values(getattr(numpy, _name), _name)


def filled(function: Callable[..., Any], name: str, value: Any) -> None:
    """np.zeros and its like: sizes may be symbolic."""

    @models(function)
    def make(vm: VM, shape: Object, *args: Object, **kwargs: Object) -> Object:
        if has_array(vm, shape) or any(has_array(vm, arg) for arg in args):
            vm.unsupported(breaks.ArrayOperation(f"numpy.{name} of numbers in an array"))
        operands = Operands(vm, name)
        try:
            real = [operands.real(arg) for arg in (shape, *args)]
            real_kwargs = {key: operands.real(arg) for key, arg in kwargs.items()}
        except NotConstant as needed:
            vm.unsupported(breaks.ArrayOperation(f"numpy.{name} on {needed.obj!r}"))
        expected = operands.asked(lambda: function(*real, **real_kwargs))
        dtype = TORCH_TYPES[operands.type_of(expected)]
        sizes = shape if vm.observe(shape).cls in (list, tuple, torch.Size) else TupleObject([shape])
        how = {"dtype": vm.const(dtype), "device": vm.const("cpu")}
        if name == "full":
            fill_value = real_kwargs.get("fill_value", real[1] if len(real) > 1 else None)
            number = vm.const(operands.asked(lambda: numpy.asarray(fill_value).astype(expected.dtype)).item())
            return operands.result(enter(vm, torch.full, [sizes, number], how), expected)
        return operands.result(enter(vm, torch.ones if value else torch.zeros, [sizes], how), expected)


for _name, _value in (("zeros", 0), ("ones", 1), ("empty", 0), ("full", None)):
    filled(getattr(numpy, _name), _name, _value)


@models(numpy.arange)
def arange(vm: VM, *args: Object, **kwargs: Object) -> Object:
    if not any(vm.observe(arg).is_symbolic(vm) for arg in args):
        return on_constants(vm, "arange", numpy.arange, args, kwargs)
    if kwargs or not all(vm.observe(arg).cls is int for arg in args):
        return on_constants(vm, "arange", numpy.arange, args, kwargs)
    operands = Operands(vm, "arange")
    real = [operands.real(arg) for arg in args]
    return operands.result(enter(vm, torch.arange, args, {"device": vm.const("cpu")}), operands.asked(lambda: numpy.arange(*real)))


def constructor(function: Callable[..., Any], name: str) -> None:
    @models(function)
    def make(vm: VM, *args: Object, **kwargs: Object) -> Object:
        if any(has_array(vm, arg) for arg in (*args, *kwargs.values())):
            vm.unsupported(breaks.ArrayOperation(f"numpy.{name} of numbers in an array"))
        return on_constants(vm, name, function, args, kwargs)


for _name in ("eye", "identity", "tri", "indices", "hanning", "hamming", "blackman", "bartlett", "kaiser", "fft.fftfreq", "fft.rfftfreq"):
    constructor(operator.attrgetter(_name)(numpy), _name)


# What is asked of arrays.


@models(numpy.shape)
def shape(vm: VM, a: Object) -> Object:
    a = vm.observe(a)
    return shape_of(vm, a) if isinstance(a, ArrayObject) else on_constants(vm, "shape", numpy.shape, [a], {})


@models(numpy.ndim)
def ndim(vm: VM, a: Object) -> Object:
    a = vm.observe(a)
    return vm.const(len(a.sizes(vm))) if isinstance(a, ArrayObject) else on_constants(vm, "ndim", numpy.ndim, [a], {})


# Tensors and arrays.


@models(torch.from_numpy)
def from_numpy(vm: VM, array: Object) -> Object:
    array = vm.observe(array)
    if not isinstance(array, ArrayObject) or array.is_scalar or array.backwards or array.read_only:
        vm.unsupported(breaks.ArrayOperation(f"torch.from_numpy of {array!r}"))
    return tensor_of_array(vm, array)


@models(torch.Tensor.numpy)
def to_numpy(vm: VM, self: TensorObject, *, force: Object | None = None) -> Object:
    if force is not None and vm.observe(force).constant(vm):
        detached = enter(vm, torch.Tensor.detach, [self])
        assert isinstance(detached, TensorObject)
        return array_of_tensor(vm, detached)
    return array_of_tensor(vm, self)


@models(torch.Tensor.__array__)
def to_array(vm: VM, self: TensorObject, dtype: Object | None = None) -> Object:
    array = array_of_tensor(vm, self)
    if dtype is None:
        return array
    return call_function(vm, "astype", method("astype"), [array, dtype], {"copy": vm.const(False)}, arrayfunctions.numpy_astype, [array])
