"""Operators that write to a tensor whose elements aren't in the order of a contiguous one, for AOTAutograd.

    z = x.t() * 2
    z.masked_fill_(mask, 0.0)      # becomes z.copy_(z.masked_fill(mask, 0.0))
    torch.add(x, 1, out=z)         # becomes torch.add(x, 1, out=other); z.copy_(other)

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
            copy_if_lost(node, mode)
        elif node.op == "call_function" and isinstance(node.kwargs.get("out"), fx.Node):
            write_elsewhere(node, mode)


def copy_if_lost(node: fx.Node, mode: FakeTensorMode) -> None:
    """Replace an operator that writes to a tensor, if the tensor that the operator without its underscore gives has other strides."""
    name: Any = node.target
    written = out_of_order(node.args[0])
    if written is None:
        return
    args, kwargs = fx.map_arg((node.args[1:], node.kwargs), lambda used: used.meta.get("example_value"))
    with mode, torch.no_grad():
        found = getattr(written, name[:-1])(*args, **kwargs)
    if found.dtype is not written.dtype or found.shape != written.shape or same(found.stride(), written.stride()):
        return
    with node.graph.inserting_before(node):
        new = node.graph.call_method(name[:-1], node.args, node.kwargs)
    new.meta = {key: value for key, value in node.meta.items() if key != CHANGES} | {"example_value": found}
    node.target, node.args, node.kwargs = "copy_", (node.args[0], new), {}


def write_elsewhere(node: fx.Node, mode: FakeTensorMode) -> None:
    """Let an operator with `out=` write to a contiguous tensor, which is copied."""
    into: Any = node.kwargs["out"]
    written, result = out_of_order(into), node.meta.get("example_value")
    if written is None or result is not written:
        return
    contiguous = {"memory_format": torch.contiguous_format}
    with mode, torch.no_grad():
        found = torch.empty_like(written, **contiguous)  # type: ignore[arg-type]
    with node.graph.inserting_before(node):
        new = node.graph.call_function(torch.empty_like, (into,), contiguous)
        node.graph.call_function(node.target, node.args, node.kwargs | {"out": new}).meta = new.meta = node.meta | {"example_value": found}
    node.op, node.target, node.args, node.kwargs = "call_method", "copy_", (into, new), {}


def out_of_order(node: Any) -> FakeTensor | None:
    """The tensor of a node, if its elements aren't in the order of a contiguous one."""
    found: Any = node.meta.get("example_value") if isinstance(node, fx.Node) else None
    return found if type(found) is FakeTensor and found.layout is torch.strided and not is_contiguous(found) else None


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
