"""NumPy's scalars and the functions on them: constants of a trace, computed by NumPy itself. Arrays stop the trace."""

from __future__ import annotations

from typing import Any

import numpy
import torch

from framejit import breaks
from framejit.objects import abstract
from framejit.objects.constobject import SCALARS, ConstObject
from framejit.objects.object import NotConstant, Object
from framejit.objects.registry import library, models, pure_methods, wraps
from framejit.objects.vm import VM
from framejit.guards.kinds import ValueIs
from framejit.guards.source import Source

SCALAR_TYPES: tuple[type, ...] = tuple(
    {numpy.dtype(code).type for code in "?bhilqBHILQefdgFDG"} | {numpy.intp, numpy.uintp, numpy.longlong, numpy.ulonglong}
)
KEEP_THE_TYPE = frozenset({torch.tensor, torch.as_tensor, torch.asarray})
"""These look at a NumPy scalar's own type; everywhere else torch takes one, it means the Python number of its value."""

ON_SCALARS = (
    "prod", "sum", "mean", "median", "std", "var", "max", "min", "amax", "amin", "round", "around", "argmax", "argmin", "isclose",
    "allclose", "ndim", "size", "clip", "all", "any", "dot", "real", "imag", "angle", "sinc", "interp", "trunc", "fix",
)  # fmt: skip
"""Functions that return one scalar for scalars, or for short lists of them, and do nothing else."""

pure_methods(*SCALAR_TYPES, *{base for cls in SCALAR_TYPES for base in cls.__mro__ if base.__module__ == "numpy"})


class ScalarObject(ConstObject):
    """A NumPy scalar: immutable, so one from outside is known by identity."""

    __slots__ = ()

    def constant(self, vm: VM) -> Any:
        if self.pending:
            assert self.source is not None
            vm.guard(ValueIs, self.source, self.value)
            vm.trail.set(self, "pending", False)
        return self.value

    def as_graph_argument(self, vm: VM) -> Any:
        if not isinstance(self.value, (numpy.floating, numpy.integer)):
            raise NotConstant(self)
        return self.constant(vm).item()

    def unary_op(self, vm: VM, symbol: str) -> Object | None:
        return abstract.fold(vm, abstract.UNARY[symbol][1], self.constant(vm))

    def binary_op(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        return self.with_number(vm, abstract.BINARY[symbol.removesuffix("=") if symbol in abstract.INPLACE else symbol][2], other, reflected)

    def compare(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        return self.with_number(vm, abstract.COMPARE[symbol][2], other, reflected)

    def with_number(self, vm: VM, function: Any, other: Object, reflected: bool) -> Object | None:
        """An operator between this and another number; None where the other is something else."""
        if other.cls not in SCALARS and other.cls not in SCALAR_TYPES:
            return None
        operands = (other.constant(vm), self.constant(vm)) if reflected else (self.constant(vm), other.constant(vm))
        return abstract.fold(vm, function, *operands)


@wraps(*SCALAR_TYPES)
def wrap_scalar(vm: VM, value: Any, source: Source | None) -> ScalarObject:
    return ScalarObject(value, source, pending=source is not None)


class NumpyFunction(ConstObject):
    """A ufunc, or one of NumPy's Python functions behind its dispatcher."""

    __slots__ = ()

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object]) -> Object:
        real = self.value
        name = getattr(real, "__name__", str(real))
        if not isinstance(real, numpy.ufunc) and (name not in ON_SCALARS or getattr(numpy, name, None) is not real):
            vm.unsupported(breaks.UnsupportedCall(f"numpy.{name}"))
        try:
            real_args = [vm.observe(arg).as_real(vm) for arg in args]
            real_kwargs = {key: vm.observe(arg).as_real(vm) for key, arg in kwargs.items()}
        except NotConstant as needed:
            vm.unsupported(breaks.UnsupportedCall(f"numpy.{name} on {needed.obj!r}"))
        found = abstract.fold(vm, real, *real_args, **real_kwargs)
        return found


@wraps(numpy.ufunc, type(numpy.sum), by_identity=True)
def wrap_function(vm: VM, value: Any, source: Source | None) -> NumpyFunction:
    return NumpyFunction(value, source)


def make_scalar(cls: type) -> None:
    """The constructor of a scalar type."""

    @models(cls)
    def construct(vm: VM, value: Object | None = None) -> Object:
        return abstract.fold(vm, cls, *[] if value is None else [vm.observe(value).as_real(vm)])


for _cls in SCALAR_TYPES:
    make_scalar(_cls)


@library
def keep_the_type(vm: VM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """Where torch asks a NumPy scalar for its dtype, its Python number won't do."""
    if function.value in KEEP_THE_TYPE and any(holds_scalar(vm, arg) for arg in (*args, *kwargs.values())):
        vm.unsupported(breaks.UnsupportedCall(f"{vm.name_of(function)} of a NumPy scalar"))
    return None


def holds_scalar(vm: VM, obj: Object) -> bool:
    """Whether a value is a NumPy scalar or a list or tuple with one in it."""
    obj = vm.observe(obj)
    if obj.cls in (list, tuple):
        return any(holds_scalar(vm, item) for item in abstract.iterate(vm, obj))
    return isinstance(obj, ScalarObject)
