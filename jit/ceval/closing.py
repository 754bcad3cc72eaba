"""Finds out what runs when a suspended generator is closed: handlers that GeneratorExit passes, and the `close()` of the iterator that it delegates to."""

from __future__ import annotations

import contextlib
import gc
import types
from collections.abc import Iterable, Iterator, Sequence
from types import CodeType
from typing import Any

from framejit._runtime import ITERATOR_FIELDS
from framejit.bytecode.decode import decode
from framejit.bytecode.splice import is_prologue
from framejit.ceval.frame import Frame
from framejit.ceval.machine import Machine
from framejit.ceval.operation import OPERATIONS
from framejit.guards.source import MISSING, Index, Local
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Object, settle
from framejit.objects.types.cellobject import CellObject
from framejit.objects.types.genobject import GeneratorObject, OutsideGenerator
from framejit.objects.types.tupleobject import TupleObject

PASSED = frozenset({"PUSH_EXC_INFO", "COPY", "POP_EXCEPT", "STOPITERATION_ERROR"})
LETS_GO = frozenset({"POP_TOP", "FOR_ITER", "STORE_FAST", "DELETE_FAST", "STORE_DEREF", "DELETE_DEREF", "RETURN_VALUE"})
"""Instructions that may release a value: the one that they pop, an iterator that ends, that of a variable, or all that the frame holds."""
HOLDERS = frozenset(map(id, {
    *(tuple, list, dict, types.CellType, types.MethodType, types.MethodWrapperType, types.GeneratorType),
    *ITERATOR_FIELDS,
    *(type(iter(())), type(iter([])), type(iter({})), type(iter({}.values())), type(iter({}.items()))),
}))  # fmt: skip
"""Types, by identity, whose values are searched for generators."""
KEEPS_OPERANDS = frozenset({"FOR_ITER", "SEND", "WITH_EXCEPT_START"})
"""Instructions that leave the operands on the stack of which they call something."""
MOST = 1000
"""The most values that are searched for generators."""


def drops_silently(vm: VM, frame: Frame) -> bool:
    """Return whether GeneratorExit leaves the frame from where it is suspended without running anything except tests of `except` clauses.

    Handlers are followed as written: `except IndexError:` lets GeneratorExit pass, `finally:` and `with` don't.
    The iterator that the frame delegates to is closed first.
    """
    if closes_delegate(vm, frame):
        return False
    handler = frame.decoded.handler_at[frame.pc]
    if handler is None:
        return True
    pc = handler.target
    operands: list[Any] = []
    matches = False
    while True:
        instruction = frame.decoded.instructions[pc]
        match instruction.op:
            case op if op in PASSED:
                pc += 1
            case "LOAD_GLOBAL":
                name = str(instruction.value)
                found = frame.globals.lookup(vm, name) or frame.builtins.lookup(vm, name)
                if found is None:
                    return False
                operands.append(found)
                pc += 1
            case "LOAD_ATTR":
                if not operands:
                    return False
                operands.append(abstract.getattr_(vm, operands.pop(), str(instruction.value)))
                pc += 1
            case "BUILD_TUPLE":
                count = instruction.arg or 0
                operands[-count:] = [TupleObject(operands[-count:])]
                pc += 1
            case "CHECK_EXC_MATCH":
                tested = vm.observe(operands.pop())
                kinds = [vm.observe(item) for item in abstract.iterate(vm, tested)] if issubclass(tested.cls, tuple) else [tested]
                matches = any(not isinstance(kind.value, type) or issubclass(GeneratorExit, kind.value) for kind in kinds)
                pc += 1
            case "POP_JUMP_IF_FALSE":
                if matches:
                    return False
                pc = instruction.value
            case "RERAISE" | "CLEANUP_THROW":  # the latter lets all but StopIteration pass
                handler = frame.decoded.handler_at[pc]
                if handler is None:
                    return True
                pc = handler.target
            case _:
                return False


def closes_delegate(vm: VM, frame: Frame) -> bool:
    """Return whether the suspended frame is in a `yield from` or `await` of an iterator with a `close()` of its own. A generator that the trace has
    made isn't one: its own frame shows what closing it runs."""
    if not frame.instruction.value:
        return False
    iterator = settle(frame.delegate)
    is_made = isinstance(iterator, GeneratorObject) and iterator.source is None
    return not is_made and abstract.lookup_attr(vm, iterator, "close") is not None


