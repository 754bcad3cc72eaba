"""What a compiled function has learnt and made: by itself (History), and together with its resume functions (Family)."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType
from typing import Any

from torch import nn

from framejit import breaks
from framejit._runtime import CompiledFunction

_family_numbers = itertools.count()


class Family:
    """What a compiled function and its resume functions have made; one for each module, where the first argument is a module.

    Attributes:
        number: by which directives tell the calls of different families apart.
        refuted: what traces have said the program raises, and it doesn't, by `Prediction.key`: the reason to give in its place.
        lessons: how often one of its functions has learnt that values change from call to call.
    """

    def __init__(self) -> None:
        self.number = next(_family_numbers)
        self.refuted: dict[Any, breaks.Break] = {}
        self.lessons = 0
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
    """The families of the modules that a function was compiled for."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[nn.Module], Family]] = {}

    def of(self, module: nn.Module) -> Family:
        """The family of a module, which goes with it."""
        known = self._known.get(id(module))
        if known is None:
            reference = weakref.ref(module, lambda gone, key=id(module): self._known.pop(key, None))  # type: ignore[misc]
            known = self._known[id(module)] = (reference, Family())
        return known[1]

    def clear(self) -> None:
        """Forget all of them."""
        self._known.clear()


class History:
    """What one compiled function, or one resume function, has been through.

    Attributes:
        changing: paths of values that were different in so many calls that the next entries don't rest on what they are.
        names: what a resumed frame's state holds, by path, as the program calls it; for reports.
        lessons: how often `changing` has grown.
        learnt_at: the number of the first entry made since it last did.
        limits_reported, observed_by: the limits, and the modes of the program's, that a user has been told of.
        called: whether there has been a call.
    """

    def __init__(self) -> None:
        self.changing: frozenset[str] = frozenset()
        self.names: dict[str, str] = {}
        self.lessons = 0
        self.learnt_at = 0
        self.limits_reported: set[tuple[str, str]] = set()
        self.observed_by: set[breaks.Observed] = set()
        self.called = False
        self.compiles = 0
        self._calls_checked = 0
        self._lock = threading.Lock()

    def next_number(self) -> int:
        """The number of the entry that is to be made, among all that the function ever had."""
        with self._lock:
            number = self.compiles
            self.compiles += 1
        return number

    def learn(self, changing: Iterable[str]) -> None:
        """Values were found to change from call to call."""
        self.changing |= frozenset(changing)
        self.learnt_at = self.compiles
        self.lessons += 1

    def inherit(self, changing: frozenset[str], found: Iterable[tuple[str, str]]) -> None:
        """What changes from call to call in the function that this one goes on after does so here. `found`: (path here, path there)."""
        if changing:
            self.changing |= {
                here + path[len(there) :] for here, there in found for path in changing if path == there or path.startswith(f"{there}[")
            }

    def is_sampled(self, every: int) -> bool:
        """Whether this call is one of those that run eagerly too: the first, and each `every`th from there."""
        number = self._calls_checked
        self._calls_checked += 1
        return number % every == 0

    def forget(self) -> None:
        """Begin anew, but for the numbers: part of `reset()`."""
        self.limits_reported.clear()
        self.observed_by.clear()
        self.called = False
        self.changing, self.lessons, self.learnt_at = frozenset(), 0, 0
