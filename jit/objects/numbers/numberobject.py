"""Numbers: exact ints and floats. They are known, or from outside and not asked for yet, or computed from such numbers, or symbolic.

A number from outside becomes known, and is guarded, when something asks for its value. Arithmetic that can't fail doesn't ask: it gives numbers
that the generated code computes, so that `self.step += 1` compiles once for all steps.

A symbolic number has a SymInt, which represents it in the graph and in the shapes of tensors. Comparing it guards the outcome and not the value; as an
argument of a node it is a node. The generated code computes it in plain Python, from sizes and numbers of the call.

A symbolic float from outside, and a number computed from it, has a SymFloat that torch doesn't know: sympy's arithmetic isn't that of floats.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any

from torch import SymFloat, SymInt, fx

from framejit.guards.source import Source
from framejit.objects.core.object import VM, Codegen, Object
from framejit.objects.numbers.bounds import NEARLY_ASCENDING, Bounds, bounds_of
from framejit.objects.numbers.monotone import course_with, leaves_of, sides_of, threshold, value_for
from framejit.objects.numbers.ranges import bounds_within, range_around
from framejit.objects.types.constobject import ConstObject

MAX_DEPTH = 16
"""The depth to which deferred computations may be nested. For a deeper one, a simplified form is made, or the trace is specialised to its value."""


def sum_of(*numbers: float) -> float:
    """`sum(numbers[1:], numbers[0])`, which some Pythons round differently from successive additions."""
    return sum(numbers[1:], numbers[0])


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
COMPARED = {f"int({relation})": relation for relation in COMPARISONS}
"""The relation of each operation that computes the outcome of a comparison as an int."""
AS_INTS: dict[str, Callable[[Any, Any], int]] = {
    "int(<)": lambda a, b: int(a < b), "int(<=)": lambda a, b: int(a <= b), "int(==)": lambda a, b: int(a == b), "int(!=)": lambda a, b: int(a != b),
    "int(>)": lambda a, b: int(a > b), "int(>=)": lambda a, b: int(a >= b),
}  # fmt: skip
OPERATIONS: dict[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod, "/": operator.truediv, "**": operator.pow,
    "max": max, "min": min, "float": float, "int": int, "math.floor": math.floor, "math.ceil": math.ceil, "math.sqrt": math.sqrt,
    "math.sin": math.sin, "math.cos": math.cos, "round": round, "nearest": round, "abs": abs, "sum": sum_of, "math.gcd": math.gcd, **NEARLY_ASCENDING,
    "|": operator.or_, "&": operator.and_, "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift, **AS_INTS,
}  # fmt: skip
"""Operations that can be deferred."""
OWN_INTS = frozenset({"nearest", "abs", "math.gcd", "|", "&", "^", "<<", ">>", *AS_INTS})
"""Operations on ints whose results have symbols of their own (graph/number_formulas.py)."""
MAY_FAIL = frozenset({"math.sqrt", "math.sin", "math.cos", *NEARLY_ASCENDING})
"""Functions that fail for some numbers, or for infinite ones."""
UNFAILING = frozenset("+-*")
"""The operators that can't fail on two ints or on two floats. On one of each they fail if the int is too large for a float: see `defers`."""
SYMBOLS = frozenset({"+", "-", "*", "//", "%", "/", "**", "|", "&", "^", "<<", ">>"})
"""The operations that are Python operators; the others are functions."""
LARGEST_EXPONENT = 8
LARGEST_SHIFT = 62
SMALLEST = math.ulp(0.0)
"""The smallest positive float."""
LARGEST_FLOAT = sys.float_info.max
LARGEST_SYMBOL = 2**63
"""The bound on symbolic numbers: no int from outside and no size beyond it is symbolic."""
ROUNDED: dict[str, Callable[[float], int]] = {"<": math.ceil, ">=": math.ceil, ">": math.floor, "<=": math.floor}
"""For each relation, the function that rounds a float with which an int is compared: `n < 2.5` is `n < 3`."""


