"""`TraceState`, what the parts of one trace's graph share: trail, fakes, graphs under construction, torch's modes, inputs, and the making of nodes.

It exists before the parts do. Each part is an instance of a class whose constructor takes only the state, and it finds other parts by their classes:

    class Wrappers:
        def __init__(self, state: TraceState) -> None: ...

    state.part(Wrappers)      # this trace's Wrappers
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType
from typing import Any, TypeVar

import torch
from torch import fx

from framejit.errors import UserFrame
from framejit.graph.annotations import CUSTOM, annotation_in_force
from framejit.graph.body import Body, NodeNote, Transforming, transforms_of
from framejit.graph.check_order import changes_outside
from framejit.graph.constants import Inexact, exact
from framejit.graph.demands import Demands
from framejit.graph.fake import storages
from framejit.graph.fakes import Fakes
from framejit.graph.function_modes import FunctionModes
from framejit.graph.global_modes import GlobalModes
from framejit.graph.inputs import GraphInput
from framejit.graph.metadata import UNRECORDED, USER_PLACES, UserPlace
from framejit.graph.running import RunningTrace
from framejit.guards.dynamic import Dynamic
from framejit.objects.core.object import NotConstant, Object
from framejit.objects.numbers.unbackednumber import UnbackedNumber
from framejit.objects.tensors.storageobject import StorageObject
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.torch_state.torch_modes import MODE_CHANGES
from framejit.torch_state.transforms_in_force import are_in_force
from framejit.trail import NodeAdded

P = TypeVar("P")
EMPTY: dict[str, Any] = {}
AROUND_THE_CALL = Transforming("a transform of torch.func's around the call", records=False)


class TraceState:
    """The state of one trace's graph; see the module's docstring. Everything in it is undone through the trail.

    Attributes:
        demands: what the backend accepts in a graph.
        dynamic: which sizes and numbers are symbolic.
        body: the graph that operators go into now; `outermost` is the one that contains all others.
        known_inputs: the inputs of the outermost graph, by the identity of the tensor, or of the number's Object.
        cast_views: the placeholders of views whose fakes are no views (cast_views.py), by the identity of the tensor.
        module_stack: the `nn_module_stack` of nodes that are made now (path -> (path, class)). The code that inlines a module's call replaces it, through the
            trail, and never changes it in place.
        storages: the storages that the program has asked for, or for an address in them.
        made_again: functions that are called with each node whose fake was made again after an undo.
    """

    def __init__(self, vm: RunningTrace, dynamic: Dynamic, demands: Demands) -> None:
        self.vm = vm
        self.trail = vm.trail
        self.demands = demands
        self.dynamic = dynamic
        self.fakes = Fakes(self.trail, demands.takes_unbacked)
        if demands.lifts_symbols:
            self.fakes.symbols()  # the backend has a ShapeEnv, whether something is symbolic or not
        self.modes = GlobalModes(self.effect_node, self.trail)
        self.function_modes = FunctionModes(self.trail)
        self.body = self.outermost = Body(self.trail, transform=AROUND_THE_CALL if are_in_force() else None)
        self.known_inputs: dict[int, GraphInput] = {}
        self.cast_views: dict[int, fx.Node] = {}
        self.module_stack: dict[str, tuple[str, type]] = {}
        self.storages: list[StorageObject] = []
        self.made_again: list[Callable[[fx.Node], None]] = []
        self.has_joined = False  # whether both ways of a branch have ever been in the graph
        self.has_inner = False  # whether there has ever been an inner graph
        self._parts: dict[Any, Any] = {}
        # A stack's text and places, by the ids of its frames, which are kept alive so that their ids aren't reused.
        self._stack_traces: dict[tuple[int, ...], tuple[list[UserFrame], str, tuple[UserPlace, ...]]] = {}

    def part(self, cls: Callable[[TraceState], P]) -> P:
        """The part of this class, which is made when it is first asked for."""
        found: P | None = self._parts.get(cls)
        if found is None:
            found = self._parts[cls] = cls(self)
            self.trail.learned(self, self._parts.pop, cls)
        return found

    @property
    def is_one_autograd_node(self) -> bool:
        """Return whether the graph is compiled by AOTAutograd, so that autograd sees it as one node."""
        return self.demands.one_autograd_node

    @property
    def tells_apart(self) -> bool:
        """Return whether an array that is found by several paths may be an input for each of them."""
        return self.dynamic.aliases_vary and self.demands.tells_apart

    # The graphs under construction.

    def is_inner(self) -> bool:
        """Return whether the innermost graph isn't the outermost."""
        return self.body is not self.outermost

    def bodies(self) -> list[Body]:
        """The graphs under construction, the outermost first."""
        bodies = [self.body]
        while bodies[0].outer is not None:
            bodies.insert(0, bodies[0].outer)
        return bodies

    @contextlib.contextmanager
    def in_graph_of(self, nodes: Sequence[fx.Node]) -> Iterator[None]:
        """Inside the block, operators go into the innermost graph that has one of these nodes, or into the outermost if none has."""
        self.refresh()  # the fakes of all graphs, including those inside that one
        inner = self.body
        while self.body.outer is not None and not any(node.graph is self.body.fx for node in nodes):
            self.body = self.body.outer
        try:
            yield
        finally:
            self.body = inner

    def transforms_around(self) -> Iterator[str]:
        """The transforms of torch.func that the trace is inside of, by name, the innermost first."""
        return (transforming.name for _, transforming in transforms_of(self.body))

    def transform_around(self) -> str | None:
        """The name of the innermost transform of torch.func that the trace is inside of."""
        return next(self.transforms_around(), None)

    # Fakes.

    def refresh(self) -> None:
        """Make all fakes again if undoing has made them stale."""
        if self.fakes.stale:
            self.fakes.refresh(self.known_inputs.values(), self.bodies(), self._note_made_again)

    def _note_made_again(self, node: fx.Node) -> None:
        for note in self.made_again:
            note(node)

    def object_of(self, fake: torch.Tensor) -> TensorObject | None:
        """The Object of a fake that the trace knows."""
        return self.fakes.object_of(fake)

    def input_fakes(self) -> list[torch.Tensor]:
        """The fakes of all inputs."""
        return [described.node.meta["example_value"] for described in self.known_inputs.values() if described.is_tensor]

    # Nodes.

    def argument(self, obj: Object) -> Any:
        """An Object as an argument of a node of the innermost graph. Raises NotConstant."""
        obj = self.vm.observe(obj)
        value = obj.as_graph_argument(self.vm)
        if type(value) is fx.Node:
            if value.graph is self.body.fx:
                return value
            return self._own(value, obj) if self.body.takes_floats or obj.cls is not float else obj.constant(self.vm)
        try:
            value = exact(value, only_fx_writes=not self.demands.one_autograd_node)
        except Inexact:
            raise NotConstant(obj) from None
        return value if not self.has_inner else fx.node.map_arg(value, lambda node: self._own(node, obj))

    def _own(self, node: fx.Node, obj: Object) -> fx.Node:
        own = self.body.own(node)
        if own is None:
            raise NotConstant(obj)
        return own

    def nodes_of(self, values: Iterable[Object]) -> tuple[Any, ...]:
        """Values as arguments of a node of the innermost graph. Raises NotConstant."""
        return tuple([self.argument(value) for value in values])

    def make_node(
        self, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], example: Any, instruction: tuple[CodeType, int] | None = None
    ) -> fx.Node:
        """Make a node of the innermost graph. `example`: its result on fakes. `instruction`: the program's instruction that makes it, if it is an operator."""
        vm = self.vm
        stack = vm.user_stack()
        note = NodeNote(self.modes.current, stack[0] if stack else None, instruction, vm.note_handlers())
        node = self.body.add(op, target, args, kwargs, note)
        meta = node.meta
        meta["example_value"] = example
        if isinstance(example, torch.Tensor) and not example.requires_grad:
            meta[UNRECORDED] = True
        meta["stack_trace"], meta[USER_PLACES] = self._stack_trace(stack)
        meta["source_fn_stack"] = [(node.name, target)]
        if self.module_stack:
            meta["nn_module_stack"] = self.module_stack
        annotated = annotation_in_force(vm)
        if annotated is not None:
            meta[CUSTOM] = annotated
        return node

    def _stack_trace(self, stack: list[UserFrame]) -> tuple[str, tuple[UserPlace, ...]]:
        """The user's stack, outermost call first, as a traceback prints it, and as places."""
        key = tuple(map(id, stack))
        known = self._stack_traces.get(key)
        if known is None:
            text = "".join([f'  File "{frame.filename}", line {frame.lineno}, in {frame.function}\n    {frame.line.strip()}\n' for frame in stack])
            known = self._stack_traces[key] = stack, text, self.vm.user_places()
        return known[1:]

    def effect_node(self, target: Callable[..., Any], args: tuple[Any, ...]) -> fx.Node:
        """Make a node for a change of torch's own state, which is not run while tracing."""
        node = self.make_node("call_function", target, args, EMPTY, None)
        self.body.keep(node)
        return node

    def size_node(self, obj: TensorObject, dim: int, size: Any) -> fx.Node:
        """Make the node that computes a size of a tensor."""
        return self.make_node("call_method", "size", (self.argument(obj), dim), EMPTY, size)

    def item_node(self, node: fx.Node, index: Any, item: Any) -> fx.Node:
        """Make the node that takes an item of an operator's result."""
        return self.make_node("call_function", operator.getitem, (node, index), EMPTY, item)

    def number_node(self, function: Callable[..., Any], operands: Sequence[Object], sym: Any) -> fx.Node:
        """Make the node of arithmetic on numbers of which at least one is symbolic, in the graph that has one of them. `sym`: its result."""
        args = tuple([part.in_graph(self.vm) if isinstance(part, UnbackedNumber) else part.as_graph_argument(self.vm) for part in operands])
        with self.in_graph_of([arg for arg in args if isinstance(arg, fx.Node)]):
            return self.make_node("call_function", function, args, EMPTY, sym)

    def instruction_of(self, node: fx.Node) -> tuple[CodeType, int] | None:
        """The instruction of the program that has made a node, of this graph or one around it; None for an item of an operator's results."""
        return next(body.notes[node] for body in reversed(self.bodies()) if node in body.notes).instruction

    # Changes.

    def keeps(self, node: fx.Node) -> bool:
        """Return whether the node is kept because it changes something."""
        return node in self.body.kept

    def are_changed(self, nodes: Iterable[fx.Node]) -> bool:
        """Return whether the memory of a tensor that one of these nodes gives has been written to since."""
        self.refresh()
        return self.fakes.are_changed(nodes, {node for body in self.bodies() for node in body.kept})

    def has_changed_outside(self) -> bool:
        """Return whether the graph, as it is so far, changes something outside it when it runs."""
        self.refresh()
        inputs = storages(self.input_fakes())
        return any(changes_outside(node, inputs, self.is_one_autograd_node) for node in self.outermost.kept)

    def has_grown_since(self, mark: int) -> bool:
        """Return whether an operation has entered a graph since a position of the trail; switches of modes don't count."""
        return any(isinstance(record, NodeAdded) and record.owner.target not in MODE_CHANGES for record in self.trail.since(mark))
