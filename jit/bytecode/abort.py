"""Resume functions that raise at once: a call whose rest can't be compiled is left as an exception leaves it, through its own handlers.

The code behind a split is entered by resume functions only, so an error of the compiler there (Unsupported, an interrupt) would skip the
`with` and `finally` blocks that the call is in. Here the resume function's prologue ends in raising the error instead, covered by the
handler of the place where it would have gone on; with an inner frame to resume, the inner one raises.
"""

from __future__ import annotations

import dis
from collections.abc import Sequence
from types import CodeType, FunctionType

from framejit.bytecode.decode import exception_table
from framejit.bytecode.splice import EXTENDED_ARG, encode_handlers, encode_lines, function_of, origin

LOAD_CONST, RAISE, JUMP, RERAISE, RETURN = (
    dis.opmap[name] for name in ("LOAD_CONST", "RAISE_VARARGS", "JUMP_FORWARD", "RERAISE", "RETURN_VALUE")
)


def raising(function: FunctionType, error: BaseException) -> FunctionType | None:
    """The resume function with `error` raised where it would go on. None for what is no resume function."""
    code = function.__code__
    found = origin(code, 0)
    if found is None:
        return None
    for index, value in enumerate(code.co_consts):
        if isinstance(value, FunctionType) and origin(value.__code__, 0) is not None:
            inner = raising(value, error)
            consts = (*code.co_consts[:index], inner, *code.co_consts[index + 1 :])
            return function_of(code.replace(co_consts=consts), function.__globals__)
    return function_of(raising_code(code, found[0], error), function.__globals__)


def has_handler(function: FunctionType) -> bool:
    """Whether the place where a resume function goes on, or one of those that it calls for inner frames, is covered by a handler."""
    code = function.__code__
    found = origin(code, 0)
    if found is None:
        return False
    if any(isinstance(value, FunctionType) and has_handler(value) for value in code.co_consts):
        return True
    _, place = jump_of(code, found[0])
    return any(first <= place < end for first, end, *_ in exception_table(code.co_exceptiontable))


def jump_of(code: CodeType, original: CodeType) -> tuple[int, int]:
    """Where the jump begins in which the prologue of a resume function ends, and where it goes. (Or the RERAISE that it ends in, twice.)"""
    shift = len(code.co_code) - len(original.co_code)
    made = code.co_code
    start = shift - 4  # the prologue ends in JUMP_FORWARD, NOP
    while made[start - 2] == EXTENDED_ARG:
        start -= 2
    distance = int.from_bytes(made[start + 1 : shift - 2 : 2], "big")
    if made[start - 2] == RERAISE:
        return start - 2, start - 2
    return start, shift - 2 + distance * 2


def raising_code(code: CodeType, original: CodeType, error: BaseException) -> CodeType:
    """A resume function's code whose prologue jumps to a raise, put behind everything else."""
    shift = len(code.co_code) - len(original.co_code)
    made = bytearray(code.co_code)
    start, place = jump_of(code, original)
    units = (shift - start) // 2
    digits = ((len(made) - shift) // 2).to_bytes(units, "big")
    for unit, digit in enumerate(digits):
        made[start + 2 * unit] = EXTENDED_ARG if unit < units - 1 else JUMP
        made[start + 2 * unit + 1] = digit
    tail = argument(LOAD_CONST, len(code.co_consts)) + bytes((RAISE, 1))
    handlers = list(exception_table(code.co_exceptiontable))
    covering = next(((target, depth, lasti) for first, end, target, depth, lasti in handlers if first <= place < end), None)
    if covering is not None:
        handlers.append((len(made), len(made) + len(tail), *covering))
    return code.replace(
        co_code=bytes(made) + tail,
        co_consts=(*code.co_consts, error),
        co_exceptiontable=encode_handlers(handlers),
        co_linetable=code.co_linetable + encode_lines([(len(tail) // 2, None)], code.co_firstlineno),
        co_stacksize=code.co_stacksize + 1,
    )


def returning(code: CodeType, value: object) -> CodeType:
    """An entry's code, for a frame of a resume function's code, that only returns a value. Entries have two locals of their own."""
    return code.replace(
        co_code=bytes((LOAD_CONST, 0, RETURN, 0)),
        co_consts=(value,),
        co_linetable=encode_lines([(2, None)], code.co_firstlineno),  # one for more code than there is would be written past its end under a tracer
        co_exceptiontable=b"",
        co_stacksize=1,
        co_varnames=(".state", ".inputs", ".captures"),
        co_nlocals=3,
        co_cellvars=(),
        co_freevars=(),
    )


def argument(op: int, value: int) -> bytes:
    """An instruction with its argument, prefixes included."""
    digits: Sequence[int] = value.to_bytes((value.bit_length() + 7) // 8 or 1, "big")
    return b"".join(bytes((EXTENDED_ARG if i < len(digits) - 1 else op, digit)) for i, digit in enumerate(digits))
