"""Shortcuts for what Inductor computes slowly although the result is plain, or known from an earlier process."""

from __future__ import annotations

import contextlib
import os
import platform
import unittest.mock
from collections.abc import Iterator
from typing import Any

import sympy
from torch._inductor import cpu_vec_isa
from torch._inductor.codecache import code_hash, get_path, write_atomic

BUILD = cpu_vec_isa.VecISA.check_build
SIMPLIFY = sympy.simplify


@contextlib.contextmanager
def shortcuts() -> Iterator[None]:
    """In force while Inductor compiles a graph, under the lock that lets only one thread compile."""
    with unittest.mock.patch.object(cpu_vec_isa.VecISA, "check_build", works), unittest.mock.patch.object(sympy, "simplify", simplified):
        yield


def works(isa: cpu_vec_isa.VecISA, code: str) -> bool:
    """Return whether the C++ compiler makes libraries for a vector instruction set that can be loaded here.

    Inductor asks this in every process, and loads a library in a process of its own for each instruction set: 0.2 s of CPU with torch 2.13, seconds
    with 2.11; 2.15 keeps the answer. Here a "yes" is kept as an empty file in Inductor's folder. Its name depends on the versions of torch and of the C++
    compiler, on the flags, and on the machine. A "no" isn't kept, since a machine under load may give one.
    """
    fingerprint = cpu_vec_isa._get_isa_dry_compile_fingerprint(isa.build_arch_flags())
    path = get_path(code_hash(code, f"{fingerprint} {isa} {platform.node()} {platform.release()}"), "works")[2]
    if os.path.exists(path):
        return True
    if not BUILD(isa, code):
        return False
    with contextlib.suppress(OSError):
        write_atomic(path, "", make_dirs=True)
    return True


def simplified(expression: Any, **options: Any) -> Any:
    """`sympy.simplify`, which takes milliseconds for each index of a kernel. It leaves sums of integer multiples of symbols alone, and most indices are such
    sums, so those are returned at once."""
    return expression if not options and isinstance(expression, sympy.Expr) and is_linear(expression) else SIMPLIFY(expression, **options)


def is_linear(expression: sympy.Expr) -> bool:
    """Return whether an expression is a sum of integers, symbols, and integer multiples of symbols."""
    terms = expression.args if expression.is_Add else (expression,)
    return all(term.is_Integer or term.is_Symbol or is_multiple(term) for term in terms)


def is_multiple(term: Any) -> bool:
    return bool(term.is_Mul) and len(term.args) == 2 and bool(term.args[0].is_Integer) and bool(term.args[1].is_Symbol)
