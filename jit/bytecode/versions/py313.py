"""CPython 3.13: its opcodes as canonical operations, and its form of the words that framejit writes."""

from __future__ import annotations

from framejit.bytecode.versions import py312
from framejit.bytecode.versions.py312 import INTRINSICS_2, intrinsic
from framejit.bytecode.versions.rows import (
    SHARED,
    Part,
    Raw,
    Row,
    View,
    compare,
    constant_before,
    forward,
    plain,
    sequence,
)
from framejit.bytecode.versions.version import Version
from framejit.bytecode.versions.words import Written, one

PREFIXES = frozenset({"EXTENDED_ARG", "TO_BOOL", "LOAD_CONST", "MAKE_FUNCTION", "SET_FUNCTION_ATTRIBUTE"})
"""Instructions that belong to the one after them, where they emit nothing themselves."""

TAKE_BOOL = frozenset({"POP_JUMP_IF_FALSE", "POP_JUMP_IF_TRUE", "UNARY_NOT"})
ATTRIBUTES = (8, 4, 16, 2, 1)
"""Arguments of SET_FUNCTION_ATTRIBUTE in the order in which the compiler writes them: the closure, annotations, what computes them, defaults."""


def following(view: View, place: int) -> Raw | None:
    """The instruction after the one at `place`."""
    return next((raw for raw in view.raws[place + 1 :] if raw.name != "EXTENDED_ARG"), None)


def to_bool(raw: Raw, view: View) -> tuple[Part, ...]:
    """TO_BOOL, which belongs to the canonical branch or negation after it. In the prologue of a resume function, a jump leads there."""
    user = following(view, view.place)
    if user is not None and user.name == "JUMP_FORWARD":
        target = user.after + 2 * user.arg
        place = next(place for place, each in enumerate(view.raws) if each.offset == target)
        user = view.raws[place] if view.raws[place].name != "EXTENDED_ARG" else following(view, place)
    return () if user is not None and user.name in TAKE_BOOL else (Part("TO_BOOL"),)


def load_const(raw: Raw, view: View) -> tuple[Part, ...]:
    """LOAD_CONST. The names of keywords are part of the canonical call after it."""
    user = following(view, view.place)
    if user is not None and user.name == "CALL_KW":
        return ()
    return (Part("LOAD_CONST", raw.arg, view.code.co_consts[raw.arg]),)


def _call_kw(raw: Raw, view: View) -> tuple[Part, ...]:
    before = next(each for each in view.raws[view.place - 1 :: -1] if each.name != "EXTENDED_ARG")
    assert before.name == "LOAD_CONST", "the names of keywords come right before the call"
    return (Part("CALL", raw.arg, (raw.arg, view.code.co_consts[before.arg])),)


def load_fast(raw: Raw, view: View) -> tuple[Part, ...]:
    """LOAD_FAST, which also loads cells for closures."""
    return (load_slot(view, raw.arg),)


def load_slot(view: View, slot: int) -> Part:
    name = view.slots[slot]
    is_cell = name in view.code.co_cellvars or name in view.code.co_freevars
    return Part("LOAD_CLOSURE" if is_cell else "LOAD_FAST", slot, name)


def store_slot(view: View, slot: int) -> Part:
    (part,) = SHARED["STORE_FAST"].expand(Raw("STORE_FAST", slot, 0, 0), view)
    return part


def load_two(raw: Raw, view: View) -> tuple[Part, ...]:
    """Two LOAD_FAST in one, the first slot in the upper four bits."""
    return load_slot(view, raw.arg >> 4), load_slot(view, raw.arg & 15)


def _store_and_load(raw: Raw, view: View) -> tuple[Part, ...]:
    return store_slot(view, raw.arg >> 4), load_slot(view, raw.arg & 15)


def _store_two(raw: Raw, view: View) -> tuple[Part, ...]:
    return store_slot(view, raw.arg >> 4), store_slot(view, raw.arg & 15)


def _load_global(raw: Raw, view: View) -> tuple[Part, ...]:
    return (Part("LOAD_GLOBAL", raw.arg & 1, view.code.co_names[raw.arg >> 1]),)


def _load_attr(raw: Raw, view: View) -> tuple[Part, ...]:
    name = view.code.co_names[raw.arg >> 1]
    return (Part("LOAD_METHOD", 1, name) if raw.arg & 1 else Part("LOAD_ATTR", None, name),)


def _load_super_attr(raw: Raw, view: View) -> tuple[Part, ...]:
    # The method form pushes an unbound method and self; a bound method called with a NULL means the same.
    load = Part("LOAD_SUPER_ATTR", raw.arg & 2, view.code.co_names[raw.arg >> 2])
    return (load, Part("PUSH_NULL")) if raw.arg & 1 else (load,)


