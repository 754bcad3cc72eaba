"""`GraphBuilder`, which builds the FX graphs of one trace: each operator runs on fake tensors as it is traced, and becomes a node if its result needs one.

Operators run at once and are never traced again: `call` runs the operator under the fake mode, wraps its result, and adds a node only if the result is a
tensor or something is changed. Everything is undone through the trail.

Graphs under construction form a stack (body.py): operators go into the innermost. Inputs are placeholders of the outermost; an inner graph gets
a placeholder for each node that it uses of those around it.
"""

from __future__ import annotations

import contextlib
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx._lazy_graph_module import _LazyGraphModule

from framejit import breaks, interrupts
from framejit.errors import UserFrame
from framejit.graph.annotations import CUSTOM, AnnotatedVM, annotation_in_force
from framejit.graph.autograd_node import AutogradNode, tensors_of
from framejit.graph.body import Body, NodeNote, Transforming, transforms_of
from framejit.graph.call_data import CallData
from framejit.graph.check_order import (
    changes_outside,
    changes_result_only,
    checks_behind_changes,
    refuse_handled_change,
    runs_for_its_effect,
)
from framejit.graph.constants import Inexact, exact
from framejit.graph.default_dtype import with_dtype
from framejit.graph.demands import Demands
from framejit.graph.fake import is_declared, is_of_others, version_of
from framejit.graph.fake_constants import constants_among, forget_outdated
from framejit.graph.fakes import Fakes, Writes, storages
from framejit.graph.finished import GraphResult, check_moved, computed_by, is_computed, module_with, unneeded
from framejit.graph.function_modes import FunctionModes
from framejit.graph.gradient_hooks import Listening
from framejit.graph.graph_inputs import GraphInputs
from framejit.graph.inner import InnerGraph
from framejit.graph.jagged import is_nested_int
from framejit.graph.known_data import KnownData
from framejit.graph.metadata import USER_PLACES, UserPlace
from framejit.graph.on_fakes import FailedOnFakes, keeping_dispatch_keys, run_on_fakes
from framejit.graph.prune import fake_of, has_effect, has_tensor, prune
from framejit.graph.region import dissolve_drawing_regions
from framejit.graph.results import Results, has_unbacked
from framejit.graph.shape_env import forget_shape_envs
from framejit.graph.shapes import Shapes
from framejit.graph.sparse import is_sparse, refuse_sparse
from framejit.graph.spelling import make_spellable
from framejit.graph.state import GlobalModes
from framejit.graph.statistics import changing
from framejit.graph.switches import Switched, with_switches
from framejit.graph.unbacked import Unbacked, is_unbacked
from framejit.graph.wrappers import Wrappers, changed_among
from framejit.graph.written import WRITTEN_INSIDE, written_inside
from framejit.guards.dynamic import STATIC, Dynamic
from framejit.guards.kinds import Guard
from framejit.guards.source import Call, Source, UserLine
from framejit.objects.numberobject import NumberObject
from framejit.objects.object import NotConstant, Object
from framejit.objects.storageobject import StorageObject
from framejit.objects.tensorobject import TensorObject
from framejit.objects.unbackednumber import UnbackedNumber
from framejit.torch_classes import brings_its_own
from framejit.torch_modes import MODE_CHANGES
from framejit.trail import NodeAdded
from framejit.transforms_in_force import are_in_force

if TYPE_CHECKING:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    from framejit.errors import UserFrame

T = TypeVar("T")
EMPTY: dict[str, Any] = {}
INPLACE = re.compile(r"(?<!_)_$")
"""Names of operators that change their argument, maybe only its metadata: `add_`, `unsqueeze_`; not `__iadd__`."""
UNDER_FLAGS = breaks.GlobalStateUnsupported("an operator that computes by a setting of torch, which the compiled function has changed")
BESIDE_NESTED = breaks.TensorSubclass("NestedTensor, beside tensors that wrap others in another way")
AROUND_THE_CALL = Transforming("a transform of torch.func's around the call", records=False)
FEW_NODES = 8
"""In a graph with at most so many nodes, layers hardly repeat, so results of its operators aren't noted for reuse."""


