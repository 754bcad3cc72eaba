"""io.StringIO and io.BytesIO: the contents of those that the trace makes are known, and those from outside are written to after the graph."""

from __future__ import annotations

import io
from typing import Any

from framejit.guards.kinds import Equals
from framejit.guards.source import MISSING, CAttr, Source
from framejit.objects.core.object import VM, Codegen, Namespace, NotConstant, Object
from framejit.objects.core.registry import wrapper_for, wraps
from framejit.objects.types.constobject import NONE
from framejit.objects.types.dictobject import attr_values, fill_attrs, instance_dict
from framejit.objects.types.waitingtext import is_from_outside, is_waiting, joined

UNTRANSLATED = "\n"
"""The default `newline` of a StringIO, which neither translates ends of lines nor looks for other ones."""
END = None
"""The position of a stream at the end of its contents."""


class StreamObject(Object):
    """A StringIO or BytesIO. Of one from outside, only what is appended to it is known.

    `contents`: a str or bytes. `position`: an index in it, or END. `newline`: of a StringIO. `is_closed`: such a stream has no contents any more.
    `written`: the texts that are written to one from outside.
    """

    __slots__ = ("contents", "position", "newline", "is_closed", "written")
    is_filled = True
    is_true = True

    def __init__(self, cls: type, source: Source | None = None, value: Any = MISSING) -> None:
        super().__init__(cls, source, value)
        self.contents: Object | None = None
        self.position: int | None = END
        self.newline: str | None = UNTRANSLATED
        self.is_closed = False
        self.written: list[Object] = []

    def instance_dict(self, vm: VM) -> Namespace | None:
        """The attributes that the program sets. Those of a stream from outside aren't traced, and nor is the `__dict__` as an object of its own."""
        return instance_dict(vm, self)

    def real(self, vm: VM) -> Any:
        """A real stream in the same state. Raises NotConstant for a stream from outside."""
        if self.source is not None:
            raise NotConstant(self)
        if self.is_closed:
            return remade(self.cls, None, self.position, self.newline)
        return remade(self.cls, self.known(vm), self.position, self.newline)

    def known(self, vm: VM) -> Any:
        """The contents as a real str or bytes."""
        return empty(self.cls) if self.contents is None else self.contents.constant(vm)

    def text(self, vm: VM) -> Object:
        """The contents of an open stream that the trace has made."""
        return vm.const(empty(self.cls)) if self.contents is None else self.contents

    def follow(self, vm: VM, real: Any) -> None:
        """Take over the state of a real stream on which a method has run."""
        if real.closed:
            vm.trail.set(self, "is_closed", True)
            return
        contents, *newline, position, _ = real.__getstate__()
        if self.contents is None or contents != self.known(vm):
            vm.trail.set(self, "contents", vm.const(contents))
        vm.trail.set(self, "position", END if position == len(contents) else position)
        if newline:
            vm.trail.set(self, "newline", *newline)

    def appends(self) -> bool:
        """Return whether a text that is written to the stream is added to the end as it is."""
        return self.cls is io.StringIO and not self.is_closed and self.position is END and self.newline == UNTRANSLATED

    def append(self, vm: VM, text: Object) -> None:
        """Write a text at the end."""
        before = self.text(vm)
        if is_waiting(text) or is_from_outside(text) or is_waiting(before):
            after = joined(vm, [before, text])
            assert after is not None
        else:
            after = vm.const(before.constant(vm) + text.constant(vm))
        vm.trail.set(self, "contents", after)

    def check_open(self, vm: VM) -> None:
        """Guard that a stream from outside is open."""
        assert self.source is not None
        if self.value.closed:
            raise NotConstant(self)
        vm.guard(Equals, self.source.child(CAttr, "closed"), False)

    def write_later(self, vm: VM, text: Object) -> None:
        """Write to a StringIO from outside, which must be open, after the graph."""
        self.check_open(vm)
        vm.trail.set(self, "written", [*self.written, text])
        vm.effects.mutated(self)

    def reconstruct(self, cg: Codegen) -> None:
        cg.call_const(self.cls, 0)

    def fill(self, cg: Codegen) -> None:
        cg.load(self)
        if self.is_closed:
            cg.call_const(self.cls.close, 1)  # type: ignore[attr-defined]
        else:
            cg.load(self.contents or NONE)
            cg.load_const(self.position)
            cg.load_const(self.newline)
            cg.call_const(set_state, 4)
        cg.pop_top()
        fill_attrs(cg, self)

    def replay(self, cg: Codegen) -> None:
        for text in self.written:
            cg.load(self)
            cg.load(text)
            cg.call_const(io.StringIO.write, 2)
            cg.pop_top()

    def referents(self) -> list[Object]:
        contents = [] if self.contents is None or self.is_closed else [self.contents]
        return [*contents, *self.written, *attr_values(self)]


class WrittenLength(Object):
    """The number of characters of a text whose value nothing has asked for."""

    __slots__ = ("text",)

    def __init__(self, text: Object) -> None:
        super().__init__(int)
        self.text = text

    def constant(self, vm: VM) -> Any:
        return len(self.text.constant(vm))

    def reconstruct(self, cg: Codegen) -> None:
        cg.load(self.text)
        cg.call_const(len, 1)

    def referents(self) -> list[Object]:
        return [self.text]


def empty(cls: type) -> str | bytes:
    """The contents of a new stream."""
    return "" if cls is io.StringIO else b""


def set_state(stream: Any, contents: Any, position: int | None, newline: str | None) -> None:
    """Give a new stream its contents. Generated code runs this too."""
    contents = empty(type(stream)) if contents is None else contents
    place = len(contents) if position is END else position
    stream.__setstate__((contents, newline, place, None) if type(stream) is io.StringIO else (contents, place, None))


def remade(cls: type, contents: Any, position: int | None, newline: str | None) -> Any:
    """A real stream; a closed one if there are no contents."""
    stream = cls()
    if contents is None:
        stream.close()
    else:
        set_state(stream, contents, position, newline)
    return stream


@wraps(io.StringIO, io.BytesIO, shared=True)
def wrap_stream(vm: VM, value: Any, source: Source) -> Object:
    """Wrap a stream from outside; one of the program's own class is an instance of that class."""
    if type(value) not in (io.StringIO, io.BytesIO):
        return wrapper_for(object).wrap(vm, value, source)
    return StreamObject(type(value), source, value)
