"""The frames that a graph break left standing, as data from which codegen makes the way they go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from framejit import breaks, classes
from framejit.bytecode.splice import Item, ItemKind, Lasti, RaisedAt, is_prologue
from framejit.ceval.frame import ExceptionState, Frame, LastInstruction, State
from framejit.ceval.operation import OPERATIONS
from framejit.codegen.resume import SplitFrame, delivery_of, original_place, place_of_raise, restart
from framejit.guards.kinds import TypeIs
from framejit.guards.source import MISSING
from framejit.objects.delivery import AS_IT_IS, Delivery, How
from framejit.objects.dictobject import DictObject
from framejit.objects.finalizers import MOST_DEEP, ends_visibly, may_be_weakly_held
from framejit.objects.genobject import GeneratorObject
from framejit.objects.object import NotConstant, Object, settle
from framejit.tracing.stops import CallNatively
from framejit.tracing.trace import Trace


class AppNamespace(DictObject):
    """The globals of framejit's own stand-ins (modules/app): fixed, so nothing of them is guarded."""

    __slots__ = ()

    def lookup(self, vm: Any, name: Any) -> Object | None:
        value = self.value.get(name, MISSING)
        return None if value is MISSING else vm.pin(value)

    def reconstruct(self, cg: Any) -> None:
        cg.load_const(self.value)

    def needs_fill(self) -> bool:
        return False

    def referents(self) -> list[Object]:
        return []


def is_restoring(frame: Frame) -> bool:
    """Whether a frame is in the prologue of a resume function, but not in its call of an inner one."""
    return is_prologue(frame.code, frame.instruction.offset) and frame.instruction.op != "CALL"


def can_pause(frame: Frame) -> bool:
    """Whether a call can be split before the frame's instruction, to go on with it."""
    instructions, index = frame.decoded.instructions, frame.pc
    begins = index == 0 or instructions[index].offset != instructions[index - 1].offset
    return begins and not isinstance(frame.globals, AppNamespace) and not is_prologue(frame.code, instructions[index].offset)


def within_reach(frames: Sequence[Frame]) -> list[Frame]:
    """Of the frames that a break left standing, outermost first: those that return straight to their caller, as far inwards as they go."""
    reach = list(frames[:1])
    for frame in frames[1:]:
        if frame.direct is None or isinstance(frame.globals, AppNamespace) or frame.state is not State.RUNNING:
            break
        reach.append(frame)
    return reach


def split_frames(tracer: Trace, frames: Sequence[Frame], pauses: bool) -> list[SplitFrame]:
    """Undo what the innermost frame's instruction has done, and give the frames as data. Raises CannotGenerate where one can't go on.

    Where the innermost frame only `pauses`, nothing of it runs natively.
    """
    tracer.trail.undo_to(frames[-1].mark)
    tracer.restarted.clear()
    tracer.find_variables()
    inner = [frame.direct for frame in frames[1:]]
    split = [split_frame(frame, delivery) for frame, delivery in zip(frames, [*inner, None])]
    if pauses:
        split[-1] = replace(split[-1], pauses=True, pops=0, pushes=0)
    given = given_to_native_code(split[-1])
    split = [replace(frame, given=given | lent(frame)) for frame in split[:-1]] + [replace(split[-1], given=given)]
    for frame in split:
        guard_unread(tracer, frame)
    return split


def given_to_native_code(frame: SplitFrame) -> frozenset[int]:
    """By `id`, the values that the instruction at fault takes or reaches and may make weak references to, with the sources on the paths to them."""
    known: dict[int, Object] = {}
    waiting = [value for value in frame.stack[len(frame.stack) - frame.pops :] if value is not None]
    while waiting and len(known) < MOST_DEEP:
        value = settle(waiting.pop())
        if id(value) not in known:
            known[id(value)] = value
            waiting += value.referents()
    given: set[int] = set()
    for key, value in known.items():
        if may_be_weakly_held(value.cls):
            given.add(key)
            source = value.source
            while source is not None:
                given.add(id(source))
                source = source.base
    return frozenset(given)


def lent(frame: SplitFrame) -> frozenset[int]:
    """The values of a frame's variables, by `id`, that the frames inside it may have been called with, and may make weak references to later."""
    values = [settle(value) for value in frame.locals if value is not None]
    return frozenset(id(value) for value in values if may_be_weakly_held(value.cls))


def guard_unread(tracer: Trace, frame: SplitFrame) -> None:
    """Guard the types of the variables that the frame may let go of unseen: another call's may end visibly."""
    for value in frame.unread:
        assert value.source is not None
        if not ends_visibly(value):
            tracer.guard(TypeIs, value.source, value.cls)


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
    """A frame's stack as data: what each item is, and the Object that the state takes for it."""
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
        elif type(value.value) is Lasti:  # asking for more would ask a `__class__` of the program's
            item, value = RaisedAt(value.value.offset), None
        items.append(item)
        values.append(value)
    return tuple(items), tuple(values)


def holds_itself(generator: GeneratorObject) -> bool:
    """Whether what a generator's frame holds can't be made before the generator: what is made empty and filled later can."""
    known: set[int] = set()
    waiting: list[Object] = [generator]
    while waiting:
        value = settle(waiting.pop())
        if value is generator and known:
            return True
        if id(value) in known or (value is not generator and (value.source is not None or value.needs_fill())):
            continue
        known.add(id(value))
        if isinstance(value, GeneratorObject):
            waiting += (held for held in (*value.frame.locals, *value.frame.stack) if isinstance(held, Object))
        waiting += value.referents()
    return False


def restart_generator(tracer: Trace, generator: Object) -> tuple[Callable[[tuple[Any, ...]], Any], Object]:
    assert isinstance(generator, GeneratorObject)
    frame: Frame = generator.frame
    stands_in = isinstance(frame.globals, AppNamespace)
    if (stands_in or frame.state is State.FINISHED) and frame.code not in tracer.natively:
        module = frame.globals.value["__name__"].rpartition(".")[2] + "." if stands_in else ""
        name = frame.code.co_qualname if generator.is_generator() else classes.qualname(generator.cls)
        raise CallNatively(frame.code, breaks.InterruptedIterator(f"an iterator of {module}{name}()"))
    if stands_in or frame.state in (State.RUNNING, State.FINISHED):
        raise NotConstant(generator)
    if holds_itself(generator):
        if frame.code in tracer.natively:
            raise NotConstant(generator)
        raise CallNatively(frame.code, breaks.UnsupportedValue(f"a generator of {frame.code.co_qualname}() that holds itself"))
    tracer.restarted.append(frame)
    items, stack = split_stack(frame)
    split = SplitFrame(frame.code, frame.pc, frame.globals.value, tuple(frame.locals), stack, items, 0, 0, False, AS_IT_IS)
    guard_unread(tracer, split)
    return restart(split, frame.state is State.SUSPENDED)
