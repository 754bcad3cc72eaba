"""Rules for graphs that autograd sees as one node, as it does if AOTAutograd makes the backward of the whole graph.

To autograd such a graph is one operator: its inputs and its outputs exist, and nothing in between. So inside it no tensor can become a leaf
or stop being one, none can be asked for a gradient of its own, and none can be given memory of another size. `Demands.one_autograd_node`
says whether a backend is of this kind; the backend "eager" is not: autograd records each operator of its graphs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import CodeType
from typing import Any, NoReturn

import torch
from torch import fx
from torch._ops import OpOverload, OpOverloadPacket

from framejit import breaks
from framejit.graph.demands import RestartWith
from framejit.graph.fake import is_of_others, storages, version_of
from framejit.graph.function_views import first_passed_by
from framejit.graph.gradient_paths import gives_gradients, gradient_paths, passes_gradients
from framejit.graph.operator_call import OperatorCall, Phase, rule
from framejit.graph.spelling import is_spelled_in_full
from framejit.graph.trace_state import TraceState
from framejit.graph.values import tensors_of
from framejit.guards.tensor_spec import share_places
from framejit.objects.tensors.tensorkind import kind_in_graph
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.quick_dataclass import dataclass
from framejit.torch_state.operator_facts import keeps_elements

MAKES_LEAF_OF = "requires_grad_"
"""The method that makes a tensor of the graph a leaf, or makes a leaf an ordinary tensor."""
SPENT = ("backward through the graph a second time", "has been modified by an inplace operation")
"""The message of autograd's error if a result's record was used up."""
MAKES_LEAF = breaks.NotInsideAutogradNode("making a leaf, a tensor with a gradient of its own,")
MAKES_VIEW = breaks.NotInsideAutogradNode("a view under no_grad, which has a gradient of its own,")
WRITES_DETACHED = breaks.NotInsideAutogradNode("a recorded change in memory of an argument, through a tensor detached from it,")
SHARES_MEMORY = breaks.NotInsideAutogradNode("a view with a backward of its own (a Function's, or a hooked module's) that shares memory with a result,")
PARTLY_INFERENCE = breaks.GlobalStateUnsupported("inference mode in a part of a graph whose backward is made as a whole")


class AutogradNode:
    """The rules for one graph that autograd sees as one node. `before` and `after` check each operator, and end the graph where necessary.

    `asks`: the program asks for gradients inside the graph. `asks_twice`: it asks there for gradients that it can differentiate again.
    `differentiated_twice`: after the graph, the program asks for gradients that it differentiates again, for which autograd must record the graph's operators
    after all. `changes_input`: a tensor from outside that requires a gradient is changed in place.
    """

    def __init__(self, state: TraceState) -> None:
        self._state = state
        self._inference: bool | None = None
        self.differentiated_twice = False
        self.asks = self.asks_twice = self.changes_input = False
        self._once: list[fx.Node] = []
        self._listened: list[tuple[TensorObject, tuple[CodeType, int]]] = []
        self._leaves: list[tuple[fx.Node, tuple[CodeType, int]]] = []

    def before(self, target: Any, name: str, fakes: Sequence[torch.Tensor], changes: bool) -> TensorSnapshot | None:
        """Check an operator and its arguments before it runs. Returns a snapshot with which `after` compares the arguments."""
        vm = self._state.vm
        for fake in fakes:
            if (reason := kind_in_graph(fake).refusal_as_argument(fake)) is not None:
                vm.unsupported(reason)
        if isinstance(target, (OpOverload, OpOverloadPacket)) and is_of_others(target) and not is_spelled_in_full(target):
            vm.unsupported(breaks.UnsupportedOperation(f"{name}, which AOTAutograd can't write as code: it is named by a keyword, or takes arguments that are"))
        inference = self._state.modes.current.inference
        if self._inference is None:
            vm.trail.set(self, "_inference", inference)
        if self._inference != inference or (self._state.modes.initial.inference and not inference):
            vm.unsupported(PARTLY_INFERENCE)
        if self._state.transform_around() is not None:
            return None  # autograd's record inside a transform is the transform's own
        if torch.is_grad_enabled() and not inference and not gives_gradients(target):
            self.check_leaves(fakes)
        return TensorSnapshot.of(fakes, self._state.input_fakes()) if changes else None

    def after(self, name: str, result: Any, snapshot: TensorSnapshot | None) -> None:
        """Check the changes that an operator has made to fakes, and its result."""
        for tensor in tensors_of(result):
            if (reason := kind_in_graph(tensor).refusal_as_result(tensor)) is not None:
                self._state.vm.unsupported(reason)
        if self._state.transform_around() is not None:
            return
        lost = None if snapshot is None else snapshot.change_that_is_lost(name)
        if lost is None and any(
            self._state.object_of(tensor) is None and not tensor._is_view() and is_leaf_with_gradient(tensor) for tensor in tensors_of(result)
        ):
            lost = MAKES_LEAF
        if lost is not None:
            self._state.vm.unsupported(lost)
        if snapshot is not None and snapshot.changes_input_with_gradient():
            self._state.vm.trail.set(self, "changes_input", True)
        made = self._state.object_of(result) if name == MAKES_LEAF_OF else None
        if made is not None:
            self._leaves.append((made.node, self._state.vm.place()))
            self._state.vm.trail.learned(self, self._leaves.pop)

    def spent_outputs(self, outputs: Sequence[fx.Node]) -> dict[int, str]:
        """Check the outputs of the graph. Returns the indices of outputs that require a gradient but can't be differentiated, with autograd's error message.

        Raises RestartWith if other outputs can be differentiated, and may have been computed from gradients: AOTAutograd's backward of such a graph is wrong.
        """
        fakes = [node.meta["example_value"] for node in outputs]
        self._check_made_leaves(fakes)
        self.check_leaves(fakes)
        for node, fake in zip(outputs, fakes, strict=True):
            if isinstance(fake, torch.Tensor) and (reason := kind_in_graph(fake).refusal_as_output(self._state, node)) is not None:
                self._make_natively(node, reason)
        self._check_detached(outputs)
        passed_by = first_passed_by(self._state.outermost.fx, outputs, self._state.input_fakes())
        if passed_by is not None:
            self._make_natively(passed_by, SHARES_MEMORY)
        memory = storages(fake for fake in fakes if isinstance(fake, torch.Tensor)) if self._listened else set()
        for obj, place in self._listened:
            if storages([obj.fake]) & memory:  # the program may go on to change it, and what its hooks are told
                self._state.vm.restart(place, breaks.NotInsideAutogradNode("a hook on a tensor that leaves the graph,"))
        if not self.asks and not self.changes_input:
            return {}
        left = [index for index, fake in enumerate(fakes) if isinstance(fake, torch.Tensor) and fake.requires_grad]
        spent = {index: error for index in left if (error := spent_error(fakes[index])) is not None}
        if self.asks_twice and list(spent) != left:
            raise RestartWith("takes_gradients", False)
        return spent

    def listened_to(self, obj: TensorObject) -> None:
        """Note that the present instruction registers a hook on the gradient of this tensor."""
        self._listened.append((obj, self._state.vm.place()))
        self._state.vm.trail.learned(self, self._listened.pop)

    def has_more_paths(self, nodes: Iterable[fx.Node]) -> bool:
        """Return whether gradients of a graph with these nodes come from more than its results, since it changes inputs, or go to hooks of the program's."""
        return self.changes_input or bool(self._listened) or any(passes_gradients(node.target) for node in nodes)

    def differentiable_once(self, node: fx.Node) -> None:
        """Note that the results of this node can be differentiated only once, although the program's could be differentiated twice."""
        self._once.append(node)
        self._state.vm.trail.learned(self, self._once.pop)

    def asked_twice(self) -> None:
        """After the graph, the program is about to ask for gradients that it differentiates in turn. A restart leaves to native code what can't be."""
        for node in self._once:
            self._make_natively(node, breaks.NotInsideAutogradNode("an autograd.Function that is differentiated twice"))
        self.differentiated_twice = True

    def asked_about(self, obj: TensorObject, what: str) -> None:
        """Autograd is about to be asked for this tensor itself (a hook on it, its own gradient), after the graph that the trace has made so far.

        What the graph has computed from the tensor would not lead back through it. Then a restart leaves the making of the tensor, or its
        last change in place, to native code, so that the rest begins with it.
        """
        self._state.refresh()
        if not obj.fake.requires_grad or self._state.is_inner():
            return
        users = list(obj.node.users)
        changing = [index for index, user in enumerate(users) if self._state.keeps(user) and user.args and user.args[0] is obj.node]
        made = users[changing[-1]] if changing else obj.node
        if users[changing[-1] + 1 :] if changing else obj.source is None and users:
            self._make_natively(made, breaks.NotInsideAutogradNode(what))

    def asked_for_history(self, obj: TensorObject) -> None:
        """Handle a question of the program about the operator that made this tensor: a restart leaves that operator to native code."""
        if obj.source is None and not self._state.is_inner():
            self._make_natively(obj.node, breaks.NotInsideAutogradNode("making a tensor whose grad_fn is looked at,"))

    def check_leaves(self, fakes: Iterable[torch.Tensor]) -> None:
        """Restart where one of these tensors has been made as a view under `no_grad`, to make it natively: it is a leaf."""
        made = {id(node.meta["example_value"]) for node, _ in self._leaves}
        for fake in fakes:
            obj = self._state.object_of(fake)
            if obj is not None and obj.source is None and not fake.is_inference() and is_leaf_with_gradient(fake) and id(fake) not in made:
                self._make_natively(obj.node, MAKES_VIEW)

    def _check_made_leaves(self, outputs: Iterable[torch.Tensor]) -> None:
        """Restart where what leaves the graph requires a gradient only because `requires_grad_()` has made a leaf inside: AOTAutograd forgets that."""
        if not self._leaves:
            return
        places = {id(node.meta["example_value"]): place for node, place in self._leaves}
        for fake in outputs:
            if isinstance(fake, torch.Tensor) and fake.requires_grad and spent_error(fake) is None:
                reached = gradient_paths([fake]).leaves
                if all(id(leaf) in places for leaf in reached):
                    self._state.vm.restart(places[id(reached[0])], breaks.NotInsideAutogradNode("requires_grad_() of a tensor that leaves the graph,"))

    def _check_detached(self, outputs: Iterable[fx.Node]) -> None:
        """Restart where a result lies in the memory of an argument, isn't a view of it for autograd, and has a record, since it was changed: AOTAutograd would
        make it again from the argument."""
        inputs = [fake for fake in self._state.input_fakes() if kind_in_graph(fake).has_memory]
        bases, memory = {id(base_of(fake)) for fake in inputs}, storages(inputs)
        for node in outputs:
            fake = node.meta["example_value"]
            if not isinstance(fake, torch.Tensor) or not fake.requires_grad or not kind_in_graph(fake).has_memory:
                continue  # a tensor of parts may have some from an argument, such as offsets
            if id(base_of(fake)) not in bases and storages([fake]) & memory:
                self._make_natively(node, WRITES_DETACHED)

    def _make_natively(self, node: fx.Node, reason: breaks.Break) -> NoReturn:
        """Restart the trace, to break at the instruction that has made this node."""
        instruction = self._state.instruction_of(node)
        while instruction is None:
            node = node.args[0]  # type: ignore[assignment]  # an item of what an operator has given
            instruction = self._state.instruction_of(node)
        self._state.vm.restart(instruction, reason)


