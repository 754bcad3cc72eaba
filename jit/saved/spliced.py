"""Functions with spliced code, which are steps and resume functions (bytecode/splice.py), in a form in which another process can make them again."""

from __future__ import annotations

from types import CodeType, FunctionType
from typing import Any

from framejit.bytecode import splice
from framejit.saved.form import Identity
from framejit.saved.remade import ByValue, made_by


def function_of(code: CodeType, namespace: dict[str, Any]) -> FunctionType:
    """A function with a spliced code object."""
    found, function = splice.spliced(code), splice.function_of(code, namespace)
    origin = None if found is None else (Identity(found.code), *found[2:])
    return made_by(function, function_again, ByValue(code), Identity(namespace), origin)


def function_again(code: CodeType, namespace: dict[str, Any], origin: tuple[Any, ...] | None) -> FunctionType:
    """A step or a resume function of another process. `origin`: the facts of SplicedFrom, for a resume function."""
    if origin is not None:
        splice.note_origin(code, *origin)
    return function_of(code, namespace)
