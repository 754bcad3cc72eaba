"""Formulas of numbers for which sympy has no expression, such as `int(t * 10)`: shape programs compute them from numbers of the call, as Python does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from framejit.guards.shape_vm import LARGEST, OPERATIONS, SMALLEST, NotComputed
from framejit.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Formula:
    """An operation of shape programs on operands.

    Attributes:
        operation: one of `shape_vm.OPERATIONS`, or `constant`.
        operands: formulas, sympy's symbols of floats, and sympy's expressions of ints; the repr of a constant, which distinguishes 0.0 from -0.0.
        is_float: whether the result is a float; otherwise it is an int, or a truth value as an int.
    """

    operation: str
    operands: tuple[Any, ...]
    is_float: bool = False

    @property
    def constant(self) -> int | float:
        """The value of a constant."""
        (text,) = self.operands
        return float(text) if self.is_float else int(text)

    def value(self, leaves: Mapping[Any, int | float]) -> Any:
        """The number for these values of sympy's expressions, as a program computes it.

        Raises ArithmeticError or ValueError if a program doesn't compute it: an int exceeds 64 bits, a divisor is zero, a power is complex.
        """
        if self.operation == "constant":
            return self.constant
        found = OPERATIONS[self.operation].run(*[part.value(leaves) if isinstance(part, Formula) else leaves[part] for part in self.operands])
        if isinstance(found, int) and not SMALLEST <= found <= LARGEST:
            raise NotComputed
        return found


def constant(value: int | float) -> Formula:
    """The formula of a known number."""
    return Formula("constant", (repr(value),), type(value) is float)
