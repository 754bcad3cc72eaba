"""Canonical operations out of CPython's bytecode, and code objects that resume a function in the middle.

Mirrors jit/bytecode/decode.py, jit/bytecode/versions/ and jit/bytecode/splice.py.
"""

import dis
import inspect
import sys
from collections import namedtuple
from pathlib import Path
from types import CodeType
from typing import Any


class Break(Exception):
    """Tracing stops at the current operation. The message says why. (jit/breaks/ has a class for each reason.)"""


Op = namedtuple("Op", "name arg offset where")
"""A canonical operation. `arg`: what it is about (a name, a constant, the index of a jump's target). `offset`: where its instruction is."""


def decode(code: CodeType) -> list[Op]:
    """The operations of a code object, the same for Python 3.11 and 3.12. Raises Break for functions that the interpreter doesn't know."""
    unknown = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
    if code.co_exceptiontable or code.co_cellvars or code.co_freevars or code.co_flags & unknown:
        raise Break(f"{code.co_qualname} has handlers or a closure, yields, or takes *args")
    ops: list[Op] = []
    index_at: dict[int, int] = {}  # offset -> index of the first operation there or after it
    start, keywords = -1, ()
    for instruction in dis.get_instructions(code):
        index_at[instruction.offset] = len(ops)
        start = instruction.offset if start < 0 else start
        if instruction.opname == "KW_NAMES":
            keywords = code.co_consts[instruction.arg or 0]
        elif instruction.opname not in ("EXTENDED_ARG", "PRECALL"):  # these, too, belong to the instruction after them
            where = f"{Path(code.co_filename).name}:{instruction.positions.lineno if instruction.positions else 0}"
            ops += [Op(name, arg, start, where) for name, arg in expand(instruction, keywords)]
            start, keywords = -1, ()
    return [op._replace(arg=index_at[op.arg]) if "JUMP" in op.name or op.name == "FOR_ITER" else op for op in ops]


def expand(instruction: dis.Instruction, keywords: tuple[str, ...]) -> list[tuple[str, Any]]:
    """The operations that an instruction stands for. Only the last may split a call: a resume function starts at an instruction."""
    name, arg, value = instruction.opname, instruction.arg or 0, instruction.argval
    table = {
        "RESUME": [], "NOP": [], "END_FOR": [],
        "LOAD_GLOBAL": [("PUSH_NULL", None)] * (arg & 1) + [(name, value)],
        "LOAD_ATTR": [("LOAD_METHOD" if sys.version_info >= (3, 12) and arg & 1 else name, value)],  # 3.11 has both
        "RETURN_CONST": [("LOAD_CONST", value), ("RETURN_VALUE", None)],
        "BINARY_SLICE": [("BUILD_SLICE", 2), ("BINARY_SUBSCR", None)],
        "BINARY_OP": [(name, instruction.argrepr)], "COMPARE_OP": [("BINARY_OP", value)],
        "CALL": [(name, (arg, keywords))],
    }  # fmt: skip
    for difference in ("_FORWARD", "_BACKWARD", "_CHECK"):  # as in POP_JUMP_FORWARD_IF_TRUE, one of two in 3.11
        name = name.replace(difference, "")
    return table.get(name, [(name, value)])


def emit(name: str, arg: int = 0) -> bytes:
    """One instruction, without inline caches."""
    return (emit("EXTENDED_ARG", arg >> 8) if arg > 255 else b"") + bytes((dis.opmap[name], arg & 255))


def resume_code(code: CodeType, offset: int, unbound: tuple[str, ...], nulls: tuple[bool, ...]) -> CodeType:
    """The code of `code` from `offset` on, as a function of its local variables and of what lies on its stack.

    The original bytecode stays as it is. A prologue in front of it deletes the variables that are unbound, pushes the stack, with a NULL
    where `nulls` says so, and jumps: all jumps are relative, so nothing needs a new address.
    """
    names = (*code.co_varnames, *(f"_stack{depth}" for depth in range(len(nulls))))
    prologue = emit("RESUME") + b"".join(emit("DELETE_FAST", names.index(name)) for name in unbound)
    for index, null in enumerate(nulls, len(code.co_varnames)):
        prologue += emit("PUSH_NULL") if null else emit("LOAD_FAST", index)
    prologue += emit("JUMP_FORWARD", offset // 2)
    no_lines = b"\xf8" * (len(prologue) // 2)  # Objects/locations.md: each entry is for one instruction that has no line
    return code.replace(
        co_code=prologue + code.co_code, co_linetable=no_lines + code.co_linetable, co_stacksize=code.co_stacksize + len(nulls),
        co_varnames=names, co_nlocals=len(names), co_argcount=len(names), co_posonlyargcount=0, co_kwonlyargcount=0,
        co_name=f"{code.co_name}_from_{offset}",
    )  # fmt: skip
