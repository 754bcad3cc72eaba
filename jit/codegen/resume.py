"""Plans how a split call continues after the instruction at a graph break, in all frames that were active there.

The replacement code returns the state of all frames as nested tuples. Then there is a *step* for each frame: it restores the frame's slots and calls the
next inner step, and the innermost step runs the instruction natively. So tracebacks and introspection see the same frames as in eager. The result of the
steps selects a *resume function*, which restores the outermost frame, re-enters the inner ones in its prologue, and continues. It is compiled in its turn, so
that the rest of all frames is one trace again.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any, Protocol

from framejit import breaks
from framejit._runtime import look_method_up, look_up_failed
from framejit.bytecode import splice
from framejit.bytecode.decode import Decoded, Handler, decode, end_of, start_of
from framejit.bytecode.instruction import Instruction, Position
from framejit.bytecode.liveness import live_slots
from framejit.bytecode.splice import Failed, Item, ItemKind, Layout, Outcome, RaisedAt, Writer
from framejit.codegen.recorder import CannotGenerate
from framejit.errors import RESUMED, UserFrame
from framejit.guards.dynamic import ITEMS, Dimensions
from framejit.guards.source import CAttr, Index, Local, MethodField, Path, Slot, Source
from framejit.objects.core.delivery import Delivery, How
from framejit.objects.core.finalizers import outlives_reads
from framejit.objects.core.object import Object, settle
from framejit.objects.tensors.varying import varying_of
from framejit.objects.types.builtinobject import BuiltinMethodObject
from framejit.objects.types.constobject import NONE
from framejit.objects.types.funcobject import MethodObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.program import classes
from framejit.quick_dataclass import dataclass
from framejit.saved.spliced import function_of

NEVER = frozenset({
    "SEND", "YIELD_VALUE", "RETURN_GENERATOR", "RETURN_VALUE", "RERAISE", "PUSH_EXC_INFO", "POP_EXCEPT", "CLEANUP_THROW", "END_SEND", "LOAD_SPECIAL",
    "GET_YIELD_FROM_ITER", "LOAD_BUILD_CLASS", "STOPITERATION_ERROR", "LOAD_FAST", "STORE_FAST", "DELETE_FAST", "MAKE_CELL", "COPY_FREE_VARS", "JUMP",
    "POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE", "CHECK_EG_MATCH", "PREP_RERAISE_STAR",
})  # fmt: skip
"""Instructions at which a call can't be split, except for a STORE_FAST to a variable that has a value. The instructions of `except*` change which exception
is being handled, which can't be part of a state.
"""

LONGEST_EXPRESSION = 60
"""The most characters of an expression that is used in reports as the name of its value."""
BRANCHES = frozenset({"POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE"})
"""Instructions that test a truth value. If it depends on data, the call continues in one of two resume functions."""


@dataclass(frozen=True, slots=True)
class SplitFrame:
    """A frame in which tracing stopped, as data. `index`: the index of its instruction in `code`, which is never the code of a resume function.

    `stack`: the values on the stack; the exception that is handled stands for what PUSH_EXC_INFO pushes, and None for a NULL or a RaisedAt. `items`: the kinds
    of these values. `pops`: the number of the instruction's operands, which are still on the stack; `pushes`: that of its results. `entering`: the frame is at
    the call of the inner resume function in a prologue, which stands for the instruction; if the inner frame can't be split, this call runs natively.
    `delivery`: what the instruction does with the inner frame's result; if `entering`, the values below it are on the stack already.
    """

    code: CodeType
    index: int
    namespace: dict[str, Any]
    locals: tuple[Object | None, ...]
    stack: tuple[Object | None, ...]
    items: tuple[Item, ...]
    pops: int
    pushes: int
    entering: bool
    delivery: Delivery

    @property
    def decoded(self) -> Decoded:
        return decode(self.code)

    @property
    def instruction(self) -> Instruction:
        return self.decoded.instructions[self.index]

    @property
    def position(self) -> Position:
        position = self.instruction.position
        return position if position.lineno is not None else Position(self.code.co_firstlineno, None, None, None)

    @property
    def handler(self) -> Handler | None:
        return self.decoded.handler_at[self.index]

    @property
    def depth(self) -> int:
        """The number of items at the bottom of the stack that the instruction doesn't touch."""
        keeps = self.instruction.op == "WITH_EXCEPT_START" and not self.entering
        return len(self.items) - (0 if keeps else self.pops)

    @property
    def lower(self) -> tuple[Item, ...]:
        """The stack below the operands."""
        return self.items[: self.depth]

    @property
    def results(self) -> tuple[Item, ...]:
        """The results that the instruction leaves on the stack in place of its operands."""
        if self.entering:
            entered = (ItemKind.VALUE,) if self.delivery.how is How.AS_IT_IS else ()
            return (*entered, ItemKind.NULL) if self.has_null_above else entered
        match self.instruction.op:
            case "LOAD_METHOD":
                return (ItemKind.VALUE, ItemKind.NULL) if self.has_null_above else (ItemKind.NULL, ItemKind.VALUE)
            case "WITH_EXCEPT_START":
                return (ItemKind.VALUE,)
            case "GET_ITER" | "LOAD_GLOBAL" if self.has_null_above:
                return ItemKind.VALUE, ItemKind.NULL
        return (ItemKind.VALUE,) * self.pushes

    @property
    def has_null_above(self) -> bool:
        """Return whether the instruction leaves a NULL above its result."""
        return self.instruction.op in ("LOAD_METHOD", "LOAD_GLOBAL", "GET_ITER") and bool(self.instruction.arg)

    @property
    def waiting(self) -> tuple[Item, ...]:
        """The stack while an inner frame runs for the instruction, with its state on top."""
        below = [ItemKind.NULL if value is None else ItemKind.VALUE for value in self.delivery.below]
        return (*self.lower, *below, ItemKind.VALUE)

    @property
    def live_after(self) -> tuple[int, ...]:
        """The slots that are needed while the instruction, a call, runs in another frame, to continue after it or to handle what it raises."""
        slots = set(self.bound(self.index + 1))
        if self.handler is not None:
            slots.update(self.bound(self.handler.target))
        return tuple(sorted(slots))

    def bound(self, index: int) -> tuple[int, ...]:
        """The bound slots that may be read from an instruction on, and those whose values must stay alive although they aren't read."""
        live = live_slots(self.code, self.decoded)[index]
        return tuple(slot for slot, value in enumerate(self.locals) if value is not None and (slot in live or outlives_reads(value)))


