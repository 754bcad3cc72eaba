"""The methods of dict, OrderedDict and defaultdict (Objects/dictobject.c, odictobject.c, Modules/_collectionsmodule.c)."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import NoReturn

from framejit import breaks
from framejit.guards.source import MISSING, CAttr
from framejit.objects.core import abstract, differences, operators, text
from framejit.objects.core.hash_keys import check_settled
from framejit.objects.core.object import VM, Object, call_special
from framejit.objects.core.registry import models, sets
from framejit.objects.types import merging, numbereddict, typefields
from framejit.objects.types.constobject import NONE, NOT_IMPLEMENTED
from framejit.objects.types.dictobject import ITEMS, KEYS, VALUES, DictIterator, DictObject, Entry
from framejit.objects.types.dictviews import DictView
from framejit.objects.types.merging import fill
from framejit.objects.types.tupleobject import TupleObject


@models(dict.__new__, OrderedDict.__new__, defaultdict.__new__)
def dict_new(vm: VM, cls: Object, /, *args: Object, **kwargs: Object) -> Object:
    made = DictObject(abstract.class_to_make(vm, cls))
    if made.family is defaultdict:
        made.factory = NONE
    return made


@models(dict.__init__)
def dict_init(vm: VM, self: DictObject, source: Object | None = None, /, **kwargs: Object) -> Object:
    fill(vm, self, source, kwargs)
    return NONE


@models(dict)
def make_dict(vm: VM, source: Object | None = None, /, **kwargs: Object) -> Object:
    made = DictObject()
    fill(vm, made, source, kwargs)
    return made


@models(OrderedDict)
def make_ordered_dict(vm: VM, source: Object | None = None, /, **kwargs: Object) -> Object:
    made = DictObject(OrderedDict)
    merging.update_by_methods(vm, made, source, kwargs)
    return made


@models(OrderedDict.__init__, OrderedDict.update)
def ordered_init(vm: VM, self: DictObject, source: Object | None = None, /, **kwargs: Object) -> Object:
    """Objects/odictobject.c: mutablemapping_update: stores with `__setitem__`, which a subclass may override."""
    merging.update_by_methods(vm, self, source, kwargs)
    return NONE


@models(defaultdict.__init__)
def default_init(vm: VM, self: DictObject, factory: Object | None = None, source: Object | None = None, /, **kwargs: Object) -> Object:
    factory = NONE if factory is None else vm.observe(factory)
    if factory.cls is not type(None) and vm.raw_type_lookup(factory.cls, "__call__") is MISSING:
        vm.raise_(TypeError, "first argument must be callable or None")
    vm.trail.set(self, "factory", factory)
    fill(vm, self, source, kwargs)
    return NONE


@models(defaultdict)
def make_defaultdict(vm: VM, factory: Object | None = None, source: Object | None = None, /, **kwargs: Object) -> Object:
    made = DictObject(defaultdict)
    default_init(vm, made, factory, source, **kwargs)
    return made


def factory_of(vm: VM, self: DictObject) -> Object:
    """`default_factory`."""
    factory = self.factory
    if factory is None:
        assert self.source is not None
        factory = vm.wrap(self.value.default_factory, self.source.child(CAttr, "default_factory"))
        vm.trail.fill(self, "factory", factory)
    return factory


@models(defaultdict.__dict__["default_factory"])
def default_factory(vm: VM, self: DictObject) -> Object:
    return factory_of(vm, self)


@sets(defaultdict.__dict__["default_factory"])
def set_default_factory(vm: VM, self: DictObject, value: Object | None) -> None:
    vm.trail.set(self, "factory", NONE if value is None else value)
    if self.source is not None:
        vm.effects.mutated(self)


@models(defaultdict.__missing__)
def default_missing(vm: VM, self: DictObject, key: Object) -> Object:
    factory = vm.observe(factory_of(vm, self))
    if factory.cls is type(None):
        vm.raise_(KeyError, key)
    made = factory.call(vm, [], {})
    if not differences.MISSING_IS_STORED:
        abstract.setitem(vm, self, key, made)
        return made
    found = self.get_item(vm, key)
    if found is None:
        self.set_item(vm, key, made)
    return made if found is None else found


@models(dict.update)
def update(vm: VM, self: DictObject, source: Object | None = None, /, **kwargs: Object) -> Object:
    fill(vm, self, source, kwargs)
    return NONE


@models(dict.__getitem__)
def getitem(vm: VM, self: DictObject, key: Object) -> Object:
    """dict_subscript, with `__missing__` for subclasses."""
    found = self.get_item(vm, key)
    if found is not None:
        return found
    if self.cls is not dict:
        missing = call_special(vm, self, "__missing__", key)
        if missing is not None:
            return missing
    vm.raise_(KeyError, key)


@models(dict.__setitem__, OrderedDict.__setitem__)
def setitem(vm: VM, self: DictObject, key: Object, value: Object) -> Object:
    self.set_item(vm, key, value)
    return NONE


@models(dict.__delitem__, OrderedDict.__delitem__)
def delitem(vm: VM, self: DictObject, key: Object) -> Object:
    if not self.del_item(vm, key):
        vm.raise_(KeyError, key)
    return NONE


@models(dict.__contains__)
def contains(vm: VM, self: DictObject, key: Object) -> Object:
    return vm.const(self.has(vm, key))


@models(dict.__len__)
def length(vm: VM, self: DictObject) -> Object:
    return vm.const(numbereddict.length(vm, self))


@models(dict.get)
def get(vm: VM, self: DictObject, key: Object, default: Object = NONE) -> Object:
    found = self.get_item(vm, key)
    return default if found is None else found


@models(OrderedDict.setdefault)
def ordered_setdefault(vm: VM, self: DictObject, key: Object, default: Object = NONE) -> Object:
    """OrderedDict_setdefault_impl: for an instance of a subclass, its own methods are called."""
    if self.cls is OrderedDict:
        return setdefault(vm, self, key, default)
    if abstract.truth(vm, operators.contains(vm, self, key)):
        return abstract.getitem(vm, self, key)
    abstract.setitem(vm, self, key, default)
    return default


@models(dict.setdefault)
def setdefault(vm: VM, self: DictObject, key: Object, default: Object = NONE) -> Object:
    found = self.get_item(vm, key)
    if found is not None:
        return found
    self.set_item(vm, key, default)
    return default


@models(OrderedDict.pop)
def ordered_pop(vm: VM, self: DictObject, key: Object, default: Object | None = None) -> Object:
    if self.past:
        self.open(vm)  # which breaks: Pythons differ in what is removed if the order lacks the key
    return pop(vm, self, key, default)


@models(dict.pop)
def pop(vm: VM, self: DictObject, key: Object, default: Object | None = None) -> Object:
    # Objects/dictobject.c: _PyDict_Pop_KnownHash: an empty dict doesn't hash the key.
    found = self.lookup(vm, self.changed_key(vm, key)) if self.family is OrderedDict or self.open(vm) else None
    if found is not None:
        self.del_item(vm, key)
        return found
    if default is None:
        if self.family is OrderedDict:
            raise_key(vm, key)
        vm.raise_(KeyError, key)
    return default


def raise_key(vm: VM, key: Object) -> NoReturn:
    """Raise KeyError as OrderedDict's C code does, by PyErr_SetObject: None means no arguments, and a tuple is all of them."""
    key = vm.observe(key)
    if key.cls is type(None):
        vm.raise_(KeyError)
    if isinstance(key, TupleObject) and key.cls is not tuple:
        vm.unsupported(breaks.UnsupportedOperation("the KeyError of an OrderedDict about a named tuple, which itself becomes its arguments"))
    vm.raise_(KeyError, *(key.items(vm) if isinstance(key, TupleObject) else [key]))


