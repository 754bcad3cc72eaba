"""Sets and frozensets: their order of iteration is that of real sets with the same history; objects of unknown hash come in order of insertion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import Any

from framejit import breaks
from framejit._runtime import type_name
from framejit.guards.container_sources import SetElement
from framejit.guards.kinds import Length, OrderOfCopy, SetEquals, ValueIs, places_in_copy
from framejit.guards.relations import Element, cannot_equal_others
from framejit.guards.set_order import order_after
from framejit.guards.source import MISSING, Source
from framejit.objects.core import abstract
from framejit.objects.core.addresses import tell_keys_apart
from framejit.objects.core.hash_keys import PythonKey, check_leaving, python_keys
from framejit.objects.core.object import (
    NUMBERS_OF_FIXED_HASH,
    VM,
    Codegen,
    Namespace,
    NotConstant,
    Object,
    Raise,
    settle,
    unhashable,
)
from framejit.objects.core.registry import wrapper_for, wraps
from framejit.objects.types.constobject import CONST_BUILDERS, c_new, is_plain, would_be_knowable
from framejit.objects.types.dictobject import attr_values, fill_attrs, has_attrs, instance_dict
from framejit.objects.types.iterobject import IteratorObject
from framejit.objects.types.setlayout import (
    ARBITRARY,
    EMPTY,
    ITSELF,
    Operand,
    SetLayout,
    laid_out,
    merged,
    played,
    stand_in,
    stand_ins,
    steps_with,
    told,
)
from framejit.objects.types.storedkeys import stored_elements
from framejit.program import classes

set_iterator: Any = type(iter(set()))
COPIES: Any = {frozenset, set.copy, set.union, frozenset.union, set.__or__, frozenset.__or__}
"""Methods that begin by copying their first operand: a copy of a copy has the same table."""


class SetObject(Operand):
    """A set or frozenset, or an instance of a subclass. `table` maps hash keys to elements; None until one from outside is opened.

    `layout`: the history of the set; for one with a real value, the changes that the trace has made since, None if there are none.
    `copied`: the set of objects from outside of which this is a copy, as long as it is one; `has_order`: whether the trace has gone through the copy.
    """

    __slots__ = ("table", "before", "layout", "copy", "copied", "has_order")

    def __init__(
        self, table: dict[Any, Object] | None, cls: type = set, source: Source | None = None, value: Any = MISSING, layout: SetLayout | None = None
    ) -> None:
        self.cls = cls
        self.source = source
        self.value = value
        self.attrs = None
        self.table = table
        self.before: dict[Any, Object] = {}
        self.layout = layout
        self.copy: Any = None  # of the real set, as a constant for generated code
        self.copied: SetObject | None = None
        self.has_order = False

    @property
    def family(self) -> Any:
        """set or frozenset."""
        return frozenset if issubclass(self.cls, frozenset) else set

    def open(self, vm: VM) -> dict[Any, Object]:
        """Hash key -> element; guards all elements of a set from outside, which must be fixed. The caller must not change the dict."""
        table = self.table
        if table is None:
            elements = list(self.family.__iter__(self.value))
            assert self.source is not None
            of_constants = all(map(is_plain, elements))
            if not all(map(is_fixed, elements)):
                table = stored_elements(vm, self.source, self.family, self.value)
            elif self.cls is frozenset and not of_constants:
                # It is immutable, and so are its elements: its identity determines all of it.
                vm.guard(ValueIs, self.source, self.value)
            else:
                vm.guard(SetEquals, self.source, tuple(elements))
            if table is None:
                known = [vm.const(element) if of_constants else vm.pin(element) for element in elements]
                table = {element.hash_key(vm): element for element in known}
            vm.trail.fill(self, "before", dict(table))
            vm.trail.fill(self, "table", table)
        return table

    def ordered(self, vm: VM) -> list[tuple[Any, Object]]:
        """(hash key, element) in the order of iteration. Breaks if that depends on a table that the trace can't see."""
        table = self.open(vm)
        if len(table) >= 2:
            self.rest_on_hashes(vm, table)
        if self.layout is None or len(table) < 2:
            return list(table.items())
        if self.copied is not None:
            return self.in_order_of_copy(vm, self.copied)
        if self.layout is ARBITRARY:
            self.reject_unseen(vm)
            if any(type(settle(element).source) is SetElement for element in table.values()):
                vm.unsupported(breaks.UnsupportedOperation("the order of a set of objects that were in a set made outside the compiled function"))
            if any(any(python_keys(key)) for key in table):
                vm.unsupported(breaks.UnsupportedOperation("the order of a set of objects some of which hash by Python code"))
            return [(key, table[key]) for key in set(table)] if all(map(is_plain, table)) else list(table.items())
        self.reject_unseen(vm)
        keys = {stand_in(key): key for key in table}
        return [(key, table[key]) for key in map(keys.__getitem__, self.layout.real())]

    def in_order_of_copy(self, vm: VM, original: SetObject) -> list[tuple[Any, Object]]:
        """(hash key, element) of a copy of a set from outside, in its order of iteration, which is guarded."""
        places = places_in_copy(original.value)
        assert places is not None and original.source is not None
        vm.guard(OrderOfCopy, original.source, places)
        vm.trail.fill(self, "has_order", True)
        return [list(original.before.items())[place] for place in places]

    def copy_as(self, vm: VM, cls: type, layout: SetLayout) -> SetObject:
        """A set or frozenset that is made as a copy of this one. `layout`: its history."""
        made = SetObject(dict(self.open(vm)), cls, layout=layout)
        is_kept = self.source is not None and self.layout is None and self.cls is self.family
        if is_kept and any(type(settle(element).source) is SetElement for element in self.before.values()):
            made.copied = self
        else:
            made.copied = self.copied
        return made

    def rest_on_hashes(self, vm: VM, table: Mapping[Any, Object]) -> None:
        """Note that the order of iteration may be another one in other processes, unless it is guarded, or follows from the hashes of numbers."""
        is_guarded = self.source is not None and self.cls is not frozenset and self.layout is None
        if not is_guarded and not all(element.cls in NUMBERS_OF_FIXED_HASH for element in table.values()):
            layout = self.layout if self.source is None else None
            steps = None if layout is None or layout is ARBITRARY else told(layout)
            if layout is None or steps is None or vm.guards.vouch(order_after, steps) != tuple(layout.real()):
                vm.guards.rest_on_process("the order of a set")

    def reject_changed(self, vm: VM) -> None:
        """Break for a set from outside: its order after a change depends on more than its elements and their order before."""
        if self.source is not None:
            vm.unsupported(breaks.UnsupportedOperation(f"the order of a {classes.name(self.cls)} made outside the compiled function and changed in it"))

    def reject_unseen(self, vm: VM) -> None:
        """Break for a set whose order depends on the table of one from outside, apart from that one's own order."""
        self.reject_changed(vm)
        if self.layout is not None and self.layout.has_objects_from_outside():
            vm.unsupported(breaks.UnsupportedOperation("the order of a set made from one that is made outside the compiled function"))

    def is_unseen(self) -> bool:
        """Return whether this is a set from outside that has been changed."""
        return self.source is not None and self.layout is not None

    def operand(self, vm: VM) -> Any:
        """The set as it is now, as an argument of a step in the history of another one; MISSING if its layout is arbitrary."""
        table = self.open(vm)
        if self.layout is ARBITRARY or any(stand_in(key) is MISSING for key in table):
            return MISSING
        if self.layout is None or self.family is frozenset:
            return self
        self.reject_changed(vm)
        if self.layout.operand is None:
            self.layout.operand = SetObject(dict(table), layout=self.layout)
        return self.layout.operand

    def has_objects_from_outside(self) -> bool:
        if self.source is not None:
            return any(any(python_keys(key)) for key in (*self.before, *(self.table or ())))
        return self.layout is not None and self.layout.has_objects_from_outside()

    def real_set(self) -> Any:
        return self.layout.real() if self.value is MISSING and self.layout is not None else self.value

    def step(self, vm: VM, method: Callable[..., Any], *args: Any) -> None:
        """Record a change of the table in the layout, and announce it."""
        self.part_from_copied(vm)
        vm.trail.set(self, "layout", laid_out(self.layout, method, *args))
        self.changed(vm)

    def part_from_copied(self, vm: VM) -> None:
        """Note that the set isn't a copy of another one any more, since it changes."""
        if self.copied is not None:
            vm.trail.set(self, "copied", None)

    def items(self, vm: VM) -> list[Object]:
        """The elements in the order of iteration."""
        return [element for _, element in self.ordered(vm)]

    def add(self, vm: VM, item: Object) -> None:
        """set.add: an equal element that is there already stays."""
        item = vm.observe(item)
        key = abstract.set_element(vm, item)
        table = self.open(vm)
        if key in table:
            return
        tell_keys_apart(vm, key, table)
        table[key] = item
        vm.trail.changed(self, table.pop, key)
        self.step(vm, set.update, stand_ins([key]))

    def remove(self, vm: VM, key: Any) -> bool:
        """Remove the element with this hash key; False if it is missing."""
        table = self.open(vm)
        if key not in table:
            tell_keys_apart(vm, key, table)
            return False
        self.replace(vm, {other: element for other, element in table.items() if other != key}, set.discard, stand_in(key))
        return True

    def replace(self, vm: VM, table: dict[Any, Object], method: Callable[..., Any], *args: Any) -> None:
        """Give the set the contents that `method(set, *args)` leaves in it."""
        self.open(vm)
        vm.trail.set(self, "table", table)
        self.step(vm, method, *args)

    def pop(self, vm: VM) -> Object:
        """set.pop of a set that is not empty. Where it starts to search depends on what was popped before."""
        table = self.open(vm)
        if len(table) > 1:
            self.reject_unseen(vm)
            self.rest_on_hashes(vm, table)
        if self.source is not None or self.layout is None or self.layout is ARBITRARY:
            key = self.ordered(vm)[0][0]
            layout = laid_out(self.layout, set.pop)
        else:
            found, layout = self.layout.pop()
            key = found if found in table else next(key for key in table if stand_in(key) is found)
        self.part_from_copied(vm)
        vm.trail.set(self, "table", {other: element for other, element in table.items() if other != key})
        vm.trail.set(self, "layout", layout)
        self.changed(vm)
        return table[key]

    def changed(self, vm: VM) -> None:
        """Announce a mutation."""
        if self.source is not None:
            vm.effects.mutated(self)

    def has_objects(self) -> bool:
        """Return whether this is a set from outside that the trace hasn't opened, and whose elements are objects that compare by identity, or constants. Guards
        nothing."""
        if self.table is not None:
            return False
        elements = list(self.family.__iter__(self.value))
        return not all(map(is_fixed, elements)) and all(map(cannot_equal_others, elements))

    def has(self, vm: VM, item: Object) -> bool:
        """Membership (Objects/setobject.c: set_contains)."""
        item = vm.observe(item)
        if self.has_objects() and is_plain_object(vm, item):
            is_in = item.source is not None and any(element is item.value for element in self.family.__iter__(self.value))
            if item.source is not None:
                assert self.source is not None
                vm.relate(Element, item.source, self.source, is_in)
            return is_in
        return self.holds(vm, looked_up(vm, item))

    def holds(self, vm: VM, key: Any) -> bool:
        """Membership of the element with this hash key."""
        table = self.open(vm)
        if key not in table:
            tell_keys_apart(vm, key, table)
        return key in table

    def is_known(self) -> bool:
        if self.table is None:
            return self.source is None
        return self.cls is frozenset and all(element.is_known() for element in self.table.values())

    def is_knowable(self) -> bool:
        if self.cls is not frozenset:
            return False
        if self.table is None:
            return is_plain(self.value)
        return all(would_be_knowable(element) for element in self.table.values())

    def constant(self, vm: VM) -> Any:
        if self.value is not MISSING and self.source is None:
            return self.value
        return self.filled(vm, [vm.observe(element).constant(vm) for element in self.items(vm)])

    def as_real(self, vm: VM) -> Any:
        if self.cls is not self.family:
            raise NotConstant(self)
        return self.filled(vm, [vm.observe(element).as_real(vm) for element in self.items(vm)])

    def filled(self, vm: VM, elements: list[Any]) -> Any:
        """A new real set of these real elements, given in the order of iteration; it iterates in that order too if they are their own hash keys."""
        same = self.layout not in (None, ARBITRARY) and all(is_plain(real) or real is key for real, (key, _) in zip(elements, self.ordered(vm)))
        return self.layout.take() if same and self.layout is not None and self.source is None else self.family(elements)

    def hash_key(self, vm: VM) -> Any:
        cls: Any = self.cls
        if cls.__hash__ is None:
            unhashable(vm, type_name(cls))
        if cls.__hash__ is not frozenset.__hash__:
            return self.identity_key(vm)
        return frozenset(self.open(vm))

    def instance_dict(self, vm: VM) -> Namespace | None:
        return None if self.cls in (set, frozenset) else instance_dict(vm, self)

    def iter(self, vm: VM) -> Object:
        return SetIterator(vm, self) if self.cls is self.family else Object.iter(self, vm)

    def truth(self, vm: VM) -> bool:
        return bool(self.count(vm)) if self.cls is self.family else Object.truth(self, vm)

    def length(self, vm: VM) -> Object:
        return vm.const(self.count(vm)) if self.cls is self.family else Object.length(self, vm)

    def count(self, vm: VM) -> int:
        """The number of elements. That of a set of objects from outside is guarded, and not the objects."""
        if not self.has_objects():
            return len(self.open(vm))
        size = self.family.__len__(self.value)
        assert self.source is not None
        vm.guard(Length, self.source, size)
        return size  # type: ignore[no-any-return]

    def contains(self, vm: VM, item: Object) -> Object | None:
        return vm.const(self.has(vm, item)) if self.cls is self.family else None

    def needs_fill(self) -> bool:
        return self.family is set and has_attrs(self)

    def reconstruct(self, cg: Codegen) -> None:
        assert self.table is not None
        if self.value is not MISSING:
            cg.load_const(self.value)
            return
        self.check_leaving()
        if self.has_order and self.copied is not None:
            self.emit_copy(cg, self.copied)
            return
        assert self.layout is not None
        layout, elements = self.layout, {stand_in(key): element for key, element in self.table.items()}
        if layout is ARBITRARY:
            keys = [*self.table]
            layout, elements = SetLayout(EMPTY, set.update, (keys,)) if self.family is set else SetLayout(None, frozenset, (keys,)), self.table
        (method, args), *steps = merged(layout.history())
        if self.cls is not self.family:
            cg.load_const(self.cls)
            emit_args(cg, args, elements)
            cg.call_const(c_new(self.cls), len(args) + 1)
        elif method is set and steps and steps[0][0] is set.update and steps[0][1][0] is not ITSELF:
            (first,) = steps.pop(0)[1]
            emit_args(cg, first if type(first) is list else (first,), elements, True)
            if type(first) is list:
                cg.build_set(len(first))
            else:
                cg.call_const(set, 1)
        else:
            emit_args(cg, args, elements, method in COPIES)
            cg.call_const(method, len(args))
        if steps:
            emit_steps(cg, steps, elements)

    def emit_copy(self, cg: Codegen, original: SetObject) -> None:
        """Push a copy of a set from outside, made as the program makes it: the trace knows its order."""
        if original.layout is not None:
            cg.unsupported(breaks.CannotReconstruct(f"a copy of a {classes.name(original.cls)} of objects that was changed afterwards"))
        cg.load(original)
        cg.call_const(self.cls, 1)

    def check_leaving(self) -> None:
        """Restart the trace if generated code that makes the set, or changes it, might hash an element to another number than the program has."""
        assert self.table is not None
        dropped = {key: key.objects[0] for key in steps_with(PythonKey, self.layout)}
        for used in (dropped, self.before, self.table):
            check_leaving(used, used.values(), self)

    def fill(self, cg: Codegen) -> None:
        fill_attrs(cg, self)

    def replay(self, cg: Codegen) -> None:
        assert self.table is not None and self.layout is not None
        self.check_leaving()
        if self.layout is not ARBITRARY:
            cg.load(self)
            known = {stand_in(key): element for table in (self.before, self.table) for key, element in table.items()}
            emit_steps(cg, merged(self.layout.history()), known)
            cg.pop_top()
            return
        before, after = self.before, self.table
        gone = [element for key, element in before.items() if after.get(key) is not element]
        new = [element for key, element in after.items() if before.get(key) is not element]  # which may be equal to one that is gone
        for method, elements in ((set.difference_update, gone), (set.update, new)):
            if elements:
                cg.load(self)
                for element in elements:
                    cg.load(element)
                cg.build_tuple(len(elements))
                cg.call_const(method, 2)
                cg.pop_top()

    def referents(self) -> list[Object]:
        return [*(self.table or {}).values(), *attr_values(self)]


