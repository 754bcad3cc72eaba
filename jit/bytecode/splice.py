"""Code objects cut from others: resume functions, which enter a code object in its middle, and steps, which run one instruction of it.

Both take one argument, the state: a tuple that is unpacked into the frame's slots (cells and free variables included: their slots take
the cell objects themselves) and onto its stack. The original instructions are kept byte for byte behind a prologue; all their jumps are
relative, so they need no change.

    resume: prologue | original code            the prologue jumps to the place, perhaps by way of a call or a raise
    step:   prologue | one instruction | epilogue    the epilogue returns (choice, state)

The order in a state: first the slots' values in the order of `Layout.slots`, then the stack's, top first.
"""

from __future__ import annotations

import dis
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import CellType, CodeType, FunctionType
from typing import Any

from framejit.bytecode.decode import CO_VARARGS, CO_VARKEYWORDS, Decoded, Handler, exception_table, slot_names
from framejit.bytecode.instruction import Position
from framejit.bytecode.versions import CURRENT

EXTENDED_ARG = dis.opmap["EXTENDED_ARG"]
PREFIXES = frozenset({"EXTENDED_ARG", "KW_NAMES", "PRECALL"})
"""Instructions that belong to the one behind them."""
MAX_UNITS = 8
"""Code units that one entry of the line table may cover (Objects/locations.md)."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What a state holds: values of these slots (indices into localsplus), and a stack, bottom first; False is a NULL, None in the state."""

    slots: tuple[int, ...]
    stack: tuple[bool, ...]

    def __len__(self) -> int:
        return len(self.slots) + len(self.stack)


