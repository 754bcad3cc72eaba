"""The methods of list (Objects/listobject.c)."""

from __future__ import annotations

from collections.abc import Iterable

from framejit import breaks
from framejit.objects.core import abstract, differences, operators, text, wording
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import models
from framejit.objects.types.constobject import NONE
from framejit.objects.types.iterobject import ReverseIterator, SequenceIterator, list_iterator, list_reverse_iterator
from framejit.objects.types.listobject import ListObject
from framejit.objects.types.sequence import COMPARISONS, bounds, checked_index, comparison, find, real_slice, repeat, same_kind, sort_order
from framejit.objects.types.sliceobject import SliceObject

for _name, _symbol in COMPARISONS.items():
    models(getattr(list, _name))(comparison(_symbol, list))


@models(list.__new__)
def list_new(vm: VM, cls: Object, /, *args: Object, **kwargs: Object) -> Object:
    return ListObject([], abstract.class_to_make(vm, cls))


@models(list.__init__)
def list_init(vm: VM, self: ListObject, iterable: Object | None = None) -> Object:
    if self.items(vm):
        self.replace(vm, [])
    if iterable is not None:
        extend_by(vm, self, iterable)
    return NONE


@models(list)
def make_list(vm: VM, iterable: Object | None = None) -> Object:
    return ListObject([] if iterable is None else abstract.list_of(vm, iterable))


@models(list.append)
def append(vm: VM, self: ListObject, item: Object) -> Object:
    self.append(vm, item)
    return NONE


def extend_by(vm: VM, self: ListObject, iterable: Object) -> None:
    """Append each item as it comes; the list itself is copied first."""
    iterable = vm.observe(iterable)
    if iterable is self:
        self.extend(vm, list(self.items(vm) if differences.EXTENDS_FROM_STORED else abstract.sequence_items(vm, iterable)))
        return
    if type(iterable) is ListObject and iterable.cls is list:
        self.extend(vm, list(iterable.items(vm)))
        return
    iterator = vm.observe(abstract.iter_(vm, iterable))
    abstract.ask_length(vm, iterable)
    while (item := iterator.next(vm)) is not None:
        self.append(vm, item)


@models(list.extend)
def extend(vm: VM, self: ListObject, iterable: Object) -> Object:
    extend_by(vm, self, iterable)
    return NONE


@models(list.__iadd__)
def iadd(vm: VM, self: ListObject, iterable: Object) -> Object:
    extend_by(vm, self, iterable)
    return self


@models(list.__add__)
def add(vm: VM, self: ListObject, other: Object) -> Object:
    return ListObject(self.items(vm) + same_kind(vm, other, list).items(vm))  # type: ignore[attr-defined]


@models(list.__mul__, list.__rmul__)
def mul(vm: VM, self: ListObject, times: Object) -> Object:
    return ListObject(repeat(vm, self, times))


@models(list.__imul__)
def imul(vm: VM, self: ListObject, times: Object) -> Object:
    self.replace(vm, repeat(vm, self, times))
    return self


@models(list.__len__)
def length(vm: VM, self: ListObject) -> Object:
    return vm.const(len(self.items(vm)))


@models(list.__iter__)
def iterate(vm: VM, self: ListObject) -> Object:
    return SequenceIterator(self, list_iterator)


@models(list.__reversed__)
def backwards(vm: VM, self: ListObject) -> Object:
    return ReverseIterator(self, len(self.items(vm)) - 1, list_reverse_iterator)


@models(list.__contains__)
def contains(vm: VM, self: ListObject, item: Object) -> Object:
    return vm.const(find(vm, self, item) >= 0)


@models(list.__getitem__)
def getitem(vm: VM, self: ListObject, key: Object) -> Object:
    key = vm.observe(key)
    if isinstance(key, SliceObject):
        taken = real_slice(vm, key)
        return ListObject(self.items(vm)[taken])
    position = checked_index(vm, key, self, "list")
    return self.items(vm)[position]


