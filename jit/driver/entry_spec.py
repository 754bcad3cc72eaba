"""`EntrySpec`: everything that is needed to make an entry, as data, so that it can be made again for another function, or in another process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from types import CodeType, FunctionType
from typing import Any

from framejit import breaks
from framejit._runtime import CompiledFunction, Entry
from framejit.driver.prediction import OutcomeCheck
from framejit.driver.request import Origin
from framejit.driver.upcalls import Upcalls
from framejit.guards.build import build
from framejit.guards.kinds import Guard
from framejit.guards.recorder import Vouched
from framejit.guards.source import Source
from framejit.quick_dataclass import dataclass
from framejit.report import BreakNote


@dataclass(frozen=True, slots=True)
class Replacement:
    """The code and callables that run in place of a frame; they belong to this process and can't be stored in a file.

    Attributes:
        code: the replacement code; None if the frame runs uncompiled.
        graph: the graph's callable, which the code has among its constants.
        direct: how the entry runs without a frame (codegen.direct.Direct); None if it needs a frame.
        step, resumes: for a split call, the step, which runs the instruction at the break, and the resume functions that the step chooses from.
        broke: the break.
    """

    code: CodeType | None = None
    graph: Callable[..., Any] | None = None
    direct: tuple[Any, ...] | None = None
    step: Callable[..., Any] | None = None
    resumes: tuple[CompiledFunction, ...] = ()
    broke: BreakNote | None = None


@dataclass(frozen=True, slots=True)
class EntrySpec:
    """Everything that an entry is made of. All of it is data, except for `replacement`.

    An entry has its spec in `Entry.spec`, with the guards in the order of its tree, and without the code: the garbage collector looks into a code object only
    if the entry is its only owner. Guards, sources and the origin refer to objects of the program that are compared by identity (classes, modules, code),
    mostly by weak references.

    Attributes:
        guards: the conditions under which the entry is valid.
        origin: why the entry was made.
        inputs, captures: the sources of the values that the guard walk fetches: the graph's inputs, and other values that the code needs.
        reason: why the frame runs uncompiled, if that is reported.
        compiles_upcalls: if the frame runs uncompiled, whether the functions that it calls may be compiled; with an `outcome`, from the second call on.
        outcome: checks how a frame that runs uncompiled has ended, or handles an exception that leaves the replacement code.
        shared: whether the guards cover everything that the entry depends on, so that it may serve other functions with the same code.
        files: the names of the files whose functions were traced.
        vouched, of_process: what the trace depends on in this process, as the GuardRecorder has noted it.
        replacement: what runs in place of the frame.
    """

    guards: Sequence[Guard]
    origin: Origin = Origin()
    inputs: Sequence[Source] = ()
    captures: Sequence[Source] = ()
    reason: breaks.Break | None = None
    compiles_upcalls: bool = False
    outcome: OutcomeCheck | None = None
    shared: bool = False
    files: Collection[str] = ()
    vouched: Sequence[Vouched] = ()
    of_process: str = ""
    replacement: Replacement = Replacement()


def make(spec: EntrySpec) -> Entry:
    """Make the entry. Raises ValueError if an object that the guards compare with is gone."""
    built, made = build(spec.guards, spec.inputs, spec.captures), spec.replacement
    own = replace(spec, guards=built.guards, replacement=replace(made, code=None))
    return Entry(
        made.code, built.tree, len(spec.inputs), own, made.step, made.resumes, made.direct,
        compiles_upcalls=spec.compiles_upcalls, outcome=spec.outcome,
    )  # fmt: skip


def adopt(entry: Entry) -> Entry:
    """Make an entry again, for another function. It gets a guard tree of its own, since a tree is fast as long as it finds the same objects as before."""
    spec: EntrySpec = entry.spec
    code = None if entry.code is None else entry.code.replace()  # its one owner is the new entry
    try:
        return make(replace(spec, replacement=replace(spec.replacement, code=code), origin=replace(spec.origin, adopted=True)))
    except ValueError:
        return entry  # something that it compares with is going: the entry will not last


def for_one_call(upcalls: Upcalls) -> Entry:
    """Make an entry that isn't kept, for a call that runs uncompiled. `upcalls` decides about the functions that the call calls."""
    return Entry(None, build([], [], []).tree, 0, EntrySpec([], compiles_upcalls=True), compiles_upcalls=True, upcalls=upcalls)


def run_uncompiled(origin: Origin) -> Entry:
    """Make an entry that fits every call, which then runs uncompiled. The functions that it calls may be compiled."""
    return make(EntrySpec([], origin, compiles_upcalls=True))


def hand_back(result: Any) -> Any:
    """The resume function of a split call that has ended in its first part: it returns the result."""
    return result


def ended() -> CompiledFunction:
    """The function `hand_back` in the form in which entries hold resume functions, and never compiled."""
    assert isinstance(hand_back, FunctionType)
    return CompiledFunction(hand_back, lambda function, args: None)
