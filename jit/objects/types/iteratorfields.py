"""Iterators whose whole state is a few fields (enumerate, zip, map, filter, most of itertools), and the effect of a step on these fields.

The fields are CPython's, under its names. An iterator made by the trace is rebuilt from the fields that it has by then; for one from outside,
the fields that a step reads are guarded, and those that it changes are set after the graph.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from framejit._runtime import ITERATOR_FIELDS, set_iterator_fields
from framejit.guards.iterators import FIELDS
from framejit.guards.source import MISSING, Source
from framejit.objects.core import operators
from framejit.objects.core.object import VM, Codegen, Object, settle
from framejit.objects.core.registry import wraps
from framejit.objects.types.iterobject import ForeignIterator, callable_iterator, load_slots, stop_iteration_ends
from framejit.objects.types.peekediterator import field_of
from framejit.objects.types.tupleobject import TupleObject
from framejit.plain import support
from framejit.program import classes

STEPS: dict[int, Callable[[Any], Any]] = {}
"""The step of each iterator in plain Python (jit/plain), by the identity of its type: a function of its fields that returns the item or END."""


class FieldIterator(Object):
    """An exact builtin iterator. `fields`: the fields that it was made with or that were read, by their names in CPython; None for one that holds nothing."""

    __slots__ = ("fields", "changed")
    is_true = True

    def __init__(self, cls: type, fields: dict[str, Object | None], source: Source | None = None, value: Any = MISSING) -> None:
        super().__init__(cls, source, value)
        self.fields = fields
        self.changed: tuple[str, ...] = ()

    def iter(self, vm: VM) -> Object:
        return self

    def next(self, vm: VM) -> Object | None:
        """A step, as in STEPS. A StopIteration raised by the program's code ends the iteration, as in C."""
        found = stop_iteration_ends(vm, lambda: vm.call_app(STEPS[id(self.cls)], [FieldsObject(self)]))
        return None if found is None or settle(found).value is support.END else found

    def get(self, vm: VM, name: str) -> Object | None:
        """The content of a field, unobserved; None if it holds nothing."""
        if name not in self.fields:
            self.store(vm, name, field_of(vm, self, full_name(self.cls, name)))
        return self.fields[name]

    def set(self, vm: VM, name: str, value: Object | None) -> None:
        """Change a field; None means that it holds nothing."""
        self.store(vm, name, value)
        if name not in self.changed:
            vm.trail.set(self, "changed", (*self.changed, name))
        vm.effects.mutated(self)

    def store(self, vm: VM, name: str, value: Object | None) -> None:
        vm.trail.set(self, "fields", {**self.fields, name: value})

    def reconstruct(self, cg: Codegen) -> None:
        iterators = self.fields.get("ittuple")
        cg.load_const(self.cls)
        cg.load_const(len(settle(iterators).elements) if iterators is not None else 0)  # type: ignore[attr-defined]
        cg.call_const(without_contents, 2)

    def needs_fill(self) -> bool:
        return self.source is None

    def fill(self, cg: Codegen) -> None:
        self.write(cg, tuple(self.fields))

    def replay(self, cg: Codegen) -> None:
        self.write(cg, self.changed)

    def write(self, cg: Codegen, names: Sequence[str]) -> None:
        """Emit code that sets fields to their present contents."""
        cg.load(self)
        cg.load_const(tuple(full_name(self.cls, name) for name in names))
        load_slots(cg, [self.fields[name] for name in names])
        cg.call_const(set_iterator_fields, 3)
        cg.pop_top()

    def referents(self) -> list[Object]:
        names = self.fields if self.source is None else self.changed
        return [value for name in names if (value := self.fields[name]) is not None]


class FieldsObject(Object):
    """The fields of an iterator as attributes of one value, for the code of its step."""

    __slots__ = ("iterator",)

    def __init__(self, iterator: FieldIterator) -> None:
        super().__init__(object)
        self.iterator = iterator

    def getattr(self, vm: VM, name: str) -> Object:
        found = self.iterator.get(vm, name)
        return vm.pin(support.NULL) if found is None else found

    def setattr(self, vm: VM, name: str, value: Object | None) -> None:
        assert value is not None
        self.iterator.set(vm, name, None if settle(value).value is support.NULL else value)


class EnumerateIterator(FieldIterator):
    """`enumerate(iterator, start)`."""

    __slots__ = ()

    def next(self, vm: VM) -> Object | None:
        item = inner(vm, self.get(vm, "it")).next(vm)
        if item is None:
            return None
        count = self.get(vm, "count")
        assert count is not None
        self.set(vm, "count", operators.binary_op(vm, "+", count, vm.const(1)))
        return TupleObject([count, item])


class ZipIterator(FieldIterator):
    """`zip(*iterators, strict=...)` (Python/bltinmodule.c: zip_next)."""

    __slots__ = ()

    def next(self, vm: VM) -> Object | None:
        iterators = inner(vm, self.get(vm, "ittuple")).items(vm)  # type: ignore[attr-defined]
        items = []
        for position, iterator in enumerate(iterators):
            item = inner(vm, iterator).next(vm)
            if item is None:
                check_strict(vm, self, position, iterators)
                return None
            items.append(item)
        return TupleObject(items) if items else None


