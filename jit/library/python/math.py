"""math and cmath: pure functions of numbers."""

from __future__ import annotations

import cmath
import math
from types import BuiltinFunctionType

import torch

from framejit.guards.source import MISSING
from framejit.objects.core import abstract, operators
from framejit.objects.core.object import VM, Object, call_special, fold
from framejit.objects.core.registry import models, pure
from framejit.objects.numbers.numberobject import NumberObject, by_formula, converted, deferred, is_sure, plain_number, rounded
from framejit.objects.numbers.pythonnumbers import OF_ONE
from framejit.objects.numbers.unbackednumber import UnbackedNumber, as_tensor, checked
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchcall import enter
from framejit.objects.types.waitingtext import waits

for _module in (math, cmath):
    pure(*[_function for _function in vars(_module).values() if isinstance(_function, BuiltinFunctionType)])


@models(math.prod)
def prod(vm: VM, iterable: Object, *, start: Object | None = None) -> Object:
    total = vm.const(1) if start is None else start
    for item in abstract.each(vm, iterable):
        total = operators.binary_op(vm, "*", total, item)
    return total


def number_of(vm: VM, x: Object) -> Object:
    """An argument as a function gets it: for a tensor, the number that float() gives."""
    x = vm.observe(x)
    return vm.observe(abstract.call(vm, vm.const(float), [x])) if isinstance(x, TensorObject) else x


def of_one_number(name: str) -> None:
    """Register a function whose result can be computed later if its argument isn't known."""
    function = getattr(math, name)

    def model(vm: VM, x: Object, *others: Object) -> Object:
        x = number_of(vm, x)
        x = plain_number(vm, x) or x
        symbolic = None if others else converted(vm, f"math.{name}", x) or checked(vm, f"math.{name}", [x], float)
        return symbolic or fold(vm, function, x.as_real(vm), *[other.as_real(vm) for other in others])

    models(function)(model)


for _name in sorted(OF_ONE - {"floor", "ceil", "trunc"}):
    of_one_number(_name)


def question(name: str) -> None:
    """Register a predicate of floats: for a float read from a tensor, the graph computes it; for one that varies, it is guarded to be finite if it is."""
    function = getattr(math, name)

    def model(vm: VM, x: Object) -> Object:
        x = number_of(vm, x)
        if isinstance(x, UnbackedNumber) and x.cls is float:
            tensor = as_tensor(vm, x)
            if isinstance(tensor, TensorObject):
                return enter(vm, torch.Tensor.item, [enter(vm, getattr(torch, name), [tensor])])
        if isinstance(x, NumberObject) and x.cls is float and x.symbol(vm) is not None and is_sure(vm, x, lambda within: True):
            return vm.const(function(0.0))
        return fold(vm, function, x.as_real(vm))

    models(function)(model)


for _name in ("isnan", "isinf", "isfinite"):
    question(_name)


@models(math.gcd)
def common_divisor(vm: VM, *integers: Object) -> Object:
    numbers = [vm.observe(number) for number in integers]
    if len(numbers) == 2 and all(isinstance(number, NumberObject) and number.cls is int for number in numbers):
        symbolic = by_formula(vm, "math.gcd", *numbers)  # type: ignore[arg-type]
        if symbolic is not None:
            return symbolic
    return fold(vm, math.gcd, *[operators.index(vm, number) for number in numbers])


@models(math.pow)
def power(vm: VM, x: Object, y: Object) -> Object:
    """`math.pow` equals the operator `**` for floats between 0 and 1, and for numbers that are converted to such."""
    x, y = vm.observe(x), vm.observe(y)
    numbers = [converted(vm, "float", number) or number for number in (x, y)]
    waiting = checked(vm, "math.pow", [x, y], float)
    if waiting is not None:
        return waiting
    if all(isinstance(number, NumberObject) for number in numbers) and any(waits(vm, number) for number in (x, y)):
        base, exponent = (vm.const(float(number.value)) if number.is_known() else number for number in numbers)
        symbolic = deferred(vm, "**", base, exponent) if isinstance(base, NumberObject) and isinstance(exponent, NumberObject) else None
        if symbolic is not None:
            return symbolic
    return fold(vm, math.pow, x.as_real(vm), y.as_real(vm))


def rounding(name: str) -> None:
    """Register math.ceil, floor or trunc, which ask the type first."""
    function = getattr(math, name)

    def model(vm: VM, number: Object) -> Object:
        number = vm.observe(number)
        symbolic = number if number.is_symbolic(vm) and number.cls is int else converted(vm, "int" if name == "trunc" else f"math.{name}", number)
        symbolic = symbolic or rounded(vm, f"math.{name}", number) or checked(vm, f"math.{name}", [number], int)
        if symbolic is not None:
            return symbolic
        if number.is_knowable():
            return fold(vm, function, number.constant(vm))
        found = call_special(vm, number, f"__{name}__")
        if found is not None:
            return found
        if name == "trunc":
            vm.raise_(TypeError, f"type {number.type_name} doesn't define __trunc__ method")
        as_float = call_special(vm, number, "__float__")
        if as_float is None and vm.raw_type_lookup(number.cls, "__index__") is not MISSING:
            return fold(vm, function, float(operators.index(vm, number)))
        if as_float is None:
            vm.raise_(TypeError, f"must be real number, not {number.type_name}")
        return fold(vm, function, vm.observe(as_float).constant(vm))

    models(function)(model)


for _name in ("ceil", "floor", "trunc"):
    rounding(_name)