@models(list.__setitem__)
def setitem(vm: VM, self: ListObject, key: Object, value: Object) -> Object:
    key = vm.observe(key)
    if not isinstance(key, SliceObject):
        self.set_at(vm, checked_index(vm, key, self, "list", "assignment "), value)
        return NONE
    where = real_slice(vm, key)
    value = vm.observe(value)
    if vm.raw_type_lookup(value.cls, "__iter__") is abstract.MISSING and vm.raw_type_lookup(value.cls, "__getitem__") is abstract.MISSING:
        vm.raise_(TypeError, wording.NOT_ITERABLE_IN_SLICE if where.step in (None, 1) else "must assign iterable to extended slice")
    size = len(self.items(vm))
    given = list(self.items(vm)) if value is self else abstract.sequence_items(vm, value)
    new = list(self.items(vm))
    if len(new) != size:  # which size counts depends on the version of Python
        vm.unsupported(breaks.UnsupportedOperation("storing to a slice of a list whose size changes while the items to be stored are iterated over"))
    try:
        new[where] = given
    except ValueError as error:
        vm.raise_(ValueError, *error.args)
    self.replace(vm, new)
    return NONE


@models(list.__delitem__)
def delitem(vm: VM, self: ListObject, key: Object) -> Object:
    key = vm.observe(key)
    place = real_slice(vm, key) if isinstance(key, SliceObject) else checked_index(vm, key, self, "list", "assignment ")
    items = list(self.items(vm))
    del items[place]
    self.replace(vm, items)
    return NONE


@models(list.pop)
def pop(vm: VM, self: ListObject, index: Object | None = None) -> Object:
    position = -1 if index is None else operators.ssize_argument(vm, index)
    items = self.items(vm)
    if not items:
        vm.raise_(IndexError, "pop from empty list")
    if position == -1:
        return self.pop_last(vm)
    if not -len(items) <= position < len(items):
        vm.raise_(IndexError, "pop index out of range")
    new = list(items)
    item = new.pop(position)
    self.replace(vm, new)
    return item


@models(list.insert)
def insert(vm: VM, self: ListObject, index: Object, item: Object) -> Object:
    position = operators.ssize_argument(vm, index)
    new = list(self.items(vm))
    new.insert(position, item)
    self.replace(vm, new)
    return NONE


@models(list.remove)
def remove(vm: VM, self: ListObject, item: Object) -> Object:
    position = find(vm, self, item)
    if position < 0:
        vm.raise_(ValueError, "list.remove(x): x not in list")
    new = list(self.items(vm))
    del new[position : position + 1]  # the comparison may have changed the list
    self.replace(vm, new)
    return NONE


@models(list.clear)
def clear(vm: VM, self: ListObject) -> Object:
    self.replace(vm, [])
    return NONE


@models(list.copy)
def copy(vm: VM, self: ListObject) -> Object:
    return ListObject(list(self.items(vm)))


@models(list.index)
def index(vm: VM, self: ListObject, item: Object, start: Object | None = None, stop: Object | None = None) -> Object:
    position = find(vm, self, item, *bounds(vm, self, start, stop))
    if position < 0:
        text.missing_item(vm, item, "list", "index")
    return vm.const(position)


@models(list.count)
def count(vm: VM, self: ListObject, item: Object) -> Object:
    found = position = 0
    while position < len(items := self.items(vm)):  # a comparison may change the list
        found += operators.equal(vm, items[position], item)
        position += 1
    return vm.const(found)


@models(list.reverse)
def reverse(vm: VM, self: ListObject) -> Object:
    self.replace(vm, self.items(vm)[::-1])
    return NONE


class Meanwhile(list[Object]):
    """The contents of a list while it is being sorted. An item that was put in counts as a change, even if it was removed again."""

    modified = False

    def append(self, item: Object) -> None:
        self.modified = True
        super().append(item)

    def extend(self, items: Iterable[Object]) -> None:
        self.modified = True
        super().extend(items)


@models(list.sort)
def list_sort(vm: VM, self: ListObject, *, key: Object | None = None, reverse: Object | None = None) -> Object:
    """Objects/listobject.c: list_sort_impl: the list is empty during the sort, and must still be so at its end."""
    items = list(self.items(vm))
    order = list(range(len(items)))
    meanwhile = Meanwhile()
    self.replace(vm, meanwhile)
    try:
        sort_order(vm, items, order, key, reverse)
        modified = meanwhile.modified or bool(self.items(vm))
    finally:
        self.replace(vm, [items[i] for i in order])
    if modified:
        vm.raise_(ValueError, "list modified during sort")
    return NONE


@models(list.__repr__)
def render(vm: VM, self: ListObject) -> Object:
    return text.repr_of_items(vm, self, "[]", lambda: [text.real_repr(vm, item) for item in self.items(vm)])
