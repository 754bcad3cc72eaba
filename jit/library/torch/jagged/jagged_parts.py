"""Jagged nested tensors in graphs: finds the tensors that one holds, and makes its fake from theirs.

    x = torch.nested.nested_tensor([a, b], layout=torch.jagged)      # a has 2 rows, b has 4
    x.shape                                                           # (2, j1, 3): j1 stands for the lengths that x._offsets holds
    x._values.shape                                                   # (6, 3)

A nested tensor from outside is an input of the graph. The tensors that it holds, and so its sizes, are guarded one by one; the number of rows varies. Two
sizes such as j1 are equal if they stand for the lengths in the same tensor, and the identity of these tensors is guarded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nested._internal.nested_tensor import NestedTensor

from framejit.graph.inputs import GraphInput
from framejit.graph.parts import PartsContext
from framejit.guards.source import InstanceDict, Item, Source
from framejit.quick_dataclass import dataclass

if TYPE_CHECKING:
    from torch.fx.experimental.symbolic_shapes import StatefulSymbolicContext

CACHE = "_metadata_cache"
PATHS: dict[str, tuple[str, ...]] = {
    "_values": ("_values",),
    "_offsets": ("_offsets",),
    "_lengths": ("_lengths",),
    "_min_seqlen_tensor": (CACHE, "min_seqlen"),
    "_max_seqlen_tensor": (CACHE, "max_seqlen"),
}
"""The tensors of which a nested tensor consists, as `__tensor_flatten__` names them, and the key in its `__dict__` of each."""
LENGTHS = ("_min_seqlen_tensor", "_max_seqlen_tensor")
"""Tensors of a nested tensor without data: their first size is the smallest, or the largest, length."""


@dataclass(frozen=True, slots=True)
class JaggedContext(PartsContext):
    """The recipe for the fake of a nested tensor: for each tensor of which it consists, the context with which its fake is made."""

    parts: Mapping[str, StatefulSymbolicContext]

    def make(self, mode: FakeTensorMode, nested: NestedTensor) -> NestedTensor:
        """A new fake of a real one."""
        fakes = {
            name: mode.from_tensor(part, symbolic_context=self.parts[name], source=self.parts[name].tensor_source)
            for name, part in parts_of(nested).items()
        }
        cache = {path[1]: fakes[name] for name, path in PATHS.items() if path[0] == CACHE and name in fakes}
        with mode:
            fake = NestedTensor(
                fakes["_values"],
                fakes["_offsets"],
                lengths=fakes.get("_lengths"),
                requires_grad=nested.requires_grad,
                _ragged_idx=nested._ragged_idx,
                _metadata_cache=cache,
            )
            return fake if nested.is_leaf else computed_from_outside(fake)

    def inputs_with_data(self, described: GraphInput, known: Mapping[int, GraphInput]) -> list[GraphInput]:
        """The tensors that a nested one holds, which are inputs too."""
        return [known[id(part)] for part in parts_of(described.value).values()]


def computed_from_outside(fake: NestedTensor) -> NestedTensor:
    """A fake of the same parts that isn't a leaf."""
    with torch.enable_grad():
        found: NestedTensor = torch._C._functions.DelayedError("the gradient goes on outside of the graph", 1)(fake)
    found._values = fake._values
    return found


def parts_of(nested: torch.Tensor) -> dict[str, torch.Tensor]:
    """The parts of a nested tensor, or of another that wraps tensors, by name: tensors, and for a distributed tensor its device mesh."""
    return {name: getattr(nested, name) for name in nested.__tensor_flatten__()[0]}  # type: ignore[attr-defined]


def source_of_part(source: Source, name: str) -> Source:
    """The source of one of the tensors."""
    found = source.child(InstanceDict)
    for key in PATHS[name]:
        found = found.child(Item, key)
    return found


def varying_dimension(nested: NestedTensor, name: str) -> frozenset[int]:
    """The dimensions of one of the tensors that vary with the lengths."""
    if name == "_values":
        return frozenset({nested._ragged_idx - 1})
    return frozenset({0} if name in LENGTHS else ())


def contexts_of(source: Source, nested: NestedTensor, context_of_part: Callable[..., StatefulSymbolicContext]) -> JaggedContext:
    """The context for the fake of a nested tensor. `context_of_part(source, tensor, dimensions)`: the context for a tensor whose `dimensions` vary."""
    parts = parts_of(nested).items()
    return JaggedContext({name: context_of_part(source_of_part(source, name), part, varying_dimension(nested, name)) for name, part in parts})


def is_nested_int(value: Any) -> bool:
    """Return whether a size stands for the lengths that a tensor holds."""
    return type(value) is torch.SymInt and value.node.is_nested_int()
