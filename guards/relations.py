"""Guard kinds about several paths at once; guards/native/relations.cpp checks them, after the walk."""

from __future__ import annotations

from typing import Any, ClassVar

from framejit.guards.kinds import Guard
from framejit.guards.source import MISSING, Call, Source
from framejit.guards.tensor_spec import lie_apart, storage_and_offset
from framejit.program import classes
from framejit.quick_dataclass import dataclass


class Relation(Guard):
    """A fact about the values of several paths."""

    def sources(self) -> tuple[Source, ...]:
        raise NotImplementedError

    def native(self) -> tuple[int, ...]:
        """The numbers that the C++ check takes: as many for each path, one path after the other."""
        return ()


@dataclass(frozen=True, eq=False)
class Same(Relation):
    """This path and another lead to the same object."""

    other: Source
    leaf: ClassVar[str] = "same"
    cost: ClassVar[int] = 3
    advice: ClassVar[str | None] = "pass the same object in both places on every call, as on the first"

    def sources(self) -> tuple[Source, ...]:
        return self.source, self.other

    def check(self, value: Any, call: Call) -> bool:
        return value is not MISSING and value is self.other.fetch(call)

    def expected(self) -> str:
        return f"is the same object as {self.other.name_in_reports()}"

    def found(self, value: Any, call: Call) -> str:
        return "another object"

    def key(self) -> Any:
        return id(self.other)


@dataclass(frozen=True, eq=False)
class Distinct(Relation):
    """No object in `others` is the object at `source` (a mutated object is not aliased by anything else observed)."""

    others: tuple[Source, ...]
    leaf: ClassVar[str] = "distinct"
    cost: ClassVar[int] = 4
    advice: ClassVar[str | None] = "don't pass one object in two places where one of them is changed in place; pass a copy"

    def sources(self) -> tuple[Source, ...]:
        return self.source, *self.others

    def check(self, value: Any, call: Call) -> bool:
        return all(value is not other.fetch(call) for other in self.others)

    def expected(self) -> str:
        return "is none of " + ", ".join(other.name_in_reports() for other in self.others[:6])

    def found(self, value: Any, call: Call) -> str:
        return "that it is " + next((o.name_in_reports() for o in self.others if o.fetch(call) is value), "none of them")

    def key(self) -> Any:
        return tuple(map(id, self.others))


def cannot_equal_others(value: Any) -> bool:
    """Return whether a value is equal to no object that compares by identity but itself, as no code of the program's decides about it."""
    if type(value) in (bool, int, float, complex, str, bytes, type(None)):
        return True
    return all(classes.lookup(type(value), name) is getattr(object, name) for name in ("__hash__", "__eq__"))


@dataclass(frozen=True, eq=False)
class Element(Relation):
    """The object at `source`, which compares by identity, is in a set or frozenset, or isn't (`is_in`). Never true if another element could be equal to it."""

    container: Source
    is_in: bool
    leaf: ClassVar[str] = "element"
    cost: ClassVar[int] = 4
    of_contents: ClassVar[bool] = True
    advice: ClassVar[str | None] = "ask outside of the compiled function whether the object is in the set, or pass objects for which the answer is the same"

    def sources(self) -> tuple[Source, ...]:
        return self.source, self.container

    def native(self) -> tuple[int, ...]:
        return (int(self.is_in),) * 2

    def check(self, value: Any, call: Call) -> bool:
        container = self.container.fetch(call)
        if value is MISSING or not issubclass(type(container), (set, frozenset)):
            return False
        elements = list((set if issubclass(type(container), set) else frozenset).__iter__(container))
        if any(element is value for element in elements):
            return self.is_in
        return not self.is_in and all(map(cannot_equal_others, elements))

    def expected(self) -> str:
        return f"is {'' if self.is_in else 'not '}in {self.container.name_in_reports()}"

    def found(self, value: Any, call: Call) -> str:
        return f"that it is {'not ' if self.is_in else ''}there"

    def key(self) -> Any:
        return id(self.container), self.is_in


@dataclass(frozen=True, eq=False)
class StorageAliasing(Relation):
    """`tensors`, which are graph inputs of which some are written to, share storages and memory in a certain way.

    `groups[i]` is the number of the storage of tensors[i], counted by first appearance; None means that no numbered tensor has the same storage. `offsets`
    are the storage offsets, in elements; None accepts any. A numbered storage must not share its memory with another storage, as those of two tensors made
    from one array do. source: the first tensor.
    """

    tensors: tuple[Source, ...]
    groups: tuple[int | None, ...]
    offsets: tuple[int | None, ...]
    leaf: ClassVar[str] = "storage_aliasing"
    cost: ClassVar[int] = 5
    advice: ClassVar[str | None] = "tensors that are written to share memory in another way than on the first call; pass clones"

    def sources(self) -> tuple[Source, ...]:
        return self.tensors

    def native(self) -> tuple[int, ...]:
        return tuple(-1 if number is None else number for pair in zip(self.groups, self.offsets, strict=True) for number in pair)

    def check(self, value: Any, call: Call) -> bool:
        numbers: dict[int, int] = {}
        others: set[int] = set()
        tensors = [source.fetch(call) for source in self.tensors]  # those of arrays are made for this call: their addresses are to stay theirs
        for tensor, group, offset in zip(tensors, self.groups, self.offsets, strict=True):
            place = storage_and_offset(tensor)
            if place is None or (offset is not None and place[1] != offset):
                return False
            if group is None:
                others.add(place[0])
            elif numbers.setdefault(place[0], len(numbers)) != group:
                return False
        return not others & numbers.keys() and lie_apart(tensors, [group is not None for group in self.groups])

    def expected(self) -> str:
        return "shares its memory, or doesn't, with the other tensors as on the call that was traced"

    def found(self, value: Any, call: Call) -> str:
        return "that they share memory otherwise"

    def key(self) -> Any:
        return (tuple(map(id, self.tensors)), self.groups, self.offsets)


@dataclass(frozen=True, eq=False)
class LiesInBase(Relation):
    """The tensor at `source` is no view, or has the memory of its base, to which `base` leads: `.data` of neither has been replaced since."""

    base: Source
    leaf: ClassVar[str] = "lies_in_base"
    cost: ClassVar[int] = 5
    advice: ClassVar[str | None] = "don't assign to .data of a tensor while there are views of it that compiled code writes to"

    def sources(self) -> tuple[Source, ...]:
        return self.source, self.base

    def check(self, value: Any, call: Call) -> bool:
        base, own = self.base.fetch(call), storage_and_offset(value)
        if base is None or own is None:
            return own is not None
        whole = storage_and_offset(base)
        return whole is not None and whole[0] == own[0]

    def expected(self) -> str:
        return "has the memory of the tensor that it is a view of"

    def found(self, value: Any, call: Call) -> str:
        return "a view that has other memory than its base"

    def key(self) -> Any:
        return id(self.base)
