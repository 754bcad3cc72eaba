"""NumPy's scalars: constants, with which NumPy computes while tracing. One that differs from call to call is a number of the call in a scalar's type."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy

from framejit import breaks
from framejit.guards.kinds import Equals, ValueIs
from framejit.guards.source import Pinned, Source
from framejit.guards.tensor_source import ScalarNumber
from framejit.objects.core import operators
from framejit.objects.core.object import VM, Codegen, Object
from framejit.objects.core.registry import wraps
from framejit.objects.numbers.numberobject import NumberObject, compared, deferred
from framejit.objects.types.constobject import SCALARS, ConstObject

SCALAR_TYPES: tuple[type, ...] = tuple(
    {numpy.dtype(code).type for code in "?bhilqBHILQefdgFDG"} | {numpy.intp, numpy.uintp, numpy.longlong, numpy.ulonglong}
)
WIDE: dict[type, type] = {numpy.int64: int, numpy.float64: float}
"""The types of scalars whose arithmetic is that of Python's numbers, as long as ints don't overflow and floats are finite, and these types."""
ARITHMETIC = frozenset({"+", "-", "*", "/"})
LARGEST = 2**62
EXACT = 2**53
"""Up to here, ints are exact as floats."""


def fold_numbers(vm: VM, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Object:
    """Call a pure function of NumPy on constants. Breaks for overflows and divisions by zero: the program configures what they do, each time."""
    try:
        with numpy.errstate(all="raise"):
            found = function(*args, **kwargs)
    except FloatingPointError as error:
        vm.unsupported(breaks.UnsupportedOperation(f"on NumPy's numbers: {error}"))
    except Exception as error:
        vm.raise_(type(error), *error.args)
    return vm.from_real(found)


class ScalarObject(ConstObject):
    """A NumPy scalar. `inner`: the Python number that it is, of one from outside, or computed from such; None if its type has numbers that Python doesn't have.

    One from outside is guarded by that number, else by its value, or by identity if `==` isn't precise enough: zeros have a sign, NaN differs from itself.
    """

    __slots__ = ("inner",)

    def __init__(self, value: Any, source: Source | None = None, pending: bool = False, inner: NumberObject | None = None) -> None:
        super().__init__(value, source, pending)
        self.inner = inner

    def constant(self, vm: VM) -> Any:
        if self.pending:
            if self.inner is not None:
                self.inner.constant(vm)
            else:
                assert self.source is not None
                vm.guard(Equals if is_compared_by_equality(self.value) else ValueIs, self.source, self.value)
            vm.trail.fill(self, "pending", False)
        return self.value

    def plain_number(self, vm: VM) -> NumberObject | None:
        """The Python number that it is, if that is symbolic; None otherwise."""
        return self.inner if self.pending and self.inner is not None and self.inner.symbol(vm) is not None else None

    def as_graph_argument(self, vm: VM) -> Any:
        number = self.plain_number(vm)
        return super().as_graph_argument(vm) if number is None else number.as_graph_argument(vm)

    def truth(self, vm: VM) -> bool:
        number = self.plain_number(vm)
        return super().truth(vm) if number is None else number.truth(vm)

    def unary_op(self, vm: VM, symbol: str) -> Object | None:
        return fold_numbers(vm, operators.UNARY[symbol][1], self.constant(vm))

    def binary_op(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        plain = symbol[:-1] if symbol in operators.INPLACE else symbol
        return computed(vm, plain, self, other, reflected) or self.with_number(vm, operators.BINARY[plain][2], other, reflected)

    def compare(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        numbers = numbers_of(vm, self, other, reflected)
        if numbers is not None and numbers[0].cls is numbers[1].cls:
            outcome = compared(vm, symbol, *numbers)
            if outcome is not None:
                return vm.from_real(numpy.bool_(outcome.constant(vm)))
        return self.with_number(vm, operators.COMPARE[symbol][2], other, reflected)

    def with_number(self, vm: VM, function: Any, other: Object, reflected: bool) -> Object | None:
        """An operation between this and another number; None if the other isn't a number."""
        if (other.cls not in SCALARS and other.cls not in SCALAR_TYPES) or not other.is_knowable():
            return None
        operands = (other.constant(vm), self.constant(vm)) if reflected else (self.constant(vm), other.constant(vm))
        return fold_numbers(vm, function, *operands)

    def reconstruct(self, cg: Codegen) -> None:
        if not self.pending or self.inner is None:
            super().reconstruct(cg)
            return
        cg.load(self.inner)
        cg.call_const(self.cls, 1)

    def referents(self) -> list[Object]:
        return [self.inner] if self.pending and self.source is None and self.inner is not None else []


def is_compared_by_equality(value: Any) -> bool:
    """Return whether scalars of this one's type that are equal to it are the same in everything."""
    return isinstance(value, (numpy.integer, numpy.bool_)) or bool(value == value and value.real != 0 and (value.imag != 0 or value.dtype.kind == "f"))


def numbers_of(vm: VM, scalar: ScalarObject, other: Object, reflected: bool) -> tuple[NumberObject, NumberObject] | None:
    """The left and the right operand as Python numbers, if NumPy computes with them as Python does, and one of them is symbolic; None otherwise."""
    found = [wide_number(vm, obj) for obj in ((other, scalar) if reflected else (scalar, other))]
    if found[0] is None or found[1] is None or not any(number is not None and number.symbol(vm) is not None for number in found):
        return None
    return found[0], found[1]


def wide_number(vm: VM, obj: Object) -> NumberObject | None:
    """The Python number that an operand is; None if NumPy doesn't compute with it as Python does."""
    if isinstance(obj, ScalarObject) and obj.cls in WIDE:
        return obj.inner if obj.pending else NumberObject(obj.value.item())
    return obj if isinstance(obj, NumberObject) and (obj.cls is float or abs(obj.value) <= EXACT) else None


def computed(vm: VM, symbol: str, scalar: ScalarObject, other: Object, reflected: bool) -> Object | None:
    """Arithmetic with a scalar that differs from call to call; None if NumPy has to compute it."""
    numbers = numbers_of(vm, scalar, other, reflected) if symbol in ARITHMETIC else None
    made = None if numbers is None else deferred(vm, symbol, *numbers)
    if not isinstance(made, NumberObject) or made.symbol(vm) is None or not stays_in_range(vm, made):
        return None
    return ScalarObject((numpy.float64 if made.cls is float else numpy.int64)(made.value), None, pending=True, inner=made)


def stays_in_range(vm: VM, number: NumberObject) -> bool:
    """Return whether NumPy's result is Python's: an int that doesn't overflow, or a float that is finite, which is guarded."""
    if number.cls is float:
        return vm.graph.shapes.is_computed(number)
    sym = number.symbolic(vm)
    return abs(number.value) <= LARGEST and vm.graph.shapes.decide(operator.le, sym, LARGEST) and vm.graph.shapes.decide(operator.ge, sym, -LARGEST)


@wraps(*SCALAR_TYPES)
def wrap_scalar(vm: VM, value: Any, source: Source | None) -> ScalarObject:
    pending = source is not None and not isinstance(source, Pinned)
    number = value.item() if pending and value.dtype.kind in "iuf" else None
    is_plain = source is not None and type(number) in (int, float)
    return ScalarObject(value, source, pending, NumberObject(number, source.child(ScalarNumber, type(value)), pending=True) if is_plain else None)  # type: ignore[union-attr]
