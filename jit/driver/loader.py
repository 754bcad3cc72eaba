"""Loads the compiler proper when it is first needed: importing it takes most of a second, for sympy and torch's symbolic shapes."""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Literal

from framejit._runtime import Entry
from framejit.backends.registry import Backend
from framejit.driver.request import CompileRequest, Origin
from framejit.driver.upcalls import Upcalls
from framejit.warning_filters import version_kept

Fate = Literal["stays", "is preferred", "goes"]
"""What becomes of an entry beside a newer one: it stays, it is tried before the newer one whenever that was used, or it goes."""


@dataclass(frozen=True, slots=True)
class CompilerProper:
    """What the compiler offers to those who decide whether to compile.

    Attributes:
        compile_call: the entry of a request. Raises Unsupported, BackendError, and what a signal handler raises.
        adopt: an entry of another function's, made once more.
        fate: what becomes of an entry beside a newer one, for calls that both serve; with the backend that they were made by.
        run_uncompiled: an entry that runs every call uncompiled.
        for_one_call: an entry that isn't kept, for a call that runs uncompiled; what decides about the functions that it calls.
        leave: raises an error where a resume function would have gone on; an entry for this one call where the program handles it.
        forget: forgets everything.
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
    """Called by the compiler proper at the end of its import."""
    global _offered
    _offered = proper


def loaded() -> CompilerProper | None:
    """The compiler proper, if something has needed it yet."""
    return _offered


def compiler() -> CompilerProper:
    """The compiler proper.

    It is loaded on a thread of its own, which no Ctrl-C reaches: an import that is cut short leaves packages that can't be imported again.
    """
    if _offered is None:
        loader = threading.Thread(target=_load, name="framejit-loader", daemon=True)
        loader.start()
        loader.join()
    if _offered is None:
        importlib.import_module(PROPER)  # says what is wrong
    assert _offered is not None
    return _offered


PROPER = "framejit.compiler.compile"


def _load() -> None:
    try:
        with version_kept():
            importlib.import_module(PROPER)
    except Exception:
        logging.getLogger("framejit").debug("the compiler could not be loaded", exc_info=True)  # the caller's own import says why
