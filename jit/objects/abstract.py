"""The generic operations, as CPython's Objects/abstract.c and Objects/object.c have them: dispatch on the type's slots.

Every operation observes its operands (which guards their exact types), asks the Object's own C slots first, and then goes
by the attributes of the real class, so that descriptors, reflected operators, NotImplemented and subclasses fall out.
"""

from __future__ import annotations

import operator
import sys
from collections import deque
from collections.abc import Callable
from types import FunctionType, WrapperDescriptorType
from typing import Any, NoReturn

from framejit import breaks
from framejit.guards.source import MISSING
from framejit.objects.object import NotConstant, Object, settle
from framejit.objects.vm import VM

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
UNARY: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "-": ("__neg__", operator.neg),
    "+": ("__pos__", operator.pos),
    "~": ("__invert__", operator.invert),
}
COMPARE: dict[str, tuple[str, str, Callable[[Any, Any], Any]]] = {
    "<": ("__lt__", "__gt__", operator.lt),
    "<=": ("__le__", "__ge__", operator.le),
    "==": ("__eq__", "__eq__", operator.eq),
    "!=": ("__ne__", "__ne__", operator.ne),
    ">": ("__gt__", "__lt__", operator.gt),
    ">=": ("__ge__", "__le__", operator.ge),
}
FOLDABLE: frozenset[type] = frozenset({int, float, bool, str, bytes, complex, type(None), type(...), type(NotImplemented), range})
"""Types whose operators are C code without side effects: constants of them are computed on the spot."""


def is_not_implemented(obj: Object) -> bool:
    return obj.value is NotImplemented