class NumberObject(ConstObject):
    """An exact int or float. `sym`: its SymInt or SymFloat, None if it has none (yet); `node`: its node in the outermost graph, if one was needed."""

    __slots__ = ("sym", "node")
    operation: str = ""
    operands: tuple[NumberObject, ...] = ()
    """The operation that computes it, and its operands, if its computation is deferred."""

    def __init__(self, value: Any, source: Source | None = None, pending: bool = False, sym: SymInt | SymFloat | None = None) -> None:
        super().__init__(value, source, pending)
        self.sym = sym
        self.node: fx.Node | None = None

    def symbolic(self, vm: VM) -> SymInt | None:
        """The SymInt of an int whose value isn't guarded; None if it has none. An int from outside that is seen to vary gets one here."""
        return self.symbol(vm) if self.cls is int else None

    def symbol(self, vm: VM) -> Any:
        """The SymInt or SymFloat of the number; None if it has none, for example because its value is known."""
        if not self.pending:
            return None
        if self.sym is None and self.source is not None:
            vm.graph.shapes.make_symbolic(self)
        return self.sym

    def is_symbolic(self, vm: VM) -> bool:
        return self.symbolic(vm) is not None

    def constant(self, vm: VM) -> Any:
        if not self.pending:
            return self.value
        if self.sym is None or self.cls is float:
            return super().constant(vm)
        vm.graph.shapes.decide(operator.eq, self.sym, self.value)
        vm.trail.fill(self, "pending", False)
        return self.value

    def as_graph_argument(self, vm: VM) -> Any:
        return vm.graph.shapes.node_of(self) if self.symbol(vm) is not None and vm.graph.shapes.fits(self) else self.constant(vm)

    def truth(self, vm: VM) -> bool:
        if self.is_float_input(vm):
            return vm.graph.shapes.decide_float("!=", self, 0.0)
        sym = to_compare(vm, self).symbolic(vm)
        return super().truth(vm) if sym is None else vm.graph.shapes.decide(operator.ne, sym, 0)

    def result(self, *values: Any) -> Any:
        """The result of the operation for other values of its operands."""
        return OPERATIONS[self.operation](*values)

    def is_float_input(self, vm: VM) -> bool:
        """Return whether it is a symbolic float from outside."""
        return self.cls is float and self.source is not None and self.symbol(vm) is not None

    def unary_op(self, vm: VM, symbol: str) -> Object | None:
        if symbol == "+" and self.symbolic(vm) is not None:
            return self
        return negated(vm, self, symbol) if self.pending else None

    def binary_op(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        other = as_number(vm, other)
        if not isinstance(other, NumberObject) or not (self.pending or other.pending):
            return None
        return deferred(vm, symbol.removesuffix("="), other, self) if reflected else deferred(vm, symbol.removesuffix("="), self, other)

    def compare(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        other = as_number(vm, other)
        if not isinstance(other, NumberObject):
            return vm.const(symbol == "!=") if symbol in ("==", "!=") and other.cls in (type(None), str) else None
        if not (self.pending or other.pending):
            return None
        left, right = (other, self) if reflected else (self, other)
        return compared(vm, symbol, to_compare(vm, left), to_compare(vm, right))


class Deferred(ConstObject):
    """A value that the trace has computed from numbers that aren't known, and that the generated code computes in each call. `operands`: those numbers."""

    __slots__ = ()
    operands: tuple[NumberObject, ...]

    def compute(self, cg: Codegen) -> None:
        """Write the code that computes the value from the operands, which are on the stack."""
        raise NotImplementedError

    def reconstruct(self, cg: Codegen) -> None:
        if not self.pending:
            cg.load_const(self.value)
            return
        for operand in self.operands:
            cg.load(operand)
        self.compute(cg)

    def referents(self) -> list[Object]:
        return list(self.operands) if self.pending else []


class DeferredNumber(Deferred, NumberObject):
    """A number that the trace has computed from numbers that aren't known. The generated code computes it in each call."""

    __slots__ = ("operation", "operands", "depth", "asked")

    def __init__(self, operation: str, operands: tuple[NumberObject, ...], value: Any) -> None:
        super().__init__(value, None, pending=True)
        self.operation = operation
        self.operands = operands
        self.depth = 1 + max(depth_of(operand) for operand in operands)
        self.asked = False  # whether its operands have been asked for their SymInts

    def symbol(self, vm: VM) -> Any:
        """The symbol, made from those of its operands; None if one of them has none."""
        if self.pending and not self.asked:
            vm.trail.fill(self, "asked", True)
            parts = syms_of(vm, self.operands)
            if parts is not None:
                sym = None if self.operation in OWN_INTS and self.cls is int else vm.graph.shapes.computed(self.operation, parts, self.value)
                vm.trail.fill(self, "sym", vm.graph.shapes.by_formula(self) if sym is None and self.cls is int else sym)
        return self.sym if self.pending else None

    def constant(self, vm: VM) -> Any:
        if self.pending:
            if self.symbolic(vm) is not None:
                return super().constant(vm)
            for operand in self.operands:
                operand.constant(vm)
            vm.trail.fill(self, "pending", False)
        return self.value

    def compute(self, cg: Codegen) -> None:
        if self.operation in SYMBOLS:
            cg.binary_op(self.operation)
        else:
            cg.call_const(OPERATIONS[self.operation], len(self.operands))


class ComparedNumbers(Deferred):
    """The outcome of a relation between two numbers, one of which is symbolic. It is guarded if something asks for it; if it only leaves the frame, the
    generated code computes it.
    """

    __slots__ = ("symbol", "operands")

    def __init__(self, symbol: str, left: NumberObject, right: NumberObject) -> None:
        super().__init__(bool(COMPARISONS[symbol](left.value, right.value)), None, pending=True)
        self.symbol = symbol
        self.operands = (left, right)

    def constant(self, vm: VM) -> Any:
        if self.pending:
            if are_ints(*self.operands):
                vm.graph.shapes.decide(COMPARISONS[self.symbol], *[sym_of(vm, operand) for operand in self.operands])
            elif compared_with_float(vm, self.symbol, *self.operands) is None:
                for operand in self.operands:
                    operand.constant(vm)
            vm.trail.fill(self, "pending", False)
        return self.value

    def binary_op(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        number = self if other.cls is bool else as_number(vm, self)
        return number.binary_op(vm, symbol, other, reflected) if isinstance(number, NumberObject) else super().binary_op(vm, symbol, other, reflected)

    def plain_number(self, vm: VM) -> Object | None:
        number = as_number(vm, self)
        return number if isinstance(number, NumberObject) else None

    def compute(self, cg: Codegen) -> None:
        cg.call_const(COMPARISONS[self.symbol], 2)


def as_number(vm: VM, obj: Object) -> Object:
    """A bool as the int that arithmetic takes it for, if it is known, or the outcome of a comparison that the guards can compute; other Objects as they are."""
    if isinstance(obj, ComparedNumbers) and obj.pending:
        made = DeferredNumber(f"int({obj.symbol})", obj.operands, int(obj.value))
        return obj if made.symbol(vm) is None else made
    return NumberObject(int(obj.value)) if obj.cls is bool and obj.is_known() else obj


def plain_number(vm: VM, obj: Object) -> Object | None:
    """The symbolic number of Python that `int()`, `float()` and functions of C take a scalar of NumPy, or a truth value, for; None for other values."""
    return obj.plain_number(vm) if isinstance(obj, ConstObject) else None


def to_compare(vm: VM, number: NumberObject) -> NumberObject:
    """A number with a symbol, for comparisons of one among the arguments that isn't seen to vary, or of one computed from such numbers. Other uses fix the
    number as before: graphs for one number are faster, but a count of steps that is only compared (`if step % 100 == 0`) needs none. Other numbers as they are.
    """
    if not number.pending or number.symbol(vm) is not None:
        return number
    if type(number) is DeferredNumber:
        operands = tuple([to_compare(vm, operand) for operand in number.operands])
        return number if operands == number.operands else DeferredNumber(number.operation, operands, number.value)
    made = NumberObject(number.value, number.source, pending=True)
    return made if vm.graph.shapes.make_comparable(made) else number


def depth_of(number: NumberObject) -> int:
    """The nesting depth of deferred computations."""
    return number.depth if type(number) is DeferredNumber else 0


def sym_of(vm: VM, number: NumberObject) -> Any:
    """The representative of a number in symbolic arithmetic: its value, SymInt or SymFloat; None if it has none."""
    if not number.pending:
        return number.value
    return number.symbol(vm)


def syms_of(vm: VM, numbers: Sequence[NumberObject]) -> list[Any] | None:
    """The representatives of numbers in symbolic arithmetic. If any is symbolic, those from outside that aren't seen to vary become known, and so do numbers
    computed from such.

    None if one of them has none.
    """
    parts = [sym_of(vm, number) for number in numbers]
    if None in parts and any(part is not None and number.pending for number, part in zip(numbers, parts)):
        parts = [number.constant(vm) if part is None and not has_symbols(vm, number) else part for number, part in zip(numbers, parts)]
    return None if None in parts else parts


def has_symbols(vm: VM, number: NumberObject) -> bool:
    """Return whether a number is symbolic, or computed from a symbolic one."""
    if type(number) is DeferredNumber and number.pending:
        return any(has_symbols(vm, operand) for operand in number.operands)
    return number.symbol(vm) is not None


def defers(vm: VM, left: NumberObject, right: NumberObject) -> bool:
    """Return whether `+`, `-` and `*` of the two can be deferred. Those of an int and a float only if the int is known or symbolic: a huge one may overflow."""
    if left.cls is right.cls:
        return left.pending or right.pending
    whole, fraction = (right, left) if left.cls is float else (left, right)
    return fraction.pending if not whole.pending else whole.symbolic(vm) is not None


def are_ints(*numbers: NumberObject) -> bool:
    return all(number.cls is int for number in numbers)


def as_arithmetic(operation: str, left: NumberObject, right: NumberObject) -> tuple[str, NumberObject, NumberObject]:
    """Shifts, and masks of the lowest bits, as the equivalent operations on integers; others as they are."""
    if operation == "&" and not left.pending:
        left, right = right, left
    if operation == "**" and left.cls is int and right.cls is float and not left.pending and abs(left.value) <= EXACT_IN_FLOAT:
        return operation, NumberObject(float(left.value)), right
    if right.pending or not are_ints(left, right):
        return operation, left, right
    if operation in ("<<", ">>") and 0 <= right.value < LARGEST_SHIFT:
        return "*" if operation == "<<" else "//", left, NumberObject(1 << right.value)
    if operation == "&" and right.value > 0 and not right.value & (right.value + 1):
        return "%", left, NumberObject(right.value + 1)
    return operation, left, right


def deferred(vm: VM, operation: str, left: NumberObject, right: NumberObject) -> Object | None:
    """`left operation right` as a deferred number, or None if it must be computed now."""
    operation, left, right = as_arithmetic(operation, left, right)
    if operation not in SYMBOLS:
        return None
    if prefers_formula(operation, left, right):
        found = by_formula(vm, operation, left, right)
        if found is not None or operation in OWN_INTS:
            return found
    if not (defers(vm, left, right) if operation in UNFAILING else can_wait(vm, operation, left, right)):
        return None
    try:
        value = OPERATIONS[operation](left.value, right.value)
    except OverflowError:
        return None
    return simplified(vm, operation, left, right, value)


def prefers_formula(operation: str, left: NumberObject, right: NumberObject) -> bool:
    """Return whether an operator that may fail is computed by a formula, if that is possible: where sympy's arithmetic isn't Python's."""
    if are_ints(left, right):
        if operation in ("**", "<<", ">>") and right.value > LARGEST_SHIFT:
            return False
        return operation in OWN_INTS or (operation == "**" and (right.pending or right.value < 0))
    return operation in ("//", "%") or (operation == "**" and left.cls is float)


def by_formula(vm: VM, operation: str, *operands: NumberObject) -> NumberObject | None:
    """An operation that guards compute, which makes sure that it doesn't fail. None if they can't, or if no operand is symbolic."""
    if syms_of(vm, operands) is None or not any(operand.pending for operand in operands):
        return None
    try:
        made = DeferredNumber(operation, operands, OPERATIONS[operation](*[operand.value for operand in operands]))
    except (ArithmeticError, ValueError):
        return None
    if made.cls not in (int, float) or made.depth > MAX_DEPTH or made.symbol(vm) is None:
        return None
    return made if made.cls is int or vm.graph.shapes.is_computed(made) else None


def can_wait(vm: VM, operation: str, left: NumberObject, right: NumberObject) -> bool:
    """Return whether an operator that may fail can be deferred: if the numbers are symbolic or known, and once it is guarded that it doesn't fail."""
    if syms_of(vm, (left, right)) is None:
        return operation in ("//", "%") and are_ints(left, right) and not right.pending and right.value != 0
    if operation != "**":
        return (operation == "/" or are_ints(left, right)) and is_nonzero(vm, right)
    if left.cls is float:
        base, exponent = bounds(vm, left), bounds(vm, right)
        if base is None or exponent is None:
            return False
        is_root = not right.pending and right.value > 0 and right.value != int(right.value)
        if is_root and base.least < 0 <= left.value and compared_with_float(vm, ">=", left, NumberObject(0.0)) is not None:
            base = Bounds(0.0, base.greatest)  # it is guarded now that it isn't negative
        return bounds_of("**", base, exponent) is not None or is_sure(vm, right, lambda within: bounds_of("**", base, within) is not None)
    if right.pending:
        return False
    if right.cls is float:
        return bool(left.value > 0) and vm.graph.shapes.decide(operator.gt, sym_of(vm, left), 0)
    return 0 <= right.value <= LARGEST_EXPONENT


def is_setting(number: NumberObject) -> bool:
    """Return whether a number is known, or read from the call, so that its value may be guarded."""
    return not number.pending or number.source is not None


def is_nonzero(vm: VM, number: NumberObject) -> bool:
    """Return whether a number isn't zero, which is guarded; False if that can't be determined without guarding its value."""
    if not number.pending or number.value == 0:
        return bool(number.value)
    if number.cls is int:
        return vm.graph.shapes.decide(operator.ne, number.symbolic(vm), 0)
    if number.is_float_input(vm):
        return vm.graph.shapes.decide_float("!=", number, 0.0)
    return is_sure(vm, number, lambda within: within.least > 0 or within.greatest < 0)


def is_sure(vm: VM, number: NumberObject, holds: Callable[[Bounds], bool]) -> bool:
    """Return whether a property certainly holds for a number, by its bounds. If these are too wide, by the bounds that it has in a range of the one number that
    it is computed from; it is then guarded that this number is in the range."""
    leaves = leaves_of(number)
    if len(leaves) == 1 and leaves[0].is_float_input(vm):
        return is_sure_of_float(vm, number, leaves[0], holds)
    within = bounds(vm, number)
    if within is not None and holds(within):
        return True
    if len(leaves) != 1 or leaves[0].symbolic(vm) is None:
        return False
    ends = bounds_of_int(vm, leaves[0])
    found = range_around(lambda part: (within := bounds_within(number, part)) is not None and holds(within), leaves[0].value, ends)
    for relation, limit, end in () if found is None else ((">=", found.least, ends.least), ("<=", found.greatest, ends.greatest)):
        if limit != end:
            vm.graph.shapes.decide(COMPARISONS[relation], leaves[0].symbolic(vm), limit)
    return found is not None


LARGEST_FLOATS = (sys.float_info.max, 2.0**64, 512.0)
"""Bounds that are tried for a float from outside: all floats, those that can be multiplied and squared, and those for which `exp` is finite."""


def is_sure_of_float(vm: VM, number: NumberObject, leaf: NumberObject, holds: Callable[[Bounds], bool]) -> bool:
    """Return whether a property certainly holds for a number computed from this float from outside, for all floats of its sign up to one of LARGEST_FLOATS: it
    is then guarded that the float is one of these."""
    for largest in LARGEST_FLOATS:
        if abs(leaf.value) > largest:
            break
        within = bounds_within(number, float_range(leaf.value, largest))
        if within is not None and holds(within):
            bounds_of_float(vm, leaf, largest)
            return True
    return False


def bounds(vm: VM, number: NumberObject) -> Bounds | None:
    """Bounds that a number is sure to be within; None if they aren't known. For numbers from outside, the sign is guarded."""
    value = number.value
    if not number.pending:
        return Bounds(value, value) if math.isfinite(value) else None
    if type(number) is DeferredNumber:
        parts = [bounds(vm, operand) for operand in number.operands]
        return None if parts[0] is None or parts[-1] is None else bounds_of(number.operation, parts[0], parts[-1])
    if number.is_float_input(vm):
        return bounds_of_float(vm, number) if math.isfinite(value) else None
    return None if number.symbolic(vm) is None else bounds_of_int(vm, number)


def bounds_of_int(vm: VM, number: NumberObject) -> Bounds:
    """Bounds of a symbolic int. It is guarded that it is positive, negative, or zero or more, as it is now."""
    relation, ends = (">", Bounds(1, LARGEST_SYMBOL)) if number.value > 0 else ("<", Bounds(-LARGEST_SYMBOL, -1))
    if number.value == 0:
        relation, ends = ">=", Bounds(0, LARGEST_SYMBOL)
    vm.graph.shapes.decide(COMPARISONS[relation], number.symbolic(vm), 0)
    return ends


def float_range(value: float, largest: float) -> Bounds:
    """The range of floats with a value's sign, or from zero if it is zero, up to `largest`."""
    if value > 0:
        return Bounds(SMALLEST, largest)
    return Bounds(0.0, largest) if value == 0 else Bounds(-largest, -SMALLEST)


def bounds_of_float(vm: VM, number: NumberObject, largest: float = sys.float_info.max) -> Bounds:
    """Bounds of a float from outside that is no larger than `largest`: this and its present sign are guarded."""
    within = float_range(number.value, largest)
    if number.value >= 0:
        vm.graph.shapes.decide_float(">" if number.value else ">=", number, 0.0)
        vm.graph.shapes.decide_float("<=", number, largest)
    else:
        vm.graph.shapes.decide_float("<", number, 0.0)
        vm.graph.shapes.decide_float(">=", number, -largest)
    return within


def converted(vm: VM, operation: str, obj: Object) -> Object | None:
    """A function of one number, computed from symbolic ones, as a deferred number; None if it must be computed now."""
    if operation not in OPERATIONS or not isinstance(obj, NumberObject) or not obj.pending or sym_of(vm, obj) is None:
        return None
    if operation == "math.sqrt" and obj.cls is int:
        if obj.value < 0 or not vm.graph.shapes.decide(operator.ge, sym_of(vm, obj), 0):
            return None
    elif operation in MAY_FAIL:
        if not is_sure(vm, obj, lambda within: bounds_of(operation, within, within) is not None):
            return None
    try:
        made = DeferredNumber(operation, (obj,), OPERATIONS[operation](obj.value))
    except (OverflowError, ValueError):  # int() of a float that isn't finite, which raises now
        return None
    return made if made.symbol(vm) is not None else None


def simplified(vm: VM, operation: str, left: NumberObject, right: NumberObject, value: Any) -> NumberObject:
    """A deferred `left operation right`; `(x + 1) + 1` becomes `x + 2`, so that counters in loops don't grow."""
    if operation in "+-" and type(left) is DeferredNumber and left.cls is int and right.cls is int and not right.pending:
        base, step = left.operands[0], left.operands[-1]
        if left.operation in "+-" and left.pending and not step.pending:
            total = (step.value if left.operation == "+" else -step.value) + (right.value if operation == "+" else -right.value)
            return DeferredNumber("+", (base, NumberObject(total)), value)
    result = DeferredNumber(operation, (left, right), value)
    if result.depth <= MAX_DEPTH:
        return result
    sym = result.symbolic(vm)
    shorter = None if sym is None else vm.graph.shapes.number(sym)
    if isinstance(shorter, NumberObject) and depth_of(shorter) <= MAX_DEPTH:
        return shorter
    result.constant(vm)
    return NumberObject(value)


def compared(vm: VM, symbol: str, left: NumberObject, right: NumberObject) -> Object | None:
    """A comparison of numbers as a ComparedNumbers, which guards its outcome only if asked. None if no operand is symbolic."""
    if syms_of(vm, (left, right)) is None:
        return None if are_ints(left, right) else compared_with_float(vm, symbol, left, right)
    return ComparedNumbers(symbol, left, right)


LARGEST_COMPARED = 2.0**64
"""Up to here, floats from outside are compared by the threshold at which the outcome changes."""
EXACT_IN_FLOAT = 2**53
"""Ints up to here are exact as floats."""
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


def compared_with_float(vm: VM, symbol: str, left: NumberObject, right: NumberObject) -> Object | None:
    """The outcome of a comparison of two numbers, one of which is a float. That of a symbolic int with a known float becomes a comparison with an int that has
    the same outcome for all ints. None if the outcome can't be guarded."""
    if left.symbol(vm) is not None and right.symbol(vm) is not None:
        return decided(vm, symbol, left, right)
    for number, other, relation in ((left, right, symbol), (right, left, MIRRORED[symbol])):
        if type(number) is DeferredNumber and number.pending and number.cls is float:
            return compared_by_its_leaf(vm, relation, number, other)
    if not left.pending or (left.cls is float and not left.is_float_input(vm)):
        left, right, symbol = right, left, MIRRORED[symbol]
    sym = left.symbol(vm)
    if sym is None or not is_setting(right):
        return None
    other = right.constant(vm)
    if left.is_float_input(vm):
        comparable = not math.isnan(other) if right.cls is float else abs(other) <= EXACT_IN_FLOAT
        return vm.const(vm.graph.shapes.decide_float(symbol, left, float(other))) if comparable else None
    if left.cls is float or not math.isfinite(other):
        return None
    if symbol in ROUNDED:
        return vm.const(vm.graph.shapes.decide(COMPARISONS[symbol], sym, ROUNDED[symbol](right.value)))
    if right.value != int(right.value):
        return vm.const(symbol == "!=")
    return vm.const(vm.graph.shapes.decide(COMPARISONS[symbol], sym, int(right.value)))


def decided(vm: VM, symbol: str, left: NumberObject, right: NumberObject) -> Object | None:
    """A comparison of two numbers, one of which is a float, that guards compute; None if they can't, as with an int that isn't exact as a float."""
    if any(number.cls is int and abs(number.value) > EXACT_IN_FLOAT for number in (left, right)):
        return None
    outcome = vm.graph.shapes.decide_floats(symbol, left, right)
    return None if outcome is None else vm.const(outcome)


def compared_by_its_leaf(vm: VM, symbol: str, number: DeferredNumber, other: NumberObject) -> Object | None:
    """A comparison, with a known number, of a float that is computed from one symbolic number and monotone in it: that number is compared with the threshold at
    which the outcome changes. If the float isn't monotone, the number is guarded to be in a range of one outcome. None if it isn't such a comparison."""
    leaves = leaves_of(number)
    if not is_setting(other):
        return None
    if symbol in ("==", "!=") or len(leaves) != 1:
        return decided(vm, symbol, number, NumberObject(other.constant(vm)))
    if course_with(number) is None:
        computed = decided(vm, symbol, number, NumberObject(other.constant(vm)))
        if computed is not None:
            return computed
        limit, outcome = other.constant(vm), bool(COMPARISONS[symbol](number.value, other.value))
        is_such = is_sure(vm, number, lambda within: all(bool(COMPARISONS[symbol](end, limit)) == outcome for end in within))
        return vm.const(outcome) if is_such else None
    (leaf,) = leaves
    limit, ends = other.constant(vm), None
    if leaf.cls is int and leaf.symbolic(vm) is not None:
        ends = bounds_of_int(vm, leaf)
    elif leaf.is_float_input(vm) and abs(leaf.value) <= LARGEST_COMPARED:
        ends = bounds_of_float(vm, leaf, LARGEST_COMPARED)
    found = None if ends is None else threshold(lambda value: bool(COMPARISONS[symbol](value_for(number, value), limit)), ends)
    if found is None:
        return None
    if found.place is None:
        return vm.const(found.below)
    decide = vm.graph.shapes.decide_float(">=", leaf, found.place) if leaf.cls is float else vm.graph.shapes.decide(operator.ge, leaf.symbolic(vm), found.place)
    return vm.const(found.below != decide)


def rounded(vm: VM, operation: str, obj: Object) -> Object | None:
    """The result of `int`, `round` and so on for a float that is symbolic, or computed from a symbolic number. Comparisons guard that it is this int.
    None if it must be computed now."""
    if not isinstance(obj, NumberObject) or not obj.pending or obj.cls is not float or not abs(obj.value) < EXACT_IN_FLOAT / 4:
        return None
    whole, sides = sides_of(operation, obj.value)
    return vm.const(whole) if all(compared_with_float(vm, symbol, obj, NumberObject(limit)) is not None for symbol, limit in sides) else None


def total_of(vm: VM, numbers: Sequence[Object]) -> Object | None:
    """`sum()` of floats, and of known ints, at least one float being symbolic; None if it must be computed now."""
    found = [number for number in numbers if isinstance(number, NumberObject) and (number.cls is float or not number.pending)]
    if len(found) < len(numbers) or not any(number.pending and number.cls is float for number in found) or syms_of(vm, found) is None:
        return None
    if any(number.cls is int and abs(number.value) > EXACT_IN_FLOAT for number in found):
        return None
    made = DeferredNumber("sum", tuple(found), sum_of(*[number.value for number in found]))
    return made if made.depth <= MAX_DEPTH and made.symbol(vm) is not None else None


def rounded_to(vm: VM, number: Object, digits: int) -> Object | None:
    """`round(number, digits)` of a symbolic float, which can't fail unless a digit before the point is asked for; None if it must be computed now."""
    if digits < 0 or not isinstance(number, NumberObject) or number.symbol(vm) is None:
        return None
    made = DeferredNumber("round", (number, NumberObject(digits)), round(number.value, digits))
    return made if made.symbol(vm) is not None else None


def magnitude(vm: VM, obj: Object) -> Object | None:
    """`abs()` of a symbolic float, or of a symbolic int, whose sign is guarded; None for others."""
    if isinstance(obj, NumberObject) and obj.cls is float:
        return converted(vm, "abs", obj)
    if not isinstance(obj, NumberObject) or obj.symbolic(vm) is None:
        return None
    found = by_formula(vm, "abs", obj)
    if found is not None:
        return found
    return obj if vm.graph.shapes.decide(operator.ge, obj.symbolic(vm), 0) else negated(vm, obj, "-")


def extreme_of(vm: VM, operation: str, numbers: Sequence[Object]) -> Object | None:
    """`max()` or `min()` of ints, or of floats, one of which is symbolic; None if it must be computed now."""
    found = [number for number in numbers if isinstance(number, NumberObject) and number.cls is numbers[0].cls]
    if len(found) != len(numbers) or not any(number.symbol(vm) is not None for number in found) or syms_of(vm, found) is None:
        return None
    extreme, *others = found
    for other in others:
        extreme = DeferredNumber(operation, (extreme, other), OPERATIONS[operation](extreme.value, other.value))
    return extreme if depth_of(extreme) <= MAX_DEPTH and extreme.symbol(vm) is not None else None


def quotient_and_remainder(vm: VM, a: Object, b: Object) -> tuple[Object, Object] | None:
    """The result of `divmod()` of ints, one of which is symbolic; None if it must be computed now."""
    if not isinstance(a, NumberObject) or not isinstance(b, NumberObject) or not are_ints(a, b) or not (a.is_symbolic(vm) or b.is_symbolic(vm)):
        return None
    quotient, remainder = deferred(vm, "//", a, b), deferred(vm, "%", a, b)
    return None if quotient is None or remainder is None else (quotient, remainder)


def negated(vm: VM, number: NumberObject, symbol: str) -> Object | None:
    """`-x` as `0 - x`; for floats `-0.0 - x`, which gives zeros the right sign; `~x` as `-1 - x`."""
    if symbol == "~" and number.cls is int:
        return DeferredNumber("-", (NumberObject(-1), number), ~number.value)
    if symbol != "-":
        return None
    return DeferredNumber("-", (NumberObject(0 if number.cls is int else -0.0), number), -number.value)
