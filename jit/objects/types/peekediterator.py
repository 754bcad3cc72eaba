"""Exact builtin iterators from outside: read without advancing them, and advanced for real by one replayed effect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from framejit import breaks
from framejit.guards.container_sources import IteratorField, IteratorItem
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
from framejit.guards.source import Source
from framejit.objects.core.object import VM, Codegen, Object
from framejit.objects.core.registry import wraps
from framejit.objects.types.iterobject import ForeignIterator, ReversedItems
from framejit.program import classes

MANY_STEPS = 1000
"""After this many steps a trace breaks, and continues from there, so that a long loop is not unrolled into one graph."""
LIVE = (LIST_ITERATOR, LIST_REVERSE_ITERATOR, *DICT_ITERATORS)
"""Types of iterators that see changes of the container that they iterate over."""


class PeekedIterator(Object):
    """An iterator from outside over a range, list, tuple, string, bytes or dict.

    `steps`: how often the trace has stepped it; `over`: the list or dict, whose changes it would see; `ended`: whether it has ended, for good; `walk`: how a
    `reversed` of an object in Python is stepped.
    """

    __slots__ = ("steps", "items", "over", "ended", "walk")
    is_true = True
    replays_first = True

    def __init__(self, cls: type, source: Source, value: Any) -> None:
        super().__init__(cls, source, value)
        self.steps = 0
        self.items: Sequence[Any] | None = None
        self.over: Object | None = None
        self.ended = False
        self.walk: ReversedItems | None = None

    def iter(self, vm: VM) -> Object:
        return self

    def next(self, vm: VM) -> Object | None:
        if self.ended:
            return None
        vm.effects.mutated(self)
        if self.steps == MANY_STEPS:
            self.break_graph(vm, f" after {MANY_STEPS} steps in one trace")
        if self.items is None:
            self.look(vm)
        if self.walk is not None:
            if not self.walk.is_steady():
                self.break_graph(vm, " over a sequence that was changed")
            vm.trail.set(self, "steps", self.steps + 1)
            return self.walk.next(vm)
        if self.over is not None and vm.effects.is_mutated(self.over):
            self.break_graph(vm, f" over a {classes.name(self.over.cls)} that was changed")
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

    def break_graph(self, vm: VM, why: str) -> NoReturn:
        """Break at this step."""
        vm.unsupported(breaks.IteratorFromOutside(f"a {classes.name(self.cls)}{why}"))

    def look(self, vm: VM) -> None:
        """Read what it iterates over, which must not change while the trace steps it."""
        if self.cls is not RANGE_ITERATOR:
            over = field_of(vm, self, "sequence")
            if over is not None and self.cls in LIVE:
                vm.trail.fill(self, "over", vm.observe(over))
            elif over is not None and self.cls in BACKWARD:
                if over.cls is tuple:
                    assert over.source is not None
                    vm.guard(TypeIs, over.source, tuple)
                else:
                    vm.trail.fill(self, "walk", self.walk_over(vm, vm.observe(over)))
            if over is not None and self.cls in DICT_ITERATORS:
                if field(self.value, "intact") != (True,):
                    self.break_graph(vm, " over a dict that has changed its size")
                assert self.source is not None
                vm.guard(Equals, self.source.child(IteratorField, "intact"), True)
        vm.trail.fill(self, "items", upcoming(self.value))

    def walk_over(self, vm: VM, sequence: Object) -> ReversedItems:
        """The `reversed` of an object in Python, in this one's position. Breaks unless the native interpreter may step this one as well."""
        (index,) = field(self.value, "position")
        walk = ReversedItems(vm, sequence, index)
        if not walk.is_steady():
            self.break_graph(vm, f" over a {classes.name(sequence.cls)}")
        assert self.source is not None
        vm.guard(Equals, self.source.child(IteratorField, "position"), index)
        return walk

    def replay(self, cg: Codegen) -> None:
        if not self.steps:
            return
        cg.load(self)
        if self.walk is not None:
            cg.load_const(-1 if self.walk.sequence is None else self.walk.index)
            cg.load_const(self.walk.sequence is None)
            cg.call_const(move_back, 3)
            cg.pop_top()
            return
        if self.steps == 1:
            cg.load_const(None)
            cg.call_const(next, 2)
        else:
            cg.load_const(self.steps)
            cg.call_const(advance, 2)
        cg.pop_top()


def field_of(vm: VM, iterator: Object, name: str) -> Object | None:
    """A field of an iterator from outside, unobserved; None if it holds nothing, which is guarded."""
    assert iterator.source is not None
    source, found = iterator.source.child(IteratorField, name), field(iterator.value, name)
    if not found:
        vm.guard(IsMissing, source)
        return None
    return vm.wrap(found[0], source)


def advance(iterator: Any, steps: int) -> None:
    """Run by generated code: take the items that the trace has taken; the last step may have found the end."""
    for _ in range(steps):
        next(iterator, None)


def move_back(iterator: Any, index: int, has_ended: bool) -> None:
    """Run by generated code: set the position of a `reversed`, or end it."""
    iterator.__setstate__(index)
    if has_ended:
        next(iterator, None)


@wraps(*OVER_SEQUENCES, shared=True)
def wrap_peeked(vm: VM, value: Any, source: Source) -> Object:
    """Wrap an iterator from outside; a user's subclass of `reversed` may do anything in a step."""
    cls = type(value)
    return (PeekedIterator if cls in OVER_SEQUENCES else ForeignIterator)(cls, source, value)
