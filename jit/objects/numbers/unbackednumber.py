"""Numbers that aren't known before the graph has run: items of tensors, sizes that depend on data, and numbers computed from them.

The generated code gets them from the graph as plain ints, floats and bools, and does arithmetic and comparisons on them in plain Python. An operation that
needs the value of one while tracing breaks the trace, unless what the program has declared with `torch._check` decides the answer.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from framejit import breaks
from framejit.errors import CHECK_FAILED
from framejit.guards.source import MISSING
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Codegen, Object
from framejit.objects.numbers.numberobject import COMPARISONS, LARGEST_SYMBOL, OWN_INTS, NumberObject, is_nonzero, sum_of, sym_of
from framejit.objects.numbers.pythonnumbers import FUNCTIONS as PYTHONS
from framejit.objects.numbers.pythonnumbers import PYTHON, TYPES
from framejit.objects.tensors.torchcall import enter
from framejit.objects.types.listobject import ListObject

MAX_DEPTH = 200
"""The largest nesting depth of computations."""
MANY_BITS = 1000
"""Ints of fewer bits than this become floats without an error."""
EXACT_BITS = 53
EXACT_INTS = 2**EXACT_BITS
"""Doubles represent all ints up to here exactly."""
ARITHMETIC: dict[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv, "%": operator.mod,
}  # fmt: skip
DIVISIONS = frozenset({"/", "//", "%"})
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "int": int, "float": float, "bool": bool, "not": operator.not_, "all": operator.and_, "any": operator.or_, "abs": abs, "min": min, "max": max,
    "round": round, "sum": sum_of,
}  # fmt: skip
OPERATIONS = ARITHMETIC | COMPARISONS | FUNCTIONS
"""Operations that can wait until the graph has run."""
OF_BOOLS = frozenset({"not", "all", "any"})
"""Operations on bools. `all` and `any` take two, both of which have been computed."""
JOINED: dict[str, Callable[..., Any]] = {"all": torch.logical_and, "any": torch.logical_or}
"""What two of them are for tensors."""
PYTHONS_OWN = frozenset({"abs", "min", "max", "round", "sum", "//", "%"})
"""Operations that can wait, but that torch computes differently from Python: nodes call Python's."""
NUMBERS = (int, float, bool)


class UnbackedValue(Object):
    """A value that depends on the data of tensors: a number, or a text with such a number in it. Asking for it breaks the trace."""

    __slots__ = ()

    def is_known(self) -> bool:
        return False

    def is_knowable(self) -> bool:
        """True, so that every operation asks for `constant`, which breaks the trace: there is no other way to the value."""
        return True