def take_entry(vm: VM, self: DictObject, last: bool) -> Object:
    """Remove the last or the first entry and return it as a pair."""
    entries = self.open(vm)
    if not entries:
        vm.raise_(KeyError, "dictionary is empty" if self.family is OrderedDict else "popitem(): dictionary is empty")
    hash_key = next(reversed(entries)) if last else next(iter(entries))
    key, value = entries[hash_key]
    self.delete(vm, hash_key)
    return TupleObject([key, value])


@models(dict.popitem)
def popitem(vm: VM, self: DictObject) -> Object:
    return take_entry(vm, self, True)


@models(OrderedDict.popitem)
def ordered_popitem(vm: VM, self: DictObject, last: Object | None = None) -> Object:
    return take_entry(vm, self, last is None or abstract.truth(vm, last))


@models(OrderedDict.move_to_end)
def move_to_end(vm: VM, self: DictObject, key: Object, last: Object | None = None) -> Object:
    entries = self.open(vm)
    hash_key = vm.observe(key).hash_key(vm)
    entry = entries.get(hash_key)
    if entry is None:
        raise_key(vm, key)
    is_last = last is None or abstract.truth(vm, last)
    if hash_key != next(reversed(entries) if is_last else iter(entries)):
        others = {other: kept for other, kept in entries.items() if other != hash_key}
        self.reorder(vm, others | {hash_key: entry} if is_last else {hash_key: entry} | others)
    return NONE


