"""Dicts from outside that have OrderedDicts without items, such as the hooks of a module: one guard says so, and no Objects are made of them.

Models have hundreds of modules with several such dicts each, which nothing else looks at.
"""

from __future__ import annotations

from collections.abc import Sequence

from framejit.guards.kinds import ItemsEmpty, is_empty, values_at
from framejit.objects.core.object import VM, Object
from framejit.objects.types.dictobject import DictObject


def rest_on_empty_items(vm: VM, holder: DictObject, names: tuple[str, ...]) -> bool:
    """Guard that a dict from outside has an OrderedDict without items at each of these keys, and return True.

    Return False, and guard nothing, if it hasn't, or if the trace has changed one of these OrderedDicts.
    """
    if holder.source is None or holder.complete or holder.rewritten or not holder.has_plain_keys():
        return False
    if any(name in holder.stores or name in holder.removed or name in holder.entries for name in names):
        return False
    items = values_at(holder.value, names)
    if not all(map(is_empty, items)) or is_one_changed(vm, items):
        return False
    vm.guard(ItemsEmpty, holder.source, names)
    return True


def is_one_changed(vm: VM, items: Sequence[object]) -> bool:
    """Return whether the trace has changed one of these values from outside, by whichever path it has come to it."""
    return any(isinstance(effect, Object) and effect.value is item for effect in vm.effects.all() for item in items)
