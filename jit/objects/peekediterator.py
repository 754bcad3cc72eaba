"""Exact builtin iterators from outside: looked into without advancing them, and advanced for real by one replayed effect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from framejit import breaks, classes
from framejit.guards.iterators import (
    BACKWARD,
    DICT_ITERATORS,
    LIST_ITERATOR,
    LIST_REVERSE_ITERATOR,
    OVER_SEQUENCES,
    RANGE_ITERATOR,
    field,
    upcoming,
)  # fmt: skip
from framejit.guards.kinds import Equals, IsMissing, IsPresent, TypeIs
from framejit.guards.source import IteratorField, IteratorItem, Source
from framejit.objects import operators
from framejit.objects.iterobject import ForeignIterator
from framejit.objects.object import VM, Codegen, Object
from framejit.objects.registry import wraps
from framejit.objects.tupleobject import TupleObject

MANY_STEPS = 1000
"""A trace that goes further than this breaks, and goes on from there: the rest of a long loop is not unrolled into one graph."""
LIVE = (LIST_ITERATOR, LIST_REVERSE_ITERATOR, *DICT_ITERATORS)
"""Types that see changes of what they run over."""


class PeekedIterator(Object):
    """An iterator from outside. `steps`: how often the trace has stepped it; `owner`: the id of the outermost iterator that does so.

    The owner alone is advanced for real; those inside an enumerate or zip move with it.
    """

    __slots__ = ("steps", "owner")
    replays_first = True

    def __init__(self, cls: type, source: Source, value: Any) -> None:
        super().__init__(cls, source, value)
        self.steps = 0
        self.owner: int | None = None

    def iter(self, vm: VM) -> Object:
        return self

    def truth(self, vm: VM) -> bool:
        return True

    def next(self, vm: VM) -> Object | None:
        return self.step(vm, id(self))

    def step(self, vm: VM, owner: int) -> Object | None:
        """The next item, for the sake of `owner`."""
        if self.owner is None:
            vm.trail.set(self, "owner", owner)
            vm.effects.mutated(self)
        elif self.owner != owner:
            self.refuse(vm, ", both by itself and inside another iterator")
        if self.steps == MANY_STEPS:
            self.refuse(vm, f" after {MANY_STEPS} steps in one trace")
        return self.take(vm, owner)

    def take(self, vm: VM, owner: int) -> Object | None:
        """The next item; counts the step."""
        raise NotImplementedError

    def refuse(self, vm: VM, why: str) -> NoReturn:
        """Break at this step."""
        vm.unsupported(breaks.IteratorFromOutside(f"a {classes.name(self.cls)}{why}"))

    def field(self, vm: VM, name: str | int) -> Object | None:
        """A field of the real iterator, such as what it runs over, unobserved; guarded where it is missing."""
        assert self.source is not None
        source, found = self.source.child(IteratorField, name), field(self.value, name)
        if not found:
            vm.guard(IsMissing, source)
            return None
        return vm.wrap(found[0], source)

    def replay(self, cg: Codegen) -> None:
        if self.owner != id(self) or not self.steps:
            return
        cg.load(self)
        if self.steps == 1:
            cg.load_const(None)
            cg.call_const(next, 2)
        else:
            cg.load_const(self.steps)
            cg.call_const(advance, 2)
        cg.pop_top()


class PeekedSequenceIterator(PeekedIterator):
    """An iterator from outside over a range, list, tuple, string, bytes or dict. `over`: the list or dict, whose changes it would see; `ended`: it stays so."""

    __slots__ = ("items", "over", "ended")

    def __init__(self, cls: type, source: Source, value: Any) -> None:
        super().__init__(cls, source, value)
        self.items: Sequence[Any] | None = None
        self.over: Object | None = None
        self.ended = False

    def step(self, vm: VM, owner: int) -> Object | None:
        return None if self.ended else super().step(vm, owner)

    def take(self, vm: VM, owner: int) -> Object | None:
        if self.items is None:
            self.look(vm)
        if self.over is not None and vm.effects.is_mutated(self.over):
            self.refuse(vm, f" over a {classes.name(self.over.cls)} that was changed")
        steps, items = self.steps, self.items
        assert self.source is not None and items is not None
        source = self.source.child(IteratorItem, steps)
        vm.trail.set(self, "steps", steps + 1)
        if steps < len(items):
            vm.guard(IsPresent, source)
            return vm.wrap(items[steps], source)
        vm.guard(IsMissing, source)
        vm.trail.set(self, "ended", True)
        return None

    def look(self, vm: VM) -> None:
        """Learn what it runs over, which must not change while the trace steps it."""
        if self.cls is not RANGE_ITERATOR:
            over = self.field(vm, "sequence")
            if over is not None and self.cls in LIVE:
                vm.trail.set(self, "over", vm.observe(over))
            elif over is not None and self.cls in BACKWARD:
                if over.cls is not tuple:
                    self.refuse(vm, f" over a {classes.name(over.cls)}")
                assert over.source is not None
                vm.guard(TypeIs, over.source, tuple)
            if over is not None and self.cls in DICT_ITERATORS:
                if field(self.value, "intact") != (True,):
                    self.refuse(vm, " over a dict that has changed its size")
                assert self.source is not None
                vm.guard(Equals, self.source.child(IteratorField, "intact"), True)
        vm.trail.set(self, "items", upcoming(self.value))


class PeekedEnumerate(PeekedIterator):
    """An enumerate from outside. `taken`: how many items the trace has taken."""

    __slots__ = ("taken",)

    def __init__(self, cls: type, source: Source, value: Any) -> None:
        super().__init__(cls, source, value)
        self.taken = 0

    def take(self, vm: VM, owner: int) -> Object | None:
        item = step_inner(vm, self, 0, owner)
        vm.trail.set(self, "steps", self.steps + 1)
        if item is None:
            return None
        count = self.field(vm, "count")
        assert count is not None
        if self.taken:
            count = operators.binary_op(vm, "+", count, vm.const(self.taken))
        vm.trail.set(self, "taken", self.taken + 1)
        return TupleObject([count, item])


class PeekedZip(PeekedIterator):
    """A zip from outside. `size`: how many iterators it has, once that was asked."""

    __slots__ = ("size", "strict")

    def __init__(self, cls: type, source: Source, value: Any) -> None:
        super().__init__(cls, source, value)
        self.size: int | None = None
        self.strict = False

    def take(self, vm: VM, owner: int) -> Object | None:
        if self.size is None:
            assert self.source is not None
            (size,), (strict,) = field(self.value, "count"), field(self.value, "strict")
            vm.guard(Equals, self.source.child(IteratorField, "count"), size)
            vm.guard(Equals, self.source.child(IteratorField, "strict"), strict)
            vm.trail.set(self, "strict", strict)
            vm.trail.set(self, "size", size)
        items: list[Object] = []
        assert self.size is not None
        for position in range(self.size):
            item = step_inner(vm, self, position, owner)
            if item is None:
                if self.strict:
                    self.check_all_end(vm, position, owner)
                break
            items.append(item)
        vm.trail.set(self, "steps", self.steps + 1)
        return TupleObject(items) if items and len(items) == self.size else None

    def check_all_end(self, vm: VM, position: int, owner: int) -> None:
        """The iterator at `position` of a strict zip has ended: unless all have, the real step is to raise the ValueError."""
        if position or any(step_inner(vm, self, later, owner) is not None for later in range(1, self.size or 0)):
            self.refuse(vm, " that is strict and whose iterators differ in length")


def step_inner(vm: VM, outer: PeekedIterator, position: int, owner: int) -> Object | None:
    """Step an iterator inside an enumerate or zip."""
    inner = outer.field(vm, position)
    assert inner is not None
    inner = vm.observe(inner)
    if not isinstance(inner, PeekedIterator):
        outer.refuse(vm, f" over a {classes.name(inner.cls)}")
    return inner.step(vm, owner)


def advance(iterator: Any, steps: int) -> None:
    """Run by generated code: take what the trace has taken; the last step may have found the end."""
    for _ in range(steps):
        next(iterator, None)


@wraps(*OVER_SEQUENCES, enumerate, zip, shared=True)
def wrap_peeked(vm: VM, value: Any, source: Source) -> Object:
    """An iterator from outside; a user's subclass of enumerate and its like may do anything at a step."""
    cls = type(value)
    if cls is enumerate:
        return PeekedEnumerate(cls, source, value)
    if cls is zip:
        return PeekedZip(cls, source, value)
    return (PeekedSequenceIterator if cls in OVER_SEQUENCES else ForeignIterator)(cls, source, value)
