"""Sources say where a call's values are found, guards what an entry requires of them, and values what a trace knows of them. All are data.

Mirrors guards/source.py, guards/kinds.py, guards/global_state.py, and jit/objects/, which has a file for each of CPython's types.
"""

from __future__ import annotations

import inspect
from collections import namedtuple
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import fx, nn

from .bytecode import UNEVALUATED

Call = namedtuple("Call", "function locals")
"""One call: the function, and the variables with which it starts."""


class Source(NamedTuple):
    """The path by which an entry finds a value of a call: `how(value at base, *args)`. The call itself has no base."""

    text: str
    base: Source | None = None
    how: Callable[..., Any] = getattr
    args: tuple[Any, ...] = ()

    def then(self, text: str, how: Callable[..., Any], *args: Any) -> Source:
        """The source of what is found from here."""
        return Source(text.format(self.text, *args), self, how, args)

    def attribute(self, name: str) -> Source:
        return self.then("{}.{}", getattr, name)

    def fetch(self, call: Call) -> Any:
        return call if self.base is None else self.how(self.base.fetch(call), *self.args)


CALL = Source("the call")


def signature_of(function: Any) -> inspect.Signature:
    """The signature of a function itself, and not of one that it wraps."""
    return inspect.signature(function, follow_wrapped=False, **UNEVALUATED)


class Same(NamedTuple):
    """Compares by identity. (framejit holds such objects weakly: an entry must not keep a model alive.)"""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __repr__(self) -> str:
        return f"this {type(self.value).__name__}"


CONSTANTS = {int, float, bool, str, type(None), type(...), torch.Size, torch.dtype, torch.device, range, slice}
"""Types whose values a trace computes with."""


def facts_of(value: Any) -> Any:
    """The fact about a value that a guard compares."""
    cls = type(value)
    if cls in (torch.Tensor, nn.Parameter):
        torch_state = torch.get_default_dtype(), torch.is_autocast_enabled(value.device.type)  # operators depend on this, too
        return cls.__name__, tuple(value.shape), value.stride(), value.dtype, str(value.device), value.requires_grad, *torch_state
    if cls in CONSTANTS:
        return cls.__name__, repr(value)  # the texts, since 0.0 == -0.0 and nan != nan
    return cls.__name__ if cls in (list, tuple) else Same(value)


class Guard(NamedTuple):
    """The fact that is expected of the value at a source, and the line of the program that needs it."""

    source: Source
    expected: Any
    where: str

    def holds(self, call: Call) -> bool | None:
        with suppress(Exception):  # which says that nothing is at the source, or nothing that has such facts
            return facts_of(self.source.fetch(call)) == self.expected

    def __str__(self) -> str:
        return f"{self.source.text}: {self.expected}  # {self.where}"


@dataclass(eq=False, kw_only=True)
class Value:
    """Stands for one value of the program's. `source`: where a call has it; None for what the trace has made, which is made of `parts`."""

    source: Source | None = None
    parts: list[Value] = field(default_factory=list)


@dataclass(eq=False)
class Known(Value):
    """A value that the trace has in its hand."""

    value: Any

    def make(self) -> Any:
        """The value itself, made of its parts, if the trace has made it: what comes from outside is what it was."""
        return self.value


class Outside(Known):
    """A value of the call's that nothing has asked for: no guard is about it. (jit/objects/core/object.py: LazyObject)"""


class Object(Known):
    """A function, a module or another value that is known by identity; or a list or a tuple, of which only the type is known."""


class Constant(Known):
    """A number, text or the like, with which the trace computes. (jit/objects/types/constobject.py)"""


@dataclass(eq=False)
class Tensor(Value):
    """A tensor: a node of the graph, and a fake tensor that has its shape and dtype, but no data. (jit/objects/tensors/tensorobject.py)"""

    node: fx.Node
    fake: torch.Tensor


@dataclass(eq=False)
class Sequence(Value):
    """A list or a tuple whose length is known. Its items are the parts. (jit/objects/types/listobject.py, tupleobject.py)"""

    cls: type

    def make(self, *items: Any) -> Any:
        return self.cls(items)


@dataclass(eq=False)
class Iterator(Value):
    """An iterator over its only part, a Sequence. (jit/objects/types/iterobject.py)"""

    position: int = 0

    def make(self, sequence: Any) -> Any:
        iterator = iter(sequence)
        iterator.__setstate__(self.position)
        return iterator
