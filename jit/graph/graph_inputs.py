"""Collects the inputs of a trace's graph: makes a placeholder for each tensor and number from outside, and guards how they share memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import SubclassSymbolicContext

from framejit import breaks
from framejit.graph.fake import refusal, refusal_of_class
from framejit.graph.fakes import storages
from framejit.graph.inputs import GraphInput, holds_buffer, identifier, is_static
from framejit.graph.jagged import JaggedContext, contexts_of, parts_of
from framejit.graph.shapes import Shapes
from framejit.graph.sparse import SparseContext, context_of_sparse, is_sparse, rest_on_form
from framejit.graph.trace_state import TraceState
from framejit.graph.unbacked import Unbacked
from framejit.graph.wrappers import Wrappers
from framejit.guards.kinds import TensorMatch
from framejit.guards.relations import Same, StorageAliasing
from framejit.guards.source import Source
from framejit.guards.tensor_spec import (
    TensorSpec,
    aliasing_among,
    have_one_base,
    lie_apart,
    overlapping_in_one_storage,
    overlaps_itself,
    spec_without_sizes,
    tensor_spec,
)
from framejit.objects.storageobject import key_of
from framejit.objects.tensorobject import TensorObject
from framejit.torch_classes import as_class, is_disguised, is_distributed, is_jagged, is_wrapper
from framejit.transforms_in_force import is_functorch_wrapped_tensor


class GraphInputs:
    """The inputs of one trace's graph. `known`: by the identity of the tensor, or of the number's Object."""

    def __init__(self, state: TraceState) -> None:
        self._state = state
        self._shapes, self._wrappers = state.part(Shapes), state.part(Wrappers)
        self.known = state.known_inputs

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
                self._state.vm.relate(Same, source, obj.source)
            return obj
        reason = refusal_of_class(type(tensor))
        if reason is not None:
            self._state.vm.unsupported(reason)
        if is_jagged(type(tensor)):
            return self._jagged_input(source, tensor)
        is_subclass, of_others = is_disguised(type(tensor)), is_wrapper(type(tensor))
        plain = as_class(tensor, torch.Tensor) if is_subclass else tensor
        transformed = self._state.outermost.transform is not None and is_functorch_wrapped_tensor(plain) and plain.layout is torch.strided
        with torch._C.DisableTorchFunctionSubclass():
            reason = None if transformed else refusal(plain)
        if reason is not None:
            self._state.vm.unsupported(reason)
        if is_sparse(plain) and not of_others:
            return self._sparse_input(source, tensor, plain, is_subclass)
        self._state.refresh()
        if is_distributed(type(tensor)):
            self._wrappers.meet_distributed()
        elif of_others:
            self._wrappers.meet_wrapper()
        static = of_others or transformed or is_static(source, plain)
        try:
            symbolic = self._shapes.context_of_wrapper(source, plain) if of_others else None if static else self._shapes.context_of(source, plain)
            fake = self._state.fakes.of_transformed(plain) if transformed else self._state.fakes.of_input(tensor, symbolic)
        except (AttributeError, RuntimeError, NotImplementedError, TypeError) as error:
            if not of_others:
                raise
            self._state.vm.unsupported(breaks.TensorSubclass(f"{type(tensor).__qualname__}, of which there is no tensor without data ({error})"))
        if symbolic is not None:
            if isinstance(symbolic, SubclassSymbolicContext):
                self._shapes.note_wrapper(source, tensor, symbolic)
            self._shapes.note_input(source, plain, fake)
            self._state.part(Unbacked).note_input(source.told(), fake)
        self._state.vm.guard(TensorMatch, source, tensor_spec(tensor) if symbolic is None else without_symbols(tensor_spec(tensor), fake))
        return self._new_input(source, tensor, fake, plain, symbolic, static, is_subclass, of_others)

    def _new_input(self, source: Source, tensor: torch.Tensor, fake: torch.Tensor, plain: torch.Tensor, *described: Any) -> TensorObject:
        """A placeholder for a tensor from outside. `described`: the rest of what a GraphInput says of it."""
        symbolic, *rest = described
        node = self._state.outermost.placeholder(identifier(source.describe()), fake)
        obj = TensorObject(node, type(tensor), source, tensor)
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        self.known[id(tensor)] = GraphInput(source, node, obj, plain, symbolic, is_parameter, holds_buffer(source), *rest)
        self._state.trail.learned(self, self.known.pop, id(tensor))
        self._state.fakes.belongs_to(fake, obj)
        self._state.fakes.note_version(node)
        return obj

    def _jagged_input(self, source: Source, nested: Any) -> TensorObject:
        """The Object of a nested tensor from outside. The caller must guard the tensors that it consists of."""
        self._state.refresh()
        self._wrappers.meet_nested()
        context = contexts_of(source, nested, self._shapes.context_of_part)
        fake = self._state.fakes.of_input(nested, context)
        self._state.vm.guard(TensorMatch, source, spec_without_sizes(nested))
        obj = self._new_input(source, nested, fake, nested, context)
        self._wrappers.note_nested(obj)
        return obj

    def _sparse_input(self, source: Source, tensor: torch.Tensor, plain: torch.Tensor, is_subclass: bool) -> TensorObject:
        """The Object of a sparse tensor from outside. Its sizes are constants; if they vary, it can't be an input, and the trace breaks."""
        if not self._state.demands.takes_sparse:
            self._state.vm.unsupported(breaks.UnsupportedValue(f"a tensor of layout {plain.layout}, with which the backend can't compile the graph"))
        if not is_static(source, plain) and self._shapes.dynamic.dimensions(source, plain):
            self._state.vm.unsupported(breaks.UnsupportedValue(f"a tensor of layout {plain.layout}, whose sizes vary"))
        self._state.refresh()
        with self._state.modes.initial.applied():
            context = context_of_sparse(source, plain)
            rest_on_form(self._state.vm, source, plain, context)
        fake = self._state.fakes.of_input(tensor, context)
        self._state.vm.guard(TensorMatch, source, tensor_spec(tensor))
        return self._new_input(source, tensor, fake, plain, context, False, is_subclass)

    def of_part(self, sparse: TensorObject, source: Source) -> TensorObject:
        """One of the tensors in which a sparse tensor from outside has its data, as an input of its own. Nobody may write to it: that would change both."""
        context = self.known[id(sparse.value)].symbolic
        return self.of_tensor(source, context.parts[source])

    def of_state(self, source: Source, state: torch.Tensor) -> TensorObject:
        """The state of a generator, or the token of a module, which this path leads to, as a tensor: a placeholder of its own."""
        self._state.refresh()
        fake = self._state.fakes.of_input(state, None)
        node = self._state.outermost.placeholder(identifier(source.describe()), fake)
        obj = TensorObject(node, torch.Tensor, None, state)
        self.known[id(state)] = GraphInput(source, node, obj, state, is_state=True)
        self._state.trail.learned(self, self.known.pop, id(state))
        self._state.fakes.belongs_to(fake, obj)
        self._state.fakes.note_version(node)
        return obj

    def used(self) -> list[GraphInput]:
        """The inputs that nodes use, in order. The placeholders of the others are removed."""
        graph = self._state.outermost.fx
        needed = {described.node for described in self.known.values() if described.node.users}
        if self._state.demands.lifts_symbols:
            fakes = [described.node.meta["example_value"] for described in self.known.values() if described.is_tensor and described.node in needed]
            parts = [part for fake in fakes if is_jagged(type(fake)) for part in parts_of(fake).values()]
            needed |= self._shapes.lift([fake for fake in (*fakes, *parts) if not is_sparse(fake)])
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
        """Where an input is changed in place, backends rely on which inputs share its memory, and so does a program that compares storages: guard that.
        `rested_on`: inputs of which the trace knows the data."""
        asked = {key_of(storage.tensor.fake) for storage in self._state.storages}
        used = rested_on | {described.node for described in inputs} if any(described.node in mutated for described in inputs) else set()
        tensors = [described for described in self.known.values() if described.is_tensor and not described.is_state]
        tensors = [described for described in tensors if not is_functorch_wrapped_tensor(described.value)]  # their memory is that of others
        compared = {described.node for described in tensors if not storages([described.node.meta["example_value"]]).isdisjoint(asked)}
        inputs = list({id(part.value): part for described in tensors if described.node in used | compared for part in self._parts(described)}.values())
        if not inputs:
            return
        told_apart = [described.node in mutated | compared for described in inputs]
        groups, offsets = aliasing_among([described.value for described in inputs], told_apart, exact=bool(asked))
        if not lie_apart([described.value for described in inputs], [group is not None for group in groups]):
            self._state.vm.unsupported(breaks.MutatedInputUnsupported("an array or a tensor that shares memory with another one, of another storage"))
        if self._state.demands.one_autograd_node:
            self._refuse_overlaps(inputs, [described.node in mutated for described in inputs])
        self._state.vm.relate(StorageAliasing, inputs[0].source, tuple(described.source for described in inputs), groups, offsets)

    def _refuse_overlaps(self, inputs: list[GraphInput], written: list[bool]) -> None:
        """Break for changes of tensors that AOTAutograd makes nothing right of. What is no view of a tensor is put together with others by `set_`, which
        torch can't do with memory of a symbolic size.
        """
        tensors = [described.value for described in inputs]
        of_any_size = {id(described.value) for described in inputs if has_symbolic_sizes(described.node.meta["example_value"])}
        with torch._C.DisableTorchFunction():
            if any(changed and overlaps_itself(tensor) for tensor, changed in zip(tensors, written, strict=True)):
                self._state.vm.unsupported(breaks.MutatedInputUnsupported("a tensor whose elements lie in the same memory"))
            for together in overlapping_in_one_storage(tensors, written):
                if not have_one_base(together):
                    self._state.vm.unsupported(breaks.MutatedInputUnsupported("a tensor that overlaps with another one, with another base or dtype"))
                if together[0]._base is None and any(id(tensor) in of_any_size for tensor in together):
                    self._state.vm.unsupported(breaks.MutatedInputUnsupported("a tensor whose size varies, and that has the memory of another one"))

    def _parts(self, described: GraphInput) -> list[GraphInput]:
        """The inputs in whose memory the data of one is; of a sparse tensor, the tensors in which it has its data, as inputs in its place."""
        if isinstance(described.symbolic, SparseContext):
            return [replace(described, source=source, value=part) for source, part in described.symbolic.parts.items()]
        if not isinstance(described.symbolic, JaggedContext):
            return [described]
        return [self.known[id(part)] for part in parts_of(described.value).values()]


def has_symbolic_sizes(fake: torch.Tensor) -> bool:
    return any(type(size) is torch.SymInt for size in fake.size())


def without_symbols(spec: TensorSpec, fake: torch.Tensor) -> TensorSpec:
    """What is left to be compared of a tensor whose fake has symbolic sizes and strides: those are None."""
    assert spec.sizes is not None
    sizes = tuple(None if type(sym) is torch.SymInt else size for size, sym in zip(spec.sizes, fake.size()))
    strides = None if spec.strides is None else tuple(None if type(sym) is torch.SymInt else stride for stride, sym in zip(spec.strides, fake.stride()))
    return replace(spec, sizes=sizes, strides=strides)
