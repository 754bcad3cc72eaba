"""Turns programs over sizes and numbers, which the guard walk runs, back into sympy conditions, which can be negated and solved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy
from torch.utils._sympy import functions as shape

from framejit.guards.shape_vm import FUNCTIONS, OPERATIONS, ShapeProgram


def demands_of(program: ShapeProgram, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """The conditions that a program demands, in the order of `program.demands`. `inputs`: symbols, or other expressions, that stand for its inputs.

    A program also rejects inputs for which an intermediate int exceeds 64 bits, or something can't be computed. The conditions don't include that.
    """
    registers: list[Any] = [*inputs, *(sympy.sympify(constant) for constant in program.constants)]
    found = []
    for (name, *operands), origin in zip(program.instructions, program.origins, strict=True):
        result = EXPRESSIONS[name](*(registers[operand] for operand in operands[: OPERATIONS[name].operands]))
        if origin is not None:
            found.append(result)
        registers.append(result)
    return tuple(found)


COMPARISONS: dict[str, Callable[..., Any]] = {"eq": sympy.Eq, "ne": sympy.Ne, "le": sympy.Le, "lt": sympy.Lt}

EXPRESSIONS: dict[str, Callable[..., Any]] = {
    "add": sympy.Add,
    "sub": lambda a, b: a - b,
    "mul": sympy.Mul,
    "floordiv": shape.FloorDiv,
    "mod": shape.PythonMod,
    "power": shape.PowByNatural,
    "minimum": shape.Min,
    "maximum": shape.Max,
    "magnitude": sympy.Abs,
    "bit_and": shape.BitwiseFn_bitwise_and,
    "bit_or": shape.BitwiseFn_bitwise_or,
    "bit_xor": shape.BitwiseFn_bitwise_xor,
    "shift_left": shape.LShift,
    "shift_right": shape.RShift,
    **COMPARISONS,
    "both": sympy.And,
    "either": sympy.Or,
    "negation": sympy.Not,
    "select": lambda condition, then, otherwise: shape.Where(condition, then, otherwise),
    "to_float": shape.ToFloat,
    "same_float": shape.ToFloat,
    "true_divide": shape.IntTrueDiv,
    "float_add": sympy.Add,
    "float_sub": lambda a, b: a - b,
    "float_mul": sympy.Mul,
    "float_divide": shape.FloatTrueDiv,
    "float_power": shape.FloatPow,
    "float_root": shape.OpaqueUnaryFn_sqrt,
    "float_magnitude": sympy.Abs,
    **{f"float_{name}": relation for name, relation in COMPARISONS.items()},
    "float_floordiv": sympy.Function("FloatFloorDiv", real=True),
    "float_mod": sympy.Function("FloatMod", real=True),
    **{f"float_{name}": sympy.Function(f"Float{name.capitalize()}", real=True) for name in FUNCTIONS},
    "common_divisor": sympy.Function("CommonDivisor", integer=True),
    "truncate": shape.TruncToInt,
    "floor": shape.FloorToInt,
    "ceiling": shape.CeilToInt,
    "nearest": shape.RoundToInt,
    "need": lambda condition: condition,
    **{f"need_{name}": relation for name, relation in COMPARISONS.items()},
    "need_divisible": lambda number, divisor: sympy.Eq(shape.PythonMod(number, divisor), 0),
}
"""By the name of an operation of shape_vm.OPERATIONS."""
