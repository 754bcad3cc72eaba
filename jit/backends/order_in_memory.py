"""Operators that write to a tensor whose elements aren't in the order of a contiguous one, for AOTAutograd.

    z = x.t() * 2
    z.masked_fill_(mask, 0.0)      # becomes z.copy_(z.masked_fill(mask, 0.0))

AOTAutograd replaces such an operator by the one that gives a new tensor. Where that one gives a contiguous tensor, `z` and all that follows from it would have
other strides than in eager. A copy keeps the strides of the tensor that it writes to.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from framejit.graph.metadata import CHANGES
from framejit.torch_state.operator_facts import only_writes
from framejit.torch_state.symbols import is_true


def keep_order(gm: fx.GraphModule, mode: FakeTensorMode | None) -> None:
    """Make operators that would lose the order of a tensor's elements compute a new tensor, and copy it into the old one."""
    if mode is None:
        return
    for node in list(gm.graph.nodes):
        if node.op == "call_method" and only_writes(node.target) and hasattr(torch.Tensor, node.target[:-1]):
            written: Any = node.args[0].meta.get("example_value") if isinstance(node.args[0], fx.Node) else None
            if type(written) is FakeTensor and written.layout is torch.strided and not is_contiguous(written):
                copy_if_lost(node, written, mode)


def copy_if_lost(node: fx.Node, written: FakeTensor, mode: FakeTensorMode) -> None:
    """Replace an operator that writes to a tensor, if the tensor that the operator without its underscore gives has other strides."""
    name: Any = node.target
    args, kwargs = fx.map_arg((node.args[1:], node.kwargs), lambda used: used.meta.get("example_value"))
    with mode, torch.no_grad():
        found = getattr(written, name[:-1])(*args, **kwargs)
    if found.dtype is not written.dtype or found.shape != written.shape or same(found.stride(), written.stride()):
        return
    with node.graph.inserting_before(node):
        new = node.graph.call_method(name[:-1], node.args, node.kwargs)
    new.meta = {key: value for key, value in node.meta.items() if key != CHANGES} | {"example_value": found}
    node.target, node.args, node.kwargs = "copy_", (node.args[0], new), {}


def is_contiguous(fake: torch.Tensor) -> bool:
    """Return whether a tensor is contiguous whatever numbers its symbolic sizes stand for. Assumes nothing."""
    expected: Any = 1
    for size, stride in reversed(list(zip(fake.size(), fake.stride()))):
        if not is_true(size == 1) and not is_true(stride == expected):
            return False
        expected = expected * size
    return True


def same(strides: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    """Return whether strides are equal whatever numbers their symbols stand for."""
    return all(is_true(one == other) for one, other in zip(strides, others))
