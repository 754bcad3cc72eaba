"""Descriptions of nodes and of pieces of a graph: one compiled callable serves all pieces with equal descriptions."""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Sequence
from types import EllipsisType, NoneType
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor

from framejit.graph.annotations import CUSTOM
from framejit.graph.metadata import CONTEXT_FN

BY_VALUE = frozenset({int, bool, str, bytes, NoneType, EllipsisType, torch.dtype, torch.device, torch.layout, torch.memory_format})
"""Types of constants that are compared by value and type."""


class Indescribable(Exception):
    """Signal: a value in the graph has more to it than a description can say."""


def looks(value: Any, name: Callable[[fx.Node], Hashable]) -> Hashable:
    """The facts about a node's argument, or about a value in the trace, that code for it may depend on. `name` gives what stands for a node among these."""
    cls = type(value)
    if cls in BY_VALUE:
        return cls, value
    if isinstance(value, fx.Node):
        return name(value)
    if cls is float or cls is complex:
        return cls, repr(value)
    if isinstance(value, torch.Tensor):
        return of_tensor(value)
    if cls is torch.SymInt:
        return cls, value.node.expr
    if cls is fx.GraphModule or isinstance(value, fx.GraphModule):
        return "graph", of_graph(value)
    if isinstance(value, (torch.SymFloat, torch.SymBool)):
        raise Indescribable
    if isinstance(value, slice):
        return cls, looks(value.start, name), looks(value.stop, name), looks(value.step, name)
    if isinstance(value, (tuple, list)):
        return cls, tuple([looks(item, name) for item in value])
    if isinstance(value, dict):
        return cls, tuple([(looks(key, name), looks(item, name)) for key, item in value.items()])
    if isinstance(value, enum.Enum):
        return cls, value.name
    return cls, id(value)  # alive as long as the graph


def of_tensor(fake: torch.Tensor) -> Hashable:
    """The look of a tensor in the trace. Raises Indescribable if it is more than a part of memory."""
    if type(fake) is not FakeTensor or fake.layout is not torch.strided:
        raise Indescribable
    keys = torch._C._dispatch_keys(fake).raw_repr()
    numbers = tuple([number.node.expr if type(number) is torch.SymInt else number for number in (*fake.size(), *fake.stride(), fake.storage_offset())])
    return fake.dim(), numbers, fake.dtype, fake.device, keys, fake.requires_grad, fake.is_inference()


def of_node(node: fx.Node, name: Callable[[fx.Node], Hashable]) -> Hashable:
    """The operator of a node, its arguments, and its result. `name`: what stands for the nodes among the arguments."""
    meta = node.meta
    result = looks(meta.get("example_value"), name)
    if node.op in ("placeholder", "get_attr"):
        return node.op, result
    target = node.target if isinstance(node.target, str) else id(node.target)
    return node.op, target, looks(node.args, name), looks(node.kwargs, name), result, repr(meta[CUSTOM]) if CUSTOM in meta else None


def of_graph(module: fx.GraphModule) -> Hashable:
    """A graph inside another one."""
    return of_nodes(list(module.graph.nodes), []), id(module.meta.get(CONTEXT_FN))


def of_nodes(nodes: Sequence[fx.Node], operands: Sequence[fx.Node]) -> Hashable:
    """Nodes, in order, whose arguments are nodes among them and the operands."""
    numbers = {node: number for number, node in enumerate((*operands, *nodes))}
    return tuple([of_node(node, numbers.__getitem__) for node in nodes])


def labels(nodes: Sequence[fx.Node]) -> list[int]:
    """A number for each node: equal for nodes that do the same with values that look alike, wherever these come from."""
    known: dict[Hashable, int] = {}

    def by_look(node: fx.Node) -> Hashable:
        return "node", looks(node.meta.get("example_value"), by_look)

    return [known.setdefault(of_node(node, by_look), len(known)) for node in nodes]
