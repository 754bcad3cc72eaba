"""Decides which sizes and numbers of a call are symbolic: those that the user has declared, and those that have been seen to vary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from typing import Any

import torch

from framejit.guards.container_sources import ItemCount
from framejit.guards.source import Index, Item, Local, Path, Source
from framejit.guards.tensor_source import TensorData
from framejit.quick_dataclass import dataclass

Dimensions = frozenset[int] | None
"""The dimensions of a tensor whose sizes have been seen to vary. None stands for a number that has been seen to vary."""
NONE: frozenset[int] = frozenset()
DATA = (TensorData, None)
"""The step of a path to the data of a tensor. After the path of another object, it stands for the data of all tensors that the object holds."""
ITEMS: tuple[type[Source], Any] = (Source, None)
"""After the path of a list, tuple or dict, a step that stands for all numbers in it, also in lists, tuples and dicts that it holds."""
DYNAMIC, WEAK, STATIC_MARK = "_dynamo_dynamic_indices", "_dynamo_weak_dynamic_indices", "_dynamo_static_indices"
UNBACKED = ("_dynamo_unbacked_indices", "_dynamo_strict_unbacked_indices")
RANGES = "_dynamo_dynamic_range"
"""The attributes that torch's marks set on tensors: sets of dimensions, and of ranges with the fields `dim`, `min` and `max`."""


@dataclass(frozen=True, slots=True)
class Size:
    """The declaration of one size. `name`: sizes with the same name are equal; empty if there is no name. `exact`: the only allowed size, or None if all sizes
    from `min` to `max` are allowed.
    """

    name: str = ""
    min: int | None = None
    max: int | None = None
    exact: int | None = None

    def describe(self) -> str:
        if self.exact is not None:
            return str(self.exact)
        between = f"at least {self.min}" if self.max is None else f"at most {self.max}" if not self.min else f"from {self.min} to {self.max}"
        return " ".join(filter(None, [repr(self.name) if self.name else "", between if self.min or self.max is not None else ""])) or "any size"

    def allows(self, size: int) -> bool:
        return size == self.exact if self.exact is not None else (self.min or 0) <= size and (self.max is None or size <= self.max)


ANY = Size()
Sizes = Mapping[int, Size]
"""The declared sizes of a tensor, by dimension."""
NO_SIZES: Sizes = {}