def fold(vm: VM, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Object:
    """Call a pure C function on real constants; its exception is the traced program's."""
    try:
        result = function(*args, **kwargs)
    except Exception as error:
        vm.raise_(type(error), *error.args)
    return vm.from_real(result)


def call_special(vm: VM, obj: Object, name: str, *args: Object) -> Object | None:
    """Call a special method looked up on the type, not the instance; None where the type has none."""
    method = vm.type_lookup(obj.cls, name)
    if method is None:
        return None
    return method.call_as_method(vm, obj, list(args))


# Operators.


def unary_op(vm: VM, symbol: str, a: Object) -> Object:
    a = vm.observe(a)
    found = a.unary_op(vm, symbol)
    if found is not None:
        return found
    name, real = UNARY[symbol]
    if a.cls in FOLDABLE and a.is_constant():
        return fold(vm, real, a.constant(vm))
    found = call_special(vm, a, name)
    if found is None:
        vm.raise_(TypeError, f"bad operand type for unary {symbol}: '{a.cls.__name__}'")
    return found


def not_(vm: VM, a: Object) -> Object:
    return vm.const(not truth(vm, a))


def binary_op(vm: VM, symbol: str, a: Object, b: Object) -> Object:
    """Objects/abstract.c: binary_op1, binary_iop1; sequences' `+` and `*` come out the same by their wrapped slots."""
    a, b = vm.observe(a), vm.observe(b)
    found = a.binary_op(vm, symbol, b, False)
    if found is None:
        found = b.binary_op(vm, symbol, a, True)
    if found is not None:
        return found
    plain = symbol
    if symbol in INPLACE:
        plain = symbol[:-1]
        if a.cls not in FOLDABLE:
            found = call_special(vm, a, INPLACE[symbol], b)
            if found is not None and not is_not_implemented(found):
                return found
    left, right, real = BINARY[plain]
    if a.cls in FOLDABLE and b.cls in FOLDABLE and a.is_constant() and b.is_constant():
        return fold(vm, real, a.constant(vm), b.constant(vm))
    found = binary_slots(vm, a, b, left, right)
    if found is None:
        vm.raise_(TypeError, operand_error(symbol, plain, a.cls, b.cls))
    return found


SEQUENCES = (list, tuple, str, deque)


def operand_error(symbol: str, plain: str, a: type, b: type) -> str:
    """What PyNumber_Add, PyNumber_Multiply and binop_type_error say of operands that nobody takes."""
    if plain == "+" and issubclass(a, SEQUENCES):
        kind = next(base for base in SEQUENCES if issubclass(a, base)).__name__
        return f'can only concatenate {kind} (not "{b.__name__}") to {kind}'
    if plain == "*" and (issubclass(a, SEQUENCES) or issubclass(b, SEQUENCES)):
        return f"can't multiply sequence by non-int of type '{(b if issubclass(a, SEQUENCES) else a).__name__}'"
    shown = "** or pow()" if plain == "**" and symbol == plain else symbol
    return f"unsupported operand type(s) for {shown}: '{a.__name__}' and '{b.__name__}'"


def binary_slots(vm: VM, a: Object, b: Object, left: str, right: str) -> Object | None:
    """The order of binary_op1: the right operand first where its class is a proper subclass that overrides; None: nobody answers."""
    reflected = None
    if a.cls is not b.cls:
        reflected = vm.raw_type_lookup(b.cls, right)
        if reflected is MISSING:
            reflected = None
    if reflected is not None and issubclass(b.cls, a.cls) and reflected is not vm.raw_type_lookup(a.cls, right):
        found = call_special(vm, b, right, a)
        if found is not None and not is_not_implemented(found):
            return found
        reflected = None
    found = None if is_refused(a, b, left) else call_special(vm, a, left, b)
    if found is not None and not is_not_implemented(found):
        return found
    if reflected is not None and not is_refused(b, a, right):
        found = call_special(vm, b, right, a)
        if found is not None and not is_not_implemented(found):
            return found
    return None


def is_refused(a: Object, b: Object, name: str) -> bool:
    """Whether the C slot of a number or string would answer NotImplemented: it knows only its own kind, and the other is none."""
    return a.cls in FOLDABLE and not b.is_constant() and not (a.cls in (str, bytes) and name == "__mod__")


def compare(vm: VM, symbol: str, a: Object, b: Object) -> Object:
    """Objects/object.c: do_richcompare."""
    a, b = vm.observe(a), vm.observe(b)
    found = a.compare(vm, symbol, b, False)
    if found is None:
        found = b.compare(vm, symbol, a, True)
    if found is not None:
        return found
    left, right, real = COMPARE[symbol]
    if a.cls in FOLDABLE and b.cls in FOLDABLE and a.is_constant() and b.is_constant():
        return fold(vm, real, a.constant(vm), b.constant(vm))
    swapped = False
    if a.cls is not b.cls and issubclass(b.cls, a.cls) and vm.raw_type_lookup(b.cls, right) is not vm.raw_type_lookup(a.cls, right):
        swapped = True
        found = call_special(vm, b, right, a)
        if found is not None and not is_not_implemented(found):
            return found
    found = None if is_refused(a, b, left) else call_special(vm, a, left, b)
    if found is not None and not is_not_implemented(found):
        return found
    if not swapped and not is_refused(b, a, right):
        found = call_special(vm, b, right, a)
        if found is not None and not is_not_implemented(found):
            return found
    if symbol == "==":
        return vm.const(is_(vm, a, b))
    if symbol == "!=":
        return vm.const(not is_(vm, a, b))
    vm.raise_(TypeError, f"'{symbol}' not supported between instances of '{a.cls.__name__}' and '{b.cls.__name__}'")


def equal(vm: VM, a: Object, b: Object) -> bool:
    """PyObject_RichCompareBool with Py_EQ: identity first."""
    if settle(a) is settle(b):
        return True
    return is_(vm, a, b, unsure=False) or truth(vm, compare(vm, "==", a, b))


def is_(vm: VM, a: Object, b: Object, unsure: bool = True) -> bool:
    """The `is` operator. Constants from outside are compared by identity of the real objects, guarded by value.

    Where identity can't be known (two equal numbers that the trace made), `unsure` decides between a break and False.
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
    if a.value is not MISSING and b.value is not MISSING:
        return vm.same_value(a, b, unsure)
    return False


def contains(vm: VM, container: Object, item: Object) -> Object:
    """PySequence_Contains."""
    container = vm.observe(container)
    found = container.contains(vm, item)
    if found is not None:
        return found
    if container.cls in FOLDABLE and container.is_constant() and vm.observe(item).is_constant():
        return fold(vm, operator.contains, container.constant(vm), item.constant(vm))
    if vm.raw_type_lookup(container.cls, "__contains__") is None:
        vm.raise_(TypeError, f"'{container.cls.__name__}' object is not a container")
    found = call_special(vm, container, "__contains__", item)
    if found is not None:
        return vm.const(truth(vm, found))
    try:
        iterator = iter_(vm, container)
    except vm.Raise as raised:
        if issubclass(raised.exc.cls, TypeError):
            vm.raise_(TypeError, f"argument of type '{container.cls.__name__}' is not iterable")
        raise
    while (element := next_(vm, iterator)) is not None:
        if equal(vm, element, item):
            return vm.const(True)
    return vm.const(False)


def truth(vm: VM, obj: Object) -> bool:
    """PyObject_IsTrue."""
    return vm.observe(obj).truth(vm)


def generic_truth(vm: VM, obj: Object) -> bool:
    if obj.cls in FOLDABLE and obj.is_constant():
        return bool(obj.constant(vm))
    found = call_special(vm, obj, "__bool__")
    if found is not None:
        found = vm.observe(found)
        if found.cls is not bool:
            vm.raise_(TypeError, f"__bool__ should return bool, returned {found.cls.__name__}")
        return bool(found.constant(vm))
    if vm.raw_type_lookup(obj.cls, "__len__") is not MISSING:
        return bool(generic_length(vm, obj).constant(vm))
    if obj.value is not MISSING and not issubclass(type(obj.value), obj.cls):
        vm.unsupported(breaks.UnsupportedValue(f"the truth of {obj!r}"))
    return True


def length(vm: VM, obj: Object) -> Object:
    """PyObject_Size."""
    return vm.observe(obj).length(vm)


def generic_length(vm: VM, obj: Object) -> Object:
    if obj.cls in FOLDABLE and obj.is_constant():
        return fold(vm, len, obj.constant(vm))
    found = call_special(vm, obj, "__len__")
    if found is None:
        vm.raise_(TypeError, f"object of type '{obj.cls.__name__}' has no len()")
    found = vm.observe(found)
    if not issubclass(found.cls, int):
        vm.raise_(TypeError, f"'{found.cls.__name__}' object cannot be interpreted as an integer")
    count = int(found.constant(vm))
    if count < 0:
        vm.raise_(ValueError, "__len__() should return >= 0")
    if count > sys.maxsize:
        vm.raise_(OverflowError, "cannot fit 'int' into an index-sized integer")
    return vm.const(count)


# Attributes.


def getattr_(vm: VM, obj: Object, name: str) -> Object:
    return vm.observe(obj).getattr(vm, name)


def lookup_attr(vm: VM, obj: Object, name: str) -> Object | None:
    """getattr that gives None where the attribute is missing (_PyObject_LookupAttr)."""
    try:
        return getattr_(vm, obj, name)
    except vm.Raise as raised:
        if issubclass(raised.exc.cls, AttributeError):
            return None
        raise


def generic_getattr(vm: VM, obj: Object, name: str) -> Object:
    """slot_tp_getattr_hook around PyObject_GenericGetAttr: an overridden `__getattribute__`, the generic rule, `__getattr__`."""
    cls = obj.cls
    getattribute = vm.raw_type_lookup(cls, "__getattribute__")
    try:
        if type(getattribute) is WrapperDescriptorType:  # C types repeat the generic slot under their own name
            found = find_attribute(vm, obj, name)
            if found is not None:
                return found
        else:
            hook = vm.type_lookup(cls, "__getattribute__")
            assert hook is not None
            return hook.call_as_method(vm, obj, [vm.const(name)])
    except vm.Raise as raised:
        if not issubclass(raised.exc.cls, AttributeError) or vm.raw_type_lookup(cls, "__getattr__") is MISSING:
            raise
    fallback = vm.type_lookup(cls, "__getattr__")
    if fallback is None:
        no_attribute(vm, obj, name)
    return fallback.call_as_method(vm, obj, [vm.const(name)])


def find_attribute(vm: VM, obj: Object, name: str) -> Object | None:
    """The generic rule without the hooks; None where nothing is found (_PyObject_GenericGetAttrWithDict with suppress)."""
    found = vm.type_lookup(obj.cls, name)
    if found is not None and found.is_data_descriptor(vm):
        return found.descriptor_get(vm, obj, obj.cls)
    namespace = obj.instance_dict(vm)
    if namespace is not None:
        value = namespace.lookup(vm, name)
        if value is not None:
            return value
    if found is not None:
        return found.descriptor_get(vm, obj, obj.cls)
    return None


def object_getattribute(vm: VM, obj: Object, name: str) -> Object:
    found = find_attribute(vm, obj, name)
    if found is None:
        no_attribute(vm, obj, name)
    return found


def no_attribute(vm: VM, obj: Object, name: str) -> NoReturn:
    vm.raise_(AttributeError, f"'{obj.cls.__name__}' object has no attribute '{name}'")


def setattr_(vm: VM, obj: Object, name: str, value: Object) -> None:
    vm.observe(obj).setattr(vm, name, value)


def delattr_(vm: VM, obj: Object, name: str) -> None:
    vm.observe(obj).setattr(vm, name, None)


def generic_setattr(vm: VM, obj: Object, name: str, value: Object | None) -> None:
    """slot_tp_setattro around PyObject_GenericSetAttr."""
    special = "__delattr__" if value is None else "__setattr__"
    if type(vm.raw_type_lookup(obj.cls, special)) is WrapperDescriptorType:
        object_setattr(vm, obj, name, value)
        return
    hook = vm.type_lookup(obj.cls, special)
    assert hook is not None
    hook.call_as_method(vm, obj, [vm.const(name)] if value is None else [vm.const(name), value])


def object_setattr(vm: VM, obj: Object, name: str, value: Object | None) -> None:
    """_PyObject_GenericSetAttrWithDict."""
    found = vm.type_lookup(obj.cls, name)
    if found is not None and found.descriptor_set(vm, obj, value):
        return
    namespace = obj.instance_dict(vm)
    if namespace is None:
        kind = "has no attribute" if found is None else "attribute"
        tail = "" if found is None else " is read-only"
        vm.raise_(AttributeError, f"'{obj.cls.__name__}' object {kind} '{name}'{tail}")
    if value is not None:
        namespace.store(vm, name, value)
    elif not namespace.delete(vm, name):
        vm.raise_(AttributeError, f"'{obj.cls.__name__}' object has no attribute '{name}'")


def load_method(vm: VM, obj: Object, name: str) -> tuple[Object, Object | None]:
    """`obj.name` about to be called. (attribute, None) for now; bound methods are cheap to make."""
    return getattr_(vm, obj, name), None


def super_attr(vm: VM, global_super: Object, cls: Object, self: Object, name: str) -> Object:
    return getattr_(vm, call(vm, global_super, [cls, self], {}), name)


# Items.


def getitem(vm: VM, obj: Object, key: Object) -> Object:
    """PyObject_GetItem."""
    obj = vm.observe(obj)
    found = obj.getitem(vm, key)
    if found is not None:
        return found
    if obj.cls in FOLDABLE and obj.is_constant() and vm.observe(key).is_constant():
        return fold(vm, operator.getitem, obj.constant(vm), key.constant(vm))
    found = call_special(vm, obj, "__getitem__", key)
    if found is None:
        generic = lookup_attr(vm, obj, "__class_getitem__") if issubclass(obj.cls, type) else None
        if generic is None:
            vm.raise_(TypeError, f"'{obj.cls.__name__}' object is not subscriptable")
        found = call(vm, generic, [key], {})
    return found


def setitem(vm: VM, obj: Object, key: Object, value: Object) -> None:
    obj = vm.observe(obj)
    if not obj.setitem(vm, key, value) and call_special(vm, obj, "__setitem__", key, value) is None:
        vm.raise_(TypeError, f"'{obj.cls.__name__}' object does not support item assignment")


def delitem(vm: VM, obj: Object, key: Object) -> None:
    obj = vm.observe(obj)
    if not obj.setitem(vm, key, None) and call_special(vm, obj, "__delitem__", key) is None:
        vm.raise_(TypeError, f"'{obj.cls.__name__}' object doesn't support item deletion")


# Iteration.


def iter_(vm: VM, obj: Object) -> Object:
    return vm.observe(obj).iter(vm)


def generic_iter(vm: VM, obj: Object) -> Object:
    """PyObject_GetIter."""
    if vm.raw_type_lookup(obj.cls, "__iter__") is None:
        vm.raise_(TypeError, f"'{obj.cls.__name__}' object is not iterable")
    found = call_special(vm, obj, "__iter__")
    if found is not None:
        found = vm.observe(found)
        if vm.raw_type_lookup(found.cls, "__next__") is MISSING:
            vm.raise_(TypeError, f"iter() returned non-iterator of type '{found.cls.__name__}'")
        return found
    if vm.raw_type_lookup(obj.cls, "__getitem__") is not MISSING:
        return vm.call_app_named("sequence_iterator", [obj])
    vm.raise_(TypeError, f"'{obj.cls.__name__}' object is not iterable")


def next_(vm: VM, iterator: Object) -> Object | None:
    """PyIter_Next: None when exhausted."""
    return vm.observe(iterator).next(vm)


def generic_next(vm: VM, iterator: Object) -> Object | None:
    try:
        found = call_special(vm, iterator, "__next__")
    except vm.Raise as raised:
        if issubclass(raised.exc.cls, StopIteration):
            return None
        raise
    if found is None:
        vm.raise_(TypeError, f"'{iterator.cls.__name__}' object is not an iterator")
    return found


def iterate(vm: VM, obj: Object) -> list[Object]:
    """All items: `for item in obj`."""
    return drain(vm, iter_(vm, obj))


def drain(vm: VM, iterator: Object) -> list[Object]:
    """What is left of an iterator."""
    iterator = vm.observe(iterator)
    items = []
    while (item := iterator.next(vm)) is not None:
        items.append(item)
    return items


def list_of(vm: VM, obj: Object) -> list[Object]:
    """All items, for a list or tuple: PySequence_List, which asks how many there will be."""
    obj = vm.observe(obj)
    iterator = iter_(vm, obj)
    ask_length(vm, obj)
    return drain(vm, iterator)


def ask_length(vm: VM, obj: Object) -> None:
    """PyObject_LengthHint, for what a class in Python does when asked; the answer itself changes nothing."""
    if isinstance(vm.raw_type_lookup(obj.cls, "__len__"), FunctionType):
        try:
            length(vm, obj)
            return
        except vm.Raise as raised:
            if not issubclass(raised.exc.cls, TypeError):
                raise
    if not isinstance(vm.raw_type_lookup(obj.cls, "__length_hint__"), FunctionType):
        return
    try:
        found = call_special(vm, obj, "__length_hint__")
    except vm.Raise as raised:
        if not issubclass(raised.exc.cls, TypeError):
            raise
        return
    assert found is not None
    found = vm.observe(found)
    if found.value is NotImplemented:
        return
    if not issubclass(found.cls, int):
        vm.raise_(TypeError, f"__length_hint__ must be an integer, not {found.cls.__name__}")
    if found.constant(vm) < 0:
        vm.raise_(ValueError, "__length_hint__() should return >= 0")


def unpack(vm: VM, obj: Object, n: int) -> list[Object]:
    """UNPACK_SEQUENCE."""
    obj = vm.observe(obj)
    if vm.raw_type_lookup(obj.cls, "__iter__") is MISSING and vm.raw_type_lookup(obj.cls, "__getitem__") is MISSING:
        vm.raise_(TypeError, f"cannot unpack non-iterable {obj.cls.__name__} object")
    iterator = iter_(vm, obj)
    items: list[Object] = []
    while len(items) < n:
        item = next_(vm, iterator)
        if item is None:
            vm.raise_(ValueError, f"not enough values to unpack (expected {n}, got {len(items)})")
        items.append(item)
    if next_(vm, iterator) is not None:
        vm.raise_(ValueError, f"too many values to unpack (expected {n})")
    return items


def unpack_ex(vm: VM, obj: Object, before: int, after: int) -> list[Object]:
    """UNPACK_EX: `before` items, the list of the middle, `after` items."""
    items = iterate(vm, obj)
    if len(items) < before + after:
        vm.raise_(ValueError, f"not enough values to unpack (expected at least {before + after}, got {len(items)})")
    middle = vm.new_list(items[before : len(items) - after])
    return [*items[:before], middle, *items[len(items) - after :]]


# Calls.


def call(vm: VM, function: Object, args: list[Object], kwargs: dict[str, Object] | None = None) -> Object:
    try:
        return vm.observe(function).call(vm, args, kwargs or {})
    except NotConstant as needed:
        vm.unsupported(breaks.UnsupportedCall(f"{vm.name_of(function)} needs the value of {needed.obj!r} while tracing"))


def generic_call(vm: VM, obj: Object, args: list[Object], kwargs: dict[str, Object]) -> Object:
    method = vm.type_lookup(obj.cls, "__call__")
    if method is None:
        vm.raise_(TypeError, f"'{obj.cls.__name__}' object is not callable")
    return method.call_as_method(vm, obj, args, kwargs)


def call_ex(vm: VM, function: Object, args: Object, kwargs: Object | None) -> Object:
    """CALL_FUNCTION_EX."""
    direct, vm.direct = vm.direct, False
    positional = list_of(vm, args)
    named: dict[str, Object] = {}
    if kwargs is not None:
        kwargs = vm.observe(kwargs)
        for key, value in vm.mapping_items(kwargs):
            name = vm.observe(key)
            if name.cls is not str:
                vm.raise_(TypeError, "keywords must be strings")
            named[name.constant(vm)] = value
    vm.direct = direct
    return call(vm, function, positional, named)


def call_method(vm: VM, obj: Object, name: str, *args: Object) -> Object:
    return call(vm, getattr_(vm, obj, name), list(args))


# Text.


def format_(vm: VM, obj: Object, conversion: str | None, spec: Object | None) -> Object:
    """FORMAT_VALUE: conversion is None, "s", "r" or "a"."""
    obj = vm.observe(obj)
    if conversion is not None:
        obj = vm.observe({"s": str_, "r": repr_, "a": ascii_}[conversion](vm, obj))
    if obj.is_constant() and obj.cls in FOLDABLE and (spec is None or vm.observe(spec).is_constant()):
        return fold(vm, format, obj.constant(vm), "" if spec is None else spec.constant(vm))
    found = call_special(vm, obj, "__format__", vm.const("") if spec is None else spec)
    assert found is not None
    return checked_text(vm, found, "__format__ must return a str, not {}")


def str_(vm: VM, obj: Object) -> Object:
    return _text(vm, obj, "__str__", str)


def repr_(vm: VM, obj: Object) -> Object:
    return _text(vm, obj, "__repr__", repr)


def ascii_(vm: VM, obj: Object) -> Object:
    return fold(vm, lambda text: text.encode("ascii", "backslashreplace").decode(), repr_(vm, obj).constant(vm))


def _text(vm: VM, obj: Object, special: str, real: Callable[[Any], str]) -> Object:
    obj = vm.observe(obj)
    if obj.cls in FOLDABLE and obj.is_constant():
        return fold(vm, real, obj.constant(vm))
    found = call_special(vm, obj, special)
    assert found is not None
    return checked_text(vm, found, f"{special} returned non-string (type {{}})")


def checked_text(vm: VM, found: Object, complaint: str) -> Object:
    """What a special method returned, which must be a str."""
    found = vm.observe(found)
    if not issubclass(found.cls, str):
        vm.raise_(TypeError, complaint.format(found.cls.__name__))
    return found


def hash_(vm: VM, obj: Object) -> Object:
    obj = vm.observe(obj)
    if obj.cls in FOLDABLE and obj.is_constant():
        return fold(vm, hash, obj.constant(vm))
    method = vm.raw_type_lookup(obj.cls, "__hash__")
    if method is None:
        vm.raise_(TypeError, f"unhashable type: '{obj.cls.__name__}'")
    found = call_special(vm, obj, "__hash__")
    assert found is not None
    found = vm.observe(found)
    if not issubclass(found.cls, int):
        vm.raise_(TypeError, "__hash__ method should return an integer")
    number = int(found.constant(vm))
    return vm.const(-2 if number == -1 else number if -sys.maxsize <= number <= sys.maxsize else hash(number))


# Exceptions and imports.


def exception_match(vm: VM, exc: Object, cls: Object) -> bool:
    """CHECK_EXC_MATCH."""
    cls = vm.observe(cls)
    kinds = vm.observe_all(iterate(vm, cls)) if issubclass(cls.cls, tuple) else [cls]
    for kind in kinds:
        if not (issubclass(kind.cls, type) and issubclass(kind.value, BaseException)):
            vm.raise_(TypeError, "catching classes that do not inherit from BaseException is not allowed")
        if issubclass(exc.cls, kind.value):
            return True
    return False


def call_special_with(vm: VM, obj: Object, name: str, args: list[Object], kwargs: dict[str, Object]) -> Object:
    """`call_special` with keyword arguments, for a method that is known to be there."""
    method = vm.type_lookup(obj.cls, name)
    assert method is not None
    return method.call_as_method(vm, obj, list(args), kwargs)


def import_name(vm: VM, namespace: Object, name: str, fromlist: Object, level: Object) -> Object:
    """IMPORT_NAME: only of what is imported already; running a module's code is a side effect."""
    return vm.import_module(namespace, name, vm.observe(fromlist).constant(vm), vm.observe(level).constant(vm))


def import_from(vm: VM, module: Object, name: str) -> Object:
    """IMPORT_FROM: the attribute, else the submodule in sys.modules."""
    found = lookup_attr(vm, module, name)
    if found is None:
        vm.raise_(ImportError, f"cannot import name '{name}'")
    return found


# Generators.


def send(vm: VM, receiver: Object, value: Object) -> tuple[Object, bool]:
    """SEND (Python/ceval.c): what it yields and False, or what it returns and True."""
    receiver = vm.observe(receiver)
    if receiver.is_generator():
        return vm.resume_generator(receiver, value, None)
    try:
        if vm.observe(value).cls is type(None):
            found = receiver.next(vm)
            return (vm.const(None), True) if found is None else (found, False)
        return call_method(vm, receiver, "send", value), False
    except vm.Raise as raised:
        if issubclass(raised.exc.cls, StopIteration):
            return getattr_(vm, raised.exc, "value"), True
        raise


def throw(vm: VM, receiver: Object, exc: Object) -> tuple[Object, bool]:
    """Pass an exception to the iterator that a generator delegates to (_gen_throw): as `send` answers."""
    receiver = vm.observe(receiver)
    if receiver.is_generator():
        return vm.resume_generator(receiver, vm.const(None), exc)
    method = lookup_attr(vm, receiver, "throw")
    if method is None:
        raise vm.Raise(exc)
    try:
        return call(vm, method, [exc]), False
    except vm.Raise as raised:
        if issubclass(raised.exc.cls, StopIteration):
            return getattr_(vm, raised.exc, "value"), True
        raise


def lookup_special(vm: VM, obj: Object, name: str) -> Object | None:
    """_PyObject_LookupSpecial: a special method, bound."""
    obj = vm.observe(obj)
    found = vm.type_lookup(obj.cls, name)
    return None if found is None else found.descriptor_get(vm, obj, obj.cls)


def type_name(vm: VM, obj: Object) -> str:
    """`type(obj).__name__`."""
    return vm.observe(obj).cls.__name__
