"""json: texts that the trace knows are read by the C scanner while tracing, and the C encoder is the library's own in Python, traced."""

from __future__ import annotations

import json.decoder
import json.encoder
import json.scanner
from types import BuiltinFunctionType
from typing import Any

from framejit import breaks
from framejit.guards.source import Source
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Object, Raise, fold
from framejit.objects.core.registry import app, models, pure, wraps
from framejit.objects.types import waitingtext
from framejit.objects.types.constobject import ConstObject
from framejit.plain import json as plain

Scanner: Any = vars(json.scanner)["c_make_scanner"]
scanstring: Any = vars(json.decoder)["c_scanstring"]
HOOKS = ("object_hook", "object_pairs_hook", "parse_float", "parse_int", "parse_constant")
USUAL = {name: getattr(json.JSONDecoder(), name) for name in HOOKS}
LONGEST = 20_000
"""The length of the texts, in characters, that are read while tracing: the generated code builds what is in them part by part."""

pure(vars(json.encoder)["c_encode_basestring"], vars(json.encoder)["c_encode_basestring_ascii"])
app(vars(json.encoder)["c_make_encoder"])(plain.make_encoder)
app(Scanner)(plain.scanner_of)


@wraps(Scanner, by_identity=True)
def wrap_scanner(vm: VM, value: Any, source: Source | None) -> Object:
    """Wrap the scanner of a decoder, whose attributes can't be set."""
    return ConstObject(value, source)


def is_usual(scanner: Any) -> bool:
    """Return whether a scanner has the usual hooks, and none of the program's. That for constants is a bound method, which is made anew for each decoder."""
    found = {name: getattr(scanner, name) for name in HOOKS}
    return all(found[name] is usual or (type(found[name]) is type(usual) is BuiltinFunctionType and found[name] == usual) for name, usual in USUAL.items())


def write_float(value: float, spec: str) -> str:
    """Write a float whose value isn't known while tracing; run by generated code."""
    return plain.text_of_float(value, True)


@models(plain.text_of_float)
def text_of_float(vm: VM, value: Object, allow_nan: Object) -> Object:
    number, allowed = vm.observe(value), vm.observe(allow_nan).truth(vm)
    waiting = waitingtext.formatted(vm, number, write_float) if allowed and not number.is_known() else None
    return fold(vm, plain.text_of_float, number.constant(vm), allowed) if waiting is None else waiting


def in_c(vm: VM, function: Any, args: list[Object]) -> Object:
    """The result of a function in C for arguments that the trace knows."""
    given = [vm.observe(arg).constant(vm) for arg in args]
    try:
        found = function(*given)
    except json.JSONDecodeError as error:
        made = abstract.call(vm, vm.const(json.JSONDecodeError), [vm.const(part) for part in (error.msg, error.doc, error.pos)])
        raise Raise(vm.observe(made)) from None
    except RecursionError:
        vm.unsupported(breaks.UnsupportedCall("a scanner of json for deeply nested values"))
    except Exception as error:
        vm.raise_(type(error), *error.args)
    return vm.from_real(found)


@models(Scanner.__call__)
def scan_once(vm: VM, self: Object, string: Object, idx: Object) -> Object:
    """Modules/_json.c: scanner_call. Hooks of the program's are called by the library's scanner in Python, which is traced."""
    scanner, text = self.constant(vm), vm.observe(string)
    if text.cls is not str or vm.observe(idx).cls is not int or len(text.constant(vm)) > LONGEST:
        vm.unsupported(breaks.UnsupportedCall(f"a scanner of json for a {text.type_name}" + " that is long" * (text.cls is str)))
    if is_usual(scanner):
        return in_c(vm, scanner, [string, idx])
    return vm.call_app(plain.scan_once, [self, string, idx])


@models(scanstring)
def scan_string(vm: VM, string: Object, end: Object, strict: Object | None = None) -> Object:
    """Modules/_json.c: py_scanstring."""
    return in_c(vm, scanstring, [string, end, *([] if strict is None else [strict])])