@dataclass(frozen=True, slots=True)
class Dynamic:
    """Says which sizes and numbers are symbolic.

    Attributes:
        all: every size of every tensor that isn't a parameter or buffer, and every int among the arguments (`dynamic=True`).
        varying: the dimensions of tensors, and the numbers, that have been seen to vary, by path.
        floats: whether floats may be symbolic.
        sizes: the declared sizes of arguments (`compile(shapes=...)`), by the tensors' ids.
        limits: the range of sizes that may be symbolic.
        fixed: nothing is symbolic, whatever was declared.
        reads_data: whether the trace may depend on the data of tensors from outside.
        fixes_data: whether it may depend on the values of data that has been seen to vary, since a graph break would be an error.
        aliases_vary: whether paths that led to one object in one call have led to several objects in another.
        differs: says of a number at a path whether another function that continues the same calls has fixed another one there.
        compares: whether comparisons of numbers among the arguments depend on their outcome alone, also of numbers that aren't symbolic.
    """

    all: bool = False
    varying: Mapping[Path, Dimensions] = field(default_factory=dict)
    floats: bool = True
    sizes: Mapping[int, Sizes] = field(default_factory=dict)
    limits: Size = Size()
    fixed: bool = False
    reads_data: bool = True
    fixes_data: bool = False
    aliases_vary: bool = False
    differs: Callable[[Path, float], bool] | None = None
    compares: bool = False

    def dimensions(self, source: Source, tensor: torch.Tensor) -> frozenset[int]:
        """The dimensions of a tensor whose sizes are symbolic: those that the program has marked, those that vary, or all."""
        if self.fixed:
            return NONE
        marked = marks(tensor, DYNAMIC, WEAK, *UNBACKED)
        if self.all:
            found = frozenset(range(tensor.dim()))
        elif self.varying:
            found = (self.varying.get(source.path()) or NONE) & frozenset(range(tensor.dim()))
        else:
            found = NONE
        if self.sizes:
            found -= {dim for dim, size in self.sizes.get(id(tensor), NO_SIZES).items() if size.exact is not None}
        if found or marked:
            found = (found - marks(tensor, STATIC_MARK)) | marked
        return found if self.limits == ANY else frozenset(dim for dim in found if self.limits.allows(tensor.size(dim)))

    def unbacked(self, tensor: torch.Tensor) -> frozenset[int]:
        """The dimensions of a tensor that the program has marked as unbacked: nothing may be assumed about their sizes."""
        return NONE if self.fixed else marks(tensor, *UNBACKED)

    def declared(self, tensor: torch.Tensor) -> Sizes:
        """The dimensions of a tensor that the program has declared to be symbolic, with the declarations of their sizes."""
        if self.fixed:
            return NO_SIZES
        found = dict.fromkeys(marks(tensor, DYNAMIC), ANY)
        found |= {known.dim: Size("", known.min, known.max) for known in tensor.__dict__.get(RANGES, ()) if known.dim in found}
        if self.sizes:
            found |= {dim: size for dim, size in self.sizes.get(id(tensor), NO_SIZES).items() if size.exact is None}
        return found

    def has_number(self, source: Source, value: float) -> bool:
        """Return whether a number from outside is symbolic. 0 and 1 are usually switches, and floats are usually settings, so these stay constants until they
        vary."""
        if self.varying and (source.path() in self.varying or self._is_item(source.path())):
            return self.floats or type(value) is int
        if self.differs is not None and not self.fixed and self.differs(source.path(), value):
            return self.floats or type(value) is int
        return self.all and type(value) is int and value not in (0, 1) and is_argument(source)

    def may_compare(self, source: Source, value: float) -> bool:
        """Return whether comparisons of a number from outside that isn't symbolic may be guarded by their outcome: an argument is often a count of steps,
        and a number of items grows."""
        return self.compares and not self.fixed and (self.floats or type(value) is int) and (is_argument(source) or isinstance(source, ItemCount))

    def _is_item(self, path: Path) -> bool:
        """Return whether the number at a path is in a list, tuple or dict of which all numbers vary."""
        for length in range(len(path) - 1, 0, -1):
            if path[length][0] not in (Index, Item):
                return False
            if (*path[:length], ITEMS) in self.varying:
                return True
        return False

    def may_fix(self, source: Source) -> bool:
        """Return whether a trace may depend on the value of a number in a tensor: it hasn't been seen to vary."""
        return self.fixes_data or not self.has_varied(source)

    def has_varied(self, source: Source) -> bool:
        """Return whether the number or data at a path has been seen to vary."""
        return bool(self.varying) and source.path() in self.varying

    def with_varying(self, paths: Iterable[Path]) -> Dynamic:
        """Return terms by which the numbers at these paths are symbolic too."""
        return replace(self, varying={**self.varying, **dict.fromkeys(paths)})

    def gives_symbols(self) -> bool:
        """Return whether sizes or numbers may be symbolic: more than data has been seen to vary."""
        return self.all or any(path[-1] != DATA for path in self.varying)

    def varies_below(self, source: Source) -> bool:
        """Return whether data of the tensor at a path, or a number in it, has been seen to vary, or that of all tensors in an object that holds it."""
        path = source.path()
        return any(other[:-1] == path or (other[-1] == DATA and path[: len(other) - 1] == other[:-1]) for other in self.varying)


STATIC = Dynamic()
"""Every size and number is a constant, except for those that the program has declared to be symbolic."""
FIXED = Dynamic(fixed=True)
"""Every size and number is a constant."""


def is_argument(source: Source | None) -> bool:
    """Return whether a path leads to an argument, or into lists, tuples and dicts that are arguments. Attributes of objects, and globals, are usually
    settings."""
    while isinstance(source, (Index, Item)):
        source = source.base
    return isinstance(source, Local)


def marks(tensor: torch.Tensor, *names: str) -> frozenset[int]:
    """The dimensions in the marks of a tensor that have these names of attributes. Dimensions that the tensor doesn't have are left out."""
    attributes: dict[str, Any] = tensor.__dict__
    return frozenset(index for name in names for index in attributes.get(name, ()) if 0 <= index < tensor.dim()) if attributes else NONE
