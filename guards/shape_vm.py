"""Defines programs over the sizes and numbers of a call, and the meaning of their operations. native/shape_vm.cpp runs them.

A program computes in registers, which hold its inputs, then its constants, then the result of each instruction. Ints are exact and fit into 64 bits,
floats are Python's. A demand (an operation named `need...`) that isn't met ends the program. So does everything that can't be computed exactly: an int that
grows too large, a division by zero, a float that can't be converted to an int.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from framejit._runtime import SHAPE_OPERATIONS
from framejit.quick_dataclass import dataclass

SMALLEST, LARGEST = -(1 << 63), (1 << 63) - 1
LARGEST_IN_FLOAT = 1 << 53
"""Up to this number, every int can be represented exactly as a float."""


class NotComputed(ArithmeticError):
    """A program can't compute something, because the result would differ from Python's."""


def shift_left(value: int, by: int) -> int:
    if by < 0 or (by > 64 and value):
        raise NotComputed
    return value << by if value else 0


def shift_right(value: int, by: int) -> int:
    return value >> min(by, 64)  # negative: ValueError


def power(base: int, exponent: int) -> int:
    if exponent < 0 or (exponent > 64 and abs(base) > 1):
        raise NotComputed
    return int(base**exponent)


def common_divisor(left: int, right: int) -> int:
    if SMALLEST in (left, right):
        raise NotComputed
    return math.gcd(left, right)


def same_float(value: int) -> float:
    if abs(value) > LARGEST_IN_FLOAT:
        raise NotComputed
    return float(value)


def true_divide(left: int, right: int) -> float:
    return same_float(left) / same_float(right)


def float_power(base: float, exponent: float) -> float:
    found = base**exponent
    if type(found) is not float:
        raise NotComputed  # a complex number
    return found


FUNCTIONS = ("exp", "log", "log2", "log10")
"""The functions of the C library that programs compute, as Python's math module does."""


def of_finite(function: Callable[[float], float]) -> Callable[[float], float]:
    """The function for finite numbers. For others, a program doesn't compute it."""

    def of(number: float) -> float:
        if not math.isfinite(number):
            raise NotComputed
        return function(number)

    return of


class ShapeOperation(NamedTuple):
    """An operation of programs: `run` computes it from the values of its operands' registers.

    text: the operation as Python writes it, with {0}, {1} and {2} for its operands. binds: how tightly it binds, as in `PRECEDENCE`; operands that bind less
    tightly are put in parentheses.
    """

    run: Callable[..., Any]
    operands: int
    text: str
    binds: int


LOOSEST, CONDITION, OR, AND, NOT, COMPARISON, BIT_OR, BIT_XOR, BIT_AND, SHIFT, SUM, PRODUCT, POWER, ATOM = range(14)


def select(condition: bool, then: Any, otherwise: Any) -> Any:
    return then if condition else otherwise


COMPARISONS = {"eq": (operator.eq, "=="), "ne": (operator.ne, "!="), "le": (operator.le, "<="), "lt": (operator.lt, "<")}

