"""Generators (Objects/genobject.c): suspended frames, resumed where they are consumed. Those from outside are left where the trace has brought them."""

from __future__ import annotations

from collections.abc import Iterator
from types import CoroutineType, GeneratorType
from typing import Any

from framejit import breaks
from framejit._runtime import end_generator, move_generator
from framejit.guards.generators import SuspendedSlot
from framejit.guards.source import MISSING, Path, Slot, Source
from framejit.objects.core import abstract, differences
from framejit.objects.core.object import VM, Codegen, Object, Raise, settle
from framejit.objects.core.registry import CODES, models, wraps
from framejit.objects.types.exceptions import ExceptionObject, TracebackObject, decides_subclasses
from framejit.objects.types.iterobject import DelegatedSequence, load_slots

SEQUENCES = (list, tuple, str, bytes)
"""The types of sequences that GET_ITER of some versions leaves on the stack, with an index beside them."""


def names_of(frame: Any) -> tuple[str, str] | None:
    """`__name__` and `__qualname__` that a new generator of the frame takes from its function; None if they are those of its code."""
    function, code = frame.function, frame.code
    if function is None:
        return None
    if function.value is not MISSING:
        names = function.value.__name__, function.value.__qualname__
    else:
        given = [function.renamed.get(name) for name in ("__name__", "__qualname__")]
        names = tuple(own if value is None else value.value for own, value in zip((code.co_name, code.co_qualname), given))
    return None if names == (code.co_name, code.co_qualname) else names


def delegate(vm: VM, iterable: Object, of_coroutines: bool) -> Object:
    """GET_YIELD_FROM_ITER (Python/bytecodes.c): the iterator that a generator delegates to. It may be a coroutine if the generator is `of_coroutines`."""
    iterable = vm.observe(iterable)
    if iterable.cls is not CoroutineType:
        iterator = abstract.iter_(vm, iterable)
        return DelegatedSequence(iterable, iterator) if differences.DELEGATES_TO_SEQUENCES and iterable.cls in SEQUENCES else iterator
    if not of_coroutines:
        vm.raise_(TypeError, "cannot 'yield from' a coroutine object in a non-coroutine generator")
    vm.unsupported(breaks.UnsupportedValue("a coroutine"))


class GeneratorObject(Object):
    """A generator made by the trace, or one that stands in for an iterator of another class. `frame` is the interpreter's, opaque here."""

    __slots__ = ("vm", "frame", "names")

    def __init__(self, vm: VM, frame: Any) -> None:
        meaning = CODES.get(id(frame.code))
        super().__init__(GeneratorType if meaning is None else meaning.inside or GeneratorType)
        self.vm = vm
        self.frame = frame
        self.names = names_of(frame)

    def is_generator(self) -> bool:
        return self.cls is GeneratorType

    def iter(self, vm: VM) -> Object:
        return self

    def next(self, vm: VM) -> Object | None:
        value, finished = vm.resume_generator(self, vm.const(None), None)
        if finished and vm.hands_on_ends() and vm.observe(value).cls is not type(None):
            vm.unsupported(breaks.UnsupportedOperation("the end of a generator that returns a value, which an iterator in C hands on"))
        return None if finished else value

    def reconstruct(self, cg: Codegen) -> None:
        make, state = self.vm.rebuild_generator(self)
        cg.load(state)
        cg.call_const(make, 1)
        if self.names is not None:
            cg.load_const(self.names)
            cg.call_const(renamed, 2)

    def held_values(self) -> Iterator[tuple[Path, Object]]:
        names = self.frame.decoded.slots
        for index, part in enumerate([*self.frame.locals, *self.frame.stack]):
            if isinstance(part, Object):
                yield ((SuspendedSlot, Slot(index, names[index] if index < len(names) else "")),), part

    def referents(self) -> list[Object]:
        held = [*self.frame.locals, *self.frame.stack, self.frame.handled]
        return [each for each in held if isinstance(each, Object)]


def renamed(generator: Any, names: tuple[str, str]) -> Any:
    """Give a generator the names that its function had (runs in generated code)."""
    generator.__name__, generator.__qualname__ = names
    return generator


def is_same(a: Object | None, b: Object | None) -> bool:
    """Return whether two slots of a frame hold the same Object, or are both empty."""
    return a is b or (a is not None and b is not None and settle(a) is settle(b))


