"""Translates sympy expressions, as torch's ShapeEnv records them, into a program that checks them. Expressions that others imply are left out."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from fractions import Fraction
from math import ceil, floor, lcm
from typing import Any, Literal

import sympy

from framejit.guards.formulas import Formula
from framejit.guards.shape_vm import LARGEST, LARGEST_IN_FLOAT, OPERATIONS, SMALLEST, ShapeInstruction, ShapeProgram
from framejit.guards.shapes import STEPS, Read, ShapesHold
from framejit.guards.source import Source, UserLine
from framejit.quick_dataclass import dataclass

Kind = Literal["int", "float", "bool"]
Term = tuple[int, Kind]
"""The number of a term, and its type."""
NO_FORMULAS: Mapping[sympy.Symbol, Formula] = {}


class UntranslatableError(ValueError):
    """An expression that no program can check: with a function that isn't known here, or whose value isn't sure to be Python's."""


class Terms:
    """The terms that expressions compute; equal terms are kept once. A term is an instruction on other terms; `input` and `constant` have a number instead.

    `formulas`: the formulas of the symbols that are no inputs.
    """

    def __init__(self, formulas: Mapping[sympy.Symbol, Formula]) -> None:
        self.formulas = formulas
        self.numbers: dict[ShapeInstruction, int] = {}
        self.all: list[ShapeInstruction] = []
        self.symbols: list[sympy.Symbol] = []
        self.constants: list[int | float] = []
        self.known: dict[Any, Term] = {}

    def add(self, operation: str, *operands: int) -> int:
        instruction = ShapeInstruction(operation, *operands)
        number = self.numbers.get(instruction)
        if number is None:
            number = self.numbers[instruction] = len(self.all)
            self.all.append(instruction)
        return number

    def leaf(self, operation: str, value: Any, values: list[Any], key: Any) -> int:
        if key not in self.known:
            self.known[key] = self.add(operation, len(values)), "int"
            values.append(value)
        return self.known[key][0]

    def constant(self, value: int | float) -> int:
        if type(value) is int and not SMALLEST <= value <= LARGEST:
            raise UntranslatableError(f"{value} doesn't fit 64 bits")
        return self.leaf("constant", value, self.constants, (type(value), repr(value)))

    def constant_of(self, number: int) -> int | float | None:
        """The value of a term that is a constant."""
        name, place, *_ = self.all[number]
        return self.constants[place] if name == "constant" else None

    def of(self, expression: Any) -> Term:
        """The term of an expression."""
        found = self.known.get(expression)
        if found is None:
            found = self.known[expression] = self.translate(expression)
        return found

    def ints(self, *expressions: Any) -> list[int]:
        terms = [self.of(expression) for expression in expressions]
        if any(kind == "float" for _, kind in terms):
            raise UntranslatableError(f"{expressions}: an int is expected where a float is")
        return [number for number, _ in terms]

    def floats(self, *expressions: Any, convert: str = "to_float") -> list[int]:
        return [number if kind == "float" else self.converted(number, convert) for number, kind in map(self.of, expressions)]

    def converted(self, number: int, convert: str) -> int:
        """An int as a float."""
        constant = self.constant_of(number)
        if constant is not None and abs(constant) <= LARGEST_IN_FLOAT:
            return self.constant(float(constant))
        return self.add(convert, number)

    def truth(self, expression: Any) -> int:
        number, kind = self.of(expression)
        if kind != "bool":
            raise UntranslatableError(f"{expression} is neither true nor false")
        return number

    def chain(self, operation: str, numbers: Sequence[int]) -> int:
        result = numbers[0]
        for number in numbers[1:]:
            result = self.add(operation, result, number)
        return result

    def translate(self, expression: Any) -> Term:
        name = type(expression).__name__
        if isinstance(expression, Formula):
            return self.formula(expression)
        if expression in self.formulas:
            return self.of(self.formulas[expression])
        if isinstance(expression, sympy.Symbol):
            return self.leaf("input", expression, self.symbols, ("input", expression)), "int" if expression.is_integer else "float"
        if isinstance(expression, sympy.Integer):
            return self.constant(int(expression)), "int"
        if isinstance(expression, sympy.Float) or expression in (sympy.oo, -sympy.oo):
            return self.constant(float(expression)), "float"
        if expression in (sympy.true, sympy.false):
            return self.constant(int(bool(expression))), "bool"
        if isinstance(expression, sympy.core.relational.Relational):
            return self.comparison(expression), "bool"
        if name in INT_OPERATIONS:
            return self.chain(INT_OPERATIONS[name], self.ints(*expression.args)), "int"
        if name in FLOAT_OPERATIONS:
            return self.add(FLOAT_OPERATIONS[name], *self.floats(*expression.args)), "float"
        if name in TO_INT:
            number, kind = self.of(expression.args[0])
            return (self.add(TO_INT[name], number) if kind == "float" else number), "int"
        if name in self.SPECIAL:
            return self.SPECIAL[name](self, expression)
        raise UntranslatableError(f"no program over sizes computes {name}, in {expression}")

    def formula(self, formula: Formula) -> Term:
        kind: Kind = "float" if formula.is_float else "int"
        if formula.operation == "constant":
            return self.constant(formula.constant), kind
        return self.add(formula.operation, *[self.of(part)[0] for part in formula.operands]), kind

    def comparison(self, expression: Any) -> int:
        name, left, right = sides(expression)
        if "float" in (self.of(left)[1], self.of(right)[1]):
            return self.add(f"float_{name}", *self.floats(left, right, convert="same_float"))
        return self.add(name, *self.ints(left, right))

    def sum(self, expression: Any) -> Term:
        parts = expression.args
        if any(self.of(part)[1] == "float" for part in parts):
            if len(parts) > 2:
                raise UntranslatableError(f"{expression}: the order in which floats are added is lost")
            return self.add("float_add", *self.floats(*parts)), "float"
        negative = [part for part in parts if part.could_extract_minus_sign()]
        positive = [part for part in parts if part not in negative] or [sympy.Integer(0)]
        positive.sort(key=lambda part: bool(part.is_number))  # for those who read it
        result = self.chain("add", self.ints(*positive))
        for part in negative:
            result = self.add("sub", result, *self.ints(-part))
        return result, "int"

    def product(self, expression: Any) -> Term:
        parts = expression.args
        if any(self.of(part)[1] == "float" for part in parts):
            if len(parts) > 2:
                raise UntranslatableError(f"{expression}: the order in which floats are multiplied is lost")
            return self.add("float_mul", *self.floats(*parts)), "float"
        if parts[0] is sympy.S.NegativeOne:
            return self.add("sub", self.constant(0), *self.ints(-expression)), "int"
        return self.chain("mul", self.ints(*parts)), "int"

    def power(self, expression: Any) -> Term:
        base, exponent = expression.args
        if not (isinstance(exponent, sympy.Integer) and exponent >= 0):
            raise UntranslatableError(f"{expression}: the exponent is no natural number")
        (number,) = self.ints(base)
        if exponent <= 3:
            return self.chain("mul", [number] * int(exponent)), "int"
        return self.add("power", number, self.constant(int(exponent))), "int"

    def branches(self, expression: Any) -> Term:
        *others, (last, always) = expression.args
        if always != sympy.true:
            raise UntranslatableError(f"{expression} has no value where none of its conditions holds")
        result = self.of(last)
        for value, condition in reversed(others):
            result = self.select(condition, self.of(value), result)
        return result

    def select(self, condition: Any, then: Term, otherwise: Term) -> Term:
        if then[1] != otherwise[1]:
            raise UntranslatableError("a choice between an int and a float")
        return self.add("select", self.truth(condition), then[0], otherwise[0]), then[1]

    def magnitude(self, expression: Any) -> Term:
        number, kind = self.of(expression.args[0])
        return self.add("float_magnitude" if kind == "float" else "magnitude", number), "float" if kind == "float" else "int"

    def modular_index(self, expression: Any) -> Term:
        base, divisor, modulus = self.ints(*expression.args)
        return self.add("mod", self.add("floordiv", base, divisor), modulus), "int"

    SPECIAL = {
        "Add": sum,
        "Mul": product,
        "Pow": power,
        "Piecewise": branches,
        "Where": lambda self, e: self.select(e.args[0], self.of(e.args[1]), self.of(e.args[2])),
        "Abs": magnitude,
        "ModularIndexing": modular_index,
        "Identity": lambda self, e: self.of(e.args[0]),
        "ToFloat": lambda self, e: (self.floats(e.args[0])[0], "float"),
        "IntTrueDiv": lambda self, e: (self.add("true_divide", *self.ints(*e.args)), "float"),
        "And": lambda self, e: (self.chain("both", [self.truth(part) for part in e.args]), "bool"),
        "Or": lambda self, e: (self.chain("either", [self.truth(part) for part in e.args]), "bool"),
        "Not": lambda self, e: (self.add("negation", self.truth(e.args[0])), "bool"),
    }  # fmt: skip
    """By the name of an expression's class, which differs less between versions of torch than the module that the class is in."""