@models(dict.clear, OrderedDict.clear)
def clear(vm: VM, self: DictObject) -> Object:
    self.replace(vm, {})
    return NONE


def shallow(vm: VM, self: DictObject, cls: type) -> DictObject:
    """A copy with the same entries."""
    made = DictObject(cls)
    made.entries = dict(self.open(vm))
    return made


@models(dict.copy)
def copy(vm: VM, self: DictObject) -> DictObject:
    """PyDict_Copy."""
    if merging.is_copied_as_stored(vm, self) or not self.open(vm):
        return shallow(vm, self, dict)
    made = DictObject()
    for key, value in merging.entries_of(vm, self):
        made.set_item(vm, key, value)
    return made


@models(OrderedDict.copy)
def ordered_copy(vm: VM, self: DictObject) -> Object:
    """odict_copy: for an instance of a subclass, its own `__getitem__` is called, in the stored order."""
    if self.cls is OrderedDict:
        return shallow(vm, self, OrderedDict)
    made = abstract.call(vm, vm.const(self.cls), [])
    entries = self.open(vm)
    for key, _ in list(entries.values()):
        abstract.setitem(vm, made, key, abstract.getitem(vm, self, key))
        if self.entries is not entries:
            vm.unsupported(breaks.UnsupportedOperation(f"copying a {self.type_name} whose __getitem__ changes its order"))
    return made


@models(defaultdict.copy, defaultdict.__copy__)
def default_copy(vm: VM, self: DictObject) -> Object:
    if self.cls is not defaultdict:
        return abstract.call(vm, vm.const(self.cls), [factory_of(vm, self), self])
    made = shallow(vm, self, defaultdict)
    made.factory = factory_of(vm, self)
    return made


@models(dict.__dict__["fromkeys"], OrderedDict.__dict__["fromkeys"])
def fromkeys(vm: VM, cls: Object, iterable: Object, value: Object = NONE) -> Object:
    cls = vm.observe(cls)
    made = abstract.call(vm, cls, [])
    if vm.raw_type_lookup(vm.observe(made).cls, "__setitem__") is MISSING:
        vm.unsupported(breaks.UnsupportedCall(f"fromkeys() of {abstract.type_name(vm, made)}, which takes no new items"))
    for key in abstract.each(vm, iterable):
        abstract.setitem(vm, made, key, value)
    return made


@models(dict.keys, OrderedDict.keys)
def keys(vm: VM, self: DictObject) -> Object:
    return DictView(self, KEYS)


@models(dict.values, OrderedDict.values)
def values(vm: VM, self: DictObject) -> Object:
    return DictView(self, VALUES)


@models(dict.items, OrderedDict.items)
def items(vm: VM, self: DictObject) -> Object:
    return DictView(self, ITEMS)


@models(dict.__iter__, OrderedDict.__iter__)
def iterate(vm: VM, self: DictObject) -> Object:
    return DictIterator(vm, self, KEYS)


@models(dict.__reversed__, OrderedDict.__reversed__)
def backwards(vm: VM, self: DictObject) -> Object:
    return DictIterator(vm, self, KEYS, True)


def same_entries(vm: VM, left: dict[object, Entry], right: dict[object, Entry]) -> bool:
    """dict_equal."""
    if len(left) != len(right):
        return False
    check_settled((*left, *right))
    for hash_key, (_, value) in list(left.items()):
        other = right.get(hash_key)
        if other is None or not operators.equal(vm, value, other[1]):
            return False
    return True


def equality(expected: bool, ordered: bool) -> Callable[..., Object]:
    """The model of `==` or `!=`; the comparison of two OrderedDicts includes their order."""

    def model(vm: VM, self: DictObject, other: Object) -> Object:
        other = vm.observe(other)
        if not isinstance(other, DictObject):
            return NOT_IMPLEMENTED
        left, right = self.open(vm), other.open(vm)
        same = same_entries(vm, left, right)
        if same and ordered and issubclass(other.cls, OrderedDict):
            same = list(left) == list(right)
        return vm.const(same is expected)

    return model


models(dict.__eq__)(equality(True, False))
models(dict.__ne__)(equality(False, False))
models(OrderedDict.__eq__)(equality(True, True))
models(OrderedDict.__ne__)(equality(False, True))


@models(*[vars(dict)[name] for name in ("__lt__", "__le__", "__gt__", "__ge__")])
def unordered(vm: VM, self: DictObject, other: Object) -> Object:
    return NOT_IMPLEMENTED


@models(dict.__or__)
def or_(vm: VM, self: DictObject, other: Object) -> Object:
    other = vm.observe(other)
    if not isinstance(other, DictObject):
        return NOT_IMPLEMENTED
    made = copy(vm, self)
    fill(vm, made, other, {})
    return made


