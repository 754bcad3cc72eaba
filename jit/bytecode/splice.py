"""Code objects cut from others: resume functions, which enter a code object in its middle, and steps, which run one instruction of it.

Both take one argument, the state: a tuple that is unpacked into the frame's slots (cells and free variables included: their slots take
the cell objects themselves) and onto its stack. The original instructions are kept byte for byte after a prologue; all their jumps are
relative, so they need no change.

    resume: prologue | original code            the prologue jumps to the place, perhaps after a call or a raise
    step:   prologue | one instruction | epilogue    the epilogue returns (choice, state)

The order in a state: first the slots' values in the order of `Layout.slots`, then the stack's, top first. An item that isn't a value has a
placeholder there: None for NULLs and for the positions that handlers remember, and the exception being handled for what PUSH_EXC_INFO pushes.
"""

from __future__ import annotations

import enum
import weakref
from collections.abc import Callable, Sequence
from dataclasses import field
from types import CellType, CodeType, FunctionType
from typing import Any, NamedTuple

from framejit._runtime import NEVER, mark_code
from framejit.bytecode.decode import CO_VARARGS, CO_VARKEYWORDS, Decoded, Handler, exception_table, slot_names
from framejit.bytecode.encode import encode, encode_handlers, encode_lines
from framejit.bytecode.instruction import Position
from framejit.quick_dataclass import dataclass


class ItemKind(enum.Enum):
    """The kind of an item of the stack. HANDLED is what PUSH_EXC_INFO pushes below the exception."""

    VALUE = enum.auto()
    NULL = enum.auto()
    HANDLED = enum.auto()


@dataclass(frozen=True, slots=True)
class RaisedAt:
    """An item of the stack: where the handled exception was raised, as an offset in the original code (the exception table's `lasti`)."""

    offset: int


Item = ItemKind | RaisedAt


