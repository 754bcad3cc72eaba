"""Methods of NumPy's scalars, its types and functions. On constants they are computed by NumPy itself, on arrays by tensors (objects/arrays/arraycall.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy
import torch

from framejit import breaks
from framejit.guards.source import Source
from framejit.library.numpy.arrays import on_constants
from framejit.library.numpy.scalars import SCALAR_TYPES, ScalarObject
from framejit.library.numpy.tensors import has_tensor, of_tensors
from framejit.objects.arrays import arrayfunctions
from framejit.objects.arrays.arraycall import call_changing, call_function, call_ufunc, call_ufunc_method
from framejit.objects.arrays.arrayoperands import has_array
from framejit.objects.arrays.arrayrules import BY_FUNCTION, CHANGING
from framejit.objects.arrays.ndarrayobject import ArrayObject, tensor_of_array
from framejit.objects.core import abstract, operators
from framejit.objects.core.delivery import Delivery
from framejit.objects.core.naming import callable_name
from framejit.objects.core.object import VM, IdentityConstant, Object, fold
from framejit.objects.core.registry import app, call_model, model_of, models, pure, unsupported, wraps
from framejit.objects.numbers.unbackednumber import UnbackedNumber, as_tensor
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchcall import enter
from framejit.objects.types.constobject import ConstObject
from framejit.plain import numpy as plain
from framejit.torch_state.torch_function_stack import default_device

ON_SCALARS = (
    "prod", "sum", "mean", "median", "std", "var", "max", "min", "amax", "amin", "round", "around", "argmax", "argmin", "isclose",
    "allclose", "ndim", "size", "clip", "all", "any", "trunc", "fix",
)  # fmt: skip
"""Functions that return one scalar for scalars, or for short lists of them, and have no side effects."""

ASK_OF_FLOATS = (numpy.isnan, numpy.isinf, numpy.isfinite)
"""Functions that the graph computes for a Python float that depends on data, since torch gives the same answers."""

MAKERS = ("linspace", "logspace", "geomspace", "array_equal", "isscalar", "triu_indices", "tril_indices", "diag_indices", "vander", "interp", "polyval", "ix_")
"""Functions that make arrays from constants, and have no side effects."""
UFUNC_METHODS = ("reduce", "accumulate", "reduceat", "outer", "at")

METHODS = ("tolist", "is_integer", "__float__", "__int__", "__index__", "__bool__", "__round__", "__abs__", "__hash__")
"""Methods whose result is a scalar or text; the others return arrays."""
for _base in {base for cls in SCALAR_TYPES for base in cls.__mro__ if issubclass(base, numpy.generic)}:
    pure(*[_base.__dict__[name] for name in METHODS if name in _base.__dict__])


for _base in {base for cls in SCALAR_TYPES for base in cls.__mro__ if "item" in vars(base)}:

    @models(_base.__dict__["item"])
    def item(vm: VM, self: Object, *index: Object, method: Any = _base.__dict__["item"]) -> Object:
        """The Python number that a scalar is."""
        number = self.plain_number(vm) if isinstance(self, ScalarObject) and not index else None
        return number or fold(vm, method, self.constant(vm), *[vm.observe(part).as_real(vm) for part in index])


def legacy_printing() -> Any:
    """The version whose printing style NumPy uses, as set by the program."""
    return numpy.get_printoptions()["legacy"]


def text_of(method: Any) -> None:
    """Register a method that returns a scalar as text."""

    @models(method)
    def render(vm: VM, self: Object, *spec: Object) -> Object:
        vm.guards.read(legacy_printing)
        return fold(vm, method, self.constant(vm), *[vm.observe(item).as_real(vm) for item in spec])


for _base in {base for cls in SCALAR_TYPES for base in cls.__mro__ if issubclass(base, numpy.generic)}:
    for _name in ("__repr__", "__str__", "__format__"):
        if _name in _base.__dict__:
            text_of(_base.__dict__[_name])


class NumpyFunction(ConstObject):
    """A ufunc, or one of NumPy's Python functions that go through its dispatcher."""

    __slots__ = ()

    def getattr(self, vm: VM, name: str) -> Object:
        method = vm.type_lookup(self.cls, name) if name in UFUNC_METHODS and self.cls is numpy.ufunc else None
        return Object.getattr(self, vm, name) if method is None else method.descriptor_get(vm, self, self.cls)

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        real = self.value
        name = getattr(real, "__name__", str(real))
        known, model = BY_FUNCTION.get(id(real)), model_of(real)
        assert callable(real)
        if model is not None:
            return call_model(vm, model, real, args, kwargs)
        if any(has_tensor(vm, arg) for arg in args):
            return of_tensors(vm, name, real, args, kwargs)
        if real in ASK_OF_FLOATS:
            args = [scalar_of(vm, arg) for arg in args]
        if any(has_array(vm, arg) for arg in (*args, *kwargs.values())):
            if isinstance(real, numpy.ufunc):
                return call_ufunc(vm, real, args, kwargs)
            if known is None:
                vm.unsupported(breaks.ArrayOperation(f"numpy.{name} of arrays"))
            if known == "where" and len(args) + len(kwargs) == 1:
                return call_function(vm, "nonzero", "numpy.where", args, kwargs)
            if known in CHANGING:
                return call_changing(vm, known, f"numpy.{known}", args, kwargs)
            return call_function(vm, known, f"numpy.{known}", args, kwargs)
        if not isinstance(real, numpy.ufunc) and known is None and ((name not in ON_SCALARS and name not in MAKERS) or getattr(numpy, name, None) is not real):
            vm.unsupported(breaks.UnsupportedCall(f"numpy.{name}"))
        return on_constants(vm, name, real, args, kwargs)


