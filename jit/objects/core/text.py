"""Objects as text and their hashes: str(), repr(), ascii(), format(), hash(), as in CPython's Objects/object.c."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from framejit import breaks
from framejit.guards.source import MISSING
from framejit.objects.core import wording
from framejit.objects.core.object import FOLDABLE, NUMBERS_OF_FIXED_HASH, VM, Object, call_found_special, call_special, fold, wrong_result
from framejit.objects.types import waitingtext
from framejit.program.naming import LONG


def format_(vm: VM, obj: Object, conversion: str | None, spec: Object | None) -> Object:
    """FORMAT_VALUE: conversion is None, "s", "r" or "a"."""
    obj = vm.observe(obj)
    if spec is not None and conversion is None and (converted := waitingtext.converted(obj)) is not None:
        waiting = waitingtext.formatted(vm, *converted, vm.observe(spec).constant(vm))
        if waiting is not None:
            return waiting
    if not obj.is_known() and obj.is_knowable():
        waiting = waiting_text(vm, obj, conversion, "" if spec is None else vm.observe(spec).constant(vm))
        if waiting is not None:
            return waiting
    if conversion is not None:
        obj = vm.observe({"s": str_, "r": repr_, "a": ascii_}[conversion](vm, obj))
    rest_on_limit(vm, obj)
    if obj.is_knowable() and obj.cls in FOLDABLE and (spec is None or vm.observe(spec).is_knowable()):
        return fold(vm, format, obj.constant(vm), "" if spec is None else spec.constant(vm))
    found = call_special(vm, obj, "__format__", vm.const("") if spec is None else spec)
    assert found is not None
    return checked_text(vm, obj, "__format__", found, "__format__ must return a str, not {}")


def str_(vm: VM, obj: Object) -> Object:
    return _text(vm, obj, "__str__", str)


def repr_(vm: VM, obj: Object) -> Object:
    return _text(vm, obj, "__repr__", repr)


def ascii_(vm: VM, obj: Object) -> Object:
    return fold(vm, lambda text: text.encode("ascii", "backslashreplace").decode(), repr_(vm, obj).constant(vm))


def waiting_text(vm: VM, obj: Object, conversion: str | None, spec: str) -> Object | None:
    """The text of a value that varies or depends on the data of tensors, made by the generated code; None if the value must be asked for now."""
    if waitingtext.is_waiting(obj) or waitingtext.is_from_outside(obj):
        if conversion in (None, "s") and not spec:
            return obj
        if waitingtext.is_waiting(obj):
            return None
    return waitingtext.formatted(vm, obj, waitingtext.CONVERSIONS[conversion], spec)


def _text(vm: VM, obj: Object, special: str, real: Callable[[Any], str]) -> Object:
    obj = vm.observe(obj)
    if not obj.is_known() and obj.is_knowable():
        waiting = waiting_text(vm, obj, special.strip("_")[0], "")
        if waiting is not None:
            return waiting
    rest_on_limit(vm, obj)
    if obj.cls in FOLDABLE and obj.is_knowable():
        return fold(vm, real, obj.constant(vm))
    found = (call_found_special if special == "__repr__" else call_special)(vm, obj, special)
    if found is None:
        vm.unsupported(breaks.UnsupportedOperation("the repr() of an object whose __repr__ raises where it is looked up, with its address"))
    return checked_text(vm, obj, special, found, f"{special} returned non-string (type {{}})")


SHORTEST_LIMIT = 640
"""The lowest number of digits that sys.set_int_max_str_digits accepts: shorter ints can always be written out and read."""


def rest_on_limit(vm: VM, obj: Object) -> None:
    """Guard the number of digits that the process allows, for an int that it may refuse to convert to text."""
    if obj.cls is int and obj.value is not MISSING and obj.value.bit_length() > LONG:
        vm.guards.read(sys.get_int_max_str_digits)


def checked_text(vm: VM, obj: Object, special: str, found: Object, complaint: str) -> Object:
    """The result of a special method of a value, which must be a str."""
    found = vm.observe(found)
    if not issubclass(found.cls, str):
        wrong_result(vm, obj, special, "a str", found, complaint.format(found.type_name))
    return found


def hash_(vm: VM, obj: Object) -> Object:
    obj = vm.observe(obj)
    if obj.cls in FOLDABLE and obj.is_knowable():
        if obj.cls not in NUMBERS_OF_FIXED_HASH:
            vm.guards.rest_on_process("the hash of what isn't a number")
        return fold(vm, hash, obj.constant(vm))
    method = vm.raw_type_lookup(obj.cls, "__hash__")
    if method is None:
        vm.raise_(TypeError, f"unhashable type: '{obj.type_name}'")
    found = call_found_special(vm, obj, "__hash__")
    if found is None:
        vm.raise_(TypeError, f"unhashable type: '{obj.type_name}'")
    found = vm.observe(found)
    if not issubclass(found.cls, int):
        vm.raise_(TypeError, "__hash__ method should return an integer")
    number = int(found.constant(vm))
    return vm.const(-2 if number == -1 else number if -sys.maxsize <= number <= sys.maxsize else hash(number))


class Rendering(threading.local):
    """The containers that this thread is rendering, so that one inside itself is shown as `[...]` (Py_ReprEnter)."""

    def __init__(self) -> None:
        self.active: list[Object] = []


RENDERING = Rendering()


def is_being_rendered(owner: Object) -> bool:
    """Return whether a container's repr is asked for while that repr is being made."""
    return any(active is owner for active in RENDERING.active)


def repr_of_items(vm: VM, owner: Object, brackets: Sequence[str], parts: Callable[[], list[str]], inside: str = "...") -> Object:
    """The repr of a container: `parts` in brackets, or `inside` in them if the container holds itself."""
    if is_being_rendered(owner):
        return vm.const(f"{brackets[0]}{inside}{brackets[-1]}")
    RENDERING.active.append(owner)
    try:
        return vm.const(brackets[0] + ", ".join(parts()) + brackets[-1])
    finally:
        RENDERING.active.pop()


def missing_item(vm: VM, item: Object, container: str, method: str) -> NoReturn:
    """Raise the error for an item that a method of a container (a list, a deque) has not found."""
    vm.raise_(ValueError, f"{real_repr(vm, item)} is not in {container}" if wording.NAMES_MISSING_ITEM else f"{container}.{method}(x): x not in {container}")


def real_repr(vm: VM, obj: Object) -> str:
    """`repr(obj)` as a real string, where it is known while tracing."""
    return vm.observe(repr_(vm, obj)).constant(vm)  # type: ignore[no-any-return]