def emit_steps(cg: Codegen, steps: list[tuple[Callable[..., Any], tuple[Any, ...]]], elements: dict[Any, Object]) -> None:
    """Change the set on top of the stack, step by step."""
    for method, args in steps:
        cg.load_const(method)
        emit_args(cg, args, elements)
        cg.build_tuple(len(args) + 1)
    cg.build_list(len(steps))
    cg.call_const(played, 2)


def emit_unchanged(cg: Codegen, operand: SetObject, copied: bool) -> None:
    """Push a set from outside as it was before the trace changed it. A copy has another table, which matters if its order does."""
    if operand.has_objects_from_outside():
        cg.unsupported(breaks.CannotReconstruct(f"a set made of a {classes.name(operand.cls)} of objects that was changed afterwards"))
    if operand.copy is None:
        operand.copy = operand.family(operand.value)
    if not copied and list(operand.copy) != list(operand.family.__iter__(operand.value)):
        cg.unsupported(breaks.CannotReconstruct(f"a set made of a {classes.name(operand.cls)} that was changed afterwards"))
    cg.load_const(operand.copy)


def emit_args(cg: Codegen, args: Iterable[Any], elements: dict[Any, Object], copies: bool = False) -> None:
    """Push arguments of steps. Elements that are no longer there are represented by their stand-ins. `copies`: the first is only copied."""
    for index, arg in enumerate(args):
        if issubclass(type(arg), SetObject):
            if arg.source is not None and arg.layout is not None:
                emit_unchanged(cg, arg, copies and index == 0)
            else:
                cg.load(arg)
        elif type(arg) in (list, dict):
            emit_args(cg, arg, elements)
            cg.build_list(len(arg))
            if type(arg) is dict:
                cg.call_const(dict.fromkeys, 1)
        elif arg in elements:
            cg.load(elements[arg])
        elif type(arg) is PythonKey:
            cg.load(arg.objects[0])
        elif any(python_keys(arg)):
            cg.unsupported(breaks.CannotReconstruct("a set from which objects that hash by Python code have been taken"))
        else:
            cg.load_const(arg)