class Lasti(int):
    """A RaisedAt on the stack of a resume function, in its own code units. `offset`: in bytes of the original code."""

    offset: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The contents of a state: values of these slots (indices into localsplus), and a stack, bottom first."""

    slots: tuple[int, ...]
    stack: tuple[Item, ...]

    def __len__(self) -> int:
        return len(self.slots) + len(self.stack)

    @property
    def handled(self) -> int | None:
        """The position in the state of the exception that `sys.exc_info()` returns; None if none is being handled."""
        for depth, item in enumerate(reversed(self.stack)):
            if item is ItemKind.HANDLED:
                return len(self.slots) + depth
        return None


BELOW_OPERANDS = {1: (2, 3), 2: (2, 4, 2, 3)}
"""By the number of operands, the swaps that move the two values on top of the stack, in their order, below the operands."""

Failed = Callable[["Writer"], None]
"""Writes the code that handles an exception before it is raised again. The exception is on top of the stack, and so is what will be raised afterwards."""


@dataclass(slots=True)
class Writer:
    """Raw instructions with their positions, appended one by one."""

    consts: list[Any]
    code: bytearray = field(default_factory=bytearray)
    lines: list[tuple[int, Position | None]] = field(default_factory=list)
    handlers: list[tuple[int, int, int, int, bool]] = field(default_factory=list)
    """Rows of the exception table whose targets are original instructions, by index."""
    own_handlers: list[tuple[int, int, int, int, bool]] = field(default_factory=list)
    """Rows of the exception table whose targets are in the code written here."""
    position: Position | None = None
    handles: bool = False
    """True if the value that POP_EXCEPT takes is at the bottom of the stack."""

    def emit(self, word: str, argument: int = 0) -> None:
        """Append one word of the vocabulary."""
        self.raw(encode(word, argument))

    def raw(self, code: bytes) -> None:
        """Append instructions copied from elsewhere."""
        self.code += code
        self.lines.append((len(code) // 2, self.position))

    def load_const(self, value: Any) -> None:
        self.emit("load_const", self.const(value))

    def const(self, value: Any) -> int:
        """The index of a new constant."""
        self.consts.append(value)
        return len(self.consts) - 1

    def skip(self, skipped: Callable[[Writer], None]) -> None:
        """Take the value on top of the stack as a truth value: if it is true, skip the code that `skipped` writes."""
        rest = Writer(self.consts, position=self.position)
        skipped(rest)
        self.emit("jump_if_true", len(rest.code) // 2)
        self.code += rest.code
        self.lines += rest.lines

    def call_const(self, function: Callable[..., Any], *more: Any, operands: int = 1) -> None:
        """Call a function on the values on top of the stack, one or two, and on constants."""
        self.emit("load_callable", self.const(function))
        for depth in BELOW_OPERANDS[operands]:
            self.emit("swap", depth)
        for value in more:
            self.load_const(value)
        self.emit("call", operands + len(more))

    def write_handler(self, failed: Failed) -> int:
        """Write a handler that raises again, with a jump over it, and return its offset."""
        rest = Writer(self.consts, position=self.position)
        failed(rest)
        rest.emit("reraise")
        self.emit("jump", len(rest.code) // 2)
        start = len(self.code)
        self.code += rest.code
        self.lines += rest.lines
        return start

    def write_covered(self, written: Callable[[Writer], None], failed: Failed | None, depth: int) -> tuple[range, range]:
        """Write instructions, and the handler of their exceptions. `depth`: how much of the stack is below the exception there.

        Returns the range of the instructions, and the range of those whose exceptions leave the written code.
        """
        if failed is None:
            start = len(self.code)
            self.emit("enter_covered")
            written(self)
            return range(start, len(self.code)), range(start, len(self.code))
        handler = self.write_handler(failed)
        start = len(self.code)
        self.emit("enter_covered")
        written(self)
        self.own_handlers.append((start, len(self.code), handler, depth, False))
        return range(start, len(self.code)), range(handler, start)

    def handle(self, layout: Layout) -> None:
        """Make the exception that the state in slot 0 names the handled one, until something is returned. For steps: the value that undoes
        this is at the bottom of the stack, where frames have none of theirs.
        """
        at = layout.handled
        if at is not None:
            self.emit("load_local", 0)
            self.load_const(at)
            self.emit("subscript")
            self.emit("push_handled")
            self.emit("pop")
            self.handles = True

    def start(self, code: CodeType, layout: Layout) -> None:
        """Write the instructions before RESUME. Even if the state lacks free variables, their slots must hold cells, for `f_locals`."""
        frees = arguments(code)["co_freevars"]
        first = len(slot_names(code)) - len(frees)
        if any(first + index not in layout.slots for index in range(len(frees))):
            self.emit("copy_free_variables", len(frees))

    def unpack(self, layout: Layout, cells: Sequence[int] = ()) -> None:
        """Unpack the state in slot 0 to slots and stack. `f_locals` reads the contents of the cells of `cells` only after a MAKE_CELL."""
        self.emit("load_local", 0)
        self.emit("unpack", len(layout))
        for slot in cells:
            self.emit("make_cell", slot)
        for slot in layout.slots:
            self.emit("store_local", slot)
        if 0 not in layout.slots:
            self.emit("delete_local", 0)

    def place(self, stack: Sequence[Item], above: int = 0) -> None:
        """Replace the placeholders in the stack, which has `above` more values on top, by what they stand for, from the bottom up,
        which is the order in which the exceptions came to be handled.
        """
        for index, item in enumerate(stack):
            if item is ItemKind.VALUE:
                continue
            depth = len(stack) - index + above
            if depth > 1:
                self.emit("swap", depth)
            if item is ItemKind.HANDLED:
                self.emit("push_handled")
                self.emit("pop")
            else:
                self.emit("pop")
                if item is ItemKind.NULL:
                    self.emit("push_null")
                else:
                    self.load_const(item)
            if depth > 1:
                self.emit("swap", depth)

    def place_nulls(self, stack: Sequence[Item]) -> None:
        """Replace the placeholders of NULLs at the top of the stack; a step doesn't need the others."""
        self.place([item if item is ItemKind.NULL else ItemKind.VALUE for item in stack])

    def displace_null(self, stack: Sequence[Item], null: int | None) -> None:
        """Replace the NULL at this index of the stack, if it is there, by a placeholder: the stack becomes part of a state."""
        if null is None or null >= len(stack) or stack[null] is not ItemKind.NULL:
            return
        depth = len(stack) - null
        self.emit("swap", depth)
        self.emit("pop")
        self.load_const(None)
        self.emit("swap", depth)

    def pack(self, layout: Layout) -> None:
        """Pack the slots, and the stack, which has the values of `layout.stack`, to a state on the stack."""
        for slot in reversed(layout.slots):
            self.emit("load_local", slot)
        self.emit("build_tuple", len(layout))
        for value in (None, None, -1):
            self.load_const(value)
        self.emit("build_slice", 3)
        self.emit("subscript")

    def give(self, outcome: Outcome) -> None:
        """Return (choice, state)."""
        for _ in range(outcome.drops):
            self.emit("pop")
        self.pack(outcome.layout)
        self.load_const(outcome.choice)
        self.emit("swap", 2)
        self.emit("build_tuple", 2)
        self.give_back()

    def give_back(self) -> None:
        """Return the value on top of the stack."""
        if self.handles:
            self.emit("swap", 2)
            self.emit("pop_handled")
        self.emit("return")


