"""The methods of dict, OrderedDict and defaultdict (Objects/dictobject.c, odictobject.c, Modules/_collectionsmodule.c)."""

from __future__ import annotations

import functools
import itertools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from typing import NoReturn

from framejit import breaks
from framejit.guards.source import MISSING, CAttr
from framejit.objects import abstract, numbereddict, operators, text, typefields
from framejit.objects.calls import mapping_items
from framejit.objects.constobject import NONE, NOT_IMPLEMENTED
from framejit.objects.dictobject import ITEMS, KEYS, VALUES, DictIterator, DictObject, Entry
from framejit.objects.dictviews import DictView
from framejit.objects.object import VM, Object, call_special
from framejit.objects.registry import model_of, models
from framejit.objects.tupleobject import TupleObject


def is_mapping(vm: VM, obj: Object) -> bool:
    """Whether dict.update takes it for a mapping: it has `keys`."""
    return isinstance(obj, DictObject) or vm.raw_type_lookup(obj.cls, "keys") is not MISSING


def pairs_of(vm: VM, source: Object, family: type = dict) -> Iterator[tuple[Object, Object]]:
    """The pairs that `dict(source)` and `dict.update(source)` take, one by one (PyDict_MergeFromSeq2)."""
    source = vm.observe(source)
    if is_mapping(vm, source):
        yield from mapping_items(vm, source) or []
        return
    for position, element in enumerate(abstract.each(vm, source)):
        element = vm.observe(element)
        if vm.raw_type_lookup(element.cls, "__iter__") is MISSING and vm.raw_type_lookup(element.cls, "__getitem__") is MISSING:
            refuse_pair(vm, family)
            vm.raise_(TypeError, f"cannot convert dictionary update sequence element #{position} to a sequence")
        pair = abstract.iterate(vm, element)
        if len(pair) != 2:
            refuse_pair(vm, family)
            vm.raise_(ValueError, f"dictionary update sequence element #{position} has length {len(pair)}; 2 is required")
        yield pair[0], pair[1]


def refuse_pair(vm: VM, family: type) -> None:
    """OrderedDict has messages of its own (Objects/odictobject.c: mutablemapping_add_pairs)."""
    if family is OrderedDict:
        vm.unsupported(breaks.UnsupportedCall("OrderedDict of what is no pair"))


def fill(vm: VM, target: DictObject, source: Object | None, kwargs: dict[str, Object]) -> None:
    """dict.update by C code: stores past any `__setitem__` of a subclass."""
    if source is not None:
        for key, value in pairs_of(vm, source, target.family):
            target.set_item(vm, key, value)
    for name, value in kwargs.items():
        target.store(vm, name, value)


@models(dict.__new__, OrderedDict.__new__, defaultdict.__new__)
def dict_new(vm: VM, cls: Object, /, *args: Object, **kwargs: Object) -> Object:
    made = DictObject(vm.observe(cls).constant(vm))
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
    fill(vm, made, source, kwargs)
    return made


@models(OrderedDict.__init__, OrderedDict.update)
def ordered_init(vm: VM, self: DictObject, source: Object | None = None, /, **kwargs: Object) -> Object:
    """Modules: mutablemapping_update; stores through `__setitem__`, which a subclass may override."""
    named = ((vm.const(name), value) for name, value in kwargs.items())
    for key, value in itertools.chain(() if source is None else pairs_of(vm, source, OrderedDict), named):
        abstract.setitem(vm, self, key, value)
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
        vm.trail.set(self, "factory", factory)
    return factory


@models(defaultdict.__dict__["default_factory"])
def default_factory(vm: VM, self: DictObject) -> Object:
    return factory_of(vm, self)


@models(defaultdict.__missing__)
def default_missing(vm: VM, self: DictObject, key: Object) -> Object:
    factory = vm.observe(factory_of(vm, self))
    if factory.cls is type(None):
        vm.raise_(KeyError, key)
    made = factory.call(vm, [], {})
    abstract.setitem(vm, self, key, made)
    return made


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


@models(dict.setdefault, OrderedDict.setdefault)
def setdefault(vm: VM, self: DictObject, key: Object, default: Object = NONE) -> Object:
    found = self.get_item(vm, key)
    if found is not None:
        return found
    self.set_item(vm, key, default)
    return default


@models(dict.pop, OrderedDict.pop)
def pop(vm: VM, self: DictObject, key: Object, default: Object | None = None) -> Object:
    # Objects/dictobject.c: _PyDict_Pop_KnownHash: an empty dict doesn't hash the key.
    found = self.get_item(vm, key) if self.family is OrderedDict or self.open(vm) else None
    if found is not None:
        self.del_item(vm, key)
        return found
    if default is None:
        if self.family is OrderedDict:
            raise_key(vm, key)
        vm.raise_(KeyError, key)
    return default


def raise_key(vm: VM, key: Object) -> NoReturn:
    """KeyError as OrderedDict's C code raises it, by PyErr_SetObject: None gives no arguments, a tuple all of them."""
    key = vm.observe(key)
    if key.cls is type(None):
        vm.raise_(KeyError)
    vm.raise_(KeyError, *(key.items(vm) if isinstance(key, TupleObject) else [key]))


