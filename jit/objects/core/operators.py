"""Operators, as CPython's Objects/abstract.c and Objects/object.c have them: reflected operands, comparison, identity, `in`."""

from __future__ import annotations

import array
import operator
import warnings
from collections import deque
from collections.abc import Callable
from types import WrapperDescriptorType
from typing import Any

from framejit import breaks
from framejit._runtime import type_name
from framejit.guards.source import MISSING
from framejit.objects.core import abstract, differences, identities, wording
from framejit.objects.core.object import FOLDABLE, VM, Object, Raise, call_found_special, call_special, fold, settle, wrong_result
from framejit.objects.numbers import unbackednumber
from framejit.objects.types.constobject import AnswerObject
from framejit.objects.types.waitingtext import waits
from framejit.program import classes

BINARY: dict[str, tuple[str, str, Callable[[Any, Any], Any]]] = {
    "+": ("__add__", "__radd__", operator.add),
    "-": ("__sub__", "__rsub__", operator.sub),
    "*": ("__mul__", "__rmul__", operator.mul),
    "/": ("__truediv__", "__rtruediv__", operator.truediv),
    "//": ("__floordiv__", "__rfloordiv__", operator.floordiv),
    "%": ("__mod__", "__rmod__", operator.mod),
    "**": ("__pow__", "__rpow__", operator.pow),
    "@": ("__matmul__", "__rmatmul__", operator.matmul),
    "<<": ("__lshift__", "__rlshift__", operator.lshift),
    ">>": ("__rshift__", "__rrshift__", operator.rshift),
    "&": ("__and__", "__rand__", operator.and_),
    "|": ("__or__", "__ror__", operator.or_),
    "^": ("__xor__", "__rxor__", operator.xor),
}
INPLACE: dict[str, str] = {
    "+=": "__iadd__", "-=": "__isub__", "*=": "__imul__", "/=": "__itruediv__", "//=": "__ifloordiv__", "%=": "__imod__",
    "**=": "__ipow__", "@=": "__imatmul__", "<<=": "__ilshift__", ">>=": "__irshift__", "&=": "__iand__", "|=": "__ior__", "^=": "__ixor__",
}  # fmt: skip
INPLACE_REAL = {symbol: getattr(operator, name) for symbol, name in INPLACE.items()}
UNARY: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "-": ("__neg__", operator.neg),
    "+": ("__pos__", operator.pos),
    "~": ("__invert__", operator.invert),
}


def warns(function: Callable[..., Any], *args: Any) -> bool:
    """Return whether a call warns in this version of Python."""
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        function(*args)
    return bool(given)


INVERTED_BOOL_WARNS = warns(operator.invert, True)
COMPARE: dict[str, tuple[str, str, Callable[[Any, Any], Any]]] = {
    "<": ("__lt__", "__gt__", operator.lt),
    "<=": ("__le__", "__ge__", operator.le),
    "==": ("__eq__", "__eq__", operator.eq),
    "!=": ("__ne__", "__ne__", operator.ne),
    ">": ("__gt__", "__lt__", operator.gt),
    ">=": ("__ge__", "__le__", operator.ge),
}


def unary_op(vm: VM, symbol: str, a: Object) -> Object:
    a = vm.observe(a)
    found = a.unary_op(vm, symbol)
    if found is not None:
        return found
    name, real = UNARY[symbol]
    if a.cls in FOLDABLE and a.is_knowable():
        if symbol == "~" and a.cls is bool and INVERTED_BOOL_WARNS:
            vm.unsupported(breaks.SideEffect("~ on a bool, which warns,"))
        return fold(vm, real, a.constant(vm))
    found = call_special(vm, a, name)
    if found is None:
        vm.raise_(TypeError, f"bad operand type for unary {symbol}: '{a.type_name}'")
    return found


def not_(vm: VM, a: Object) -> Object:
    a = vm.observe(a)
    if isinstance(a, AnswerObject):
        return a.negation()
    return unbackednumber.negation(vm, a) or vm.const(not abstract.truth(vm, a))


