"""str.encode, bytes.decode, bytes() and binascii, with Python's own codecs and error handlers. Those that a program registers run its code at each call."""

from __future__ import annotations

import binascii
import codecs
from types import BuiltinFunctionType
from typing import Any

from framejit import breaks
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Object, fold
from framejit.objects.core.registry import models, pure
from framejit.objects.types.buffermethods import taken

CODECS = frozenset({
    "utf-8", "utf8", "ascii", "us-ascii", "latin-1", "latin1", "iso-8859-1", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be",
    "raw-unicode-escape", "unicode-escape",
})  # fmt: skip
HANDLERS = frozenset({"strict", "ignore", "replace", "surrogateescape", "surrogatepass", "backslashreplace", "xmlcharrefreplace", "namereplace"})
pure(*[found for found in vars(binascii).values() if isinstance(found, BuiltinFunctionType)])
OWN_HANDLERS: dict[str, Any] = {name: codecs.lookup_error(name) for name in HANDLERS}


def check_codec(vm: VM, function: str, encoding: Any = "utf-8", errors: Any = "strict") -> None:
    """Break if the function would run more than Python's own C code. A program may have replaced one of Python's error handlers."""
    if str(encoding).lower() not in CODECS or errors not in HANDLERS or codecs.lookup_error(errors) is not OWN_HANDLERS[errors]:
        vm.unsupported(breaks.UnsupportedCall(f"{function} by the codec {encoding!r} with the error handler {errors!r}"))


def transcoder(method: Any) -> None:
    @models(method)
    def transcode(vm: VM, self: Object, encoding: Object | None = None, errors: Object | None = None) -> Object:
        arguments = {name: vm.observe(value).as_real(vm) for name, value in (("encoding", encoding), ("errors", errors)) if value is not None}
        check_codec(vm, method.__qualname__, **arguments)
        return fold(vm, lambda text: method(text, **arguments), self.as_real(vm))


transcoder(str.encode)
transcoder(bytes.decode)


@models(bytes)
def bytes_(vm: VM, source: Object | None = None, encoding: Object | None = None, errors: Object | None = None) -> Object:
    source = None if source is None else taken(vm, vm.observe(source))
    named = (("source", source), ("encoding", encoding), ("errors", errors))
    given = {name: vm.observe(value).as_real(vm) for name, value in named if value is not None}
    if encoding is not None or errors is not None:
        check_codec(vm, "bytes()", given.get("encoding", "utf-8"), given.get("errors", "strict"))
    return fold(vm, bytes, **given)


@models(codecs.encode)
def encode(vm: VM, obj: Object, encoding: Object | None = None, errors: Object | None = None) -> Object:
    """codecs.encode of a text."""
    obj = vm.observe(obj)
    if obj.cls is not str:
        vm.unsupported(breaks.UnsupportedCall(f"codecs.encode of a {obj.type_name}"))
    given = {name: value for name, value in (("encoding", encoding), ("errors", errors)) if value is not None}
    return abstract.call(vm, abstract.getattr_(vm, obj, "encode"), [], given)
