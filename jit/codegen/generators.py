"""Makes generators that the trace has made and that live on after it: real ones, which wait where the trace has left them."""

from __future__ import annotations

from collections.abc import Callable
from types import CellType, CodeType, FunctionType
from typing import Any

from framejit._runtime import Unset, move_generator
from framejit.bytecode import splice
from framejit.bytecode.decode import start_of
from framejit.bytecode.splice import ItemKind, Layout
from framejit.codegen.resume import SplitFrame
from framejit.guards.generators import READABLE
from framejit.objects.core.object import Object
from framejit.objects.types.constobject import NONE
from framejit.objects.types.tupleobject import TupleObject
from framejit.quick_dataclass import dataclass
from framejit.saved.form import Identity
from framejit.saved.remade import made_by
from framejit.saved.spliced import function_of


def generator_maker(frame: SplitFrame, created: int, started: bool) -> tuple[Callable[[tuple[Any, ...]], Any], Object]:
    """A function that makes a generator from a state, and the state, for a generator's frame that is suspended at its YIELD_VALUE, or not `started`.

    `created`: the offset of the instruction that makes the generator.
    """
    bound = frame.bound(frame.index if started else frame.index + 1)
    if not READABLE or any(item not in (ItemKind.VALUE, ItemKind.NULL) for item in frame.items):
        return spliced_maker(frame, bound, started)
    first = len(frame.locals)
    contents = [(slot, frame.locals[slot]) for slot in bound]
    contents += [(first + index, value) for index, value in enumerate(frame.stack) if frame.items[index] is ItemKind.VALUE]
    function = original_function(frame.code, frame.namespace)
    offset = frame.decoded.instructions[frame.index].offset
    unbound = tuple([slot for slot in range(frame.decoded.parameters) if slot not in bound])
    make = GeneratorMaker(function, created, offset, first + len(frame.stack), tuple([slot for slot, _ in contents]), unbound)
    return make, TupleObject([NONE if value is None else value for _, value in contents])


@dataclass(frozen=True, slots=True)
class GeneratorMaker:
    """Makes a generator from a state (runs in generated code): a new one, whose frame is then given another place, and these values in these slots. The
    parameters in the slots `unbound` have no values any more."""

    function: FunctionType
    created: int
    offset: int
    n_slots: int
    slots: tuple[int, ...]
    unbound: tuple[int, ...]

    def __call__(self, state: tuple[Any, ...]) -> Any:
        generator = new_generator(self.function)
        contents = *state, *(Unset,) * len(self.unbound)
        move_generator(generator, self.created, self.offset, self.n_slots, self.slots + self.unbound, contents)
        return generator


@dataclass(frozen=True, slots=True)
class EndedMaker:
    """Makes a generator that has ended (runs in generated code)."""

    function: FunctionType

    def __call__(self, state: tuple[Any, ...]) -> Any:
        generator = new_generator(self.function)
        generator.close()
        return generator


def ended_maker(code: CodeType, namespace: dict[str, Any]) -> tuple[Callable[[tuple[Any, ...]], Any], Object]:
    """As `generator_maker`, for a generator that has ended."""
    return EndedMaker(original_function(code, namespace)), TupleObject([])


def new_generator(function: FunctionType) -> Any:
    """A generator of a function whose arguments are never read; that of a generator expression is iterated over at once, from Python 3.15 on."""
    code = function.__code__
    named = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    return function(*((),) * code.co_argcount, **dict.fromkeys(named))


def original_function(code: CodeType, namespace: dict[str, Any]) -> FunctionType:
    """A function of a generator's code. Its closure and its arguments are never read."""
    function = FunctionType(code, namespace, code.co_name, None, tuple([CellType() for _ in code.co_freevars]))
    return made_by(function, original_function, code, Identity(namespace))


def spliced_maker(frame: SplitFrame, bound: tuple[int, ...], started: bool) -> tuple[Callable[[tuple[Any, ...]], Any], Object]:
    """As `generator_maker`, for a generator that handles an exception, and for versions of Python whose frames can't be written: it is made by a function with
    a prologue before its code."""
    layout = Layout(bound, frame.items)
    offset = start_of(frame.code, frame.decoded, frame.index if started else frame.index + 1)
    code = splice.resume_generator(frame.code, layout, offset, frame.position, frame.decoded)
    values = [frame.locals[slot] for slot in layout.slots] + list(frame.stack[::-1])
    state = TupleObject([NONE if value is None else value for value in values])
    return SplicedMaker(function_of(code, frame.namespace), started), state


@dataclass(frozen=True, slots=True)
class SplicedMaker:
    """Makes a generator from a state by a function that takes it (runs in generated code)."""

    function: FunctionType
    started: bool

    def __call__(self, state: tuple[Any, ...]) -> Any:
        generator = self.function(state)
        if self.started:
            next(generator)
        return generator
