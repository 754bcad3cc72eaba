"""Sparse tensors from outside: the tensors that each consists of, and the guards on their layout.

    A = torch.eye(3).to_sparse()      # A._indices() is int64[2, 3], A._values() is float32[3]

A sparse tensor from outside is an input of the graph. Its fake has no elements. The layout of its elements is guarded (dimensions, types, whether it is
coalesced), and their number only if the program asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode

from framejit.graph.inputs import GraphInput
from framejit.graph.parts import PartsContext
from framejit.graph.running import RunningTrace
from framejit.graph.values import tensors_of
from framejit.guards.kinds import Equals, TensorMatch
from framejit.guards.source import Source
from framejit.guards.tensor_source import SparsePart
from framejit.guards.tensor_spec import tensor_spec
from framejit.quick_dataclass import dataclass

BASE = torch._C.TensorBase
ROWS = (BASE.crow_indices, BASE.col_indices, BASE.values)
COLUMNS = (BASE.ccol_indices, BASE.row_indices, BASE.values)
PARTS: dict[torch.layout, tuple[Any, ...]] = {
    torch.sparse_coo: (BASE._indices, BASE._values),
    torch.sparse_csr: ROWS,
    torch.sparse_bsr: ROWS,
    torch.sparse_csc: COLUMNS,
    torch.sparse_bsc: COLUMNS,
}
"""The methods that give the tensors which hold a sparse tensor's data, by layout; the values come last."""


def is_sparse(tensor: torch.Tensor) -> bool:
    """Return whether a tensor has its data in tensors of indices and values."""
    with torch._C.DisableTorchFunction():
        return tensor.layout in PARTS


def sparse_values(graph: fx.Graph) -> Iterator[fx.Node]:
    """The nodes of a graph that give sparse tensors, inputs among them."""
    return (node for node in graph.nodes if any(map(is_sparse, tensors_of(node.meta.get("example_value")))))


@dataclass(frozen=True, slots=True)
class SparseContext(PartsContext):
    """The context for making the fake of a sparse tensor from outside. `parts`: the tensors that hold its data, by their sources."""

    parts: dict[Source, torch.Tensor]

    def make(self, mode: FakeTensorMode, tensor: torch.Tensor) -> torch.Tensor:
        """A new fake of the real tensor; autograd needn't know what it is a view of."""
        return mode.from_tensor(tensor if tensor.requires_grad else tensor.data, static_shapes=True)

    def inputs_with_data(self, described: GraphInput, known: Mapping[int, GraphInput]) -> list[GraphInput]:
        """The tensors in which a sparse tensor has its data, as inputs in its place."""
        return [replace(described, source=source, value=part) for source, part in self.parts.items()]


def context_of_sparse(source: Source, tensor: torch.Tensor) -> SparseContext:
    """Return the context for making the fake of a sparse tensor with this source."""
    return SparseContext({source.child(SparsePart, method): part for method, part in zip(PARTS[tensor.layout], parts_of_sparse(tensor))})


def parts_of_sparse(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensors that hold a sparse tensor's data, without their autograd records."""
    with torch._C.DisableTorchFunction():
        for method in PARTS[tensor.layout]:
            yield method(tensor).data


def rest_on_form(vm: RunningTrace, source: Source, tensor: torch.Tensor, context: SparseContext) -> None:
    """Guard the layout of the elements of a sparse tensor from outside, but not their number."""
    if tensor.layout is torch.sparse_coo:
        vm.guard(Equals, source.child(SparsePart, BASE.is_coalesced), tensor.is_coalesced())
    methods: tuple[Callable[..., Any], ...] = PARTS[tensor.layout]
    for method, (path, part) in zip(methods, context.parts.items(), strict=True):
        counted = counting_dimension(tensor, method)
        spec = tensor_spec(part)
        assert spec.sizes is not None
        sizes = tuple(None if dim == counted else size for dim, size in enumerate(spec.sizes))
        takes_part = method is BASE.values and tensor.requires_grad and torch.is_grad_enabled()
        vm.guard(TensorMatch, path, replace(spec, sizes=sizes, strides=None, requires_grad=takes_part))


def counting_dimension(tensor: torch.Tensor, method: Callable[..., Any]) -> int:
    """In one of the tensors that hold a sparse tensor's data, the dimension whose size is the number of elements; -1 if there is none."""
    if method is BASE.crow_indices or method is BASE.ccol_indices:
        return -1
    if tensor.layout is torch.sparse_coo:
        return 1 if method is BASE._indices else 0
    return tensor.dim() - tensor.sparse_dim() - tensor.dense_dim()  # after the batch dimensions
