"""CPython 3.12: its opcodes as canonical operations, and its form of the words that framejit writes."""

from __future__ import annotations

from framejit.bytecode.versions.rows import (
    PREFIXES,
    SHARED,
    Part,
    Raw,
    Row,
    View,
    compare,
    forward,
    named,
    plain,
    sequence,
    slot,
)
from framejit.bytecode.versions.version import Version
from framejit.bytecode.versions.words import SHARED_WORDS, one

# Python/intrinsics.c: the numbers of CALL_INTRINSIC_1 and CALL_INTRINSIC_2.
INTRINSICS_1: dict[int, Part] = {
    1: Part("PRINT_EXPR"),
    2: Part("IMPORT_STAR"),
    3: Part("STOPITERATION_ERROR"),
    4: Part("ASYNC_GEN_WRAP"),
    5: Part("UNARY_OP", None, "+"),
    6: Part("LIST_TO_TUPLE"),
    7: Part("TYPEVAR"),
    8: Part("PARAMSPEC"),
    9: Part("TYPEVARTUPLE"),
    10: Part("SUBSCRIPT_GENERIC"),
    11: Part("TYPEALIAS"),
}
INTRINSICS_2: dict[int, Part] = {
    1: Part("PREP_RERAISE_STAR"),
    2: Part("TYPEVAR_WITH_BOUND"),
    3: Part("TYPEVAR_WITH_CONSTRAINTS"),
    4: Part("SET_FUNCTION_TYPE_PARAMS"),
}


def intrinsic(numbers: dict[int, Part]) -> Row:
    return Row(tuple(part.op for part in numbers.values()), lambda raw, view: (numbers[raw.arg],))


def _load_attr(raw: Raw, view: View) -> tuple[Part, ...]:
    name = view.code.co_names[raw.arg >> 1]
    return (Part("LOAD_METHOD", 0, name) if raw.arg & 1 else Part("LOAD_ATTR", None, name),)


def _load_super_attr(raw: Raw, view: View) -> tuple[Part, ...]:
    # The method form pushes an unbound method and self; a bound method called on a NULL means the same.
    load = Part("LOAD_SUPER_ATTR", raw.arg & 2, view.code.co_names[raw.arg >> 2])
    return (load, Part("PUSH_NULL"), Part("SWAP", 2, 2)) if raw.arg & 1 else (load,)


def _return_const(raw: Raw, view: View) -> tuple[Part, ...]:
    return Part("LOAD_CONST", raw.arg, view.code.co_consts[raw.arg]), Part("RETURN_VALUE")


TABLE: dict[str, Row] = SHARED | {
    "RETURN_CONST": Row(("LOAD_CONST", "RETURN_VALUE"), _return_const),
    "LOAD_ATTR": Row(("LOAD_METHOD", "LOAD_ATTR"), _load_attr),
    "LOAD_SUPER_ATTR": Row(("LOAD_SUPER_ATTR", "PUSH_NULL", "SWAP"), _load_super_attr),
    "LOAD_FAST_CHECK": slot("LOAD_FAST"),
    "LOAD_FAST_AND_CLEAR": slot("LOAD_FAST_AND_CLEAR"),
    "LOAD_LOCALS": plain("LOAD_LOCALS"),
    "LOAD_FROM_DICT_OR_DEREF": slot("LOAD_FROM_DICT_OR_DEREF"),
    "LOAD_FROM_DICT_OR_GLOBALS": named("LOAD_FROM_DICT_OR_GLOBALS"),
    "COMPARE_OP": compare(4),
    "BINARY_SLICE": plain("BINARY_SLICE"),
    "STORE_SLICE": plain("STORE_SLICE"),
    "CALL_INTRINSIC_1": intrinsic(INTRINSICS_1),
    "CALL_INTRINSIC_2": intrinsic(INTRINSICS_2),
    "POP_JUMP_IF_FALSE": forward("POP_JUMP_IF_FALSE"),
    "POP_JUMP_IF_TRUE": forward("POP_JUMP_IF_TRUE"),
    "POP_JUMP_IF_NONE": forward("POP_JUMP_IF_NONE"),
    "POP_JUMP_IF_NOT_NONE": forward("POP_JUMP_IF_NOT_NONE"),
    # An exhausted FOR_ITER pops its iterator itself, and a finished SEND its receiver: both continue after the END_ at their target.
    "FOR_ITER": forward("FOR_ITER", skip=2),
    "END_FOR": sequence(Part("POP_TOP"), Part("POP_TOP")),
    "SEND": forward("SEND", skip=2),
    "END_SEND": plain("END_SEND"),
    "CLEANUP_THROW": plain("CLEANUP_THROW"),
}

WORDS = SHARED_WORDS | {
    "call": one("CALL"),
    "load_attr": lambda index: (("LOAD_ATTR", index << 1),),
    "list_to_tuple": lambda _: (("CALL_INTRINSIC_1", 6),),
    "jump_if_true": one("POP_JUMP_IF_TRUE"),
    "jump_if_false": one("POP_JUMP_IF_FALSE"),
    "to_bool": lambda _: (),
    "enter_covered": lambda _: (),
    # Skipped, but not if FOR_ITER has specialised for generators (Python/bytecodes.c: FOR_ITER_GEN).
    "end_for": one("END_FOR"),
}

CACHES = {
    "BINARY_OP": 1,
    "BINARY_SUBSCR": 1,
    "CALL": 3,
    "COMPARE_OP": 1,
    "FOR_ITER": 1,
    "LOAD_ATTR": 9,
    "LOAD_GLOBAL": 4,
    "LOAD_SUPER_ATTR": 1,
    "SEND": 1,
    "STORE_ATTR": 4,
    "STORE_SUBSCR": 1,
    "UNPACK_SEQUENCE": 1,
}

VERSION = Version((3, 12), TABLE, WORDS, PREFIXES, CACHES)
