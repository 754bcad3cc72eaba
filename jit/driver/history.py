"""The knowledge that compiled functions gain from their calls (History), and the state that a function shares with its resume functions (Family)."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import CodeType, FunctionType
from typing import Any, TypeVar

from torch import nn

from framejit import breaks
from framejit._runtime import CompiledFunction, Entry
from framejit.driver.first_call import Seen
from framejit.errors import UserFrame
from framejit.guards.dynamic import NONE, Dimensions
from framejit.guards.kinds import AddressIs, Change, Guard
from framejit.guards.source import Path
from framejit.program import classes

T = TypeVar("T")
_family_numbers = itertools.count()
FEW_ENDED = 2
"""If this many objects at one path have ended, the path is taken to lead to a new object in each call."""


class Family:
    """The state that a compiled function shares with its resume functions. If the first argument is a module, there is one family for each module.

    Attributes:
        number: a number by which directives distinguish the calls of different families.
        refuted: predictions of exceptions that turned out wrong, by `Prediction.key`, with the break reason that the next trace gives instead.
        lessons: how often one of the functions has learnt that values change from call to call.
        withheld: the places where `is_compiling()` gives False, since the program raises if it gives True: see tracing/is_compiling.py.
        breaks_at: ranges of the program's text at which every trace must break, and why: see tracing/stops.py.
        takes_first_steps: whether first steps of optimizers have occurred more than once, so that it pays to compile them.
        varying: the sizes and numbers that have been seen to vary by one of the functions, by their paths in the compiled function itself.
        numbers: the numbers that entries of these functions have fixed first, by such paths.
    """

    def __init__(self) -> None:
        self.number = next(_family_numbers)
        self.refuted: dict[Any, breaks.Break] = {}
        self.withheld: frozenset[tuple[UserFrame, ...]] = frozenset()
        self.lessons = 0
        self.breaks_at: dict[Any, breaks.Break] = {}
        self.takes_first_steps = False
        self.varying: Mapping[Path, Dimensions] = {}
        self.numbers: dict[Path, float] = {}
        self._resume_functions: dict[tuple[Any, ...], FunctionType] = {}
        self._alive: list[Any] = []  # the code objects and namespaces whose ids are in the keys
        self._compiled: dict[FunctionType, CompiledFunction] = {}
        self._by_code: dict[tuple[int, str], FunctionType] | None = None

    def resume_function(
        self, key: tuple[Any, ...], code: CodeType, namespace: dict[str, Any], make: Callable[[], FunctionType]
    ) -> FunctionType:
        """The resume function of a frame's code for a key, which consists of a place, a layout and an inner resume function. It is made once."""
        full = (id(code), id(namespace), *key)
        found = self._resume_functions.get(full)
        if found is None:
            found = self._resume_functions[full] = make()
            self._alive += (code, namespace)
        return found

    @property
    def has_saved(self) -> bool:
        """Return whether some of the resume functions come from an entry on disk."""
        return self._by_code is not None

    def equal_to(self, function: FunctionType, digest: Callable[[CodeType], str]) -> FunctionType:
        """The first resume function with the same code as this one: entries on disk bring their own, and they learn together."""
        if self._by_code is None:
            self._by_code = {(id(known.__globals__), digest(known.__code__)): known for known in self._compiled}
        return self._by_code.setdefault((id(function.__globals__), digest(function.__code__)), function)

    @property
    def is_split(self) -> bool:
        """Return whether there are resume functions."""
        return bool(self._compiled)

    def vary(self, found: Mapping[Path, Dimensions]) -> None:
        """Note sizes and numbers that vary, by their paths in the compiled function itself."""
        self.varying = with_these(self.varying, found)

    def compiled(self, function: FunctionType, make: Callable[[], CompiledFunction]) -> CompiledFunction:
        """The CompiledFunction of a resume function."""
        found = self._compiled.get(function)
        if found is None:
            found = self._compiled[function] = make()
        return found


class Families:
    """The families that a function belongs to: one for each module that it was compiled for, and one for calls without a module. A resume function belongs to
    only one family, `only`."""

    def __init__(self, only: Family | None) -> None:
        self._is_one = only is not None
        self._without = only or Family()
        self._known: dict[int, tuple[weakref.ref[nn.Module], Family]] = {}

    def of(self, module: nn.Module | None) -> Family:
        """The family for calls with this module, or for calls without one. A module's family is freed with the module."""
        if module is None or self._is_one:
            return self._without
        known = self._known.get(id(module))
        if known is None:
            reference = weakref.ref(module, lambda gone, key=id(module): self._known.pop(key, None))  # type: ignore[misc]
            known = self._known[id(module)] = (reference, Family())
        return known[1]

    def forget(self) -> None:
        """Forget everything: part of `reset()`."""
        self._known.clear()
        self._without.lessons = 0
        self._without.varying, self._without.numbers, self._without.breaks_at = {}, {}, {}
        self._without.withheld = frozenset()


