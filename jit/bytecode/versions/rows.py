"""The vocabulary of the version files: rows that map a Python version's instructions to canonical ones, and the rows that all versions share.

A version file is one table: opcode name -> Row. A row says which canonical operations it can emit (so that tests can check every one of
them against the interpreter) and how to expand one raw instruction into them.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, NamedTuple

from framejit.quick_dataclass import dataclass


class Raw(NamedTuple):
    """An instruction as it is in `co_code`, its EXTENDED_ARGs folded in."""

    name: str
    arg: int
    offset: int
    after: int  # offset after the instruction and its inline caches: what relative jumps count from


class Target(NamedTuple):
    """A jump target still given as an offset in `co_code`; the decoder turns it into an index."""

    offset: int


class Part(NamedTuple):
    """A canonical instruction that has no index yet."""

    op: str
    arg: int | None = None
    value: Any = None


@dataclass(slots=True, eq=False)
class View:
    """The facts about the code object being decoded that rows may use. One view is used for all of its instructions, one after another."""

    code: CodeType
    slots: tuple[str, ...]  # names of the fast locals, cells and free variables, in slot order
    raws: Sequence[Raw]  # all instructions
    previous: Part | None = None  # the canonical instruction emitted last
    place: int = 0  # the index of the instruction


Expansion = Callable[[Raw, View], tuple[Part, ...]]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a Python version's table: the canonical operations that one opcode emits, and the function that makes them."""

    emits: tuple[str, ...]
    expand: Expansion


PREFIXES = frozenset({"EXTENDED_ARG", "KW_NAMES", "PRECALL"})
"""Instructions that belong to the one after them, where they emit nothing themselves. (3.12 has no PRECALL.)"""


# Expansions.


def _emit(op: str, resolve: Callable[[Raw, View], Any] | None = None) -> Row:
    if resolve is None:
        return Row((op,), lambda raw, view: (Part(op, raw.arg, raw.arg),))
    return Row((op,), lambda raw, view: (Part(op, raw.arg, resolve(raw, view)),))


def plain(op: str) -> Row:
    """A row without an argument."""
    parts = (Part(op),)
    return Row((op,), lambda raw, view: parts)


def counted(op: str) -> Row:
    """A row whose argument is a count, a depth or flags."""
    return _emit(op)


def named(op: str, shift: int = 0) -> Row:
    """A row whose argument is an index into `co_names`, shifted left by flags."""
    return _emit(op, lambda raw, view: view.code.co_names[raw.arg >> shift])


def slot(op: str) -> Row:
    """A row whose argument is a slot: a fast local, a cell or a free variable."""
    return _emit(op, lambda raw, view: view.slots[raw.arg])


def forward(op: str, skip: int = 0) -> Row:
    """A jump forward; `skip` bytes past its nominal target."""
    return Row((op,), lambda raw, view: (Part(op, None, Target(raw.after + 2 * raw.arg + skip)),))


def backward(op: str) -> Row:
    """A jump backward."""
    return Row((op,), lambda raw, view: (Part(op, None, Target(raw.after - 2 * raw.arg)),))


def sequence(*parts: Part) -> Row:
    """A row of fixed canonical instructions."""
    return Row(tuple(part.op for part in parts), lambda raw, view: parts)


DROPPED = Row((), lambda raw, view: ())


def constant_before(raw: Raw, view: View) -> Any:
    """The constant loaded by the preceding instruction: the compiler always puts it there."""
    assert view.previous is not None and view.previous.op == "LOAD_CONST", raw
    return view.previous.value


def call(raw: Raw, view: View) -> tuple[Part, ...]:
    """CALL with the keyword names of the KW_NAMES before it."""
    return (Part("CALL", raw.arg, (raw.arg, _keyword_names(view))),)


def _keyword_names(view: View) -> tuple[str, ...]:
    place = view.place - 1
    while place >= 0 and view.raws[place].name in PREFIXES:
        if view.raws[place].name == "KW_NAMES":
            names: tuple[str, ...] = view.code.co_consts[view.raws[place].arg]
            return names
        place -= 1
    return ()


