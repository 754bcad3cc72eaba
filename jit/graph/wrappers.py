"""Keeps track of tensors in a trace that have their data in others: wrappers, distributed tensors, and jagged nested tensors with their sizes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import torch
from torch import fx

from framejit import breaks
from framejit.graph.autograd_node import AutogradNode
from framejit.graph.body import Body
from framejit.graph.demands import Demands
from framejit.graph.fake import version_of
from framejit.graph.fakes import Fakes
from framejit.graph.inputs import GraphInput
from framejit.graph.jagged import JaggedContext, is_nested_int, memory_of
from framejit.graph.state import GlobalModes
from framejit.guards.relations import Distinct
from framejit.objects.nestedsize import NestedSize
from framejit.objects.object import VM, Object
from framejit.objects.tensorobject import TensorObject
from framejit.torch_classes import is_jagged, stays_itself
from framejit.torch_modes import MODE_CHANGES
from framejit.trail import Trail

ALLOWS_OTHERS = getattr(torch._C, "_get_dtensor_allow_implicit_replication", None)
"""Says whether operators take distributed tensors and others together."""
BESIDE_NESTED = breaks.TensorSubclass("NestedTensor or MaskedTensor, beside tensors that wrap others in another way")


class GraphOfWrappers(Protocol):
    """The part of the graph that this file needs."""

    trail: Trail
    demands: Demands
    fakes: Fakes
    modes: GlobalModes
    body: Body
    outermost: Body
    autograd_node: AutogradNode | None

    @property
    def vm(self) -> VM:
        """The running trace."""

    def size_node(self, obj: TensorObject, dim: int, size: Any) -> fx.Node:
        """The node that gives a size of a tensor."""


class Wrappers:
    """The wrappers that one trace has met. `nested`: the nested tensors that it knows; `lengths`: the tensors from outside that hold the lengths of
    such; `has_distributed`, `has_masked`: whether there has been such a tensor."""

    def __init__(self, graph: GraphOfWrappers) -> None:
        self._graph = graph
        self.nested: list[TensorObject] = []
        self.lengths: list[Object] = []
        self.has_distributed = False
        self.has_masked = False

    def meet_wrapper(self) -> None:
        """Note that the graph has a tensor that wraps others. What its class overrides is asked by the trace, and by nothing else until the trace ends."""
        if self.nested or self.has_masked:
            self._graph.vm.unsupported(BESIDE_NESTED)
        self._begin()
        self._graph.modes.switch_overrides_off()

    def _begin(self) -> None:
        """Note that the graph has a tensor whose data lies in others. AOTAutograd doesn't see that a change of one of these, made before, changes it too."""
        changes = {node for node in self._graph.outermost.kept | self._graph.body.kept if node.target not in MODE_CHANGES}
        if self._graph.fakes.changed_inputs(changes) and self._graph.autograd_node is not None and not self._graph.fakes.wrappers:
            self._graph.vm.unsupported(breaks.TensorSubclass("that wraps others, in a graph in which a tensor has been changed before"))
        self._graph.fakes.meet_wrapper()

    def meet_distributed(self) -> None:
        """Note that the graph has a distributed tensor."""
        if not self._graph.demands.takes_distributed:
            self._graph.vm.unsupported(breaks.TensorSubclass("DTensor, in a graph that the backend can't compile"))
        if ALLOWS_OTHERS is not None:
            self._graph.vm.guards.read(ALLOWS_OTHERS)
        self._graph.trail.set(self, "has_distributed", True)
        self.meet_wrapper()

    def meet_nested(self) -> None:
        """Note that the graph has a nested tensor. Its class is asked by the operators of the graph."""
        if not self._graph.demands.takes_nested:
            self._graph.vm.unsupported(breaks.TensorSubclass("NestedTensor"))
        if self._graph.fakes.wrappers and not self.nested:
            self._graph.vm.unsupported(BESIDE_NESTED)
        self._begin()

    def meet_masked(self) -> None:
        """The graph has made a masked tensor, whose class is asked by the operators of the graph."""
        if not self._graph.demands.takes_masked:
            self._graph.vm.unsupported(breaks.TensorSubclass("MaskedTensor, in a graph that the backend can't compile"))
        if self._graph.fakes.wrappers and not self.has_masked:
            self._graph.vm.unsupported(BESIDE_NESTED)
        self._graph.trail.set(self, "has_masked", True)
        self._begin()

    def note_nested(self, obj: TensorObject) -> None:
        """The trace knows this one."""
        self.nested.append(obj)
        self._graph.trail.learned(self, self.nested.pop)

    def holds_lengths(self, obj: Object) -> None:
        """A tensor is one of those for which sizes of nested tensors stand: it is guarded to be none of the others."""
        if obj.source is None or any(obj is known for known in self.lengths):
            return
        if self.lengths:
            self._graph.vm.relate(Distinct, obj.source, tuple(known.source for known in self.lengths))
        self.lengths.append(obj)
        self._graph.trail.learned(self, self.lengths.pop)

    def size(self, size: Any) -> Object:
        """The size of a nested tensor that stands for its lengths, as the program has it."""
        for obj in self.nested:
            for dim, known in enumerate(obj.look(self._graph.vm).size()):
                if is_nested_int(known) and known.node.expr == size.node.expr:
                    return NestedSize(obj, dim, self._graph.size_node(obj, dim, known))
        self._graph.vm.unsupported(breaks.UnsupportedOperation("a size computed from the lengths of a nested tensor"))

    def changes_wrapped(self, fakes: list[torch.Tensor], before: list[int], inputs: list[torch.Tensor]) -> bool:
        """Whether an operator, which has changed some of these fakes, may have changed a tensor from outside, one that wraps others, or one that is wrapped."""
        changed = changed_among(fakes, before)
        if any(stays_itself(type(fake)) for fake in changed):
            return True
        return bool(memory_of(changed) & memory_of([*inputs, *self._graph.fakes.that_wrap()]))

    def changes_nested(self, fakes: list[torch.Tensor], before: list[int], inputs: Iterable[GraphInput]) -> bool:
        """Whether an operator, which has changed some of these fakes, may have changed the data of a nested tensor from outside."""
        changed = changed_among(fakes, before)
        outside = [described.node.meta["example_value"] for described in inputs if isinstance(described.symbolic, JaggedContext)]
        values = [fake._values if is_jagged(type(fake)) else fake for fake in changed]
        return bool(memory_of(values) & memory_of(outside))


def changed_among(fakes: list[torch.Tensor], before: list[int]) -> list[torch.Tensor]:
    """The fakes that an operator may have changed: the first of its arguments, and those whose version isn't what it was `before`."""
    return [fake for index, fake in enumerate(fakes) if index == 0 or version_of(fake) != before[index]]
