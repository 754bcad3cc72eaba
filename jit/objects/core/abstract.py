"""The generic operations on Objects, as in CPython's Objects/abstract.c and Objects/object.c: each dispatches on the slots of the operand's type.

Every operation observes its operands, which guards their exact types. It asks the Object's own C slots first, and then goes by the attributes of
the real class (the generic slots of object.py), so that descriptors and subclasses need no special treatment. Operators are in operators.py, text in text.py.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterator
from types import FunctionType, MethodDescriptorType, WrapperDescriptorType
from typing import Any

from framejit import breaks
from framejit.guards.source import MISSING
from framejit.objects.core import differences, wording
from framejit.objects.core.delivery import AS_IT_IS, BEHIND_NULL, DROPPED, LOOKED_UP, LOOKED_UP_BEHIND_NULL, Delivery
from framejit.objects.core.object import (
    FOLDABLE,
    VM,
    NotConstant,
    Object,
    Raise,
    call_special,
    fold,
    full_name,
    generic_getattr,
    generic_setattr,
    wrong_result,
)
from framejit.program import classes


def is_not_implemented(obj: Object) -> bool:
    return obj.value is NotImplemented


def truth(vm: VM, obj: Object) -> bool:
    """PyObject_IsTrue."""
    return vm.observe(obj).truth(vm)


def depends_on_data(vm: VM, obj: Object) -> bool:
    """Return whether a value's truth depends on the data of tensors."""
    return vm.observe(obj).depends_on_data


def length(vm: VM, obj: Object) -> Object:
    """PyObject_Size."""
    return vm.observe(obj).length(vm)


# Attributes.


def getattr_(vm: VM, obj: Object, name: str) -> Object:
    """PyObject_GetAttr. An AttributeError gets the name that was asked for, and the object."""
    obj = vm.observe(obj)
    try:
        return obj.getattr(vm, name)
    except Raise as raised:
        vm.observe(raised.exc).asked_for(vm, obj, name)
        raise


def lookup_attr(vm: VM, obj: Object, name: str) -> Object | None:
    """getattr that returns None if the attribute is missing (_PyObject_LookupAttr)."""
    try:
        return vm.observe(obj).getattr(vm, name)
    except Raise as raised:
        if issubclass(raised.exc.cls, AttributeError):
            return None
        raise


def setattr_(vm: VM, obj: Object, name: str, value: Object) -> None:
    vm.observe(obj).setattr(vm, name, value)


def delattr_(vm: VM, obj: Object, name: str) -> None:
    vm.observe(obj).setattr(vm, name, None)


# The following are separate instructions: the result of the program's getter or setter is delivered, unless a C slot of the owner might do more.


def load_attr(vm: VM, obj: Object, name: str, delivery: Delivery = LOOKED_UP) -> Object:
    obj = vm.observe(obj)
    try:
        return generic_getattr(vm, obj, name, delivery) if type(obj).getattr is Object.getattr else obj.getattr(vm, name)
    except Raise as raised:
        vm.observe(raised.exc).asked_for(vm, obj, name)
        raise


def load_method(vm: VM, obj: Object, name: str, null_above: bool) -> tuple[Object, Object | None]:
    """`obj.name` about to be called. (attribute, None) for now; bound methods are cheap to make. `null_above`: the NULL will be above the attribute.

    If the class has no hooks, an AttributeError raised by a getter is left as it is (Objects/object.c: _PyObject_GetMethod).
    """
    obj = vm.observe(obj)
    if type(obj).getattr is not Object.getattr or has_hooks(vm, obj.cls):
        return load_attr(vm, obj, name, LOOKED_UP if null_above else LOOKED_UP_BEHIND_NULL), None
    return generic_getattr(vm, obj, name, AS_IT_IS if null_above else BEHIND_NULL), None


def has_hooks(vm: VM, cls: type) -> bool:
    """Return whether the attributes of a class's instances are found by more than the generic rule."""
    generic = vm.raw_type_lookup(cls, "__getattribute__") is object.__getattribute__
    return not generic or vm.raw_type_lookup(cls, "__getattr__") is not MISSING


def store_attr(vm: VM, obj: Object, name: str, value: Object) -> None:
    obj = vm.observe(obj)
    if type(obj).setattr is Object.setattr:
        generic_setattr(vm, obj, name, value, DROPPED)
    else:
        obj.setattr(vm, name, value)


def load_item(vm: VM, obj: Object, key: Object) -> Object:
    obj = vm.observe(obj)
    return getitem(vm, obj, key, AS_IT_IS if type(obj).getitem is Object.getitem and not issubclass(obj.cls, type) else None)


def store_item(vm: VM, obj: Object, key: Object, value: Object) -> None:
    obj = vm.observe(obj)
    setitem(vm, obj, key, value, DROPPED if type(obj).setitem is Object.setitem else None)


