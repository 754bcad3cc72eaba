"""Texts made of numbers and strings that aren't guarded: f"{name}, step {i}: {loss.item():.3f}". The generated code writes them in each call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from framejit import breaks
from framejit.objects.core.object import VM, Codegen, Object
from framejit.objects.numbers.numberobject import Deferred, NumberObject, has_symbols
from framejit.objects.numbers.unbackednumber import MANY_BITS, UnbackedNumber, UnbackedValue, bits_of
from framejit.objects.types.constobject import ConstObject

SAMPLES: dict[type, tuple[Any, ...]] = {
    int: (0, 1, -1, 10**30), float: (0.0, -1.5, 1e300, float("nan"), float("inf")), bool: (True, False), str: ("", "a", "\u20ac\n"),
}  # fmt: skip
"""Sample values: a format that raises for none of these raises for no value of their type."""

Part = str | tuple[Object, Callable[[Any, str], str], str]
"""A piece of a text, or a number or string in it with the function that writes it and the format spec."""


class StringObject(ConstObject):
    """An exact str."""

    __slots__ = ()

    def binary_op(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        return added(vm, symbol, self, other, reflected) if is_from_outside(self) or is_from_outside(other) else None


class DeferredText(Deferred):
    """A text that contains numbers and strings from outside. Their values are guarded only if something asks for the text."""

    __slots__ = ("parts", "operands")

    def __init__(self, parts: Sequence[Part]) -> None:
        super().__init__("".join([part if isinstance(part, str) else part[1](part[0].value, part[2]) for part in parts]), None, pending=True)
        self.parts = parts
        self.operands = tuple(value for value in self.values() if isinstance(value, NumberObject))

    def values(self) -> list[Object]:
        """The numbers and strings in it."""
        return [part[0] for part in self.parts if not isinstance(part, str)]

    def referents(self) -> list[Object]:
        return self.values() if self.pending else []

    def constant(self, vm: VM) -> Any:
        if self.pending:
            for value in self.values():
                if isinstance(value, NumberObject) and value.source is not None:
                    ConstObject.constant(value, vm)  # a guard on its value, not a relation between symbols, shows what changes from call to call
                else:
                    value.constant(vm)
            vm.trail.fill(self, "pending", False)
        return self.value

    def binary_op(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        return added(vm, symbol, self, other, reflected)

    def reconstruct(self, cg: Codegen) -> None:
        if self.pending:
            write(cg, self.parts)
        else:
            cg.load_const(self.value)


class UnbackedText(UnbackedValue):
    """A text that contains numbers whose values aren't known before the graph has run."""

    __slots__ = ("parts",)

    def __init__(self, parts: Sequence[Part]) -> None:
        super().__init__(str)
        self.parts = parts

    def constant(self, vm: VM) -> Any:
        return "".join([part if isinstance(part, str) else part[1](part[0].constant(vm), part[2]) for part in self.parts])

    def binary_op(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        return added(vm, symbol, self, other, reflected)

    def reconstruct(self, cg: Codegen) -> None:
        write(cg, self.parts)

    def referents(self) -> list[Object]:
        return [part[0] for part in self.parts if not isinstance(part, str)]

    def __repr__(self) -> str:
        return f"a text with {next(number for number in self.referents() if isinstance(number, UnbackedNumber))!r} in it"


def write(cg: Codegen, parts: Sequence[Part]) -> None:
    """Push a text."""
    for part in parts:
        if isinstance(part, str):
            cg.load_const(part)
        else:
            cg.load(part[0])
            cg.load_const(part[2])
            cg.call_const(part[1], 2)
    cg.build_tuple(len(parts))
    cg.call_const("".join, 1)


def format_as_text(number: Any, spec: str) -> str:
    """`f"{number!s:spec}"`."""
    return format(str(number), spec)


def format_as_repr(value: Any, spec: str) -> str:
    """`f"{value!r:spec}"`."""
    return format(repr(value), spec)


def format_as_ascii(value: Any, spec: str) -> str:
    """`f"{value!a:spec}"`."""
    return format(ascii(value), spec)


CONVERSIONS: dict[str | None, Callable[[Any, str], str]] = {None: format, "s": format_as_text, "r": format_as_repr, "a": format_as_ascii}
"""The functions that write a value in an f-string, by the letter after the exclamation mark."""


def converted(obj: Object) -> tuple[Object, Callable[[Any, str], str]] | None:
    """If the text is `str()`, `repr()` or `ascii()` of a value, that value, and the function that formats the text of it; None for others."""
    if isinstance(obj, (DeferredText, UnbackedText)) and len(obj.parts) == 1 and not isinstance(obj.parts[0], str):
        value, function, spec = obj.parts[0]
        if not spec and function in (format_as_text, format_as_repr, format_as_ascii):
            return value, function
    return None


def format_by_percent(number: Any, template: str) -> str:
    """A number or string by a printf-style template with one conversion."""
    return template % (number,)


def is_from_outside(obj: Object) -> bool:
    """Return whether an Object is a str from outside whose value nothing has asked for."""
    return isinstance(obj, StringObject) and obj.pending


def waits(vm: VM, obj: Object) -> bool:
    """Return whether an Object is a number or string that isn't guarded, or a text that contains one."""
    if is_from_outside(obj):
        return True
    if isinstance(obj, NumberObject):
        return obj.pending and has_symbols(vm, obj)
    return isinstance(obj, UnbackedNumber) or is_waiting(obj)


def real_of(vm: VM, obj: Object, function: str) -> Any:
    """The real argument of a function in C that is called while tracing. Breaks for a number or text that varies, for each value of which the program would be
    compiled. `function`: what is called, for the reason."""
    obj = vm.observe(obj)
    if waits(vm, obj):
        vm.unsupported(breaks.UnsupportedCall(f"{function} for a number or text that varies"))
    return obj.as_real(vm)


def formatted(vm: VM, number: Object, function: Callable[[Any, str], str] = format, spec: str = "") -> Object | None:
    """The text of a number or string that isn't guarded; None for others, and if making it may fail."""
    if is_waiting(number) or not waits(vm, number) or (number.cls is not str and bits_of(number) >= MANY_BITS):
        return None
    try:
        for sample in SAMPLES[number.cls]:
            function(sample, spec)
    except (TypeError, ValueError, OverflowError):
        return None
    return text_of([(number, function, spec)])


def joined(vm: VM, texts: Sequence[Object], separator: str = "") -> Object | None:
    """Texts joined by a separator; None if the values of all are known."""
    if not any(is_waiting(text) or is_from_outside(text) for text in texts):
        return None
    parts: list[Part] = []
    for index, text in enumerate(texts):
        if separator and index:
            parts.append(separator)
        if isinstance(text, (DeferredText, UnbackedText)) and is_waiting(text):
            parts += text.parts
        elif is_from_outside(text):
            parts.append((text, format, ""))
        else:
            parts.append(text.constant(vm))
    return text_of(parts)


def text_of(parts: Sequence[Part]) -> DeferredText | UnbackedText:
    """A text of these parts."""
    known_later = any(isinstance(part[0], UnbackedNumber) for part in parts if not isinstance(part, str))
    return UnbackedText(parts) if known_later else DeferredText(parts)


def is_waiting(text: Object) -> bool:
    """Return whether a text contains numbers that aren't guarded."""
    return isinstance(text, UnbackedText) or (isinstance(text, DeferredText) and text.pending)


def added(vm: VM, symbol: str, text: Object, other: Object, reflected: bool) -> Object | None:
    """`text + other`, or the other way round; None if one isn't a text, or its value would have to be asked for."""
    if symbol not in ("+", "+=") or other.cls is not str or not (other.is_known() or is_waiting(other) or is_from_outside(other)):
        return None
    return joined(vm, [other, text] if reflected else [text, other])
