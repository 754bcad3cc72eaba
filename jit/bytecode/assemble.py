"""Assembles new code objects from words, without jumps: those that replace the code of a traced frame."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, groupby
from operator import itemgetter
from types import CodeType
from typing import Any

from framejit.bytecode.decode import parameter_count
from framejit.bytecode.encode import WORDS, encode_handlers, encode_instruction, encode_lines, instructions, stack_effect
from framejit.bytecode.instruction import NO_POSITION, Position

INHERITED_FLAGS = 0x01 | 0x02 | 0x04 | 0x08 | 0x10
"""OPTIMIZED, NEWLOCALS, VARARGS, VARKEYWORDS and NESTED; a replacement is never a generator."""

WITH_CONSTANT = frozenset({"load_const", "load_callable"})
WITH_NAME = frozenset({"load_attr", "store_attr", "delete_attr"})
WITH_LOCAL = frozenset({"load_local", "store_local", "delete_local"})
"""Words whose arguments are passed as objects and names, and not as indexes."""


class AssembleError(Exception):
    """The words don't make a code object: one is unknown, or the stack doesn't balance. This is a bug of framejit."""


class Assembler:
    """Collects words; `assemble` turns them into a code object.

    Everything is a constant or a fast local: there are no globals, cells or jumps, and handlers only at the end. Not reusable after
    `assemble`.
    """

    def __init__(self) -> None:
        self._instructions: list[tuple[str, int]] = []
        self._local_uses: list[tuple[int, str]] = []  # (index, name): slots are known only at the end
        self._consts: list[Any] = []
        self._const_index: dict[int, int] = {}  # id -> index; `_consts` keeps the objects alive
        self._names: dict[str, int] = {}
        self._depth = 0
        self._max_depth = 0
        self._handlers: list[list[int]] = []  # for each the indexes of the first instruction covered, of the one after the last, and of its own first one
        self._position = NO_POSITION
        self._positions: list[Position] = []  # of the instructions
        self._ended = False

    @property
    def depth(self) -> int:
        """Values on the stack after the instructions emitted so far, NULLs included."""
        return self._depth

    def set_position(self, position: Position) -> None:
        """The source position of the instructions that follow."""
        self._position = position

    def emit_covered(self, word: str, argument: Any = 0, with_all_before: bool = False) -> None:
        """Append a word that has a handler, maybe with all words before it that have none. The stack holds nothing below its operands."""
        before = self._handlers[-1][1] if self._handlers else -1
        first = before if with_all_before else len(self._instructions)
        self.emit("enter_covered")
        self.emit(word, argument)
        self._handlers.append([first, len(self._instructions), 0])

    def begin_handler(self) -> None:
        """The handler of the last covered word that has none yet follows, and begins with the exception on the stack. Control never falls through into it."""
        waiting = next(handler for handler in reversed(self._handlers) if not handler[2])
        waiting[2] = len(self._instructions)
        self._depth = 1

    def emit(self, word: str, argument: Any = 0) -> None:
        """Append one word of the vocabulary (versions/words.py); raises AssembleError if it isn't a word.

        `argument`: for a constant the object (kept by identity), for a local or an attribute its name, for others the argument that the word takes.
        """
        if word not in WORDS:
            raise AssembleError(f"{word} is no word of the vocabulary: {', '.join(WORDS)}")
        if word in WITH_CONSTANT:
            argument = self._const(argument)
        elif word in WITH_NAME:
            argument = self._names.setdefault(argument, len(self._names))
        elif word in WITH_LOCAL:
            self._local_uses.append((len(self._instructions), argument))
            argument = 0
        for opcode, arg in instructions(word, argument):
            self._append(opcode, arg)
        self._ended = word in ("return", "reraise")

    def assemble(
        self,
        template: CodeType,
        extra: Iterable[str] = (),
        *,
        name: str | None = None,
        qualname: str | None = None,
    ) -> CodeType:
        """The code object: parameters, flags, names, file and first line of `template`; `extra` locals right after the parameters' slots.

        Locals used under other names get the slots after those, in order of first use.
        """
        if self._depth or not self._ended:
            raise AssembleError(f"the code ends with {self._depth} values on the stack, and must end in return or reraise")
        slots = {local: slot for slot, local in enumerate((*template.co_varnames[: parameter_count(template)], *extra))}
        for index, local in self._local_uses:
            self._instructions[index] = (self._instructions[index][0], slots.setdefault(local, len(slots)))
        start = Position(template.co_firstlineno, template.co_firstlineno, 0, 0)
        before = [encode_instruction(*each) for each in instructions("start")]
        pieces = [*before, *(encode_instruction(*each) for each in self._instructions)]
        positions = zip([len(piece) // 2 for piece in pieces], [start] * len(before) + self._positions)
        lines = [(sum(units for units, _ in run), at) for at, run in groupby(positions, itemgetter(1))]
        ends = list(accumulate(map(len, pieces[len(before) :]), initial=sum(map(len, before))))
        rows = [(ends[first] if first >= 0 else 0, ends[end], ends[target], 0, False) for first, end, target in self._handlers]
        return template.replace(
            co_code=b"".join(pieces),
            co_consts=tuple(self._consts),
            co_names=tuple(self._names),
            co_varnames=tuple(slots),
            co_nlocals=len(slots),
            co_cellvars=(),
            co_freevars=(),
            co_flags=template.co_flags & INHERITED_FLAGS,
            co_stacksize=self._max_depth,
            co_linetable=encode_lines(lines, template.co_firstlineno),
            co_exceptiontable=encode_handlers(rows),
            co_name=template.co_name if name is None else name,
            co_qualname=template.co_qualname if qualname is None else qualname,
        )

    def _append(self, opcode: str, arg: int) -> None:
        self._instructions.append((opcode, arg))
        self._positions.append(self._position)
        self._depth += stack_effect(opcode, arg)
        if self._depth < 0:
            raise AssembleError(f"{opcode} takes more values than the stack holds")
        self._max_depth = max(self._max_depth, self._depth)

    def _const(self, value: Any) -> int:
        index = self._const_index.get(id(value))
        if index is None:
            index = self._const_index[id(value)] = len(self._consts)
            self._consts.append(value)
        return index