def super_attr(vm: VM, global_super: Object, args: list[Object], name: str, implied: bool) -> Object:
    """Look up an attribute on a call of `super` with the class and the instance; `implied`: the program calls it without arguments.

    If the instance is None, CPython's instruction gives the attribute of an unbound `super` as long as it is not specialised, and raises
    TypeError once it is (Python/specialize.c, _PySuper_Lookup): which of them happens depends on the state of the function's own code.
    """
    real = getattr(vm.observe(global_super), "value", None) is super
    if real and vm.observe(args[1]).cls is type(None) and issubclass(vm.observe(args[0]).cls, type):
        vm.unsupported(breaks.SuperOfNone(name))
    return getattr_(vm, call(vm, global_super, [] if implied and not real else args, {}), name)


# Items.


def getitem(vm: VM, obj: Object, key: Object, delivery: Delivery | None = None) -> Object:
    """PyObject_GetItem."""
    obj = vm.observe(obj)
    found = obj.getitem(vm, key)
    if found is not None:
        return found
    if obj.cls in FOLDABLE and obj.is_knowable() and vm.observe(key).is_knowable():
        return fold(vm, operator.getitem, obj.constant(vm), key.constant(vm))
    found = call_special(vm, obj, "__getitem__", key, delivery=delivery)
    if found is None:
        found = getitem_of_class(vm, obj, key) if issubclass(obj.cls, type) else None
    if found is None:
        vm.raise_(TypeError, f"'{obj.type_name}' object is not subscriptable")
    return found


def getitem_of_class(vm: VM, cls: Object, key: Object) -> Object:
    """`cls[key]` if the metaclass has no `__getitem__`."""
    if cls.value is type:
        return vm.const(type[key.constant(vm)])  # type: ignore[index]
    generic = lookup_attr(vm, cls, "__class_getitem__")
    if generic is None or vm.observe(generic).cls is type(None):
        vm.raise_(TypeError, f"type '{classes.name(cls.value)}' is not subscriptable")
    return call(vm, generic, [key], {})


def setitem(vm: VM, obj: Object, key: Object, value: Object, delivery: Delivery | None = None) -> None:
    obj = vm.observe(obj)
    if not obj.setitem(vm, key, value) and call_special(vm, obj, "__setitem__", key, value, delivery=delivery) is None:
        key = vm.observe(key)
        if vm.raw_type_lookup(key.cls, "__index__") is not MISSING and not (key.cls is int and abs(key.constant(vm)) <= sys.maxsize):
            vm.unsupported(breaks.UnsupportedOperation(f"storing to an item of a {obj.type_name}"))  # a type with a sequence's slots asks for the index first
        vm.raise_(TypeError, f"'{obj.type_name}' object does not support item assignment")


def delitem(vm: VM, obj: Object, key: Object) -> None:
    obj = vm.observe(obj)
    if not obj.setitem(vm, key, None) and call_special(vm, obj, "__delitem__", key) is None:
        vm.unsupported(breaks.UnsupportedOperation(f"deleting an item of a {obj.type_name}"))  # the message depends on the key


MOST_ITEMS = 1 << 16
"""The most items of a container that a trace opens item by item, with a guard for each."""


def reject_many(vm: VM, obj: Object, count: int) -> None:
    """Break for a container from outside with too many items to guard each."""
    if count > MOST_ITEMS:
        vm.unsupported(breaks.UnsupportedOperation(f"going through a {classes.qualname(obj.cls)} of {count} items"))


TOO_LARGE = "Python int too large to convert to C ssize_t"
NO_INDEX = "cannot fit 'int' into an index-sized integer"


def ssize(vm: VM, number: int, error: type[Exception] = OverflowError, message: str = NO_INDEX) -> int:
    """A number that must fit into a Py_ssize_t, as PyNumber_AsSsize_t checks it; with TOO_LARGE as PyLong_AsSsize_t does."""
    if not -sys.maxsize - 1 <= number <= sys.maxsize:
        vm.raise_(error, message)
    return number


# Iteration.


def iter_(vm: VM, obj: Object) -> Object:
    return vm.observe(obj).iter(vm)


def next_(vm: VM, iterator: Object) -> Object | None:
    """PyIter_Next: None when exhausted."""
    return vm.observe(iterator).next(vm)


def each(vm: VM, obj: Object) -> Iterator[Object]:
    """The items of `for item in obj`: the caller handles each one before the next is asked for."""
    return steps(vm, iter_(vm, obj))


def iterate(vm: VM, obj: Object) -> list[Object]:
    """All items, taken before the caller handles any of them."""
    return list(each(vm, obj))


def steps(vm: VM, iterator: Object) -> Iterator[Object]:
    """The remaining items of an iterator."""
    iterator = vm.observe(iterator)
    while (item := iterator.next(vm)) is not None:
        yield item


