"""The FX graphs of one trace: each operator is run on fake tensors as it is traced, and becomes a node if its result needs one.

What goes in is computed at once and never retraced: `call` runs the operator under the fake mode, wraps what comes out,
and adds a node only where a tensor comes out or something is changed. Everything is undone through the trail.

Graphs under construction form a stack (body.py): operators go into the innermost. Inputs are placeholders of the outermost; an inner graph gets
a placeholder for each node that it uses of those around it.
"""

from __future__ import annotations

import contextlib
import enum
import gc
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.experimental.symbolic_shapes import SubclassSymbolicContext

from framejit import breaks, classes, interrupts
from framejit.errors import UserFrame
from framejit.graph.autograd_node import AutogradNode, spent_error
from framejit.graph.body import Body, NodeNote, Transforming, transforms_of
from framejit.graph.check_order import changes_outside, changes_result_only, checks_behind_changes, runs_for_its_effect
from framejit.graph.constants import Inexact, exact
from framejit.graph.demands import DEFAULT, GraphDemands
from framejit.graph.fake import is_declared, refusal, refusal_of_class, version_of
from framejit.graph.fakes import Fakes, Writes, storages
from framejit.graph.function_modes import FunctionModes
from framejit.graph.gradient_hooks import Listening
from framejit.graph.gradient_paths import gradient_paths
from framejit.graph.inner import InnerGraph
from framejit.graph.inputs import GraphInput, holds_buffer, identifier, is_static
from framejit.graph.jagged import JaggedContext, contexts_of, is_nested_int, memory_of, parts_of
from framejit.graph.on_fakes import run_on_fakes
from framejit.graph.prune import fake_of, has_effect, has_tensor, output_nodes, prune
from framejit.graph.shape_env import forget_shape_envs
from framejit.graph.shapes import Shapes
from framejit.graph.state import GlobalModes, Modes
from framejit.graph.switches import Switched, with_switches
from framejit.graph.unbacked import Unbacked, is_unbacked
from framejit.guards.dynamic import STATIC, Dynamic
from framejit.guards.kinds import ArraysApart, Distinct, Guard, Same, StorageAliasing, TensorMatch, overlapping, with_article
from framejit.guards.source import Call, Source, UserLine
from framejit.guards.tensor_source import ArrayTensor
from framejit.guards.tensor_spec import TensorSpec, aliasing_among, memory_range, spec_without_sizes, tensor_spec
from framejit.objects.constobject import CONST_BUILDERS, EXACT
from framejit.objects.dictobject import dict_of
from framejit.objects.listobject import ListObject
from framejit.objects.nestedsize import NestedSize
from framejit.objects.numberobject import NumberObject
from framejit.objects.object import VM, NotConstant, Object
from framejit.objects.registry import wrapper_for
from framejit.objects.storageobject import StorageObject, key_of
from framejit.objects.tensorobject import TensorObject
from framejit.objects.torchobject import SizeObject, struct_sequence
from framejit.objects.tupleobject import TupleObject
from framejit.objects.unbackednumber import UnbackedNumber
from framejit.torch_classes import as_class, is_disguised, is_distributed, is_jagged, is_wrapper, stays_itself
from framejit.torch_modes import MODE_CHANGES

if TYPE_CHECKING:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    from framejit.errors import UserFrame

T = TypeVar("T")
EMPTY: dict[str, Any] = {}
INPLACE = re.compile(r"(?<!_)_$")
"""Names of operators that change their argument, maybe only its metadata: `add_`, `unsqueeze_`; not `__iadd__`."""
UNDER_FLAGS = breaks.GlobalStateUnsupported("an operator that computes by flags of torch.backends, which the compiled function has set")
BESIDE_NESTED = breaks.TensorSubclass("NestedTensor, beside tensors that wrap others in another way")
FEW_NODES = 8
"""A graph of so few nodes has hardly a layer that repeats: what its operators give isn't noted."""


