"""The source of the attributes of a threading.local whose class has a constructor, and what runs the constructor in a thread before guards are checked there.

A guard walk runs no code of the program. Such a constructor only stores constants, so it makes no difference if it runs before the program's first look.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from types import CodeType
from typing import Any

from framejit._runtime import has_thread_attributes
from framejit.guards.source import MISSING, Source
from framejit.program import classes

KNOWN: dict[int, tuple[weakref.ref[Any], CodeType]] = {}
"""The locals that guards ask for, by id, with the code of their constructors."""


class ThreadDict(Source):
    """The attributes that a threading.local has in the running thread; MISSING if it has none there yet, since its constructor would have to run."""

    __slots__ = ()
    accessor = "thread_dict"
    needs_exact_type = True

    def step(self, value: Any) -> Any:
        return value.__dict__ if has_thread_attributes(value) else MISSING

    def text(self, of: Callable[[Source], str]) -> str:
        assert self.base is not None
        return f"{of(self.base)}.__dict__"


def constructor(cls: type) -> CodeType | None:
    """The code of the constructor of a class of locals, if it is a function, and what it sets are no attributes of the class, which may have setters."""
    code = getattr(classes.lookup(cls, "__init__"), "__code__", None)
    if type(code) is not CodeType or any(classes.lookup(cls, name) is not None for name in code.co_names):
        return None
    return code


def note(local: Any) -> None:
    """Note that guards ask for a local, whose constructor only stores constants."""
    code = constructor(type(local))
    assert code is not None
    KNOWN[id(local)] = weakref.ref(local, lambda _, key=id(local), known=KNOWN: known.pop(key, None)), code  # type: ignore[misc]


def begin() -> bool:
    """Run the constructors of locals that guards ask for, where they haven't run in this thread yet. Return whether there were any."""
    begun = False
    for reference, code in list(KNOWN.values()):
        local = reference()
        if local is None or has_thread_attributes(local) or constructor(type(local)) is not code:
            continue
        with contextlib.suppress(Exception):
            local.__dict__  # noqa: B018
            begun = True
    return begun
