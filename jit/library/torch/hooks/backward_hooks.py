"""Backward passes in the graph that reach hooks: the hooks are traced as if the program called them, in autograd's order.

The gradients that hooks get are results of the graph's node for the pass. If a hook changes one, the computation of the new gradient
becomes a graph of its own, which that node runs, and the pass is traced again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from framejit.graph.builder import TorchVM
from framejit.graph.fake import storages
from framejit.graph.gradient_paths import layout_of_grad, saved_by
from framejit.graph.inner import InnerGraph
from framejit.guards.source import CAttr
from framejit.library.torch.autograd.gradient_question import HOOKS, Question, layout_for
from framejit.library.torch.autograd.recomputed import changed_by, read_by_inner_graphs, recomputed
from framejit.library.torch.hooks.gradient_hooks import Listener, Listening, in_order_of_hooks, tap_
from framejit.objects.core import abstract
from framejit.objects.core.object import Object
from framejit.objects.core.registry import stands_for_frames
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.types.constobject import ConstObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.plain import gradients as app
from framejit.quick_dataclass import dataclass

MOST_PASSES = 4
NOT_COMPUTED = ", where a hook changes a gradient by more than computing another one"
NO_GRADIENT = ", where a hook gives what is no such gradient"


def has_hooks(vm: TorchVM, leaves: Sequence[TensorObject]) -> bool:
    """Return whether a backward pass to these leaves may reach hooks, or must keep gradients of other tensors."""
    listening = vm.graph.part(Listening)
    return bool(listening.hooks or listening.retaining) or any(has_had_hooks(vm, leaf) for leaf in leaves)


def has_had_hooks(vm: TorchVM, leaf: TensorObject) -> bool:
    """Return whether a leaf from outside has hooks, or had any. The trace may have removed some that are still there while the graph runs."""
    if leaf.source is None:
        return False
    return any(getattr(leaf.value, name) is not None for name in HOOKS) or any(one.tensor is leaf for one in vm.graph.part(Listening).on_inputs)


def hooks_of(vm: TorchVM, leaf: TensorObject) -> tuple[list[Object], list[Object]]:
    """The hooks on the gradient of a leaf from outside, and those that are called after it has been added to its `.grad`."""
    found: list[list[Object]] = []
    for name in HOOKS:
        real = None if leaf.source is None else getattr(leaf.value, name)
        if leaf.source is None or real is None:
            found.append([])
        else:
            hooks = vm.wrap(real, leaf.source.child(CAttr, name))
            found.append([vm.observe(hook) for hook in abstract.iterate(vm, abstract.call_method(vm, hooks, "values"))])
    for one in vm.graph.part(Listening).on_inputs:
        if one.tensor is leaf and not one.removed:
            found[one.method != "register_hook"].append(vm.observe(one.hook))
    return found[0], found[1]


stands_for_frames(app.call_hook, 2)  # torch.autograd.backward, and the caller of autograd's engine
stands_for_frames(app.call_hook_in_method, 1)


@dataclass(frozen=True, slots=True)
class GradientChange:
    """A change of gradients by a hook: `graph` computes the new ones from its operands, followed by gradients that the pass has passed to hooks
    (tap, place) before. `given`: the result of the graph that each gradient becomes; None: it stays the same."""

    graph: InnerGraph
    received: tuple[tuple[int, int], ...]
    given: tuple[int | None, ...]

    def meaning(self) -> tuple[object, ...]:
        """A value that is equal for two changes with the same effect."""
        return self.graph.pattern(), self.graph.operands, self.received, self.given


def run_with_hooks(vm: TorchVM, asked: Question, leaves: Sequence[TensorObject]) -> Object:
    """Trace a backward pass with all hooks that it reaches."""
    if asked.create_graph or any(leaf.source is None and leaf.look(vm)._backward_hooks for leaf in leaves):
        asked.stop(vm, ", where there are hooks")
    changes: dict[int, GradientChange] = {}
    for _ in range(MOST_PASSES):
        mark = vm.trail.mark()
        found = Pass(vm, asked, leaves, changes).run()
        if {tap: change.meaning() for tap, change in found.items()} == {tap: change.meaning() for tap, change in changes.items()}:
            return vm.const(None)
        inputs = {obj.node: obj for obj in vm.graph.inputs.tensors()}
        vm.trail.undo_to(mark)
        changes = {tap: with_operands(vm, change, inputs) or asked.stop(vm, NOT_COMPUTED) for tap, change in found.items()}
    asked.stop(vm, ", where hooks change gradients one by the other")


def with_operands(vm: TorchVM, change: GradientChange, inputs: dict[fx.Node, TensorObject]) -> GradientChange | None:
    """A change from a pass that has been undone: inputs that the trace first met there are made inputs again. None if an operand is lost."""
    operands = []
    for node in change.graph.operands:
        if node not in vm.graph.body.fx.nodes:
            obj = inputs.get(node)
            if obj is None or obj.source is None:
                return None
            node = vm.graph.input(obj.source, obj.value).node
        operands.append(node)
    return replace(change, graph=replace(change.graph, operands=tuple(operands)))


class Pass:
    """One backward pass. `changes`: the changes by hooks that are known so far, by the index of the tap."""

    def __init__(self, vm: TorchVM, asked: Question, leaves: Sequence[TensorObject], changes: dict[int, GradientChange]) -> None:
        self.vm, self.graph, self.asked, self.leaves = vm, vm.graph, asked, leaves
        listening = self.graph.part(Listening)
        kept = [tensor for tensor in listening.retaining if tensor.look(vm).requires_grad and not tensor.look(vm).is_leaf]
        self.hooks: list[Listener | TensorObject] = [*listening.hooks, *kept]
        self.taps = [*[hook.node for hook in listening.hooks], *[self.graph.node_of(tap_, (tensor.node,)) for tensor in kept]]
        fakes = [output.look(vm) for output in asked.outputs if isinstance(output, TensorObject)]
        self.saved = storages([*saved_by(fakes), *read_by_inner_graphs(self.graph.body)]) if listening.hooks else set()
        order = self.order(fakes)
        come_by = [index - len(leaves) for index, _ in order if index >= len(leaves)]
        self.positions = {index: position for position, index in enumerate(come_by)}
        counts = dict(order)
        attached = [self.attached(changes.get(index)) for index in come_by]
        self.node = asked.ask_listening(vm, leaves, tuple([self.taps[index] for index in come_by]), tuple(attached))
        result = self.graph.result_of(self.node)
        assert isinstance(result, TupleObject)
        received = iter([vm.observe(item) for item in result.items(vm)])
        self.gradients = [next(received) for _ in leaves]
        self.received = {index: [next(received) for _ in range(counts[index + len(leaves)])] for index in come_by}
        self.events = [index for index, _ in order]

    def order(self, fakes: list[torch.Tensor]) -> list[tuple[int, int]]:
        """The events of the pass in order: see `in_order_of_hooks`. `fakes`: its outputs."""
        leaves = [leaf.look(self.vm) for leaf in self.leaves]
        taps = [tap.meta["example_value"] for tap in self.taps]
        with self.graph.fakes.running():
            return in_order_of_hooks(fakes, leaves, taps, None if self.asked.inputs is None else leaves)

    def attached(self, change: GradientChange | None) -> tuple[Any, ...] | None:
        """A change as an argument of the node."""
        if change is None:
            return None
        places = tuple([(self.positions[tap], place) for tap, place in change.received])
        return self.graph.attach(change.graph, {}), change.graph.operands, places, change.given

    def run(self) -> dict[int, GradientChange]:
        """Do everything that the pass does except computing gradients; returns the changes by hooks."""
        vm, count = self.vm, len(self.leaves)
        if any(isinstance(item, TensorObject) and item.look(vm).layout is not torch.strided for item in self.gradients):
            self.asked.stop(vm, ", which gives a sparse gradient")
        changes = {}
        for index in self.events:
            if index < count:
                self.accumulate(index)
                continue
            hook, received = self.hooks[index - count], self.received[index - count]
            if not isinstance(hook, Listener):
                vm.call_app(app.retain, [hook, *received])
            elif (changed := self.call(hook, received)) is not None:
                changes[index - count] = self.change(received, changed)
        return changes

    def accumulate(self, index: int) -> None:
        """Add the gradient to the `.grad` of a leaf."""
        vm, leaf, gradient = self.vm, self.leaves[index], self.gradients[index]
        before, after = hooks_of(vm, leaf)
        if not before and not after:
            others = [*self.gradients[:index], *[obj for items in self.received.values() for obj in items]]
            layout = layout_for(vm, leaf, gradient, gradient in others)
            vm.call_app(app.accumulate, [TupleObject([leaf]), TupleObject([gradient]), TupleObject([vm.const(layout)]), vm.const(False)])
            return
        layout = layout_of_grad(leaf.look(vm))
        vm.call_app(app.accumulate_with_hooks, [leaf, gradient, TupleObject(before), vm.const(layout), TupleObject(after)])

    def call(self, hook: Listener, received: list[Object]) -> list[Object] | None:
        """Call a hook of the program; returns the gradients with which autograd continues, None if they are unchanged."""
        vm, before = self.vm, set(self.graph.body.kept)
        given = received if hook.inputs is None else [TupleObject(received[: hook.inputs]), TupleObject(received[hook.inputs :])]
        call = app.call_hook_in_method if self.asked.is_method else app.call_hook
        found = vm.observe(vm.call_app(call, [hook.hook, *given]))
        written = changed_by(self.graph.body.kept - before)
        if storages(written) & (self.saved | storages([obj.look(vm) for items in self.received.values() for obj in items if isinstance(obj, TensorObject)])):
            self.asked.stop(vm, ", where a hook changes in place what the gradients are computed from")
        if is_none(found):
            return None
        if hook.inputs is None:
            return None if found is received[0] else [found]
        items = [vm.observe(item) for item in found.items(vm)] if isinstance(found, TupleObject) and found.cls is tuple else []
        if len(items) != hook.inputs:
            self.asked.stop(vm, NO_GRADIENT)
        return None if all(new is old or (is_none(new) and is_none(old)) for new, old in zip(items, received)) else items

    def change(self, received: list[Object], changed: list[Object]) -> GradientChange:
        """A hook's change as a graph. Stops the trace if it can't be computed again by a graph."""
        vm, given, made = self.vm, list[int | None](), list[fx.Node]()
        for old, new in zip(received, changed):
            if new is old or (is_none(new) and is_none(old)):
                given.append(None)
            elif isinstance(old, TensorObject) and isinstance(new, TensorObject) and looks_like(new.look(vm), old.look(vm)):
                given.append(len(made))
                made.append(new.node)
            else:
                self.asked.stop(vm, NO_GRADIENT)
        places: dict[fx.Node, tuple[int, int]] = {}
        for tap, items in self.received.items():
            for place, obj in enumerate(items):
                if isinstance(obj, TensorObject):
                    places.setdefault(obj.node, (tap, place))  # the one that was passed first is there when autograd reaches the hook
        found = recomputed(self.graph.body, self.node, places, made, self.graph.fakes.running)
        if found is None:
            self.asked.stop(vm, NOT_COMPUTED)
        graph, taken = found
        return GradientChange(graph, tuple([places[node] for node in taken]), tuple(given))


def is_none(value: Object) -> bool:
    """Return whether a value is None."""
    return isinstance(value, ConstObject) and value.value is None


def looks_like(found: torch.Tensor, gradient: torch.Tensor) -> bool:
    """Return whether autograd accepts a hook's result in place of a gradient."""
    return found.shape == gradient.shape and found.dtype == gradient.dtype and found.device == gradient.device