@rule(Phase.REMEMBER)
def check_arguments(state: TraceState, operation: OperatorCall) -> None:
    """Check an operator of a graph that autograd sees as one node."""
    if state.is_one_autograd_node:
        operation.notes[TensorSnapshot] = state.part(AutogradNode).before(operation.target, operation.name, operation.fakes, operation.changes)


@rule(Phase.CHECK)
def check_result(state: TraceState, operation: OperatorCall) -> None:
    """Check what the operator has changed, and its result."""
    if state.is_one_autograd_node:
        state.part(AutogradNode).after(operation.name, operation.result, operation.notes[TensorSnapshot])


@dataclass(frozen=True, slots=True)
class TensorState:
    """Properties of a tensor that an operator may change, and that AOTAutograd's graph would not change."""

    shape: torch.Size
    nbytes: int
    version: int
    requires_grad: bool

    @staticmethod
    def of(fake: torch.Tensor) -> TensorState:
        return TensorState(fake.shape, fake.untyped_storage().nbytes() if kind_in_graph(fake).has_memory else 0, version_of(fake), fake.requires_grad)


@dataclass(frozen=True, slots=True)
class TensorSnapshot:
    """Tensors before an operator that changes its arguments: those, and the graph's inputs, whose memory they may share."""

    tensors: Sequence[tuple[torch.Tensor, bool, TensorState]]

    @staticmethod
    def of(arguments: Iterable[torch.Tensor], inputs: Iterable[torch.Tensor]) -> TensorSnapshot:
        pairs = [(fake, False) for fake in arguments] + [(fake, True) for fake in inputs]
        return TensorSnapshot([(fake, is_input, TensorState.of(fake)) for fake, is_input in pairs])

    def changes_input_with_gradient(self) -> bool:
        """Return whether the operator has changed one of the graph's inputs that requires a gradient."""
        return any(is_input and fake.requires_grad and version_of(fake) != old.version for fake, is_input, old in self.tensors)

    def change_that_is_lost(self, name: str) -> breaks.Break | None:
        """A change that the operator has made and that such a graph would not make; None if there is none."""
        if name == "detach_" and any(old.requires_grad for _, is_input, old in self.tensors if not is_input):
            return breaks.NotInsideAutogradNode("detach_() of a tensor")
        recording = torch.is_grad_enabled() and any(
            not is_input and version_of(fake) != old.version and fake.requires_grad for fake, is_input, old in self.tensors
        )
        for fake, is_input, old in self.tensors:
            new = TensorState.of(fake)
            if new.nbytes != old.nbytes or (new.shape != old.shape and not keeps_elements(name)):
                return breaks.NotInsideAutogradNode(f"{name} that gives a tensor another size")
            if not is_input and is_expanded(fake) and (fake is self.tensors[0][0] or new.version != old.version):
                return breaks.NotInsideAutogradNode(f"{name}, which changes a tensor whose elements lie in the same memory,")
            if recording and is_input and new.version != old.version:
                return breaks.NotInsideAutogradNode(f"{name}, which changes a tensor from outside that requires a gradient,")
            if recording and not is_input and keeps_elements(name):
                return breaks.NotInsideAutogradNode(f"{name}() of a tensor that requires a gradient")
        return None


