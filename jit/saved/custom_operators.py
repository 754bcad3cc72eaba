"""Operators that a program or a library defines in Python (torch.library.custom_op), as code that is kept for later processes refers to them.

A graph calls them anew in each process, but a trace has run their fakes and, with gradients, the formulas of these: those must be the same later.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

import torch
from torch._library.custom_ops import OPDEFS

from framejit.program.naming import PLAIN
from framejit.saved.names import Absent, Unsaved, digest_of

TRACED = ("_abstract_fn", "_setup_context_fn", "_backward_fn", "_vmap_fn")
"""The functions of a definition that run while a graph is traced."""


def names_in(code: CodeType) -> Iterator[str]:
    """The names of globals and attributes in a code object, and in the code inside it."""
    yield from code.co_names
    for inner in code.co_consts:
        if type(inner) is CodeType:
            yield from names_in(inner)


def operator_digests(namespace: str, names: set[str]) -> tuple[tuple[str, str], ...]:
    """The qualified names of the operators of a namespace that are among some names, each with a digest of its definition.

    Raises Unsaved if one isn't defined in Python alone.
    """
    known = vars(getattr(torch.ops, namespace))
    found = [f"{namespace}::{name}" for name in sorted(names & known.keys()) if isinstance(known[name], torch._ops.OpOverloadPacket)]
    digests = [(name, digest_of_operator(name)) for name in found]
    if not digests or not all(digest for _, digest in digests):
        raise Unsaved(f"its graph calls operators of {namespace}, which aren't torch's and aren't defined by torch.library.custom_op")
    return tuple(digests)


def check_operators(expected: tuple[tuple[str, str], ...]) -> None:
    """Raise Absent if an operator isn't defined, or not as it was when its digest was made."""
    for name, digest in expected:
        if digest_of_operator(name) != digest:
            raise Absent(f"the operator {name}, as it was defined,")


def digest_of_operator(name: str) -> str:
    """A hash of what traces learn of an operator; empty if it isn't defined by torch.library.custom_op, or by functions that depend on other values."""
    definition = OPDEFS.get(name)
    if definition is None or not all(hasattr(definition, attribute) for attribute in (*TRACED, "_torch_dispatch_fns")) or definition._torch_dispatch_fns:
        return ""
    functions = [getattr(definition, attribute) for attribute in TRACED]
    parts: list[Any] = [str(definition._schema), sorted(map(str, definition._tags or ())), str(getattr(definition, "_autocast_dtype", None))]
    for function in functions:
        written = None if function is None else code_reached(function, set())
        if function is not None and written is None:
            return ""
        parts.append(written)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def code_reached(function: Any, seen: set[int]) -> list[Any] | None:
    """Describe what a function does, as plain data: its code, its defaults, and the same of the functions, outside of torch, that it refers to.

    None if it depends on values whose content isn't plain.
    """
    if type(function) is not FunctionType:
        return None
    seen.add(id(function))
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    values = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values(), *cells]
    space = function.__globals__
    reached = [space[name] for name in sorted(set(names_in(function.__code__))) if name in space]
    written: list[Any] = [digest_of(function.__code__)]
    for value in (*values, *(each for each in reached if type(each) is FunctionType or type(each) in PLAIN)):
        if type(value) in PLAIN:
            written.append((type(value).__name__, repr(value)))
        elif type(value) is not FunctionType:
            return None
        elif id(value) not in seen and value.__module__.partition(".")[0] != "torch":
            inner = code_reached(value, seen)
            if inner is None:
                return None
            written.append(inner)
    return written