@dataclass(frozen=True, slots=True)
class SplitCall:
    """The continuation of a split call. `state`: what the replacement code returns; `step`: runs the instruction; `resumes`: the functions it chooses from.

    The other attributes have an item for each resume function. `carried`: pairs (path there, path here) for values in its state that had a source here.
    `names`: names for the values in its state. `varying`: the numbers and sizes in its state that depend on the data of tensors, and data that is computed
    (objects/tensors/varying.py). `places`: where the program continues, in the innermost frame.
    """

    state: Object
    step: FunctionType
    resumes: tuple[FunctionType, ...]
    carried: tuple[tuple[tuple[Path, Path], ...], ...]
    names: tuple[dict[Path, str], ...]
    varying: tuple[dict[Path, Dimensions], ...]
    places: tuple[UserFrame, ...]


class ResumeFunctions(Protocol):
    """The store of one compiled function's resume functions. All entries share them; there is one for each place, layout and inner resume function."""

    def resume_function(
        self, key: tuple[Any, ...], code: CodeType, namespace: dict[str, Any], make: Callable[[], FunctionType]
    ) -> FunctionType:
        """The function for a key, which is made if there is none yet. `code` and `namespace` are compared by identity."""


def split(frames: Sequence[SplitFrame], known: ResumeFunctions, on_data: bool) -> SplitCall:
    """Plan how the frames, outermost first, continue. Raises CannotGenerate if the innermost instruction can't be run by itself.

    `on_data`: whether the result of the innermost instruction depends on the data of tensors, or on a clock.
    """
    for frame in frames:
        check(frame)
    return _Splitter(frames, known, on_data).split()