def binary_op(vm: VM, symbol: str, a: Object, b: Object) -> Object:
    """Objects/abstract.c: binary_op1, binary_iop1; sequences' `+` and `*` give the same result through their wrapped slots."""
    a, b = vm.observe(a), vm.observe(b)
    found = a.binary_op(vm, symbol, b, False)
    if found is None:
        found = b.binary_op(vm, symbol, a, True)
    if found is not None:
        return found
    plain = symbol
    if symbol in INPLACE:
        plain = symbol[:-1]
        if a.cls not in FOLDABLE and has_inplace_slot(vm, a.cls, INPLACE[symbol]):
            found = call_special(vm, a, INPLACE[symbol], b)
            if found is not None and not abstract.is_not_implemented(found):
                return found
    left, right, real = BINARY[plain]
    is_template = plain == "%" and a.cls is str and waits(vm, b)
    if not is_template and a.cls in FOLDABLE and b.cls in FOLDABLE and a.is_knowable() and b.is_knowable():
        return fold(vm, real if plain == symbol else INPLACE_REAL[symbol], a.constant(vm), b.constant(vm))
    found = binary_slots(vm, a, b, left, right)
    if found is None and plain in SEQUENCE_SLOTS:
        found = sequence_slots(vm, symbol, plain, a, b)
    if found is None:
        vm.raise_(TypeError, operand_error(symbol, plain, a.cls, b.cls))
    return found


SEQUENCES = (list, tuple, str, bytes, bytearray, array.array, deque)
SEQUENCE_SLOTS = frozenset("+*")


def is_sequence_slot(vm: VM, cls: type, name: str) -> bool:
    """Return whether this special method is the sequence slot of a builtin sequence. Such a class has no number slot for the operator, unless
    a Python class overrides the method or the reflected one."""
    found = vm.raw_type_lookup(cls, name)
    return isinstance(found, WrapperDescriptorType) and found.__objclass__ in SEQUENCES and name not in ("__mod__", "__rmod__")


def has_inplace_slot(vm: VM, cls: type, name: str) -> bool:
    """Return whether a class has a number slot for an in-place operator. A Python class gets such a slot for the `__iadd__` that it inherits from a sequence,
    but not for the `__imul__` (Objects/typeobject.c: update_one_slot)."""
    return not is_sequence_slot(vm, cls, name) or (name == "__iadd__" and cls not in SEQUENCES)


def sequence_slots(vm: VM, symbol: str, plain: str, a: Object, b: Object) -> Object | None:
    """The sequence slots, which PyNumber_Add, PyNumber_Multiply and their in-place forms call if no number slot has answered.

    Objects/abstract.c. Unlike a number's, such a slot raises if it doesn't know the other operand.
    """
    left, right, _ = BINARY[plain]
    names = (INPLACE[symbol], left) if symbol in INPLACE else (left,)
    for name in names:
        if is_sequence_slot(vm, a.cls, name):
            return repeated(vm, a, name, b) if plain == "*" else call_special(vm, a, name, b)
    if plain != "*" or (symbol in INPLACE and (a.cls not in FOLDABLE or a.cls in (str, bytes, range))):
        return None  # in place, the right operand is only asked if the left one's type has no table of sequence slots at all
    return repeated(vm, b, right, a) if is_sequence_slot(vm, b.cls, right) else None


def repeated(vm: VM, sequence: Object, name: str, times: Object) -> Object | None:
    """sequence_repeat."""
    if not issubclass(times.cls, int) and vm.raw_type_lookup(times.cls, "__index__") is MISSING:
        vm.raise_(TypeError, f"can't multiply sequence by non-int of type '{times.type_name}'")
    if sequence.cls in FOLDABLE and sequence.is_knowable():
        return fold(vm, operator.mul, sequence.constant(vm), index(vm, times))
    return call_special(vm, sequence, name, times)


