"""The FX graph of one trace: each operator is run on fake tensors as it is traced, and becomes a node if its result needs one.

What goes in is computed at once and never retraced: `call` runs the operator under the fake mode, wraps what comes out,
and adds a node only where a tensor comes out or something is changed. Everything is undone through the trail. Fakes that an
in-place operator has changed can't be changed back, so undoing one marks all fakes stale; they are then made again by running
the remaining nodes in a new fake mode over the same ShapeEnv.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx._lazy_graph_module import _LazyGraphModule

from framejit import breaks, interrupts
from framejit.errors import UserFrame
from framejit.graph.autograd_node import AutogradNode
from framejit.graph.constants import Inexact, exact
from framejit.graph.fake import SymbolicContextOf, make_fake_mode, make_shape_env, meaning_of, refusal, to_fake, version_of
from framejit.graph.prune import PURE_TARGETS, fake_of, has_effect, output_nodes, prune, run_node
from framejit.graph.state import MODE_CHANGES, Modes
from framejit.guards.kinds import Same, StorageAliasing, TensorMatch
from framejit.guards.source import Item, Source
from framejit.guards.tensor_spec import tensor_spec
from framejit.objects.object import NotConstant, Object
from framejit.objects.tensorobject import TensorObject
from framejit.objects.torchobject import struct_sequence

if TYPE_CHECKING:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    from framejit.errors import UserFrame
    from framejit.objects.vm import VM

EMPTY: dict[str, Any] = {}
INPLACE = re.compile(r"(?<!_)_$")
"""Names of operators that change their argument, maybe only its metadata: `add_`, `unsqueeze_`; not `__iadd__`."""


@dataclass(frozen=True, slots=True)
class GraphInput:
    """One placeholder: the tensor it stood for while tracing and where that is found. `static`: at the same address on each call."""

    source: Source
    node: fx.Node
    tensor: torch.Tensor
    is_parameter: bool
    is_buffer: bool
    static: bool

    @property
    def name(self) -> str:
        return self.node.name


@dataclass(frozen=True, slots=True)
class GraphResult:
    """A finished graph. `gm` takes `inputs` in order and gives a tuple of the outputs asked for, in order.

    `mutated`: indices of the inputs that the graph changes in place. `has_effects`: it must run even if nothing is asked of it.
    `repeatable`: where it raises, it has changed nothing but random number generators.
    `modes`: the global modes where it starts. `place`: where the outermost frame was at the first operator.
    """

    gm: fx.GraphModule
    inputs: tuple[GraphInput, ...]
    mutated: tuple[int, ...]
    has_effects: bool
    repeatable: bool
    modes: Modes
    place: UserFrame | None

    @property
    def is_empty(self) -> bool:
        """Nothing to run: no outputs, no effects."""
        return not self.has_effects and not output_nodes(self.gm.graph)


class GraphBuilder:
    """The graph of one trace; see the module's docstring.

    `module_stack`: what `nn_module_stack` says of the nodes now made (path -> (path, class)); replaced, never changed in place,
    through the trail, by whoever inlines a module's call. `one_autograd_node`: what the backend makes of the graph (see Backend).
    """

    def __init__(
        self,
        vm: VM,
        fake_mode: FakeTensorMode | None = None,
        shape_env: ShapeEnv | None = None,
        symbolic_context: SymbolicContextOf | None = None,
        one_autograd_node: bool = False,
    ) -> None:
        self.vm = vm
        self.trail = vm.trail
        self.shape_env = make_shape_env() if shape_env is None else shape_env
        self.fake_mode = make_fake_mode(self.shape_env) if fake_mode is None else fake_mode
        self.graph = fx.Graph()
        self.module_stack: dict[str, tuple[str, type]] = {}
        self.autograd_node = AutogradNode(self) if one_autograd_node else None
        self._symbolic_context = symbolic_context
        self._inputs: dict[int, tuple[TensorObject, GraphInput]] = {}
        self._versions: dict[fx.Node, int] = {}
        self._last_placeholder: fx.Node | None = None
        self._by_fake: dict[int, TensorObject] = {}
        self._kept: set[fx.Node] = set()
        self._handled: dict[fx.Node, None] = {}  # made where the program has a handler for what they raise, in order
        self._made_under: dict[fx.Node, Modes] = {}
        self._places: dict[fx.Node, UserFrame | None] = {}
        self._stale = False
        self._traces: dict[tuple[int, ...], tuple[list[UserFrame], str]] = {}  # holds the frames: their ids must not come again

    # Inputs.

    def input(self, source: Source, tensor: torch.Tensor) -> TensorObject:
        """The Object of a real tensor; one placeholder for each tensor, however many paths lead to it. Guards its metadata."""
        known = self._inputs.get(id(tensor))
        if known is not None:
            obj = known[0]
            if obj.source is not source:
                self.vm.guard(Same, source, obj.source)
            return obj
        reason = refusal(tensor)
        if reason is not None:
            self.vm.unsupported(reason)
        self.refresh()
        fake = self._make_fake(tensor)
        self.vm.guard(TensorMatch, source, tensor_spec(tensor))
        after = self.graph._root if self._last_placeholder is None else self._last_placeholder
        with self.graph.inserting_after(after):
            node = self.graph.create_node("placeholder", "", name=identifier(source.describe()))
        node.target = node.name
        node.meta["example_value"] = fake
        self.trail.set(self, "_last_placeholder", node)
        obj = TensorObject(node, type(tensor), source, tensor)
        described = GraphInput(
            source, node, tensor, isinstance(tensor, torch.nn.Parameter), holds_buffer(source), is_static(source, tensor)
        )
        self._inputs[id(tensor)] = (obj, described)
        self._by_fake[id(fake)] = obj
        self._versions[node] = version_of(fake)
        self.trail.log(self._forget_input, id(tensor), node)
        return obj

    def _forget_input(self, key: int, node: fx.Node) -> None:
        del self._inputs[key], self._versions[node]
        self._by_fake.pop(id(node.meta["example_value"]), None)
        self.graph.erase_node(node)

    def object_of(self, fake: torch.Tensor) -> TensorObject | None:
        """The Object of a fake that the trace knows."""
        return self._by_fake.get(id(fake))

    def input_fakes(self) -> list[torch.Tensor]:
        """The fakes of all inputs."""
        return [obj.fake for obj, _ in self._inputs.values()]

    # Operators.

    def call_function(self, target: Callable[..., Any], args: Sequence[Object], kwargs: dict[str, Object] | None = None) -> Object:
        """Run `target(*args, **kwargs)` in the graph. Raises NotConstant if an argument can be no argument of a node."""
        return self._call("call_function", target, args, kwargs or EMPTY)

    def call_method(self, name: str, receiver: Object, args: Sequence[Object] = (), kwargs: dict[str, Object] | None = None) -> Object:
        """Run `receiver.name(*args, **kwargs)` in the graph, where receiver is a tensor."""
        return self._call("call_method", name, (receiver, *args), kwargs or EMPTY)

    def _call(self, op: str, target: Any, args: Sequence[Object], kwargs: dict[str, Object]) -> Object:
        interrupts.heed()
        vm = self.vm
        place = vm.place()
        fx_args = tuple([self._argument(arg) for arg in args])
        fx_kwargs = {name: self._argument(arg) for name, arg in kwargs.items()} if kwargs else EMPTY
        if self._stale:
            self.refresh()
        fakes: list[torch.Tensor] = []
        fake_args = tuple([fake_of(arg, fakes) for arg in fx_args])
        fake_kwargs = {name: fake_of(arg, fakes) for name, arg in fx_kwargs.items()} if kwargs else EMPTY
        name = target if op == "call_method" else getattr(target, "__name__", str(target))
        changes = INPLACE.search(name) is not None or "out" in fx_kwargs
        before = [version_of(fake) for fake in fakes]
        if changes:
            self.trail.log(self._mark_stale)
        snapshot = None if self.autograd_node is None else self.autograd_node.before(target, name, fakes, changes)
        try:
            with self.fake_mode:
                if op == "call_method":
                    result = getattr(fake_args[0], name)(*fake_args[1:], **fake_kwargs)
                else:
                    result = target(*fake_args, **fake_kwargs)
        except Exception as error:
            vm.unsupported(meaning_of(error, name))
        if self.autograd_node is not None:
            self.autograd_node.after(name, result, snapshot)
        if not changes and before != [version_of(fake) for fake in fakes]:
            changes = True
            self.trail.log(self._mark_stale)
        if not changes:
            if isinstance(result, torch.Tensor):
                known = self._by_fake.get(id(result))
                if known is not None:
                    return known
            elif not has_tensor(result):
                return self._constant(result, name)
        node = self._node(op, target, fx_args, fx_kwargs, result)
        if changes:
            self.keep(node)
        if self.autograd_node is not None:
            self.autograd_node.made_at[node] = place
        return self._wrap(result, node, name)

    def _argument(self, obj: Object) -> Any:
        """An Object as an argument of a node. Raises NotConstant."""
        obj = self.vm.observe(obj)
        value = obj.as_graph_argument(self.vm)
        if type(value) is fx.Node:
            return value
        try:
            return exact(value)
        except Inexact:
            raise NotConstant(obj) from None

    def keeps(self, node: fx.Node) -> bool:
        """Whether the node is there for what it changes."""
        return node in self._kept

    def keep(self, node: fx.Node) -> None:
        """The node does something besides its result: it stays even if nobody uses that."""
        self._kept.add(node)

    def effect_node(self, target: Callable[..., Any], args: tuple[Any, ...]) -> fx.Node:
        """A node for a change of torch's own state, which is not run here."""
        node = self._node("call_function", target, args, EMPTY, None)
        self._kept.add(node)
        return node

    def _node(self, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], example: Any) -> fx.Node:
        node = self.graph.create_node(op, target, args, kwargs)
        meta = node.meta
        meta["example_value"] = example
        stack = self.vm.user_stack()
        meta["stack_trace"] = self._stack_trace(stack)
        meta["source_fn_stack"] = [(node.name, target)]
        if self.module_stack:
            meta["nn_module_stack"] = self.module_stack
        self._made_under[node] = self.vm.modes.current
        self._places[node] = stack[0] if stack else None
        if self.vm.note_handlers():
            self._handled[node] = None
        self.trail.log(self._erase, node)
        return node

    def _erase(self, node: fx.Node) -> None:
        del self._made_under[node]
        del self._places[node]
        if self.autograd_node is not None:
            self.autograd_node.made_at.pop(node, None)
        self._handled.pop(node, None)
        self._kept.discard(node)
        self.graph.erase_node(node)

    def has_grown_since(self, mark: int) -> bool:
        """Whether an operation has entered the graph since a position of the trail; switches of modes are none."""
        return any(undo == self._erase and args[0].target not in MODE_CHANGES for undo, args in self.trail.since(mark))

    def _mark_stale(self) -> None:
        self._stale = True

    def _stack_trace(self, stack: list[UserFrame]) -> str:
        """The user's stack, outermost call first, as a traceback prints it."""
        key = tuple(map(id, stack))
        known = self._traces.get(key)
        if known is None:
            known = self._traces[key] = stack, "".join(
                [f'  File "{frame.filename}", line {frame.lineno}, in {frame.function}\n    {frame.line.strip()}\n' for frame in stack]
            )
        return known[1]

    # Results.

    def _wrap(self, result: Any, node: fx.Node, name: str) -> Object:
        if isinstance(result, torch.Tensor):
            known = self._by_fake.get(id(result))
            if known is not None:
                return known
            if result._has_symbolic_sizes_strides:
                self.vm.unsupported(breaks.DataDependent(f"the shape that {name} gives"))
            obj = TensorObject(node, torch.Tensor)
            self._by_fake[id(result)] = obj
            self.trail.log(self._by_fake.pop, id(result), None)
            return obj
        if isinstance(result, (tuple, list)) and has_tensor(result):
            items = []
            for i, item in enumerate(result):
                if has_tensor(item):
                    items.append(self._wrap(item, self._node("call_function", operator.getitem, (node, i), EMPTY, item), name))
                else:
                    items.append(self._constant(item, name))
            if isinstance(result, list):
                return self.vm.new_list(items)
            return self.vm.new_tuple(items) if type(result) is tuple else struct_sequence(type(result), items)
        return self._constant(result, name)

    def _constant(self, result: Any, name: str) -> Object:
        if isinstance(result, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            self.vm.unsupported(breaks.UnsupportedOperation(f"a symbolic number from {name}"))
        return self.vm.const(result) if type(result) is torch.Size else self.vm.from_real(result)

    # Fakes after an undone in-place operator.

    def refresh(self) -> None:
        """Make all fakes again if undoing has made them stale."""
        if not self._stale:
            return
        self._stale = False
        objects = list(self._by_fake.values())
        mode = self.fake_mode = make_fake_mode(self.shape_env)
        for obj, described in self._inputs.values():
            fake = obj.node.meta["example_value"] = self._make_fake(described.tensor)
            self._versions[obj.node] = version_of(fake)
        for node in self.graph.nodes:
            if node.op != "placeholder" and node.target not in MODE_CHANGES:
                with self._made_under[node].applied(), mode:
                    node.meta["example_value"] = run_node(node)
        self._by_fake = {id(obj.node.meta["example_value"]): obj for obj in objects}

    def _make_fake(self, tensor: torch.Tensor) -> torch.Tensor:
        symbolic = None if self._symbolic_context is None else self._symbolic_context(tensor)
        return to_fake(self.fake_mode, tensor, symbolic)

    # The end.

    def finish(self, outputs: Sequence[fx.Node], debug: bool = False) -> GraphResult:
        """Close the graph: the given nodes become its outputs; what nothing needs goes, unused inputs included.

        Nodes that change something, draw random numbers or have no result stay. `debug` checks the graph with `lint`.
        """
        self.refresh()
        graph = self.graph
        if self.autograd_node is not None:
            self.autograd_node.check_outputs(outputs)
        mutated = {node for node, version in self._versions.items() if self._is_mutated(node, version)}
        graph.output(tuple(outputs))
        prune(graph, self._kept, self.fake_mode)
        inputs = []
        by_node = {described.node: described for _, described in self._inputs.values()}
        for node in list(graph.nodes):
            if node.op != "placeholder":
                break
            if node.users:
                inputs.append(by_node[node])
            else:
                graph.erase_node(node)
        self._guard_aliasing(inputs, mutated)
        if debug:
            graph.lint()
        gm = _LazyGraphModule(torch.nn.Module(), graph)  # its code is generated in the form that the backend wants, or never
        has_effects = any(node in self._kept for node in graph.nodes)
        indices = tuple(i for i, described in enumerate(inputs) if described.node in mutated)
        place = next((self._places[node] for node in graph.nodes if node in self._places), None)
        repeatable = not indices and not any(node in self._kept and runs_for_its_effect(node) for node in graph.nodes)
        return GraphResult(gm, tuple(inputs), indices, has_effects, repeatable, self.vm.modes.initial, place)

    def unused_under_handlers(self, outputs: Sequence[fx.Node]) -> list[fx.Node]:
        """Nodes of tensors that nothing needs, computed where the program has handlers: it may only want to know whether that raises."""
        return unneeded(reversed(self._handled), (*outputs, *self._kept), lambda node: is_computed(node.meta["example_value"]))

    def unused_draws(self, outputs: Sequence[fx.Node]) -> list[fx.Node]:
        """Nodes of random numbers that nothing needs: AOTAutograd would not draw them, and what is drawn later would be other numbers."""
        if self.autograd_node is None:
            return []
        self.refresh()
        return unneeded(
            reversed(self.graph.nodes),
            (*outputs, *self._kept),
            lambda node: node.op != "placeholder" and is_computed(node.meta["example_value"]) and has_effect(node, self.fake_mode),
        )

    def dispose(self) -> None:
        """Let go of everything."""
        self.__dict__.clear()

    def _is_mutated(self, node: fx.Node, version: int) -> bool:
        fake = node.meta["example_value"]
        if version >= 0:
            return version_of(fake) != version
        return any(user in self._kept for user in node.users)

    def _guard_aliasing(self, inputs: list[GraphInput], mutated: set[fx.Node]) -> None:
        """Where an input is changed in place, backends rely on which inputs share its memory: guard that."""
        if not any(described.node in mutated for described in inputs):
            return
        groups: dict[int, int] = {}
        numbers = [groups.setdefault(described.tensor.untyped_storage()._cdata, len(groups)) for described in inputs]
        self.vm.guard(
            StorageAliasing,
            inputs[0].source,
            tuple(described.source for described in inputs),
            tuple(numbers),
            tuple(described.tensor.storage_offset() for described in inputs),
        )


def unneeded(nodes: Iterable[fx.Node], outputs: Sequence[fx.Node], is_wanted: Callable[[fx.Node], bool]) -> list[fx.Node]:
    """Those of `nodes` (last first) that are wanted and that neither the outputs nor other wanted nodes are computed from, first to last."""
    needed: set[fx.Node] = set()
    waiting = list(outputs)
    found = []

    def need() -> None:
        while waiting:
            node = waiting.pop()
            if node not in needed:
                needed.add(node)
                waiting.extend(node.all_input_nodes)

    need()
    for node in nodes:
        if node not in needed and is_wanted(node):
            found.append(node)
            waiting.append(node)
            need()
    return found[::-1]


def runs_for_its_effect(node: fx.Node) -> bool:
    """Whether a node changes something besides its arguments and torch's modes, for all that is known of it."""
    return node.target not in MODE_CHANGES and node.target not in PURE_TARGETS and not has_tensor(node.meta.get("example_value"))


def is_computed(value: Any) -> bool:
    """Whether a value is a tensor that is no view of another."""
    return isinstance(value, torch.Tensor) and not value._is_view()


def has_tensor(value: Any) -> bool:
    """Whether a result is a tensor, or a tuple or list with one somewhere inside."""
    return isinstance(value, torch.Tensor) or (isinstance(value, (tuple, list)) and any(map(has_tensor, value)))


def holds_buffer(source: Source) -> bool:
    """Whether the path ends in a module's `_buffers`."""
    base = source.base
    return isinstance(source, Item) and isinstance(base, Item) and base.payload == "_buffers"


def is_static(source: Source, tensor: torch.Tensor) -> bool:
    """Whether the tensor stays at its address: held by a module, or marked so (mark_static_address)."""
    return isinstance(tensor, torch.nn.Parameter) or holds_buffer(source) or hasattr(tensor, "_dynamo_static_input_type")


def identifier(path: str) -> str:
    """A path as a placeholder's name: `self.layers[0].weight` -> `self_layers_0_weight`."""
    name = re.sub(r"\W+", "_", path).strip("_") or "input"
    return "self_" if name == "self" else name
