"""The builtin functions (Python/bltinmodule.c), and the methods that every object inherits."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

from framejit import breaks
from framejit._runtime import type_name
from framejit.guards.source import MISSING
from framejit.library.python.codecs import check_codec
from framejit.objects.core import abstract, differences, operators, text
from framejit.objects.core.finalizers import guard_address
from framejit.objects.core.object import (
    FOLDABLE,
    VM,
    IdentityConstant,
    NotConstant,
    Object,
    Raise,
    call_found_special,
    call_special,
    fold,
    wrong_result,
)
from framejit.objects.core.registry import models, pure, unsupported
from framejit.objects.numbers import unbackednumber
from framejit.objects.numbers.numberobject import (
    converted,
    extreme_of,
    magnitude,
    plain_number,
    quotient_and_remainder,
    rounded,
    rounded_to,
    total_of,
)
from framejit.objects.tensors.tensorobject import TensorObject, number_out_of
from framejit.objects.types.constobject import NONE, NOT_IMPLEMENTED, EnumObject, c_new, would_be_knowable
from framejit.objects.types.dictobject import dict_of
from framejit.objects.types.iteratorfields import STEPS, FieldIterator
from framejit.objects.types.iterobject import callable_iterator
from framejit.objects.types.listobject import ListObject
from framejit.objects.types.scalarsubclass import ScalarSubclassObject
from framejit.objects.types.sequence import sort
from framejit.objects.types.tupleobject import TupleObject
from framejit.objects.types.userobject import attribute_name
from framejit.objects.types.waitingtext import joined, waits
from framejit.plain import builtins as plain
from framejit.plain import support
from framejit.plain.parsing import template_fields
from framejit.program import classes

pure(ord, str.maketrans)
STEPS[id(callable_iterator)] = plain.call_until_step
STEPS[id(support.SequenceIterator)] = support.sequence_step


@models(complex)
def make_complex(vm: VM, *args: Object, **kwargs: Object) -> Object:
    given = {name: vm.observe(arg) for name, arg in (*enumerate(args), *kwargs.items())}
    if differences.COMPLEX_WARNS and (kwargs or len(given) > 1) and any(issubclass(arg.cls, complex) for arg in given.values()):
        vm.unsupported(breaks.UnsupportedCall("complex with a complex part, which warns,"))
    try:
        real = {name: arg.as_real(vm) for name, arg in given.items()}
    except NotConstant:
        vm.unsupported(breaks.UnsupportedCall("complex"))
    return fold(vm, complex, *[real[index] for index in range(len(args))], **{name: real[name] for name in kwargs})


@models(len)
def len_(vm: VM, obj: Object) -> Object:
    return vm.observe(obj).length(vm)


# Attributes.


@models(getattr)
def getattr_(vm: VM, obj: Object, name: Object, default: Object | None = None) -> Object:
    text = attribute_name(vm, name)
    if default is None:
        return abstract.getattr_(vm, obj, text)
    found = abstract.lookup_attr(vm, obj, text)
    return default if found is None else found


@models(hasattr)
def hasattr_(vm: VM, obj: Object, name: Object) -> Object:
    return vm.const(abstract.lookup_attr(vm, obj, attribute_name(vm, name)) is not None)


@models(setattr)
def setattr_(vm: VM, obj: Object, name: Object, value: Object) -> Object:
    vm.observe(obj).setattr(vm, attribute_name(vm, name), value)
    return NONE


@models(delattr)
def delattr_(vm: VM, obj: Object, name: Object) -> Object:
    vm.observe(obj).setattr(vm, attribute_name(vm, name), None)
    return NONE


@models(vars)
def vars_(vm: VM, obj: Object | None = None) -> Object:
    if obj is None:
        vm.unsupported(breaks.FrameIntrospection("vars()"))
    found = abstract.lookup_attr(vm, obj, "__dict__")
    if found is None:
        vm.raise_(TypeError, "vars() argument must have __dict__ attribute")
    return found


@models(callable)
def callable_(vm: VM, obj: Object) -> Object:
    return vm.const(vm.raw_type_lookup(vm.observe(obj).cls, "__call__") is not MISSING)


@models(type)
def type_(vm: VM, *args: Object, **kwargs: Object) -> Object:
    if len(args) != 1 or kwargs:
        return vm.const(type).instantiate(vm, list(args), kwargs)  # type: ignore[attr-defined]
    return vm.const(vm.observe(args[0]).cls)


@models(hash)
def hash_(vm: VM, obj: Object) -> Object:
    return text.hash_(vm, obj)


# Iteration.


@models(iter)
def iter_(vm: VM, obj: Object, sentinel: Object | None = None) -> Object:
    if sentinel is None:
        return abstract.iter_(vm, obj)
    if vm.raw_type_lookup(vm.observe(obj).cls, "__call__") is MISSING:
        return fold(vm, iter, None, None)  # raises TypeError with this Python's message
    return FieldIterator(callable_iterator, {"callable": obj, "sentinel": sentinel})


@models(next)
def next_(vm: VM, iterator: Object, default: Object | None = None) -> Object:
    iterator = vm.observe(iterator)
    if default is not None:
        found = iterator.next(vm)
        return default if found is None else found
    if type(iterator).next is Object.next or iterator.is_generator():
        found = call_special(vm, iterator, "__next__")
        if found is None:
            vm.raise_(TypeError, f"'{iterator.type_name}' object is not an iterator")
        return found
    found = vm.next_with_end(iterator)
    if found is None:
        vm.raise_(StopIteration)
    return found


@models(sum)
def sum_(vm: VM, iterable: Object, start: Object | None = None) -> Object:
    iterator = abstract.iter_(vm, iterable)
    total = vm.const(0) if start is None else vm.observe(start)
    for cls, kind, quotes in ((str, "strings", "''"), (bytes, "bytes", "b''"), (bytearray, "bytearray", "b''")):
        if issubclass(total.cls, cls):
            vm.raise_(TypeError, f"sum() can't sum {kind} [use {quotes}.join(seq) instead]")
    numbers: list[Object] | None = [] if is_number(total) else None  # as long as there are only numbers
    for item in abstract.steps(vm, iterator):
        item = vm.observe(item)
        if numbers is not None and is_number(item):
            numbers.append(item)
            continue
        if numbers:
            total = sum_of_numbers(vm, total, numbers)
        numbers = None
        total = vm.observe(operators.binary_op(vm, "+", total, item))
    return sum_of_numbers(vm, total, numbers) if numbers else total


def sum_of_numbers(vm: VM, total: Object, numbers: list[Object]) -> Object:
    """CPython may add floats more exactly than one after another: the generated code calls `sum` for them, or their values are asked for."""
    waiting = unbackednumber.total_of(vm, [total, *numbers]) or total_of(vm, [total, *numbers])
    if waiting is not None:
        return waiting
    if not any(number.is_symbolic(vm) for number in numbers) or any(number.cls is not int for number in (total, *numbers)):
        return fold(vm, sum, [number.constant(vm) for number in numbers], total.constant(vm))
    for number in numbers:
        total = vm.observe(operators.binary_op(vm, "+", total, number))
    return total


def is_number(obj: Object) -> bool:
    return obj.cls in NUMBERS and obj.is_knowable()


NUMBERS = frozenset({int, float, bool, complex})


def extreme(function: Callable[..., Any], symbol: str) -> None:
    """Register the model of min or max."""

    def model(vm: VM, *args: Object, key: Object | None = None, default: Object | None = None) -> Object:
        if not args:
            vm.raise_(TypeError, f"{function.__name__} expected at least 1 argument, got 0")
        if len(args) > 1 and default is not None:
            vm.raise_(TypeError, f"Cannot specify a default for {function.__name__}() with multiple positional arguments")
        by = None if key is None or vm.observe(key).cls is type(None) else vm.observe(key)
        items = args if len(args) > 1 else list(abstract.each(vm, args[0])) if vm.observe(args[0]).cls in (list, tuple) else ()
        if by is None and len(items) > 1:
            items = [vm.observe(item) for item in items]
            waiting = unbackednumber.function_of(function.__name__, items) or extreme_of(vm, function.__name__, items)
            if waiting is not None:
                return waiting
        best, best_key = None, None
        for item in args if len(args) > 1 else abstract.each(vm, args[0]):
            item_key = item if by is None else by.call(vm, [item], {})
            if best is None or abstract.truth(vm, operators.compare(vm, symbol, item_key, best_key)):  # type: ignore[arg-type]
                best, best_key = item, item_key
        if best is None:
            best = default
        if best is None:
            vm.raise_(ValueError, f"{function.__name__}() {EMPTY}")
        return best

    models(function)(model)


try:
    max([])
except ValueError as _error:
    EMPTY = str(_error).partition("() ")[2]
extreme(min, "<")
extreme(max, ">")


@models(sorted)
def sorted_(vm: VM, iterable: Object, *, key: Object | None = None, reverse: Object | None = None) -> Object:
    return ListObject(sort(vm, abstract.list_of(vm, iterable), key, reverse))


# Numbers and text.


@models(abs)
def abs_(vm: VM, obj: Object) -> Object:
    waiting = unbackednumber.function_of("abs", [vm.observe(obj)]) or magnitude(vm, vm.observe(obj))
    if waiting is not None:
        return waiting
    return special(vm, obj, "__abs__", lambda cls: f"bad operand type for abs(): '{type_name(cls)}'")


def special(vm: VM, obj: Object, name: str, complaint: Callable[[type], str], *args: Object) -> Object:
    """Call a special method, or raise the TypeError of a type that has none."""
    obj = vm.observe(obj)
    found = call_special(vm, obj, name, *args)
    if found is None:
        vm.raise_(TypeError, complaint(obj.cls))
    return found


@models(round)
def round_(vm: VM, number: Object, ndigits: Object | None = None) -> Object:
    args = [] if ndigits is None or vm.observe(ndigits).cls is type(None) else [vm.observe(ndigits)]
    number = vm.observe(number)
    if args and args[0].cls is int and number.cls is float:
        waiting = unbackednumber.rounded_to(number, args[0].constant(vm)) or rounded_to(vm, number, args[0].constant(vm))
        if waiting is not None:
            return waiting
    if not args and number.cls is int and number.is_symbolic(vm):
        return number
    nearest = converted(vm, "nearest", number) if not args and number.cls is float else None
    whole = None if args else nearest or rounded(vm, "round", number) or unbackednumber.checked(vm, "round", [number], int)
    if whole is not None:
        return whole
    return special(vm, number, "__round__", lambda cls: f"type {type_name(cls)} doesn't define __round__ method", *args)


@models(divmod)
def divmod_(vm: VM, a: Object, b: Object) -> Object:
    a, b = vm.observe(a), vm.observe(b)
    both = quotient_and_remainder(vm, a, b)
    if both is not None:
        return TupleObject(list(both))
    found = operators.binary_slots(vm, a, b, "__divmod__", "__rdivmod__")
    if found is None:
        vm.raise_(TypeError, f"unsupported operand type(s) for divmod(): '{a.type_name}' and '{b.type_name}'")
    return found


@models(pow)
def pow_(vm: VM, base: Object, exp: Object, mod: Object | None = None) -> Object:
    if mod is None or vm.observe(mod).cls is type(None):
        return operators.binary_op(vm, "**", base, exp)
    numbers = [vm.observe(arg) for arg in [base, exp, mod]]
    if all(number.cls in NUMBERS and number.is_knowable() for number in numbers):
        return fold(vm, pow, *[number.constant(vm) for number in numbers])
    vm.unsupported(breaks.UnsupportedCall("pow() of three operands, of which each may answer"))


def of_index(function: Callable[[int], str]) -> None:
    """Register the model of a function of one integer, which `__index__` may give."""

    def model(vm: VM, number: Object) -> Object:
        return fold(vm, function, operators.index(vm, number))

    models(function)(model)


for _function in (bin, hex, oct, chr):
    of_index(_function)


@models(bool)
def bool_(vm: VM, obj: Object | None = None) -> Object:
    if obj is None:
        return vm.const(False)
    obj = vm.observe(obj)
    if isinstance(obj, TensorObject):
        obj = number_out_of(vm, obj, "__bool__") or obj
    return unbackednumber.converted(vm, bool, obj) or vm.const(obj.truth(vm))


def of_one_instance(cls: type) -> None:
    """Register the class of a value that is its only instance."""

    def model(vm: VM, given: Object, *args: Object, **kwargs: Object) -> Object:
        try:
            return vm.const(cls(*[None] * len(args), **dict.fromkeys(kwargs)))
        except TypeError as error:
            vm.raise_(TypeError, *error.args)  # it takes no arguments

    models(cls.__new__)(model)


for _only in (None, NotImplemented, ...):
    of_one_instance(type(_only))


NO_BUFFERS = (object, list, tuple, dict, set, frozenset, type, type(None), complex, float, FunctionType)


def reject_buffer(vm: VM, obj: Object) -> None:
    """Break for a value that may be text or bytes of some kind (array, bytearray, a subclass of str) and that C code parses as a number."""
    if getattr(c_new(obj.cls), "__self__", object) not in NO_BUFFERS:
        vm.unsupported(breaks.UnsupportedValue(f"a {classes.name(obj.cls)} as the text of a number"))


@models(int)
def int_(vm: VM, obj: Object | None = None, base: Object | None = None) -> Object:
    if obj is None:
        if base is not None:
            vm.raise_(TypeError, "int() missing string argument")
        return vm.const(0)
    obj = vm.observe(obj)
    if obj.cls in (str, bytes) and len(obj.constant(vm)) > text.SHORTEST_LIMIT:
        vm.guards.read(sys.get_int_max_str_digits)
    if base is not None:
        return fold(vm, int, obj.constant(vm), vm.observe(base).constant(vm))
    obj = plain_number(vm, obj) or obj
    if obj.cls is int:
        return obj
    symbolic = converted(vm, "int", obj) or unbackednumber.converted(vm, int, obj) or rounded(vm, "int", obj)
    if symbolic is not None:
        return symbolic
    if obj.is_knowable():
        return fold(vm, int, obj.constant(vm))
    for name in ("__int__", "__index__", "__trunc__"):
        found = call_special(vm, obj, name)
        if found is not None:
            found = vm.observe(found)
            if name != "__trunc__" and not issubclass(found.cls, int):
                wrong_result(vm, obj, name, "an int", found, f"{name} returned non-int (type {found.type_name})")
            if found.cls is not int or name == "__trunc__":
                vm.unsupported(breaks.UnsupportedOperation(f"int() of a {classes.qualname(obj.cls)}, of whose {name} CPython warns"))
            return found
    reject_buffer(vm, obj)
    vm.raise_(TypeError, f"int() argument must be a string, a bytes-like object or a real number, not '{obj.type_name}'")


@models(float)
def float_(vm: VM, obj: Object | None = None) -> Object:
    if obj is None:
        return vm.const(0.0)
    obj = vm.observe(obj)
    obj = plain_number(vm, obj) or obj
    if obj.cls is float:
        return obj
    symbolic = converted(vm, "float", obj) or unbackednumber.converted(vm, float, obj)
    if symbolic is not None:
        return symbolic
    if obj.is_knowable():
        return fold(vm, float, obj.constant(vm))
    found = call_special(vm, obj, "__float__")
    if found is not None:
        found = vm.observe(found)
        if not issubclass(found.cls, float):
            wrong_result(vm, obj, "__float__", "a float", found, f"{obj.type_name}.__float__ returned non-float (type {found.type_name})")
        if found.cls is not float:
            vm.unsupported(breaks.UnsupportedOperation(f"float() of a {classes.qualname(obj.cls)}, of whose __float__ CPython warns"))
        return found
    found = call_special(vm, obj, "__index__")
    if found is not None:
        return float_(vm, found)
    reject_buffer(vm, obj)
    vm.raise_(TypeError, f"float() argument must be a string or a real number, not '{obj.type_name}'")


@models(str)
def str_(vm: VM, obj: Object | None = None, encoding: Object | None = None, errors: Object | None = None) -> Object:
    if obj is None:
        return vm.const("")
    if encoding is None and errors is None:
        return text.str_(vm, obj)
    if any(arg is not None and not issubclass(vm.observe(arg).cls, str) for arg in (encoding, errors)):
        vm.unsupported(breaks.UnsupportedCall("str() with an encoding that is no str"))
    given = {name: vm.observe(arg).constant(vm) for name, arg in (("encoding", encoding), ("errors", errors)) if arg is not None}
    check_codec(vm, "str()", **given)
    return fold(vm, str, vm.observe(obj).constant(vm), **given)


@models(str.join)
def str_join(vm: VM, separator: Object, iterable: Object) -> Object:
    try:
        iterator = abstract.iter_(vm, iterable)
    except Raise as raised:
        if not issubclass(raised.exc.cls, TypeError):
            raise
        vm.raise_(TypeError, "can only join an iterable")
    abstract.ask_length(vm, vm.observe(iterator))  # PySequence_Fast makes a list of it
    parts = [vm.observe(part) for part in abstract.drain(vm, iterator)]
    for position, part in enumerate(parts):
        if not issubclass(part.cls, str):
            vm.raise_(TypeError, f"sequence item {position}: expected str instance, {part.type_name} found")
    return joined(vm, parts, separator.constant(vm)) or vm.const(separator.constant(vm).join([part.constant(vm) for part in parts]))


@models(str.format)
def str_format(vm: VM, template: Object, /, *args: Object, **kwargs: Object) -> Object:
    """str.format. Constants are formatted at once; others by their own `__format__`, if the template refers to them simply."""
    if isinstance(template, (ScalarSubclassObject, EnumObject)):
        return template  # see `scalarsubclass.MARKS`
    observed = [vm.observe(arg) for arg in args]
    named = {name: vm.observe(arg) for name, arg in kwargs.items()}
    given = [*observed, *named.values()]
    pieces = template_fields(template.constant(vm), len(args))
    if all(would_be_knowable(arg) and arg.cls in FOLDABLE and (pieces is None or not waits(vm, arg)) for arg in given):
        real = {name: arg.constant(vm) for name, arg in named.items()}
        return fold(vm, template.constant(vm).format, *[arg.constant(vm) for arg in observed], **real)
    if pieces is None:
        vm.unsupported(breaks.UnsupportedCall("str.format() of a template that it refuses"))
    positional, by_name = TupleObject(list(args)), dict_of(vm, [(vm.const(name), value) for name, value in kwargs.items()])
    return vm.call_app(plain.format_template, [vm.from_real(pieces), positional, by_name])


@models(repr)
def repr_(vm: VM, obj: Object) -> Object:
    return text.repr_(vm, obj)


@models(ascii)
def ascii_(vm: VM, obj: Object) -> Object:
    return text.ascii_(vm, obj)


@models(format)
def format_(vm: VM, obj: Object, spec: Object | None = None) -> Object:
    if spec is not None and not issubclass(vm.observe(spec).cls, str):
        vm.raise_(TypeError, f"format() argument 2 must be str, not {vm.observe(spec).type_name}")
    return text.format_(vm, obj, None, spec)


@models(range)
def range_(vm: VM, first: Object, stop: Object | None = None, step: Object | None = None) -> Object:
    return fold(vm, range, *[operators.index(vm, arg) for arg in (first, stop, step) if arg is not None])


# Functions that need the outside.

for _name in ("input", "open"):
    unsupported(breaks.SideEffect(f"{_name}()"), getattr(builtins, _name))
unsupported(breaks.Debugger("breakpoint()"), breakpoint)


# Methods that every object inherits.


@models(object.__eq__)
def object_eq(vm: VM, self: Object, other: Object) -> Object:
    return vm.const(True) if operators.is_(vm, self, other, unsure=False) else NOT_IMPLEMENTED


@models(object.__ne__)
def object_ne(vm: VM, self: Object, other: Object) -> Object:
    """Objects/typeobject.c: object_richcompare: `!=` is the opposite of `==` by default."""
    found = call_found_special(vm, self, "__eq__", other)
    if found is None or abstract.is_not_implemented(vm.observe(found)):
        return NOT_IMPLEMENTED
    return vm.const(not abstract.truth(vm, found))


@models(*[vars(object)[name] for name in ("__lt__", "__le__", "__gt__", "__ge__")])
def object_order(vm: VM, self: Object, other: Object) -> Object:
    return NOT_IMPLEMENTED


@models(object.__hash__)
def object_hash(vm: VM, self: Object) -> Object:
    if self.source is not None and self.value is not MISSING:
        guard_address(vm, self, "hash()")
        return vm.const(object.__hash__(self.value))
    is_by_identity = isinstance(self, IdentityConstant) or (self.is_knowable() and vm.raw_type_lookup(self.cls, "__hash__") is object.__hash__)
    if is_by_identity and id(self.value) not in classes.STAND_INS:
        vm.guards.rest_on_process("the address of an object")
        return vm.const(object.__hash__(self.constant(vm)))
    vm.unsupported(breaks.UnsupportedCall("hash() of an object made by the compiled function"))


@models(object.__str__)
def object_str(vm: VM, self: Object) -> Object:
    return text.repr_(vm, self)


@models(object.__format__)
def object_format(vm: VM, self: Object, spec: Object) -> Object:
    if not issubclass(vm.observe(spec).cls, str):
        vm.unsupported(breaks.UnsupportedCall(f"__format__() with a {vm.observe(spec).type_name}"))
    if vm.observe(spec).constant(vm):
        vm.raise_(TypeError, f"unsupported format string passed to {self.type_name}.__format__")
    return text.str_(vm, self)
