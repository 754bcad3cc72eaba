"""`table[i]` in a function that torch.vmap maps over the tensor `i`: for one item that is a tensor without dimensions, for all of them an index."""

from __future__ import annotations

from typing import Any

import torch

from framejit.graph.body import transforms_of
from framejit.graph.builder import TorchVM
from framejit.graph.on_fakes import stand_in
from framejit.library.torch.tensors.tensor_items import ITEM, parts_of, reject_replaced
from framejit.library.torch.transforms.func_rules import is_mapped
from framejit.objects.core.object import Object
from framejit.objects.core.registry import Model, around
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchcall import enter
from framejit.objects.types.sliceobject import SliceObject
from framejit.objects.types.tupleobject import TupleObject

NUMBERS = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})


@around(ITEM)
def item_in_mapped_function(vm: TorchVM, self: Object, key: Object, own: Model) -> Object:
    """An item that a mapped tensor selects. torch asks such a tensor for no number, since it has another one for each item."""
    mapping = [body for body, transforming in transforms_of(vm.graph.body) if transforming.mapping is not None]
    if not mapping or not isinstance(self, TensorObject):
        return own(vm, self, key)
    parts = parts_of(vm, key)
    numbers = [part for part in parts if isinstance(part, TensorObject) and part.look(vm).dim() == 0 and part.fake.dtype in NUMBERS]
    if not any(is_mapped(vm, number, body) for number in numbers for body in mapping):
        return own(vm, self, key)
    if not all(part in numbers or part.cls in (int, type(None), type(...)) or isinstance(part, SliceObject) for part in parts):
        return own(vm, self, key)
    reject_replaced(vm, ITEM)
    return enter(vm, mapped_item, [self, TupleObject(parts)])


def mapped_item(tensor: torch.Tensor, key: tuple[Any, ...]) -> torch.Tensor:
    """`tensor[key]`: the function that a node calls, inside torch.vmap."""
    return tensor[key]


def item_on_fakes(tensor: torch.Tensor, key: tuple[Any, ...]) -> torch.Tensor:
    """The item on fakes, which are no mapped ones, so that the value of a number would be needed. It is a copy, as the result of an index is."""
    return tensor[tuple([0 if isinstance(part, torch.Tensor) else part for part in key])].clone()


stand_in(mapped_item, item_on_fakes)