INT_OPERATIONS = {
    "FloorDiv": "floordiv", "CleanDiv": "floordiv", "Mod": "mod", "PythonMod": "mod", "PowByNatural": "power", "LShift": "shift_left",
    "RShift": "shift_right", "Max": "maximum", "Min": "minimum", "BitwiseFn_bitwise_and": "bit_and", "BitwiseFn_bitwise_or": "bit_or",
    "BitwiseFn_bitwise_xor": "bit_xor",
}  # fmt: skip
FLOAT_OPERATIONS = {"FloatTrueDiv": "float_divide", "FloatPow": "float_power", "OpaqueUnaryFn_sqrt": "float_root"}
TO_INT = {"TruncToInt": "truncate", "FloorToInt": "floor", "floor": "floor", "CeilToInt": "ceiling", "ceiling": "ceiling", "RoundToInt": "nearest"}
RELATIONS = {"Equality": "eq", "Unequality": "ne", "LessThan": "le", "StrictLessThan": "lt", "GreaterThan": "le", "StrictGreaterThan": "lt"}


def sides(relation: Any) -> tuple[str, Any, Any]:
    """A relation as one of eq, ne, le and lt, with its left and right side."""
    name, left, right = type(relation).__name__, relation.lhs, relation.rhs
    return (RELATIONS[name], right, left) if name.startswith(("Greater", "StrictGreater")) else (RELATIONS[name], left, right)