@dataclass(frozen=True, slots=True)
class LaterReader:
    """Code of the program that autograd runs in a backward pass, and that the trace has run already, up to a position (`mark`) of the trail.

    `reached`: the values that it may read. `reads_outside`: it reads values from outside the trace that a program may change at any time. `place`: the
    instruction that is left to native code, for this `reason`, if a value that it reads has changed by then, or may have. `of`: the node of a tensor, if this
    matters only if that tensor leaves the graph.
    """

    mark: int
    reached: Any
    reads_outside: bool
    place: tuple[CodeType, int]
    reason: breaks.Break
    of: fx.Node | None = None


class TorchVM(AnnotatedVM, Protocol):
    """The running trace as the graph, and the models of torch's functions, see it. They need more of it than other objects."""

    @property
    def graph(self) -> GraphBuilder:
        """The graphs of the trace."""

    def user_stack(self) -> list[UserFrame]:
        """The frames of the traced program, outermost first."""

    def user_places(self) -> tuple[UserPlace, ...]:
        """Where these frames are."""

    def user_line(self) -> UserLine | None:
        """Where the program is now."""

    def noting_looks(self, run: Callable[[], T]) -> tuple[T, list[Object]]:
        """What `run` gives, and the values from outside that it has looked at, be it not for the first time."""

    call: Call
    """The call that is traced."""

    def rest_on(self, guard: Guard) -> None:
        """Rest on a guard that was made elsewhere."""

    def is_handling(self) -> bool:
        """Whether the program is handling an exception that was raised in the trace."""

    def is_in_loop(self) -> bool:
        """Whether a loop of the program may come to this place once more, in the same trace."""

    def note_handlers(self) -> bool:
        """An operation enters the graph here: whether what it raises has a handler."""