class SetIterator(IteratorObject):
    """An iterator over a set; a change of size while it runs raises the RuntimeError of setiter_iternext."""

    __slots__ = ("vm", "place", "owner", "table", "elements", "index")

    def __init__(self, vm: VM, owner: SetObject) -> None:
        super().__init__(set_iterator)
        self.vm = vm
        self.place = vm.place()
        self.owner = owner
        self.table = owner.open(vm)
        self.elements = owner.items(vm)
        self.index = 0

    def next(self, vm: VM) -> Object | None:
        if self.index < 0:
            return None
        if len(self.owner.open(vm)) != len(self.elements):
            vm.raise_(RuntimeError, "Set changed size during iteration")
        if self.owner.table is not self.table:
            vm.unsupported(breaks.UnsupportedOperation("a step of an iterator over a set whose elements have changed"))
        if self.index == len(self.elements):
            vm.trail.set(self, "index", -1)
            return None
        item = self.elements[self.index]
        vm.trail.set(self, "index", self.index + 1)
        return item

    def length_hint(self, vm: VM) -> int | None:
        return len(self.elements) - self.index if self.index >= 0 and len(self.owner.open(vm)) == len(self.elements) else 0

    def reconstruct(self, cg: Codegen) -> None:
        self.vm.restart(self.place, breaks.InterruptedIterator("an iterator of a set"))


