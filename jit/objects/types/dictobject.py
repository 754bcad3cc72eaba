"""Dicts: those from outside are read key by key as needed, their order is exact, and their changes are recorded for replay.

State. `entries` maps hash keys to (key, value). If `complete`, it is the whole dict in its order, otherwise only the keys of the original that
have been looked up. For dicts from outside, `removed` (with the keys themselves) and `stores` hold the changes: the dict is the original, without `removed`,
overlaid with `stores`, in place for keys that are still there, and in order at the end for others. That needs no knowledge of the
original, so a store observes nothing.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Container, Iterator
from types import MemberDescriptorType
from typing import Any

from framejit import breaks
from framejit.guards.container_sources import DictKey, DictValueAt
from framejit.guards.kinds import DictKeys, IsPresent, KeyAbsent, Length
from framejit.guards.source import MISSING, CAttr, InstanceDict, Item, Path, Source
from framejit.objects.core import abstract
from framejit.objects.core.addresses import tell_keys_apart
from framejit.objects.core.hash_keys import check_leaving
from framejit.objects.core.object import VM, AddressKey, Codegen, Namespace, NotConstant, Object, settle, unhashable
from framejit.objects.core.registry import wraps
from framejit.objects.types.constobject import ConstObject, c_new, is_plain
from framejit.objects.types.dictkeys import PASSED_OVER, compares_by_identity, const_key, is_in_order, is_item, pop_from_ordered, to_move
from framejit.objects.types.iterobject import IteratorObject
from framejit.objects.types.loadedmodules import going_through_modules, module_found
from framejit.objects.types.openkeys import is_open, item_at_open_key
from framejit.objects.types.storedkeys import stored_entries
from framejit.program import classes

Entry = tuple[Object, Object]
NONE_PAST: frozenset[Any] = frozenset()
FAMILIES: tuple[Any, ...] = (OrderedDict, defaultdict, dict)


@wraps(dict, shared=True)
class DictObject(Namespace):
    """A dict or an instance of a subclass. `rewritten`: the original's contents no longer matter (it was cleared or reordered).

    `taken`: the keys that were removed so far, in this order, for iterators. `by_place`: see numbereddict.py. `has_addresses`: whether some keys are results of
    id() whose numbers nobody has asked for. `past`: the keys of an OrderedDict that dict's own methods have stored, and `plain_order`: the order in which its
    plain dict has the keys, if its own order was changed (see odictmethods.py).
    """

    __slots__ = (
        *("entries", "complete", "stores", "removed", "rewritten", "factory", "plain_keys", "taken", "by_place", "has_addresses"),
        *("past", "plain_order"),
    )

    def __init__(self, cls: type = dict, source: Source | None = None, value: Any = MISSING) -> None:
        self.cls = cls
        self.source = source
        self.value = value
        self.attrs = None
        self.entries: dict[Any, Entry] = {}
        self.complete = source is None
        self.stores: dict[Any, Entry] = {}
        self.removed: dict[Any, Object] = {}
        self.rewritten = False
        self.factory: Object | None = None
        self.plain_keys: bool | None = None
        self.taken: list[Any] = []
        self.by_place = self.has_addresses = False
        self.past: frozenset[Any] = NONE_PAST
        self.plain_order: tuple[Any, ...] | None = None

    @property
    def family(self) -> Any:
        """The C type whose storage this is: OrderedDict, defaultdict or dict."""
        return dict if self.cls is dict else next(base for base in FAMILIES if issubclass(self.cls, base))

    # Reading.

    def lookup(self, vm: VM, name: Any) -> Object | None:
        """The value of a plain constant key (or another hash key of a complete dict); None if it is missing. Guards that key only."""
        if not self.complete:
            found = self.stores.get(name)
            if found is not None:
                return found[1]
            if name in self.removed:
                return None
            found = self.entries.get(name, MISSING)
            if found is MISSING:
                return self._look_outside(vm, name)
            return None if found is None else found[1]
        if self.has_addresses and type(name) is not AddressKey:
            self.number_addresses(vm)
        found = self.entries.get(name)
        if found is None:
            tell_keys_apart(vm, name, self.entries)
        return None if found is None else found[1]

    def known(self, name: str) -> Object | None:
        """The value of a key as far as the trace has looked it up or stored it. Guards nothing."""
        entry = self.stores.get(name) or (None if name in self.removed else self.entries.get(name))
        return None if entry is None else entry[1]

    def _look_outside(self, vm: VM, name: Any) -> Object | None:
        """First lookup of a key in the original."""
        if not is_item(name) or not self.has_plain_keys():
            self.open(vm)
            return self.lookup(vm, name)
        source = self.source
        assert source is not None
        value = dict.get(self.value, name, MISSING)
        if self.value is sys.modules:
            value = module_found(vm, name, value)
        if value is MISSING:
            vm.guard(KeyAbsent, source, name)
            entry = None
        else:
            # Observed at once: if the value were never read, nothing else would guard that the key is there.
            entry = (const_key(vm, name), vm.observe(vm.wrap(value, source.child(Item, name))))
        entries = self.entries
        entries[name] = entry  # type: ignore[assignment]
        vm.trail.learned(self, entries.pop, name)
        return None if entry is None else entry[1]

    def has_plain_keys(self) -> bool:
        """Return whether looking a constant up in the original compares it only with constants of its own type.

        Otherwise a key of another type could be equal to it (a subclass of int, a NumPy number, an object with an `__eq__`).
        """
        if self.plain_keys is None:
            types = set(map(type, dict.__iter__(self.value)))
            self.plain_keys = types <= {str} or all(is_plain(key) or compares_by_identity(type(key)) for key in dict.__iter__(self.value))
        return self.plain_keys

    def open(self, vm: VM) -> dict[Any, Entry]:
        """The whole content, in order; guards all keys and their order the first time. Breaks for an OrderedDict whose order lacks some of its keys."""
        if self.past:
            vm.unsupported(breaks.UnsupportedOperation(PASSED_OVER))
        return self.stored(vm)

    def in_order_of(self, vm: VM, storage: type) -> dict[Any, Entry]:
        """The content in the order in which iterators and views of OrderedDict or of dict give it. An OrderedDict may lack some keys of its dict."""
        if storage is dict and self.family is OrderedDict:
            if self.source is not None:
                vm.unsupported(breaks.UnsupportedOperation("going through the plain dict of an OrderedDict, whose keys may have another order"))
            return self.in_plain_order()
        entries = self.stored(vm)
        return {name: entry for name, entry in entries.items() if not self.is_past(name)} if self.past else entries

    def in_plain_order(self) -> dict[Any, Entry]:
        """The content of a dict that the trace has made, in the order of a plain dict."""
        if self.plain_order is None:
            return self.entries
        return {name: self.entries[name] for name in (*self.plain_order, *self.entries)}

    def is_past(self, name: Any) -> bool:
        """Return whether the order of an OrderedDict lacks a key, which dict's own methods have stored."""
        if name not in self.past:
            return False
        return self.source is None or self.rewritten or name in self.removed or not dict.__contains__(self.value, name)

    def stored(self, vm: VM) -> dict[Any, Entry]:
        """The whole content; guards all keys and their order the first time."""
        if self.complete:
            if self.has_addresses:
                self.number_addresses(vm)
            return self.entries
        entries = self._entries_outside(vm)
        for key in self.removed:
            entries.pop(key, None)
        for key, entry in self.stores.items():
            old = entries.get(key)
            entries[key] = entry if old is None else (old[0], entry[1])
        vm.trail.fill(self, "entries", entries)
        vm.trail.fill(self, "complete", True)
        return entries

    def _entries_outside(self, vm: VM) -> dict[Any, Entry]:
        """The content that the dict had when the trace met it, in order; guards all keys and their order."""
        source, original = self.source, self.value
        assert source is not None
        if original is sys.modules:
            going_through_modules(vm)
        keys = list(dict.__iter__(original))
        ordered = issubclass(self.cls, OrderedDict)
        plain = all(type(key) is str or is_plain(key) for key in keys)
        if ordered and plain and not is_in_order(original):
            vm.unsupported(breaks.UnsupportedOperation(PASSED_OVER))
        entries: dict[Any, Entry] = {}
        if not keys:
            vm.guard(Length, source, 0)
        elif plain:
            keys = list(OrderedDict.__iter__(original)) if ordered else keys
            vm.guard(DictKeys, source, tuple(keys))
            for position, key in enumerate(keys):
                known = self.entries.get(key)
                if known is not None and type(key) is str:
                    entries[key] = known
                    continue
                # Looked up as 1, a key may be True; a tuple must be the very one in the dict (DictKey counts in the order of a plain dict).
                is_constant = ordered or type(key) is not tuple
                key_obj = const_key(vm, key) if is_constant else vm.wrap(key, source.child(DictKey, position))
                value = known[1] if known is not None else vm.wrap(dict.__getitem__(original, key), source.child(Item, key))
                entries[key] = (key_obj, value)
        elif ordered:
            vm.unsupported(breaks.UnsupportedOperation("going through an OrderedDict with objects as keys, whose order nothing guards"))
        else:
            return stored_entries(vm, source, original, self.entries)
        return entries

    def items(self, vm: VM) -> list[Entry]:
        """All (key, value) pairs, in order."""
        return list(self.open(vm).values())

    def get_item(self, vm: VM, key: Object) -> Object | None:
        """The value of any hashable key, or None if it is missing; `__missing__` isn't called."""
        key = vm.observe(key)
        if self.source is not None and is_open(key) and not (self.complete or self.stores or self.removed) and self.has_plain_keys():
            found = item_at_open_key(vm, self.source, self.value, key)
            if found is not MISSING:
                return found  # type: ignore[no-any-return]
        return self.lookup(vm, self.hash_key_of(vm, key))

    def hash_key_of(self, vm: VM, key: Object) -> Any:
        """The hash key of a key. An address whose number isn't known stands for itself in a dict that the trace made, if all keys there are addresses."""
        if self.source is None and self.cls is dict and all(type(other) is AddressKey for other in self.entries):
            address = key.address_key(vm, [other for other, _ in self.entries.values()])
            if address is not None:
                return address
        return abstract.dict_key(vm, key)

    def number_addresses(self, vm: VM) -> None:
        """Guard the numbers of the addresses among the keys, since other keys may be equal to them."""
        vm.trail.set(self, "has_addresses", False)
        vm.trail.set(self, "entries", {key.hash_key(vm): (key, value) for key, value in self.entries.values()})

    def has(self, vm: VM, key: Object) -> bool:
        """Return whether the key is there. If a dict from outside is empty, that is guarded, and not the absence of a constant key."""
        if self.source is not None and not self.stores and not dict.__len__(self.value) and isinstance(vm.observe(key), ConstObject):
            return bool(self.open(vm))
        return self.get_item(vm, key) is not None

    # Writing.

    def store(self, vm: VM, name: Any, value: Object) -> None:
        """Set the value of a plain constant key."""
        self.put(vm, name, const_key(vm, name), value)

    def changed_key(self, vm: VM, key: Object) -> Any:
        """The hash key of a key that is stored or removed: OrderedDict hashes it with hash() first, whose error says nothing about a dict."""
        return vm.observe(key).hash_key(vm) if self.family is OrderedDict else self.hash_key_of(vm, vm.observe(key))

    def set_item(self, vm: VM, key: Object, value: Object) -> None:
        """Set the value of any hashable key."""
        key = vm.observe(key)
        self.put(vm, self.changed_key(vm, key), key, value)

    def set_by_dict(self, vm: VM, key: Object, value: Object) -> None:
        """Set the value of any hashable key with dict's own store, which passes over the order that an OrderedDict keeps."""
        key = vm.observe(key)
        name = self.hash_key_of(vm, key)
        if self.family is OrderedDict and name not in (self.entries if self.source is None else self.stores):
            vm.trail.set(self, "past", self.past | {name})
        self._store(vm, name, key, value)

    def put(self, vm: VM, hash_key: Any, key: Object, value: Object) -> None:
        """Set the value of a key whose hash key is known; if the key is there already, it stays the same object."""
        if self.past and hash_key in self.past:
            self._enter_order(vm, hash_key)
        self._store(vm, hash_key, key, value)

    def _enter_order(self, vm: VM, name: Any) -> None:
        """Take a key out that the order of an OrderedDict lacks, since it is stored again, and then becomes the last one in the order."""
        if self.source is not None or type(name) is not str:  # the order would have another object as its key than the dict has
            vm.unsupported(breaks.UnsupportedOperation(PASSED_OVER))
        vm.trail.set(self, "past", self.past - {name})
        self.reorder(vm, {other: entry for other, entry in self.entries.items() if other != name} | {name: self.entries[name]})

    def reorder(self, vm: VM, entries: dict[Any, Entry]) -> None:
        """Change the order of an OrderedDict, but not that of its plain dict: `entries` are its entries."""
        if self.plain_order is None:
            vm.trail.set(self, "plain_order", tuple(self.entries))
        vm.trail.set(self, "entries", entries)
        if self.source is not None:
            vm.effects.mutated(self)

    def _store(self, vm: VM, hash_key: Any, key: Object, value: Object) -> None:
        """Set the value of a key, whatever its place in an order."""
        if self.has_addresses or (type(hash_key) is not str and not is_plain(hash_key)):
            self.lookup(vm, hash_key)  # which opens a dict from outside
        if type(hash_key) is AddressKey and not self.has_addresses:
            vm.trail.set(self, "has_addresses", True)
        if self.source is not None:
            self._put(vm, self.stores, hash_key, key, value)
            vm.effects.mutated(self)
            if not self.complete:
                return
        self._put(vm, self.entries, hash_key, key, value)

    def _put(self, vm: VM, table: dict[Any, Entry], hash_key: Any, key: Object, value: Object) -> None:
        old = table.get(hash_key)
        if old is None:
            table[hash_key] = (key, value)
            vm.trail.changed(self, table.pop, hash_key)
        else:
            table[hash_key] = (old[0], value)
            vm.trail.changed(self, table.__setitem__, hash_key, old)

    def delete(self, vm: VM, name: Any) -> bool:
        """Remove a plain constant key (or another hash key of a complete dict); False if it is missing."""
        if self.lookup(vm, name) is None:
            return False
        if name in self.past:
            vm.trail.set(self, "past", self.past - {name})
        if self.plain_order is not None:
            vm.trail.set(self, "plain_order", tuple(other for other in self.plain_order if other != name))
        if self.source is not None:
            if name in self.stores:
                self._take(vm, "stores", name)
            if name not in self.removed:
                self.removed[name] = (self.entries.get(name) or [const_key(vm, name)])[0]
                vm.trail.changed(self, self.removed.pop, name)
            vm.effects.mutated(self)
            if not self.complete:
                return True
        self._take(vm, "entries", name)
        return True

    def _take(self, vm: VM, table: str, name: Any) -> None:
        """Remove from a table; undone by restoring the old table, which keeps the order."""
        kept = dict(getattr(self, table))
        del kept[name]
        self.taken.append(name)
        vm.trail.changed(self, self.taken.pop)
        vm.trail.set(self, table, kept)

    def del_item(self, vm: VM, key: Object) -> bool:
        """Remove any hashable key; False if it is missing."""
        return self.delete(vm, self.changed_key(vm, key))

    def replace(self, vm: VM, entries: dict[Any, Entry]) -> None:
        """Replace the dict's whole contents (clear, move_to_end(last=False))."""
        for name in self.entries:
            self.taken.append(name)
            vm.trail.changed(self, self.taken.pop)
        vm.trail.set(self, "entries", entries)
        vm.trail.set(self, "past", NONE_PAST)
        vm.trail.set(self, "plain_order", None)
        if self.source is not None:
            vm.trail.set(self, "complete", True)
            vm.trail.set(self, "rewritten", True)
            vm.trail.set(self, "stores", dict(entries))
            vm.trail.set(self, "removed", {})
            vm.effects.mutated(self)

    def outdate(self, vm: VM, kept: Container[str], later: Callable[[str, Object], Object]) -> None:
        """Mark the values of a dict from outside, except those of the `kept` keys, as ones that native code will have replaced. `later(key, value)` returns the
        Object that takes a value's place."""
        changed = [key for key in dict.__iter__(self.value) if key not in kept and self.lookup(vm, key) is not None]
        vm.trail.set(self, "entries", self.entries | {key: (self.entries[key][0], later(key, self.entries[key][1])) for key in changed})
        vm.effects.mutated(self)

    def replaced(self) -> list[tuple[Source, Object]]:
        if self.source is None or self.rewritten:
            return []
        table = {**self.entries, **self.stores}
        found = [(self.source.child(Item, name), settle(entry[1])) for name, entry in table.items() if entry is not None and is_item(name)]
        if self.complete and not self.removed and not all(map(is_item, self.entries)):  # guards find all values by their places, but for those looked up before
            found += [(self.source.child(DictValueAt, place), settle(value)) for place, (_, value) in enumerate(self.entries.values())]
        return [(source, value) for source, value in found if value.source is not source]

    # Protocols.

    def instance_dict(self, vm: VM) -> Namespace | None:
        return None if self.cls is dict else instance_dict(vm, self)

    def hash_key(self, vm: VM) -> Any:
        if self.cls.__hash__ is None:
            unhashable(vm, self.type_name)
        return self.identity_key(vm)

    def truth(self, vm: VM) -> bool:
        if self.cls is not dict:
            return Object.truth(self, vm)
        return self.is_seen_to_hold_something(vm) or bool(self.open(vm))

    def is_seen_to_hold_something(self, vm: VM) -> bool:
        """Return whether a dict from outside certainly has an entry, whatever its keys are. False if finding out would need the whole dict."""
        if self.complete or self.removed:
            return False
        if not self.stores and not any(self.entries.values()):
            if not self.value:
                return False
            assert self.source is not None
            vm.guard(IsPresent, self.source.child(DictKey, 0))
        return True

    def length(self, vm: VM) -> Object:
        return vm.const(len(self.open(vm))) if self.cls is dict else Object.length(self, vm)

    def iter(self, vm: VM) -> Object:
        return DictIterator(vm, self, KEYS) if self.cls is dict else Object.iter(self, vm)

    def getitem(self, vm: VM, key: Object) -> Object | None:
        if self.cls is not dict:
            return None
        found = self.get_item(vm, key)
        if found is None:
            vm.raise_(KeyError, key)
        return found

    def setitem(self, vm: VM, key: Object, value: Object | None) -> bool:
        if self.cls is not dict:
            return False
        if value is not None:
            self.set_item(vm, key, value)
        elif not self.del_item(vm, key):
            vm.raise_(KeyError, key)
        return True

    def contains(self, vm: VM, item: Object) -> Object | None:
        return vm.const(self.has(vm, item)) if self.cls is dict else None

    def as_real(self, vm: VM) -> Any:
        if self.cls is not dict:
            raise NotConstant(self)
        return {vm.observe(key).as_real(vm): vm.observe(value).as_real(vm) for key, value in self.items(vm)}

    def as_graph_argument(self, vm: VM) -> Any:
        return {key.constant(vm): vm.observe(value).as_graph_argument(vm) for key, value in self.items(vm)}

    # Leaving the trace.

    def is_simple(self) -> bool:
        """Return whether the dict can be built in one step: no value could refer back to it."""
        return self.cls is dict and not any(settle(part).referents() for entry in self.entries.values() for part in entry)

    def needs_fill(self) -> bool:
        return not self.is_simple()

    def reconstruct(self, cg: Codegen) -> None:
        if self.is_simple():
            check_leaving(self.entries, [key for key, _ in self.entries.values()], self)
            for key, value in self.entries.values():
                cg.load(key)
                cg.load(value)
            cg.build_map(len(self.entries))
            return
        cg.load_const(self.cls)
        cg.call_const(c_new(self.cls), 1)

    def fill(self, cg: Codegen) -> None:
        self.emit_factory(cg)
        entries = self.in_plain_order()
        self.emit_stores(cg, entries)
        if self.plain_order is not None:
            self.emit_moves(cg, list(entries))
        fill_attrs(cg, self)

    def emit_stores(self, cg: Codegen, entries: dict[Any, Entry]) -> None:
        """`dict[key] = value` for each, by the C type's own store."""
        setitem = OrderedDict.__setitem__ if self.family is OrderedDict else dict.__setitem__
        check_leaving(entries, [key for key, _ in entries.values()], self)
        for hash_key, (key, value) in entries.items():
            if self.cls is dict:
                cg.load(value)
                cg.load(self)
                cg.load(key)
                cg.store_subscr()
                continue
            cg.load(self)
            cg.load(key)
            cg.load(value)
            cg.call_const(dict.__setitem__ if hash_key in self.past else setitem, 3)
            cg.pop_top()

    def emit_factory(self, cg: Codegen) -> None:
        """Set `default_factory`, unless it is the one that a dict from outside has."""
        if self.factory is None or (self.source is not None and settle(self.factory).source is self.source.child(CAttr, "default_factory")):
            return
        cg.load_const(defaultdict.__dict__["default_factory"])
        cg.load(self)
        cg.load(self.factory)
        cg.call_const(MemberDescriptorType.__set__, 3)
        cg.pop_top()

    def replay(self, cg: Codegen) -> None:
        self.emit_factory(cg)
        family = self.family
        if self.rewritten:
            cg.load(self)
            cg.call_const(family.clear, 1)
            cg.pop_top()
        check_leaving(self.removed, self.removed.values(), self)
        for key in () if self.rewritten else self.removed.values():
            cg.load(self)
            cg.load(key)
            cg.load_const(None)
            cg.call_const(pop_from_ordered if family is OrderedDict else family.pop, 3)
            cg.pop_top()
        self.emit_stores(cg, {name: entry for name, entry in self.stores.items() if not self.is_put_back(name, entry[1])})
        if self.plain_order is not None:
            there = [] if self.rewritten else [name for name in OrderedDict.__iter__(self.value) if name not in self.removed]
            self.emit_moves(cg, list(dict.fromkeys([*there, *self.stores])))

    def emit_moves(self, cg: Codegen, order: list[Any]) -> None:
        """Bring an OrderedDict that has its keys in this order into the order of `entries`."""
        for name in to_move(order, [name for name in self.entries if name not in self.past]):
            cg.load(self)
            cg.load(self.entries[name][0])
            cg.call_const(OrderedDict.move_to_end, 2)
            cg.pop_top()

    def is_put_back(self, name: Any, value: Object) -> bool:
        """Return whether a stored value is the one that the original has for the key."""
        if self.rewritten or name in self.removed or type(name) is not str:
            return False
        assert self.source is not None
        return settle(value).source is self.source.child(Item, name)

    def held_values(self) -> Iterator[tuple[Path, Object]]:
        if self.source is None:
            yield from ((((Item, Item.key(name)),), value) for name, (_, value) in self.entries.items() if type(name) is str)
        yield from super().held_values()

    def referents(self) -> list[Object]:
        table = self.entries if self.source is None else self.stores
        parts = [*self.removed.values(), *(part for entry in table.values() for part in entry)]
        if self.factory is not None:
            parts.append(self.factory)
        return parts + attr_values(self)