def base_of(fake: torch.Tensor) -> torch.Tensor:
    """The tensor that a view is a view of; the tensor itself if it is no view."""
    return fake if fake._base is None else fake._base


def is_expanded(fake: torch.Tensor) -> bool:
    """Return whether elements of a tensor lie in one place, as far as constant strides tell. No size that varies is 0 or 1."""
    if fake.layout is not torch.strided:
        return False
    sizes, strides = fake.shape, fake.stride()
    if all(type(number) is int for number in (*sizes, *strides)):
        return share_places(sizes, strides)
    return any(type(stride) is int and stride == 0 and (type(size) is not int or size > 1) for size, stride in zip(sizes, strides, strict=True))


def spent_error(fake: torch.Tensor) -> str | None:
    """Return the message of autograd's error if a backward pass from this fake needs something that was freed or changed in place; None otherwise."""
    leaves = gradient_paths([fake]).leaves
    try:
        torch.autograd.grad([fake], leaves, [torch.zeros_like(fake)], retain_graph=True, allow_unused=True)
    except RuntimeError as error:
        return str(error) if any(text in str(error) for text in SPENT) else None
    except ValueError:  # there are no leaves, which torch 2.11 refuses
        return None
    return None


def is_leaf_with_gradient(fake: torch.Tensor) -> bool:
    """Return whether a tensor is a leaf that requires a gradient. A view that was made under `no_grad` of what requires one is a leaf too: no gradient
    goes on from it."""
    try:
        return fake.requires_grad and fake.is_leaf
    except RuntimeError:  # a view of no use any more, as its base has been changed
        return False
