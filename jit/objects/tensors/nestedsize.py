"""Sizes of nested tensors that stand for their lengths (`x.shape[1]` of a jagged tensor): their values aren't known, but which of them are equal is."""

from __future__ import annotations

import operator
from typing import Any, NoReturn

import torch
from torch import fx

from framejit import breaks
from framejit.objects.core.object import VM, Codegen, Object

EQUALITY = {"==": operator.eq, "!=": operator.ne}
NOT_NESTED = (int, float, bool, str, type(None))
"""Types of values that are never such a size."""


class NestedSize(Object):
    """The size of a nested tensor in the dimension that its lengths are in. `node` gives it in the graph."""

    __slots__ = ("tensor", "dim", "node")

    def __init__(self, tensor: Object, dim: int, node: fx.Node) -> None:
        super().__init__(torch.SymInt)
        self.tensor = tensor
        self.dim = dim
        self.node = node

    @property
    def size(self) -> torch.SymInt:
        """The size as fake tensors have it."""
        found: torch.SymInt = self.node.meta["example_value"]
        return found

    def as_graph_argument(self, vm: VM) -> Any:
        return self.node

    def break_graph(self, vm: VM, operation: str) -> NoReturn:
        vm.unsupported(breaks.UnsupportedOperation(f"{operation} of a size that stands for the lengths of a nested tensor"))

    def getattr(self, vm: VM, name: str) -> Object:
        self.break_graph(vm, f".{name}")

    def hash_key(self, vm: VM) -> Any:
        self.break_graph(vm, "hash()")

    def truth(self, vm: VM) -> bool:
        self.break_graph(vm, "the truth")

    def unary_op(self, vm: VM, symbol: str) -> Object | None:
        self.break_graph(vm, symbol)

    def binary_op(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        self.break_graph(vm, symbol)

    def compare(self, vm: VM, symbol: str, other: Object, reflected: bool) -> Object | None:
        if symbol not in EQUALITY:
            self.break_graph(vm, symbol)
        if isinstance(other, NestedSize):
            return vm.const(bool(EQUALITY[symbol](self.size, other.size)))
        if other.cls not in NOT_NESTED:
            self.break_graph(vm, symbol)
        return vm.const(symbol == "!=")

    def reconstruct(self, cg: Codegen) -> None:
        cg.load(self.tensor)
        cg.load_const(self.dim)
        cg.call_const(size_in, 2)

    def referents(self) -> list[Object]:
        return [self.tensor]


def size_in(tensor: torch.Tensor, dim: int) -> Any:
    """A tensor's size in a dimension (runs in generated code)."""
    return tensor.size(dim)