def take_entry(vm: VM, self: DictObject, last: bool) -> Object:
    """Remove the last or the first entry and give it as a pair."""
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
    if last is None or abstract.truth(vm, last):
        self.delete(vm, hash_key)
        self.put(vm, hash_key, *entry)
    else:
        self.replace(vm, {hash_key: entry} | {other: kept for other, kept in entries.items() if other != hash_key})
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
def copy(vm: VM, self: DictObject) -> Object:
    return shallow(vm, self, dict)


@models(OrderedDict.copy)
def ordered_copy(vm: VM, self: DictObject) -> Object:
    if self.cls is OrderedDict:
        return shallow(vm, self, OrderedDict)
    made = abstract.call(vm, vm.const(self.cls), [])
    for key, value in self.items(vm):
        abstract.setitem(vm, made, key, value)
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
    for hash_key, (_, value) in list(left.items()):
        other = right.get(hash_key)
        if other is None or not operators.equal(vm, value, other[1]):
            return False
    return True


def equality(expected: bool, ordered: bool) -> Callable[..., Object]:
    """The model of `==` or `!=`; two OrderedDicts are compared with their order."""

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
    made = shallow(vm, self, dict)
    fill(vm, made, other, {})
    return made


@models(dict.__ror__)
def ror(vm: VM, self: DictObject, other: Object) -> Object:
    other = vm.observe(other)
    return or_(vm, other, self) if isinstance(other, DictObject) else NOT_IMPLEMENTED


@models(OrderedDict.__or__, defaultdict.__or__)
def family_or(vm: VM, self: DictObject, other: Object) -> Object:
    other = vm.observe(other)
    if not isinstance(other, DictObject):
        return NOT_IMPLEMENTED
    if self.family is defaultdict:
        made = vm.observe(default_copy(vm, self))
    else:
        made = vm.observe(abstract.call(vm, vm.const(self.cls), [self]))
    return merged(vm, self, made, other)


@models(OrderedDict.__ror__, defaultdict.__ror__)
def family_ror(vm: VM, self: DictObject, other: Object) -> Object:
    other = vm.observe(other)
    if not isinstance(other, DictObject):
        return NOT_IMPLEMENTED
    args: list[Object] = [factory_of(vm, self), other] if self.family is defaultdict else [other]
    made = vm.observe(abstract.call(vm, vm.const(self.cls), args))
    return merged(vm, self, made, self)


def merged(vm: VM, self: DictObject, made: Object, other: DictObject) -> Object:
    """What the class has made for a `|`, with the items of the right operand. A `__new__` may have made something else than a dict."""
    if not isinstance(made, DictObject):
        vm.unsupported(breaks.UnsupportedOperation(f"| on a {self.type_name} whose class makes a {made.type_name}"))
    fill(vm, made, other, {})
    return made


@models(dict.__ior__, OrderedDict.__ior__)
def ior(vm: VM, self: DictObject, other: Object) -> Object:
    fill(vm, self, other, {})
    return self


@models(dict.__repr__)
def render(vm: VM, self: DictObject) -> Object:
    return text.repr_of_items(vm, self, "{}", lambda: [f"{text.real_repr(vm, key)}: {text.real_repr(vm, value)}" for key, value in self.items(vm)])


SHOWN_AS_DICT = "{" in repr(OrderedDict(a=1))
"""Newer Pythons write an OrderedDict's items as a dict's, older ones as pairs."""


@models(OrderedDict.__repr__)
def render_ordered(vm: VM, self: DictObject) -> Object:
    name = typefields.name_of(vm, self.cls)
    if not self.open(vm):
        return vm.const(f"{name}()")
    if text.is_being_rendered(self):
        return vm.const("...")
    brackets, pair = ("{}", "{}: {}") if SHOWN_AS_DICT else ("[]", "({}, {})")
    body = text.repr_of_items(vm, self, brackets, lambda: [pair.format(text.real_repr(vm, key), text.real_repr(vm, value)) for key, value in self.items(vm)])
    return vm.const(f"{name}({body.constant(vm)})")


@models(defaultdict.__repr__)
def render_default(vm: VM, self: DictObject) -> Object:
    return vm.const(f"{typefields.name_of(vm, self.cls)}({text.real_repr(vm, factory_of(vm, self))}, {render(vm, self).constant(vm)})")


def past_the_order(model: Callable[..., Object], name: str) -> Callable[..., Object]:
    """The model of a method of dict that OrderedDict overrides: called on an OrderedDict, it goes past the order that this keeps."""

    @functools.wraps(model)
    def checked(vm: VM, self: Object, /, *args: Object, **kwargs: Object) -> Object:
        if isinstance(self, DictObject) and self.family is OrderedDict:
            vm.unsupported(breaks.UnsupportedCall(f"dict.{name} on an OrderedDict"))
        return model(vm, self, *args, **kwargs)

    return checked


for _name in ("__delitem__", "__setitem__", "__iter__", "__reversed__", "clear", "items", "keys", "pop", "popitem", "setdefault", "update", "values"):
    _real = getattr(dict, _name)
    if getattr(OrderedDict, _name) is not _real and (_model := model_of(_real)) is not None:
        models(_real)(past_the_order(_model, _name))
