"""Canonical operations out of CPython's bytecode, and code objects that resume a function in the middle.

Mirrors jit/bytecode/decode.py, jit/bytecode/versions/ and jit/bytecode/splice.py.
"""

import dis
import importlib
import inspect
import re
import sys
from collections import namedtuple
from pathlib import Path
from types import CodeType
from typing import Any

NULL_ABOVE_FUNCTION = sys.version_info >= (3, 13)
"""The NULL of a call lies above the function; before, it lay below it."""
NULL_ABOVE_ITERATOR = sys.version_info >= (3, 15)
"""A loop has two slots on the stack: an iterator and a NULL, where CPython itself may have a list and an index into it."""
UNEVALUATED = {"annotation_format": importlib.import_module("annotationlib").Format.STRING} if sys.version_info >= (3, 14) else {}
"""Has a function's signature read without running its annotations."""


class Break(Exception):
    """Tracing stops at the current operation. The message says why. (jit/breaks/ has a class for each reason.)"""


Op = namedtuple("Op", "name arg offset where")
"""A canonical operation. `arg`: what it is about (a name, a constant, the index of a jump's target). `offset`: where its instruction is."""


def decode(code: CodeType) -> list[Op]:
    """The operations of a code object, nearly the same for all versions of Python. Raises Break for functions that the interpreter doesn't know."""
    unknown = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
    if code.co_exceptiontable or code.co_cellvars or code.co_freevars or code.co_flags & unknown:
        raise Break(f"{code.co_qualname} has handlers or a closure, yields, or takes *args")
    ops: list[Op] = []
    index_at: dict[int, int] = {}  # offset -> index of the first operation there or after it
    start, keywords, before = -1, (), ""
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        index_at[instruction.offset] = len(ops)
        start = instruction.offset if start < 0 else start
        if name == "CALL_KW":  # the names lie on the stack
            keywords, start = ops[-1].arg, ops.pop().offset
        if name == "KW_NAMES":
            keywords = code.co_consts[instruction.arg or 0]
        elif name not in ("EXTENDED_ARG", "PRECALL", "TO_BOOL"):  # these, too, belong to the instruction after them
            where = f"{Path(code.co_filename).name}:{instruction.positions.lineno if instruction.positions else 0}"
            ended = before == "END_FOR" and name == "POP_TOP" and NULL_ABOVE_FUNCTION  # the iterator is gone with the jump here
            ops += [Op(*op, start, where) for op in expand(instruction, keywords) if not ended]
            start, keywords = -1, ()
        before = name
    return [op._replace(arg=index_at[op.arg]) if "JUMP" in op.name or op.name.startswith("FOR_ITER") else op for op in ops]


def expand(instruction: dis.Instruction, keywords: tuple[str, ...]) -> list[tuple[str, Any]]:
    """The operations that an instruction stands for. Only the last may split a call: a resume function starts at an instruction."""
    name, arg, value = instruction.opname, instruction.arg or 0, instruction.argval
    table = {
        "RESUME": [], "NOP": [], "END_FOR": [], "POP_ITER": [], "NOT_TAKEN": [],
        "LOAD_GLOBAL": ([("PUSH_NULL", None)] * (arg & 1) + [(name, value)])[:: -1 if NULL_ABOVE_FUNCTION else 1],
        "LOAD_ATTR": [("LOAD_METHOD" if sys.version_info >= (3, 12) and arg & 1 else name, value)],  # 3.11 has both
        "RETURN_CONST": [("LOAD_CONST", value), ("RETURN_VALUE", None)],
        "BINARY_SLICE": [("BUILD_SLICE", 2), ("BINARY_SUBSCR", None)],
        "BINARY_OP": [("BINARY_SUBSCR" if instruction.argrepr == "[]" else name, instruction.argrepr)],
        "COMPARE_OP": [("COMPARE_TO_BOOL" if instruction.argrepr != value else "BINARY_OP", value)],
        "CALL": [(name, (arg, keywords))], "CALL_KW": [("CALL", (arg, keywords))],
        "LOAD_SMALL_INT": [("LOAD_CONST", value)],
        "LOAD_COMMON_CONSTANT": [("LOAD_CONST" if sys.version_info >= (3, 15) else name, value)],  # 3.14's dis doesn't know the constant
        "GET_ITER": [("GET_ITER_AND_NULL" if NULL_ABOVE_ITERATOR else name, value)],
        "FOR_ITER": [("FOR_ITER_AND_NULL" if NULL_ABOVE_ITERATOR else name, value)],
    }  # fmt: skip
    for difference in ("_FORWARD", "_BACKWARD", "_CHECK", "_BORROW"):  # as in POP_JUMP_FORWARD_IF_TRUE, one of two in 3.11
        name = name.replace(difference, "")
    if name.count("_FAST") == 2:  # as LOAD_FAST_LOAD_FAST
        return list(zip(re.findall("[A-Z]+_FAST", name), value))
    return table.get(name, [(name, value)])


def emit(name: str, arg: int = 0) -> bytes:
    """One instruction. Of those that resume functions begin with, one has an inline cache."""
    cache = b"\0\0" if name == "RESUME" and sys.version_info >= (3, 15) else b""
    return (emit("EXTENDED_ARG", arg >> 8) if arg > 255 else b"") + bytes((dis.opmap[name], arg & 255)) + cache


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
