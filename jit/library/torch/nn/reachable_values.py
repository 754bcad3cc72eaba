"""Values made by the trace that a call of a module can reach: two calls are alike only if these are in the same state."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from types import MemberDescriptorType
from typing import Any

from framejit.graph.builder import TorchVM
from framejit.guards.source import MISSING, Source
from framejit.library.torch.control_flow.repeated_regions import Unknown, below
from framejit.objects.core.object import Object, settle
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.types.constobject import ConstObject
from framejit.objects.types.dictobject import DictObject
from framejit.objects.types.instancedict import InstanceDictObject
from framejit.objects.types.listobject import ListObject
from framejit.objects.types.pickeditems import attributes_of
from framejit.objects.types.setobject import SetObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.objects.types.userobject import UserObject

MOST_WITHIN_REACH = 100
"""The number of values above which calls aren't compared."""
CONTAINERS = (DictObject, ListObject, TupleObject, SetObject, UserObject, InstanceDictObject)
"""Objects of values made by the trace whose `referents` are all that they refer to."""
FIELDS: dict[type[Object], list[str]] = {
    cls: [name for base in cls.__mro__ for name, member in vars(base).items() if isinstance(member, MemberDescriptorType)] for cls in CONTAINERS
}
"""Their fields."""


class Reach:
    """Values made by the trace that a call can reach: from values outside, which the trace has changed, and from its arguments. Raises Unknown if there are
    many, or some that may refer to others in unknown ways, or to values inside the module.

    Attributes:
        values: the values.
        lists: those lists among them of which each item may belong to another layer. Their items aren't among the values.
    """

    def __init__(self, vm: TorchVM, module: Source, arguments: Sequence[Object]) -> None:
        self._module = module
        self._found: dict[int, Object] = {}
        self.lists: list[ListObject] = []
        self._walk([part for effect in vm.effects.all() for part in effect.referents()], is_argument=False)
        self._walk(arguments, is_argument=True)
        self.values = list(self._found.values())
        for items in self.lists:
            assert items.elements is not None
            if any(id(part) in self._found for item in map(settle, items.elements) for part in (item, item.attrs)):
                raise Unknown

    def _walk(self, parts: Iterable[Object], is_argument: bool) -> None:
        found, waiting = self._found, list(parts)
        while waiting:
            obj = settle(waiting.pop())
            if obj.source is not None or id(obj) in found:
                if is_argument and below(obj.source, {self._module}):
                    raise Unknown
                continue
            is_leaf = isinstance(obj, ConstObject) or (isinstance(obj, TensorObject) and not is_argument)
            if len(found) >= MOST_WITHIN_REACH or (not is_leaf and type(obj) not in CONTAINERS):
                raise Unknown
            found[id(obj)] = obj
            if is_argument and isinstance(obj, ListObject) and has_item_for_each_layer(obj):
                self.lists.append(obj)
            else:
                waiting += obj.referents()

    def states(self) -> tuple[Any, ...]:
        """The states of the values, which are equal as long as nothing has changed them."""
        return tuple([(id(obj), *[shape(getattr(obj, name, MISSING)) for name in FIELDS[type(obj)]]) for obj in self.values if type(obj) in CONTAINERS])

    @contextlib.contextmanager
    def noting_picks(self) -> Iterator[None]:
        """Inside the block, the trail notes which items are taken out of the lists."""
        lists = [items for items in self.lists if not items.notes_picks]
        for items in lists:
            items.notes_picks = True
        try:
            yield
        finally:
            for items in lists:
                items.notes_picks = False



def has_item_for_each_layer(items: ListObject) -> bool:
    """Return whether a list that the trace has made consists of several objects, each of which holds nothing but attributes."""
    elements = [settle(item) for item in items.elements or ()]
    return items.cls is list and len(elements) > 1 and all(attributes_of(item) is not None for item in elements)


def shape(value: Any) -> Any:
    """The value of a field, by the identities of what it contains."""
    if type(value) is dict:
        return tuple([(shape(key), shape(item)) for key, item in value.items()])
    return tuple(map(shape, value)) if type(value) in (list, tuple) else id(value)
