"""printf-style formatting of strings (Objects/unicodeobject.c: PyUnicode_Format) with values that are not all constants."""

from __future__ import annotations

import operator
import re
from collections import deque
from typing import Any

from framejit.guards.source import MISSING
from framejit.objects.core import abstract, text
from framejit.objects.core.object import FOLDABLE, VM, NotConstant, Object, fold
from framejit.objects.core.registry import models
from framejit.objects.types.constobject import EnumObject
from framejit.objects.types.dictobject import DictObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.objects.types.waitingtext import format_by_percent, formatted, is_waiting, joined, waits

CONVERSION = re.compile(r"%(?P<key>\()?(?P<flags>[#0\- +]*)(?P<width>\*|\d*)(?P<precision>\.(?:\*|\d*))?[hlL]?(?P<kind>.)?", re.DOTALL)
KEYED = re.compile(r"%\((?P<key>[^()]*)\)(?P<how>[#0\- +]*\d*(?:\.\d*)?)[hlL]?(?P<kind>[^%])|%%", re.DOTALL)
"""Conversions that take their value from a mapping."""
KINDS = frozenset("diouxXeEfFgGcrsa%")
TEXTS = {"s": text.str_, "r": text.repr_, "a": text.ascii_}


@models(str.__mod__)
def percent(vm: VM, self: Object, values: Object) -> Object:
    """`template % values`: the texts for `%s`, `%r` and `%a` are made by the objects' own methods, in order; the rest is real formatting."""
    if isinstance(self, EnumObject):
        raise NotConstant(self)  # the member is the result, see `scalarsubclass.MARKS`
    template = self.constant(vm)
    values = vm.observe(values)
    if values.is_knowable() and values.cls in FOLDABLE and not waits(vm, values):
        return fold(vm, operator.mod, template, values.constant(vm))
    if isinstance(values, DictObject) and "%" not in KEYED.sub("", template):
        return percent_of_mapping(vm, template, values)
    given = values.items(vm) if isinstance(values, TupleObject) else [values]
    waiting = percent_of_waiting(vm, template, given)
    if waiting is not None:
        return waiting
    real: list[Any] = []
    pieces = []
    end = 0
    for found in CONVERSION.finditer(template):
        pieces.append(template[end : found.start()])
        end = found.end()
        kind = found["kind"]
        if found["key"] or "*" in found[0]:
            return fold(vm, operator.mod, template, values.as_real(vm))
        if kind == "%" or kind is None or len(real) == len(given):
            pieces.append(found[0])
            continue
        item = vm.observe(given[len(real)])
        if kind in TEXTS:
            item = vm.observe(TEXTS[kind](vm, item))
            pieces.append(found[0][:-1] + "s")
        else:
            pieces.append(found[0])
        real.append(item.constant(vm))
    if isinstance(values, TupleObject) or not is_mapping(vm, values):
        real += [None] * (len(given) - len(real))  # too many are an error
    is_alone = len(real) == 1 and not isinstance(values, TupleObject) and not isinstance(real[0], tuple)
    return fold(vm, operator.mod, "".join(pieces) + template[end:], real[0] if is_alone else tuple(real))  # errors tell a value from a tuple of one


def percent_of_waiting(vm: VM, template: str, given: list[Object]) -> Object | None:
    """`template % values` if one of the values isn't known yet: each conversion makes a text of its own. None for others, and if it must be made now."""
    conversions, values = list(CONVERSION.finditer(template)), [vm.observe(value) for value in given]
    taking = [found for found in conversions if found["kind"] != "%"]
    if len(taking) != len(values) or not any(waits(vm, value) for value in values):
        return None
    if any(found["key"] or found["kind"] not in KINDS or "*" in found[0] for found in conversions):
        return None
    waiting = [percent_of_one(vm, found[0], value) if waits(vm, value) else value for found, value in zip(taking, values, strict=True)]
    pieces: list[Object] = []
    end, left = 0, enumerate(waiting)
    for found in conversions if None not in waiting else ():
        pieces.append(vm.const(template[end : found.start()]))
        end = found.end()
        if found["kind"] == "%":
            pieces.append(vm.const("%"))
            continue
        position, piece = next(left)
        assert piece is not None
        pieces.append(piece if is_waiting(piece) else percent_of_known(vm, found[0], position, piece))
    return joined(vm, [*pieces, vm.const(template[end:])]) if pieces else None


def percent_of_known(vm: VM, conversion: str, position: int, value: Object) -> Object:
    """The text of a known value by one conversion. Empty texts stand in for the `position` values before it, since errors say which one they are about."""
    empty = [vm.const("")] * position
    return vm.observe(percent(vm, vm.const("%.0s" * position + conversion), TupleObject([*empty, value])))


def percent_of_one(vm: VM, conversion: str, value: Object) -> Object | None:
    """A value that waits, formatted by one conversion; None if that may fail, or must be known now."""
    if is_waiting(value):
        return value if conversion == "%s" else None
    return formatted(vm, value, format_by_percent, conversion)


def is_mapping(vm: VM, values: Object) -> bool:
    """Return whether PyUnicode_Format treats the values as a mapping, which needn't be used up: PyMapping_Check, lists included."""
    return vm.raw_type_lookup(values.cls, "__getitem__") is not MISSING and not issubclass(values.cls, (str, deque))


class InOrder:
    """A mapping that gives values one after another, whatever the keys are."""

    def __init__(self, values: list[Any]) -> None:
        self.left = iter(values)

    def __getitem__(self, key: str) -> Any:
        return next(self.left)


def percent_of_mapping(vm: VM, template: str, values: Object) -> Object:
    """`template % mapping`, where every conversion has a key: nothing else of the mapping is read."""
    real: list[Any] = []

    def with_text(found: re.Match[str]) -> str:
        if found["key"] is None:
            return found[0]
        item = vm.observe(abstract.getitem(vm, values, vm.const(found["key"])))
        is_text = found["kind"] in TEXTS
        if is_text:
            item = vm.observe(TEXTS[found["kind"]](vm, item))
        real.append(item.constant(vm))
        return found[0][:-1] + "s" if is_text else found[0]

    return fold(vm, operator.mod, KEYED.sub(with_text, template), InOrder(real))