class GraphBuilder:
    """Builds the graphs of one trace; see the module's docstring.

    `module_stack`: the `nn_module_stack` of nodes that are made now (path -> (path, class)). The code that inlines a module's call replaces it, through the
    trail, and never changes it in place. `dynamic`: which sizes and numbers are symbolic. `demands`: what the backend accepts in a graph.
    """

    def __init__(
        self,
        vm: TorchVM,
        fake_mode: FakeTensorMode | None = None,
        shape_env: ShapeEnv | None = None,
        dynamic: Dynamic = STATIC,
        demands: Demands = Demands(),
    ) -> None:
        self.vm = vm
        self.trail = vm.trail
        self.demands = demands
        self.fakes = Fakes(self.trail, fake_mode, shape_env, demands.takes_unbacked)
        self.unbacked = Unbacked(self, self.fakes.shape_env, demands.takes_unbacked)
        self.shapes = Shapes(self, self.fakes.shape_env, dynamic, vm.user_line, demands.takes_unbacked)
        self.modes = GlobalModes(self.effect_node, self.trail)
        self.function_modes = FunctionModes(self.trail)
        self.body = self.outermost = Body(self.trail, transform=AROUND_THE_CALL if are_in_force() else None)
        """The graph that operators now go into, and the one around all others."""
        self.module_stack: dict[str, tuple[str, type]] = {}
        self.inputs = GraphInputs(self)
        self.call_data = CallData(self)
        self.wrappers = Wrappers(self)
        self.results = Results(self)
        self.known = KnownData(self)
        self.autograd_node = AutogradNode(self) if demands.one_autograd_node else None
        self.readers: tuple[LaterReader, ...] = ()
        self.listening = Listening()
        self.regions: dict[str, fx.GraphModule] = {}
        """Inner graphs that stand for all that compute the same, by `InnerGraph.pattern`."""
        self.traced_regions: dict[Any, list[Any]] = {}
        """Regions that have been traced, by what must be the same for another to be like them; see modules/repeated_regions.py."""
        self.moved: list[tuple[fx.Node, tuple[CodeType, int], str]] = []
        """Nodes for tensors from outside, as they are since the program has stored to an attribute: with the instruction, and the attribute's name."""
        self.twins: dict[TensorObject, tuple[fx.Node, fx.Node]] = {}
        """The nodes for a tensor from outside of which the program has changed `requires_grad`: one that requires a gradient and one that doesn't."""
        self.storages: list[StorageObject] = []
        """The storages that the program has asked for, or for an address in them."""
        self._has_inner = False  # whether there has ever been an inner graph
        # By the ids of a stack's frames, which are held so that their ids don't come again: its text and its places.
        self._stack_traces: dict[tuple[int, ...], tuple[list[UserFrame], str, tuple[UserPlace, ...]]] = {}

    # Inputs.

    def know(self, number: NumberObject) -> None:
        """Guard the value of a number, so that the trace may depend on it."""
        number.constant(self.vm)

    def input(self, source: Source, tensor: torch.Tensor) -> TensorObject:
        """The Object of a real tensor; one placeholder for each tensor, however many paths lead to it. Guards its metadata."""
        return self.inputs.of_tensor(source, tensor)

    def number_input(self, number: NumberObject) -> fx.Node:
        """The placeholder of a symbolic number that is read from the call."""
        return self.inputs.of_number(number)

    def input_fakes(self) -> list[torch.Tensor]:
        """The fakes of all inputs."""
        return self.inputs.fakes()

    def holds_lengths(self, obj: Object) -> None:
        """A tensor is one of those for which sizes of nested tensors stand: it is guarded to be none of the others."""
        self.wrappers.holds_lengths(obj)

    def size_node(self, obj: TensorObject, dim: int, size: Any) -> fx.Node:
        """The node that computes a size of a tensor."""
        return self._node("call_method", "size", (self._argument(obj), dim), EMPTY, size)

    def item_node(self, node: fx.Node, index: Any, item: Any) -> fx.Node:
        """The node that takes an item of an operator's result."""
        return self._node("call_function", operator.getitem, (node, index), EMPTY, item)

    def number_node(self, function: Callable[..., Any], operands: Sequence[Object], sym: Any) -> fx.Node:
        """The node of arithmetic on numbers of which one at least is symbolic, in the graph that gives one of them. `sym`: what it gives."""
        args = tuple([part.in_graph(self.vm) if isinstance(part, UnbackedNumber) else part.as_graph_argument(self.vm) for part in operands])
        with self.in_graph_of([arg for arg in args if isinstance(arg, fx.Node)]):
            made = self._node("call_function", function, args, EMPTY, sym)
        self.shapes.note_lines()
        return made

    @contextlib.contextmanager
    def in_graph_of(self, nodes: Sequence[fx.Node]) -> Iterator[None]:
        """Inside the block, operators go into the innermost graph that has one of these nodes, or into the outermost if none has."""
        self.refresh()  # of all graphs, also of those inside that one
        inner = self.body
        while self.body.outer is not None and not any(node.graph is self.body.fx for node in nodes):
            self.body = self.body.outer
        try:
            yield
        finally:
            self.body = inner

    def size(self, obj: TensorObject, dim: int) -> Object:
        """A size of a tensor as a number of the program's."""
        size = obj.look(self.vm).shape[dim]
        if is_nested_int(size):
            return self.wrappers.size(size)
        if is_unbacked(size):
            return self.unbacked.known(size) or self.call("call_method", "size", [obj, self.vm.const(dim)], EMPTY)
        return self.shapes.number(size) if type(size) is torch.SymInt else self.vm.const(size)

    @property
    def is_one_autograd_node(self) -> bool:
        """Whether the graph is compiled by AOTAutograd, so that autograd sees it as one node."""
        return self.autograd_node is not None

    def is_inner(self) -> bool:
        """Whether the innermost graph is another than the outermost."""
        return self.body is not self.outermost

    def object_of(self, fake: torch.Tensor) -> TensorObject | None:
        """The Object of a fake that the trace knows."""
        return self.fakes.object_of(fake)

    # Inner graphs, which an operator takes as arguments.

    def begin_inner(
        self,
        items_by_index: bool = False,
        takes_floats: bool = True,
        takes_numbers: bool = False,
        transform: Transforming | None = None,
        is_backward: bool = False,
    ) -> None:
        """Begin an inner graph, into which operators go until `end_inner`. The arguments are those of Body."""
        self._has_inner = True
        self.trail.set(self, "body", Body(self.trail, self.body, items_by_index, takes_floats, takes_numbers, transform, is_backward))

    def inner_argument(
        self, name: str, make: Callable[[], torch.Tensor], of: fx.Node | None = None, cls: type = torch.Tensor
    ) -> TensorObject:
        """What the operator that runs the innermost graph makes of one of its arguments, `of` this node. `make` makes its fake."""

        def made() -> torch.Tensor:
            with torch.no_grad(), self.fakes.running():
                return make()

        self.refresh()
        node = self.body.argument(name, made, of)
        obj = TensorObject(node, cls)
        self.fakes.belongs_to(node.meta["example_value"], obj)
        return obj

    def transform_around(self) -> str | None:
        """The innermost transform of torch.func's inside of which the trace is, by name."""
        return next(self.transforms_around(), None)

    def transforms_around(self) -> Iterator[str]:
        """The transforms of torch.func's inside of which the trace is, by name, the innermost first."""
        return (transforming.name for _, transforming in transforms_of(self.body))

    def refuse_transformed(self, what: str) -> None:
        """Stop the trace at an operation that has another meaning if the whole call is inside one of the program's transforms."""
        if self.outermost.transform is not None:
            self.vm.unsupported(breaks.InsideTransform(self.outermost.transform.name, f"and {what} inside of it"))

    def check_record(self, obj: TensorObject) -> None:
        """Stop the trace if the program asks for a tensor's autograd record inside a transform, where the fake's record may be incomplete."""
        body: Body | None = self.body
        while body is not None and body.fx is not obj.node.graph:
            body = body.outer
        around = self.transform_around()
        if around is not None and body is not None and (obj.node.op != "placeholder" or body.leaves_transform) and body.hides_records():
            self.vm.unsupported(breaks.InsideTransform(around, "of a function that asks what autograd knows of a tensor"))

    def end_inner(self, outputs: Sequence[Object]) -> InnerGraph:
        """End the inner graph with these values as outputs. Raises NotConstant if one of them can't be an output of a graph."""
        body = self.body
        assert body.outer is not None
        end = body.fx.output(tuple([self._argument(output) for output in outputs]))
        self.trail.learned(body, body.fx.erase_node, end)
        self.trail.set(self, "body", body.outer)
        switches_modes = any(node.target in MODE_CHANGES for node in body.kept)
        return InnerGraph(body.fx, tuple(body.lifted), module_with(body.modules), switches_modes, frozenset(body.kept))

    def attach(self, inner: InnerGraph, meta: dict[str, Any]) -> fx.Node:
        """A node that gives a finished inner graph with this metadata, as an argument of the operator that runs it."""
        module = self.module_of(inner)
        module.meta.update(meta)
        return self.body.attach(module)

    def module_of(self, inner: InnerGraph) -> fx.GraphModule:
        """The module that runs a finished inner graph."""
        make_spellable(inner.graph, self.is_one_autograd_node)
        return fx.GraphModule(inner.modules, inner.graph)

    def call_inner(self, target: Callable[..., Any], inner: InnerGraph, meta: dict[str, Any], kwargs: dict[str, Any]) -> Object:
        """Run `target(graph, *operands, **kwargs)` with a finished inner graph that changes none of its operands. `meta`: what the graph's `meta` gets."""
        return self.call_on_nodes(target, (self.attach(inner, meta), *inner.operands), kwargs)

    def call_on_nodes(self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] = EMPTY) -> Object:
        """Run an operator on nodes of the innermost graph."""
        return self.result_of(self.node_of(target, args, kwargs))

    def node_of(self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] = EMPTY, raises: bool = True) -> fx.Node:
        """A node that runs an operator on nodes of the innermost graph; its result may be anything.

        `raises`: what it raises on fakes, it raises. Of transforms that isn't so, and they leave the thread's dispatch keys changed where they raise.
        """
        place, name = self.vm.place(), getattr(target, "__name__", str(target))
        self.refresh()
        fakes: list[torch.Tensor] = []
        if self.modes.switches.mattering(self.input_fakes()):
            self.vm.unsupported(UNDER_FLAGS)
        try:
            with contextlib.nullcontext() if raises else keeping_dispatch_keys():
                result, changes = self._run("call_function", target, name, fakes, tuple([fake_of(arg, fakes) for arg in args]), fake_of(kwargs, fakes))
        except FailedOnFakes as failed:
            reason = self.unbacked.failed(failed.error, name, (args, kwargs), target)
            if not raises:
                reason = breaks.InsideTransform(f"torch.func.{name}", f"that raises on tensors without data: {failed.error}".partition("\n")[0])
            self.vm.unsupported(reason)
        node = self._node("call_function", target, args, kwargs, result, place)
        written = written_inside(node)
        if written:
            node.meta[WRITTEN_INSIDE] = written
        if changes or written:
            self.body.keep(node)
        self._check_hooks(target)
        return node

    def result_of(self, node: fx.Node) -> Object:
        """The Object of a node's result."""
        return self.results.wrap(node.meta["example_value"], node, node.name)

    def nodes_of(self, values: Iterable[Object]) -> tuple[Any, ...]:
        """Values as arguments of a node of the innermost graph. Raises NotConstant."""
        return tuple([self._argument(value) for value in values])

    # Operators.

    def call(self, op: str, target: Callable[..., Any] | str, args: Sequence[Object], kwargs: dict[str, Object]) -> Object:
        """Run `target(*args, **kwargs)`, or the method of that name of the first argument, in the graph; `objects/torchcall.py` decides what is run.

        Raises NotConstant if an argument can be no argument of a node.
        """
        result = self._call(op, target, args, kwargs)
        self._check_hooks(target)
        return result

    def _check_hooks(self, target: Callable[..., Any] | str) -> None:
        """Check an operator that has entered the graph and may have saved tensors with the program's hooks."""
        if self.modes.current.hooks is not None:
            self.modes.current.hooks.check(target)

    def _call(self, op: str, target: Callable[..., Any] | str, args: Sequence[Object], kwargs: dict[str, Object]) -> Object:
        interrupts.heed()
        place = self.vm.place()
        fx_args = tuple([self._argument(arg) for arg in args])
        fx_kwargs = {name: self._argument(arg) for name, arg in kwargs.items()} if kwargs else EMPTY
        self.refresh()
        fakes: list[torch.Tensor] = []
        fake_args = tuple([fake_of(arg, fakes) for arg in fx_args])
        fake_kwargs = {name: fake_of(arg, fakes) for name, arg in fx_kwargs.items()} if kwargs else EMPTY
        name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
        if self.fakes.wrappers and not self.function_modes.asks_subclasses() and any(brings_its_own(type(fake)) for fake in fakes):
            self.vm.unsupported(breaks.TensorSubclass("NestedTensor or MaskedTensor, whose __torch_function__ is switched off"))
        switched = self.modes.switches.mattering(fakes)
        if switched:
            op, target = "call_function", self._with_switches(getattr(type(fake_args[0]), target) if isinstance(target, str) else target, switched)
        self.unbacked.before(name, fakes, [arg for arg in (*fake_args, *fake_kwargs.values()) if not self.shapes.is_free_float(arg)])
        try:
            result, changes = self._run(op, target, name, fakes, fake_args, fake_kwargs)
        except FailedOnFakes as failed:
            if self.shapes.rest_on_floats((*fx_args, *fx_kwargs.values())):
                self.fakes.stale = True
                return self._call(op, target, args, kwargs)
            if self.unbacked.settles(failed.error, fakes, (fake_args, fake_kwargs)):
                self.fakes.stale = True
                return self._call(op, target, args, kwargs)
            self.vm.unsupported(self.unbacked.failed(failed.error, name, (fake_args, fake_kwargs), target))
        if self.modes.current.dtype is not self.modes.initial.dtype and self.is_one_autograd_node and not changes:
            named = with_dtype(op, target, fake_args, fake_kwargs, result, self.modes.initial.dtype, self.fakes.running)
            if named is None:
                self.vm.unsupported(breaks.GlobalStateUnsupported(f"the default dtype, which the compiled function has set, by {name}"))
            fx_kwargs = {**fx_kwargs, **{word: value for word, value in named.items() if word not in fx_kwargs}}
        self.shapes.note_lines()
        bindings = self.unbacked.after(name, result, fakes, changes)
        changes = changes or is_declared(target)
        if is_unbacked(result):
            number = self.unbacked.known(result)
            if number is None:
                node = self._node(op, target, fx_args, fx_kwargs, result, place)
                self.unbacked.bind(node, bindings)
                number = self.unbacked.number(result, node)
            return number
        if not changes:
            if isinstance(result, torch.Tensor):
                known = self.fakes.object_of(result)
                if known is not None:
                    return known
            elif not has_tensor(result) and not has_unbacked(result):
                return self.results.constant(result, name)
        node = self._node(op, target, fx_args, fx_kwargs, result, place)
        self.unbacked.bind(node, bindings)
        if changes:
            self.body.keep(node)
        return self.results.wrap(result, node, name)

    def _with_switches(self, target: Callable[..., Any], switched: Switched) -> Callable[..., Any]:
        """An operator that runs under the settings that the program has set."""
        if self.is_one_autograd_node:
            self.vm.unsupported(UNDER_FLAGS)
        return with_switches(target, switched)

    def _run(
        self, op: str, target: Any, name: str, fakes: list[torch.Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, bool]:
        """The result of an operator on fakes, and whether it has changed one of them."""
        changes = INPLACE.search(name) is not None or "out" in kwargs or changing(target, args, kwargs) is not None
        before, constants = [version_of(fake) for fake in fakes], constants_among(fakes)
        if not self.demands.takes_sparse:
            refuse_sparse(self.vm, name, fakes)
        if changes:
            self.fakes.changes_with_undoing()
        snapshot = None if self.autograd_node is None else self.autograd_node.before(target, name, fakes, changes)
        repeats = self.fakes.repeats
        worth_noting = len(self.outermost.notes) >= FEW_NODES and not self.fakes.wrappers
        key = repeats.key(target, args, kwargs, self.modes.current) if worth_noting and not changes and fakes and -1 not in before else None
        result = None if key is None else repeats.find(key, fakes)
        is_repeated = result is not None
        writes = Writes(fakes) if -1 in before else contextlib.nullcontext()
        if not is_repeated:
            try:
                with self.fakes.running(), writes:
                    result = getattr(args[0], name)(*args[1:], **kwargs) if op == "call_method" else run_on_fakes(target, args, kwargs)
            except Exception as error:
                raise FailedOnFakes(error) from None
        modules = [arg for given in args for arg in (given if isinstance(given, tuple) else (given,)) if isinstance(arg, fx.GraphModule)]
        has_forgotten = forget_outdated(constants, runs_inner_graph=bool(modules))
        if self.autograd_node is not None:
            self.autograd_node.after(name, result, snapshot)
        if not self.demands.makes_sparse and any(map(is_sparse, tensors_of(result))):
            self.vm.unsupported(breaks.UnsupportedOperation(f"{name}, which gives a sparse tensor, with which the backend can't compile the graph"))
        if not changes and (before != [version_of(fake) for fake in fakes] or (isinstance(writes, Writes) and writes.seen)):
            changes = True
            self.fakes.changes_with_undoing()
        if changes and self.autograd_node is None and torch.is_grad_enabled():
            refuse_handled_change(self.vm, name, changed_among(fakes, before), self.input_fakes)
        if has_forgotten and self.autograd_node is not None and is_of_others(target):  # AOTAutograd's trace forgets nothing
            self.vm.unsupported(breaks.UnsupportedOperation(f"{name}, which changes a number made by torch.tensor in a list that it is given"))
        if changes and any(described.is_subclass and self.fakes.has_new_version(described.node) for described in self.inputs.known.values()):
            # The graph has it as a view. One that is changed asks its base where it comes from, and that may know of no gradient.
            self.vm.unsupported(breaks.TensorSubclass(f"that requires a gradient, of which {name} changes a tensor from outside"))
        if changes and (any(map(is_sparse, changed := changed_among(fakes, before))) or self.inputs.writes_to_part(changed)):
            self.vm.unsupported(breaks.UnsupportedOperation(f"{name}, which changes a sparse tensor"))
        if changes and self.wrappers.nested and self.wrappers.changes_nested(fakes, before, self.inputs.known.values()):
            self.vm.unsupported(breaks.TensorSubclass(f"NestedTensor, of which {name} changes the data of one from outside"))
        if changes and self.fakes.wrappers and self.autograd_node is not None and self.wrappers.changes_wrapped(fakes, before, self.input_fakes()):
            self.vm.unsupported(breaks.TensorSubclass(f"that wraps others, in a graph in which {name} changes a tensor"))
        if key is not None and not is_repeated and not changes:
            repeats.note(key, result, fakes)
        return result, changes

    def _argument(self, obj: Object) -> Any:
        """An Object as an argument of a node of the innermost graph. Raises NotConstant."""
        obj = self.vm.observe(obj)
        value = obj.as_graph_argument(self.vm)
        if type(value) is fx.Node:
            if value.graph is self.body.fx:
                return value
            return self._own(value, obj) if self.body.takes_floats or obj.cls is not float else obj.constant(self.vm)
        try:
            value = exact(value)
        except Inexact:
            raise NotConstant(obj) from None
        return value if not self._has_inner else fx.node.map_arg(value, lambda node: self._own(node, obj))

    def _own(self, node: fx.Node, obj: Object) -> fx.Node:
        own = self.body.own(node)
        if own is None:
            raise NotConstant(obj)
        return own

    def runs_later(
        self,
        reached: Any,
        reads_outside: bool,
        reason: breaks.Break,
        of: fx.Node | None = None,
        place: tuple[CodeType, int] | None = None,
    ) -> LaterReader:
        """The trace has run code that autograd runs later, or has left it to a backward pass in the graph. `place`: see LaterReader; None: here."""
        reader = LaterReader(self.trail.mark(), reached, reads_outside, place or self.vm.place(), reason, of)
        self.trail.set(self, "readers", (*self.readers, reader))
        return reader

    def keeps(self, node: fx.Node) -> bool:
        """Whether the node is there for what it changes."""
        return node in self.body.kept

    def are_changed(self, nodes: Iterable[fx.Node]) -> bool:
        """Whether the memory of one of the tensors that nodes give has been written to since."""
        self.refresh()
        return self.fakes.are_changed(nodes, {node for body in self._bodies() for node in body.kept})

    def has_changed_outside(self) -> bool:
        """Whether the graph so far changes something outside of it when it runs."""
        self.refresh()
        inputs = storages(self.input_fakes())
        return any(changes_outside(node, inputs, self.is_one_autograd_node) for node in self.outermost.kept)

    def instruction_of(self, node: fx.Node) -> tuple[CodeType, int] | None:
        """The instruction of the program that has made a node; None for an item of an operator's results."""
        return self.body.notes[node].instruction

    def effect_node(self, target: Callable[..., Any], args: tuple[Any, ...]) -> fx.Node:
        """Make a node for a change of torch's own state, which is not run while tracing."""
        node = self._node("call_function", target, args, EMPTY, None)
        self.body.keep(node)
        return node

    def _node(
        self, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], example: Any, instruction: tuple[CodeType, int] | None = None
    ) -> fx.Node:
        vm = self.vm
        stack = vm.user_stack()
        note = NodeNote(self.modes.current, stack[0] if stack else None, instruction, vm.note_handlers())
        node = self.body.add(op, target, args, kwargs, note)
        meta = node.meta
        meta["example_value"] = example
        meta["stack_trace"], meta[USER_PLACES] = self._stack_trace(stack)
        meta["source_fn_stack"] = [(node.name, target)]
        if self.module_stack:
            meta["nn_module_stack"] = self.module_stack
        annotated = annotation_in_force(vm)
        if annotated is not None:
            meta[CUSTOM] = annotated
        return node

    def is_empty(self) -> bool:
        """Whether the graph has neither an input nor an operator."""
        return not self.inputs.known and not self.outermost.notes

    def sparse_values(self) -> Iterator[fx.Node]:
        """The nodes of the outermost graph that give sparse tensors, inputs among them."""
        return (node for node in self.outermost.fx.nodes if any(map(is_sparse, tensors_of(node.meta.get("example_value")))))

    def has_operators(self) -> bool:
        """Whether the outermost graph has any node besides inputs."""
        return bool(self.outermost.notes)

    def has_grown_since(self, mark: int) -> bool:
        """Whether an operation has entered a graph since a position of the trail; switches of modes are none."""
        return any(isinstance(record, NodeAdded) and record.owner.target not in MODE_CHANGES for record in self.trail.since(mark))

    def _stack_trace(self, stack: list[UserFrame]) -> tuple[str, tuple[UserPlace, ...]]:
        """The user's stack, outermost call first, as a traceback prints it, and as places."""
        key = tuple(map(id, stack))
        known = self._stack_traces.get(key)
        if known is None:
            text = "".join([f'  File "{frame.filename}", line {frame.lineno}, in {frame.function}\n    {frame.line.strip()}\n' for frame in stack])
            known = self._stack_traces[key] = stack, text, self.vm.user_places()
        return known[1:]

    def refresh(self) -> None:
        """Make all fakes again if undoing has made them stale."""
        if self.fakes.stale:
            self.fakes.refresh(self.inputs.known.values(), self._bodies(), self.unbacked.bind_again)

    def _bodies(self) -> list[Body]:
        """The graphs under construction, the outermost first."""
        bodies = [self.body]
        while bodies[0].outer is not None:
            bodies.insert(0, bodies[0].outer)
        return bodies

    # The end.

    def finish(self, outputs: Sequence[fx.Node], debug: bool = False) -> GraphResult:
        """Close the outermost graph: the given nodes become its outputs; what nothing needs goes, unused inputs included.

        Nodes that change something, draw random numbers or have no result stay. `debug` checks the graph with `lint`.
        """
        self.refresh()
        body = self.body
        assert body is self.outermost
        graph, kept, notes = body.fx, body.kept, body.notes
        if self.autograd_node is not None and (self.autograd_node.asks or self.autograd_node.differentiated_twice):
            dissolve_drawing_regions(graph.nodes)
        with self.fakes.running():  # autograd makes the zeros that stand for a gradient which nothing gives
            spent = {} if self.autograd_node is None else self.autograd_node.spent_outputs(outputs)
            check_moved(self.vm, self.moved, outputs)
        mutated = self.fakes.changed_inputs(kept)
        self.known.check_unchanged(self.fakes.changed_inputs(kept))
        graph.output(tuple([self._detached(node) if index in spent else node for index, node in enumerate(outputs)]))
        prune(graph, kept, self.fakes.running)
        self.fakes.shape_env.pending_fresh_unbacked_symbols.clear()
        inputs = self.inputs.used()
        self.inputs.guard_aliasing(inputs, mutated, self.known.rested_on() | self.call_data.read)
        if debug:
            graph.lint()
        make_spellable(graph, self.is_one_autograd_node)
        gm = _LazyGraphModule(module_with(body.modules), graph)  # its code is generated in the form that the backend wants, or never
        has_effects = any(node in kept for node in graph.nodes)
        indices = tuple(i for i, described in enumerate(inputs) if described.node in mutated)
        place = next((notes[node].place for node in graph.nodes if node in notes), None)
        repeatable = not indices and not any(node in kept and runs_for_its_effect(node) for node in graph.nodes)
        late = tuple(checks_behind_changes(graph, kept, storages(self.input_fakes()), self.demands))
        return GraphResult(gm, tuple(inputs), indices, has_effects, repeatable, late, self.modes.initial, place, spent)

    @property
    def is_finished(self) -> bool:
        """Whether the outermost graph is closed."""
        return any(node.op == "output" for node in self.outermost.fx.nodes)

    def _without_gradients(self, nodes: list[fx.Node]) -> list[fx.Node]:
        """Nodes to be outputs that nobody sees, detached: with AOTAutograd, leaves that only they depend on would get a gradient of zeros, and not None."""
        return [self._detached(node) if node.meta["example_value"].requires_grad else node for node in nodes]

    def _detached(self, output: fx.Node) -> fx.Node:
        """A node for a detached output."""
        node = self.outermost.add("call_method", "detach", (output,), EMPTY, self.outermost.notes[output])
        node.meta["example_value"] = output.meta["example_value"].detach()
        return node

    def unused_under_handlers(self, outputs: Sequence[fx.Node]) -> list[fx.Node]:
        """Nodes of tensors that nothing needs, computed where the program has handlers: it may only want to know whether that raises."""
        body = self.outermost
        handled = [node for node, note in body.notes.items() if note.handled]
        unused = unneeded(reversed(handled), (*outputs, *body.kept), lambda node: is_computed(node.meta["example_value"]))
        return self._without_gradients(unused)

    def unused_draws(self, outputs: Sequence[fx.Node]) -> list[fx.Node]:
        """Nodes of random numbers that nothing needs: AOTAutograd would not draw them, and what is drawn later would be other numbers."""
        if self.autograd_node is None:
            return []
        self.refresh()
        outside = storages(self.input_fakes()) if not self.fakes.wrappers else set()
        unused = unneeded(
            [node for node in reversed(self.outermost.fx.nodes) if node.target is not operator.getitem],
            (*outputs, *[node for node in self.outermost.kept if self.fakes.wrappers or not changes_result_only(node, outside)]),
            lambda node: node in self.outermost.notes and computed_by(node) is not None and has_effect(node, self.fakes.running),
        )
        return self._without_gradients([found for node in unused if (found := computed_by(node)) is not None])

    def dispose(self) -> None:
        """Release everything that the graphs hold."""
        if self.shapes.properties:
            forget_shape_envs()
        self.__dict__.clear()