def let_go_of(frame: Frame) -> Sequence[Any]:
    """The values that the frame's instruction, one of LETS_GO, releases. The outermost frame's values end with it, and those that a prologue unpacks stay."""
    instruction = frame.instruction
    if is_prologue(frame.code, instruction.offset):
        return ()
    match instruction.op:
        case "POP_TOP" | "FOR_ITER":
            return frame.stack[-1 - (instruction.arg or 0) :]
        case "RETURN_VALUE":
            own = frame.locals[: len(frame.locals) - len(frame.decoded.frees)]
            return () if frame.parent is None else [value for value in own if value is not frame.stack[-1]]
        case _:
            return [frame.locals[instruction.arg]]  # type: ignore[index]


def held_in(frames: Iterable[Frame]) -> list[Any]:
    """The values that frames have in their variables, and on their stacks below the operands that their present instructions take."""
    held: list[Any] = []
    for frame in frames:
        taken = 0 if frame.instruction.op in KEEPS_OPERANDS else OPERATIONS[frame.instruction.op].effect.pops(frame.instruction)
        held += [*frame.locals, *frame.stack[: len(frame.stack) - taken]]
    return [settle(value) for value in held if isinstance(value, Object)]


def not_held_by_callers(frame: Frame | None, values: Iterable[Any]) -> list[Any]:
    """Those of the values that a frame lets go of which none of its callers holds."""
    callers = () if frame is None or frame.parent is None else frame.parent.callers()
    kept = set(map(id, held_in(callers)))
    return [value for value in values if not isinstance(value, Object) or id(settle(value)) not in kept]


def is_kept(vm: Machine, frame: Frame | None, generator: Object) -> bool:
    """Return whether a generator from outside goes on to be held when the present instructions of a frame and its callers have let go of their operands.

    One that isn't found directly among the arguments, but in an object, belongs to that object.
    """
    assert generator.source is not None
    if any(kind not in (Local, Index) for kind, _ in generator.source.path()):
        return True
    held = held_in(() if frame is None else frame.callers())
    return any(found is generator.value for found in real_generators(vm, held))


def waiting_generator(vm: Machine, values: Iterable[Any]) -> types.GeneratorType[Any, Any, Any] | None:
    """A real generator, among these values of a trace or inside one of them, for which closing runs something."""
    found = (generator for generator in real_generators(vm, values) if not has_ended(vm, generator) and runs_when_closed(generator.gi_code))
    return next(found, None)


def has_ended(vm: Machine, generator: types.GeneratorType[Any, Any, Any]) -> bool:
    """Return whether a real generator has ended, or the trace has ended it."""
    met = vm.met(generator)
    return generator.gi_frame is None or (isinstance(met, OutsideGenerator) and met.frame is not None and met.frame.has_ended)


def real_generators(vm: Machine, values: Iterable[Any]) -> Iterator[types.GeneratorType[Any, Any, Any]]:
    """The real generators among these values of a trace, and those inside them."""
    known: set[int] = set()
    waiting = list(values)
    while waiting and len(known) < MOST:
        value = waiting.pop()
        if not isinstance(value, Object) or id(value := settle(value)) in known:
            continue
        known.add(id(value))
        if isinstance(value, CellObject) and value.known:
            waiting.append(value.content)
        elif value.value is MISSING:
            waiting += value.referents()
        else:
            yield from generators_inside(value.value)


def real_waiting_generator(value: Any) -> types.GeneratorType[Any, Any, Any] | None:
    """A generator for which closing runs something: the value itself, or one that is found inside it."""
    return next((found for found in generators_inside(value) if found.gi_frame is not None and runs_when_closed(found.gi_code)), None)


def generators_inside(value: Any) -> Iterator[types.GeneratorType[Any, Any, Any]]:
    """A real value itself, if it is a generator, and the generators that are found inside it."""
    known = {id(value)}
    waiting = [value]
    while waiting and len(known) < MOST:
        item = waiting.pop()
        if type(item) is types.GeneratorType:
            yield item
        parts = [part for part in inside(item) if id(part) not in known]
        known.update(map(id, parts))
        waiting += parts


def inside(value: Any) -> Iterable[Any]:
    """The values inside a value, if it is searched: those of containers, iterators, methods, context managers of generators."""
    cls = type(value)
    if id(cls) in HOLDERS:
        return gc.get_referents(value)
    if issubclass(cls, contextlib._GeneratorContextManagerBase):
        return tuple(object.__getattribute__(value, "__dict__").values())
    return ()


def runs_when_closed(code: CodeType) -> bool:
    """Return whether closing a generator of this code may run something, at some place: a `yield` in a `try` or `with` block, a `yield from`."""
    decoded = decode(code)
    for index, instruction in enumerate(decoded.instructions):
        if instruction.op == "YIELD_VALUE":
            handler = decoded.handler_at[index]
            if instruction.value or (handler is not None and decoded.instructions[handler.target].op != "STOPITERATION_ERROR"):
                return True
    return False
