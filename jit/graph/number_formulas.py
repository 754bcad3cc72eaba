"""Numbers of a trace that guards compute by formulas: ints with symbols of their own that sympy has no expression for, and comparisons of floats.

`int(t * 10)` gets a symbol about which torch knows nothing but its value in this call. What the trace and the backend assume about the symbol is guarded: the
guard's program computes the number from the call's numbers. The graph takes it as an input, or computes it in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import SymInt

from framejit.graph.torch_sources import InputSource
from framejit.guards.formulas import Formula, constant
from framejit.guards.shape_vm import FUNCTIONS, LARGEST, SMALLEST
from framejit.guards.source import UserLine
from framejit.objects.numbers.numberobject import COMPARED, COMPARISONS, LARGEST_FLOAT, NumberObject
from framejit.torch_state.symbols import symbolic_shapes, sympy

if TYPE_CHECKING:
    from framejit.graph.shape_env import TraceShapeEnv

Facts = dict[Any, UserLine | None]
RELATIONS = {"<": "Lt", "<=": "Le", "==": "Eq", "!=": "Ne", ">": "Gt", ">=": "Ge"}
"""For each relation, the name of sympy's form of it."""
OPPOSITES = {"<": ">=", "<=": ">", "==": "!=", "!=": "==", ">": "<=", ">=": "<"}
"""For each relation, the one that holds between two numbers if it doesn't, and neither is nan."""
OF_FLOATS: dict[str, str] = {
    "+": "float_add", "-": "float_sub", "*": "float_mul", "//": "float_floordiv", "%": "float_mod", "**": "float_power", "/": "float_divide",
    "math.sqrt": "float_root", **{f"math.{name}": f"float_{name}" for name in FUNCTIONS},
}  # fmt: skip
"""Operations with a float as their result: int operands are converted first."""
OF_INTS: dict[str, str] = {
    "|": "bit_or", "&": "bit_and", "^": "bit_xor", "<<": "shift_left", ">>": "shift_right", "**": "power", "//": "floordiv", "%": "mod",
    "math.gcd": "common_divisor",
}  # fmt: skip
ROUNDINGS: dict[str, str] = {"int": "truncate", "math.floor": "floor", "math.ceil": "ceiling", "nearest": "nearest"}


class NumberFormulas:
    """The formulas of one trace.

    Attributes:
        formulas: by symbol.
        facts: what has been assumed about numbers with formulas.
    """

    def __init__(self, leaf: Callable[[NumberObject], Any], env: Callable[[], TraceShapeEnv]) -> None:
        self.formulas: dict[sympy.Symbol, Formula] = {}
        self.facts: Facts = {}
        self._leaf = leaf
        self._env = env
        self._symbols: dict[Formula, sympy.Symbol] = {}
        self._ints: dict[sympy.Symbol, SymInt] = {}
        self._leaves: dict[Any, Any] = {}

    def of(self, number: NumberObject) -> Any:
        """The formula of a number, a sympy expression if it has one, or None if programs can't compute it."""
        if not number.pending:
            return constant(number.value) if fits(number.value) else None
        found = self._leaf(number)
        if found is not None:
            if not all(fits(int(atom)) for atom in found.atoms(sympy.Integer)):
                return None
            self._leaves[found] = number.value
            return found
        parts = [self.of(operand) for operand in number.operands]
        return of_operation(number, parts) if parts and None not in parts else None

    def symbol(self, number: NumberObject) -> sympy.Symbol | None:
        """The symbol of a number that programs compute, given the present numbers; None if they don't."""
        found = self.of(number)
        if not isinstance(found, Formula):
            return found
        symbol = self._symbols.get(found)
        if symbol is None:
            try:
                value = found.value(self._leaves)
            except (ArithmeticError, ValueError):
                return None
            if value != number.value or found.is_float is not (number.cls is float):
                return None
            symbol = self._new_symbol(number)
            self._symbols[found], self.formulas[symbol] = symbol, found
        return symbol

    def _new_symbol(self, number: NumberObject) -> sympy.Symbol:
        if number.cls is float:
            return sympy.Symbol(f"computed{len(self._symbols)}", real=True)
        sym = self._env().create_unspecified_symint_and_symbol(number.value, InputSource(f"computed{len(self._symbols)}"), symbolic_shapes.DimDynamic.DYNAMIC)
        assert type(sym) is SymInt
        symbol = sym.node._expr
        assert isinstance(symbol, sympy.Symbol)
        self._ints[symbol] = sym
        return symbol

    def int_of(self, number: NumberObject, limit: int, line: UserLine | None) -> SymInt | None:
        """The SymInt of an int with a formula, which is guarded to be no larger than `limit`; None if it has none."""
        if abs(number.value) > limit:
            return None
        symbol = self.symbol(number)
        if symbol not in self._ints:
            return None
        self.facts.setdefault(sympy.Le(symbol, limit, evaluate=False), line)
        self.facts.setdefault(sympy.Ge(symbol, -limit, evaluate=False), line)
        return self._ints[symbol]

    def is_computed(self, number: NumberObject, line: UserLine | None) -> bool:
        """Return whether programs compute a float, which is guarded not to fail and to be finite."""
        symbol = self.symbol(number) if abs(number.value) <= LARGEST_FLOAT else None
        if symbol is None:
            return False
        self.facts.setdefault(sympy.Le(symbol, sympy.Float(LARGEST_FLOAT), evaluate=False), line)
        self.facts.setdefault(sympy.Ge(symbol, sympy.Float(-LARGEST_FLOAT), evaluate=False), line)
        return True

    def decide(self, relation: str, left: NumberObject, right: NumberObject, line: UserLine | None) -> bool | None:
        """Return whether a relation holds between two numbers, which is guarded. None if programs can't compute one of them, or if one is nan."""
        if left.value != left.value or right.value != right.value:
            return None
        first, second = [self._operand(number) for number in (left, right)]
        if first is None or second is None:
            return None
        holds = bool(COMPARISONS[relation](left.value, right.value))
        self.facts.setdefault(getattr(sympy, RELATIONS[relation if holds else OPPOSITES[relation]])(first, second, evaluate=False), line)
        return holds

    def _operand(self, number: NumberObject) -> Any:
        if number.pending:
            return self.symbol(number)
        if number.cls is float:
            return sympy.Float(number.value)
        return sympy.Integer(number.value) if fits(number.value) else None


