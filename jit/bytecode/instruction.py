"""The version-neutral instruction, which the interpreter runs and to which errors point."""

from __future__ import annotations

from typing import Any, NamedTuple

from framejit.program.naming import constant
from framejit.quick_dataclass import dataclass


class Position(NamedTuple):
    """The place of an instruction in the source, as in `code.co_positions()`; columns are UTF-8 byte offsets."""

    lineno: int | None
    end_lineno: int | None
    column: int | None
    end_column: int | None


NO_POSITION = Position(None, None, None, None)


@dataclass(slots=True, eq=False)
class Instruction:
    """One canonical instruction.

    `op`: canonical name, the same on every Python version (bytecode/versions maps to it).
    `arg`: the count, flags or slot that the operation needs, None if it needs none.
    `value`: the resolved argument: the constant, the name, the operator's symbol, or, for jumps, the target's index.
    `offset`: byte offset in `co_code` of the instruction that this one comes from; several may share it.
    `index`: its place in `Decoded.instructions`.
    """

    op: str
    arg: int | None
    value: Any
    offset: int
    index: int
    position: Position

    def __str__(self) -> str:
        shown = "" if self.value is None and self.arg is None else f" {constant(self.value)}"
        return f"{self.index:4} {self.op}{shown}"
