"""The ways in which a dict takes the items of another mapping: C code copies some mappings as they are stored, and calls the own methods of others.

dict's C code (Objects/dictobject.c: dict_merge) copies a dict, or an instance of a subclass, as it is stored if its class has dict's own `__iter__`.
OrderedDict has another one, so `keys()` and the items of it and its subclasses are asked for, as for any other mapping. The methods of OrderedDict
(Objects/odictobject.c: mutablemapping_update) ask all but exact dicts, and store with the target's own `__setitem__`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from framejit.guards.source import MISSING
from framejit.objects.core import abstract, wording
from framejit.objects.core.object import VM, Object, Raise, wrong_result
from framejit.objects.types.dictobject import KEYS, DictObject, Entry
from framejit.objects.types.dictviews import DictView


def is_copied_as_stored(vm: VM, mapping: Object) -> bool:
    """Return whether dict's C code copies the entries of a mapping without calling any method."""
    return isinstance(mapping, DictObject) and (mapping.cls is dict or vm.raw_type_lookup(mapping.cls, "__iter__") is dict.__iter__)


def unchecked(key: Object) -> None:
    """A check that accepts any key."""


def entries_of(vm: VM, mapping: Object, check: Callable[[Object], None] = unchecked) -> Iterator[Entry]:
    """The items of a mapping one by one, as dict_merge takes them. All keys come first; each is checked before its value is asked for.

    Raises the traced AttributeError if there is no `keys`.
    """
    mapping = vm.observe(mapping)
    if is_copied_as_stored(vm, mapping):
        entries = mapping.items(vm)  # type: ignore[attr-defined]
    else:
        found = vm.observe(abstract.call_method(vm, mapping, "keys"))
        if not is_stored_order(vm, found, mapping):
            for key in listed_keys(vm, mapping, found):
                check(key)
                yield key, abstract.getitem(vm, mapping, key)
            return
        entries = found.mapping.items(vm)  # type: ignore[attr-defined]
    for key, value in entries:
        check(key)
        yield key, value


def is_stored_order(vm: VM, keys: Object, mapping: Object) -> bool:
    """Return whether asking for these keys and their items gives what is stored: the keys are a dict's own view, and its `__getitem__` is dict's own."""
    is_view = isinstance(keys, DictView) and keys.kind is KEYS and keys.mapping is mapping
    return is_view and vm.raw_type_lookup(mapping.cls, "__getitem__") is dict.__getitem__


def listed_keys(vm: VM, mapping: Object, keys: Object) -> list[Object]:
    """Objects/abstract.c: method_output_as_list: the list of what `mapping.keys()` has returned."""
    try:
        iterator = abstract.iter_(vm, keys)
    except Raise as raised:
        if issubclass(raised.exc.cls, TypeError):
            wrong_result(vm, mapping, "keys", "an iterable", keys, f"{mapping.type_name}.keys() returned a non-iterable (type {keys.type_name})")
        raise
    return abstract.list_of(vm, iterator)


def has_keys(vm: VM, source: Object) -> bool:
    """Return whether the argument of `dict(source)` counts as a mapping: it has an attribute `keys`, which is looked up."""
    if isinstance(source, DictObject) and not abstract.has_hooks(vm, source.cls) and vm.raw_type_lookup(source.cls, KEYS) is source.family.keys:
        return True
    return abstract.lookup_attr(vm, source, KEYS) is not None


def reject_item(vm: VM, position: int) -> NoReturn:
    """Raise the error for an item that isn't iterable."""
    with naming_item(vm, position):
        vm.raise_(TypeError, wording.NOT_A_SEQUENCE.replace("#0", f"#{position}"))
    raise AssertionError


@contextmanager
def naming_item(vm: VM, position: int) -> Iterator[None]:
    """Name the item in a TypeError raised in the block, as the running Python does: in a note, or in another error."""
    try:
        yield
    except Raise as raised:
        if not issubclass(raised.exc.cls, TypeError):
            raise
        if not wording.NAMES_ITEM_IN_NOTE:
            vm.raise_(TypeError, wording.NOT_A_SEQUENCE.replace("#0", f"#{position}"))
        abstract.call_method(vm, raised.exc, "add_note", vm.const(f"Cannot convert dictionary update sequence element #{position} to a sequence"))
        raise


def update_items(vm: VM, source: Object) -> Iterator[Entry]:
    """The items that `dict(source)` and `dict.update(source)` take, one by one: those of a mapping, or pairs (Objects/dictobject.c: dict_update_arg)."""
    source = vm.observe(source)
    if has_keys(vm, source):
        yield from entries_of(vm, source)
        return
    for position, element in enumerate(abstract.each(vm, source)):
        element = vm.observe(element)
        if vm.raw_type_lookup(element.cls, "__iter__") is MISSING and vm.raw_type_lookup(element.cls, "__getitem__") is MISSING:
            reject_item(vm, position)
        with naming_item(vm, position):
            pair = abstract.sequence_items(vm, element)
        if len(pair) != 2:
            vm.raise_(ValueError, f"dictionary update sequence element #{position} has length {len(pair)}; 2 is required")
        yield pair[0], pair[1]


def fill(vm: VM, target: DictObject, source: Object | None, kwargs: dict[str, Object]) -> None:
    """dict.update in C: it bypasses any `__setitem__` of a subclass."""
    if source is not None:
        for key, value in update_items(vm, source):
            target.set_by_dict(vm, key, value)
    for name, value in kwargs.items():
        target.set_by_dict(vm, vm.const(name), value)


def update_by_methods(vm: VM, target: Object, source: Object | None, kwargs: dict[str, Object]) -> None:
    """Objects/odictobject.c: mutablemapping_update."""
    if source is not None:
        update_by_one(vm, target, source)
    for name, value in kwargs.items():
        abstract.setitem(vm, target, vm.const(name), value)


def update_by_one(vm: VM, target: Object, source: Object) -> None:
    """Objects/odictobject.c: mutablemapping_update_arg."""
    source = vm.observe(source)
    if isinstance(source, DictObject) and source.cls is dict:
        for key, value in source.items(vm):
            abstract.setitem(vm, target, key, value)
        return
    keys = abstract.lookup_attr(vm, source, KEYS)
    if keys is not None:
        for key in abstract.each(vm, abstract.call(vm, keys, [])):
            abstract.setitem(vm, target, key, abstract.getitem(vm, source, key))
        return
    items = abstract.lookup_attr(vm, source, "items")
    add_pairs(vm, target, source if items is None else abstract.call(vm, items, []))


def add_pairs(vm: VM, target: Object, pairs: Object) -> None:
    """Objects/odictobject.c: mutablemapping_add_pairs."""
    for pair in abstract.each(vm, pairs):
        iterator = abstract.iter_(vm, pair)
        key = abstract.next_(vm, iterator)
        if key is None:
            vm.raise_(ValueError, "need more than 0 values to unpack")
        value = abstract.next_(vm, iterator)
        if value is None:
            vm.raise_(ValueError, "need more than 1 value to unpack")
        if abstract.next_(vm, iterator) is not None:
            vm.raise_(ValueError, "too many values to unpack (expected 2)")
        abstract.setitem(vm, target, key, value)
