"""The frames that are active at a graph break, as data from which codegen plans how they continue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from framejit import breaks
from framejit.bytecode.splice import Item, ItemKind, Lasti, RaisedAt, is_prologue
from framejit.ceval.frame import ExceptionState, Frame, LastInstruction, State
from framejit.ceval.operation import OPERATIONS
from framejit.codegen.generators import ended_maker, generator_maker
from framejit.codegen.recorder import CannotGenerate
from framejit.codegen.resume import SplitFrame, delivery_of, original_place, place_of_raise
from framejit.objects.core.delivery import AS_IT_IS, Delivery, How
from framejit.objects.core.object import NotConstant, Object, settle
from framejit.objects.types.genobject import GeneratorObject
from framejit.objects.types.madeglobals import is_made
from framejit.program import classes
from framejit.tracing.app_namespace import AppNamespace
from framejit.tracing.stops import Restart
from framejit.tracing.trace import Trace


def is_restoring(frame: Frame) -> bool:
    """Return whether a frame is in the prologue of a resume function, but not in its call of an inner one."""
    return is_prologue(frame.code, frame.instruction.offset) and frame.instruction.op != "CALL"


def within_reach(frames: Sequence[Frame]) -> list[Frame]:
    """Of the frames that are active at a break, those that return directly to their caller, outermost first and as far inwards as they go."""
    reach = list(frames[:1])
    for frame in frames[1:]:
        if frame.delivery is None or isinstance(frame.globals, AppNamespace) or frame.state is not State.RUNNING or is_made(frame.globals):
            break
        reach.append(frame)
    return reach


def split_frames(tracer: Trace, frames: Sequence[Frame]) -> list[SplitFrame]:
    """Undo the innermost frame's instruction, and return the frames as data. Raises CannotGenerate if one can't continue."""
    tracer.trail.undo_to(frames[-1].mark)
    tracer.rebuilt.clear()
    inner = [frame.delivery for frame in frames[1:]]
    return [split_frame(frame, delivery) for frame, delivery in zip(frames, [*inner, None])]


def split_frame(frame: Frame, delivery: Delivery | None) -> SplitFrame:
    code, index = original_place(frame.code, frame.pc)
    effect = OPERATIONS[frame.instruction.op].effect
    instruction = frame.instruction
    items, stack = split_stack(frame)
    entering = is_prologue(frame.code, instruction.offset)
    delivery = delivery_of(frame.code) if entering else delivery or AS_IT_IS
    if delivery.how is How.LOOKED_UP and not entering:
        delivery = replace(delivery, below=(*delivery.below, stack[-1]))
    return SplitFrame(
        code, index, frame.globals.value, tuple(frame.locals), stack, items, effect.pops(instruction), effect.pushes(instruction), entering, delivery,
    )  # fmt: skip


def split_stack(frame: Frame) -> tuple[tuple[Item, ...], tuple[Object | None, ...]]:
    """A frame's stack as data: the kind of each item, and the Object that the state has for it.

    Raises CannotGenerate for a frame inside a clause of `except*`.
    """
    if handles_a_part(frame):
        raise CannotGenerate(breaks.CannotReconstruct(f"the frame of {frame.code.co_qualname} inside an except* clause"))
    items: list[Item] = []
    values: list[Object | None] = []
    for value in frame.stack:
        item: Item = ItemKind.VALUE
        if value is None:
            item = ItemKind.NULL
        elif isinstance(value, ExceptionState):
            item, value = ItemKind.HANDLED, value.handled
        elif isinstance(value, LastInstruction):
            item, value = place_of_raise(frame.code, value.index), None
        elif type(value.value) is Lasti:  # isinstance would ask a `__class__` of the program's
            item, value = RaisedAt(value.value.offset), None
        items.append(item)
        values.append(value)
    return tuple(items), tuple(values)


def handles_a_part(frame: Frame) -> bool:
    """Return whether a frame handles, or returns to, another exception than the one whose handler began: a part of it, which `except*` has taken."""
    states = [value for value in frame.stack if isinstance(value, ExceptionState)]
    left = [state.handled for state in states]
    in_force = [*(state.outer for state in states[1:]), frame.handled]
    return bool(states) and any(a is not b for a, b in zip(left, in_force, strict=True))


def holds_itself(generator: GeneratorObject) -> bool:
    """Return whether a generator's frame holds the generator itself, in values that can't be made before it. Those that are made empty and filled later can."""
    known: set[int] = set()
    waiting: list[Object] = [generator]
    while waiting:
        value = settle(waiting.pop())
        if value is generator and known:
            return True
        if id(value) in known or (value is not generator and (value.source is not None or value.needs_fill())):
            continue
        known.add(id(value))
        waiting += value.referents()
    return False


def rebuild_generator(tracer: Trace, generator: Object) -> tuple[Callable[[tuple[Any, ...]], Any], Object]:
    assert isinstance(generator, GeneratorObject)
    frame: Frame = generator.frame
    stands_in = isinstance(frame.globals, AppNamespace)
    if stands_in and frame.code not in tracer.breaks_at:
        module = frame.globals.value["__name__"].rpartition(".")[2]
        name = frame.code.co_qualname if generator.is_generator() else classes.qualname(generator.cls)
        raise Restart(frame.code, breaks.InterruptedIterator(f"an iterator of {module}.{name}()"))
    if stands_in or frame.state is State.RUNNING or is_made(frame.globals):
        raise NotConstant(generator)
    if frame.state is State.FINISHED:
        return ended_maker(frame.code, frame.globals.value)
    if holds_itself(generator):
        if frame.code in tracer.breaks_at:
            raise NotConstant(generator)
        raise Restart(frame.code, breaks.UnsupportedValue(f"a generator of {frame.code.co_qualname}() that holds itself"))
    tracer.rebuilt.append(frame)
    items, stack = split_stack(frame)
    split = SplitFrame(frame.code, frame.pc, frame.globals.value, tuple(frame.locals), stack, items, 0, 0, False, AS_IT_IS)
    return generator_maker(split, frame.created_at, frame.state is State.SUSPENDED)