OPERATIONS: dict[str, ShapeOperation] = {
    "add": ShapeOperation(operator.add, 2, "{0} + {1}", SUM),
    "sub": ShapeOperation(operator.sub, 2, "{0} - {1}", SUM),
    "mul": ShapeOperation(operator.mul, 2, "{0} * {1}", PRODUCT),
    "floordiv": ShapeOperation(operator.floordiv, 2, "{0} // {1}", PRODUCT),
    "mod": ShapeOperation(operator.mod, 2, "{0} % {1}", PRODUCT),
    "power": ShapeOperation(power, 2, "{0} ** {1}", POWER),
    "minimum": ShapeOperation(min, 2, "min({0}, {1})", ATOM),
    "maximum": ShapeOperation(max, 2, "max({0}, {1})", ATOM),
    "magnitude": ShapeOperation(abs, 1, "abs({0})", ATOM),
    "bit_and": ShapeOperation(operator.and_, 2, "{0} & {1}", BIT_AND),
    "bit_or": ShapeOperation(operator.or_, 2, "{0} | {1}", BIT_OR),
    "bit_xor": ShapeOperation(operator.xor, 2, "{0} ^ {1}", BIT_XOR),
    "shift_left": ShapeOperation(shift_left, 2, "{0} << {1}", SHIFT),
    "shift_right": ShapeOperation(shift_right, 2, "{0} >> {1}", SHIFT),
    **{name: ShapeOperation(run, 2, f"{{0}} {sign} {{1}}", COMPARISON) for name, (run, sign) in COMPARISONS.items()},
    "both": ShapeOperation(operator.and_, 2, "{0} and {1}", AND),
    "either": ShapeOperation(operator.or_, 2, "{0} or {1}", OR),
    "negation": ShapeOperation(operator.not_, 1, "not {0}", NOT),
    "select": ShapeOperation(select, 3, "{1} if {0} else {2}", CONDITION),
    "to_float": ShapeOperation(float, 1, "float({0})", ATOM),
    "same_float": ShapeOperation(same_float, 1, "{0}", ATOM),
    "true_divide": ShapeOperation(true_divide, 2, "{0} / {1}", PRODUCT),
    "float_add": ShapeOperation(operator.add, 2, "{0} + {1}", SUM),
    "float_sub": ShapeOperation(operator.sub, 2, "{0} - {1}", SUM),
    "float_mul": ShapeOperation(operator.mul, 2, "{0} * {1}", PRODUCT),
    "float_divide": ShapeOperation(operator.truediv, 2, "{0} / {1}", PRODUCT),
    "float_power": ShapeOperation(float_power, 2, "{0} ** {1}", POWER),
    "float_root": ShapeOperation(math.sqrt, 1, "math.sqrt({0})", ATOM),
    "float_magnitude": ShapeOperation(abs, 1, "abs({0})", ATOM),
    **{f"float_{name}": ShapeOperation(run, 2, f"{{0}} {sign} {{1}}", COMPARISON) for name, (run, sign) in COMPARISONS.items()},
    "float_floordiv": ShapeOperation(operator.floordiv, 2, "{0} // {1}", PRODUCT),
    "float_mod": ShapeOperation(operator.mod, 2, "{0} % {1}", PRODUCT),
    **{f"float_{name}": ShapeOperation(of_finite(getattr(math, name)), 1, f"math.{name}({{0}})", ATOM) for name in FUNCTIONS},
    "common_divisor": ShapeOperation(common_divisor, 2, "math.gcd({0}, {1})", ATOM),
    "truncate": ShapeOperation(math.trunc, 1, "int({0})", ATOM),
    "floor": ShapeOperation(math.floor, 1, "math.floor({0})", ATOM),
    "ceiling": ShapeOperation(math.ceil, 1, "math.ceil({0})", ATOM),
    "nearest": ShapeOperation(round, 1, "round({0})", ATOM),
    "need": ShapeOperation(bool, 1, "{0}", LOOSEST),
    **{f"need_{name}": ShapeOperation(run, 2, f"{{0}} {sign} {{1}}", COMPARISON) for name, (run, sign) in COMPARISONS.items()},
    "need_divisible": ShapeOperation(lambda value, by: value % by == 0, 2, "{0} % {1} == 0", PRODUCT),
}  # fmt: skip
"""All operations, by name; the C++ side has the same names."""


AMBIGUOUS = (CONDITION, COMPARISON, POWER)
"""Operations that need parentheses if they are operands of an operation of the same kind."""
AROUND = {name: f"{{1}} {sign} {{0}}" for kind in ("", "float_", "need_") for name, sign in ((f"{kind}le", ">="), (f"{kind}lt", ">"))}
"""The texts of comparisons with their sides exchanged, which are used if a constant is on the left."""


class ShapeInstruction(NamedTuple):
    """One step of a program. Operands are numbers of registers; those that the operation doesn't take are 0."""

    operation: str
    first: int
    second: int = 0
    third: int = 0