def load_global(raw: Raw, view: View) -> tuple[Part, ...]:
    """LOAD_GLOBAL, whose lowest bit asks for a NULL below the value."""
    load = Part("LOAD_GLOBAL", None, view.code.co_names[raw.arg >> 1])
    return (Part("PUSH_NULL"), load) if raw.arg & 1 else (load,)


def yield_value(raw: Raw, view: View) -> tuple[Part, ...]:
    """YIELD_VALUE. Its value says whether it delegates, according to the RESUME after it (2: yield from, 3: await)."""
    following = view.raws[view.place + 1 : view.place + 2]
    return (Part("YIELD_VALUE", None, any(raw.name == "RESUME" and raw.arg & 3 >= 2 for raw in following)),)


def _store_fast(raw: Raw, view: View) -> tuple[Part, ...]:
    """STORE_FAST. Resume functions store the cells themselves to the slots of cell and free variables, where compiled code makes them."""
    name = view.slots[raw.arg]
    is_cell = name in view.code.co_cellvars or name in view.code.co_freevars
    return (Part("STORE_CELL" if is_cell else "STORE_FAST", raw.arg, name),)


SHARED: dict[str, Row] = {
    "CACHE": DROPPED,
    "NOP": DROPPED,
    "EXTENDED_ARG": DROPPED,
    "RESUME": DROPPED,
    "KW_NAMES": DROPPED,
    # stack
    "POP_TOP": plain("POP_TOP"),
    "PUSH_NULL": plain("PUSH_NULL"),
    "COPY": counted("COPY"),
    "SWAP": counted("SWAP"),
    "LOAD_CONST": _emit("LOAD_CONST", lambda raw, view: view.code.co_consts[raw.arg]),
    # names
    "LOAD_FAST": slot("LOAD_FAST"),
    "STORE_FAST": Row(("STORE_FAST", "STORE_CELL"), _store_fast),
    "DELETE_FAST": slot("DELETE_FAST"),
    "LOAD_GLOBAL": Row(("PUSH_NULL", "LOAD_GLOBAL"), load_global),
    "STORE_GLOBAL": named("STORE_GLOBAL"),
    "DELETE_GLOBAL": named("DELETE_GLOBAL"),
    "LOAD_NAME": named("LOAD_NAME"),
    "STORE_NAME": named("STORE_NAME"),
    "DELETE_NAME": named("DELETE_NAME"),
    "MAKE_CELL": slot("MAKE_CELL"),
    "COPY_FREE_VARS": counted("COPY_FREE_VARS"),
    "LOAD_CLOSURE": slot("LOAD_CLOSURE"),
    "LOAD_DEREF": slot("LOAD_DEREF"),
    "STORE_DEREF": slot("STORE_DEREF"),
    "DELETE_DEREF": slot("DELETE_DEREF"),
    "LOAD_BUILD_CLASS": plain("LOAD_BUILD_CLASS"),
    "LOAD_ASSERTION_ERROR": plain("LOAD_ASSERTION_ERROR"),
    "SETUP_ANNOTATIONS": plain("SETUP_ANNOTATIONS"),
    # operators
    "UNARY_NEGATIVE": sequence(Part("UNARY_OP", None, "-")),
    "UNARY_INVERT": sequence(Part("UNARY_OP", None, "~")),
    "UNARY_NOT": plain("UNARY_NOT"),
    "BINARY_OP": _emit("BINARY_OP", lambda raw, view: BINARY_SYMBOLS[raw.arg]),
    "IS_OP": counted("IS_OP"),
    "CONTAINS_OP": counted("CONTAINS_OP"),
    "BINARY_SUBSCR": plain("BINARY_SUBSCR"),
    "STORE_SUBSCR": plain("STORE_SUBSCR"),
    "DELETE_SUBSCR": plain("DELETE_SUBSCR"),
    # attributes and imports
    "STORE_ATTR": named("STORE_ATTR"),
    "DELETE_ATTR": named("DELETE_ATTR"),
    "IMPORT_NAME": named("IMPORT_NAME"),
    "IMPORT_FROM": named("IMPORT_FROM"),
    # building
    "BUILD_TUPLE": counted("BUILD_TUPLE"),
    "BUILD_LIST": counted("BUILD_LIST"),
    "BUILD_SET": counted("BUILD_SET"),
    "BUILD_MAP": counted("BUILD_MAP"),
    "BUILD_CONST_KEY_MAP": _emit("BUILD_CONST_KEY_MAP", constant_before),
    "BUILD_STRING": counted("BUILD_STRING"),
    "BUILD_SLICE": counted("BUILD_SLICE"),
    "FORMAT_VALUE": counted("FORMAT_VALUE"),
    "LIST_APPEND": counted("LIST_APPEND"),
    "LIST_EXTEND": counted("LIST_EXTEND"),
    "SET_ADD": counted("SET_ADD"),
    "SET_UPDATE": counted("SET_UPDATE"),
    "MAP_ADD": counted("MAP_ADD"),
    "DICT_UPDATE": counted("DICT_UPDATE"),
    "DICT_MERGE": counted("DICT_MERGE"),
    "UNPACK_SEQUENCE": counted("UNPACK_SEQUENCE"),
    "UNPACK_EX": counted("UNPACK_EX"),
    # calls
    "CALL": Row(("CALL",), call),
    "CALL_FUNCTION_EX": counted("CALL_FUNCTION_EX"),
    "MAKE_FUNCTION": _emit("MAKE_FUNCTION", constant_before),
    # control
    "RETURN_VALUE": plain("RETURN_VALUE"),
    "JUMP_FORWARD": forward("JUMP"),
    "JUMP_BACKWARD": backward("JUMP"),
    "JUMP_BACKWARD_NO_INTERRUPT": backward("JUMP"),
    # iteration and generators
    "GET_ITER": plain("GET_ITER"),
    "GET_YIELD_FROM_ITER": plain("GET_YIELD_FROM_ITER"),
    "RETURN_GENERATOR": plain("RETURN_GENERATOR"),
    "YIELD_VALUE": Row(("YIELD_VALUE",), yield_value),
    # exceptions
    "RAISE_VARARGS": counted("RAISE_VARARGS"),
    "RERAISE": counted("RERAISE"),
    "PUSH_EXC_INFO": plain("PUSH_EXC_INFO"),
    "POP_EXCEPT": plain("POP_EXCEPT"),
    "CHECK_EXC_MATCH": plain("CHECK_EXC_MATCH"),
    "BEFORE_WITH": plain("BEFORE_WITH"),
    "WITH_EXCEPT_START": sequence(Part("WITH_EXCEPT_START", 1)),
    # refused by name
    "CHECK_EG_MATCH": plain("CHECK_EG_MATCH"),
    "GET_AITER": plain("GET_AITER"),
    "GET_ANEXT": plain("GET_ANEXT"),
    "GET_AWAITABLE": counted("GET_AWAITABLE"),
    "BEFORE_ASYNC_WITH": plain("BEFORE_ASYNC_WITH"),
    "END_ASYNC_FOR": plain("END_ASYNC_FOR"),
    "GET_LEN": plain("GET_LEN"),
    "MATCH_MAPPING": plain("MATCH_MAPPING"),
    "MATCH_SEQUENCE": plain("MATCH_SEQUENCE"),
    "MATCH_KEYS": plain("MATCH_KEYS"),
    "MATCH_CLASS": counted("MATCH_CLASS"),
}

# Include/opcode.h: the NB_* numbers are append-only, and `dis` has no public name for them.
BINARY_SYMBOLS: tuple[str, ...] = (
    *("+", "&", "//", "<<", "@", "*", "%", "|", "**", ">>", "-", "/", "^"),
    *("+=", "&=", "//=", "<<=", "@=", "*=", "%=", "|=", "**=", ">>=", "-=", "/=", "^="),
)


def compare(shift: int, to_bool: int = 0) -> Row:
    """COMPARE_OP, whose operator is numbered from bit `shift` on. If it has the bit `to_bool`, its result is a bool, and no other instruction makes it one."""
    return Row(("COMPARE_OP",), lambda raw, view: (Part("COMPARE_OP", int(bool(raw.arg & to_bool)), dis.cmp_op[raw.arg >> shift]),))