MAP_HAS_STRICT = "map.strict" in ITERATOR_FIELDS[map]


class MapIterator(FieldIterator):
    """`map(function, *iterators)`, from 3.14 on with `strict=...` (Python/bltinmodule.c: map_next)."""

    __slots__ = ()

    def next(self, vm: VM) -> Object | None:
        iterators = inner(vm, self.get(vm, "iters")).items(vm)  # type: ignore[attr-defined]
        args = []
        for position, iterator in enumerate(iterators):
            item = inner(vm, iterator).next(vm)
            if item is None:
                if MAP_HAS_STRICT:
                    check_strict(vm, self, position, iterators)
                return None
            args.append(item)
        return stop_iteration_ends(vm, lambda: inner(vm, self.get(vm, "func")).call(vm, args, {}))


class FilterIterator(FieldIterator):
    """`filter(function, iterator)`; None keeps what is true."""

    __slots__ = ()

    def next(self, vm: VM) -> Object | None:
        function, iterator = inner(vm, self.get(vm, "func")), inner(vm, self.get(vm, "it"))
        is_truth = function.cls is type(None) or function.value is bool
        while (item := iterator.next(vm)) is not None:
            verdict = item if is_truth else stop_iteration_ends(vm, lambda: function.call(vm, [item], {}))
            if verdict is None:
                return None
            if vm.observe(verdict).truth(vm):
                return item
        return None


def inner(vm: VM, held: Object | None) -> Object:
    """The content of a field that always holds something, observed."""
    assert held is not None
    return vm.observe(held)


def check_strict(vm: VM, iterator: FieldIterator, position: int, iterators: Sequence[Object]) -> None:
    """The one of a zip's or map's iterators at `position` has ended: if the zip or map is strict, raise ValueError unless all others end too."""
    strict = iterator.get(vm, "strict")
    if strict is None or not strict.constant(vm):
        return
    name = classes.name(iterator.cls)
    if position:
        vm.raise_(ValueError, f"{name}() argument {position + 1} is shorter than argument{plural(position)}")
    for later in range(1, len(iterators)):
        if inner(vm, iterators[later]).next(vm) is not None:
            vm.raise_(ValueError, f"{name}() argument {later + 1} is longer than argument{plural(later)}")


def plural(position: int) -> str:
    """CPython's " 1" or "s 1-2" in the messages of zip and map."""
    return " 1" if position == 1 else f"s 1-{position}"


def full_name(cls: type, name: str) -> str:
    """A field's name, prefixed with that of its type."""
    return f"{classes.name(cls)}.{name}"


def made_by(cls: Any, *args: Any) -> Callable[[int], Any]:
    """A constructor for an iterator that keeps no tuple for its results."""
    return lambda size: cls(*args)


WITHOUT_CONTENTS: dict[Any, Callable[[int], Any]] = {
    enumerate: lambda size: enumerate(()),
    zip: lambda size: zip(*[()] * size),
    map: lambda size: map(bool, ()),
    filter: lambda size: filter(None, ()),
    callable_iterator: lambda size: iter(int, 1),
    support.SequenceIterator: lambda size: iter(support.Sequenced()),
    itertools.chain: lambda size: itertools.chain(),
    itertools.compress: lambda size: itertools.compress((), ()),
    itertools.count: lambda size: itertools.count(),
    itertools.repeat: lambda size: itertools.repeat(None),
    itertools.islice: lambda size: itertools.islice((), 0),
    itertools.zip_longest: lambda size: itertools.zip_longest(*[()] * size),
    **{cls: made_by(cls, None, ()) for cls in (itertools.starmap, itertools.takewhile, itertools.dropwhile, itertools.filterfalse)},
    **{cls: made_by(cls, ()) for cls in (itertools.accumulate, itertools.cycle, itertools.pairwise)},
    **{cls: made_by(cls, (), 1) for cls in ITERATOR_FIELDS if cls.__name__ == "batched"},
}
"""The constructors of iterators whose fields will be set, by type. An iterator that keeps a tuple for its results has room for `size` iterators."""


def without_contents(cls: type, size: int) -> Any:
    """An iterator of a type whose fields are about to be set (runs in generated code)."""
    return WITHOUT_CONTENTS[cls](size)


OF_THEIR_OWN: dict[Any, type[FieldIterator]] = {enumerate: EnumerateIterator, zip: ZipIterator, map: MapIterator, filter: FilterIterator}


@wraps(*ITERATOR_FIELDS, shared=True)
def wrap_fields(vm: VM, value: Any, source: Source) -> Object:
    """Wrap an iterator from outside; a user's subclass may do anything in a step."""
    cls = type(value)
    if id(cls) not in FIELDS:
        return ForeignIterator(cls, source, value)
    return OF_THEIR_OWN.get(cls, FieldIterator)(cls, {}, source, value)