@dataclass(slots=True)
class Writer:
    """Raw instructions with their positions, appended one by one."""

    consts: list[Any]
    code: bytearray = field(default_factory=bytearray)
    lines: list[tuple[int, Position | None]] = field(default_factory=list)
    handlers: list[tuple[int, int, int, int, bool]] = field(default_factory=list)
    position: Position | None = None

    def emit(self, op: str, arg: int = 0) -> None:
        """One instruction and its inline caches."""
        start = len(self.code)
        for shift in (24, 16, 8):
            if arg >> shift:
                self.code += bytes((EXTENDED_ARG, arg >> shift & 0xFF))
        opcode = dis.opmap[op]
        self.code += bytes((opcode, arg & 0xFF)) + bytes(2 * cache_entries(op))
        self.lines.append(((len(self.code) - start) // 2, self.position))

    def raw(self, code: bytes) -> None:
        """Instructions as they stand elsewhere."""
        self.code += code
        self.lines.append((len(code) // 2, self.position))

    def load_const(self, value: Any) -> None:
        self.consts.append(value)
        self.emit("LOAD_CONST", len(self.consts) - 1)

    def call_const(self, function: Callable[..., Any]) -> None:
        """Call a function on the value on top of the stack."""
        self.emit("PUSH_NULL")
        self.emit("SWAP", 2)
        self.load_const(function)
        self.emit("SWAP", 2)
        for op, arg in CURRENT.write["CALL"](1, None):
            self.emit(op, arg)

    def unpack(self, layout: Layout, nulls: bool) -> None:
        """From the state in slot 0 to slots and stack. `nulls`: put real NULLs where the stack has them."""
        self.emit("RESUME", 0)
        self.emit("LOAD_FAST", 0)
        self.emit("UNPACK_SEQUENCE", len(layout))
        for slot in layout.slots:
            self.emit("STORE_FAST", slot)
        if 0 not in layout.slots:
            self.emit("DELETE_FAST", 0)
        if nulls:
            self.place_nulls(layout.stack)

    def place_nulls(self, stack: Sequence[bool], above: int = 0) -> None:
        """Replace the placeholders in the stack, which has `above` more values on top, by NULLs."""
        for depth, is_value in enumerate(reversed(stack), 1 + above):
            if not is_value:
                if depth > 1:
                    self.emit("SWAP", depth)
                self.emit("POP_TOP")
                self.emit("PUSH_NULL")
                if depth > 1:
                    self.emit("SWAP", depth)

    def pack(self, layout: Layout) -> None:
        """From the stack, which has the values of `layout.stack`, and the slots to a state on the stack."""
        for slot in reversed(layout.slots):
            self.emit("LOAD_FAST", slot)
        self.emit("BUILD_TUPLE", len(layout))
        for value in (None, None, -1):
            self.load_const(value)
        self.emit("BUILD_SLICE", 3)
        self.emit("BINARY_SUBSCR")

    def give(self, outcome: Outcome) -> None:
        """Return (choice, state)."""
        for _ in range(outcome.drops):
            self.emit("POP_TOP")
        self.pack(outcome.layout)
        self.load_const(outcome.choice)
        self.emit("SWAP", 2)
        self.emit("BUILD_TUPLE", 2)
        self.emit("RETURN_VALUE")


def cache_entries(op: str) -> int:
    """Inline cache entries behind an instruction."""
    return dis._inline_cache_entries[dis.opmap[op]]  # type: ignore[attr-defined,no-any-return]


def start_of(code: CodeType, decoded: Decoded, index: int) -> int:
    """The offset of an instruction, what belongs to it in front of it included."""
    offset = decoded.instructions[index].offset
    raw = code.co_code
    while offset:
        before = offset - 2
        while before and dis.opname[raw[before]] == "CACHE":
            before -= 2
        if dis.opname[raw[before]] not in PREFIXES:
            break
        offset = before
    return offset


def end_of(code: CodeType, decoded: Decoded, index: int) -> int:
    """The offset behind an instruction and its inline caches."""
    offset = decoded.instructions[index].offset
    return offset + 2 + 2 * cache_entries(dis.opname[code.co_code[offset]])


def arguments(code: CodeType) -> dict[str, Any]:
    """What makes a code object one of a single argument, in slot 0. A free variable there becomes a cell variable: the state brings its cell."""
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
    """A function of a spliced code object. Its closure is never read: the state brings the cells."""
    return FunctionType(code, namespace, code.co_name, None, tuple(CellType() for _ in code.co_freevars))


# Resume functions.


def resume_after(
    code: CodeType, layout: Layout, offset: int, position: Position, name: str, inner: FunctionType | None, call: int, decoded: Decoded
) -> CodeType:
    """Enter `code` at `offset`. With `inner`, the top of the state's stack is the inner frame's state: what `inner` makes of it is pushed.

    `call`: the index of the instruction that is behind: with `inner`, the call that the inner frame is in.
    """
    writer = Writer(list(code.co_consts), position=position)
    writer.unpack(layout, nulls=inner is None)
    if inner is not None:
        writer.place_nulls(layout.stack[:-1], above=1)
        start = len(writer.code)
        writer.call_const(inner)
        cover(writer, start, decoded.handler_at[call])
    return enter(code, writer, offset, len(layout), name, decoded, decoded.instructions[call].offset)


def resume_raising(code: CodeType, layout: Layout, position: Position, name: str, handler: Handler, decoded: Decoded) -> CodeType:
    """Enter `code` where `handler` takes an exception, which is on top of the state's stack, as if the instruction had raised it."""
    writer = Writer(list(code.co_consts), position=position)
    writer.unpack(layout, nulls=False)
    writer.place_nulls(layout.stack[:-1], above=1)
    start = len(writer.code)
    writer.emit("RERAISE", 0)
    cover(writer, start, handler)
    return enter(code, writer, 0, len(layout), name, decoded)


def cover(writer: Writer, start: int, handler: Handler | None) -> None:
    """Have the prologue's instructions from `start` on handled as the instruction that they stand for. Targets are original indices for now."""
    if handler is not None:
        writer.handlers.append((start, len(writer.code), handler.target, handler.depth, handler.lasti))


def enter(code: CodeType, writer: Writer, offset: int, size: int, name: str, decoded: Decoded, call: int | None = None) -> CodeType:
    """Put the prologue in front of the whole original code, with a jump to `offset`. `call`: the original offset of what the prologue calls for."""
    writer.emit("JUMP_FORWARD", (offset + 2) // 2)
    # A NOP with the first line ends the prologue: the original's line table counts from there.
    writer.position = Position(code.co_firstlineno, None, None, None)
    writer.emit("NOP")
    shift = len(writer.code)
    handlers = [(start, end, decoded.instructions[target].offset + shift, depth, lasti) for start, end, target, depth, lasti in writer.handlers]
    original = [(start + shift, end + shift, target + shift, depth, lasti) for start, end, target, depth, lasti in exception_table(code.co_exceptiontable)]
    made = code.replace(
        co_code=bytes(writer.code) + code.co_code,
        co_consts=(*writer.consts, code),
        co_linetable=encode_lines(writer.lines, code.co_firstlineno) + code.co_linetable,
        co_exceptiontable=encode_handlers(handlers + original),
        co_stacksize=code.co_stacksize + size + 6,
        co_name=name,
        co_qualname=name,
        **arguments(code),
    )
    key = id(made)
    _origins[key] = (weakref.ref(made, lambda _: _origins.pop(key, None)), code, shift, call)
    return made


_origins: dict[int, tuple[weakref.ref[CodeType], CodeType, int, int | None]] = {}


def origin(code: CodeType, offset: int) -> tuple[CodeType, int] | None:
    """The original of a resume function's code, and the original offset of one of its instructions: of a call in the prologue, that of
    the call that it stands for. None for code that is no resume function's; the offset is -1 elsewhere in a prologue.
    """
    found = _origins.get(id(code))
    if found is None or found[0]() is not code:
        return None
    _, original, shift, call = found
    if offset >= shift:
        return original, offset - shift
    return original, -1 if call is None else call


# Steps.


@dataclass(frozen=True, slots=True)
class Outcome:
    """One way out of a step: the number that it returns, and the layout of the state."""

    choice: int
    layout: Layout
    drops: int = 0
    """Values on the stack that the state doesn't take."""


def step(
    code: CodeType,
    before: Layout,
    operands: int,
    instruction: Callable[[Writer], None],
    position: Position,
    after: Outcome,
    raised: Outcome | None,
) -> CodeType:
    """Run `instruction` on the top `operands` values of the stack, then give the outcome `after`; on an exception `raised`, if given.

    Values below the operands pass through as they are, placeholders of NULLs included.
    """
    writer = Writer(list(code.co_consts), position=position)
    writer.unpack(before, nulls=False)
    writer.place_nulls(before.stack[len(before.stack) - operands :])
    start = len(writer.code)
    instruction(writer)
    end = len(writer.code)
    writer.give(after)
    handlers = []
    if raised is not None:
        handlers.append((start, end, len(writer.code), len(raised.layout.stack) - 1, False))
        writer.call_const(without_own_entry)
        writer.give(raised)
    return finish_step(code, writer, handlers, len(before))


def branch(
    code: CodeType, before: Layout, test: Callable[[Writer], str], position: Position, taken: Outcome, other: Outcome, raised: Outcome | None
) -> CodeType:
    """Run `test`, which ends in a conditional jump still to be made and says its name: where it jumps, `taken` is given, else `other`."""
    writer = Writer(list(code.co_consts), position=position)
    writer.unpack(before, nulls=False)
    start = len(writer.code)
    jump = test(writer)
    rest = Writer(writer.consts, position=position)
    rest.give(other)
    skipped = CURRENT.skipped_by_for_iter if jump == "FOR_ITER" else 0
    writer.emit(jump, len(rest.code) // 2)
    end = len(writer.code)
    writer.code += rest.code
    writer.lines += rest.lines
    for _ in range(skipped):
        writer.emit("NOP")
    writer.give(taken)
    handlers = []
    if raised is not None:
        handlers.append((start, end, len(writer.code), len(raised.layout.stack) - 1, False))
        writer.call_const(without_own_entry)
        writer.give(raised)
    return finish_step(code, writer, handlers, len(before))


def finish_step(code: CodeType, writer: Writer, handlers: list[tuple[int, int, int, int, bool]], size: int) -> CodeType:
    return code.replace(
        co_code=bytes(writer.code),
        co_consts=tuple(writer.consts),
        co_linetable=encode_lines(writer.lines, code.co_firstlineno),
        co_exceptiontable=encode_handlers(handlers),
        co_stacksize=code.co_stacksize + size + 8,
        **arguments(code),
    )


def outer_step(code: CodeType, before: Layout, inner: FunctionType, position: Position, raised: Outcome | None, after: Layout) -> CodeType:
    """The step of a frame that is inside a call: run the inner frame's step on the top of the stack, its state, and wrap what it gives."""
    writer = Writer(list(code.co_consts), position=position)
    writer.unpack(before, nulls=False)
    start = len(writer.code)
    writer.call_const(inner)
    end = len(writer.code)
    # On the stack is (choice, inner state) where the state to be given has the inner state alone.
    for slot in reversed(after.slots):
        writer.emit("LOAD_FAST", slot)
    writer.emit("BUILD_TUPLE", len(after))
    writer.call_const(Wrapper(len(after.slots)))
    writer.emit("RETURN_VALUE")
    handlers = []
    if raised is not None:
        handlers.append((start, end, len(writer.code), len(raised.layout.stack) - 1, False))
        writer.call_const(without_own_entry)
        writer.give(raised)
    return finish_step(code, writer, handlers, len(before))


@dataclass(frozen=True, slots=True)
class Wrapper:
    """Turns (stack..., (choice, inner state), slots...) into (choice, the state with the inner state in its place)."""

    slots: int

    def __call__(self, values: tuple[Any, ...]) -> tuple[int, tuple[Any, ...]]:
        at = len(values) - self.slots - 1
        choice, inner = values[at]
        return choice, (*values[:at:-1], inner, *values[:at][::-1])


def without_own_entry(exc: BaseException) -> BaseException:
    """An exception caught by a step, less the traceback entry of the step itself: where it is raised again makes one in its place."""
    traceback = exc.__traceback__
    return exc.with_traceback(None if traceback is None else traceback.tb_next)


# Tables.


def encode_handlers(rows: Sequence[tuple[int, int, int, int, bool]]) -> bytes:
    """Rows (start, end, target, depth, lasti) in byte offsets as `co_exceptiontable` (Objects/exception_handling_notes.txt)."""
    table = bytearray()
    for start, end, target, depth, lasti in rows:
        for first, value in enumerate((start // 2, (end - start) // 2, target // 2, depth << 1 | lasti)):
            chunks = [value & 63]
            while value := value >> 6:
                chunks.append(value & 63)
            chunks = [chunk | 64 for chunk in chunks[:0:-1]] + chunks[:1]
            chunks[0] |= 128 if first == 0 else 0
            table += bytes(chunks)
    return bytes(table)


def encode_lines(entries: Sequence[tuple[int, Position | None]], firstlineno: int) -> bytes:
    """(code units, position) as `co_linetable` (Objects/locations.md)."""
    table = bytearray()
    line = firstlineno
    for units, position in entries:
        while units > 0:
            length = min(units, MAX_UNITS)
            units -= length
            if position is None or position.lineno is None:
                table.append(0x80 | 15 << 3 | length - 1)
                continue
            delta = position.lineno - line
            line = position.lineno
            if position.column is None or position.end_column is None or position.end_lineno is None:
                table.append(0x80 | 13 << 3 | length - 1)
                table += signed_varint(delta)
            else:
                table.append(0x80 | 14 << 3 | length - 1)
                table += signed_varint(delta) + varint(position.end_lineno - position.lineno) + varint(position.column + 1) + varint(position.end_column + 1)
    return bytes(table)


def varint(value: int) -> bytes:
    """Six bits a byte, lowest first."""
    chunks = bytearray()
    while value > 63:
        chunks.append(64 | value & 63)
        value >>= 6
    chunks.append(value)
    return bytes(chunks)


def signed_varint(value: int) -> bytes:
    return varint(-value << 1 | 1 if value < 0 else value << 1)


__all__ = ["Layout", "Outcome", "branch", "outer_step", "resume_after", "resume_raising", "slot_names", "step"]