def drain(vm: VM, iterator: Object) -> list[Object]:
    """The remaining items of an iterator, as a list: all are taken before the caller handles any."""
    return list(steps(vm, iterator))


def tuple_of(vm: VM, obj: Object) -> list[Object]:
    """All items, for a tuple: PySequence_Tuple."""
    return list_of(vm, obj) if differences.TUPLES_ASK_LENGTHS else iterate(vm, obj)


def list_of(vm: VM, obj: Object) -> list[Object]:
    """All items, for a list: PySequence_List, which asks for the number of items beforehand."""
    obj = vm.observe(obj)
    iterator = iter_(vm, obj)
    ask_length(vm, obj)
    return drain(vm, iterator)


def sequence_items(vm: VM, obj: Object) -> list[Object]:
    """Objects/abstract.c: PySequence_Fast: the items of exact lists and tuples as they are; of anything else, the items of a list made from its iterator."""
    return list_of(vm, iter_(vm, obj))


def may_run_python(found: Any) -> bool:
    """Return whether a class attribute is a special method that isn't written in C."""
    return found is not MISSING and type(found) not in (WrapperDescriptorType, MethodDescriptorType)


def ask_length(vm: VM, obj: Object) -> None:
    """PyObject_LengthHint, called for the side effects of `__len__` and `__length_hint__` written in Python; the answer itself isn't used."""
    if may_run_python(vm.raw_type_lookup(obj.cls, "__len__")):
        try:
            length(vm, obj)
            return
        except Raise as raised:
            if not issubclass(raised.exc.cls, TypeError):
                raise
    if not may_run_python(vm.raw_type_lookup(obj.cls, "__length_hint__")):
        obj.length_hint(vm)
        return
    try:
        found = call_special(vm, obj, "__length_hint__")
    except Raise as raised:
        if not issubclass(raised.exc.cls, TypeError):
            raise
        return
    assert found is not None
    found = vm.observe(found)
    if found.value is NotImplemented:
        return
    if not issubclass(found.cls, int):
        wrong_result(vm, obj, "__length_hint__", "an int", found, f"__length_hint__ must be an integer, not {found.type_name}")
    if found.constant(vm) < 0:
        is_new = wording.NAMES_METHOD_IN_FULL
        name = full_type_name(vm, obj)
        vm.raise_(ValueError, f"{name}.__length_hint__() must return a non-negative int" if is_new else "__length_hint__() should return >= 0")


def unpack(vm: VM, obj: Object, n: int) -> list[Object]:
    """UNPACK_SEQUENCE."""
    iterator = iter_to_unpack(vm, obj)
    items = first(vm, iterator, n, f"{n}")
    if next_(vm, iterator) is not None:
        cls = vm.observe(obj).cls
        size = length(vm, obj).constant(vm) if wording.COUNTS_SURPLUS and cls in (list, tuple, dict) else None
        vm.raise_(ValueError, wording.too_many(n, cls, size))
    return items


def unpack_ex(vm: VM, obj: Object, before: int, after: int) -> list[Object]:
    """UNPACK_EX: `before` items, the list of the middle, `after` items. Everything after the first `before` items is made a list, as by `list(iterator)`."""
    iterator = iter_to_unpack(vm, obj)
    expected = f"at least {before + after}"
    items = first(vm, iterator, before, expected)
    rest = list_of(vm, iterator)
    if len(rest) < after:
        vm.raise_(ValueError, f"not enough values to unpack (expected {expected}, got {before + len(rest)})")
    return [*items, vm.from_real(rest[: len(rest) - after]), *rest[len(rest) - after :]]


def iter_to_unpack(vm: VM, obj: Object) -> Object:
    """The iterator of a value that is unpacked."""
    obj = vm.observe(obj)
    if vm.raw_type_lookup(obj.cls, "__iter__") is MISSING and vm.raw_type_lookup(obj.cls, "__getitem__") is MISSING:
        vm.raise_(TypeError, f"cannot unpack non-iterable {obj.type_name} object")
    return iter_(vm, obj)


def first(vm: VM, iterator: Object, n: int, expected: str) -> list[Object]:
    """The first items of an iterator; raises the traced ValueError if there are fewer."""
    items: list[Object] = []
    while len(items) < n:
        item = next_(vm, iterator)
        if item is None:
            vm.raise_(ValueError, f"not enough values to unpack (expected {expected}, got {len(items)})")
        items.append(item)
    return items


# Calls.


def call(
    vm: VM, function: Object, args: list[Object], kwargs: dict[str, Object] | None = None, delivery: Delivery | None = None
) -> Object:
    function = vm.observe(function)
    try:
        return function.call(vm, args, kwargs or {}, delivery)
    except NotConstant as needed:
        vm.unsupported(breaks.UnsupportedCall(f"{function.name_when_called} needs the value of {needed.obj!r} while tracing"))