def check(frame: SplitFrame) -> None:
    """Raise CannotGenerate for a frame that can't have a resume function."""
    op = frame.instruction.op
    first = frame.index == 0 or frame.decoded.instructions[frame.index - 1].offset != frame.instruction.offset
    overwrites = op == "STORE_FAST" and frame.locals[frame.instruction.arg] is not None  # type: ignore[index]
    if (op in NEVER and not overwrites) or not (first or op in BRANCHES):
        raise CannotGenerate(breaks.CannotReconstruct(f"the frame of {frame.code.co_qualname} inside {op}"))


class _Splitter:
    def __init__(self, frames: Sequence[SplitFrame], known: ResumeFunctions, on_data: bool) -> None:
        self.frames = frames
        self.known = known
        self.on_data = on_data
        self.chosen: list[FunctionType] = []
        self.carried: list[tuple[tuple[Path, Path], ...]] = []
        self.names: list[dict[Path, str]] = []
        self.varying: list[dict[Path, Dimensions]] = []
        self.places: list[UserFrame] = []

    def split(self) -> SplitCall:
        step, before = self.innermost(len(self.frames) - 1)
        state = self.state(self.frames[-1], before, None)
        for level in range(len(self.frames) - 2, -1, -1):
            step, before = self.around(level, step)
            state = self.state(self.frames[level], before, state)
        return SplitCall(state, step, tuple(self.chosen), tuple(self.carried), tuple(self.names), tuple(self.varying), tuple(self.places))

    def state(self, frame: SplitFrame, before: Layout, inner: Object | None) -> Object:
        """The tuple that a step unpacks."""
        stack = list(frame.stack) if inner is None else [*frame.stack[: frame.depth], *frame.delivery.below, inner]
        values = [frame.locals[slot] for slot in before.slots] + stack[::-1]
        return TupleObject([NONE if value is None else value for value in values])

    # Steps.

    def innermost(self, level: int) -> tuple[FunctionType, Layout]:
        """The step that runs the instruction at fault."""
        frame = self.frames[level]
        raised = self.raised(level)
        stack = frame.items
        op = "CALL" if frame.entering else frame.instruction.op
        if op in BRANCHES:
            falls = self.after(level, frame.index + 1, frame.lower)
            jumps = self.after(level, frame.instruction.value, frame.lower)
            true, false = (jumps, falls) if op == "POP_JUMP_IF_TRUE" else (falls, jumps)
            before = self.before(stack, falls, jumps, raised)
            code = splice.branch(frame.code, before, "jump_if_false", frame.position, false, true, raised)
        elif op == "FOR_ITER":
            item = self.after(level, frame.index + 1, (*stack, ItemKind.VALUE))
            exhausted = self.after(level, frame.instruction.value, stack[: -1 - (frame.instruction.arg or 0)])
            before = self.before(stack, item, exhausted, raised)
            code = splice.branch(frame.code, before, "for_iter", frame.position, exhausted, item, raised)
        else:
            after = None if op == "RAISE_VARARGS" else self.after(level, frame.index + 1, (*frame.lower, *frame.results))
            before = self.before(stack, after, raised)
            failure = failed(frame) if frame.entering else None
            operands = 0 if leaves_block(frame.instruction) else frame.pops
            code = splice.step(frame.code, before, operands, self.instruction_writer(frame), frame.position, after, raised, failure)
        return function_of(code, frame.namespace), before

    def around(self, level: int, inner: FunctionType) -> tuple[FunctionType, Layout]:
        """The step of a frame that is inside the call of the next one."""
        frame = self.frames[level]
        raised = self.raised(level)
        after = Layout(frame.live_after, frame.waiting)
        before = Layout(union(after, raised), after.stack)
        code = splice.outer_step(frame.code, before, inner, frame.position, raised, after, failed(frame))
        return function_of(code, frame.namespace), before

    def before(self, stack: tuple[Item, ...], *outcomes: Outcome | None) -> Layout:
        return Layout(union(*outcomes), stack)

    def instruction_writer(self, frame: SplitFrame) -> Callable[[Writer], None]:
        """A function that writes the instruction as in the original code."""
        code, decoded = frame.code, frame.decoded
        if frame.entering:
            return lambda writer: call_with_state(writer, frame)
        if frame.instruction.op == "LOAD_METHOD":
            return lambda writer: load_method(writer, frame.instruction)
        if frame.instruction.op == "GET_ITER" and frame.has_null_above:
            return get_iter
        if frame.instruction.op == "LOAD_GLOBAL":
            return lambda writer: load_global(writer, code.co_names.index(frame.instruction.value), frame.has_null_above)
        if leaves_block(frame.instruction):
            return leave_block
        raw = code.co_code[start_of(code, decoded, frame.index) : end_of(code, decoded, frame.index)]
        return lambda writer: writer.raw(raw)

    # Outcomes.

    def after(self, level: int, index: int, stack: tuple[Item, ...]) -> Outcome:
        """The outcome in which the innermost frame is resumed at `index`."""
        frame = self.frames[level]
        instructions = frame.decoded.instructions
        drops = 0
        if instructions[index].offset == instructions[index - 1].offset:
            # Within what is one instruction in CPython (rows of several operations) is no place to enter at, but a pop can be done here.
            if instructions[index].op != "POP_TOP":
                raise CannotGenerate(breaks.CannotReconstruct(f"the frame of {frame.code.co_qualname} inside {frame.instruction.op}"))
            index, stack, drops = index + 1, stack[:-1], 1
        layout = Layout(frame.bound(index), stack)
        offset = start_of(frame.code, frame.decoded, index)
        function = self.resume_function(
            frame, ("after", frame.index, offset, layout),
            lambda: splice.resume_after(frame.code, layout, offset, frame.position, self.name(frame), None, frame.index, frame.decoded),
        )  # fmt: skip
        results = len(frame.results) if stack[: len(frame.lower)] == frame.lower else 0
        return Outcome(self.choose(level, function, layout, results), layout, drops)

    def raised(self, level: int) -> Outcome | None:
        """The outcome in which the frame handles an exception that the instruction raises; None if it has no handler."""
        frame = self.frames[level]
        handler = frame.handler
        if handler is None:
            if ItemKind.HANDLED in frame.items:
                raise CannotGenerate(breaks.CannotReconstruct(f"the frame of {frame.code.co_qualname} while it handles an exception"))
            return None
        layout = Layout(frame.bound(handler.target), (*frame.items[: handler.depth], ItemKind.VALUE))
        function = self.resume_function(
            frame, ("raising", frame.index, layout),
            lambda: splice.resume_raising(frame.code, layout, frame.position, self.name(frame), handler, frame.decoded, frame.index),
        )  # fmt: skip
        return Outcome(self.choose(level, function, layout, above=1), layout)

    def choose(self, level: int, function: FunctionType, layout: Layout, results: int = 0, above: int = 0) -> int:
        """The number of the outcome in which the frame at `level` continues in `function`, and the outer frames around it.

        `results`: how many of the topmost values in the layout are results of the instruction. `above`: how many lie above the stack of the frame, if more.
        """
        for frame in self.frames[level - 1 :: -1] if level else ():
            function = self.outer(frame, function)
        self.chosen.append(function)
        state: Path = ((Local, Slot(0, function.__code__.co_varnames[0])),)
        values = list(self.values_in(level, state, layout, max(results, above)))
        self.carried.append(tuple((path, value.source.path()) for value, path in values if value.source is not None))
        self.names.append(dict(self.names_in(level, state, layout, results)))
        self.varying.append(dict([*self.results_on_data(level, state, layout, results), *(found for pair in values for found in varying_of(*pair))]))
        self.places.append(UserFrame.of(self.frames[level].code, self.frames[level].position))
        return len(self.chosen) - 1

    def values_in(self, level: int, state: Path, layout: Layout, above: int) -> Iterator[tuple[Object, Path]]:
        """The variables and the values on the stack that a resume function gets as they are here, each with its path in the state."""
        for number, frame in enumerate(self.frames[: level + 1]):
            is_last = number == level
            slots = layout.slots if is_last else frame.live_after
            kept = frame.stack[: len(layout.stack) - above if is_last else frame.depth]
            first = len(slots) + (len(layout.stack) - len(kept) if is_last else 1 + len(frame.delivery.below))
            held = [*enumerate(frame.locals[slot] for slot in slots), *enumerate(reversed(kept), first)]  # the stack lies in the state with its top first
            yield from ((value, item_path(state, position)) for position, value in held if value is not None)
            state = item_path(state, len(slots))

    def results_on_data(self, level: int, state: Path, layout: Layout, results: int) -> Iterator[tuple[Path, Dimensions]]:
        """The paths in the resume function's state of results of the instruction that depend on data: numbers, and lists of numbers, which vary."""
        for frame in self.frames[:level]:
            state = item_path(state, len(frame.live_after))
        if self.on_data:
            paths: list[Path] = [item_path(state, len(layout.slots) + place) for place in range(results)]
            yield from ((path, None) for result in paths for path in (result, (*result, ITEMS)))

    def names_in(self, level: int, state: Path, layout: Layout, results: int) -> Iterator[tuple[Path, str]]:
        """The program's names for the values in a resume function's state, by path: variables, and values on the stack.

        The state itself has the name of the function's first argument, which is also one of the program's variables. Here, it gets another name.
        """
        yield state, f"what {self.frames[0].code.co_qualname} goes on with"
        slots_of = [layout.slots if number == level else frame.live_after for number, frame in enumerate(self.frames[: level + 1])]
        taken: dict[str, Object | Source | None] = {}
        for number, (frame, slots) in enumerate(zip(self.frames, slots_of)):
            for position, slot in enumerate(slots):
                name, value = frame.decoded.slots[slot], frame.locals[slot]
                held = value if value is None or value.source is None else value.source
                is_first = taken.setdefault(name, held) is held
                yield item_path(state, position), name if is_first else f"{frame.code.co_name}'s {name}"
            stack = layout.stack if number == level else frame.lower
            first = len(slots) + (0 if number == level else 1 + len(frame.delivery.below))
            for place in range(len(stack)):
                below = len(stack) - place - 1  # the stack lies in the state with its top first
                is_result = number == level and below >= len(stack) - results
                path = item_path(state, first + place)
                yield path, result_text(frame) if is_result else value_text(frame, below)
                receiver = None if is_result else receiver_text(frame, below)
                if receiver is not None:
                    yield from (((*path, step), receiver) for step in RECEIVERS)
            state = item_path(state, len(slots))
            if number < level:
                yield state, f"what {self.frames[number + 1].code.co_qualname} goes on with"

    def outer(self, frame: SplitFrame, inner: FunctionType) -> FunctionType:
        layout = Layout(frame.live_after, frame.waiting)
        offset = start_of(frame.code, frame.decoded, frame.index + 1)
        how = frame.delivery.how
        made = splice.Inner(inner, how, lambda writer: finish(writer, frame, null="push_null"), failed(frame))
        return self.resume_function(
            frame, ("around", frame.index, layout, inner, how),
            lambda: splice.resume_after(frame.code, layout, offset, frame.position, self.name(frame), made, frame.index, frame.decoded),
        )  # fmt: skip

    def resume_function(self, frame: SplitFrame, key: tuple[Any, ...], write: Callable[[], CodeType]) -> FunctionType:
        """The resume function of a frame for a key. If there is none yet, `write` makes its code."""
        return self.known.resume_function(key, frame.code, frame.namespace, lambda: function_of(write(), frame.namespace))

    def name(self, frame: SplitFrame) -> str:
        return f"{frame.code.co_name}{RESUMED}{os.path.basename(frame.code.co_filename)}:{frame.position.lineno})"


