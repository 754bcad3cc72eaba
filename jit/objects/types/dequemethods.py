"""The methods of collections.deque (Modules/_collectionsmodule.c)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from framejit import breaks
from framejit.guards.source import MISSING
from framejit.objects.core import abstract, operators, text
from framejit.objects.core.object import VM, NotConstant, Object
from framejit.objects.core.registry import models
from framejit.objects.types import typefields
from framejit.objects.types.constobject import NONE
from framejit.objects.types.dequeobject import DequeIterator, DequeObject
from framejit.objects.types.listobject import ListObject
from framejit.objects.types.sequence import COMPARISONS, bounds, comparison, repeat, same_kind
from framejit.objects.types.tupleobject import TupleObject
from framejit.program import classes

for _name, _symbol in COMPARISONS.items():
    models(getattr(deque, _name))(comparison(_symbol, deque))


@models(deque.__new__)
def deque_new(vm: VM, cls: Object, /, *args: Object, **kwargs: Object) -> Object:
    return DequeObject([], None, abstract.class_to_make(vm, cls))


@models(deque.__init__)
def deque_init(vm: VM, self: DequeObject, iterable: Object | None = None, maxlen: Object | None = None) -> Object:
    limit = None
    if maxlen is not None and vm.observe(maxlen).cls is not type(None):
        if not issubclass(vm.observe(maxlen).cls, int):
            vm.raise_(TypeError, "an integer is required")
        limit = operators.ssize_argument(vm, maxlen)
        if limit < 0:
            vm.raise_(ValueError, "maxlen must be non-negative")
    self.items(vm)
    vm.trail.set(self, "maxlen", limit)
    self.replace(vm, [])
    return NONE if iterable is None else extend(vm, self, iterable)


@models(deque)
def make_deque(vm: VM, iterable: Object | None = None, maxlen: Object | None = None) -> Object:
    made = DequeObject([], None)
    deque_init(vm, made, iterable, maxlen)
    return made


@models(deque.__reduce__)
def reduce(vm: VM, self: DequeObject) -> Object:
    """The parts that a deque is copied from: its class, its bound, and an iterator over its items."""
    if self.cls is not deque:
        raise NotConstant(self)
    limit = self.bound(vm)
    arguments = [] if limit is None else [TupleObject([]), vm.const(limit)]
    return TupleObject([vm.const(deque), TupleObject(arguments), NONE, abstract.iter_(vm, self)])


@models(deque.__dict__["maxlen"])
def maxlen(vm: VM, self: DequeObject) -> Object:
    return vm.const(self.bound(vm))


@models(deque.append)
def append(vm: VM, self: DequeObject, item: Object) -> Object:
    self.extend(vm, [item])
    return NONE


@models(deque.appendleft)
def appendleft(vm: VM, self: DequeObject, item: Object) -> Object:
    self.replace(vm, [item, *self.items(vm)], drop_left=False)
    return NONE


@models(deque.extend)
def extend(vm: VM, self: DequeObject, iterable: Object) -> Object:
    for items in portions(vm, self, iterable):
        self.extend(vm, items)
    return NONE


def portions(vm: VM, self: DequeObject, iterable: Object) -> Iterator[list[Object]]:
    """The items to extend a deque by: one by one as they come, or all at once if no code of the program runs between them."""
    iterable = vm.observe(iterable)
    if isinstance(iterable, (ListObject, TupleObject)) and iterable.cls in (list, tuple) or iterable is self:
        yield abstract.iterate(vm, iterable)
    else:
        for item in abstract.each(vm, iterable):
            yield [item]


@models(deque.__iadd__)
def iadd(vm: VM, self: DequeObject, iterable: Object) -> Object:
    extend(vm, self, iterable)
    return self


@models(deque.extendleft)
def extendleft(vm: VM, self: DequeObject, iterable: Object) -> Object:
    for items in portions(vm, self, iterable):
        self.replace(vm, items[::-1] + self.items(vm), drop_left=False)
    return NONE


def taken(vm: VM, self: DequeObject, position: int) -> Object:
    """Remove the first or the last item and return it."""
    items = list(self.items(vm))
    if not items:
        vm.raise_(IndexError, "pop from an empty deque")
    item = items.pop(position)
    self.replace(vm, items)
    return item


@models(deque.pop)
def pop(vm: VM, self: DequeObject) -> Object:
    return taken(vm, self, -1)


@models(deque.popleft)
def popleft(vm: VM, self: DequeObject) -> Object:
    return taken(vm, self, 0)


@models(deque.rotate)
def rotate(vm: VM, self: DequeObject, n: Object | None = None) -> Object:
    steps = 1 if n is None else operators.ssize_argument(vm, n)
    items = self.items(vm)
    if items:
        by = steps % len(items)
        self.replace(vm, items[len(items) - by :] + items[: len(items) - by])
    return NONE


@models(deque.clear)
def clear(vm: VM, self: DequeObject) -> Object:
    self.replace(vm, [])
    return NONE


@models(deque.reverse)
def reverse(vm: VM, self: DequeObject) -> Object:
    self.store(vm, self.items(vm)[::-1])
    return NONE


@models(deque.copy, deque.__copy__)
def copy(vm: VM, self: DequeObject) -> DequeObject:
    if self.cls is deque:
        return DequeObject(list(self.items(vm)), self.maxlen)
    self.items(vm)
    args: list[Object] = [self] if self.maxlen is None else [self, vm.const(self.maxlen)]
    made = vm.observe(abstract.call(vm, vm.const(self.cls), args))
    if not isinstance(made, DequeObject):
        vm.raise_(TypeError, f"{self.type_name}() must return a deque, not {made.type_name}")
    return made


@models(deque.count)
def count(vm: VM, self: DequeObject, item: Object) -> Object:
    return vm.const(sum(same for _, same in comparisons(vm, self, item)))


def comparisons(vm: VM, self: DequeObject, item: Object, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, bool]]:
    """For each position, whether the item there is equal. If a comparison changes the deque, asking for the next one raises."""
    version = self.version
    for position, each in list(enumerate(self.items(vm)))[start:stop]:
        yield position, operators.equal(vm, each, item)
        if self.version != version:
            vm.raise_(RuntimeError, CHANGED)


CHANGED = "deque mutated during iteration"


@models(deque.index)
def index(vm: VM, self: DequeObject, item: Object, start: Object | None = None, stop: Object | None = None) -> Object:
    limits = bounds(vm, self, start, stop)
    for position, same in comparisons(vm, self, item, *limits):
        if same:
            return vm.const(position)
    text.missing_item(vm, item, "deque", "index")


@models(deque.insert)
def insert(vm: VM, self: DequeObject, index: Object, item: Object) -> Object:
    position = operators.ssize_argument(vm, index)
    items = list(self.items(vm))
    if self.maxlen is not None and len(items) >= self.maxlen:
        vm.raise_(IndexError, "deque already at its maximum size")
    items.insert(position, item)
    self.replace(vm, items)
    return NONE


@models(deque.remove)
def remove(vm: VM, self: DequeObject, item: Object) -> Object:
    version = self.version
    for position, each in enumerate(list(self.items(vm))):
        same = operators.equal(vm, item, each)
        if self.version != version:
            vm.raise_(IndexError, CHANGED)
        if same:
            self.replace(vm, self.items(vm)[:position] + self.items(vm)[position + 1 :])
            return NONE
    text.missing_item(vm, item, "deque", "remove")


def position_of(vm: VM, self: DequeObject, key: Object) -> int:
    """An index that is checked to be in range."""
    size = len(self.items(vm))
    key = vm.observe(key)
    if not issubclass(key.cls, int) and vm.raw_type_lookup(key.cls, "__index__") is MISSING:
        vm.unsupported(breaks.UnsupportedOperation(f"a deque's index that is a {classes.qualname(key.cls)}"))  # the message depends on the operation
    position = operators.index(vm, key)
    if not -size <= position < size:
        vm.raise_(IndexError, "deque index out of range")
    return position % size


@models(deque.__getitem__)
def getitem(vm: VM, self: DequeObject, key: Object) -> Object:
    key = vm.observe(key)
    if self.appended and self.elements is None and key.cls is int:
        index, bound = key.constant(vm), self.bound(vm)
        if 0 < -index <= (len(self.appended) if bound is None else min(bound, len(self.appended))):
            return self.appended[index]
    return self.items(vm)[position_of(vm, self, key)]


@models(deque.__setitem__)
def setitem(vm: VM, self: DequeObject, key: Object, value: Object) -> Object:
    position = position_of(vm, self, key)
    items = list(self.items(vm))
    items[position] = value
    self.store(vm, items)
    return NONE


@models(deque.__delitem__)
def delitem(vm: VM, self: DequeObject, key: Object) -> Object:
    position = position_of(vm, self, key)
    items = list(self.items(vm))
    del items[position]
    self.replace(vm, items)
    return NONE


@models(deque.__len__)
def length(vm: VM, self: DequeObject) -> Object:
    return self.count(vm)


@models(deque.__contains__)
def contains(vm: VM, self: DequeObject, item: Object) -> Object:
    return vm.const(any(same for _, same in comparisons(vm, self, item)))


@models(deque.__iter__)
def iterate(vm: VM, self: DequeObject) -> Object:
    return DequeIterator(vm, self, False)


@models(deque.__reversed__)
def backwards(vm: VM, self: DequeObject) -> Object:
    return DequeIterator(vm, self, True)


@models(deque.__add__)
def add(vm: VM, self: DequeObject, other: Object) -> Object:
    other = same_kind(vm, other, deque)
    made = copy(vm, self)
    extend(vm, made, other)
    return made


@models(deque.__mul__, deque.__rmul__)
def mul(vm: VM, self: DequeObject, times: Object) -> Object:
    times = vm.const(operators.index(vm, times))
    made = copy(vm, self)
    made.replace(vm, repeat(vm, made, times))
    return made


@models(deque.__repr__)
def render(vm: VM, self: DequeObject) -> Object:
    if text.is_being_rendered(self):
        return vm.const("[...]")
    body = text.repr_of_items(vm, self, "[]", lambda: [text.real_repr(vm, item) for item in self.items(vm)]).constant(vm)
    limit = "" if self.maxlen is None else f", maxlen={self.maxlen}"
    return vm.const(f"{typefields.name_of(vm, self.cls)}({body}{limit})")