def looked_up(vm: VM, item: Object) -> Any:
    """The hash key by which an element is looked up or taken out: for a set that can't be hashed, that of its frozenset."""
    item = vm.observe(item)
    if not isinstance(item, SetObject) or item.family is not set:
        return abstract.set_element(vm, item)
    if vm.raw_type_lookup(item.cls, "__hash__") is None:
        return frozenset(item.open(vm))
    try:
        return abstract.set_element(vm, item)
    except Raise:
        vm.unsupported(breaks.UnsupportedOperation(f"the look-up of a {classes.name(item.cls)} in a set, since its __hash__ raises an exception"))


def is_plain_object(vm: VM, item: Object) -> bool:
    """Return whether a value that the trace has made, or found at a path, hashes and compares by identity; guards that its class says so."""
    if item.source is None and item.value is not MISSING:
        return False
    return all(vm.raw_type_lookup(item.cls, name) is getattr(object, name) for name in ("__hash__", "__eq__"))


def is_fixed(value: Any) -> bool:
    """Return whether the identity of a value determines what it is equal to: a plain constant, a class, a function."""
    return is_plain(value) or wrapper_for(type(value)).by_identity or type(value) is FunctionType


@wraps(set, frozenset, shared=True)
def wrap_set(vm: VM, value: Any, source: Source) -> SetObject:
    """Wrap a set from outside: nothing is known about its contents yet."""
    return SetObject(None, type(value), source, value)


def const_frozenset(vm: VM, value: frozenset[Any]) -> SetObject:
    """A frozenset of real constants."""
    return SetObject({element: vm.const(element) for element in value}, frozenset, None, value)


CONST_BUILDERS[frozenset] = const_frozenset


def set_of(vm: VM, items: list[Object]) -> SetObject:
    """A new set of these elements, the first of equal ones."""
    table: dict[Any, Object] = {}
    for item in items:
        item = vm.observe(item)
        table.setdefault(abstract.set_element(vm, item), item)
    return SetObject(table, layout=laid_out(EMPTY, set.update, stand_ins(table)))
