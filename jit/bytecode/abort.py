"""Resume functions that raise at once: if the rest of a call can't be compiled, an exception leaves the call, through the call's own handlers.

The code after a split is entered by resume functions only, so an error of the compiler there (Unsupported, an interrupt) would skip the
`with` and `finally` blocks that the call is in. Here the resume function's prologue ends by raising the error instead, covered by the
handler of the place where it would have continued; if it resumes an inner frame, the inner one raises.
"""

from __future__ import annotations

from types import CodeType, FunctionType

from framejit.bytecode.decode import exception_table
from framejit.bytecode.encode import encode, encode_handlers, encode_lines
from framejit.bytecode.instruction import Position
from framejit.bytecode.splice import SplicedFrom, function_of, spliced


def raising(function: FunctionType, error: BaseException) -> FunctionType | None:
    """The resume function, changed so that it raises `error` where it would continue. None for other functions."""
    code = function.__code__
    found = spliced(code)
    if found is None:
        return None
    for index, value in enumerate(code.co_consts):
        if isinstance(value, FunctionType) and spliced(value.__code__) is not None:
            inner = raising(value, error)
            consts = (*code.co_consts[:index], inner, *code.co_consts[index + 1 :])
            return function_of(code.replace(co_consts=consts), function.__globals__)
    return function_of(raising_code(code, found, error), function.__globals__)


def has_handler(function: FunctionType) -> bool:
    """Return whether the place where a resume function continues, or one of those that it calls for inner frames, is covered by a handler."""
    code = function.__code__
    found = spliced(code)
    if found is None:
        return False
    if any(isinstance(value, FunctionType) and has_handler(value) for value in code.co_consts):
        return True
    return any(first <= found.place < end for first, end, *_ in exception_table(code.co_exceptiontable))


def raising_code(code: CodeType, found: SplicedFrom, error: BaseException) -> CodeType:
    """A resume function's code whose prologue jumps to a raise, put after everything else. Its line is that of the place where the function would continue."""
    made = bytearray(code.co_code)
    jump = encode("jump", (len(made) - found.shift) // 2)
    room = found.shift - found.leaves
    nops = encode("nop") * ((room - len(jump)) // 2)
    assert len(nops) + len(jump) == room, "the jump doesn't fit in the place of the one that was there"
    made[found.leaves : found.shift] = nops + jump
    tail = encode("load_const", len(code.co_consts)) + encode("raise")
    positions = [Position(*each) for each in code.co_positions()]
    last_line = next((each.lineno for each in reversed(positions) if each.lineno is not None), code.co_firstlineno)
    handlers = list(exception_table(code.co_exceptiontable))
    covering = next(((target, depth, lasti) for first, end, target, depth, lasti in handlers if first <= found.place < end), None)
    if covering is not None:
        handlers.append((len(made), len(made) + len(tail), *covering))
    return code.replace(
        co_code=bytes(made) + tail,
        co_consts=(*code.co_consts, error),
        co_exceptiontable=encode_handlers(handlers),
        co_linetable=code.co_linetable + encode_lines([(len(tail) // 2, positions[found.place // 2])], last_line),
        co_stacksize=code.co_stacksize + 1,
    )


def returning(code: CodeType, value: object) -> CodeType:
    """The code of an entry, for a frame of a resume function, that only returns a value. Entries have two locals of their own."""
    made = encode("load_const", 0) + encode("return")
    positions = [(len(made) // 2, None)]  # under a tracer, CPython would write past the end of a table for more code than there is
    return code.replace(
        co_code=made,
        co_consts=(value,),
        co_linetable=encode_lines(positions, code.co_firstlineno),
        co_exceptiontable=b"",
        co_stacksize=1,
        co_varnames=(".state", ".inputs", ".captures"),
        co_nlocals=3,
        co_cellvars=(),
        co_freevars=(),
    )
