"""The methods of io.StringIO and io.BytesIO (Modules/_io/stringio.c, bytesio.c, iobase.c): they run on a real stream in the same state."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from framejit import breaks
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, NotConstant, Object
from framejit.objects.core.registry import models, models_by_default
from framejit.objects.types.bufferobject import BufferObject
from framejit.objects.types.constobject import NONE
from framejit.objects.types.simulation import run_on
from framejit.objects.types.streamobject import UNTRANSLATED, StreamObject, WrittenLength
from framejit.objects.types.waitingtext import is_from_outside, is_waiting
from framejit.program import classes

STREAMS: tuple[type, ...] = (io.StringIO, io.BytesIO)
SIMULATED = (
    "close", "fileno", "getvalue", "isatty", "read", "read1", "readable", "readline", "readlines", "seek", "seekable", "tell", "truncate", "writable",
    "detach", "__next__", "_checkClosed", "_checkReadable", "_checkSeekable", "_checkWritable",
)  # fmt: skip
"""Methods that take and give constants."""
GIVE_THEMSELVES = ("__enter__", "__iter__")
FIELDS = ("closed", "encoding", "errors", "newlines", "line_buffering")


def descriptors(name: str) -> list[Any]:
    """The descriptors that a name has on the classes of streams, each once."""
    found = [classes.lookup(cls, name) for cls in STREAMS if hasattr(cls, name)]
    return [descriptor for index, descriptor in enumerate(found) if descriptor not in found[:index]]


def stream(vm: VM, obj: Object, name: str) -> StreamObject:
    """The stream that a method is called on. Breaks for other files."""
    obj = vm.observe(obj)
    if not isinstance(obj, StreamObject):
        vm.unsupported(breaks.UnsupportedCall(f"{classes.qualname(obj.cls)}.{name}"))
    return obj


def run(vm: VM, obj: Object, name: str, *args: Object, **kwargs: Object) -> Any:
    """The real result of a method, which runs on a real stream in the same state. If it raises, the traced program does."""
    self = stream(vm, obj, name)
    real = self.real(vm)
    by_name = {key: vm.observe(arg).as_real(vm) for key, arg in kwargs.items()}
    return run_on(vm, self, real, getattr(real, name), [vm.observe(arg).as_real(vm) for arg in args], by_name)


def simulated(name: str) -> Callable[..., Object]:
    """The model of a method that takes and gives constants."""

    def method(vm: VM, self: Object, *args: Object, **kwargs: Object) -> Object:
        return vm.from_real(run(vm, self, name, *args, **kwargs))

    return method


def giving_itself(name: str) -> Callable[..., Object]:
    """The model of a method that gives the stream itself, if that is open."""

    def method(vm: VM, self: Object) -> Object:
        run(vm, self, name)
        return self

    return method


def field(name: str) -> Callable[..., Object]:
    """The model of reading an attribute that C code computes."""

    def get(vm: VM, self: Object) -> Object:
        real = stream(vm, self, name).real(vm)
        try:
            return vm.const(getattr(real, name))
        except ValueError as error:
            vm.raise_(ValueError, *error.args)

    return get


for _name in SIMULATED:
    models_by_default(*descriptors(_name))(simulated(_name))
for _name in GIVE_THEMSELVES:
    models(*descriptors(_name))(giving_itself(_name))
for _name in FIELDS:
    models(*descriptors(_name))(field(_name))


@models(*descriptors("__exit__"))
def leave(vm: VM, self: Object, *args: Object) -> Object:
    """iobase_exit. It calls `close`, which a stream may have as an attribute of its own."""
    return abstract.call_method(vm, stream(vm, self, "__exit__"), "close")


@models(io.StringIO)
def make_text_stream(vm: VM, initial_value: Object | None = None, newline: Object | None = None) -> Object:
    """StringIO(). One that looks for several ends of lines remembers which ones it has seen, which isn't traced."""
    kind = UNTRANSLATED if newline is None else vm.observe(newline).constant(vm)
    if kind is None or kind == "":
        raise NotConstant(vm.observe(newline))  # type: ignore[arg-type]
    return made(vm, io.StringIO, initial_value, kind)


@models(io.BytesIO)
def make_byte_stream(vm: VM, initial_bytes: Object | None = None) -> Object:
    return made(vm, io.BytesIO, initial_bytes)


def made(vm: VM, cls: type, initial: Object | None, newline: Any = UNTRANSLATED) -> Object:
    """A new stream, whose position is at the beginning."""
    stream = StreamObject(cls)
    initial = None if initial is None else vm.observe(initial)
    if initial is not None and newline == UNTRANSLATED and (is_waiting(initial) or is_from_outside(initial)):
        stream.contents, stream.position = initial, 0
        return stream
    arguments = [] if initial is None else [initial.as_real(vm)]
    options = {"newline": newline} if cls is io.StringIO else {}
    try:
        real = cls(*arguments, **options)
    except Exception as error:
        vm.raise_(type(error), *error.args)
    stream.follow(vm, real)
    return stream


def check_open(vm: VM, own: StreamObject) -> None:
    """Raise the traced ValueError if a stream is closed."""
    if own.source is None:
        run(vm, own, "_checkClosed")
    else:
        own.check_open(vm)


@models(*descriptors("flush"))
def flush(vm: VM, self: Object) -> Object:
    check_open(vm, stream(vm, self, "flush"))
    return NONE


@models(io.StringIO.getvalue)
def getvalue(vm: VM, self: Object) -> Object:
    own = stream(vm, self, "getvalue")
    if own.is_closed or own.source is not None:
        return vm.from_real(run(vm, own, "getvalue"))
    return own.text(vm)


@models(io.StringIO.write)
def write_text(vm: VM, self: Object, text: Object) -> Object:
    """stringio_write. Values of texts from outside, and of numbers in a text, aren't asked for."""
    own, text = stream(vm, self, "write"), vm.observe(text)
    if text.cls is not str and not own.is_closed and not issubclass(text.cls, str):
        vm.raise_(TypeError, f"string argument expected, got '{text.type_name}'")
    if own.source is not None and text.cls is str:
        own.write_later(vm, text)
    elif own.appends() and text.cls is str:
        own.append(vm, text)
    else:
        return vm.from_real(run(vm, own, "write", text))
    return WrittenLength(text) if is_waiting(text) or is_from_outside(text) else vm.const(len(text.constant(vm)))


@models(io.BytesIO.write)
def write_bytes(vm: VM, self: Object, data: Object) -> Object:
    return vm.from_real(run(vm, self, "write", data))


@models(io.BytesIO.readinto)
def read_into(vm: VM, self: Object, buffer: Object) -> Object:
    """BytesIO.readinto. Breaks for buffers that the trace hasn't made."""
    own, buffer = stream(vm, self, "readinto"), vm.observe(buffer)
    if not isinstance(buffer, BufferObject):
        vm.unsupported(breaks.UnsupportedCall("BytesIO.readinto"))
    real, target = own.real(vm), buffer.real()
    count = run_on(vm, own, real, real.readinto, [target], {})
    buffer.follow(vm, target)
    return vm.const(count)


@models(*descriptors("writelines"))
def writelines(vm: VM, self: Object, lines: Object) -> Object:
    """iobase_writelines, which calls `write`: a stream may have one as an attribute of its own. bytesio_writelines doesn't look for one."""
    own = stream(vm, self, "writelines")
    check_open(vm, own)
    for line in abstract.each(vm, lines):
        if own.cls is io.StringIO:
            abstract.call_method(vm, own, "write", line)
        else:
            write_bytes(vm, own, line)
    return NONE