def result_text(frame: SplitFrame) -> str:
    """The source text of the expression whose value is the instruction's result, or the line if that says more."""
    text = UserFrame.of(frame.code, frame.position).expression
    return f"`{text}`" if 0 < len(text) <= LONGEST_EXPRESSION else f"a value computed in line {frame.position.lineno}"


RECEIVERS: Path = ((MethodField, "self"), (CAttr, "__self__"))
"""The steps from a bound method to what it is bound to."""


def value_text(frame: SplitFrame, index: int) -> str:
    """A name for a value on a frame's stack, in terms that its user knows."""
    value = frame.stack[index] if index < len(frame.stack) else None
    name = name_of(frame, value)
    if name is not None:
        return name
    if value is not None and classes.lookup(value.cls, "__next__") is not None:
        return f"the loop in {loop_text(frame, index)}"
    return f"a value in use in line {frame.position.lineno} of {frame.code.co_qualname}"


def name_of(frame: SplitFrame, value: Object | None) -> str | None:
    """The program's name for a value: the path by which it was reached, or the variable that holds it."""
    if value is None:
        return None
    if value.source is not None and value.source.depth:
        return value.source.name_in_reports()
    return next((name for name, held in zip(frame.decoded.slots, frame.locals) if held is value), None)


def loop_text(frame: SplitFrame, index: int) -> str:
    """A text that says where the loop is whose iterator is on the stack: its line, or the function if the line isn't known."""
    iterators = [place for place, value in enumerate(frame.stack) if value is not None and classes.lookup(value.cls, "__next__") is not None]
    loops = [step for place, step in enumerate(frame.decoded.instructions) if step.op == "FOR_ITER" and place <= frame.index < step.value]
    line = loops[iterators.index(index)].position.lineno if len(loops) == len(iterators) else None
    return frame.code.co_qualname if line is None else f"line {line}"


