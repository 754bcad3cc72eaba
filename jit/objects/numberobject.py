"""Numbers: exact ints and floats, which are known, or from outside and not asked for yet, or computed from such.

A number from outside becomes known, and is guarded, when something asks for its value. Sums, differences and products don't ask:
they are numbers whose computation is deferred to the generated code, so that `self.step += 1` compiles once for all steps.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from framejit.objects.constobject import ConstObject
from framejit.objects.object import VM, Codegen, Object

MAX_DEPTH = 16
"""So many deferred computations may be in one another. A deeper one is asked for its value."""
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "+=": operator.add, "-=": operator.sub, "*=": operator.mul,
}  # fmt: skip
"""The operators that can wait. They can't fail on two numbers of one type, but for floats from huge ints."""


class NumberObject(ConstObject):
    """An exact int or float."""

    __slots__ = ()

    def unary_op(self, vm: VM, symbol: str) -> Object | None:
        return negated(self, symbol) if self.pending else None

    def binary_op(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        return deferred(vm, symbol, self, other, reflected)


class DeferredNumber(NumberObject):
    """A number that the trace has computed by `+`, `-` or `*` from numbers that aren't known. The generated code computes it anew in each call."""

    __slots__ = ("symbol", "operands", "depth")

    def __init__(self, symbol: str, operands: tuple[NumberObject, NumberObject], value: Any) -> None:
        super().__init__(value, None, pending=True)
        self.symbol = symbol
        self.operands = operands
        self.depth = 1 + max(depth_of(operand) for operand in operands)

    def constant(self, vm: VM) -> Any:
        if self.pending:
            for operand in self.operands:
                operand.constant(vm)
            vm.trail.set(self, "pending", False)
        return self.value

    def reconstruct(self, cg: Codegen) -> None:
        if not self.pending:
            cg.load_const(self.value)
            return
        left, right = self.operands
        cg.load(left)
        cg.load(right)
        cg.binary_op(self.symbol)

    def referents(self) -> list[Object]:
        return list(self.operands) if self.pending else []



def depth_of(number: NumberObject) -> int:
    """How many deferred computations are in one another."""
    return number.depth if type(number) is DeferredNumber else 0


def defers(left: NumberObject, right: NumberObject) -> bool:
    """Whether arithmetic on the two can wait. An int and a float only if the int is known: a huge one may overflow."""
    if left.cls is right.cls:
        return left.pending or right.pending
    if left.cls is float:
        return left.pending and not right.pending
    return right.pending and not left.pending


def simplified(vm: VM, symbol: str, left: NumberObject, right: NumberObject, value: Any) -> NumberObject:
    """A deferred `left symbol right`; `(x + 1) + 1` becomes `x + 2`, so that counters in loops don't grow."""
    if symbol in "+-" and type(left) is DeferredNumber and left.cls is int and right.cls is int and not right.pending:
        base, step = left.operands
        if left.symbol in "+-" and left.pending and not step.pending:
            total = (step.value if left.symbol == "+" else -step.value) + (right.value if symbol == "+" else -right.value)
            return DeferredNumber("+", (base, NumberObject(total)), value)
    result = DeferredNumber(symbol, (left, right), value)
    if result.depth > MAX_DEPTH:
        result.constant(vm)
        return NumberObject(value)
    return result


def deferred(vm: VM, symbol: str, number: NumberObject, other: Object, reflected: bool) -> Object | None:
    """`number symbol other` as a deferred number, or None where it must be computed now. `reflected`: the other way round."""
    function = ARITHMETIC.get(symbol)
    if function is None or not isinstance(other, NumberObject) or not defers(number, other):
        return None
    left, right = (other, number) if reflected else (number, other)
    try:
        value = function(left.value, right.value)
    except OverflowError:
        return None
    return simplified(vm, symbol[0], left, right, value)


def negated(number: NumberObject, symbol: str) -> Object | None:
    """`-x` as `0 - x`; for floats `-0.0 - x`, which gives zeros the right sign."""
    if symbol != "-":
        return None
    return DeferredNumber("-", (NumberObject(0 if number.cls is int else -0.0), number), -number.value)