@dataclass(frozen=True)
class Demand:
    """A condition that a program checks: a `need...` operation, the terms that it takes, and the number of the expression that it comes from."""

    operation: str
    first: int
    second: int
    origin: int


class DemandsByTerm:
    """The conditions that expressions demand, by term, so that those which others imply can be dropped."""

    def __init__(self, terms: Terms, counts: Container[sympy.Symbol]) -> None:
        self.terms = terms
        self.counts = counts
        self.lowest: dict[int, tuple[int, int]] = {}  # by term: a bound, and the expression that it is from
        self.highest: dict[int, tuple[int, int]] = {}
        self.equal: dict[int, dict[int, int]] = {}  # by term and value: the expression
        self.unequal: dict[int, dict[int, int]] = {}
        self.divisible: dict[int, dict[int, int]] = {}  # by term and divisor
        self.others: dict[tuple[str, int, int], int] = {}

    def other(self, operation: str, first: int, second: int, origin: int) -> None:
        self.others.setdefault((operation, first, second), origin)

    def never(self, origin: int) -> None:
        self.other("need", self.terms.constant(0), 0, origin)

    def require(self, expression: Any, origin: int) -> None:
        """Add the demands of an expression, which is taken apart."""
        if expression == sympy.true:
            return
        if expression == sympy.false:
            self.never(origin)
        elif isinstance(expression, sympy.And):
            for part in expression.args:
                self.require(part, origin)
        elif isinstance(expression, sympy.Not) and isinstance(expression.args[0], sympy.Or):
            for part in expression.args[0].args:
                self.require(sympy.Not(part), origin)
        elif not isinstance(expression, sympy.core.relational.Relational):
            self.other("need", self.terms.truth(expression), 0, origin)
        elif not self.require_of_constant(expression, origin):
            self.require_between(expression, origin)

    def require_of_constant(self, relation: Any, origin: int) -> bool:
        """Add a relation between an int and a constant as a bound of a term: `factor * term + shift <= constant`. Returns False if it isn't a bound."""
        name, left, right = sides(relation)
        flipped = isinstance(left, sympy.Rational)
        if flipped:
            left, right = right, left
        if not isinstance(right, sympy.Rational) or isinstance(left, sympy.Rational):
            return False
        shift, rest = left.as_coeff_Add()
        factor, term = rest.primitive() if isinstance(rest, sympy.Add) else rest.as_coeff_Mul()
        if not (isinstance(shift, sympy.Rational) and isinstance(factor, sympy.Rational)) or factor == 0:
            return False
        number, kind = self.terms.of(term)
        if kind == "float":
            return False
        bound = Fraction(int((right - shift).p), int((right - shift).q)) / Fraction(int(factor.p), int(factor.q))
        if abs(bound) > LARGEST and not isinstance(term, sympy.Symbol):
            raise UntranslatableError(f"{right} doesn't fit 64 bits")  # what the term comes to may be as large, which isn't computed
        if name in ("eq", "ne"):
            self.require_value(name, number, bound, origin)
        elif flipped == (factor > 0):  # the term is at least the bound
            self.at_least(number, floor(bound) + 1 if name == "lt" else ceil(bound), origin)
        else:
            self.at_most(number, ceil(bound) - 1 if name == "lt" else floor(bound), origin)
        return True

    def require_value(self, name: str, number: int, value: Fraction, origin: int) -> None:
        fits = value.denominator == 1 and SMALLEST <= value <= LARGEST
        if not fits and name == "eq":
            self.never(origin)
        if not fits:
            return
        operation, first, second, _ = self.terms.all[number]
        divisor = self.terms.constant_of(second) if operation == "mod" else None
        if name == "ne":
            self.unequal.setdefault(number, {}).setdefault(int(value), origin)
        elif value == 0 and type(divisor) is int and divisor > 0:
            self.divisible.setdefault(first, {}).setdefault(divisor, origin)
        else:
            self.equal.setdefault(number, {}).setdefault(int(value), origin)

    def at_least(self, number: int, bound: int, origin: int) -> None:
        if bound > LARGEST:
            self.never(origin)
        elif bound > SMALLEST and bound > self.lowest.get(number, (SMALLEST, 0))[0]:
            self.lowest[number] = bound, origin

    def at_most(self, number: int, bound: int, origin: int) -> None:
        if bound < SMALLEST:
            self.never(origin)
        elif bound < LARGEST and bound < self.highest.get(number, (LARGEST, 0))[0]:
            self.highest[number] = bound, origin

    def require_between(self, relation: Any, origin: int) -> None:
        """Add a relation between two terms."""
        name, left, right = sides(relation)
        fractions = [number.q for number in (left.atoms(sympy.Rational) | right.atoms(sympy.Rational)) if number.q != 1]
        if fractions:
            left, right = (sympy.expand(lcm(*map(int, fractions)) * side) for side in (left, right))
        if "float" in (self.terms.of(left)[1], self.terms.of(right)[1]):
            self.other("need", self.terms.comparison(relation), 0, origin)
            return
        first, second = self.terms.ints(left, right)
        if name in ("eq", "ne") and first > second:
            first, second = second, first
        self.other(f"need_{name}", first, second, origin)

    def assume(self, symbol: sympy.Symbol, origin: int) -> None:
        """Demand what a symbol declares about itself (`positive`, ...), since sympy has evaluated expressions under that assumption."""
        number, kind = self.terms.of(symbol)
        if symbol.is_positive or symbol.is_nonnegative:
            if kind == "float":
                raise UntranslatableError(f"{symbol}: a float that is assumed not to be negative")
            self.at_least(number, 1 if symbol.is_positive else 0, origin)

    def left(self) -> list[Demand]:
        """The demands that aren't implied by others, cheap checks first."""
        constant = self.terms.constant
        found = []
        for number, values in self.equal.items():
            found += [Demand("need_eq", number, constant(value), origin) for value, origin in values.items()]
        for number, (bound, origin) in self.lowest.items():
            if bound > self.least(number) and all(value < bound for value in self.equal.get(number, ())):
                found.append(Demand("need_le", constant(bound), number, origin))
        for number, (bound, origin) in self.highest.items():
            if all(value > bound for value in self.equal.get(number, ())):
                found.append(Demand("need_le", number, constant(bound), origin))
        for number, values in self.unequal.items():
            lowest = max(self.least(number), self.lowest.get(number, (SMALLEST, 0))[0])
            highest = self.highest.get(number, (LARGEST, 0))[0]
            for value, origin in values.items():
                if lowest <= value <= highest and all(value == other for other in self.equal.get(number, ())):
                    found.append(Demand("need_ne", number, constant(value), origin))
        for number, values in self.divisible.items():
            for divisor, origin in values.items():
                implied = any(other != divisor and other % divisor == 0 for other in values)
                implied |= divisor == 1 or any(value % divisor == 0 for value in self.equal.get(number, ()))
                if not implied:
                    found.append(Demand("need_divisible", number, constant(divisor), origin))
        found += [Demand(*key, origin) for key, origin in self.others.items()]
        return sorted(found, key=lambda demand: (self.is_computed(demand), demand.origin))

    def least(self, number: int) -> int:
        """A lower bound of a term that follows from its operation."""
        name, place, *_ = self.terms.all[number]
        return 0 if name == "input" and self.terms.symbols[place] in self.counts else SMALLEST

    def is_computed(self, demand: Demand) -> bool:
        """Return whether a term is computed, and not an input or a constant."""
        return any(self.terms.all[number].operation not in ("input", "constant") for number in (demand.first, demand.second))