@dataclass(frozen=True, slots=True)
class GraphResult:
    """A finished graph. `gm` takes `inputs` in order and gives a tuple of the outputs asked for, in order.

    `mutated`: indices of the inputs that the graph changes in place. `has_effects`: it must run even if nothing is asked of it.
    `repeatable`: where it raises, it has changed nothing but random number generators. `late_checks`: checks of which that can't be said.
    `modes`: the global modes where it starts. `place`: where the outermost frame was at the first operator. `spent`: indices of the outputs that
    the graph gives detached, because what autograd had recorded of them is used up, and what it says where that is needed.
    """

    gm: fx.GraphModule
    inputs: tuple[GraphInput, ...]
    mutated: tuple[int, ...]
    has_effects: bool
    repeatable: bool
    late_checks: tuple[fx.Node, ...]
    modes: Modes
    place: UserFrame | None
    spent: Mapping[int, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Nothing to run: no outputs, no effects."""
        return not self.has_effects and not output_nodes(self.gm.graph)


class FailedOnFakes(Exception):
    """An operator has raised `error` on fakes."""

    def __init__(self, error: Exception) -> None:
        self.error = error




@dataclass(frozen=True, slots=True)
class LaterReader:
    """Code of the program's that autograd runs in a backward pass, and the trace has run already, up to a position (`mark`) of the trail.

    `reached`: what it may read. `reads_outside`: it reads values from outside the trace that a program may change at any time.
    `place`: the instruction that is left to native code, for this `reason`, where what it reads has changed by then, or may have.
    `of`: the node of a tensor, if it makes no difference unless that leaves the graph.
    """

    mark: int
    reached: Any
    reads_outside: bool
    place: tuple[CodeType, int]
    reason: breaks.Break
    of: fx.Node | None = None


class TorchVM(VM, Protocol):
    """What the graph, and the models of torch's functions, see of the running trace beyond what objects see of it."""

    @property
    def graph(self) -> GraphBuilder:
        """The graphs of the trace."""

    def user_stack(self) -> list[UserFrame]:
        """The frames of the traced program, outermost first."""

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
    """The graphs of one trace; see the module's docstring.

    `module_stack`: what `nn_module_stack` says of the nodes now made (path -> (path, class)); replaced, never changed in place,
    through the trail, by whoever inlines a module's call. `dynamic`: which sizes and numbers are symbolic. `demands`: what the backend takes.
    """

    def __init__(
        self,
        vm: TorchVM,
        fake_mode: FakeTensorMode | None = None,
        shape_env: ShapeEnv | None = None,
        dynamic: Dynamic = STATIC,
        demands: GraphDemands = DEFAULT,
    ) -> None:
        self.vm = vm
        self.trail = vm.trail
        self.demands = demands
        self.fakes = Fakes(self.trail, fake_mode, shape_env, demands.takes_unbacked)
        self.unbacked = Unbacked(self, self.fakes.shape_env, demands.takes_unbacked)
        self.shapes = Shapes(self, self.fakes.shape_env, dynamic, vm.user_line, demands.takes_unbacked)
        self.modes = GlobalModes(self.effect_node, self.trail)
        self.function_modes = FunctionModes(self.trail)
        self.body = self.outermost = Body(self.trail)
        """The graph that operators now go into, and the one around all others."""
        self.module_stack: dict[str, tuple[str, type]] = {}
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
        self._nested: list[TensorObject] = []
        """The nested tensors that the trace knows."""
        self._lengths: list[Object] = []
        """The tensors from outside that hold the lengths of nested tensors."""
        self.storages: list[StorageObject] = []
        """The storages that the program has asked for, or for an address in them."""
        self.has_distributed = False
        """Whether there has been a distributed tensor."""
        self._has_inner = False  # whether there has ever been an inner graph
        self._inputs: dict[int, GraphInput] = {}
        self._stack_traces: dict[tuple[int, ...], tuple[list[UserFrame], str]] = {}  # holds the frames: their ids must not come again

    # Inputs.

    def input_tensors(self) -> list[TensorObject]:
        """The tensors from outside that the trace has come to so far."""
        return [described.obj for described in self._inputs.values() if isinstance(described.obj, TensorObject) and not described.is_state]

    def input(self, source: Source, tensor: torch.Tensor) -> TensorObject:
        """The Object of a real tensor; one placeholder for each tensor, however many paths lead to it. Guards its metadata."""
        known = self._inputs.get(id(tensor))
        if known is not None:
            obj = known.obj
            assert isinstance(obj, TensorObject)
            if obj.source is not source:
                self.vm.relate(Same, source, obj.source)
            return obj
        reason = refusal_of_class(type(tensor))
        if reason is not None:
            self.vm.unsupported(reason)
        if is_jagged(type(tensor)):
            return self._jagged_input(source, tensor)
        is_subclass, of_others = is_disguised(type(tensor)), is_wrapper(type(tensor))
        plain = as_class(tensor, torch.Tensor) if is_subclass else tensor
        with torch._C.DisableTorchFunctionSubclass():
            reason = refusal(plain)
        if reason is not None:
            self.vm.unsupported(reason)
        self.refresh()
        if is_distributed(type(tensor)):
            self.meet_distributed()
        elif of_others:
            self.meet_wrapper()
        static = of_others or is_static(source, plain)
        try:
            symbolic = self.shapes.context_of_wrapper(source, plain) if of_others else None if static else self.shapes.context_of(source, plain)
            fake = self.fakes.of_input(tensor, symbolic)
        except (AttributeError, RuntimeError, NotImplementedError, TypeError) as error:
            if not of_others:
                raise
            self.vm.unsupported(breaks.TensorSubclass(f"{type(tensor).__qualname__}, of which there is no tensor without data ({error})"))
        if symbolic is not None:
            if isinstance(symbolic, SubclassSymbolicContext):
                self.shapes.note_wrapper(source, tensor, symbolic)
            self.shapes.note_input(source, plain, fake)
            self.unbacked.note_input(source.told(), fake)
        self.vm.guard(TensorMatch, source, tensor_spec(tensor) if symbolic is None else without_symbols(tensor_spec(tensor), fake))
        return self._new_input(source, tensor, fake, plain, symbolic, static, is_subclass, of_others)

    def _new_input(self, source: Source, tensor: torch.Tensor, fake: torch.Tensor, plain: torch.Tensor, *described: Any) -> TensorObject:
        """A placeholder for a tensor from outside. `described`: the rest of what a GraphInput says of it."""
        symbolic, *rest = described
        node = self.outermost.placeholder(identifier(source.describe()), fake)
        obj = TensorObject(node, type(tensor), source, tensor)
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        self._inputs[id(tensor)] = GraphInput(source, node, obj, plain, symbolic, is_parameter, holds_buffer(source), *rest)
        self.trail.log(self._inputs.pop, id(tensor))
        self.fakes.belongs_to(fake, obj)
        self.fakes.note_version(node)
        return obj

    def _jagged_input(self, source: Source, nested: Any) -> TensorObject:
        """The Object of a nested tensor from outside. What it consists of is for the caller to guard."""
        self.refresh()
        self.meet_nested()
        context = contexts_of(source, nested, self.shapes.context_of_part)
        fake = self.fakes.of_input(nested, context)
        self.vm.guard(TensorMatch, source, spec_without_sizes(nested))
        obj = self._new_input(source, nested, fake, nested, context)
        self._note_nested(obj)
        return obj

    def meet_wrapper(self) -> None:
        """There is a tensor that wraps others. What its class overrides is asked by the trace: until the end, nothing else asks it."""
        if self._nested:
            self.vm.unsupported(BESIDE_NESTED)
        self._begin_wrappers()
        self.modes.switch_overrides_off()

    def _begin_wrappers(self) -> None:
        """There is a tensor that has its data in others. AOTAutograd doesn't see that a change of one of these, made before, is one of it."""
        changes = [node for node in self.outermost.kept | self.body.kept if node.target not in MODE_CHANGES]
        if changes and self.autograd_node is not None and not self.fakes.wrappers:
            self.vm.unsupported(breaks.TensorSubclass("that wraps others, in a graph in which a tensor has been changed before"))
        self.fakes.meet_wrapper()

    def state_input(self, source: Source, state: torch.Tensor) -> TensorObject:
        """The state of a torch.Generator, which this path leads to, as a tensor: a placeholder of its own."""
        self.refresh()
        fake = self.fakes.of_input(state, None)
        node = self.outermost.placeholder(identifier(source.describe()), fake)
        obj = TensorObject(node, torch.Tensor, None, state)
        self._inputs[id(state)] = GraphInput(source, node, obj, state, is_state=True)
        self.trail.log(self._inputs.pop, id(state))
        self.fakes.belongs_to(fake, obj)
        self.fakes.note_version(node)
        return obj

    def meet_distributed(self) -> None:
        """There is a distributed tensor, or one becomes one."""
        if not self.demands.takes_distributed:
            self.vm.unsupported(breaks.TensorSubclass("DTensor, in a graph that the backend can't compile"))
        self.trail.set(self, "has_distributed", True)
        self.meet_wrapper()

    def meet_nested(self) -> None:
        """There is a nested tensor, whose class is asked by the operators of the graph."""
        if not self.demands.takes_nested:
            self.vm.unsupported(breaks.TensorSubclass("NestedTensor"))
        if self.fakes.wrappers and not self._nested:
            self.vm.unsupported(BESIDE_NESTED)
        self._begin_wrappers()

    def has_nested(self) -> bool:
        """Whether the trace knows nested tensors."""
        return bool(self._nested)

    def _note_nested(self, obj: TensorObject) -> None:
        self._nested.append(obj)
        self.trail.log(self._nested.pop)

    def holds_lengths(self, obj: Object) -> None:
        """A tensor is one of those for which sizes of nested tensors stand: it is guarded to be none of the others."""
        if obj.source is None or any(obj is known for known in self._lengths):
            return
        if self._lengths:
            self.vm.relate(Distinct, obj.source, tuple(known.source for known in self._lengths))
        self._lengths.append(obj)
        self.trail.log(self._lengths.pop)

    def nested_size(self, size: Any) -> Object:
        """The size of a nested tensor that stands for its lengths, as the program has it."""
        for obj in self._nested:
            for dim, known in enumerate(obj.look(self.vm).size()):
                if is_nested_int(known) and known.node.expr == size.node.expr:
                    return NestedSize(obj, dim, self._node("call_method", "size", (self._argument(obj), dim), EMPTY, known))
        self.vm.unsupported(breaks.UnsupportedOperation("a size computed from the lengths of a nested tensor"))

    def number_input(self, number: NumberObject) -> fx.Node:
        """The placeholder of a symbolic number that is read off the call."""
        assert number.source is not None and number.sym is not None
        node = self.outermost.placeholder(identifier(number.source.describe()), number.sym)
        self._inputs[id(number)] = GraphInput(number.source, node, number, number.value)
        self.trail.log(self._inputs.pop, id(number))
        return node

    def know(self, number: NumberObject) -> None:
        """Rest on the value of a number."""
        number.constant(self.vm)

    def number_node(self, function: Callable[..., Any], operands: Sequence[Object], sym: Any) -> fx.Node:
        """The node, in the outermost graph, of arithmetic on numbers of which one at least is symbolic. `sym`: what it gives."""
        args = tuple([part.in_graph(self.vm) if isinstance(part, UnbackedNumber) else part.as_graph_argument(self.vm) for part in operands])
        inner, self.body = self.body, self.outermost
        try:
            return self._node("call_function", function, args, EMPTY, sym)
        finally:
            self.body = inner
            self.shapes.note_lines()

    def size(self, obj: TensorObject, dim: int) -> Object:
        """A size of a tensor as a number of the program's."""
        size = obj.look(self.vm).shape[dim]
        if is_nested_int(size):
            return self.nested_size(size)
        if is_unbacked(size):
            return self.unbacked.known(size) or self.call("call_method", "size", [obj, self.vm.const(dim)], EMPTY)
        return self.shapes.number(size) if type(size) is torch.SymInt else self.vm.const(size)

    @property
    def is_one_autograd_node(self) -> bool:
        """Whether AOTAutograd makes what runs of the graph."""
        return self.autograd_node is not None

    def is_inner(self) -> bool:
        """Whether the innermost graph is another than the outermost."""
        return self.body is not self.outermost

    def object_of(self, fake: torch.Tensor) -> TensorObject | None:
        """The Object of a fake that the trace knows."""
        return self.fakes.object_of(fake)

    def input_fakes(self) -> list[torch.Tensor]:
        """The fakes of all inputs."""
        return [described.node.meta["example_value"] for described in self._inputs.values() if described.is_tensor]

    # Inner graphs, which an operator takes as arguments.

    def begin_inner(self, items_by_index: bool = False, takes_floats: bool = True, transform: Transforming | None = None) -> None:
        """What is traced from here on goes into a graph of its own, until `end_inner`. The arguments: see Body."""
        self._has_inner = True
        self.trail.set(self, "body", Body(self.trail, self.body, items_by_index, takes_floats, transform))

    def inner_argument(self, name: str, make: Callable[[], torch.Tensor], of: fx.Node | None = None) -> TensorObject:
        """What the operator that runs the innermost graph makes of one of its arguments, `of` this node. `make` makes its fake."""

        def made() -> torch.Tensor:
            with torch.no_grad(), self.fakes.running():
                return make()

        self.refresh()
        node = self.body.argument(name, made, of)
        obj = TensorObject(node, torch.Tensor)
        self.fakes.belongs_to(node.meta["example_value"], obj)
        return obj

    def transform_around(self) -> str | None:
        """The innermost transform of torch.func's inside of which the trace is, by name."""
        return next(self.transforms_around(), None)

    def transforms_around(self) -> Iterator[str]:
        """The transforms of torch.func's inside of which the trace is, by name, the innermost first."""
        return (transforming.name for _, transforming in transforms_of(self.body))

    def check_record(self, obj: TensorObject) -> None:
        """The program asks what autograd knows of a tensor: inside a transform that may be more than the fake's."""
        body: Body | None = self.body
        while body is not None and body.fx is not obj.node.graph:
            body = body.outer
        around = self.transform_around()
        if around is not None and body is not None and (obj.node.op != "placeholder" or body.leaves_transform) and body.hides_records():
            self.vm.unsupported(breaks.InsideTransform(around, "of a function that asks what autograd knows of a tensor"))

    def end_inner(self, outputs: Sequence[Object]) -> InnerGraph:
        """End the inner graph, which gives these values. Raises NotConstant if one of them can be no output of a graph."""
        body = self.body
        assert body.outer is not None
        end = body.fx.output(tuple([self._argument(output) for output in outputs]))
        self.trail.log(body.fx.erase_node, end)
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
                result, changes = self._run("call_function", target, name, fakes, tuple([fake_of(arg, fakes) for arg in args]), kwargs)
        except FailedOnFakes as failed:
            reason = self.unbacked.failed(failed.error, name, (args, kwargs), target)
            if not raises:
                reason = breaks.InsideTransform(f"torch.func.{name}", f"that raises on tensors without data: {failed.error}".partition("\n")[0])
            self.vm.unsupported(reason)
        node = self._node("call_function", target, args, kwargs, result, place)
        if changes:
            self.body.keep(node)
        return node

    def result_of(self, node: fx.Node) -> Object:
        """What a node gives."""
        return self._wrap(node.meta["example_value"], node, node.name)

    def nodes_of(self, values: Iterable[Object]) -> tuple[Any, ...]:
        """Values as arguments of a node of the innermost graph. Raises NotConstant."""
        return tuple([self._argument(value) for value in values])

    # Operators.

    def call(self, op: str, target: Callable[..., Any] | str, args: Sequence[Object], kwargs: dict[str, Object]) -> Object:
        """Run `target(*args, **kwargs)`, or the method of that name of the first argument, in the graph; `objects/torchcall.py` decides what is run.

        Raises NotConstant if an argument can be no argument of a node.
        """
        interrupts.heed()
        place = self.vm.place()
        fx_args = tuple([self._argument(arg) for arg in args])
        fx_kwargs = {name: self._argument(arg) for name, arg in kwargs.items()} if kwargs else EMPTY
        self.refresh()
        fakes: list[torch.Tensor] = []
        fake_args = tuple([fake_of(arg, fakes) for arg in fx_args])
        fake_kwargs = {name: fake_of(arg, fakes) for name, arg in fx_kwargs.items()} if kwargs else EMPTY
        name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
        if self._nested and not self.function_modes.asks_subclasses() and any(is_jagged(type(fake)) for fake in fakes):
            self.vm.unsupported(breaks.TensorSubclass("NestedTensor, whose __torch_function__ is switched off"))
        switched = self.modes.switches.mattering(fakes)
        if switched:
            op, target = "call_function", self._with_switches(getattr(type(fake_args[0]), target) if isinstance(target, str) else target, switched)
        self.unbacked.before(name, fakes, [arg for arg in (*fake_args, *fake_kwargs.values()) if not self.shapes.is_free_float(arg)])
        try:
            result, changes = self._run(op, target, name, fakes, fake_args, fake_kwargs)
        except FailedOnFakes as failed:
            if self.shapes.rest_on_floats((*fx_args, *fx_kwargs.values())):
                self.fakes.stale = True
                return self.call(op, target, args, kwargs)
            self.vm.unsupported(self.unbacked.failed(failed.error, name, (fake_args, fake_kwargs), target))
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
                return self._constant(result, name)
        node = self._node(op, target, fx_args, fx_kwargs, result, place)
        self.unbacked.bind(node, bindings)
        if changes:
            self.body.keep(node)
        return self._wrap(result, node, name)

    def _with_switches(self, target: Callable[..., Any], switched: Switched) -> Callable[..., Any]:
        """An operator that runs with settings as the program has set them."""
        if self.is_one_autograd_node:
            self.vm.unsupported(UNDER_FLAGS)
        return with_switches(target, switched)

    def _run(
        self, op: str, target: Any, name: str, fakes: list[torch.Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, bool]:
        """The result of an operator on fakes, and whether it has changed one of them."""
        changes = INPLACE.search(name) is not None or "out" in kwargs
        before = [version_of(fake) for fake in fakes]
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
        if self.autograd_node is not None:
            self.autograd_node.after(name, result, snapshot)
        if not changes and (before != [version_of(fake) for fake in fakes] or (isinstance(writes, Writes) and writes.seen)):
            changes = True
            self.fakes.changes_with_undoing()
        if changes and any(described.is_subclass and self.fakes.has_new_version(described.node) for described in self._inputs.values()):
            # The graph has it as a view. One that is changed asks its base where it comes from, and that may know of no gradient.
            self.vm.unsupported(breaks.TensorSubclass(f"that requires a gradient, of which {name} changes a tensor from outside"))
        if changes and self._nested and self._changes_nested(fakes, before, name):
            self.vm.unsupported(breaks.TensorSubclass(f"NestedTensor, of which {name} changes the data of one from outside"))
        if changes and self.fakes.wrappers and self.autograd_node is not None:
            self.vm.unsupported(breaks.TensorSubclass(f"that wraps others, in a graph in which {name} changes a tensor"))
        if key is not None and not is_repeated and not changes:
            repeats.note(key, result, fakes)
        return result, changes

    def _changes_nested(self, fakes: list[torch.Tensor], before: list[int], name: str) -> bool:
        """Whether an operator, which has changed some of these fakes, may have changed the data of a nested tensor from outside."""
        changed = [fake for index, fake in enumerate(fakes) if index == 0 or version_of(fake) != before[index]]
        outside = [described.node.meta["example_value"] for described in self._inputs.values() if isinstance(described.symbolic, JaggedContext)]
        values = [fake._values if is_jagged(type(fake)) else fake for fake in changed]
        return bool(memory_of(values) & memory_of(outside))

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

    def runs_later(self, reached: Any, reads_outside: bool, reason: breaks.Break, of: fx.Node | None = None) -> LaterReader:
        """The trace has run code at the present instruction that autograd runs later, or has left it to a backward pass in the graph."""
        reader = LaterReader(self.trail.mark(), reached, reads_outside, self.vm.place(), reason, of)
        self.trail.set(self, "readers", (*self.readers, reader))
        return reader

    def keeps(self, node: fx.Node) -> bool:
        """Whether the node is there for what it changes."""
        return node in self.body.kept

    def has_changed_outside(self) -> bool:
        """Whether something outside the graph is another by now, when the graph runs."""
        self.refresh()
        inputs = storages(self.input_fakes())
        return any(changes_outside(node, inputs, self.is_one_autograd_node) for node in self.outermost.kept)

    def instruction_of(self, node: fx.Node) -> tuple[CodeType, int] | None:
        """The instruction of the program that has made a node; None for an item of an operator's results."""
        return self.body.notes[node].instruction

    def effect_node(self, target: Callable[..., Any], args: tuple[Any, ...]) -> fx.Node:
        """A node for a change of torch's own state, which is not run here."""
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
        meta["stack_trace"] = self._stack_trace(stack)
        meta["source_fn_stack"] = [(node.name, target)]
        if self.module_stack:
            meta["nn_module_stack"] = self.module_stack
        return node

    def is_empty(self) -> bool:
        """Whether the trace has met no tensor: there is neither an input nor an operator."""
        return not self._inputs and not self.outermost.notes

    def has_operators(self) -> bool:
        """Whether the outermost graph has anything but inputs."""
        return bool(self.outermost.notes)

    def has_grown_since(self, mark: int) -> bool:
        """Whether an operation has entered a graph since a position of the trail; switches of modes are none."""
        undoings = self.trail.since(mark)
        return any(getattr(undo, "__func__", None) is Body.erase and args[0].target not in MODE_CHANGES for undo, args in undoings)

    def _stack_trace(self, stack: list[UserFrame]) -> str:
        """The user's stack, outermost call first, as a traceback prints it."""
        key = tuple(map(id, stack))
        known = self._stack_traces.get(key)
        if known is None:
            known = self._stack_traces[key] = stack, "".join(
                [f'  File "{frame.filename}", line {frame.lineno}, in {frame.function}\n    {frame.line.strip()}\n' for frame in stack]
            )
        return known[1]

    # Results.

    def _wrap(self, result: Any, node: fx.Node, name: str) -> Object:
        if isinstance(result, torch.Tensor):
            known = self.fakes.object_of(result)
            if known is not None:
                return known
            obj = TensorObject(node, type(result) if stays_itself(type(result)) else torch.Tensor)
            self.fakes.belongs_to(result, obj)
            if is_jagged(type(result)):
                self.meet_nested()
                self._note_nested(obj)
            return obj
        if is_unbacked(result):
            return self.unbacked.known(result) or self.unbacked.number(result, node)
        if isinstance(result, (tuple, list)) and (has_tensor(result) or has_unbacked(result)):
            items = [self._item(item, node, index, name) for index, item in enumerate(result)]
            if isinstance(result, list):
                return ListObject(items)
            return TupleObject(items) if type(result) is tuple else struct_sequence(type(result), items)
        if type(result) is dict and has_tensor(result):
            return dict_of(self.vm, [(self._constant(key, name), self._item(item, node, key, name)) for key, item in result.items()])
        return self._constant(result, name)

    def _item(self, item: Any, node: fx.Node, index: Any, name: str) -> Object:
        """What an operator has given at a place of its result."""
        if has_tensor(item) or is_unbacked(item):
            return self._wrap(item, self._node("call_function", operator.getitem, (node, index), EMPTY, item), name)
        return self._constant(item, name)

    def _constant(self, result: Any, name: str) -> Object:
        """What an operator has given that is no tensor, be it symbolic numbers or a container of them."""
        if isinstance(result, (tuple, list)) and any(type(item) is torch.SymInt for item in result):
            return self.vm.from_real(with_items(result, [self._constant(item, name) for item in result]))
        if type(result) is torch.SymInt:
            return self.nested_size(result) if is_nested_int(result) else self.shapes.number(result)
        if type(result) is torch.SymBool:
            outcome = bool(result)
            self.shapes.note_lines()
            return self.vm.const(outcome)
        if type(result) is torch.SymFloat:
            self.vm.unsupported(breaks.UnsupportedOperation(f"a symbolic float from {name}"))
        if type(result) is torch.Size:
            return self.vm.const(result)
        if not is_made_of_constants(result):
            self.vm.unsupported(breaks.UnsupportedOperation(f"{name}, which gives {with_article(classes.qualname(type(result)))}"))
        return self.vm.from_real(result)

    def refresh(self) -> None:
        """Make all fakes again if undoing has made them stale."""
        if self.fakes.stale:
            bodies = [self.body]
            while bodies[0].outer is not None:
                bodies.insert(0, bodies[0].outer)
            self.fakes.refresh(self._inputs.values(), bodies, self.unbacked.bind_again)

    # The end.

    def finish(self, outputs: Sequence[fx.Node], debug: bool = False) -> GraphResult:
        """Close the outermost graph: the given nodes become its outputs; what nothing needs goes, unused inputs included.

        Nodes that change something, draw random numbers or have no result stay. `debug` checks the graph with `lint`.
        """
        self.refresh()
        body = self.body
        assert body is self.outermost
        graph, kept, notes = body.fx, body.kept, body.notes
        with self.fakes.running():  # autograd makes the zeros that stand for a gradient which nothing gives
            spent = {} if self.autograd_node is None else self.autograd_node.spent_outputs(outputs)
            self._check_moved(outputs)
        mutated = self.fakes.changed_inputs(kept)
        graph.output(tuple([self._detached(node) if index in spent else node for index, node in enumerate(outputs)]))
        prune(graph, kept, self.fakes.running)
        self.fakes.shape_env.pending_fresh_unbacked_symbols.clear()
        inputs = self._used_inputs()
        self._guard_aliasing(inputs, mutated)
        if debug:
            graph.lint()
        gm = _LazyGraphModule(module_with(body.modules), graph)  # its code is generated in the form that the backend wants, or never
        has_effects = any(node in kept for node in graph.nodes)
        indices = tuple(i for i, described in enumerate(inputs) if described.node in mutated)
        place = next((notes[node].place for node in graph.nodes if node in notes), None)
        repeatable = not indices and not any(node in kept and runs_for_its_effect(node) for node in graph.nodes)
        late = tuple(checks_behind_changes(graph, kept, storages(self.input_fakes()), self.demands))
        return GraphResult(gm, tuple(inputs), indices, has_effects, repeatable, late, self.modes.initial, place, spent)

    def _check_moved(self, outputs: Sequence[fx.Node]) -> None:
        """Gradients of what leaves the graph must reach the program's leaves, not what stands for them since they were given other memory, or thawed."""
        if not self.moved:
            return
        stored = {id(node.meta["example_value"]): (place, name) for node, place, name in self.moved}
        for output in outputs:
            fake = output.meta["example_value"]
            reached = gradient_paths([fake]).leaves if isinstance(fake, torch.Tensor) and fake.requires_grad else ()
            place, name = next((stored[id(leaf)] for leaf in reached if id(leaf) in stored), (None, ""))
            if place is not None and spent_error(fake) is None:
                self.vm.restart(place, breaks.MutatedInputUnsupported(f"{name} of a tensor of which gradients are asked outside"))

    def _detached(self, output: fx.Node) -> fx.Node:
        """A node for an output, of which autograd doesn't know what it is computed from."""
        node = self.outermost.add("call_method", "detach", (output,), EMPTY, self.outermost.notes[output])
        node.meta["example_value"] = output.meta["example_value"].detach()
        return node

    def _used_inputs(self) -> list[GraphInput]:
        """The inputs that nodes use, in order; the other placeholders go."""
        graph = self.outermost.fx
        needed = {described.node for described in self._inputs.values() if described.node.users}
        if self.demands.lifts_symbols:
            fakes = [described.node.meta["example_value"] for described in self._inputs.values() if described.is_tensor and described.node in needed]
            parts = [part for fake in fakes if is_jagged(type(fake)) for part in parts_of(fake).values()]
            needed |= self.shapes.lift([*fakes, *parts])
        by_node = {described.node: described for described in self._inputs.values()}
        inputs = []
        for node in list(graph.nodes):
            if node.op != "placeholder":
                break
            if node in needed:
                inputs.append(by_node[node])
            else:
                graph.erase_node(node)
        return inputs

    def unused_under_handlers(self, outputs: Sequence[fx.Node]) -> list[fx.Node]:
        """Nodes of tensors that nothing needs, computed where the program has handlers: it may only want to know whether that raises."""
        body = self.outermost
        handled = [node for node, note in body.notes.items() if note.handled]
        return unneeded(reversed(handled), (*outputs, *body.kept), lambda node: is_computed(node.meta["example_value"]))

    def unused_draws(self, outputs: Sequence[fx.Node]) -> list[fx.Node]:
        """Nodes of random numbers that nothing needs: AOTAutograd would not draw them, and what is drawn later would be other numbers."""
        if self.autograd_node is None:
            return []
        self.refresh()
        outside = storages(self.input_fakes()) if not self.fakes.wrappers else set()
        return unneeded(
            reversed(self.outermost.fx.nodes),
            (*outputs, *[node for node in self.outermost.kept if self.fakes.wrappers or not changes_result_only(node, outside)]),
            lambda node: node in self.outermost.notes and is_computed(node.meta["example_value"]) and has_effect(node, self.fakes.running),
        )

    def dispose(self) -> None:
        """Let go of everything."""
        if self.shapes.properties:
            forget_shape_envs()
        self.__dict__.clear()

    def _guard_aliasing(self, inputs: list[GraphInput], mutated: set[fx.Node]) -> None:
        """Where an input is changed in place, backends rely on which inputs share its memory, and so does a program that compares storages: guard that."""
        asked = {key_of(storage.tensor.fake) for storage in self.storages}
        used = {described.node for described in inputs} if any(described.node in mutated for described in inputs) else set()
        tensors = [described for described in self._inputs.values() if described.is_tensor and not described.is_state]
        compared = {described.node for described in tensors if key_of(described.node.meta["example_value"]) in asked}
        inputs = list({part.node: part for described in tensors if described.node in used | compared for part in self._parts(described)}.values())
        if not inputs:
            return
        told_apart = [described.node in mutated | compared for described in inputs]
        groups, offsets = aliasing_among([described.value for described in inputs], told_apart, exact=bool(asked))
        self.vm.relate(StorageAliasing, inputs[0].source, tuple(described.source for described in inputs), groups, offsets)
        self._guard_arrays(inputs)

    def _parts(self, described: GraphInput) -> list[GraphInput]:
        """The inputs in whose memory the data of one is."""
        if not isinstance(described.symbolic, JaggedContext):
            return [described]
        return [self._inputs[id(part)] for part in parts_of(described.value).values()]

    def _guard_arrays(self, inputs: list[GraphInput]) -> None:
        """Each array is a tensor with a storage of its own, even where it shares memory with others."""
        of_array = tuple(int(isinstance(described.source, ArrayTensor)) for described in inputs)
        if not any(of_array) or len(inputs) < 2:
            return
        ranges = [memory_range(described.value) for described in inputs]
        if overlapping([place for place in ranges if place is not None], of_array):
            self.vm.unsupported(breaks.MutatedInputUnsupported("an array that shares memory with another array or tensor"))
        self.vm.relate(ArraysApart, inputs[0].source, tuple(described.source for described in inputs), of_array)


@contextlib.contextmanager
def keeping_dispatch_keys() -> Iterator[None]:
    """Whatever fails in its scope, the thread's dispatch keys are the same behind it.

    Frames that an error keeps may hold guards of torch's, which set the keys when they go: they have to go in here.
    """
    with torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()):
        try:
            yield
        except FailedOnFakes as failed:
            error: BaseException | None = failed.error
            while error is not None:
                error.__traceback__ = None
                error = error.__cause__ or error.__context__
            gc.collect()
            raise


def without_symbols(spec: TensorSpec, fake: torch.Tensor) -> TensorSpec:
    """What is left to be compared of a tensor whose fake has symbolic sizes and strides: those are None."""
    assert spec.sizes is not None
    sizes = tuple(None if type(sym) is torch.SymInt else size for size, sym in zip(spec.sizes, fake.size()))
    strides = None if spec.strides is None else tuple(None if type(sym) is torch.SymInt else stride for stride, sym in zip(spec.strides, fake.stride()))
    return replace(spec, sizes=sizes, strides=strides)


def with_items(container: Any, items: list[Object]) -> Any:
    """A container like the one that an operator gave, of Objects; for `VM.from_real`."""
    if isinstance(container, torch.Size):
        return SizeObject(items, torch.Size)
    return items if isinstance(container, list) else TupleObject(items, type(container))


def module_with(modules: dict[str, fx.GraphModule]) -> torch.nn.Module:
    """A module that holds inner graphs by their names."""
    holder = torch.nn.Module()
    for name, module in modules.items():
        holder.add_module(name, module)
    return holder


def unneeded(nodes: Iterable[fx.Node], outputs: Sequence[fx.Node], is_wanted: Callable[[fx.Node], bool]) -> list[fx.Node]:
    """The nodes among `nodes` (last first) that are wanted and that neither the outputs nor other wanted nodes are computed from, first to last."""
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


def is_computed(value: Any) -> bool:
    """Whether a value is a tensor that is no view of another."""
    return isinstance(value, torch.Tensor) and not value._is_view()


def has_unbacked(value: Any) -> bool:
    """Whether a result is a tuple or list with a number in it that depends on data."""
    return isinstance(value, (tuple, list)) and any(map(is_unbacked, value))


def is_made_of_constants(value: Any) -> bool:
    """Whether a result is an immutable value, or a tuple, list or dict of such. An object of another class may hold fakes."""
    if isinstance(value, (tuple, list, set, frozenset)):
        return all(map(is_made_of_constants, value))
    if type(value) is dict:
        return all(map(is_made_of_constants, value)) and all(map(is_made_of_constants, value.values()))
    cls = type(value)
    return cls in EXACT or cls in CONST_BUILDERS or isinstance(value, enum.Enum) or wrapper_for(cls).by_identity
