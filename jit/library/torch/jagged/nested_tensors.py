"""torch.nested: the functions by which its Python code makes jagged tensors are nodes of the graph; the code that calls them is traced."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nested._internal import nested_tensor

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.graph.graph_inputs import GraphInputs
from framejit.graph.trace_state import TraceState
from framejit.graph.wrappers import Wrappers
from framejit.guards.kinds import TensorMatch
from framejit.guards.source import Source
from framejit.guards.tensor_spec import spec_without_sizes
from framejit.library.torch.jagged.jagged_parts import contexts_of, parts_of
from framejit.library.torch.jagged.known_nested import KnownNested
from framejit.library.torch.overrides.made_wrappers import guard_value
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import models
from framejit.objects.tensors.tensorkind import TensorKind, tensor_kind
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchcall import enter
from framejit.torch_state.torch_classes import is_jagged


@tensor_kind(20)
class JaggedTensors(TensorKind):
    """Nested tensors of the layout `torch.jagged`."""

    name = "jagged"
    stays_itself = True
    brings_its_own = True
    has_memory = False

    def holds_class(self, cls: type) -> bool:
        return is_jagged(cls)

    def make_input(self, inputs: GraphInputs, source: Source, tensor: torch.Tensor, plain: torch.Tensor) -> TensorObject:
        state = inputs.state
        state.refresh()
        self.meet(state)
        context = contexts_of(source, tensor, inputs.shapes.context_of_part)
        fake = state.fakes.of_input(tensor, context)
        state.vm.guard(TensorMatch, source, spec_without_sizes(tensor))
        obj = inputs.add(source, tensor, plain, fake, context)
        state.part(KnownNested).note(obj)
        return obj

    def meet(self, state: TraceState) -> None:
        """Note that the graph has a nested tensor, or stop the trace."""
        if not state.demands.takes_nested:
            state.vm.unsupported(breaks.TensorSubclass("NestedTensor"))
        state.part(Wrappers).meet(self)

    def guard_contents(self, vm: VM, made: Object) -> None:
        """Guard what a nested tensor consists of, from which its sizes follow."""
        names = ("_values", "_offsets", "_lengths", "_ragged_idx", "_metadata_cache")
        parts = {name: abstract.getattr_(vm, made, name) for name in names}
        for part in parts.values():
            guard_value(vm, part, made)
        lengths = vm.observe(parts["_lengths"])
        graph: Any = vm.graph
        graph.part(KnownNested).holds_lengths(vm.observe(parts["_offsets"]) if lengths.cls is type(None) else lengths)

    def note_result(self, state: TraceState, made: Object) -> None:
        assert isinstance(made, TensorObject)
        self.meet(state)
        state.part(KnownNested).note(made)

    def parts(self, fake: torch.Tensor) -> Sequence[torch.Tensor]:
        return list(parts_of(fake).values())

    def sized(self, fake: torch.Tensor) -> Sequence[torch.Tensor]:
        return [fake, *self.parts(fake)]


def makes_nested(function: Callable[..., Any]) -> None:
    """Make a function that makes a nested tensor of given lengths a node."""
    signature = inspect.signature(function)

    def make(vm: TorchVM, *args: Object, **kwargs: Object) -> Object:
        nested_tensor._nt_view_dummy()  # torch caches this one, so it must not be made on fakes
        given = {name: vm.observe(value) for name, value in signature.bind(*args, **kwargs).arguments.items()}
        made = enter(vm, function, [], given)
        for name in ("offsets", "lengths"):
            if name in given:
                vm.graph.part(KnownNested).holds_lengths(given[name])
        return made

    models(function)(make)


makes_nested(nested_tensor.nested_view_from_values_offsets)
makes_nested(nested_tensor.nested_view_from_values_offsets_lengths)
makes_nested(nested_tensor.nested_from_padded)
