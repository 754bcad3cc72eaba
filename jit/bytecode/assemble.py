"""Assembling new code objects from canonical instructions, without jumps: what replaces a traced frame.

The third-party `bytecode` package encodes instructions. The stack's depth, which is trivial without jumps, is counted here, and so is the table of
positions encoded here: the package's is wrong for columns from 128 on (0.19.1), and CPython writes past the end of a buffer for such a table.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterable
from functools import cache
from itertools import accumulate, groupby
from operator import itemgetter
from types import CodeType
from typing import Any

from bytecode import ConcreteBytecode, ConcreteInstr

from framejit.bytecode.decode import parameter_count
from framejit.bytecode.instruction import NO_POSITION, Position
from framejit.bytecode.splice import encode_handlers, encode_lines
from framejit.bytecode.versions import CURRENT
from framejit.bytecode.versions.rows import BINARY_SYMBOLS, Written

INHERITED_FLAGS = 0x01 | 0x02 | 0x04 | 0x08 | 0x10
"""OPTIMIZED, NEWLOCALS, VARARGS, VARKEYWORDS and NESTED; a replacement is never a generator."""


class AssembleError(Exception):
    """The instructions given don't make a code object: an unknown operation, or a stack that doesn't balance. A bug of framejit's."""


class Assembler:
    """Collects canonical instructions; `assemble` makes them a code object.

    Everything is a constant or a fast local: there are no globals, cells or jumps, and handlers at the end only. Not reusable after
    `assemble`.
    """

    def __init__(self) -> None:
        self._instructions: list[ConcreteInstr] = []
        self._fast_uses: list[tuple[int, str, str]] = []  # (index, opcode, name): slots are known only at the end
        self._consts: list[Any] = []
        self._const_index: dict[int, int] = {}  # id -> index; `_consts` keeps the objects alive
        self._names: dict[str, int] = {}
        self._depth = 0
        self._max_depth = 0
        self._handlers: list[list[int]] = []  # for each the indexes of the first instruction covered, of the one behind, and of its own first one
        self._position = NO_POSITION
        self._positions: list[Position] = []  # of the instructions

    @property
    def depth(self) -> int:
        """Values on the stack behind the instructions emitted so far, NULLs included."""
        return self._depth

    def set_position(self, position: Position) -> None:
        """The source position of the instructions that follow."""
        self._position = position

    def emit_covered(self, op: str, argument: Any = None, with_all_before: bool = False) -> None:
        """Append an instruction that has a handler. The stack holds nothing below its operands."""
        first = -1 if with_all_before else len(self._instructions)
        self.emit(op, argument)
        self._handlers.append([first, len(self._instructions), 0])

    def begin_handler(self) -> None:
        """The handler of the last covered instruction follows, and begins with the exception on the stack. Nothing goes on into it."""
        self._handlers[-1][2] = len(self._instructions)
        self._depth = 1

    def emit(self, op: str, argument: Any = None) -> None:
        """Append one canonical instruction; raises AssembleError for one that straight-line code can't have.

        `argument` is what `Instruction.value` would be: for LOAD_CONST any object (kept by identity), for the FAST operations a local's
        name, for the ATTR operations an attribute's name, for BINARY_OP, UNARY_OP and COMPARE_OP the symbol, for CALL the number of
        arguments or (number, keyword names), for the rest a count, depth or flags. As in CPython, a callable stands on a PUSH_NULL.
        """
        encode = _ENCODERS.get(op)
        if encode is None:
            raise AssembleError(f"canonical operation {op} can't be assembled; known: {', '.join(_ENCODERS)}")
        for opcode, arg in encode(self, argument):
            self._append(opcode, arg)

    def assemble(
        self,
        template: CodeType,
        extra: Iterable[str] = (),
        *,
        name: str | None = None,
        qualname: str | None = None,
    ) -> CodeType:
        """The code object: parameters, flags, names, file and first line of `template`; `extra` locals right behind the parameters' slots.

        Locals used under other names get the slots behind those, in order of first use.
        """
        if self._depth or not self._instructions or self._instructions[-1].name not in ("RETURN_VALUE", "RERAISE"):
            raise AssembleError(f"the code ends with {self._depth} values on the stack, and must end in RETURN_VALUE or RERAISE")
        slots = {local: slot for slot, local in enumerate((*template.co_varnames[: parameter_count(template)], *extra))}
        for index, opcode, local in self._fast_uses:
            slot = slots.setdefault(local, len(slots))
            self._instructions[index] = ConcreteInstr(opcode, slot)
        start = Position(template.co_firstlineno, template.co_firstlineno, 0, 0)
        concrete = ConcreteBytecode([ConcreteInstr("RESUME", 0), *self._instructions], consts=self._consts)
        concrete.names = list(self._names)
        concrete.varnames = list(slots)
        concrete.argcount = template.co_argcount
        concrete.posonlyargcount = template.co_posonlyargcount
        concrete.kwonlyargcount = template.co_kwonlyargcount
        concrete.flags = template.co_flags & INHERITED_FLAGS
        concrete.filename = template.co_filename
        concrete.first_lineno = template.co_firstlineno
        concrete.name = template.co_name if name is None else name
        concrete.qualname = template.co_qualname if qualname is None else qualname
        code = concrete.to_code(self._max_depth, compute_exception_stack_depths=False)
        units = [instruction.size // 2 for instruction in concrete]
        lines = [(sum(unit for unit, _ in run), at) for at, run in groupby(zip(units, (start, *self._positions)), itemgetter(1))]
        code = code.replace(co_linetable=encode_lines(lines, template.co_firstlineno))
        if not self._handlers:
            return code
        ends = list(accumulate((instruction.size for instruction in concrete), initial=0))  # a RESUME comes first
        rows = [(ends[first + 1], ends[end + 1], ends[target + 1], 0, False) for first, end, target in self._handlers]
        return code.replace(co_exceptiontable=encode_handlers(rows))

    def _append(self, opcode: str, arg: int | None) -> None:
        number, needs_argument, caches = _opcode(opcode)
        argument = (arg,) if needs_argument else ()
        self._instructions.append(ConcreteInstr(opcode, *argument))
        self._depth += dis.stack_effect(number, arg if needs_argument else None, jump=False)
        if self._depth < 0:
            raise AssembleError(f"{opcode} takes more values than the stack holds")
        self._max_depth = max(self._max_depth, self._depth)
        self._instructions += [ConcreteInstr("CACHE", 0)] * caches
        self._positions += [self._position] * (1 + caches)

    # Encoders: a canonical argument as instructions of the running Python.

    def _const(self, value: Any) -> int:
        index = self._const_index.get(id(value))
        if index is None:
            index = self._const_index[id(value)] = len(self._consts)
            self._consts.append(value)
        return index

    def _name(self, name: str) -> int:
        return self._names.setdefault(name, len(self._names))

    def _load_const(self, value: Any) -> Written:
        return (("LOAD_CONST", self._const(value)),)

    def _load_attr(self, name: str) -> Written:
        return CURRENT.write["LOAD_ATTR"](self._name(name))

    def _call(self, argument: int | tuple[int, tuple[str, ...]]) -> Written:
        nargs, names = (argument, ()) if isinstance(argument, int) else argument
        return CURRENT.write["CALL"](nargs, self._const(names) if names else None)

    def _compare(self, symbol: str) -> Written:
        return CURRENT.write["COMPARE_OP"](dis.cmp_op.index(symbol))

    def _unary(self, symbol: str) -> Written:
        return CURRENT.write["UNARY_OP"](symbol)

    def _list_to_tuple(self, _: None) -> Written:
        return CURRENT.write["LIST_TO_TUPLE"]()

    def _binary(self, symbol: str) -> Written:
        return (("BINARY_OP", BINARY_SYMBOLS.index(symbol)),)


def calls(code: CodeType) -> tuple[int, ...]:
    """The offsets of the calls in straight-line code, as a traceback gives them."""
    instructions, found = code.co_code, (dis.opmap["CALL"], dis.opmap["CALL_FUNCTION_EX"])
    return tuple([offset for offset in range(0, len(instructions), 2) if instructions[offset] in found])


Encoder = Callable[[Assembler, Any], Written]


def _plain(op: str) -> Encoder:
    return lambda assembler, argument: ((op, 0),)


def _counted(op: str) -> Encoder:
    return lambda assembler, count: ((op, count),)


def _named(op: str) -> Encoder:
    return lambda assembler, name: ((op, assembler._name(name)),)


def _fast(op: str) -> Encoder:
    def encode(assembler: Assembler, name: str) -> Written:
        assembler._fast_uses.append((len(assembler._instructions), op, name))
        return ((op, 0),)

    return encode


_PLAIN = (
    *("POP_TOP", "PUSH_NULL", "RETURN_VALUE", "UNARY_NOT", "GET_ITER"),
    *("BINARY_SUBSCR", "STORE_SUBSCR", "DELETE_SUBSCR"),
)
_COUNTED = (
    *("COPY", "SWAP", "IS_OP", "CONTAINS_OP", "CALL_FUNCTION_EX", "RAISE_VARARGS", "RERAISE", "UNPACK_SEQUENCE", "UNPACK_EX", "FORMAT_VALUE"),
    *("BUILD_TUPLE", "BUILD_LIST", "BUILD_SET", "BUILD_MAP", "BUILD_CONST_KEY_MAP", "BUILD_STRING", "BUILD_SLICE"),
    *("LIST_APPEND", "LIST_EXTEND", "SET_ADD", "SET_UPDATE", "MAP_ADD", "DICT_UPDATE", "DICT_MERGE"),
)
_ENCODERS: dict[str, Encoder] = {
    **{op: _plain(op) for op in _PLAIN},
    **{op: _counted(op) for op in _COUNTED},
    **{op: _fast(op) for op in ("LOAD_FAST", "STORE_FAST", "DELETE_FAST")},
    **{op: _named(op) for op in ("STORE_ATTR", "DELETE_ATTR")},
    "LOAD_CONST": Assembler._load_const,
    "LOAD_ATTR": Assembler._load_attr,
    "CALL": Assembler._call,
    "COMPARE_OP": Assembler._compare,
    "UNARY_OP": Assembler._unary,
    "BINARY_OP": Assembler._binary,
    "LIST_TO_TUPLE": Assembler._list_to_tuple,
}


@cache
def _opcode(name: str) -> tuple[int, bool, int]:
    """Its number, whether it takes an argument, and how many inline caches follow it."""
    number = dis.opmap[name]
    return number, number >= dis.HAVE_ARGUMENT, ConcreteInstr(name, *(() if number < dis.HAVE_ARGUMENT else (0,))).use_cache_opcodes()