def receiver_text(frame: SplitFrame, index: int) -> str | None:
    """The program's name for the object to which a bound method on the stack is bound; None for any other value."""
    held = frame.stack[index] if index < len(frame.stack) else None
    method = None if held is None else settle(held)
    return name_of(frame, method.receiver) if isinstance(method, (MethodObject, BuiltinMethodObject)) else None


def item_path(state: Path, position: int) -> Path:
    """The path of the value at a position in a state."""
    return (*state, (Index, position))


def union(*outcomes: Any) -> tuple[int, ...]:
    """The slots that at least one of the layouts or outcomes needs."""
    slots: set[int] = set()
    for outcome in outcomes:
        if outcome is not None:
            slots.update(outcome.layout.slots if isinstance(outcome, Outcome) else outcome.slots)
    return tuple(sorted(slots))


def call_with_state(writer: Writer, frame: SplitFrame) -> None:
    """Write the call of an inner resume function, as a prologue has it, in a step: a placeholder stands for a NULL."""
    writer.emit("call", 1)
    finish(writer, frame, null="")


def finish(writer: Writer, frame: SplitFrame, null: str) -> None:
    """Write what makes the instruction's results of an inner frame's result. `null`: the word that pushes a NULL; if empty, a placeholder is pushed."""
    FINISH[frame.delivery.how](writer)
    if frame.instruction.op == "COMPARE_OP" and frame.instruction.arg:
        writer.emit("to_bool")
    if frame.has_null_above:
        writer.emit(null) if null else writer.load_const(None)


