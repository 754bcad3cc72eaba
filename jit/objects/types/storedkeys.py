"""Objects that are keys of a dict or elements of a set from outside: its table has their hashes, from when they were put in, and nothing hashes them again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from framejit import breaks
from framejit._runtime import stored_hashes, type_name
from framejit.guards.container_sources import DictKey, DictValueAt, SetElement
from framejit.guards.kinds import Length, StoredHashes
from framejit.guards.source import Source
from framejit.objects.core.hash_keys import python_keys
from framejit.objects.core.object import VM, Object, Raise
from framejit.objects.types.constobject import is_plain
from framejit.objects.types.setlayout import holds_object
from framejit.program import classes


def stored_key(vm: VM, key: Object) -> Any:
    """The hash key of an object that a container from outside has: the program doesn't hash it now."""
    mark = vm.trail.mark()
    try:
        found = vm.observe(key).hash_key(vm)
    except Raise:
        vm.unsupported(breaks.ComparesByPython(f"a {classes.qualname(key.cls)}, whose __hash__ raises an exception by now,"))
    if vm.effects.has_changed_since(mark):
        vm.unsupported(breaks.ComparesByPython(f"a {classes.qualname(key.cls)}, whose __hash__ changes something,"))
    return found


def guard_hashes(vm: VM, source: Source, container: Any, keys: Sequence[Any]) -> None:
    """Guard that objects which code of the program's hashes are in a dict or set from outside with the hashes that they have now. `keys`: the hash keys of all
    that is in it, in order. Breaks if that isn't so now, or if two of them are equal by now."""
    if len(set(keys)) < len(stored_hashes(container)):
        vm.unsupported(breaks.ComparesByPython(f"of the objects in a {type_name(type(container))}, two that have become equal,"))
    hashes = tuple([hash(key) if any(python_keys(key)) else None for key in keys])
    if not any(expected is not None for expected in hashes):
        return
    for key, expected, stored in zip(keys, hashes, stored_hashes(container)):
        if expected is not None and (holds_object(key) or expected != stored):
            what = classes.qualname(next(python_keys(key)).objects[0].cls)
            vm.unsupported(breaks.ComparesByPython(f"a {what} that was put in with another hash, or together with other objects,"))
    vm.guards.rest_on_process("the hashes of objects in a dict or set")
    vm.guard(StoredHashes, source, hashes)


def stored_entries(vm: VM, source: Source, original: dict[Any, Any], known: dict[Any, Any]) -> dict[Any, tuple[Object, Object]]:
    """The keys and values of a dict from outside that has objects as keys, by their hash keys, in order. Each call finds them by their places. `known`: those
    that have been looked up before."""
    vm.guard(Length, source, dict.__len__(original))
    entries: dict[Any, tuple[Object, Object]] = {}
    for position, (key, value) in enumerate(dict.items(original)):  # looking keys up would run the program's __hash__
        obj = vm.observe(vm.wrap(key, source.child(DictKey, position)))
        found = known.get(key) if is_plain(key) else None
        entries[stored_key(vm, obj)] = (obj, vm.wrap(value, source.child(DictValueAt, position)) if found is None else found[1])
    guard_hashes(vm, source, original, list(entries))
    return entries


def stored_elements(vm: VM, source: Source, family: Any, original: Any) -> dict[Any, Object]:
    """The elements of a set of objects from outside, by their hash keys, in the order of iteration. Each call finds them by their places."""
    elements = list(family.__iter__(original))
    vm.guard(Length, source, len(elements))
    found = [vm.observe(vm.wrap(element, source.child(SetElement, index))) for index, element in enumerate(elements)]
    table = {stored_key(vm, element): element for element in found}
    guard_hashes(vm, source, original, list(table))
    return table
