"""Maps framejit's sources to `torch._guards.Source` objects, and back.

AOTAutograd, Inductor and ShapeEnv take such objects, compare them, print their `.name`, pickle them into cache keys, and hand them
back in the guards that they ask for. They never need to know what a framejit source is: it is carried along as the opaque `origin`.
"""

from __future__ import annotations

import sys
from typing import Any

from torch._guards import GuardSource, Source

from framejit.quick_dataclass import dataclass


class TorchSource(Source):
    """Base of our sources in torch's form. Two are equal if their class and name are; `name` must be the same in every process.

    `origin` is whatever the caller identifies the value by (a framejit source, an index); it is not part of equality or pickles.
    """

    def __init__(self, name: str, origin: Any = None) -> None:
        self.path = name
        self.origin = origin

    @property
    def _name_template(self) -> str:
        return self.path

    @property
    def guard_source(self) -> GuardSource:  # type: ignore[override]
        return GuardSource.LOCAL

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.path == self.path  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.path))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path,)


class InputSource(TorchSource):
    """The source of a graph input: an argument, a global, a parameter or buffer of a module."""


class GraphAttributeSource(TorchSource):
    """A tensor that the graph module itself holds: a constant, or a frozen parameter."""


@dataclass(frozen=True, slots=True)
class SizeOf:
    """`origin.size(dim)`, as a guard's operand."""

    origin: Any
    dim: int


@dataclass(frozen=True, slots=True)
class StrideOf:
    """`origin.stride(dim)`, as a guard's operand."""

    origin: Any
    dim: int


@dataclass(frozen=True, slots=True)
class StorageOffsetOf:
    """`origin.storage_offset()`, as a guard's operand."""

    origin: Any


@dataclass(frozen=True, slots=True)
class ConstantOf:
    """A value that torch made up while compiling, by its name; it has no path in the user's program."""

    name: str


def to_torch(name: str, origin: Any = None) -> InputSource:
    """The torch source of the graph input that `name` describes uniquely, e.g. `L['self']._parameters['weight']`."""
    return InputSource(name, origin)


def from_torch(source: Source) -> Any:
    """The origin of a torch source: the `origin` given to `to_torch`, or SizeOf, StrideOf, StorageOffsetOf, ConstantOf.

    Raises TypeError for a source that framejit did not make and ShapeEnv does not derive from one.
    """
    if isinstance(source, TorchSource):
        return source.path if source.origin is None else source.origin
    # ShapeEnv derives sources of the peer's classes from ours. Such an object exists only once their module is loaded.
    theirs = sys.modules.get("torch._dynamo.source")
    if theirs is not None:
        if isinstance(source, theirs.TensorPropertySource):
            origin = from_torch(source.base)
            if source.prop is theirs.TensorProperty.SIZE:
                return SizeOf(origin, source.idx)
            if source.prop is theirs.TensorProperty.STRIDE:
                return StrideOf(origin, source.idx)
            return StorageOffsetOf(origin)
        if isinstance(source, theirs.ConstantSource):
            return ConstantOf(source.name)
    raise TypeError(f"a source of type {type(source).__name__} ({source.name}) did not come from framejit")