def fits(number: float) -> bool:
    """Return whether programs have a number as a constant: ints have 64 bits there."""
    return type(number) is not int or SMALLEST <= number <= LARGEST


def of_operation(number: NumberObject, parts: list[Any]) -> Formula | None:
    """The formula of an operation on operands with these formulas; None if programs don't have the operation."""
    operation, operands = number.operation, number.operands
    if operation in COMPARED:
        return of_comparison(COMPARED[operation], number, parts)
    if number.cls is float:
        return of_float(number, parts)
    if any(operand.cls is not int for operand in operands):
        return Formula(ROUNDINGS[operation], tuple(parts)) if operation in ROUNDINGS else None
    if operation == "abs":
        return Formula("magnitude", tuple(parts))
    return Formula(OF_INTS[operation], tuple(parts)) if operation in OF_INTS else None


def of_float(number: NumberObject, parts: list[Any]) -> Formula | None:
    """The formula of an operation whose result is a float."""
    operation, operands = number.operation, number.operands
    if operation == "/" and all(operand.cls is int for operand in operands):
        return Formula("true_divide", tuple(parts), True)
    floats = [as_float(operand, part) for operand, part in zip(operands, parts, strict=True)]
    if operation in OF_FLOATS:
        return Formula(OF_FLOATS[operation], tuple(floats), True)
    if operation == "float":
        return floats[0]
    if operation == "abs":
        return Formula("float_magnitude", tuple(floats), True)
    if operation in ("max", "min") and all(operand.cls is float for operand in operands):
        first, second = floats
        is_other = Formula("float_lt", (first, second) if operation == "max" else (second, first))  # Python/bltinmodule.c: min_max
        return Formula("select", (is_other, second, first), True)
    return None


def as_float(operand: NumberObject, part: Any) -> Any:
    """The formula of a number as a float."""
    if operand.cls is float:
        return part
    return Formula("to_float", (part,), True) if operand.pending else constant(float(operand.value))


def of_comparison(relation: str, number: NumberObject, parts: list[Any]) -> Formula | None:
    """The formula of a comparison, whose result is 0 or 1."""
    if relation in (">", ">="):
        relation, parts = {">": "<", ">=": "<="}[relation], parts[::-1]
    name = {"<": "lt", "<=": "le", "==": "eq", "!=": "ne"}[relation]
    if all(operand.cls is int for operand in number.operands):
        return Formula(name, tuple(parts))
    return Formula(f"float_{name}", tuple(parts)) if all(operand.cls is float for operand in number.operands) else None