def dict_of(vm: VM, pairs: list[tuple[Object, Object]]) -> DictObject:
    """A new dict of these keys and values."""
    made = DictObject()
    for key, value in pairs:
        made.set_item(vm, key, value)
    return made


# Instance dicts of users' subclasses of builtin containers.


def instance_dict(vm: VM, obj: Object) -> Namespace | None:
    """The `__dict__` of an instance of a Python subclass of a builtin container, if it has one."""
    if obj.attrs is None and classes.dictoffset(obj.cls) != 0:
        attrs: Object = DictObject()
        if obj.source is not None:
            attrs = vm.observe(vm.wrap(object.__getattribute__(obj.value, "__dict__"), obj.source.child(InstanceDict)))
        vm.trail.fill(obj, "attrs", attrs)
    return obj.attrs


def has_attrs(obj: Object) -> bool:
    """Return whether an instance made by the trace has attributes that must be set."""
    return obj.source is None and obj.attrs is not None and bool(obj.attrs.entries)


def attr_values(obj: Object) -> list[Object]:
    """The values of the attributes of an instance made by the trace."""
    return [value for _, value in obj.attrs.entries.values()] if obj.source is None and obj.attrs is not None else []


def fill_attrs(cg: Codegen, obj: Object) -> None:
    """Set the attributes of an instance made by the trace."""
    if obj.attrs is None:
        return
    for key, value in obj.attrs.entries.values():
        cg.load(obj)
        cg.load(key)
        cg.load(value)
        cg.call_const(object.__setattr__, 3)
        cg.pop_top()


