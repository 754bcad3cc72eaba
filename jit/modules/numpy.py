"""NumPy's scalars and the functions on them: constants of a trace, computed by NumPy itself. Arrays stop the trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy
import torch

from framejit import breaks
from framejit.guards.kinds import Equals, ValueIs
from framejit.guards.source import Pinned, Source
from framejit.objects import abstract, operators
from framejit.objects.constobject import SCALARS, ConstObject
from framejit.objects.delivery import Delivery
from framejit.objects.naming import callable_name
from framejit.objects.object import VM, NotConstant, Object, fold
from framejit.objects.registry import models, pure, wraps
from framejit.objects.torchcall import enter

SCALAR_TYPES: tuple[type, ...] = tuple(
    {numpy.dtype(code).type for code in "?bhilqBHILQefdgFDG"} | {numpy.intp, numpy.uintp, numpy.longlong, numpy.ulonglong}
)
ON_SCALARS = (
    "prod", "sum", "mean", "median", "std", "var", "max", "min", "amax", "amin", "round", "around", "argmax", "argmin", "isclose",
    "allclose", "ndim", "size", "clip", "all", "any", "trunc", "fix",
)  # fmt: skip
"""Functions that return one scalar for scalars, or for short lists of them, and do nothing else."""

METHODS = ("item", "tolist", "is_integer", "__float__", "__int__", "__index__", "__bool__", "__round__", "__abs__", "__hash__")
"""Methods whose result is a scalar or text; others return arrays."""
for _base in {base for cls in SCALAR_TYPES for base in cls.__mro__ if issubclass(base, numpy.generic)}:
    pure(*[_base.__dict__[name] for name in METHODS if name in _base.__dict__])


def legacy_printing() -> Any:
    """The version in whose manner NumPy prints, as the program has set it."""
    return numpy.get_printoptions()["legacy"]


def text_of(method: Any) -> None:
    """A method that gives a scalar as text."""

    @models(method)
    def render(vm: VM, self: Object, *spec: Object) -> Object:
        vm.guards.read(legacy_printing)
        return fold(vm, method, self.constant(vm), *[vm.observe(item).as_real(vm) for item in spec])


for _base in {base for cls in SCALAR_TYPES for base in cls.__mro__ if issubclass(base, numpy.generic)}:
    for _name in ("__repr__", "__str__", "__format__"):
        if _name in _base.__dict__:
            text_of(_base.__dict__[_name])


def fold_numbers(vm: VM, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Object:
    """Call a pure function of NumPy's on constants. What becomes of overflows and divisions by zero is the program's to say, and to see each time."""
    try:
        with numpy.errstate(all="raise"):
            found = function(*args, **kwargs)
    except FloatingPointError as error:
        vm.unsupported(breaks.UnsupportedOperation(f"on NumPy's numbers: {error}"))
    except Exception as error:
        vm.raise_(type(error), *error.args)
    return vm.from_real(found)


class ScalarObject(ConstObject):
    """A NumPy scalar. One from outside is guarded by its value; by identity where `==` doesn't tell all: zeros have a sign, NaN differs from itself."""

    __slots__ = ()

    def constant(self, vm: VM) -> Any:
        if self.pending:
            assert self.source is not None
            vm.guard(Equals if is_told_by_equality(self.value) else ValueIs, self.source, self.value)
            vm.trail.set(self, "pending", False)
        return self.value

    def unary_op(self, vm: VM, symbol: str) -> Object | None:
        return fold_numbers(vm, operators.UNARY[symbol][1], self.constant(vm))

    def binary_op(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        plain = symbol[:-1] if symbol in operators.INPLACE else symbol
        return self.with_number(vm, operators.BINARY[plain][2], other, reflected)

    def compare(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        return self.with_number(vm, operators.COMPARE[symbol][2], other, reflected)

    def with_number(self, vm: VM, function: Any, other: Object, reflected: bool) -> Object | None:
        """An operator between this and another number; None where the other is something else."""
        if (other.cls not in SCALARS and other.cls not in SCALAR_TYPES) or not other.is_knowable():
            return None
        operands = (other.constant(vm), self.constant(vm)) if reflected else (self.constant(vm), other.constant(vm))
        return fold_numbers(vm, function, *operands)


def is_told_by_equality(value: Any) -> bool:
    """Whether equal scalars of this one's type are the same in everything."""
    return isinstance(value, (numpy.integer, numpy.bool_)) or bool(value == value and value.real != 0 and (value.imag != 0 or value.dtype.kind == "f"))


@wraps(*SCALAR_TYPES)
def wrap_scalar(vm: VM, value: Any, source: Source | None) -> ScalarObject:
    return ScalarObject(value, source, pending=source is not None and not isinstance(source, Pinned))


def fold_to_scalar(vm: VM, name: str, function: Callable[..., Any], args: Sequence[Object], kwargs: dict[str, Object]) -> Object:
    """Call a function of NumPy on constants. An array as its result can't be one of the trace: it is mutable."""
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
    if type(found) not in SCALAR_TYPES and type(found) not in SCALARS:
        vm.unsupported(breaks.UnsupportedCall(f"numpy.{name}, which returns a {type(found).__name__}"))
    return vm.from_real(found)


class NumpyFunction(ConstObject):
    """A ufunc, or one of NumPy's Python functions behind its dispatcher."""

    __slots__ = ()

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        real = self.value
        name = getattr(real, "__name__", str(real))
        if not isinstance(real, numpy.ufunc) and (name not in ON_SCALARS or getattr(numpy, name, None) is not real):
            vm.unsupported(breaks.UnsupportedCall(f"numpy.{name}"))
        assert callable(real)
        return fold_to_scalar(vm, name, real, args, kwargs)


# Until NumPy 1.24 the functions behind the dispatcher are plain Python functions.
@wraps(numpy.ufunc, *{type(numpy.sum)} - {FunctionType}, by_identity=True)
def wrap_function(vm: VM, value: Any, source: Source | None) -> NumpyFunction:
    return NumpyFunction(value, source)


def make_scalar(cls: type) -> None:
    """The constructor of a scalar type."""

    @models(cls)
    def construct(vm: VM, *args: Object) -> Object:
        return fold_to_scalar(vm, cls.__name__, cls, args, {})


for _cls in SCALAR_TYPES:
    make_scalar(_cls)


def keep_the_type(function: Callable[..., Any]) -> None:
    """The function asks a NumPy scalar for its dtype, so the scalar's Python number won't do."""

    @models(function)
    def make(vm: VM, *args: Object, **kwargs: Object) -> Object:
        if any(holds_scalar(vm, arg) for arg in (*args, *kwargs.values())):
            vm.unsupported(breaks.UnsupportedCall(f"{callable_name(function)} of a NumPy scalar"))
        return enter(vm, function, args, kwargs)


for _function in (torch.tensor, torch.as_tensor):
    keep_the_type(_function)


def holds_scalar(vm: VM, obj: Object) -> bool:
    """Whether a value is a NumPy scalar or a list or tuple with one in it."""
    obj = vm.observe(obj)
    if obj.cls in (list, tuple):
        return any(holds_scalar(vm, item) for item in abstract.iterate(vm, obj))
    return isinstance(obj, ScalarObject)
