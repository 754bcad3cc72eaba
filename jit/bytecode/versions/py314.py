"""CPython 3.14: its opcodes as canonical operations, and its form of the words that framejit writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from framejit.bytecode.versions import py313
from framejit.bytecode.versions.py313 import load_fast, load_two
from framejit.bytecode.versions.rows import BINARY_SYMBOLS, DROPPED, Part, Raw, Row, View, plain, sequence
from framejit.bytecode.versions.version import Version

SUBSCRIPT = len(BINARY_SYMBOLS)
"""The argument of BINARY_OP that means an item."""

# Lib/opcode.py: _common_constants and _special_method_names.
COMMON_CONSTANTS: tuple[Any, ...] = (AssertionError, NotImplementedError, tuple, all, any)
SPECIAL_METHODS = ("__enter__", "__exit__", "__aenter__", "__aexit__")


def common_constant(constants: Sequence[Any]) -> Row:
    """LOAD_COMMON_CONSTANT, whose argument is an index into these constants."""
    return Row(("LOAD_CONST",), lambda raw, view: (Part("LOAD_CONST", None, constants[raw.arg]),))


def _binary_op(raw: Raw, view: View) -> tuple[Part, ...]:
    return (Part("BINARY_SUBSCR") if raw.arg == SUBSCRIPT else Part("BINARY_OP", raw.arg, BINARY_SYMBOLS[raw.arg]),)


GONE = ("BEFORE_ASYNC_WITH", "BEFORE_WITH", "BINARY_SUBSCR", "BUILD_CONST_KEY_MAP", "LOAD_ASSERTION_ERROR", "RETURN_CONST")

TABLE: dict[str, Row] = {name: row for name, row in py313.TABLE.items() if name not in GONE} | {
    "NOT_TAKEN": DROPPED,
    "LOAD_FAST_BORROW": Row(("LOAD_FAST", "LOAD_CLOSURE"), load_fast),
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": Row(("LOAD_FAST", "LOAD_CLOSURE"), load_two),
    "LOAD_SMALL_INT": Row(("LOAD_CONST",), lambda raw, view: (Part("LOAD_CONST", None, raw.arg),)),
    "LOAD_COMMON_CONSTANT": common_constant(COMMON_CONSTANTS),
    "LOAD_SPECIAL": Row(("LOAD_SPECIAL",), lambda raw, view: (Part("LOAD_SPECIAL", None, SPECIAL_METHODS[raw.arg]),)),
    "WITH_EXCEPT_START": sequence(Part("WITH_EXCEPT_START", 2)),
    "BINARY_OP": Row(("BINARY_SUBSCR", "BINARY_OP"), _binary_op),
    "POP_ITER": plain("POP_TOP"),
    # A dict of keywords or NULL is always there.
    "CALL_FUNCTION_EX": sequence(Part("CALL_FUNCTION_EX", 1, 1)),
    "BUILD_INTERPOLATION": Row(("BUILD_INTERPOLATION",), lambda raw, view: (Part("BUILD_INTERPOLATION", raw.arg & 1, raw.arg),)),
    "BUILD_TEMPLATE": plain("BUILD_TEMPLATE"),
}

WORDS = py313.WORDS | {
    "subscript": lambda _: (("BINARY_OP", SUBSCRIPT),),
    "call_with_tuple": lambda _: (("PUSH_NULL", 0), ("CALL_FUNCTION_EX", 0)),
    # An exhausted FOR_ITER jumps over the END_FOR.
    "end_for": lambda _: (("END_FOR", 0), ("POP_ITER", 0)),
}

CACHES = {name: count for name, count in py313.CACHES.items() if name not in GONE} | {"BINARY_OP": 5, "CALL_KW": 3}

VERSION = Version((3, 14), TABLE, WORDS, py313.PREFIXES, CACHES)