def has_new_ones(known: Iterable[weakref.ref[Any]]) -> bool:
    """Return whether so many of some objects have ended that the next calls are likely to bring new ones."""
    return sum(reference() is None for reference in known) >= FEW_ENDED


class Addresses:
    """The objects whose addresses entries have been made for, held weakly. An entry goes with its object, so that no limit of entries counts it."""

    def __init__(self) -> None:
        self._known: dict[Path, list[weakref.ref[Any]]] = {}

    def note(self, guards: Iterable[Guard], apart_from: object) -> None:
        """Note the objects of a new entry, apart from the module whose call it serves."""
        for guard in guards:
            if isinstance(guard, AddressIs) and guard.value is not apart_from and classes.weakrefoffset(type(guard.value)):
                known = self._known.setdefault(guard.source.path(), [])
                if has_new_ones(known):
                    continue  # more of them would tell nothing
                if all(reference() is not guard.value for reference in known):
                    known.append(weakref.ref(guard.value))

    def varying(self, limit: int) -> Iterator[Path]:
        """The paths at which a few objects have ended, or at which there were as many as an option allows entries."""
        for path, known in self._known.items():
            if len(known) >= limit or has_new_ones(known):
                yield path

    def forget(self) -> None:
        """Forget all objects."""
        self._known.clear()


