"""Collects the inputs of a trace's graph: makes a placeholder for each tensor and number from outside, and guards how they share memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from framejit import breaks
from framejit.graph.cast_views import is_cast_in_parts
from framejit.graph.demands import RestartWith
from framejit.graph.fake import lies_elsewhere, storages
from framejit.graph.gradient_paths import note_beginning
from framejit.graph.inner import nodes_within
from framejit.graph.inputs import GraphInput, holds_buffer, identifier, is_static
from framejit.graph.parts import PartsContext
from framejit.graph.shapes import Shapes
from framejit.graph.trace_state import TraceState
from framejit.graph.unbacked import Unbacked
from framejit.guards.kinds import TensorMatch
from framejit.guards.relations import LiesInBase, Same, StorageAliasing
from framejit.guards.source import MISSING, Source
from framejit.guards.tensor_source import TensorAttribute
from framejit.guards.tensor_spec import (
    TensorSpec,
    aliasing_among,
    have_one_base,
    lie_apart,
    overlapping_in_one_storage,
    overlaps_itself,
    tensor_spec,
)
from framejit.objects.core.object import Object
from framejit.objects.tensors.storageobject import key_of
from framejit.objects.tensors.tensorkind import TensorKind, kind_in_graph, kind_of, kind_of_class
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.quick_dataclass import dataclass
from framejit.torch_state.torch_classes import is_plain
from framejit.torch_state.torch_modes import MODE_CHANGES
from framejit.torch_state.transforms_in_force import is_functorch_wrapped_tensor

if TYPE_CHECKING:
    from torch.fx.experimental.symbolic_shapes import StatefulSymbolicContext


@dataclass(frozen=True, slots=True)
class InputLook:
    """The facts about a dense tensor from outside that determine the look of its fake, if its sizes are constants."""

    spec: TensorSpec
    is_leaf: bool
    is_view: bool


def look_of(tensor: torch.Tensor) -> InputLook:
    """The look of a real tensor."""
    with torch._C.DisableTorchFunction():
        return InputLook(tensor_spec(tensor), tensor.is_leaf, tensor._is_view())


class GraphInputs:
    """The inputs of one trace's graph. `known`: by the identity of the tensor, or of the number's Object."""

    def __init__(self, state: TraceState) -> None:
        self.state = state
        self.shapes = state.part(Shapes)
        self.known = state.known_inputs
        self._texts: dict[Source, str] = {}

    def tensors(self) -> list[TensorObject]:
        """The tensors from outside that are inputs so far."""
        return [described.obj for described in self.known.values() if isinstance(described.obj, TensorObject) and not described.is_state]

    def of_tensor(self, source: Source, tensor: torch.Tensor) -> TensorObject:
        """The Object of a real tensor; one placeholder for each tensor, however many paths lead to it. Guards its metadata."""
        known = self.known.get(id(tensor))
        if known is not None:
            obj = known.obj
            assert isinstance(obj, TensorObject)
            if obj.source is not source:
                self.state.vm.relate(Same, source, obj.source)
            return obj
        return self.of_kind(source, tensor, tensor)

    def of_kind(self, source: Source, tensor: torch.Tensor, plain: torch.Tensor) -> TensorObject:
        """Make a tensor from outside an input as its kind says. `plain`: what the graph gets, whose kind it is."""
        with torch._C.DisableTorchFunctionSubclass():
            kind = kind_of(plain)
            reason = self._refusal(kind, plain)
        if reason is not None:
            self.state.vm.unsupported(reason)
        made = kind.make_input(self, source, tensor, plain)
        assert isinstance(made, TensorObject)
        return made

    def _refusal(self, kind: TensorKind, tensor: torch.Tensor) -> breaks.Break | None:
        """The reason why a tensor from outside can't be an input, or None. AOTAutograd's code makes views of one base again from that base."""
        reason = kind.refusal(tensor)
        if reason is None and self.state.is_one_autograd_node and has_own_memory(tensor) and lies_elsewhere(tensor):
            return breaks.UnsupportedValue("a view that has other data than its base, since one of them has been given that")
        if reason is None and self.state.is_one_autograd_node and tensor._is_zerotensor():  # which AOTAutograd's fakes aren't
            return breaks.UnsupportedValue("a tensor of zeros without memory, as forward-mode differentiation makes it")
        return reason

    # What kinds make inputs of.

    def add_dense(self, source: Source, tensor: torch.Tensor, plain: torch.Tensor) -> TensorObject:
        """Make an input of a tensor that has its data in its own memory. Guards its metadata, sizes as far as they are constants."""
        self.state.refresh()
        static = is_static(source, plain)
        symbolic = None if static else self.shapes.context_of(source, plain)
        return self.add_sized(source, tensor, plain, self.state.fakes.of_input(tensor, symbolic), symbolic, static)

    def add_sized(
        self, source: Source, tensor: torch.Tensor, plain: torch.Tensor, fake: torch.Tensor, symbolic: StatefulSymbolicContext | None, static: bool
    ) -> TensorObject:
        """Make an input of a tensor whose fake was made by torch's SymbolicContext, or without one. Guards its metadata."""
        spec = tensor_spec(tensor)
        if symbolic is not None:
            self.shapes.note_input(source, plain, fake)
            self.state.part(Unbacked).note_input(source.name_in_reports(), fake)
            spec = without_symbols(spec, fake)
        self.state.vm.guard(TensorMatch, source, spec)
        return self.add(source, tensor, plain, fake, symbolic, static)

    def add(self, source: Source, tensor: torch.Tensor, plain: torch.Tensor, fake: torch.Tensor, symbolic: Any, static: bool = False) -> TensorObject:
        """Make the placeholder of an input, about which the caller has added the guards."""
        node = self.state.outermost.placeholder(identifier(self.described(source)), fake)
        obj = TensorObject(node, type(tensor), source, tensor)
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        self.known[id(tensor)] = GraphInput(source, node, obj, plain, symbolic, is_parameter, holds_buffer(source), static)
        self.state.trail.learned(self, self.known.pop, id(tensor))
        if is_cast_in_parts(tensor):
            self.state.cast_views[id(tensor)] = node
            self.state.trail.learned(self.state, self.state.cast_views.pop, id(tensor))
        self.state.fakes.belongs_to(fake, obj)
        self.state.fakes.note_version(node)
        note_beginning(fake)
        return obj

    def described(self, source: Source) -> str:
        """The text of a path, as `describe` gives it. Paths of many inputs go through the same modules."""
        found = self._texts.get(source)
        if found is None:
            found = self._texts[source] = source.text(self.described)
        return found

    def is_as_outside(self, obj: TensorObject) -> bool:
        """Return whether an input is a dense tensor that the graph has left as the call was given it, as far as its fake shows."""
        described, fake = self.known.get(id(obj.value)), obj.fake
        if described is None or described.obj is not obj or described.is_state or described.symbolic is not None or fake.layout is not torch.strided:
            return False
        with torch._C.DisableTorchFunction():
            real = obj.value.shape, obj.value.stride(), obj.value.requires_grad
        is_same = (fake.shape, fake.stride(), fake.requires_grad) == real and obj.grad is MISSING and obj.data is MISSING and obj.requires_grad is MISSING
        return is_same and not fake.is_inference() and not self.state.fakes.has_other_version(described.node)

    def has_look(self, source: Source, tensor: torch.Tensor, look: InputLook) -> bool:
        """Return whether a tensor isn't an input yet, and would be one of this look, whose sizes are constants."""
        with torch._C.DisableTorchFunctionSubclass():
            kind = kind_of(tensor)
            if id(tensor) in self.known or kind is not kind_of_class(look.spec.cls) or self._refusal(kind, tensor) is not None:
                return False
        if look_of(tensor) != look:
            return False
        return is_static(source, tensor) or self.shapes.context_of(source, tensor) is None

    def add_like(self, source: Source, tensor: torch.Tensor) -> TensorObject:
        """Make an input of a tensor about which the caller has added the guards, and of which `has_look` is true."""
        self.state.refresh()
        return self.add(source, tensor, tensor, self.state.fakes.of_input(tensor, None), None, is_static(source, tensor))

    # Others.

    def of_part(self, sparse: TensorObject, source: Source) -> TensorObject:
        """One of the tensors in which a sparse tensor from outside has its data, as an input of its own. Nobody may write to it: that would change both."""
        context = self.known[id(sparse.value)].symbolic
        return self.of_tensor(source, context.parts[source])

    def of_state(self, source: Source, state: torch.Tensor) -> TensorObject:
        """The state of a generator, or the token of a module, which this path leads to, as a tensor: a placeholder of its own."""
        self.state.refresh()
        fake = self.state.fakes.of_input(state, None)
        node = self.state.outermost.placeholder(identifier(source.describe()), fake)
        obj = TensorObject(node, torch.Tensor, None, state)
        self.known[id(state)] = GraphInput(source, node, obj, state, is_state=True)
        self.state.trail.learned(self, self.known.pop, id(state))
        self.state.fakes.belongs_to(fake, obj)
        self.state.fakes.note_version(node)
        return obj

    def of_opaque(self, obj: Object, fake: Any) -> fx.Node:
        """The placeholder of an opaque object from outside, which is no input yet."""
        assert obj.source is not None
        if not self.state.demands.takes_objects:
            self.state.vm.unsupported(breaks.UnsupportedValue(f"{obj!r}, an opaque object, as an input of a graph"))
        node = self.state.outermost.placeholder(identifier(obj.source.describe()), fake)
        self.known[id(obj.value)] = GraphInput(obj.source, node, obj, obj.value)
        self.state.trail.learned(self, self.known.pop, id(obj.value))
        return node

    def used(self) -> list[GraphInput]:
        """The inputs that nodes use, in order. The placeholders of the others are removed."""
        graph = self.state.outermost.fx
        needed = {described.node for described in self.known.values() if described.node.users}
        if self.state.demands.lifts_symbols:
            fakes = [described.node.meta["example_value"] for described in self.known.values() if described.is_tensor and described.node in needed]
            needed |= self.shapes.lift([sized for fake in fakes for sized in kind_in_graph(fake).sized(fake)])
        by_node = {described.node: described for described in self.known.values()}
        inputs = []
        for node in list(graph.nodes):
            if node.op != "placeholder":
                break
            if node in needed:
                inputs.append(by_node[node])
            else:
                graph.erase_node(node)
        return inputs

    def guard_aliasing(self, inputs: list[GraphInput], mutated: set[fx.Node], rested_on: set[fx.Node]) -> None:
        """Guard which inputs share memory: backends rely on that if an input is changed in place, and so does a program that compares storages.
        `rested_on`: inputs of which the trace knows the data."""
        asked = {key_of(storage.tensor.fake) for storage in self.state.storages}
        used = rested_on | {described.node for described in inputs} if any(described.node in mutated for described in inputs) else set()
        tensors = [described for described in self.known.values() if described.is_tensor and not described.is_state]
        tensors = [described for described in tensors if not is_functorch_wrapped_tensor(described.value)]  # their memory is that of others
        compared = {described.node for described in tensors if asked and not storages([described.node.meta["example_value"]]).isdisjoint(asked)}
        inputs = list({id(part.value): part for described in tensors if described.node in used | compared for part in self._parts(described)}.values())
        if not inputs:
            return
        distinct = [described.node in mutated | compared for described in inputs]
        groups, offsets = aliasing_among([described.value for described in inputs], distinct, exact=bool(asked))
        if not lie_apart([described.value for described in inputs], [group is not None for group in groups]):
            if self.state.tells_apart:
                raise RestartWith("tells_apart", False)  # one input for an array that is found by several paths
            self.state.vm.unsupported(breaks.MutatedInputUnsupported("an array or a tensor that shares memory with another one, of another storage"))
        if self.state.demands.one_autograd_node:
            self._reject_overlaps(inputs, [described.node in mutated for described in inputs])
        self.state.vm.relate(StorageAliasing, inputs[0].source, tuple(described.source for described in inputs), groups, offsets)

    def guard_bases(self, inputs: list[GraphInput], results: Sequence[fx.Node]) -> None:
        """Guard views from outside of which results are views to lie in their bases: AOTAutograd makes such a result again from the base."""
        if not self.state.is_one_autograd_node:
            return
        made = [node.meta.get("example_value") for node in results if node.op != "placeholder"]
        memory = storages([fake for fake in made if isinstance(fake, torch.Tensor)])
        for described in inputs if memory else ():
            is_view = described.is_tensor and not described.is_state and has_own_memory(described.value) and described.value._is_view()
            if is_view and not memory.isdisjoint(storages([described.node.meta["example_value"]])):
                self.state.vm.relate(LiesInBase, described.source, described.source.child(TensorAttribute, "_base"))

    def _reject_overlaps(self, inputs: list[GraphInput], written: list[bool]) -> None:
        """Break for changes of tensors that AOTAutograd makes nothing right of. What is no view of a tensor is put together with others by `set_`, which
        torch can't do with memory of a symbolic size. Views are made again from their base, and guarded to lie in it.
        """
        tensors = [described.value for described in inputs]
        sources = {id(described.value): described.source for described in inputs}
        nodes = self.state.outermost.fx.nodes
        records = self.state.modes.initial.grad or any(each.target in MODE_CHANGES for node in nodes for each in (node, *nodes_within(node)))
        of_any_size = {id(described.value) for described in inputs if has_symbolic_sizes(described.node.meta["example_value"])}
        with torch._C.DisableTorchFunction():
            if any(changed and overlaps_itself(tensor) for tensor, changed in zip(tensors, written, strict=True)):
                self.state.vm.unsupported(breaks.MutatedInputUnsupported("a tensor whose elements lie in the same memory"))
            for together in overlapping_in_one_storage(tensors, written):
                if not have_one_base(together):
                    self.state.vm.unsupported(breaks.MutatedInputUnsupported("a tensor that overlaps with another one, with another base or dtype"))
                if together[0]._base is None and any(id(tensor) in of_any_size for tensor in together):
                    self.state.vm.unsupported(breaks.MutatedInputUnsupported("a tensor whose size varies, and that has the memory of another one"))
                # The copy of what is written into the base would be its record.
                if records and any(tensor.requires_grad and not tensor.is_leaf for tensor in together):
                    self.state.vm.unsupported(breaks.MutatedInputUnsupported("a tensor that overlaps with another one, of which autograd has a record"))
                for source in [sources[id(tensor)] for tensor in together]:
                    self.state.vm.relate(LiesInBase, source, source.child(TensorAttribute, "_base"))

    def _parts(self, described: GraphInput) -> list[GraphInput]:
        """The inputs in whose memory the data of one is."""
        return described.symbolic.inputs_with_data(described, self.known) if isinstance(described.symbolic, PartsContext) else [described]


def has_own_memory(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is a plain one, with its data in its own memory."""
    return tensor.layout is torch.strided and is_plain(type(tensor)) and not is_functorch_wrapped_tensor(tensor)


def has_symbolic_sizes(fake: torch.Tensor) -> bool:
    return any(type(size) is torch.SymInt for size in fake.size())


def without_symbols(spec: TensorSpec, fake: torch.Tensor) -> TensorSpec:
    """The parts that remain to be compared of a tensor whose fake has symbolic sizes and strides: those are None."""
    assert spec.sizes is not None
    sizes = tuple(None if type(sym) is torch.SymInt else size for size, sym in zip(spec.sizes, fake.size()))
    strides = None if spec.strides is None else tuple(None if type(sym) is torch.SymInt else stride for stride, sym in zip(spec.strides, fake.stride()))
    return replace(spec, sizes=sizes, strides=strides)
