"""What runs when the last reference to a value goes: a suspended generator's handlers, which GeneratorExit meets on its way out; finalizers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from framejit.ceval.frame import ExceptionState, Frame
from framejit.ceval.operation import OPERATIONS
from framejit.guards.source import MISSING, Source
from framejit.objects import abstract
from framejit.objects.cellobject import CellObject
from framejit.objects.finalizers import ends_visibly, finalizers_in
from framejit.objects.object import LazyObject, Object, settle
from framejit.objects.tupleobject import TupleObject
from framejit.trail import Trail

PASSED = frozenset({"PUSH_EXC_INFO", "COPY", "POP_EXCEPT", "STOPITERATION_ERROR"})


def drops_silently(vm: Any, frame: Frame) -> bool:
    """Whether GeneratorExit leaves the frame from where it is suspended without running anything but tests of `except` clauses.

    Handlers are followed as they are written: `except IndexError:` lets GeneratorExit pass, `finally:` and `with` don't.
    """
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
                operands[-count:] = [vm.new_tuple(operands[-count:])]
                pc += 1
            case "CHECK_EXC_MATCH":
                tested = vm.observe(operands.pop())
                kinds = vm.observe_all(abstract.iterate(vm, tested)) if issubclass(tested.cls, tuple) else [tested]
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


def ending(value: Object) -> Iterator[Source]:
    """Where a value is that ends visibly, or may end so in another call, for nothing is known of it. A tuple is taken apart."""
    value = settle(value)
    if isinstance(value, TupleObject) and value.cls is tuple and value.elements is not None:
        for element in value.elements:
            yield from ending(element)
    elif value.source is not None and (isinstance(value, LazyObject) or ends_visibly(value)):
        yield value.source


class Watch:
    """Values of a resumed frame's state whose end the program sees (objects.finalizers), and which of them its frames have had.

    `passed`: for an exception, the frames that its traceback holds, each with the place of its entry there.
    """

    def __init__(self, state: tuple[Any, ...], trail: Trail) -> None:
        self.trail = trail
        self.values = finalizers_in(state)
        self.seen: frozenset[int] = frozenset()
        self.sources: dict[Source, None] = {}  # of what has held them
        self.passed: dict[Object, list[tuple[Frame, Any]]] = {}
        self._within: dict[int, frozenset[int]] = {}

    def __bool__(self) -> bool:
        return bool(self.values)

    def held(self, state: Sequence[Object]) -> list[Source]:
        """What is to be held until the outermost frame ends, whose state this is: where the frames have had the values from, and the rest."""
        if not self.seen >= self.values.keys():
            return [value.source for value in state if value.source is not None]
        return [*self.sources, *(source for value in state for source in ending(value))]

    def gone(self, frame: Frame) -> Iterator[Any]:
        """Those that no variable and no stack holds any more, nor a value there."""
        held: set[int] = set()
        visited: set[int] = set()
        self._visit_frame(frame, frame.stack, held, visited)
        for caller in list(frame.callers())[1:]:
            # The frame inside has taken over what it was called with.
            operands = OPERATIONS[caller.instruction.op].effect.pops(caller.instruction)
            self._visit_frame(caller, caller.stack[: len(caller.stack) - operands], held, visited)
        if not held <= self.seen:
            self.trail.set(self, "seen", self.seen | held)
        return (self.values[key] for key in self.seen - held)

    def _visit_frame(self, frame: Frame, stack: Sequence[Any], held: set[int], visited: set[int]) -> None:
        for value in (*frame.locals, *stack):
            if isinstance(value, ExceptionState):
                value = value.handled
            if isinstance(value, Object):
                if value.source is not None and value.source not in self.sources and value.value is not MISSING and self._inside(value.value):
                    self.sources[value.source] = None
                    self.trail.log(self.sources.pop, value.source)
                self._visit(value, held, visited)

    def _visit(self, value: Object, held: set[int], visited: set[int]) -> None:
        if id(value) in visited:
            return
        visited.add(id(value))
        value = settle(value)
        if isinstance(value, CellObject) and value.known:
            if value.content is not None:
                self._visit(value.content, held, visited)
        elif value.value is not MISSING:
            held |= self._inside(value.value)
        for frame, _ in self.passed.get(value, ()):
            self._visit_frame(frame, frame.stack, held, visited)
        if value.source is None:
            for item in value.referents():
                self._visit(item, held, visited)

    def _inside(self, value: Any) -> frozenset[int]:
        found = self._within.get(id(value))
        if found is None:
            found = self._within[id(value)] = frozenset(finalizers_in(value).keys() & self.values.keys())
        return found
