"""Finds out which local variables may still be read: a backward data-flow analysis of canonical bytecode."""

from __future__ import annotations

from types import CodeType

from framejit.bytecode.decode import Decoded

READS = frozenset({"LOAD_FAST", "LOAD_FAST_AND_CLEAR", "LOAD_CLOSURE", "DELETE_FAST"})
CELL_READS = frozenset({"LOAD_DEREF", "STORE_DEREF", "DELETE_DEREF", "LOAD_FROM_DICT_OR_DEREF"})
"""Operations that need the variable's cell, even to store to it."""
WRITES = frozenset({"STORE_FAST", "STORE_CELL", "DELETE_FAST", "LOAD_FAST_AND_CLEAR"})
JUMPS = frozenset({
    "JUMP", "POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE", "FOR_ITER", "SEND",
})  # fmt: skip
ENDS = frozenset({"JUMP", "RETURN_VALUE", "RAISE_VARARGS", "RERAISE"})
"""Operations after which control doesn't reach the next instruction."""
LOOKS_AT_LOCALS = frozenset({"locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe", "breakpoint", "set_trace"})
"""Names of functions that see all variables of the function that calls them."""


def live_slots(code: CodeType, decoded: Decoded) -> list[frozenset[int]]:
    """For each instruction, the slots whose values may be read from there on. `super()` implicitly reads argument 0 and `__class__`;
    `locals()` and similar functions read everything."""
    if decoded.live is None:
        decoded.live = _find_live_slots(code, decoded)
    return decoded.live


def _find_live_slots(code: CodeType, decoded: Decoded) -> list[frozenset[int]]:
    always: frozenset[int] = frozenset()
    if "__class__" in code.co_freevars:
        always |= {0, decoded.slot_of["__class__"]}
    if not LOOKS_AT_LOCALS.isdisjoint(code.co_names):
        always |= frozenset(range(len(decoded.slots)))
    instructions = decoded.instructions
    live: list[frozenset[int]] = [always] * (len(instructions) + 1)
    changed = True
    while changed:
        changed = False
        for index in range(len(instructions) - 1, -1, -1):
            instruction = instructions[index]
            op, slot = instruction.op, instruction.arg
            after = always if op in ENDS else live[index + 1]
            if op in JUMPS:
                after |= live[instruction.value]
            if op in WRITES:
                after = frozenset(s for s in after if s != slot)
            if slot is not None and (op in READS or op in CELL_READS):
                after |= {slot}
            handler = decoded.handler_at[index]
            if handler is not None:
                after |= live[handler.target]
            after |= always
            if after != live[index]:
                live[index] = after
                changed = True
    return live