class History:
    """The knowledge that one compiled function, or one resume function, has gained from its calls.

    Attributes:
        changing: values that differed in so many calls that the next entries don't depend on them, by path, each with its latest change.
        varying: the sizes of tensors, and the numbers, that differed in two calls, by path. They are symbolic in the next entries.
        varying_since: the number of the first entry in which each of these is symbolic, by path.
        names: the program's names for the values in a resumed frame's state; for reports.
        resumed_at: for a resume function, the place in the innermost frame where the program continues; for reports.
        carried: for a resume function, pairs (path here, path there) of values that the function before it has too.
        roots: pairs (path here, path there) of values that the compiled function itself has too.
        on_data: for a resume function, what in its state depends on data, by path: see objects/tensors/varying.py.
        reads_data: whether the next entries may depend on the data of tensors. False once so many entries did that a limit was reached.
        addresses: the objects whose addresses its entries depend on.
        aliases_vary: whether paths that led to one object in one call have led to several objects in another.
        lessons: how often `changing` has grown, or entries before those with symbolic sizes were left out of what limits count.
        learnt_at: the number of the first entry that limits count: those before it were made when less was known.
        limits_reported, observed_by: the limits, and the program's modes, that have been reported.
        called: whether the function has been called.
        first_call: sizes and numbers of its first call, if that ran uncompiled so that the function learns from it.
        preferred: entries that are tried before the others, although one of these would serve their calls too. No limit counts them.
        first_steps: entries of an optimizer's first step, which runs uncompiled, that have served a call.
    """

    def __init__(self) -> None:
        self.changing: Mapping[Path, Change] = {}
        self.varying: Mapping[Path, Dimensions] = {}
        self.varying_since: dict[Path, int] = {}
        self.names: Mapping[Path, str] = {}
        self.resumed_at: UserFrame | None = None
        self.carried: tuple[tuple[Path, Path], ...] = ()
        self.roots: tuple[tuple[Path, Path], ...] = (((), ()),)
        self.on_data: Mapping[Path, Dimensions] = {}
        self.reads_data = True
        self.addresses = Addresses()
        self.aliases_vary = False
        self.lessons = 0
        self.learnt_at = 0
        self.limits_reported: set[tuple[str, str]] = set()
        self.observed_by: set[breaks.Observed] = set()
        self.called = False
        self.first_call: Seen | None = None
        self.preferred: weakref.WeakSet[Entry] = weakref.WeakSet()
        self.first_steps: weakref.WeakSet[Entry] = weakref.WeakSet()
        self.compiles = 0
        self._calls_checked = 0
        self._lock = threading.Lock()

    def next_number(self) -> int:
        """The number of the next entry, among all that the function ever had."""
        with self._lock:
            number = self.compiles
            self.compiles += 1
        return number

    def learn(self, changes: Iterable[Change]) -> None:
        """Note values that change from call to call."""
        self.changing = {**self.changing, **{change.path: change for change in changes}}
        self.learnt_at = self.compiles
        self.lessons += 1

    def count_from(self, number: int) -> None:
        """Leave the entries before this one out of what limits count."""
        self.learnt_at = number
        self.lessons += 1

    def stop_reading_data(self) -> None:
        """Note that the data of tensors leads to too many entries."""
        self.reads_data, self.learnt_at = False, self.compiles

    def vary(self, found: Mapping[Path, Dimensions]) -> None:
        """Note sizes and numbers that vary."""
        self.varying_since |= dict.fromkeys(found, self.compiles)
        self.varying = with_these(self.varying, found)

    def at_root(self, path: Path) -> Path | None:
        """The path in the compiled function itself of a value at a path here; None if that function hasn't got the value."""
        return next((moved_path(path, here, there) for here, there in self.roots if path[: len(here)] == here), None)

    def share(self, family: Family, found: Mapping[Path, Dimensions]) -> None:
        """Let the other functions of the family know of sizes and numbers that vary, and take over those that these have seen to vary."""
        if not family.is_split:
            return
        family.vary({root: dimensions for path, dimensions in found.items() if (root := self.at_root(path)) is not None})
        theirs = dict(moved(family.varying, self.roots))
        self.vary({path: dimensions for path, dimensions in theirs.items() if path not in self.varying})

    def note_numbers(self, family: Family, numbers: Iterable[tuple[Path, float]]) -> None:
        """Note the numbers that an entry has fixed."""
        for path, number in numbers:
            root = self.at_root(path)
            if root is not None:
                family.numbers.setdefault(root, number)

    def differs(self, family: Family, path: Path, number: float) -> bool:
        """Return whether another function of the family has fixed another number at a path, and note that it varies then."""
        root = self.at_root(path) if family.numbers else None
        known = None if root is None else family.numbers.get(root)
        if root is None or type(known) is not type(number) or known == number:
            return False
        self.vary({path: None})
        family.vary({root: None})
        return True

    def inherit(self, other: History, carried: Iterable[tuple[Path, Path]]) -> None:
        """Take over the values that change and vary in the function that this resume function continues. `carried` has pairs (path here, path there)."""
        carried = tuple(carried)
        self.roots = tuple((new, root) for new, old in carried if (root := other.at_root(old)) is not None)
        if other.changing:
            self.changing = {**self.changing, **{path: replace(change, path=path) for path, change in moved(other.changing, carried)}}
        if other.varying:
            self.varying = {**self.varying, **dict(moved(other.varying, carried))}
        self.reads_data = self.reads_data and other.reads_data
        self.aliases_vary = self.aliases_vary or other.aliases_vary

    def is_sampled(self, every: int) -> bool:
        """Return whether this call is one of those that run eagerly too: the first, and each `every`th from there."""
        number = self._calls_checked
        self._calls_checked += 1
        return number % every == 0

    def forget(self) -> None:
        """Forget everything but the numbers: part of `reset()`."""
        self.limits_reported.clear()
        self.observed_by.clear()
        self.addresses.forget()
        self.called = False
        self.first_call = None
        self.preferred.clear()
        self.changing, self.varying, self.lessons, self.learnt_at, self.reads_data, self.aliases_vary = {}, {}, 0, 0, True, False
        self.varying_since.clear()


def moved(known: Mapping[Path, T], carried: Iterable[tuple[Path, Path]]) -> Iterator[tuple[Path, T]]:
    """Turn knowledge about values by their paths in one function into knowledge by their paths in another. `carried` has pairs (new path, old path)."""
    for new, old in carried:
        for path, what in known.items():
            if path[: len(old)] == old:
                yield moved_path(path, old, new), what


def moved_path(path: Path, old: Path, new: Path) -> Path:
    """A path that begins with `old`, with `new` in its place."""
    return (*new, *path[len(old) :])


def with_these(known: Mapping[Path, Dimensions], found: Mapping[Path, Dimensions]) -> Mapping[Path, Dimensions]:
    """The sizes and numbers that are known to vary, with those that were found added."""
    return {**known, **{path: with_more(known.get(path, NONE), dimensions) for path, dimensions in found.items()}}


def with_more(known: Dimensions, found: Dimensions) -> Dimensions:
    """The dimensions of a tensor that vary, after more of them were found; None stands for a number."""
    return None if known is None or found is None else known | found
