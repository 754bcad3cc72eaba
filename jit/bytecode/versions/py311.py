"""CPython 3.11: its opcodes as canonical operations, and its form of the words that framejit writes."""

from __future__ import annotations

from framejit.bytecode.versions.rows import (
    DROPPED,
    PREFIXES,
    SHARED,
    Part,
    Raw,
    Row,
    Target,
    View,
    backward,
    compare,
    forward,
    named,
    plain,
    sequence,
)
from framejit.bytecode.versions.version import Version
from framejit.bytecode.versions.words import SHARED_WORDS, one


def _jump_or_pop(op: str) -> Row:
    """JUMP_IF_X_OR_POP in the form of later versions: jump on a copy, else pop."""

    def expand(raw: Raw, view: View) -> tuple[Part, ...]:
        return Part("COPY", 1, 1), Part(op, None, Target(raw.after + 2 * raw.arg)), Part("POP_TOP")

    return Row(("COPY", op, "POP_TOP"), expand)


def _load_classderef(raw: Raw, view: View) -> tuple[Part, ...]:
    return Part("LOAD_LOCALS"), Part("LOAD_FROM_DICT_OR_DEREF", raw.arg, view.slots[raw.arg])


TABLE: dict[str, Row] = SHARED | {
    "PRECALL": DROPPED,
    "LOAD_ATTR": named("LOAD_ATTR"),
    "LOAD_METHOD": Row(("LOAD_METHOD",), lambda raw, view: (Part("LOAD_METHOD", 0, view.code.co_names[raw.arg]),)),
    "LOAD_CLASSDEREF": Row(("LOAD_LOCALS", "LOAD_FROM_DICT_OR_DEREF"), _load_classderef),
    "UNARY_POSITIVE": sequence(Part("UNARY_OP", None, "+")),
    "COMPARE_OP": compare(0),
    "LIST_TO_TUPLE": plain("LIST_TO_TUPLE"),
    "JUMP_IF_FALSE_OR_POP": _jump_or_pop("POP_JUMP_IF_FALSE"),
    "JUMP_IF_TRUE_OR_POP": _jump_or_pop("POP_JUMP_IF_TRUE"),
    "POP_JUMP_FORWARD_IF_FALSE": forward("POP_JUMP_IF_FALSE"),
    "POP_JUMP_FORWARD_IF_TRUE": forward("POP_JUMP_IF_TRUE"),
    "POP_JUMP_FORWARD_IF_NONE": forward("POP_JUMP_IF_NONE"),
    "POP_JUMP_FORWARD_IF_NOT_NONE": forward("POP_JUMP_IF_NOT_NONE"),
    "POP_JUMP_BACKWARD_IF_FALSE": backward("POP_JUMP_IF_FALSE"),
    "POP_JUMP_BACKWARD_IF_TRUE": backward("POP_JUMP_IF_TRUE"),
    "POP_JUMP_BACKWARD_IF_NONE": backward("POP_JUMP_IF_NONE"),
    "POP_JUMP_BACKWARD_IF_NOT_NONE": backward("POP_JUMP_IF_NOT_NONE"),
    "FOR_ITER": forward("FOR_ITER"),
    "SEND": forward("SEND"),
    # refused by name
    "PRINT_EXPR": sequence(Part("PRINT_EXPR"), Part("POP_TOP")),
    "IMPORT_STAR": sequence(Part("IMPORT_STAR"), Part("POP_TOP")),
    "ASYNC_GEN_WRAP": plain("ASYNC_GEN_WRAP"),
    "PREP_RERAISE_STAR": plain("PREP_RERAISE_STAR"),
}

WORDS = SHARED_WORDS | {
    "call": lambda nargs: (("PRECALL", nargs), ("CALL", nargs)),
    "load_attr": one("LOAD_ATTR"),
    "list_to_tuple": one("LIST_TO_TUPLE"),
    "jump_if_true": one("POP_JUMP_FORWARD_IF_TRUE"),
    "jump_if_false": one("POP_JUMP_FORWARD_IF_FALSE"),
    "to_bool": lambda _: (),
    "enter_covered": lambda _: (),
    "end_for": lambda _: (),
}

CACHES = {
    "BINARY_OP": 1,
    "BINARY_SUBSCR": 4,
    "CALL": 4,
    "COMPARE_OP": 2,
    "LOAD_ATTR": 4,
    "LOAD_GLOBAL": 5,
    "LOAD_METHOD": 10,
    "PRECALL": 1,
    "STORE_ATTR": 4,
    "STORE_SUBSCR": 1,
    "UNPACK_SEQUENCE": 1,
}

VERSION = Version((3, 11), TABLE, WORDS, PREFIXES, CACHES)