def cell_slots(code: CodeType) -> tuple[int, ...]:
    """The slots of cell variables, as spliced code has them."""
    changed = arguments(code)
    slots = slot_names(code)
    return tuple(slots.index(name) for name in changed["co_cellvars"])


def made_cells(code: CodeType) -> tuple[int, ...]:
    """The slots among these for which the original code, which a resume function contains completely, has no MAKE_CELL: they are free variables there."""
    return tuple(slot for slot in cell_slots(code) if slot_names(code)[slot] in code.co_freevars)


def arguments(code: CodeType) -> dict[str, Any]:
    """The fields that give a code object a single argument, in slot 0. A free variable there becomes a cell variable: the state brings its cell."""
    names, cells, frees = code.co_varnames, code.co_cellvars, code.co_freevars
    if not names:
        if not cells and frees:
            cells, frees = frees[:1], frees[1:]
        names = cells[:1] or (".state",)
    return {
        "co_argcount": 1,
        "co_posonlyargcount": 0,
        "co_kwonlyargcount": 0,
        "co_flags": code.co_flags & ~(CO_VARARGS | CO_VARKEYWORDS),
        "co_varnames": names,
        "co_cellvars": cells,
        "co_freevars": frees,
        "co_nlocals": len(names),
    }


def function_of(code: CodeType, namespace: dict[str, Any]) -> FunctionType:
    """A function with a spliced code object. Its closure is never read: the state brings the cells. If native code calls it, it runs uncompiled."""
    mark_code(code, NEVER)
    return FunctionType(code, namespace, code.co_name, None, tuple(CellType() for _ in code.co_freevars))


# Resume functions.


class Inner(NamedTuple):
    """The resume function of an inner frame. `finish` writes the code that turns its result into the instruction's; `failed`: writes the handler of
    an exception that it raises, None if there is none; `how` is information for callers of `entered_how`.
    """

    function: FunctionType
    how: Any
    finish: Callable[[Writer], None]
    failed: Failed | None