@models(dict.__ror__)
def ror(vm: VM, self: DictObject, other: Object) -> Object:
    other = vm.observe(other)
    return or_(vm, other, self) if isinstance(other, DictObject) else NOT_IMPLEMENTED


@models(OrderedDict.__or__)
def ordered_or(vm: VM, self: DictObject, other: Object) -> Object:
    """odict_or: the result is made by the class of the left operand if that is an OrderedDict, or else by that of the right one."""
    other = vm.observe(other)
    return united(vm, self, self, other) if isinstance(other, DictObject) else NOT_IMPLEMENTED


@models(OrderedDict.__ror__)
def ordered_ror(vm: VM, self: DictObject, other: Object) -> Object:
    other = vm.observe(other)
    if not isinstance(other, DictObject):
        return NOT_IMPLEMENTED
    return united(vm, other if issubclass(other.cls, OrderedDict) else self, other, self)


def united(vm: VM, maker: DictObject, left: DictObject, right: DictObject) -> Object:
    """An instance of the class of `maker`, made from the left operand, with the items of the right one added."""
    made = abstract.call(vm, vm.const(maker.cls), [left])
    merging.update_by_one(vm, made, right)
    return made


@models(defaultdict.__or__)
def default_or(vm: VM, self: DictObject, other: Object) -> Object:
    """defdict_or."""
    other = vm.observe(other)
    if not isinstance(other, DictObject):
        return NOT_IMPLEMENTED
    return merged(vm, self, vm.observe(default_copy(vm, self)), other)


@models(defaultdict.__ror__)
def default_ror(vm: VM, self: DictObject, other: Object) -> Object:
    other = vm.observe(other)
    if not isinstance(other, DictObject):
        return NOT_IMPLEMENTED
    if issubclass(other.cls, defaultdict):
        return default_or(vm, other, self)
    return merged(vm, self, vm.observe(abstract.call(vm, vm.const(self.cls), [factory_of(vm, self), other])), self)


def merged(vm: VM, self: DictObject, made: Object, other: DictObject) -> Object:
    """Add the items of the right operand to the object that the class has made for a `|`. A `__new__` may have made something other than a dict."""
    if not isinstance(made, DictObject):
        vm.unsupported(breaks.UnsupportedOperation(f"| on a {self.type_name} whose class makes a {made.type_name}"))
    for key, value in merging.entries_of(vm, other):
        made.set_item(vm, key, value)
    return made


@models(dict.__ior__)
def ior(vm: VM, self: DictObject, other: Object) -> Object:
    fill(vm, self, other, {})
    return self


@models(OrderedDict.__ior__)
def ordered_ior(vm: VM, self: DictObject, other: Object) -> Object:
    merging.update_by_one(vm, self, other)
    return self


@models(dict.__repr__)
def render(vm: VM, self: DictObject) -> Object:
    def parts() -> list[str]:
        return [f"{text.real_repr(vm, key)}: {text.real_repr(vm, value)}" for key, value in self.in_order_of(vm, dict).values()]

    return text.repr_of_items(vm, self, "{}", parts)


SHOWN_AS_DICT = "{" in repr(OrderedDict(a=1))
"""Newer Pythons show an OrderedDict as a dict made from it. Older ones show pairs, for which they call the own `items` of a subclass."""


@models(OrderedDict.__repr__)
def render_ordered(vm: VM, self: DictObject) -> Object:
    name = typefields.name_of(vm, self.cls)
    if not self.open(vm):
        return vm.const(f"{name}()")
    if text.is_being_rendered(self):
        return vm.const("...")
    brackets, pair = ("{}", "{}: {}") if SHOWN_AS_DICT else ("[]", "({}, {})")

    def parts() -> list[str]:
        if self.cls is not OrderedDict and not SHOWN_AS_DICT:
            return [text.real_repr(vm, item) for item in abstract.list_of(vm, abstract.call_method(vm, self, ITEMS))]
        shown = merging.entries_of(vm, self) if SHOWN_AS_DICT else self.items(vm)
        return [pair.format(text.real_repr(vm, key), text.real_repr(vm, value)) for key, value in shown]

    body = text.repr_of_items(vm, self, brackets, parts)
    return vm.const(f"{name}({body.constant(vm)})")


@models(defaultdict.__repr__)
def render_default(vm: VM, self: DictObject) -> Object:
    return vm.const(f"{typefields.name_of(vm, self.cls)}({text.real_repr(vm, factory_of(vm, self))}, {render(vm, self).constant(vm)})")