def scalar_of(vm: VM, arg: Object) -> Object:
    """A Python float that depends on data as the scalar that NumPy makes of it. Another argument stays as it is."""
    number = vm.observe(arg)
    tensor = as_tensor(vm, number) if isinstance(number, UnbackedNumber) and number.cls is float else None
    return ArrayObject(numpy.float64, tensor) if isinstance(tensor, TensorObject) else arg


# Until NumPy 1.24 the functions that go through the dispatcher are plain Python functions.
@wraps(numpy.ufunc, *{type(numpy.sum)} - {FunctionType}, by_identity=True)
def wrap_function(vm: VM, value: Any, source: Source | None) -> NumpyFunction:
    return NumpyFunction(value, source)


def ufunc_method(name: str) -> None:
    """Register a method of universal functions, such as numpy.add.reduce."""
    method = vars(numpy.ufunc)[name]

    @models(method)
    def call(vm: VM, self: Object, *args: Object, **kwargs: Object) -> Object:
        if any(has_array(vm, arg) for arg in (*args, *kwargs.values())):
            return call_ufunc_method(vm, self.constant(vm), name, args, kwargs)
        return on_constants(vm, name, method, [self, *args], kwargs)


for _name in UFUNC_METHODS:
    ufunc_method(_name)


app(numpy.ndenumerate, gives=numpy.ndenumerate)(plain.ndenumerate)
unsupported(breaks.ArrayOperation("a call of a numpy.vectorize"), numpy.vectorize.__call__)


def make_scalar(cls: type) -> None:
    """Register the constructor of a scalar type."""

    @models(cls)
    def construct(vm: VM, *args: Object) -> Object:
        if any(has_array(vm, arg) for arg in args):
            return call_function(vm, "astype", f"numpy.{cls.__name__}", args, {}, arrayfunctions.numpy_astype)
        return on_constants(vm, cls.__name__, cls, args, {})


for _cls in SCALAR_TYPES:
    make_scalar(_cls)


def tensor_of_numpy(vm: VM, function: Callable[..., Any], args: Sequence[Object], kwargs: dict[str, Object]) -> Object | None:
    """The result of `torch.tensor` or `torch.as_tensor` for an array; None if no argument is NumPy's. They ask a NumPy scalar for its dtype, so the
    scalar's Python number can't replace it."""
    first, copies = vm.observe(args[0]) if args else None, function is torch.tensor
    if isinstance(first, ArrayObject) and not first.is_scalar and (copies or not (first.backwards or first.read_only)):
        return of_array(vm, function, copies, first, args[1:], dict(kwargs))
    if any(holds_scalar(vm, arg) for arg in (*args, *kwargs.values())):
        vm.unsupported(breaks.UnsupportedCall(f"{callable_name(function)} of a NumPy scalar"))
    return None


def of_array(vm: VM, function: Callable[..., Any], copies: bool, array: ArrayObject, args: Sequence[Object], kwargs: dict[str, Object]) -> Object:
    """A tensor made from an array: one that shares its memory, or a copy."""
    requires_grad = kwargs.pop("requires_grad", None)
    if args or not set(kwargs) <= {"dtype", "device"} or (requires_grad is not None and not copies):
        vm.unsupported(breaks.ArrayOperation(f"{callable_name(function)} of an array with these arguments"))
    given = {key: arg for key, arg in kwargs.items() if vm.observe(arg).cls is not type(None)}
    device = vm.guards.read(default_device)
    if "device" not in given and device.type != "cpu":
        given["device"] = vm.const(device)
    found: Object = array.tensor(vm)
    if copies:
        found = enter(vm, torch.clone, [found], {"memory_format": vm.const(torch.contiguous_format)})
    else:
        found = tensor_of_array(vm, array)
    if given:
        found = enter(vm, torch.Tensor.to, [found], given)
    if requires_grad is not None and vm.observe(requires_grad).constant(vm):
        found = enter(vm, torch.Tensor.requires_grad_, [found])
    return found


def holds_scalar(vm: VM, obj: Object) -> bool:
    """Return whether a value is a NumPy scalar or a list or tuple with one in it."""
    obj = vm.observe(obj)
    if obj.cls in (list, tuple):
        return any(holds_scalar(vm, item) for item in abstract.iterate(vm, obj))
    return isinstance(obj, (ScalarObject, ArrayObject))


# Types.


@wraps(numpy.dtype, by_identity=True)
class DTypeObject(IdentityConstant):
    """A dtype of NumPy, known by identity: each of the usual ones is a single object."""

    __slots__ = ()

    def getattr(self, vm: VM, name: str) -> Object:
        found = getattr(self.value, name, None)
        if name == "__class__" or not isinstance(found, (str, int, type, numpy.dtype)):
            return super().getattr(vm, name)
        return vm.const(found)

    def compare(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        if not other.is_knowable() or not isinstance(other.value, (str, type, numpy.dtype)):
            return None
        operands = (other.constant(vm), self.value) if reflected else (self.value, other.constant(vm))
        return fold(vm, operators.COMPARE[symbol][2], *operands)


pure(numpy.promote_types)


@models(numpy.dtype)
def make_dtype(vm: VM, *args: Object) -> Object:
    return fold(vm, numpy.dtype, *[vm.observe(arg).constant(vm) for arg in args])
