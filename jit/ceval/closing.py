"""Finds out what runs when a suspended generator is closed: handlers that GeneratorExit passes, and the `close()` of the iterator that it delegates to."""

from __future__ import annotations

import contextlib
import gc
import types
from collections.abc import Iterable, Sequence
from types import CodeType
from typing import Any

from framejit._runtime import ITERATOR_FIELDS
from framejit.bytecode.decode import decode
from framejit.bytecode.splice import is_prologue
from framejit.ceval.frame import Frame
from framejit.guards.source import MISSING
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Object, settle
from framejit.objects.types.cellobject import CellObject
from framejit.objects.types.genobject import GeneratorObject
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
    """Return whether the suspended frame is in a `yield from` or `await` of an iterator with a `close()` of its own. A traced generator isn't one: its
    own frame shows what closing it runs."""
    if not frame.instruction.value:
        return False
    iterator = settle(frame.delegate)
    return not isinstance(iterator, GeneratorObject) and abstract.lookup_attr(vm, iterator, "close") is not None


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


def waiting_generator(values: Iterable[Any]) -> types.GeneratorType[Any, Any, Any] | None:
    """A real generator, among these values of a trace or inside one of them, for which closing runs something."""
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
        elif (found := real_waiting_generator(value.value)) is not None:
            return found
    return None


def real_waiting_generator(value: Any) -> types.GeneratorType[Any, Any, Any] | None:
    """A generator for which closing runs something: the value itself, or one that is found inside it."""
    known = {id(value)}
    waiting = [value]
    while waiting and len(known) < MOST:
        item = waiting.pop()
        if type(item) is types.GeneratorType and item.gi_frame is not None and runs_when_closed(item.gi_code):
            return item
        parts = [part for part in inside(item) if id(part) not in known]
        known.update(map(id, parts))
        waiting += parts
    return None


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