class ProgramWriter:
    """Writes a program. Instructions come just before the first demand that needs them, and those that no demand needs are left out."""

    def __init__(self, terms: Terms, demands: Sequence[Demand]) -> None:
        self.terms = terms
        self.inputs: list[int] = []
        self.constants: list[int] = []
        for number in sorted(self.needed(demands)):
            name = terms.all[number].operation
            if name in ("input", "constant"):
                (self.inputs if name == "input" else self.constants).append(number)
        self.registers = {number: register for register, number in enumerate([*self.inputs, *self.constants])}
        self.instructions: list[ShapeInstruction] = []
        self.origins: list[int | None] = []
        for demand in demands:
            operands = (demand.first, demand.second)[: OPERATIONS[demand.operation].operands]
            self.write(demand.operation, operands, demand.origin)

    def needed(self, demands: Sequence[Demand]) -> set[int]:
        found: set[int] = set()
        waiting = [n for demand in demands for n in (demand.first, demand.second)[: OPERATIONS[demand.operation].operands]]
        while waiting:
            number = waiting.pop()
            if number not in found:
                found.add(number)
                waiting += self.operands(number)
        return found

    def operands(self, number: int) -> Sequence[int]:
        name, *operands = self.terms.all[number]
        return operands[: OPERATIONS[name].operands] if name in OPERATIONS else ()

    def register(self, number: int) -> int:
        """The register that holds a term's value, after the instructions that compute it were written."""
        if number not in self.registers:
            self.registers[number] = self.write(self.terms.all[number].operation, self.operands(number), None)
        return self.registers[number]

    def write(self, operation: str, operands: Sequence[int], origin: int | None) -> int:
        registers = [self.register(operand) for operand in operands]
        self.instructions.append(ShapeInstruction(operation, *registers))
        self.origins.append(origin)
        return len(self.inputs) + len(self.constants) + len(self.instructions) - 1

    def program(self) -> ShapeProgram:
        constants = tuple(self.terms.constants[self.terms.all[number].first] for number in self.constants)
        return ShapeProgram(len(self.inputs), constants, tuple(self.instructions), tuple(self.origins))

    def symbols(self) -> tuple[sympy.Symbol, ...]:
        return tuple(self.terms.symbols[self.terms.all[number].first] for number in self.inputs)


