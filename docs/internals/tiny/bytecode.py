"""Canonical operations out of CPython's bytecode, and code objects that resume a function in the middle.

Mirrors jit/bytecode/decode.py, jit/bytecode/versions/ and jit/bytecode/splice.py.
"""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any


class Break(Exception):
    """Tracing stops at the current instruction. The message says why. (jit/breaks/, one class for each reason)"""


@dataclass(frozen=True)
class Op:
    """A canonical operation. `arg`: what it is about (a name, a constant, the index of a jump's target). `offset`: where its instruction starts."""

    name: str
    arg: Any
    offset: int
    line: int


PREFIXES = {"EXTENDED_ARG", "KW_NAMES", "PRECALL"}
"""Instructions that belong to the one after them."""
SKIPPED = {"RESUME", "NOP", "END_FOR"} | PREFIXES
RENAMED = {"JUMP_FORWARD": "JUMP", "JUMP_BACKWARD": "JUMP", "LOAD_FAST_CHECK": "LOAD_FAST"}


def decode(code: CodeType) -> list[Op]:
    """The operations of a code object, the same for Python 3.11 and 3.12. Raises Break for functions that the interpreter doesn't know."""
    if code.co_exceptiontable or code.co_cellvars or code.co_freevars or code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE):
        raise Break(f"{code.co_qualname} has handlers, a closure, or yields")
    ops: list[Op] = []
    index_at: dict[int, int] = {}  # offset -> index of the first operation there or after it
    line, start, keywords = code.co_firstlineno, 0, ()
    for instruction in dis.get_instructions(code):
        index_at[instruction.offset] = len(ops)
        line = instruction.positions and instruction.positions.lineno or line
        ops += [Op(name, arg, start, line) for name, arg in expand(instruction, keywords)]
        if instruction.opname == "KW_NAMES":
            keywords = code.co_consts[instruction.arg or 0]
        elif instruction.opname not in PREFIXES:
            keywords = ()
            start = end_of(code, instruction)
    return [replace(op, arg=index_at[op.arg]) if "JUMP" in op.name or op.name == "FOR_ITER" else op for op in ops]


def end_of(code: CodeType, instruction: dis.Instruction) -> int:
    """The offset after an instruction and its inline caches, which `co_code` shows as zeros."""
    offset = instruction.offset + 2
    while code.co_code[offset : offset + 1] == b"\0":
        offset += 2
    return offset


def expand(instruction: dis.Instruction, keywords: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Gives the operations that an instruction stands for. Only the last of them may break: a resume function starts at an instruction."""
    name, arg, value = instruction.opname, instruction.arg or 0, instruction.argval
    if name in SKIPPED:
        return
    if name == "LOAD_GLOBAL":  # with a NULL below it, if it is to be called
        if arg & 1:
            yield "PUSH_NULL", None
        yield "LOAD_GLOBAL", value
    elif name == "LOAD_METHOD" or name == "LOAD_ATTR" and sys.version_info >= (3, 12) and arg & 1:
        yield "PUSH_NULL", None  # a bound method instead of CPython's pair of function and receiver
        yield "SWAP", 2
        yield "LOAD_ATTR", value
    elif name == "RETURN_CONST":
        yield "LOAD_CONST", value
        yield "RETURN_VALUE", None
    elif name == "BINARY_SLICE":  # new in 3.12
        yield "BUILD_SLICE", 2
        yield "BINARY_SUBSCR", None
    elif name == "BINARY_OP":
        yield "BINARY_OP", instruction.argrepr
    elif name == "CALL":
        yield "CALL", (arg, keywords)
    elif name.startswith("POP_JUMP_"):  # 3.11 has one for each direction
        yield name.replace("FORWARD_", "").replace("BACKWARD_", ""), value
    else:
        yield RENAMED.get(name, name), value


def emit(name: str, arg: int = 0) -> bytes:
    """One instruction, without inline caches."""
    prefix = emit("EXTENDED_ARG", arg >> 8) if arg > 255 else b""
    return prefix + bytes((dis.opmap[name], arg & 255))


def resume_code(code: CodeType, offset: int, unbound: Sequence[str], nulls: Sequence[bool]) -> CodeType:
    """The code of `code` from `offset` on, as a function of its local variables and of what lies on its stack.

    The original bytecode stays as it is. A prologue in front of it deletes the variables that are unbound, pushes the stack, with a NULL
    where `nulls` says so, and jumps: all jumps are relative, so nothing needs a new address.
    """
    prologue = emit("RESUME")
    for name in unbound:
        prologue += emit("DELETE_FAST", code.co_varnames.index(name))
    names = list(code.co_varnames)
    for null in nulls:
        if null:
            prologue += emit("PUSH_NULL")
        else:
            prologue += emit("LOAD_FAST", len(names))
            names.append(f"_stack{len(names) - len(code.co_varnames)}")
    prologue += emit("JUMP_FORWARD", offset // 2)
    units = len(prologue) // 2
    no_line = bytes(0xF8 | min(8, units - start) - 1 for start in range(0, units, 8))  # Objects/locations.md: entries of up to 8 units
    return code.replace(
        co_code=prologue + code.co_code,
        co_linetable=no_line + code.co_linetable,
        co_varnames=tuple(names),
        co_nlocals=len(names),
        co_argcount=len(names),
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS),
        co_stacksize=code.co_stacksize + len(nulls),
        co_name=f"{code.co_name}_from_{offset}",
    )