def bits(value: int | float) -> int:
    """A constant as the C++ side takes it: an int unchanged, a float as its bits."""
    return int(struct.unpack("<q", struct.pack("<d", value))[0]) if type(value) is float else int(value)


@dataclass(frozen=True)
class ShapeProgram:
    """A program that checks demands on ints and floats.

    inputs: the number of inputs. constants: ints or floats. instructions: in the order in which they run. origins: for each instruction, the number of the
    expression (in the list that the program was made from) that it demands; None if it demands nothing.
    """

    inputs: int
    constants: tuple[int | float, ...]
    instructions: tuple[ShapeInstruction, ...]
    origins: tuple[int | None, ...]

    def failing(self, values: Sequence[int | float]) -> int | None:
        """The number of the first instruction with a demand that isn't met, or that can't be computed; None if all demands are met."""
        registers: list[Any] = [*values, *self.constants]
        for number, (name, *operands) in enumerate(self.instructions):
            operation = OPERATIONS[name]
            try:
                found = operation.run(*(registers[operand] for operand in operands[: operation.operands]))
            except (ArithmeticError, ValueError):
                return self.demand_at(number)
            too_large = type(found) is int and not SMALLEST <= found <= LARGEST
            if too_large or (self.origins[number] is not None and not found):
                return self.demand_at(number)
            registers.append(found)
        return None

    def demand_at(self, number: int) -> int:
        """The first demand from an instruction on, for which the instruction computes something."""
        return next(i for i in range(number, len(self.instructions)) if self.origins[i] is not None)

    @cached_property
    def demands(self) -> tuple[int, ...]:
        """The instructions that demand something."""
        return tuple(number for number, origin in enumerate(self.origins) if origin is not None)

    def native(self) -> tuple[int, ...]:
        """The program as numbers: the number of constants, the constants, the number of instructions, and the instructions."""
        code = (number for name, *operands in self.instructions for number in (SHAPE_OPERATIONS[name], *operands))
        return len(self.constants), *map(bits, self.constants), len(self.instructions), *code

    def text(self, number: int, names: Sequence[str]) -> str:
        """The Python expression that an instruction computes or demands. `names` are the names of the inputs."""
        return self._text(self.inputs + len(self.constants) + number, names)[0]

    def constant_of(self, register: int) -> int | float | None:
        """The constant that a register holds, if it holds one."""
        place = register - self.inputs
        return self.constants[place] if 0 <= place < len(self.constants) else None

    def _text(self, register: int, names: Sequence[str]) -> tuple[str, int]:
        """The Python expression of a register's value, and how tightly it binds."""
        if register < self.inputs:
            return names[register], ATOM
        constant = self.constant_of(register)
        if constant is not None:
            return repr(constant), ATOM if constant >= 0 else PRODUCT
        name, *operands = self.instructions[register - self.inputs - len(self.constants)]
        operation = OPERATIONS[name]
        if name == "same_float":
            return self._text(operands[0], names)
        constant = self.constant_of(operands[0])
        if name == "sub" and constant == 0:
            name, operands, operation = "minus", operands[1:], ShapeOperation(operator.neg, 1, "-{0}", PRODUCT)
        elif name in AROUND and constant is not None:
            operation = operation._replace(text=AROUND[name])
        texts = []
        for place, operand in enumerate(operands[: operation.operands]):
            text, binds = self._text(operand, names)
            loose = binds < operation.binds or (binds == operation.binds and (place > 0 or binds in AMBIGUOUS))
            texts.append(f"({text})" if loose and operation.binds < ATOM else text)
        return operation.text.format(*texts), operation.binds

    def inputs_of(self, number: int) -> tuple[int, ...]:
        """The inputs that an instruction depends on, in their order."""
        found: set[int] = set()
        waiting = [self.inputs + len(self.constants) + number]
        while waiting:
            register = waiting.pop()
            if register < self.inputs:
                found.add(register)
            elif register >= self.inputs + len(self.constants):
                name, *operands = self.instructions[register - self.inputs - len(self.constants)]
                waiting += operands[: OPERATIONS[name].operands]
        return tuple(sorted(found))