def compile_shapes(
    expressions: Sequence[Any],
    symbols: Iterable[sympy.Symbol] = (),
    counts: Container[sympy.Symbol] = (),
    formulas: Mapping[sympy.Symbol, Formula] = NO_FORMULAS,
) -> tuple[ShapeProgram, tuple[sympy.Symbol, ...]]:
    """The program that checks boolean expressions, and the symbols that its inputs stand for.

    Args:
        expressions: conditions over symbols, each of which is an integer or a float.
        symbols: further symbols. What symbols declare about themselves (`positive`, `nonnegative`) is checked too, also for those in `expressions`.
        counts: symbols that can never be negative: sizes, strides, offsets.
        formulas: the formulas of symbols that the program computes.

    The program says "doesn't hold" if an int exceeds 64 bits or something can't be computed, even if the expressions are true. Demands that come from
    declarations of symbols have the origin `len(expressions)`.

    Raises:
        UntranslatableError: an expression with something that no program computes as Python would.
    """
    terms = Terms(formulas)
    demands = DemandsByTerm(terms, counts)
    for origin, expression in enumerate(expressions):
        demands.require(expression, origin)
    for symbol in dict.fromkeys([*symbols, *terms.symbols]):
        demands.assume(symbol, len(expressions))
    writer = ProgramWriter(terms, demands.left())
    return writer.program(), writer.symbols()


