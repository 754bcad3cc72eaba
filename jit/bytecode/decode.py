"""Decodes a code object to canonical instructions, exception handlers and slot names, on any supported Python version."""

from __future__ import annotations

import dis
import weakref
from collections.abc import Iterator
from dataclasses import field
from types import CodeType
from typing import Any, NamedTuple

from framejit.bytecode.instruction import NO_POSITION, Instruction, Position
from framejit.bytecode.versions import CURRENT
from framejit.bytecode.versions.rows import Raw, Target, View
from framejit.quick_dataclass import dataclass


class Handler(NamedTuple):
    """A row of the exception table, in instruction indexes: `start <= index < end` is covered."""

    start: int
    end: int
    target: int
    depth: int  # the stack is cut to this depth
    lasti: bool  # and the index of the instruction that raised is pushed below the exception


@dataclass(slots=True, eq=False)
class Decoded:
    """A code object, decoded. Holds no reference to the code object itself."""

    instructions: list[Instruction]
    handlers: list[Handler]
    slots: tuple[str, ...]  # fast locals, cells, free variables: CPython's localsplus
    slot_of: dict[str, int]
    parameters: int  # the first slots: arguments in order, then *args, then **kwargs
    cells: tuple[int, ...]  # slots of cell variables
    frees: tuple[int, ...]  # slots of free variables
    handler_at: list[Handler | None] = field(repr=False)  # innermost handler of each instruction
    program: list[Any] | None = field(default=None, repr=False)  # the interpreter's: instructions bound to the functions that execute them
    live: list[frozenset[int]] | None = field(default=None, repr=False)  # the result of live_slots

    def listing(self) -> str:
        """A readable listing, for the logs."""
        rows = [str(instruction) for instruction in self.instructions]
        rows += [f"  {h.start} to {h.end} -> {h.target} [{h.depth}]{' lasti' if h.lasti else ''}" for h in self.handlers]
        return "\n".join(rows)


_cache: dict[int, tuple[weakref.ref[CodeType], Decoded]] = {}


def decode(code: CodeType) -> Decoded:
    """The decoded form of a code object, cached by identity while the code object lives: equal code objects may differ in file and lines."""
    key = id(code)
    cached = _cache.get(key)
    if cached is not None and cached[0]() is code:
        return cached[1]
    decoded = _decode(code)

    def forget(reference: weakref.ref[CodeType], cache: dict[int, Any] = _cache) -> None:  # a default lasts while the interpreter ends
        if (current := cache.get(key)) is not None and current[0] is reference:
            del cache[key]

    _cache[key] = (weakref.ref(code, forget), decoded)
    return decoded


def slot_names(code: CodeType) -> tuple[str, ...]:
    """Names of CPython's localsplus: locals, cells that are not also locals, free variables."""
    local = set(code.co_varnames)
    return (*code.co_varnames, *(name for name in code.co_cellvars if name not in local), *code.co_freevars)


def parameter_count(code: CodeType) -> int:
    """The number of slots taken by parameters, including `*args` and `**kwargs`."""
    variadic = bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
    return code.co_argcount + code.co_kwonlyargcount + variadic


NEW_TUPLE = tuple.__new__
"""Makes a named tuple of a tuple, in half the time that the class takes: each instruction needs several."""
CO_VARARGS = 0x04
CO_VARKEYWORDS = 0x08


def _raw_instructions(code: bytes) -> Iterator[Raw]:
    # `co_code` is unspecialised and its inline caches are zeroed, so a cache entry reads as the opcode CACHE.
    extended = 0
    size = len(code)
    offset = 0
    while offset < size:
        opcode, arg = code[offset], code[offset + 1] | extended
        after = offset + 2
        while after < size and code[after] == _CACHE:
            after += 2
        yield NEW_TUPLE(Raw, (dis.opname[opcode], arg, offset, after))
        extended = arg << 8 if opcode == _EXTENDED_ARG else 0
        offset = after


