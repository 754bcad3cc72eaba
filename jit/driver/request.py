"""What the compiler proper is asked for: one call of one function, and on whose behalf."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from torch import nn

from framejit._runtime import CompiledFunction
from framejit.driver.history import Family
from framejit.driver.options import Options
from framejit.driver.upcalls import UpcallUse
from framejit.errors import UserFrame
from framejit.guards.dynamic import Dynamic
from framejit.guards.kinds import Change
from framejit.guards.source import Path
from framejit.report import BreakNote


@dataclass(frozen=True, slots=True)
class Origin:
    """Why an entry was made.

    Attributes:
        number: of the entry, among those that its function ever had.
        cause: what the entry is put down to, if it was made although there were others.
        module: the module that was the first argument of the call, if one was; held weakly.
        adopted: whether it is an entry of another function's, made once more.
    """

    number: int = 0
    cause: Change | None = None
    module: weakref.ref[nn.Module] | None = None
    adopted: bool = False

    def is_for(self, module: nn.Module | None) -> bool:
        """Whether the entry was made for calls with this module, or for no module in particular; without a module, whether for any calls."""
        return module is None or self.module is None or self.module() is module


Carried = Iterable[tuple[Path, Path]]
"""Where a resume function finds in its state what had a source in the function before it: (new path, old path)."""


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """One call to be compiled.

    Attributes:
        args: the frame's raw argument slots, MISSING where unset.
        family: what the function and its resume functions have made so far.
        changing: by path, the values whose contents the entry must not rest on.
        dynamic: which sizes and numbers are to be symbolic.
        names: what reports call that which the state of a resumed frame holds.
        origin: what is to be said of the new entry.
        resumed_after: the first graph break that led here, of a resume function; None for a call of the user's.
        upcall_use: of a function that native code calls.
        left_to_autograd: why the graph has another backend than the program has asked for, in words; None if it hasn't.
        resume: makes the CompiledFunction of a resume function, given that, the break before it, where it goes on, what it finds of ours, the names in
            its state, and the numbers in it that depend on data.
    """

    function: FunctionType
    args: Sequence[Any]
    options: Options
    family: Family
    changing: Mapping[Path, Change]
    dynamic: Dynamic
    names: Mapping[Path, str]
    origin: Origin
    resumed_after: BreakNote | None
    upcall_use: UpcallUse | None
    resume: Callable[[FunctionType, BreakNote, UserFrame, Carried, Mapping[Path, str], Iterable[Path]], CompiledFunction]
    left_to_autograd: str | None = None