def index(vm: VM, obj: Object, complaint: Callable[[], str] | None = None) -> int:
    """PyNumber_Index, for the value: an int, or the result of `__index__`. `refuse` makes the TypeError's message.

    For an instance of a subclass of int, CPython takes the number that it is; it doesn't call its `__index__`.
    """
    obj = vm.observe(obj)
    if issubclass(obj.cls, int):
        return int_value(vm, obj)
    found = None if obj.cls in (str, float, type(None)) else call_special(vm, obj, "__index__")
    if found is None:
        vm.raise_(TypeError, complaint() if complaint is not None else f"'{obj.type_name}' object cannot be interpreted as an integer")
    found = vm.observe(found)
    if not issubclass(found.cls, int):
        wrong_result(vm, obj, "__index__", "an int", found, f"__index__ returned non-int (type {found.type_name})")
    if found.cls is not int:
        vm.unsupported(breaks.UnsupportedOperation(f"an __index__ that returns a {classes.qualname(found.cls)}, of which CPython warns"))
    return int_value(vm, found)


def ssize_argument(vm: VM, obj: Object) -> int:
    """An argument of a C function that Argument Clinic declares as Py_ssize_t."""
    return abstract.ssize(vm, index(vm, obj), message=abstract.TOO_LARGE)


def int_value(vm: VM, obj: Object) -> int:
    """The number that an instance of int or of a subclass is, whatever the subclass's methods say."""
    if not obj.is_knowable():
        vm.unsupported(breaks.UnsupportedValue(f"the number of a {classes.qualname(obj.cls)}, a subclass of int"))
    return int.__index__(obj.constant(vm))


def operand_error(symbol: str, plain: str, a: type, b: type) -> str:
    """The message of binop_type_error for operands that no slot accepts."""
    shown = "** or pow()" if plain == "**" and symbol == plain else symbol
    return f"unsupported operand type(s) for {shown}: '{type_name(a)}' and '{type_name(b)}'"


def binary_slots(vm: VM, a: Object, b: Object, left: str, right: str) -> Object | None:
    """The order of binary_op1: the right operand first if its class is a proper subclass that overrides the method; None if no slot answers."""
    reflected = MISSING if a.cls is b.cls or has_sequence_slots(vm, b.cls, left, right) else vm.raw_type_lookup(b.cls, right)
    if has_sequence_slots(vm, a.cls, left, right):
        return None if reflected is MISSING or reflected is None else first_answer(vm, (b, right, a))
    if reflected is MISSING or reflected is None:
        return first_answer(vm, (a, left, b))
    if abstract.is_subtype(vm, b.cls, a.cls) and reflected is not vm.raw_type_lookup(a.cls, right):
        return first_answer(vm, (b, right, a), (a, left, b))
    return first_answer(vm, (a, left, b), (b, right, a))


def has_sequence_slots(vm: VM, cls: type, left: str, right: str) -> bool:
    """Return whether a class has sequence slots for an operator, and no number slots."""
    return is_sequence_slot(vm, cls, left) and (is_sequence_slot(vm, cls, right) or vm.raw_type_lookup(cls, right) is MISSING)


def first_answer(vm: VM, *attempts: tuple[Object, str, Object], call: Callable[..., Object | None] = call_special) -> Object | None:
    """The first result of these special methods that isn't NotImplemented: (owner, name, argument) for each; None if there is none."""
    for owner, name, argument in attempts:
        found = None if is_refused(vm, owner, argument, name) else call(vm, owner, name, argument)
        if found is not None and not abstract.is_not_implemented(found):
            return found
    return None


KINSHIP: dict[type, tuple[type, ...]] = {bool: (int,), float: (int, float), complex: (int, float, complex)}
"""The classes whose instances the C slots of a number accept, apart from subclasses of its own class."""


def is_refused(vm: VM, a: Object, b: Object, name: str) -> bool:
    """Return whether the C slot of a number or string would return NotImplemented, because the other operand isn't of a kind that it accepts. The slot may be
    one that a subclass, such as an IntEnum, inherits."""
    if b.is_knowable():
        return False
    owner = a.cls if a.cls in FOLDABLE else owner_of_slot(vm.raw_type_lookup(a.cls, name))
    if owner not in FOLDABLE or not issubclass(a.cls, owner):  # the slot of a class that isn't a base raises TypeError
        return False
    return not (owner in (str, bytes) and name == "__mod__") and not issubclass(b.cls, KINSHIP.get(owner, (owner,)))


