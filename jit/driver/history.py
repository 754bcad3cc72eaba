"""What a compiled function has learnt and made: by itself (History), and together with its resume functions (Family)."""

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
from framejit.errors import UserFrame
from framejit.guards.dynamic import NONE, Dimensions
from framejit.guards.kinds import Change
from framejit.guards.source import Path

T = TypeVar("T")
_family_numbers = itertools.count()


class Family:
    """What a compiled function and its resume functions have made; one for each module, where the first argument is a module.

    Attributes:
        number: by which directives tell the calls of different families apart.
        refuted: what traces have said the program raises, and it doesn't, by `Prediction.key`: the reason to give in its place.
        lessons: how often one of its functions has learnt that values change from call to call.
        untold: where the program isn't told that it is compiled, since it raises if it is: see tracing/told.py.
        takes_first_steps: whether first steps of optimizers have come more than once, so that graphs of them pay.
    """

    def __init__(self) -> None:
        self.number = next(_family_numbers)
        self.refuted: dict[Any, breaks.Break] = {}
        self.untold: frozenset[tuple[UserFrame, ...]] = frozenset()
        self.lessons = 0
        self.takes_first_steps = False
        self._resume_functions: dict[tuple[Any, ...], FunctionType] = {}
        self._alive: list[Any] = []  # the code objects and namespaces whose ids are in the keys
        self._compiled: dict[FunctionType, CompiledFunction] = {}

    def resume_function(
        self, key: tuple[Any, ...], code: CodeType, namespace: dict[str, Any], make: Callable[[], FunctionType]
    ) -> FunctionType:
        """The one resume function of a frame's code for a place, a layout and an inner resume function, which are the key."""
        full = (id(code), id(namespace), *key)
        found = self._resume_functions.get(full)
        if found is None:
            found = self._resume_functions[full] = make()
            self._alive += (code, namespace)
        return found

    def compiled(self, function: FunctionType, make: Callable[[], CompiledFunction]) -> CompiledFunction:
        """The CompiledFunction of a resume function."""
        found = self._compiled.get(function)
        if found is None:
            found = self._compiled[function] = make()
        return found


class Families:
    """The families that a function belongs to: one for each module that it was compiled for, one for calls without. `only`: of a resume function."""

    def __init__(self, only: Family | None) -> None:
        self._is_one = only is not None
        self._without = only or Family()
        self._known: dict[int, tuple[weakref.ref[nn.Module], Family]] = {}

    def of(self, module: nn.Module | None) -> Family:
        """The family of calls with a module, which goes with it, or of calls without."""
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
        self._without.untold = frozenset()


class History:
    """What one compiled function, or one resume function, has been through.

    Attributes:
        changing: values that were different in so many calls that the next entries don't rest on what they are, by path, each with its latest change.
        varying: the sizes of tensors, and the numbers, that were different in two calls, by path: they are symbolic in the next entries.
        varying_since: the number of the first entry in which they are, by path.
        names: what the program calls that which a resumed frame's state holds; for reports.
        resumed_at: where the program goes on in a resume function, in the innermost frame; for reports.
        lessons: how often `changing` has grown.
        learnt_at: the number of the first entry made since it last did.
        limits_reported, observed_by: the limits, and the modes of the program's, that a user has been told of.
        called: whether there has been a call.
        preferred: entries that are tried before the others, although one of these would serve their calls too. No limit counts them.
        first_steps: entries of an optimizer's first step, which runs uncompiled, that have served a call.
    """

    def __init__(self) -> None:
        self.changing: Mapping[Path, Change] = {}
        self.varying: Mapping[Path, Dimensions] = {}
        self.varying_since: dict[Path, int] = {}
        self.names: Mapping[Path, str] = {}
        self.resumed_at: UserFrame | None = None
        self.lessons = 0
        self.learnt_at = 0
        self.limits_reported: set[tuple[str, str]] = set()
        self.observed_by: set[breaks.Observed] = set()
        self.called = False
        self.preferred: weakref.WeakSet[Entry] = weakref.WeakSet()
        self.first_steps: weakref.WeakSet[Entry] = weakref.WeakSet()
        self.compiles = 0
        self._calls_checked = 0
        self._lock = threading.Lock()

    def next_number(self) -> int:
        """The number of the entry that is to be made, among all that the function ever had."""
        with self._lock:
            number = self.compiles
            self.compiles += 1
        return number

    def learn(self, changes: Iterable[Change]) -> None:
        """Values were found to change from call to call."""
        self.changing = {**self.changing, **{change.path: change for change in changes}}
        self.learnt_at = self.compiles
        self.lessons += 1

    def vary(self, found: Mapping[Path, Dimensions]) -> None:
        """Sizes and numbers have been found to vary."""
        self.varying_since |= dict.fromkeys(found, self.compiles)
        self.varying = {**self.varying, **{path: with_more(self.varying.get(path, NONE), dimensions) for path, dimensions in found.items()}}

    def inherit(self, other: History, carried: Iterable[tuple[Path, Path]]) -> None:
        """Take over what changes and varies in the function that this resume function continues. `carried`: (path here, path there)."""
        if other.changing:
            self.changing = {**self.changing, **{path: replace(change, path=path) for path, change in moved(other.changing, carried)}}
        if other.varying:
            self.varying = {**self.varying, **dict(moved(other.varying, carried))}

    def is_sampled(self, every: int) -> bool:
        """Whether this call is one of those that run eagerly too: the first, and each `every`th from there."""
        number = self._calls_checked
        self._calls_checked += 1
        return number % every == 0

    def forget(self) -> None:
        """Forget everything but the numbers: part of `reset()`."""
        self.limits_reported.clear()
        self.observed_by.clear()
        self.called = False
        self.preferred.clear()
        self.changing, self.varying, self.lessons, self.learnt_at = {}, {}, 0, 0
        self.varying_since.clear()


def moved(known: Mapping[Path, T], carried: Iterable[tuple[Path, Path]]) -> Iterator[tuple[Path, T]]:
    """What is known of values by their paths in one function, by their paths in another. `carried`: (new path, old path)."""
    for new, old in carried:
        for path, what in known.items():
            if path[: len(old)] == old:
                yield (*new, *path[len(old) :]), what


def with_more(known: Dimensions, found: Dimensions) -> Dimensions:
    """All dimensions of a tensor that vary."""
    return None if known is None or found is None else known | found