def call_method(vm: VM, obj: Object, name: str, *args: Object) -> Object:
    return call(vm, getattr_(vm, obj, name), list(args))


# Exceptions and imports.


def is_subtype(vm: VM, cls: type, base: type) -> bool:
    """PyType_IsSubtype: no `__subclasscheck__` is asked."""
    if cls is base:
        return True
    vm.rest_on_bases(cls)
    return classes.is_subtype(cls, base)


def class_to_make(vm: VM, cls: Object) -> type:
    """The class of which a `__new__` in C makes an instance."""
    real: type = vm.observe(cls).constant(vm)
    check_finalizer(vm, real)
    return real


def check_finalizer(vm: VM, cls: type) -> None:
    """Break where an instance of a class is to be made whose end runs code of the program's: the trace doesn't know when that would be."""
    if classes.flags(cls) & classes.HEAP_TYPE and vm.raw_type_lookup(cls, "__del__") is not MISSING:
        vm.unsupported(breaks.UnsupportedCall(f"making an instance of {classes.name(cls)}, whose __del__ runs when the last reference goes"))


def exception_match(vm: VM, exc: Object, cls: Object) -> bool:
    """CHECK_EXC_MATCH: everything listed must be an exception class, even if an earlier one matches."""
    cls = vm.observe(cls)
    kinds = [vm.observe(item) for item in iterate(vm, cls)] if issubclass(cls.cls, tuple) else [cls]
    if not all(issubclass(kind.cls, type) and issubclass(kind.value, BaseException) for kind in kinds):
        vm.raise_(TypeError, "catching classes that do not inherit from BaseException is not allowed")
    return any(is_subtype(vm, exc.cls, kind.value) for kind in kinds)


# Generators.


def send(vm: VM, receiver: Object, value: Object) -> tuple[Object, bool]:
    """SEND (Python/ceval.c): the yielded value and False, or the returned value and True."""
    receiver = vm.observe(receiver)
    if receiver.is_generator():
        return vm.resume_generator(receiver, value, None)
    try:
        if vm.observe(value).cls is type(None):
            if isinstance(vm.raw_type_lookup(receiver.cls, "__next__"), FunctionType):  # the value of its StopIteration is wanted
                found = call_special(vm, receiver, "__next__")
            else:
                found = vm.next_with_end(receiver)
            return (vm.const(None), True) if found is None else (found, False)
        return call_method(vm, receiver, "send", value), False
    except Raise as raised:
        if issubclass(raised.exc.cls, StopIteration):
            return getattr_(vm, raised.exc, "value"), True
        raise


def throw(vm: VM, receiver: Object, exc: Object) -> tuple[Object, bool]:
    """Pass an exception to the iterator that a generator delegates to (_gen_throw). The result is as for `send`."""
    receiver = vm.observe(receiver)
    if receiver.is_generator():
        return vm.resume_generator(receiver, vm.const(None), exc)
    method = lookup_attr(vm, receiver, "throw")
    if method is None:
        raise Raise(exc)
    try:
        return call(vm, method, [exc]), False
    except Raise as raised:
        if issubclass(raised.exc.cls, StopIteration):
            return getattr_(vm, raised.exc, "value"), True
        raise


def full_type_name(vm: VM, obj: Object) -> str:
    """The full name of a value's class, as newer messages of the interpreter have it."""
    return full_name(vm.observe(obj).cls)


def dict_key(vm: VM, key: Object) -> Any:
    """The hash key of a value that the program uses as a key of a dict."""
    return hash_key_as(vm, key, "dict key") if wording.NAMES_USE_OF_HASH else vm.observe(key).hash_key(vm)


def set_element(vm: VM, item: Object) -> Any:
    """The hash key of a value that the program uses as an element of a set."""
    return hash_key_as(vm, item, "set element") if wording.NAMES_USE_OF_HASH else vm.observe(item).hash_key(vm)


def hash_key_as(vm: VM, value: Object, use: str) -> Any:
    """The hash key of a value, in versions of Python whose error for an unhashable one says how the value was used, such as "dict key"."""
    value = vm.observe(value)
    try:
        return value.hash_key(vm)
    except Raise as raised:
        if raised.exc.cls is not TypeError:
            raise
        exception: Any = raised.exc
        if [vm.observe(arg).cls for arg in exception.args] != [str]:
            vm.unsupported(breaks.UnsupportedOperation(f"a {use} whose __hash__ raises a TypeError with other arguments than a text"))
        text = exception.args[0].constant(vm)
    vm.raise_(TypeError, f"cannot use '{full_type_name(vm, value)}' as a {use} ({text})")


def type_name(vm: VM, obj: Object) -> str:
    """The name of a value's class in the interpreter's messages."""
    return vm.observe(obj).type_name