_CACHE = dis.opmap["CACHE"]
_EXTENDED_ARG = dis.opmap["EXTENDED_ARG"]
_CALLS = frozenset(dis.opmap[name] for name, row in CURRENT.table.items() if not {"CALL", "CALL_FUNCTION_EX"}.isdisjoint(row.emits))


def call_offsets(code: CodeType) -> tuple[int, ...]:
    """The offsets of the calls in a code object, as in a traceback."""
    raw = code.co_code
    return tuple([offset for offset in range(0, len(raw), 2) if raw[offset] in _CALLS])


def start_of(code: CodeType, decoded: Decoded, index: int) -> int:
    """The offset of an instruction, including instructions before it that belong to it."""
    offset = decoded.instructions[index].offset
    earlier = (instruction.offset for instruction in reversed(decoded.instructions[:index]))
    floor = next((before for before in earlier if before < offset), -1)
    raw = code.co_code
    while offset:
        before = offset - 2
        while before and raw[before] == _CACHE:
            before -= 2
        if before <= floor or dis.opname[raw[before]] not in CURRENT.prefixes:
            break
        offset = before
    return offset


def end_of(code: CodeType, decoded: Decoded, index: int) -> int:
    """The offset after an instruction and its inline caches."""
    offset = decoded.instructions[index].offset
    return offset + 2 + 2 * CURRENT.caches.get(dis.opname[code.co_code[offset]], 0)


def _decode(code: CodeType) -> Decoded:
    slots = slot_names(code)
    positions = list(code.co_positions())
    raws = list(_raw_instructions(code.co_code))
    table = CURRENT.table
    instructions: list[Instruction] = []
    index_at: dict[int, int] = {}  # offset -> index of the first instruction at or after it
    view = View(code, slots, raws)
    for place, raw in enumerate(raws):
        name, _, offset, _ = raw
        index_at[offset] = len(instructions)
        view.place = place
        parts = table[name].expand(raw, view)
        if parts:
            position = NEW_TUPLE(Position, positions[offset >> 1]) if offset >> 1 < len(positions) else NO_POSITION
            for op, arg, value in parts:
                instructions.append(Instruction(op, arg, value, offset, len(instructions), position))
            view.previous = parts[-1]
    index_at[len(code.co_code)] = len(instructions)
    for instruction in instructions:
        if type(instruction.value) is Target:
            instruction.value = index_at[instruction.value.offset]
    handlers = [
        Handler(index_at[start], index_at[end], index_at[target], depth, lasti)
        for start, end, target, depth, lasti in exception_table(code.co_exceptiontable)
        if index_at[start] < index_at[end]
    ]
    handler_at: list[Handler | None] = [None] * len(instructions)
    for handler in handlers:
        handler_at[handler.start : handler.end] = [handler] * (handler.end - handler.start)
    slot_of = {name: index for index, name in enumerate(slots)}
    return Decoded(
        instructions=instructions,
        handlers=handlers,
        slots=slots,
        slot_of=slot_of,
        parameters=parameter_count(code),
        cells=tuple(slot_of[name] for name in code.co_cellvars),
        frees=tuple(range(len(slots) - len(code.co_freevars), len(slots))),
        handler_at=handler_at,
    )


def exception_table(table: bytes) -> Iterator[tuple[int, int, int, int, bool]]:
    """(start, end, target, depth, lasti) in byte offsets, innermost if ranges overlap. Format: Objects/exception_handling_notes.txt."""
    stream = iter(table)

    def varint(first: int) -> int:
        value = first & 63
        while first & 64:
            first = next(stream)
            value = value << 6 | first & 63
        return value

    for first in stream:
        start = 2 * varint(first)
        end = start + 2 * varint(next(stream))
        target = 2 * varint(next(stream))
        depth_and_lasti = varint(next(stream))
        yield start, end, target, depth_and_lasti >> 1, bool(depth_and_lasti & 1)