# Iterators.

KEYS, VALUES, ITEMS = "keys", "values", "items"
ITERATOR_TYPES: dict[tuple[type, str, bool], Any] = {
    (family, kind, backwards): type((reversed if backwards else iter)(getattr(family(), kind)()))
    for family in (dict, OrderedDict)
    for kind in (KEYS, VALUES, ITEMS)
    for backwards in (False, True)
}


def storage_of(mapping: DictObject) -> type:
    """OrderedDict, whose views and iterators have types of their own, or dict."""
    return OrderedDict if mapping.family is OrderedDict else dict


class DictIterator(IteratorObject):
    """An iterator over a dict's keys, values or items; a change of size while it runs raises the RuntimeError of dictiter_iternextkey."""

    __slots__ = ("mapping", "kind", "keys", "index", "backwards", "storage", "entries", "past", "size", "seen")

    def __init__(self, vm: VM, mapping: DictObject, kind: str, backwards: bool = False, storage: type | None = None) -> None:
        self.storage = storage or storage_of(mapping)
        super().__init__(ITERATOR_TYPES[self.storage, kind, backwards])
        self.mapping = mapping
        self.kind = kind
        self.keys = list(mapping.in_order_of(vm, self.storage))
        self.entries = mapping.stored(vm)
        self.past = mapping.past
        self.size = len(self.entries)
        self.seen = len(mapping.taken)
        if backwards:
            self.keys.reverse()
        self.index = 0
        self.backwards = backwards

    def next(self, vm: VM) -> Object | None:
        index = self.index
        if index < 0:
            return None
        entries, keys = self.mapping.entries, self.keys
        if self.storage is OrderedDict:
            self.check_ordered(vm)
        elif len(entries) != self.size:
            vm.trail.set(self, "size", -1)  # from here on it raises at every step
            vm.raise_(RuntimeError, "dictionary changed size during iteration")
        elif entries is not self.entries:
            taken = self.mapping.taken[self.seen :]
            is_moved = self.backwards or self.mapping.plain_order is not None
            if is_moved or any(key in entries and key in taken for key in keys[:index]):  # a key that was put in again comes once more
                vm.unsupported(breaks.UnsupportedOperation("a step of an iterator over a dict whose keys have changed"))
            keys = [*keys[:index], *self.keys_ahead(entries)]
            vm.trail.set(self, "keys", keys)
        if index == len(keys):
            vm.trail.set(self, "index", -1)
            return None
        if index == self.size:
            vm.trail.set(self, "index", -1)
            vm.raise_(RuntimeError, "dictionary keys changed during iteration")
        vm.trail.set(self, "index", index + 1)
        return view_item(vm, self.kind, entries[keys[index]])

    def is_intact(self) -> bool:
        """Return whether the dict has the same keys as at first, at the same positions."""
        entries = self.mapping.entries
        return entries is self.entries and len(entries) == self.size

    def check_ordered(self, vm: VM) -> None:
        """Objects/odictobject.c: odictiter_nextkey: after the last item the iterator has ended, whatever has changed; a change ends it as well."""
        if self.index == len(self.keys) or self.is_intact():
            return
        if self.mapping.past is not self.past:
            vm.unsupported(breaks.UnsupportedOperation(PASSED_OVER))
        if not self.mapping.entries:
            vm.unsupported(breaks.UnsupportedOperation("a step of an iterator over an OrderedDict that was emptied"))
        vm.trail.set(self, "index", -1)
        vm.raise_(RuntimeError, "OrderedDict mutated during iteration")

    def keys_ahead(self, entries: dict[Any, Entry]) -> list[Any]:
        """The keys still to come after deletions: those after the keys already given, which are the first of the dict unless they were put in again."""
        given = {key: position for position, key in enumerate(self.keys[: self.index])}
        ahead: list[Any] = []
        last = -1
        for key in entries:
            position = given.get(key, -1)
            if ahead or position <= last:
                ahead.append(key)
            else:
                last = position
        return ahead

    def length_hint(self, vm: VM) -> int | None:
        return 0 if self.index < 0 or len(self.mapping.entries) != self.size else len(self.keys) - self.index

    def reconstruct(self, cg: Codegen) -> None:
        if self.index < 0:
            cg.call_const(self.storage, 0)
        elif self.is_intact():
            cg.load(self.mapping)
        else:
            cg.unsupported(breaks.CannotReconstruct(f"a {classes.name(self.cls)} over a dict whose keys have changed since it was made"))
        cg.load_const(self.storage)
        cg.load_const(self.kind)
        cg.load_const(self.backwards)
        cg.load_const(max(self.index, 0))
        cg.call_const(dict_iterator_at, 5)

    def awaits(self) -> Object | None:
        return self.mapping if self.index >= 0 else None

    def referents(self) -> list[Object]:
        return [self.mapping] if self.index >= 0 else []


def dict_iterator_at(mapping: Any, storage: type, kind: str, backwards: bool, index: int) -> Any:
    """Run by generated code: an iterator over a dict, of dict's or OrderedDict's kind, that has already given `index` items."""
    view = getattr(storage, kind)(mapping)
    iterator = reversed(view) if backwards else iter(view)
    for _ in range(index):
        next(iterator)
    return iterator


def view_item(vm: VM, kind: str, entry: Entry) -> Object:
    """The item that a view of this kind gives for an entry."""
    return entry[0] if kind is KEYS else entry[1] if kind is VALUES else vm.from_real((entry[0], entry[1]))
