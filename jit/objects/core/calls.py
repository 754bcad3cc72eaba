"""Calls with unpacked arguments, and how their errors name the function (Objects/call.c, Python/ceval.c)."""

from __future__ import annotations

from typing import NoReturn

from framejit import breaks
from framejit.guards.source import MISSING
from framejit.objects.core import abstract, wording
from framejit.objects.core.delivery import Delivery
from framejit.objects.core.object import VM, Object, full_name
from framejit.objects.types.merging import entries_of


def call_ex(vm: VM, function: Object, args: Object, kwargs: Object | None, delivery: Delivery | None = None) -> Object:
    """CALL_FUNCTION_EX."""
    args = vm.observe(args)
    if not is_iterable(vm, args):  # check_args_iterable
        reject_star(vm, function, "*", "an iterable", args)
    positional = abstract.tuple_of(vm, args)
    named: dict[str, Object] = {}
    if kwargs is not None:
        for key, value in keyword_items(vm, kwargs):
            name = vm.observe(key)
            if not issubclass(name.cls, str):
                vm.raise_(TypeError, "keywords must be strings")
            named[name.constant(vm)] = value
    return abstract.call(vm, function, positional, named, delivery)


def reject_star(vm: VM, function: Object | None, star: str, wanted: str, value: Object) -> NoReturn:
    """Raise the error for what comes after `*` or `**` in a call and is of a wrong type."""
    name = full_name(value.cls) if star == "**" and wording.NO_MAPPING_IN_FULL else value.type_name
    subject = f"{function_text(vm, function)} argument" if wording.NAMES_CALLED_IN_STARS else "Value"
    vm.raise_(TypeError, f"{subject} after {star} must be {wanted}, not {name}")


def is_iterable(vm: VM, obj: Object) -> bool:
    """Return whether the class has `__iter__`, or is a sequence by its `__getitem__`."""
    return vm.raw_type_lookup(obj.cls, "__iter__") is not MISSING or vm.raw_type_lookup(obj.cls, "__getitem__") is not MISSING


def function_text(vm: VM, function: Object | None) -> str:
    """The name that _PyObject_FunctionStr gives a function: with its module, unless that is builtins."""
    if function is None:
        return "function"
    names = {name: abstract.lookup_attr(vm, function, name) for name in ("__module__", "__qualname__")}
    qualname = names["__qualname__"]
    if qualname is None or not issubclass(vm.observe(qualname).cls, str):
        vm.unsupported(breaks.UnsupportedOperation("naming a callable without __qualname__ in an error"))
    module = names["__module__"]
    prefix = "" if module is None or vm.observe(module).cls is not str else f"{vm.observe(module).constant(vm)}."
    return f"{prefix.removeprefix('builtins.')}{vm.observe(qualname).constant(vm)}()"


def keyword_items(vm: VM, mapping: Object) -> list[tuple[Object, Object]]:
    """The items of a mapping that is passed as `**mapping`."""
    return list(entries_of(vm, mapping))