def leave_as_it_is(writer: Writer) -> None:
    """Write nothing: the inner frame's result is left unchanged."""


def drop(writer: Writer) -> None:
    writer.emit("pop")


def check_none(writer: Writer) -> None:
    """Objects/typeobject.c: slot_tp_init. The object is below the result."""

    def fail(writer: Writer) -> None:
        writer.call_const(init_error)
        writer.emit("raise")

    writer.emit("copy", 1)
    writer.load_const(None)
    writer.emit("is")
    writer.skip(fail)
    writer.emit("pop")


def init_error(result: Any) -> TypeError:
    return TypeError(f"__init__() should return None, not '{type(result).__name__}'")


def replace_below(writer: Writer) -> None:
    writer.emit("swap", 2)
    writer.emit("pop")


FINISH: dict[How, Callable[[Writer], None]] = {
    How.AS_IT_IS: leave_as_it_is, How.DROPPED: drop, How.MADE: check_none, How.LOOKED_UP: replace_below,
}  # fmt: skip
"""For each way of delivering a result, a function that writes the code after the call of an inner frame's resume function."""


def failed(frame: SplitFrame) -> Failed | None:
    """A function that writes what is done with an exception of the inner frame before the outer frame's instruction raises it; None if nothing is done."""

    def tell(writer: Writer) -> None:
        """Replace the owner and the exception on the stack by the exception, after the name and the owner were noted in it."""
        writer.call_const(look_up_failed, frame.instruction.value, operands=2)

    return tell if frame.delivery.how is How.LOOKED_UP else None