class OutsideGenerator(GeneratorObject):
    """A generator from outside. `frame`: its suspended frame, as the trace continues it; None until something resumes the generator. `offset`, `slots`: the
    place at which the frame was suspended, and its variables and stack, when the call began."""

    __slots__ = ("offset", "slots")

    def __init__(self, vm: VM, source: Source, value: Any) -> None:
        Object.__init__(self, GeneratorType, source, value)
        self.vm = vm
        self.frame = None
        self.names = None
        self.offset = 0
        self.slots: tuple[Object | None, ...] = ()

    def getattr(self, vm: VM, name: str) -> Object:
        if name.startswith("gi_"):
            vm.unsupported(breaks.UnsupportedOperation(f"{name} of a generator"))
        return Object.getattr(self, vm, name)

    def changed(self) -> list[tuple[int, Object | None]]:
        """The slots that hold other values than when the call began, with these values."""
        if self.frame is None or self.frame.has_ended:
            return []
        now = [*self.frame.locals, *self.frame.stack]
        before = [*self.slots, *(None,) * (len(now) - len(self.slots))]
        return [(index, value) for index, value in enumerate(now) if not is_same(value, before[index])]

    def replaced(self) -> list[tuple[Source, Object]]:
        assert self.source is not None
        names = self.frame.decoded.slots if self.frame is not None else ()
        slots = [(Slot(index, names[index]), value) for index, value in self.changed() if index < len(names) and value is not None]
        return [(self.source.child(SuspendedSlot, slot), settle(value)) for slot, value in slots]

    def replay(self, cg: Codegen) -> None:
        frame, changed = self.frame, self.changed()
        if not changed and not frame.has_ended and frame.instruction.offset == self.offset:
            return
        cg.load(self)
        cg.load_const(self.offset)
        if frame.has_ended:
            cg.load_const(frame.created_at)
            cg.call_const(end_generator, 3)
            cg.pop_top()
            return
        cg.load_const(frame.instruction.offset)
        cg.load_const(len(frame.locals) + len(frame.stack))
        cg.load_const(tuple([index for index, _ in changed]))
        load_slots(cg, [value for _, value in changed])
        cg.call_const(move_generator, 6)
        cg.pop_top()

    def referents(self) -> list[Object]:
        return [value for _, value in self.changed() if value is not None]


@wraps(GeneratorType, shared=True)
def wrap_generator(vm: VM, value: Any, source: Source) -> Object:
    return OutsideGenerator(vm, source, value)


def stop_iteration(vm: VM, value: Object) -> Any:
    """Raise StopIteration with a generator's return value."""
    if vm.observe(value).cls is type(None):
        vm.raise_(StopIteration)
    vm.raise_(StopIteration, value)


@models(GeneratorType.__next__)
def generator_next(vm: VM, self: Object) -> Object:
    return generator_send(vm, self, vm.const(None))


@models(GeneratorType.__iter__)
def generator_iter(vm: VM, self: Object) -> Object:
    return self


@models(GeneratorType.send)
def generator_send(vm: VM, self: Object, value: Object) -> Object:
    result, finished = vm.resume_generator(self, value, None)
    return stop_iteration(vm, result) if finished else result  # type: ignore[no-any-return]


def is_traceback_of(vm: VM, traceback: Object, exc: Object) -> bool:
    """Return whether setting this traceback changes nothing about the exception: it is None, or the one that it has."""
    if isinstance(traceback, TracebackObject):
        return isinstance(exc, ExceptionObject) and exc.source is None and exc.traceback(vm) is traceback
    return traceback.cls is type(None)


@models(GeneratorType.throw)
def generator_throw(vm: VM, self: Object, exc: Object, value: Object | None = None, traceback: Object | None = None) -> Object:
    exc = vm.observe(exc)
    if not (issubclass(exc.cls, BaseException) or (issubclass(exc.cls, type) and issubclass(exc.value, BaseException))):
        vm.unsupported(breaks.UnsupportedCall("generator.throw() of what is no exception"))
    if decides_subclasses(vm, exc.value if issubclass(exc.cls, type) else exc.cls):
        vm.unsupported(breaks.UnsupportedCall("generator.throw() of an exception whose metaclass has a __subclasscheck__"))
    if issubclass(exc.cls, type):
        if value is None or vm.observe(value).cls is type(None):
            exc = abstract.call(vm, exc, [])
        else:
            exc = value if abstract.is_subtype(vm, vm.observe(value).cls, exc.value) else abstract.call(vm, exc, [value])
    elif value is not None and vm.observe(value).cls is not type(None):
        vm.raise_(TypeError, "instance exception may not have a separate value")
    if not issubclass(vm.observe(exc).cls, BaseException):
        vm.unsupported(breaks.UnsupportedCall("generator.throw() of a class that makes no exception"))
    if traceback is not None and not is_traceback_of(vm, vm.observe(traceback), vm.observe(exc)):
        vm.unsupported(breaks.UnsupportedCall("generator.throw() with another traceback than the exception's own"))
    result, finished = vm.resume_generator(self, vm.const(None), vm.observe(exc))
    return stop_iteration(vm, result) if finished else result  # type: ignore[no-any-return]


@models(GeneratorType.close)
def generator_close(vm: VM, self: Object) -> Object:
    """gen_close: raises GeneratorExit where the generator is suspended; one that was never started just ends."""
    exc = abstract.call(vm, vm.const(GeneratorExit), [])
    vm.chain_context(exc, None)
    try:
        result, finished = vm.resume_generator(self, vm.const(None), exc)
    except Raise as raised:
        if issubclass(raised.exc.cls, (GeneratorExit, StopIteration)):
            return vm.const(None)
        raise
    if not finished:
        vm.raise_(RuntimeError, "generator ignored GeneratorExit")
    return result if differences.CLOSE_RETURNS else vm.const(None)
