"""Finds out whether code changes anything but its own variables, as far as its bytecode shows."""

from __future__ import annotations

from types import CodeType

from framejit.bytecode.decode import decode

OWN = frozenset({"STORE_FAST", "DELETE_FAST", "STORE_CELL"})
CHANGES = ("STORE_", "DELETE_", "IMPORT_", "YIELD_", "GET_YIELD", "MAKE_FUNCTION", "LOAD_BUILD_CLASS", "BEFORE_WITH", "LOAD_SPECIAL")
"""The prefixes of the names of operations that change something other than the code's own variables, or that begin code which might."""


def only_computes(code: CodeType) -> bool:
    """Return whether the instructions of code change nothing but its own variables. The functions that it calls may do so."""
    return not any(instruction.op.startswith(CHANGES) and instruction.op not in OWN for instruction in decode(code).instructions)


def global_names(code: CodeType) -> set[str]:
    """The names that code looks up among the globals and builtins."""
    return {instruction.value for instruction in decode(code).instructions if instruction.op == "LOAD_GLOBAL"}


def attribute_names(code: CodeType) -> set[str]:
    """The names of the attributes that code reads."""
    return {instruction.value for instruction in decode(code).instructions if instruction.op in ("LOAD_ATTR", "LOAD_METHOD")}