def resume_after(
    code: CodeType, layout: Layout, offset: int, position: Position, name: str, inner: Inner | None, call: int, decoded: Decoded
) -> CodeType:
    """Enter `code` at `offset`. With `inner`, the top of the state's stack is the inner frame's state: its result is pushed.

    `call`: the index of the instruction before `offset`: with `inner`, the one that the inner frame runs for.
    """
    writer = Writer(list(code.co_consts), position=position)
    writer.start(code, layout)
    writer.emit("start")
    writer.unpack(layout, made_cells(code))
    calls = range(0)
    if inner is None:
        writer.place(layout.stack)
    else:
        writer.place(layout.stack[:-1], above=1)
        function, handler = inner.function, decoded.handler_at[call]
        calls, leaving = writer.write_covered(lambda writer: writer.call_const(function), inner.failed, len(layout.stack) - 1)
        cover(writer, leaving, handler)
        inner.finish(writer)
        cover(writer, range(calls.stop, len(writer.code)), handler)
    return enter(
        code, writer, offset, len(layout), name, decoded, decoded.instructions[call].offset, calls, None if inner is None else inner.how
    )


def resume_raising(
    code: CodeType, layout: Layout, position: Position, name: str, handler: Handler, decoded: Decoded, index: int
) -> CodeType:
    """Enter `code` where `handler` takes an exception, which is on top of the state's stack, as if the instruction at `index` had raised it."""
    writer = Writer(list(code.co_consts), position=position)
    writer.start(code, layout)
    writer.emit("start")
    writer.unpack(layout, made_cells(code))
    writer.place(layout.stack[:-1], above=1)
    start = len(writer.code)
    writer.emit("reraise")
    cover(writer, range(start, len(writer.code)), handler)
    return enter(code, writer, 0, len(layout), name, decoded, decoded.instructions[index].offset, raises=start)


def resume_generator(code: CodeType, layout: Layout, offset: int, position: Position, decoded: Decoded) -> CodeType:
    """A generator function of one argument, the state: its generator continues at `offset` with None on top of the stack. That is a
    YIELD_VALUE, which suspends it again as soon as it is first resumed, or the POP_TOP that takes the first value sent.
    """
    writer = Writer(list(code.co_consts), position=position)
    writer.start(code, layout)
    writer.emit("return_generator")
    writer.emit("pop")
    writer.emit("start")
    writer.unpack(layout, made_cells(code))
    writer.place(layout.stack)
    writer.load_const(None)
    made = enter(code, writer, offset, len(layout) + 1, code.co_name, decoded, 0)
    return made.replace(co_qualname=code.co_qualname)


def cover(writer: Writer, covered: range, handler: Handler | None) -> None:
    """Let instructions of the prologue have the handler of the instruction that they stand for."""
    if handler is not None and covered:
        writer.handlers.append((covered.start, covered.stop, handler.target, handler.depth, handler.lasti))


