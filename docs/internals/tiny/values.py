"""What the tracer knows of Python values, and how each is built once the graph has run.

Mirrors jit/objects/object.py and its neighbours, a file for each CPython type, and jit/codegen/plan.py. There, building is bytecode.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from .guards import Call, Source


@dataclass(eq=False)
class Value:
    """Stands for one value of the program's. `source`: where a call has it; None for what the trace has made."""

    source: Source | None

    def build(self, call: Call, built: Builder) -> Any:
        """The value itself, made of what the graph has returned. What comes from outside is what it was."""
        assert self.source is not None
        return self.source.fetch(call)

    def nodes(self) -> list[Node]:
        """The nodes of the graph that it is built of."""
        return []


Builder = Callable[[Value | Node], Any]
"""Gives what a node has returned, and builds each Value once, so that what is shared stays shared."""


@dataclass(eq=False)
class Outside(Value):
    """A value of the call's that nothing has asked for: no guard is about it. (jit/objects/object.py: LazyObject)"""

    source: Source
    value: Any


@dataclass(eq=False)
class Object(Value):
    """A value that is known by identity: a function, a module, a class."""

    source: Source
    value: Any


@dataclass(eq=False)
class Constant(Value):
    """A number, text or the like, with which the trace computes. (jit/objects/constobject.py)"""

    value: Any

    def build(self, call: Call, built: Builder) -> Any:
        return self.value


@dataclass(eq=False)
class Tensor(Value):
    """A tensor: a node of the graph, and a fake tensor that has its shape and dtype, but no data. (jit/objects/tensorobject.py)"""

    node: Node
    fake: torch.Tensor

    def build(self, call: Call, built: Builder) -> Any:
        return super().build(call, built) if self.source else built(self.node)

    def nodes(self) -> list[Node]:
        return [] if self.source else [self.node]


@dataclass(eq=False)
class Sequence(Value):
    """A list or a tuple whose items are known. (jit/objects/listobject.py, tupleobject.py)"""

    cls: type
    items: list[Value]

    def build(self, call: Call, built: Builder) -> Any:
        return super().build(call, built) if self.source else self.cls(map(built, self.items))

    def nodes(self) -> list[Node]:
        return [] if self.source else [node for each in self.items for node in each.nodes()]


@dataclass(eq=False)
class Iterator(Value):
    """An iterator over a Sequence. (jit/objects/iterobject.py)"""

    over: Sequence
    position: int = 0

    def build(self, call: Call, built: Builder) -> Any:
        iterator = iter(built(self.over))
        iterator.__setstate__(self.position)
        return iterator

    def nodes(self) -> list[Node]:
        return self.over.nodes()


@dataclass(eq=False)
class Method(Value):
    """A bound method. `function`: what it calls, if that is a function in Python. (jit/objects/funcobject.py)"""

    receiver: Value
    name: str
    function: Value | None = None

    def build(self, call: Call, built: Builder) -> Any:
        return getattr(built(self.receiver), self.name)

    def nodes(self) -> list[Node]:
        return self.receiver.nodes()