def delivery_of(code: CodeType) -> Delivery:
    """The delivery that a resume function's prologue makes of its inner function's result."""
    return Delivery(splice.entered_how(code))


def load_method(writer: Writer, instruction: Instruction) -> None:
    """LOAD_METHOD of the owner on the stack: the bound method, with a placeholder of the NULL above or below it."""
    writer.call_const(look_method_up, instruction.value)
    writer.load_const(None)
    if not instruction.arg:
        writer.emit("swap", 2)


def get_iter(writer: Writer) -> None:
    """GET_ITER of the value on the stack, with a placeholder of the NULL above it. The instruction may leave what no tuple can hold."""
    writer.call_const(iter)
    writer.load_const(None)


def load_global(writer: Writer, name: int, has_null_above: bool) -> None:
    """LOAD_GLOBAL, with a placeholder of the NULL above it."""
    writer.emit("load_global", name)
    if has_null_above:
        writer.load_const(None)


def leaves_block(instruction: Instruction) -> bool:
    """Return whether the instruction is a WITH_EXCEPT_START for which the stack has a NULL above the `__exit__`."""
    return instruction.op == "WITH_EXCEPT_START" and instruction.arg == 2


def leave_block(writer: Writer) -> None:
    """WITH_EXCEPT_START on a stack with placeholders: call the `__exit__`, the fifth value, with the exception's class, the exception and its traceback."""
    writer.emit("copy", 5)
    writer.emit("push_null")
    writer.emit("load_callable", writer.const(type))
    writer.emit("copy", 5)
    writer.emit("call", 1)
    writer.emit("copy", 4)
    writer.emit("load_callable", writer.const(operator.attrgetter("__traceback__")))
    writer.emit("copy", 3)
    writer.emit("call", 1)
    writer.emit("call", 3)


def original_place(code: CodeType, index: int) -> tuple[CodeType, int]:
    """A place in a resume function's code as a place in its original; raises CannotGenerate inside the prologue, but for its call."""
    instructions = decode(code).instructions
    offset = instructions[index].offset
    found = splice.original_offset(code, offset)
    if found is None:
        return code, index
    original, offset = found
    part = sum(1 for before in instructions[:index] if before.offset == instructions[index].offset)
    for place, instruction in enumerate(decode(original).instructions):
        if instruction.offset == offset:
            return original, place + part
    raise CannotGenerate(breaks.CannotReconstruct(f"the frame of {code.co_qualname} before it is resumed"))


def place_of_raise(code: CodeType, index: int) -> RaisedAt:
    """The place at which an exception was raised, as an item of a stack."""
    return RaisedAt(splice.origin_of_raise(code, decode(code).instructions[index].offset))


__all__ = ["SplitCall", "SplitFrame", "original_place", "place_of_raise", "split"]
