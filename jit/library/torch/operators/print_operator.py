"""`torch.ops.higher_order.print(format, ...)`: a node that writes a text with tensors in it when the graph runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.objects.core.object import Object
from framejit.objects.core.registry import models
from framejit.objects.numbers.numberobject import NumberObject
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchcall import enter
from framejit.torch_state.torch_classes import is_plain

PRINT: Any = torch.ops.higher_order.print
NAME = "the higher-order operator print"


def printable(vm: TorchVM, values: list[Object]) -> Iterator[Object]:
    """The values as arguments of the node. Breaks for what the graph's code would write otherwise than the program's: a float that varies is a tensor there."""
    for value in map(vm.observe, values):
        if isinstance(value, TensorObject):
            is_same = is_plain(value.cls)
        elif isinstance(value, NumberObject) and value.symbol(vm) is not None:
            is_same = value.cls is int
        else:
            is_same = value.is_knowable()
            value = vm.const(value.as_real(vm)) if is_same else value
        yield value if is_same else vm.unsupported(breaks.UnsupportedOperation(f"{NAME} with a {value.type_name}"))


@models(PRINT)
def print_in_graph(vm: TorchVM, format_str: Object, /, *args: Object, **kwargs: Object) -> Object:
    """Make the call a node, which stays in the graph as it gives nothing. Inductor may change the order of such nodes, and AOTAutograd's tensors are written
    without a record."""
    if vm.graph.is_inner() or vm.graph.autograd_node is not None:
        vm.unsupported(breaks.UnsupportedOperation(NAME))
    text, *given = printable(vm, [format_str, *args])
    return enter(vm, PRINT, [text, *given], dict(zip(kwargs, printable(vm, list(kwargs.values())), strict=True)))
