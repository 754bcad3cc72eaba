"""Encodes words as bytes of the running Python's bytecode, and the tables of a code object's handlers and positions."""

from __future__ import annotations

import dis
from collections.abc import Sequence

from framejit.bytecode.instruction import Position
from framejit.bytecode.versions import CURRENT

WORDS = CURRENT.words
EXTENDED_ARG = dis.opmap["EXTENDED_ARG"]
MAX_UNITS = 8
"""Code units that one entry of the line table may cover (Objects/locations.md)."""


def instructions(word: str, argument: object = 0) -> tuple[tuple[str, int], ...]:
    """A word as instructions of the running Python: (opcode, argument). Raises KeyError if it isn't a word."""
    return WORDS[word](argument)


def encode(word: str, argument: object = 0) -> bytes:
    """A word as bytecode."""
    return b"".join(encode_instruction(opcode, arg) for opcode, arg in instructions(word, argument))


def encode_instruction(opcode: str, arg: int) -> bytes:
    """One instruction, with the prefixes that a large argument needs, and its inline caches."""
    code = b""
    for shift in (24, 16, 8):
        if arg >> shift:
            code += bytes((EXTENDED_ARG, arg >> shift & 0xFF))
    return code + bytes((dis.opmap[opcode], arg & 0xFF)) + bytes(2 * CURRENT.caches.get(opcode, 0))


def stack_effect(opcode: str, arg: int) -> int:
    """The change of the stack's depth by an instruction that doesn't jump."""
    if opcode == "RETURN_VALUE":  # from 3.14 on, dis counts the value on the caller's stack
        return -1
    number = dis.opmap[opcode]
    return dis.stack_effect(number, arg if number >= dis.HAVE_ARGUMENT else None, jump=False)


def encode_handlers(rows: Sequence[tuple[int, int, int, int, bool]]) -> bytes:
    """Encode rows (start, end, target, depth, lasti) in byte offsets as `co_exceptiontable` (Objects/exception_handling_notes.txt)."""
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
    """Encode pairs (code units, position) as `co_linetable` (Objects/locations.md)."""
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
                table += (
                    signed_varint(delta)
                    + varint(position.end_lineno - position.lineno)
                    + varint(position.column + 1)
                    + varint(position.end_column + 1)
                )
    return bytes(table)


def varint(value: int) -> bytes:
    """Encode a number with six bits per byte, lowest first."""
    chunks = bytearray()
    while value > 63:
        chunks.append(64 | value & 63)
        value >>= 6
    chunks.append(value)
    return bytes(chunks)


def signed_varint(value: int) -> bytes:
    return varint(-value << 1 | 1 if value < 0 else value << 1)