class UnbackedNumber(UnbackedValue):
    """An int, float or bool without a known value. Operators that can't fail on it wait."""

    __slots__ = ()
    depends_on_data = True

    @property
    def text(self) -> str:
        """The number as the program computes it, for reports."""
        raise NotImplementedError

    @property
    def depth(self) -> int:
        """The nesting depth of computations."""
        return 0

    def in_graph(self, vm: VM) -> fx.Node:
        """The node of a number that has a symbol."""
        raise NotImplementedError

    def leaf(self) -> LeafNumber:
        """One of the numbers that it is computed from, or itself."""
        raise NotImplementedError

    def sym(self, vm: VM) -> Any:
        """Its representation in torch's ShapeEnv; None if it has none: floats are left to Python."""
        return None

    def bits(self) -> int:
        """The largest number of bits that the value can have, if it is an int; 0 for a float."""
        raise NotImplementedError

    def is_symbolic(self, vm: VM) -> bool:
        return True

    def constant(self, vm: VM) -> Any:
        known = vm.graph.unbacked.value(self)
        if known is not None:
            return known
        known = vm.graph.known.number(self)
        if known is not MISSING:
            return known
        known = vm.graph.unbacked.settled(self)
        return vm.graph.unbacked.ask(self) if known is None else known

    def truth_value(self) -> UnbackedNumber:
        """The bool that its truth value is."""
        return self if self.cls is bool else Computed(bool, "!=", (self, NumberObject(0)))

    def truth(self, vm: VM) -> bool:
        condition = self.truth_value()
        known = vm.graph.known.outcome(condition) if vm.graph.unbacked.value(condition) is None else None
        return bool(condition.constant(vm)) if known is None else known

    def check_truth(self, vm: VM, expected: bool, message: str = CHECK_FAILED) -> bool:
        condition = self.truth_value()
        if vm.graph.unbacked.value(condition) is not None:
            return False
        return vm.graph.unbacked.checks(condition if expected else opposite(condition), message=message)

    def unary_op(self, vm: VM, symbol: str) -> Object | None:
        if self.cls is bool or symbol == "~":
            return None
        return self if symbol == "+" else Computed(self.cls, "-", (NumberObject(0 if self.cls is int else -0.0), self))

    def binary_op(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        return arithmetic(vm, symbol.removesuffix("="), *((other, self) if reflected else (self, other)))

    def compare(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        number = operand(other)
        if number is None:
            return vm.const(symbol == "!=") if symbol in ("==", "!=") and other.cls in (type(None), str) else None
        made = Computed(bool, symbol, (number, self) if reflected else (self, number))
        known = vm.graph.unbacked.value(made)
        return made if known is None else vm.const(known)

    def __repr__(self) -> str:
        return f"`{self.text}`"


class LeafNumber(UnbackedNumber):
    """A number that isn't computed from others. `expression`, `lineno`: the program's expression for it, and its line."""

    __slots__ = ("expression", "lineno")

    def __init__(self, cls: type, expression: str, lineno: int) -> None:
        super().__init__(cls)
        self.expression = expression
        self.lineno = lineno

    @property
    def text(self) -> str:
        return self.expression

    def leaf(self) -> LeafNumber:
        return self

    def bits(self) -> int:
        return {int: 64, bool: 1, float: 0}[self.cls]

    def why(self, asking: str, check: str) -> breaks.Break:
        """The reason for the break if the program needs its value. `check`: what would have to be known."""
        raise NotImplementedError


class Datum(LeafNumber):
    """A number that a node of the graph returns."""

    __slots__ = ("node",)

    def __init__(self, cls: type, node: fx.Node, expression: str, lineno: int) -> None:
        super().__init__(cls, expression, lineno)
        self.node = node

    def why(self, asking: str, check: str) -> breaks.Break:
        return breaks.UnknownNumber(asking, self.text, self.lineno, check, self.device)

    @property
    def device(self) -> str:
        """The device from which the number is read, if it isn't the CPU; otherwise empty."""
        tensor = self.node.args[0] if self.node.args else None
        fake = tensor.meta.get("example_value") if isinstance(tensor, fx.Node) else None
        return str(fake.device) if isinstance(fake, torch.Tensor) and fake.device.type != "cpu" else ""

    def in_graph(self, vm: VM) -> fx.Node:
        return self.node

    def sym(self, vm: VM) -> Any:
        vm.graph.refresh()
        return None if self.cls is float else self.node.meta["example_value"]

    def as_graph_argument(self, vm: VM) -> Any:
        return self.constant(vm) if self.cls is bool else self.node

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_node(self.node)


class Computed(UnbackedNumber):
    """A number that the generated code computes after the graph has run. `node`: its node in the graph, if one was needed."""

    __slots__ = ("operation", "operands", "node")

    def __init__(self, cls: type, operation: str, operands: tuple[Object, ...]) -> None:
        super().__init__(cls)
        self.operation = operation
        self.operands = operands
        self.node: fx.Node | None = None

    @property
    def text(self) -> str:
        texts = [
            part.text if isinstance(part, UnbackedNumber) else repr(part) if part.source is None else part.source.name_in_reports()
            for part in self.operands
        ]
        if self.operation == "not":
            return f"not {texts[0]}"
        if self.operation in FUNCTIONS:
            return f"{self.operation}({', '.join(texts)})"
        texts = [f"({text})" if isinstance(part, Computed) else text for text, part in zip(texts, self.operands, strict=True)]
        return f" {self.operation} ".join(texts)

    @property
    def depth(self) -> int:
        return 1 + max(part.depth if isinstance(part, UnbackedNumber) else 0 for part in self.operands)

    def leaf(self) -> LeafNumber:
        return next(part for part in self.operands if isinstance(part, UnbackedNumber)).leaf()

    def sym(self, vm: VM) -> Any:
        function = IN_GRAPHS.get(self.operation)
        if self.cls is float or function is None:
            return None
        parts = [part.sym(vm) if isinstance(part, UnbackedNumber) else whole_sym(vm, part) for part in self.operands]
        return None if None in parts or (self.operation not in OF_BOOLS and bool in [part.cls for part in self.operands]) else function(*parts)

    def bits(self) -> int:
        if self.cls is not int:
            return int(self.cls is bool)
        sizes = [bits_of(part) for part in self.operands]
        return sum(sizes) if self.operation == "*" else 1 + max(sizes)

    def as_graph_argument(self, vm: VM) -> Any:
        if self.cls is float and self.node is None:
            tensor = as_tensor(vm, self)
            if tensor is not None:
                number = enter(vm, torch.Tensor.item, [tensor])
                assert isinstance(number, Datum)
                vm.trail.fill(self, "node", number.node)
        elif self.cls is int and self.sym(vm) is not None:
            return self.in_graph(vm)
        return self.constant(vm) if self.node is None else self.node

    def in_graph(self, vm: VM) -> fx.Node:
        if self.node is None:
            vm.trail.fill(self, "node", vm.graph.number_node(IN_GRAPHS[self.operation], self.operands, self.sym(vm)))
        assert self.node is not None
        return self.node

    def reconstruct(self, cg: Codegen) -> None:
        for part in self.operands:
            cg.load(part)
        if self.operation in ARITHMETIC:
            cg.binary_op(self.operation)
        else:
            cg.call_const(OPERATIONS[self.operation], len(self.operands))

    def referents(self) -> list[Object]:
        return list(self.operands)


IN_GRAPHS: dict[str, Callable[..., Any]] = {
    **{symbol: ARITHMETIC[symbol] for symbol in ("+", "-", "*", "//", "%")}, **COMPARISONS, "max": torch.sym_max, "min": torch.sym_min,
    "not": torch.sym_not, "all": operator.and_, "any": operator.or_,
}  # fmt: skip
"""The operations on ints and bools that nodes compute."""


def as_tensor(vm: VM, number: Object) -> Object | None:
    """A tensor with a float as its one double, or a known number itself; None if that can't be in the graph. Arithmetic on such tensors rounds as
    Python does, whereas torch would rearrange arithmetic on symbols."""
    if isinstance(number, NumberObject):
        if number.pending and number.symbol(vm) is not None:
            return enter(vm, torch.full, [vm.const(()), number], {"dtype": vm.const(torch.float64), "device": vm.const("cpu")})
        return None if abs(number.constant(vm)) > EXACT_INTS else number
    if isinstance(number, Datum):
        return item_as_tensor(vm, number)
    if not isinstance(number, Computed) or number.cls is not float:
        return None
    if number.operation == "float" and number.operands[0].cls is int:
        return as_tensor(vm, number.operands[0])
    if number.operation in ("+", "-", "*", "/") and (number.operation != "/" or divides_as_floats(*number.operands)):
        parts = [as_tensor(vm, part) for part in number.operands]
        return None if None in parts else enter(vm, ARITHMETIC[number.operation], [part for part in parts if part is not None])
    found = by_python(vm, number.operation, number.operands, float) if number.operation in PYTHONS_OWN else None
    return None if found is None else found[0]


def by_python(vm: VM, function: str, numbers: Sequence[Object], cls: type) -> list[Object] | None:
    """A tensor with the result of a function of numbers, and one that says whether it has succeeded; None if these can't be in the graph."""
    parts = [part_of(vm, number) for number in numbers] if vm.graph.unbacked.may_begin() else [None]
    if None in parts:
        return None
    found = enter(vm, PYTHON, [vm.const(function), ListObject([part for part in parts if part is not None]), vm.const(TYPES[cls])])
    return list(abstract.each(vm, found))


def part_of(vm: VM, number: Object) -> Object | None:
    """A number as a tensor; None if that can't be in the graph."""
    number = operand(number) or number
    if isinstance(number, NumberObject):
        settled(vm, number)
    tensor = as_tensor(vm, number) if number.cls is float else whole_as_tensor(vm, number) if number.cls is int else None
    if not isinstance(tensor, NumberObject):
        return tensor
    value = tensor.constant(vm)
    return enter(vm, torch.full, [vm.const(()), vm.const(value)], {"dtype": vm.const(TYPES[type(value)]), "device": vm.const("cpu")})


def checked(vm: VM, function: str, numbers: Sequence[Object], cls: type) -> Object | None:
    """The result of a function that may fail, for numbers at least one of which depends on data; None for others, and if the graph can't compute it, or can't
    check that it doesn't fail."""
    if not any(isinstance(number, UnbackedNumber) for number in numbers) or not vm.graph.unbacked.may_check():
        return None
    found = by_python(vm, function, numbers, cls)
    if found is None:
        return None
    result, is_right = [enter(vm, torch.Tensor.item, [tensor]) for tensor in found]
    assert isinstance(is_right, UnbackedNumber)
    return result if vm.graph.unbacked.checks(is_right) else None


def comparison_as_tensor(vm: VM, number: Object) -> Object | None:
    """A tensor with a comparison of two ints or of two floats, or several of them, as its one bool; None for any other number."""
    if isinstance(number, Computed) and number.operation in JOINED:
        both = [comparison_as_tensor(vm, part) for part in number.operands]
        return None if None in both else enter(vm, JOINED[number.operation], [part for part in both if part is not None])
    if not isinstance(number, Computed) or number.operation not in COMPARISONS:
        return None
    parts: list[Object | None] = list(number.operands)
    if all(part.cls is int for part in number.operands):
        parts = [whole_as_tensor(vm, part) for part in number.operands]
    elif all(part.cls is float or part.is_known() for part in number.operands):
        parts = [as_tensor(vm, part) for part in number.operands]
    return None if None in parts else enter(vm, COMPARISONS[number.operation], [part for part in parts if part is not None])


def whole_as_tensor(vm: VM, number: Object) -> Object | None:
    """A tensor with one int, or the int itself if it is known; None if that can't be in the graph."""
    if isinstance(number, NumberObject) and not number.is_symbolic(vm):
        return number if abs(number.constant(vm)) <= EXACT_INTS else None
    if isinstance(number, UnbackedNumber) and number.sym(vm) is None:
        return None
    return enter(vm, torch.full, [vm.const(()), number], {"dtype": vm.const(torch.int64), "device": vm.const("cpu")})


def item_as_tensor(vm: VM, number: Datum) -> Object | None:
    """A tensor with one double, made from a number that a node returns. Ints become the nearest double, as in Python. It is made from the number and not from
    the tensor that contained it, which the program may have changed since."""
    if not vm.graph.unbacked.may_begin() or number.cls is bool:
        return None
    with vm.graph.unbacked.beside(number):
        return enter(vm, torch.full, [vm.const(()), number], {"dtype": vm.const(torch.float64), "device": vm.const("cpu")})


def divides_as_floats(dividend: Object, divisor: Object) -> bool:
    """Return whether the quotient is that of the operands as floats. Python rounds the quotient of two ints once; ints of over 53 bits are first rounded as
    floats."""
    if float in (dividend.cls, divisor.cls) or (bits_of(dividend) <= EXACT_BITS and bits_of(divisor) <= EXACT_BITS):
        return True
    return divisor.is_known() and abs(divisor.value).bit_count() == 1


def operand(obj: Object) -> Object | None:
    """An Object as an operand of arithmetic that waits; None if it isn't a number."""
    if isinstance(obj, (UnbackedNumber, NumberObject)):
        return obj
    return NumberObject(int(obj.value)) if obj.cls is bool and obj.is_known() else None


def whole_sym(vm: VM, number: Object) -> Any:
    """The value or SymInt of an int next to unbacked ones; None for other numbers."""
    return sym_of(vm, number) if isinstance(number, NumberObject) and number.cls is int else None


def bits_of(number: Object) -> int:
    """The largest number of bits that a number's value can have; 0 for floats."""
    if number.cls is float:
        return 0
    if isinstance(number, UnbackedNumber):
        return number.bits()
    return int(number.value).bit_length() if number.is_known() or not isinstance(number, NumberObject) else bits_of_pending(number)


def bits_of_pending(number: NumberObject) -> int:
    """The largest number of bits of an int whose value isn't known: it is symbolic, or computed from symbolic ints."""
    if number.sym is not None and (number.operation in OWN_INTS or (number.operation == "**" and number.operands[-1].pending)):
        return LARGEST_SYMBOL.bit_length()
    if number.operation:
        sizes = [bits_of(part) for part in number.operands]
        return sum(sizes) if number.operation == "*" else MANY_BITS if number.operation in ("**", "<<") else 1 + max(sizes)
    return MANY_BITS if number.sym is None else LARGEST_SYMBOL.bit_length()


def arithmetic(vm: VM, symbol: str, left: Object, right: Object) -> Object | None:
    """`left symbol right`, to be computed after the graph has run; None if that may fail, so that the values must be asked for now."""
    first, second = operand(left), operand(right)
    if first is None or second is None or (symbol not in ARITHMETIC and symbol not in PYTHONS):
        return None
    cls = float if symbol == "/" or float in (first.cls, second.cls) else int
    if symbol not in ARITHMETIC or (symbol in DIVISIONS and not (isinstance(second, NumberObject) and may_divide(vm, second))):
        return checked(vm, symbol, (first, second), cls)
    if cls is float:
        limited(vm, first)
        limited(vm, second)
        if max(bits_of(first), bits_of(second)) >= MANY_BITS:
            return None
    made = Computed(cls, symbol, (first, second))
    return made if made.depth <= MAX_DEPTH else None


def may_divide(vm: VM, divisor: NumberObject) -> bool:
    """Return whether a number that doesn't come from a tensor isn't zero, which is guarded."""
    settled(vm, divisor)
    return is_nonzero(vm, divisor)


def settled(vm: VM, number: NumberObject) -> None:
    """Make a number from outside symbolic or known."""
    if number.pending and sym_of(vm, number) is None:
        number.constant(vm)


def limited(vm: VM, number: Object) -> None:
    """Make the ints from outside symbolic or known that an int is computed from, so that its bits are limited, and it becomes a float without an error."""
    if number.cls is int and isinstance(number, NumberObject):
        settled(vm, number)
    elif number.cls is int and isinstance(number, Computed):
        for part in number.operands:
            limited(vm, part)


def converted(vm: VM, cls: type, number: Object) -> Object | None:
    """`int(number)`, `float(number)` or `bool(number)` of one whose value isn't known; None for others, and if it may fail."""
    if not isinstance(number, UnbackedNumber):
        return None
    if cls is float:
        limited(vm, number)
        if bits_of(number) >= MANY_BITS:
            return None
    if cls is int and number.cls is float:
        return checked(vm, "int", [number], int)
    if number.cls is cls:
        return number
    if cls is bool and vm.graph.unbacked.value(number.truth_value()) is not None:
        return None
    return Computed(cls, cls.__name__, (number,))


def function_of(name: str, numbers: Sequence[Object]) -> Object | None:
    """`abs`, `min` or `max` of numbers of one type, at least one of which isn't known; None for others."""
    cls = numbers[0].cls if numbers else None
    if cls not in (int, float) or any(operand(number) is None or number.cls is not cls for number in numbers):
        return None
    if not any(isinstance(number, UnbackedNumber) for number in numbers):
        return None
    return Computed(cls, name, tuple(numbers))


def total_of(vm: VM, numbers: Sequence[Object]) -> Object | None:
    """`sum()` of numbers at least one of which is a float whose value isn't known; None for others, and if it may fail."""
    if not any(isinstance(number, UnbackedNumber) and number.cls is float for number in numbers):
        return None
    found = [operand(number) for number in numbers]
    for number in found:
        if isinstance(number, NumberObject):
            settled(vm, number)
        elif number is not None:
            limited(vm, number)
    if None in found or any(number is None or bits_of(number) >= MANY_BITS for number in found):
        return None
    made = Computed(float, "sum", tuple([number for number in found if number is not None]))
    return made if made.depth <= MAX_DEPTH else None


def rounded_to(number: Object, digits: int) -> Object | None:
    """`round(number, digits)` of a float whose value isn't known; None for others, and if it may fail."""
    return Computed(float, "round", (number, NumberObject(digits))) if isinstance(number, UnbackedNumber) and digits >= 0 else None


OPPOSITES = {"<": ">=", "<=": ">", "==": "!=", "!=": "==", ">": "<=", ">=": "<"}


def opposite(condition: UnbackedNumber) -> UnbackedNumber:
    """The negation of a bool."""
    if isinstance(condition, Computed) and condition.operation in OPPOSITES and all(part.cls is int for part in condition.operands):
        return Computed(bool, OPPOSITES[condition.operation], condition.operands)
    return Computed(bool, "not", (condition,))


def sharper(vm: VM, condition: UnbackedNumber) -> UnbackedNumber:
    """The condition in a form that tells torch more, given what is known: for a size, not being 0 is being greater."""
    if isinstance(condition, Computed) and condition.operation == "!=":
        number, other = condition.operands
        if isinstance(number, UnbackedNumber) and number.cls is int and other.is_known() and vm.graph.unbacked.least(number) == other.constant(vm):
            return Computed(bool, ">", condition.operands)
    return condition


def is_checked(vm: VM, condition: Object, is_sure: bool = False) -> bool:
    """Return whether a condition holds, as the graph checks, or as is known. `is_sure`: a check of it can't fail."""
    if isinstance(condition, UnbackedNumber) and vm.graph.unbacked.value(condition) is None:
        return vm.graph.unbacked.checks(condition, is_sure)
    return bool(condition.constant(vm))


def conjunction(name: str, conditions: Sequence[UnbackedNumber]) -> UnbackedNumber | None:
    """`all` or `any` of bools whose values aren't known; None if they are too many."""
    made = conditions[0]
    for condition in conditions[1:]:
        made = Computed(bool, name, (made, condition))
    return made if made.depth <= MAX_DEPTH else None


def negation(vm: VM, number: Object) -> Object | None:
    """`not number` of one whose truth isn't known; None for others."""
    if not isinstance(number, UnbackedNumber):
        return None
    return opposite(number.truth_value()) if vm.graph.unbacked.value(number.truth_value()) is None else None
