"""Functions of the program that only compute a number from numbers, or store constants, so that it makes no difference when they run."""

from __future__ import annotations

import argparse
import functools
import inspect
import math
from types import BuiltinFunctionType, CodeType, FunctionType, SimpleNamespace
from typing import Any

from framejit.bytecode.decode import decode
from framejit.bytecode.instruction import Instruction
from framejit.bytecode.stores import attribute_names, global_names, only_computes
from framejit.guards.source import MISSING
from framejit.objects.types.constobject import SCALARS

NUMERIC: frozenset[Any] = frozenset({abs, bool, divmod, float, int, len, max, min, pow, range, round, sum})
"""Builtins that change nothing if they are called with numbers and containers of numbers."""
CONTAINERS = (list, tuple, dict)
RECORDS = (SimpleNamespace, argparse.Namespace)
METHODS = frozenset(name for cls in CONTAINERS for name in dir(cls))


def only_numbers(value: Any) -> bool:
    """Return whether a value is a number, a text or None, or a list, tuple or dict of such."""
    if type(value) in CONTAINERS:
        return all(type(item) in SCALARS or item is None for item in (value.values() if type(value) is dict else value))
    return type(value) in SCALARS or value is None


def computes_number(function: Any, is_fixed: bool, seen: frozenset[Any] = frozenset()) -> bool:
    """Return whether calls of a function with numbers change nothing, and read nothing but numbers, judging by its code, its globals and builtins, and its
    closure.

    `is_fixed`: it may have no closure, and apart from globals it may read nothing that can change.
    """
    if type(function) is functools.partial:
        return computes_number(function.func, is_fixed, seen) and all(map(only_numbers, (*function.args, *function.keywords.values())))
    if type(function) is not FunctionType or function in seen:
        return type(function) is FunctionType
    code = function.__code__
    if not only_computes(code) or not METHODS.isdisjoint(attribute_names(code)) or (is_fixed and function.__closure__):
        return False
    builtins: Any = function.__builtins__  # type: ignore[attr-defined]
    used = [function.__globals__.get(name, builtins.get(name, MISSING)) for name in global_names(code)]
    used += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    try:
        used += [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:
        return False
    return all(may_be_used(value, is_fixed, seen | {function}) for value in used)


def may_be_used(value: Any, is_fixed: bool, seen: frozenset[Any]) -> bool:
    """Return whether a function that uses a value, or a missing one (MISSING), changes nothing by that."""
    if value is MISSING or value is math or (type(value) is BuiltinFunctionType and value.__self__ is math):
        return True
    if type(value) is FunctionType:
        return not is_fixed and computes_number(value, is_fixed, seen)
    if only_numbers(value):
        return not (is_fixed and type(value) in (list, dict))
    if type(value) in RECORDS:
        return not is_fixed and all(map(only_numbers, vars(value).values()))
    return isinstance(value, (type, BuiltinFunctionType)) and value in NUMERIC


def only_stores_constants(code: CodeType) -> bool:
    """Return whether a function of one argument does nothing but set attributes of it, to constants and to empty lists, dicts and sets."""
    if code.co_argcount != 1 or code.co_kwonlyargcount or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR):
        return False
    return all(stores_constants(instruction, code.co_varnames[0]) for instruction in decode(code).instructions)


def stores_constants(instruction: Instruction, owner: str) -> bool:
    """Return whether an instruction may belong to code that sets attributes of what the variable `owner` has."""
    if instruction.op in ("BUILD_LIST", "BUILD_MAP", "BUILD_SET"):
        return not instruction.value
    return instruction.op in ("LOAD_CONST", "STORE_ATTR", "RETURN_VALUE") or (instruction.op == "LOAD_FAST" and instruction.value == owner)
