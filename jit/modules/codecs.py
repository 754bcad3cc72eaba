"""str.encode and bytes.decode: with the codecs and error handlers of Python's own. What a program registers runs its code, at each call."""

from __future__ import annotations

import codecs
from typing import Any

from framejit import breaks
from framejit.objects import abstract
from framejit.objects.object import Object
from framejit.objects.registry import models
from framejit.objects.vm import VM

CODECS = frozenset({
    "utf-8", "utf8", "ascii", "us-ascii", "latin-1", "latin1", "iso-8859-1", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be",
})  # fmt: skip
HANDLERS = frozenset({"strict", "ignore", "replace", "surrogateescape", "surrogatepass", "backslashreplace", "xmlcharrefreplace", "namereplace"})
OWN_HANDLERS: dict[str, Any] = {name: codecs.lookup_error(name) for name in HANDLERS}


def transcoder(method: Any) -> None:
    @models(method)
    def transcode(vm: VM, self: Object, encoding: Object | None = None, errors: Object | None = None) -> Object:
        arguments = {name: vm.observe(value).as_real(vm) for name, value in (("encoding", encoding), ("errors", errors)) if value is not None}
        codec, handler = str(arguments.get("encoding", "utf-8")).lower(), arguments.get("errors", "strict")
        if codec not in CODECS or handler not in HANDLERS or codecs.lookup_error(handler) is not OWN_HANDLERS[handler]:
            vm.unsupported(breaks.UnsupportedCall(f"{method.__qualname__} by the codec {codec!r} with the error handler {handler!r}"))
        return abstract.fold(vm, lambda text: method(text, **arguments), self.as_real(vm))


transcoder(str.encode)
transcoder(bytes.decode)
