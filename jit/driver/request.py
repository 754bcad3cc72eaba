"""`CompileRequest`, which the driver passes to the compiler: one call of one function, and all that is known about the function."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from framejit.quick_dataclass import dataclass
from framejit.report import BreakNote


@dataclass(frozen=True, slots=True)
class Origin:
    """The reason why an entry was made.

    Attributes:
        number: the number of the entry, among all that its function ever had.
        cause: why no earlier entry matched, if there were any.
        module: the module that was the first argument of the call, if there was one; held weakly.
        adopted: whether the entry was made from another function's entry.
    """

    number: int = 0
    cause: Change | None = None
    module: weakref.ref[nn.Module] | None = None
    adopted: bool = False

    def is_for(self, module: nn.Module | None) -> bool:
        """Return whether the entry was made for calls with this module, or for no particular module. Without a module, this is always true."""
        return module is None or self.module is None or self.module() is module


Carried = Iterable[tuple[Path, Path]]
"""For values in a resume function's state that had a source in the function before it: pairs (new path, old path)."""


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """One call to be compiled.

    Attributes:
        args: the frame's raw argument slots, MISSING where unset.
        family: what the function and its resume functions have made so far.
        changing: the values on whose contents the entry must not depend, by path.
        dynamic: the sizes and numbers that are symbolic.
        names: names for the values in a resumed frame's state, for reports.
        origin: why the new entry is made.
        resumed_after: for a resume function, the first graph break that led to it; None for a call by the user.
        upcall_use: set for a function that native code calls.
        left_to_autograd: why the graph has another backend than the program has asked for, in words; None if it has that backend.
        resume: makes the CompiledFunction of a resume function. It is given the function, the break before it, the place where it continues, the paths of
            values that it has in common with this function, the names in its state, and the numbers in its state that depend on data.
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
