"""The last stage before an entry: all that is needed to make it, as data, so that it can be made again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import CodeType
from typing import TYPE_CHECKING, Any

from framejit import breaks
from framejit._runtime import CompiledFunction, Entry
from framejit.driver.request import Origin
from framejit.guards.build import build

if TYPE_CHECKING:
    from framejit.codegen.direct import Direct
    from framejit.driver.prediction import OutcomeCheck
    from framejit.driver.upcalls import Upcalls
    from framejit.guards.kinds import Guard
    from framejit.guards.source import Source


@dataclass(frozen=True, slots=True)
class Replacement:
    """What runs in place of a frame: handles of this process, which cannot be stored. A warm start would make them again, from a stored graph and plan.

    Attributes:
        code: the replacement code; None where the frame runs uncompiled.
        graph: the graph's callable, which the code has among its constants.
        direct: how the entry runs without a frame; None where it needs one.
        step, resumes: of a split call, what runs the instruction at fault, and the functions that it chooses from.
    """

    code: CodeType | None = None
    graph: Callable[..., Any] | None = None
    direct: Direct | None = None
    step: Callable[..., Any] | None = None
    resumes: tuple[CompiledFunction, ...] = ()


@dataclass(frozen=True, slots=True)
class EntrySpec:
    """All that an entry is made of: data, but for `replacement`.

    An entry has its own in `Entry.spec`, with the guards numbered as its tree numbers them, and without the code: the garbage collector looks into a
    code object only where the entry is its one owner. Guards, sources and the origin name objects of the program that are compared by identity (classes,
    modules, code), mostly by weak references; a warm start would have to find those by their names.

    Attributes:
        guards: what the entry rests on.
        origin: why it was made.
        inputs, captures: what the walk over the guards fetches: the graph's inputs, and what else the code needs.
        reason: why the frame runs uncompiled, where that is to be reported.
        compiles_upcalls: whether what the frame calls may be compiled, where it runs uncompiled; with an `outcome`, from the second call on.
        outcome: what looks at how a frame that runs uncompiled has ended, or at what leaves the replacement code.
        shared: whether the guards say all that the entry rests on, so that it may serve other functions of the same code.
        replacement: what runs.
    """

    guards: Sequence[Guard]
    origin: Origin = Origin()
    inputs: Sequence[Source] = ()
    captures: Sequence[Source] = ()
    reason: breaks.Break | None = None
    compiles_upcalls: bool = False
    outcome: OutcomeCheck | None = None
    shared: bool = False
    replacement: Replacement = Replacement()


def make(spec: EntrySpec) -> Entry:
    """The entry. Raises ValueError where something that the guards compare with is gone."""
    built, made = build(spec.guards, spec.inputs, spec.captures), spec.replacement
    own = replace(spec, guards=built.guards, replacement=replace(made, code=None))
    return Entry(
        made.code, built.tree, len(spec.inputs), own, made.step, made.resumes, made.direct,
        compiles_upcalls=spec.compiles_upcalls, outcome=spec.outcome,
    )  # fmt: skip


def adopt(entry: Entry) -> Entry:
    """The entry of another function, made once more: it has a tree of its own, which remembers what it has found, and is fast while that stays."""
    spec: EntrySpec = entry.spec
    code = None if entry.code is None else entry.code.replace()  # its one owner is the new entry
    try:
        return make(replace(spec, replacement=replace(spec.replacement, code=code), origin=replace(spec.origin, adopted=True)))
    except ValueError:
        return entry  # something that it compares with is going: the entry will not last


def for_one_call(upcalls: Upcalls) -> Entry:
    """An entry that isn't kept, for a call that runs uncompiled. `upcalls`: what decides about the functions that it calls."""
    return Entry(None, build([], [], []).tree, 0, EntrySpec([], compiles_upcalls=True), compiles_upcalls=True, upcalls=upcalls)


def run_uncompiled(origin: Origin) -> Entry:
    """An entry for every call, which runs uncompiled; what it calls may be compiled."""
    return make(EntrySpec([], origin, compiles_upcalls=True))