NUMBER_OF_TENSOR = {step: what for what, step in STEPS.items()}


def shapes_hold(
    facts: Iterable[tuple[Any, UserLine | None]],
    reads: Mapping[sympy.Symbol, Source | Sequence[Source]],
    formulas: Mapping[sympy.Symbol, Formula] = NO_FORMULAS,
) -> ShapesHold | None:
    """Make the guard that boolean expressions hold; None if there is nothing to check.

    Args:
        facts: expressions, each with the line that made it necessary.
        reads: the source of each symbol's value: a TensorSize, TensorStride or TensorOffset, or the path of an int or float. If a symbol has several
            sources, their values must be equal, and the first one is read.
        formulas: the formulas of the other symbols.

    Raises:
        UntranslatableError: see `compile_shapes`.
        ValueError: an expression has a symbol without a source, or is false.
    """
    expressions, lines = [], []
    for expression, line in facts:
        expressions.append(expression)
        lines.append(line)
    source_of: dict[sympy.Symbol, Source] = {}
    for symbol, sources in reads.items():
        first, *others = [sources] if isinstance(sources, Source) else sources
        source_of[symbol] = first
        for other in others:
            twin = sympy.Dummy(symbol.name, integer=True) if symbol.is_integer else sympy.Dummy(symbol.name, real=True)
            source_of[twin] = other
            expressions.append(sympy.Eq(symbol, twin, evaluate=False))
            lines.append(None)
    unknown = {symbol for expression in expressions for symbol in expression.free_symbols} - set(source_of) - set(formulas)
    if unknown:
        raise ValueError(f"no source is given for {', '.join(sorted(symbol.name for symbol in unknown))}")
    counts = {symbol for symbol, source in source_of.items() if type(source) in NUMBER_OF_TENSOR}
    program, symbols = compile_shapes(expressions, reads, counts, formulas)
    if not program.demands:
        return None
    paths: dict[int, Source] = {}
    numbers: dict[int, int] = {}
    found = []
    for symbol in symbols:
        source = source_of[symbol]
        what = NUMBER_OF_TENSOR.get(type(source), "int" if symbol.is_integer else "float")
        path = source.base if type(source) in NUMBER_OF_TENSOR else source
        assert path is not None
        paths[id(path)] = path
        number = numbers.setdefault(id(path), len(numbers))
        found.append(Read(number, what, source.payload if what in ("size", "stride") else 0))
    if not paths:  # formulas of constants alone, as of `1 << (1 + (n - n))`
        if program.failing(()) is None:
            return None
        raise ValueError("expressions on shapes that never hold")
    in_order = tuple(paths.values())
    return ShapesHold(in_order[0], lines[0] if lines else None, in_order, tuple(found), program, (*lines, None))