def make_function(raw: Raw, view: View) -> tuple[Part, ...]:
    """MAKE_FUNCTION and the SET_FUNCTION_ATTRIBUTEs after it, which are one canonical operation: its attributes lie below the code in their order."""
    last = following(view, view.place)
    if last is not None and last.name == "SET_FUNCTION_ATTRIBUTE":
        return ()
    flags = []
    for each in view.raws[view.place :: -1]:
        if each.name == "MAKE_FUNCTION":
            break
        if each.name == "SET_FUNCTION_ATTRIBUTE":
            flags.append(each.arg)
    assert flags == sorted(flags, key=ATTRIBUTES[::-1].index), f"the attributes of a function are set in an unknown order: {flags}"
    return (Part("MAKE_FUNCTION", sum(flags), constant_before(raw, view)),)


def load_callable(index: int) -> Written:
    """A constant that is called: its arguments follow, then `call` or `call_with_tuple`."""
    return ("LOAD_CONST", index), ("PUSH_NULL", 0)


GONE = ("FORMAT_VALUE", "KW_NAMES", "LOAD_CLOSURE")

TABLE: dict[str, Row] = {name: row for name, row in py312.TABLE.items() if name not in GONE} | {
    "LOAD_CONST": Row(("LOAD_CONST",), load_const),
    "LOAD_FAST": Row(("LOAD_FAST", "LOAD_CLOSURE"), load_fast),
    "LOAD_FAST_LOAD_FAST": Row(("LOAD_FAST", "LOAD_CLOSURE"), load_two),
    "STORE_FAST_LOAD_FAST": Row(("STORE_FAST", "STORE_CELL", "LOAD_FAST", "LOAD_CLOSURE"), _store_and_load),
    "STORE_FAST_STORE_FAST": Row(("STORE_FAST", "STORE_CELL"), _store_two),
    "LOAD_GLOBAL": Row(("LOAD_GLOBAL",), _load_global),
    "LOAD_ATTR": Row(("LOAD_METHOD", "LOAD_ATTR"), _load_attr),
    "LOAD_SUPER_ATTR": Row(("LOAD_SUPER_ATTR", "PUSH_NULL"), _load_super_attr),
    "TO_BOOL": Row(("TO_BOOL",), to_bool),
    "COMPARE_OP": compare(5, to_bool=16),
    "CALL_KW": Row(("CALL",), _call_kw),
    "MAKE_FUNCTION": Row(("MAKE_FUNCTION",), make_function),
    "SET_FUNCTION_ATTRIBUTE": Row(("MAKE_FUNCTION",), make_function),
    "CONVERT_VALUE": Row(("CONVERT_VALUE",), lambda raw, view: (Part("CONVERT_VALUE", raw.arg, raw.arg),)),
    "FORMAT_SIMPLE": sequence(Part("FORMAT_VALUE", 0, 0)),
    "FORMAT_WITH_SPEC": sequence(Part("FORMAT_VALUE", 4, 4)),
    "CALL_INTRINSIC_2": intrinsic(INTRINSICS_2 | {5: Part("SET_TYPEPARAM_DEFAULT")}),
    # An exhausted FOR_ITER pops its iterator itself, and continues after the END_FOR and POP_TOP at its target.
    "FOR_ITER": forward("FOR_ITER", skip=4),
    "END_FOR": plain("POP_TOP"),
}

WORDS = py312.WORDS | {
    "load_callable": load_callable,
    "jump_if_true": lambda distance: (("TO_BOOL", 0), ("POP_JUMP_IF_TRUE", distance)),
    "jump_if_false": lambda distance: (("TO_BOOL", 0), ("POP_JUMP_IF_FALSE", distance)),
    "to_bool": one("TO_BOOL"),
    # Python/ceval.c, exit_unwind: the handler of what a Python function raises is looked up one code unit before the instruction that has called it.
    "enter_covered": one("NOP"),
    # Skipped, but not if FOR_ITER has specialised for generators.
    "end_for": lambda _: (("END_FOR", 0), ("POP_TOP", 0)),
}

CACHES = py312.CACHES | {
    "CONTAINS_OP": 1,
    "JUMP_BACKWARD": 1,
    "POP_JUMP_IF_FALSE": 1,
    "POP_JUMP_IF_NONE": 1,
    "POP_JUMP_IF_NOT_NONE": 1,
    "POP_JUMP_IF_TRUE": 1,
    "TO_BOOL": 3,
}

VERSION = Version((3, 13), TABLE, WORDS, PREFIXES, CACHES)
