"""Loads the compiler proper when it is first needed."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, Literal

from framejit._runtime import Entry
from framejit.backends.registry import Backend
from framejit.driver.request import CompileRequest, Origin
from framejit.driver.upcalls import Upcalls
from framejit.process.when_needed import load
from framejit.quick_dataclass import dataclass

Fate = Literal["stays", "is preferred", "goes"]
"""The fates that an entry may have when a newer one serves its calls too: it stays, it is preferred (tried before the newer one), or it goes."""


@dataclass(frozen=True, slots=True)
class CompilerProper:
    """The functions of the compiler that the driver calls. They are passed as data, so that the driver needn't import the compiler.

    Attributes:
        compile_call: makes the entry for a request. Raises Unsupported, BackendError, and what a signal handler raises.
        adopt: makes an entry of another function again, for this one.
        fate: decides what happens to an entry when a newer one serves its calls too; it is given the backend that both were made by.
        run_uncompiled: makes an entry that runs every call uncompiled.
        for_one_call: makes an entry that isn't kept, for a call that runs uncompiled; it is given what decides about the functions that the call calls.
        leave: raises an error at the place where a resume function would have continued. Returns an entry for this one call if the program handles it.
        forget: forgets everything; part of `reset()`.
    """

    compile_call: Callable[[CompileRequest], Entry]
    adopt: Callable[[Entry], Entry]
    fate: Callable[[Entry, Entry, Backend], Fate]
    run_uncompiled: Callable[[Origin], Entry]
    for_one_call: Callable[[Upcalls], Entry]
    leave: Callable[[FunctionType, tuple[Any, ...], BaseException], Entry]
    forget: Callable[[], None]


_offered: CompilerProper | None = None


def offer(proper: CompilerProper) -> None:
    """Store the functions of the compiler. The compiler calls this at the end of its import."""
    global _offered
    _offered = proper


def loaded() -> CompilerProper | None:
    """The compiler's functions if the compiler has been loaded, otherwise None."""
    return _offered


def compiler() -> CompilerProper:
    """The compiler's functions. The first call loads the compiler."""
    if _offered is None:
        load("framejit.compiler.compile")
    assert _offered is not None
    return _offered