def owner_of_slot(found: Any) -> Any:
    """The class whose C slot a special method is; None for another method."""
    return found.__objclass__ if type(found) is WrapperDescriptorType else None


def compare(vm: VM, symbol: str, a: Object, b: Object) -> Object:
    """Objects/object.c: do_richcompare."""
    a, b = vm.observe(a), vm.observe(b)
    found = a.compare(vm, symbol, b, False)
    if found is None:
        found = b.compare(vm, symbol, a, True)
    if found is not None:
        return found
    left, right, real = COMPARE[symbol]
    if a.cls in FOLDABLE and b.cls in FOLDABLE and a.is_knowable() and b.is_knowable():
        return fold(vm, real, a.constant(vm), b.constant(vm))
    given, reflected = (a, left, b), (b, right, a)
    order = (reflected, given) if a.cls is not b.cls and abstract.is_subtype(vm, b.cls, a.cls) else (given, reflected)
    found = first_answer(vm, *order, call=call_found_special)
    if found is not None:
        return found
    if symbol == "==":
        return vm.const(is_(vm, a, b))
    if symbol == "!=":
        return vm.const(not is_(vm, a, b))
    vm.raise_(TypeError, f"'{symbol}' not supported between instances of '{a.type_name}' and '{b.type_name}'")


def equal(vm: VM, a: Object, b: Object) -> bool:
    """PyObject_RichCompareBool with Py_EQ: identity first."""
    if settle(a) is settle(b):
        return True
    identical = a.cls is not int and is_(vm, a, b, unsure=False)  # for ints, identity says no more than equality, and asks for their values
    return identical or abstract.truth(vm, compare(vm, "==", a, b))


def is_(vm: VM, a: Object, b: Object, unsure: bool = True) -> bool:
    """The `is` operator. Constants from outside are compared by identity of the real objects, guarded by value.

    If identity can't be known (two equal numbers that the trace made), `unsure` decides between a break and False.
    """
    a, b = settle(a), settle(b)
    if a is b:
        return True
    a, b = vm.observe(a), vm.observe(b)
    if a is b:
        return True
    if a.cls is not b.cls:
        return False
    if a.cls is type(None) or a.cls is type(...) or a.cls is type(NotImplemented):
        return True
    if unsure and (isinstance(a, unbackednumber.UnbackedValue) or isinstance(b, unbackednumber.UnbackedValue)):
        a, b = vm.const(a.constant(vm)), vm.const(b.constant(vm))
    if a.depends_on_data:
        vm.graph.check_identity(a, b)
    if a.value is not MISSING and b.value is not MISSING:
        return identities.same_value(vm, a, b, unsure)
    if a.cls is tuple:  # there is one empty tuple
        made, other = (a, b) if a.value is MISSING else (b, a)
        return not made.truth(vm) and not other.truth(vm)
    a.check_identity(vm, b)
    return False


def contains(vm: VM, container: Object, item: Object) -> Object:
    """PySequence_Contains."""
    container = vm.observe(container)
    found = container.contains(vm, item)
    if found is not None:
        return found
    if container.cls in FOLDABLE and container.is_knowable() and vm.observe(item).is_knowable():
        return fold(vm, operator.contains, container.constant(vm), item.constant(vm))
    if vm.raw_type_lookup(container.cls, "__contains__") is None:
        vm.raise_(TypeError, f"'{container.type_name}' object is not a container")
    found = (call_found_special if differences.LOOKUP_ERRORS_PASS else call_special)(vm, container, "__contains__", item)
    if found is not None:
        return vm.const(abstract.truth(vm, found))
    try:
        iterator = abstract.iter_(vm, container)
    except Raise as raised:
        if issubclass(raised.exc.cls, TypeError):
            vm.raise_(TypeError, f"argument of type '{container.type_name}'{wording.NO_CONTAINER}")
        raise
    while (element := abstract.next_(vm, iterator)) is not None:
        if equal(vm, element, item):
            return vm.const(True)
    return vm.const(False)