def enter(
    code: CodeType,
    writer: Writer,
    offset: int,
    size: int,
    name: str,
    decoded: Decoded,
    stands_for: int,
    calls: range = range(0),
    how: Any = None,
    raises: int | None = None,
) -> CodeType:
    """Put the prologue before the whole original code, with a jump to `offset`.

    `stands_for`: the original offset of the instruction that the prologue stands for; `calls`: the range in which it calls an inner resume function; `raises`:
    the offset at which it ends by raising an exception, instead of the jump.
    """
    leaves = len(writer.code) if raises is None else raises
    writer.emit("jump", (offset + 2) // 2)
    # A NOP with the first line ends the prologue: the original's line table counts from there.
    writer.position = Position(code.co_firstlineno, None, None, None)
    writer.emit("nop")
    shift = len(writer.code)
    consts = [own_lasti(item, shift) if isinstance(item, RaisedAt) else item for item in writer.consts]
    handlers = [
        (start, end, decoded.instructions[target].offset + shift, depth, lasti) for start, end, target, depth, lasti in writer.handlers
    ]
    original = [
        (start + shift, end + shift, target + shift, depth, lasti)
        for start, end, target, depth, lasti in exception_table(code.co_exceptiontable)
    ]
    made = code.replace(
        co_code=bytes(writer.code) + code.co_code,
        co_consts=(*consts, code),
        co_linetable=encode_lines(writer.lines, code.co_firstlineno) + code.co_linetable,
        co_exceptiontable=encode_handlers(sorted(handlers + writer.own_handlers) + original),
        co_stacksize=code.co_stacksize + size + 6,
        co_name=name,
        co_qualname=code.co_qualname + name.removeprefix(code.co_name),
        **arguments(code),
    )
    note_origin(made, code, shift, stands_for, calls, how, leaves, shift + offset if raises is None else raises)
    return made


def note_origin(made: CodeType, code: CodeType, *facts: Any) -> None:
    """Note what a resume function's code was made of: see SplicedFrom."""
    key = id(made)
    _origins[key] = SplicedFrom(weakref.ref(made, lambda _: _origins.pop(key, None)), code, *facts)


def own_lasti(item: RaisedAt, shift: int) -> Lasti:
    """The position as counted by code whose prologue has `shift` bytes (Python/bytecodes.c: RERAISE)."""
    lasti = Lasti((item.offset + shift) // 2)
    lasti.offset = item.offset
    return lasti


class SplicedFrom(NamedTuple):
    """The original of a resume function's code, and the end of its prologue: from offset `leaves` to `shift` it jumps to `place`, or raises."""

    made: weakref.ref[CodeType]
    code: CodeType
    shift: int
    stands_for: int
    calls: range
    how: Any
    leaves: int
    place: int


_origins: dict[int, SplicedFrom] = {}


def spliced(code: CodeType) -> SplicedFrom | None:
    """The original of a resume function's code; None for other code."""
    found = _origins.get(id(code))
    return found if found is not None and found.made() is code else None


def original_offset(code: CodeType, offset: int) -> tuple[CodeType, int] | None:
    """The original of a resume function's code, and the original offset of one of its instructions: for a call in the prologue, that of
    the call that it stands for. None for other code; the offset is -1 elsewhere in a prologue.
    """
    found = spliced(code)
    if found is None:
        return None
    if offset >= found.shift:
        return found.code, offset - found.shift
    return found.code, found.stands_for if offset in found.calls else -1


def entered_how(code: CodeType) -> Any:
    """Return how a resume function's prologue uses its inner function's result (`Inner.how`); None if there is no inner function."""
    return _origins[id(code)].how


def is_prologue(code: CodeType, offset: int) -> bool:
    """Return whether the instruction at `offset` is one that a resume function starts with."""
    found = spliced(code)
    return found is not None and offset < found.shift


def origin_of_raise(code: CodeType, offset: int) -> int:
    """The original offset of an instruction that raised; in a prologue, that of the one it stands for."""
    found = spliced(code)
    if found is None:
        return offset
    return offset - found.shift if offset >= found.shift else found.stands_for


# Steps.


@dataclass(frozen=True, slots=True)
class Outcome:
    """One way out of a step: the number that it returns, and the layout of the state."""

    choice: int
    layout: Layout
    drops: int = 0
    """The number of values on the stack that the state doesn't take."""


def step(
    code: CodeType,
    before: Layout,
    operands: int,
    instruction: Callable[[Writer], None],
    position: Position,
    after: Outcome | None,
    raised: Outcome | None,
    failed: Failed | None = None,
) -> CodeType:
    """Run `instruction` on the top `operands` values of the stack, then return the outcome `after`; on an exception `raised`, if given.

    Values below the operands stay as they are, placeholders included. `after` is None if the instruction always raises.
    `failed`: writes the code that handles the exception first, with the values below the operands below it.
    """
    writer = start_step(code, before, position)
    below = len(before.stack) - operands
    writer.place_nulls(before.stack[below:])
    _, leaving = writer.write_covered(instruction, failed, below + writer.handles)
    if after is not None:
        writer.give(after)
    return finish_step(code, writer, leaving, raised, len(before))


def branch(
    code: CodeType,
    before: Layout,
    jump: str,
    position: Position,
    taken: Outcome,
    other: Outcome,
    raised: Outcome | None,
) -> CodeType:
    """Make a jump, "jump_if_false" or "for_iter": if it is taken, return `taken`, else `other`."""
    writer = start_step(code, before, position)
    null = len(before.stack) - 1 if before.stack[-1] is ItemKind.NULL else None
    writer.place_nulls(before.stack[-1:])
    start = len(writer.code)
    writer.emit("enter_covered")
    rest = Writer(writer.consts, position=position, handles=writer.handles)
    rest.displace_null(other.layout.stack, null)
    rest.give(other)
    writer.emit(jump, len(rest.code) // 2)
    end = len(writer.code)
    writer.code += rest.code
    writer.lines += rest.lines
    if jump == "for_iter":
        writer.emit("end_for")
    writer.give(taken)
    return finish_step(code, writer, range(start, end), raised, len(before), null)


def start_step(code: CodeType, before: Layout, position: Position) -> Writer:
    """A step up to the point where its stack is that of the frame, with placeholders in place."""
    writer = Writer(list(code.co_consts), position=position)
    writer.start(code, before)
    writer.emit("start")
    writer.handle(before)
    writer.unpack(before, cell_slots(code))
    return writer


def finish_step(code: CodeType, writer: Writer, leaving: range, raised: Outcome | None, size: int, null: int | None = None) -> CodeType:
    """The finished code. An exception raised by the instructions in `leaving` becomes the outcome `raised`, if the frame handles it: the
    exception has the step's entry in its traceback, and gets no second one when it is raised again. `null`: the index of a NULL on the stack.
    """
    handlers = []
    if raised is not None:
        handlers.append((leaving.start, leaving.stop, len(writer.code), len(raised.layout.stack) - 1 + writer.handles, False))
        writer.displace_null(raised.layout.stack, null)
        writer.give(raised)
    return code.replace(
        co_code=bytes(writer.code),
        co_consts=tuple(writer.consts),
        co_linetable=encode_lines(writer.lines, code.co_firstlineno),
        co_exceptiontable=encode_handlers(sorted(handlers + writer.own_handlers)),
        co_stacksize=code.co_stacksize + size + 8,
        **arguments(code),
    )


def outer_step(
    code: CodeType, before: Layout, inner: FunctionType, position: Position, raised: Outcome | None, after: Layout, failed: Failed | None
) -> CodeType:
    """The step of a frame that is inside a call: run the inner frame's step on the top of the stack, its state, and wrap its result.

    `failed`: writes the code that first handles an exception of the inner frame.
    """
    writer = start_step(code, before, position)
    _, leaving = writer.write_covered(lambda writer: writer.call_const(inner), failed, len(before.stack) - 1 + writer.handles)
    # The stack has (choice, inner state) where the state to be returned has the inner state alone.
    for slot in reversed(after.slots):
        writer.emit("load_local", slot)
    writer.emit("build_tuple", len(after))
    writer.call_const(StateWrapper(len(after.slots)))
    writer.give_back()
    return finish_step(code, writer, leaving, raised, len(before))


@dataclass(frozen=True, slots=True)
class StateWrapper:
    """Turns (stack..., (choice, inner state), slots...) into (choice, the state with the inner state in its place)."""

    slots: int

    def __call__(self, values: tuple[Any, ...]) -> tuple[int, tuple[Any, ...]]:
        at = len(values) - self.slots - 1
        choice, inner = values[at]
        return choice, (*values[:at:-1], inner, *values[:at][::-1])


__all__ = [
    "Item",
    "ItemKind",
    "RaisedAt",
    "Lasti",
    "Layout",
    "Outcome",
    "branch",
    "outer_step",
    "resume_after",
    "resume_raising",
    "slot_names",
    "step",
]
