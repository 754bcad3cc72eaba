"""`GraphBuilder`, which builds the FX graphs of one trace: each operator runs on fake tensors as it is traced, and becomes a node if its result needs one.

Operators run at once and are never traced again: `call` runs the operator under the fake mode, wraps its result, and adds a node only if the result is a
tensor or something is changed. Everything is undone through the trail.

Graphs under construction form a stack (body.py): operators go into the innermost. Inputs are placeholders of the outermost; an inner graph gets
a placeholder for each node of an outer graph that it uses.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, NoReturn, Protocol

import torch
from torch import fx
from torch._ops import HigherOrderOperator
from torch.fx._lazy_graph_module import _LazyGraphModule

from framejit import breaks
from framejit.graph.autograd_node import AutogradNode
from framejit.graph.body import Body, NodeNote, Transforming
from framejit.graph.call_data import CallData
from framejit.graph.check_order import changes_result_only, checks_after_changes, runs_for_its_effect
from framejit.graph.demands import Demands
from framejit.graph.fake import is_declared, is_of_others, storages, version_of
from framejit.graph.fake_constants import constants_among, forget, forget_outdated
from framejit.graph.fakes import Writes
from framejit.graph.finished import GraphResult, check_moved, computed_by, is_computed, module_with, unneeded
from framejit.graph.graph_inputs import GraphInputs
from framejit.graph.inner import InnerGraph
from framejit.graph.joined import JoinedTensors
from framejit.graph.known_data import KnownData
from framejit.graph.metadata import CHANGES, USER_PLACES
from framejit.graph.on_fakes import FailedOnFakes, keeping_dispatch_keys, run_on_fakes
from framejit.graph.operator_call import OperatorCall, Phase, run_rules
from framejit.graph.optional_records import OptionalRecords
from framejit.graph.prune import fake_of, has_effect, has_tensor, prune
from framejit.graph.put_back import can_be_put_back
from framejit.graph.results import Results, has_unbacked
from framejit.graph.rewrites import rewrite_where_differentiated
from framejit.graph.running import RunningTrace
from framejit.graph.shapes import Shapes
from framejit.graph.spelling import make_spellable
from framejit.graph.statistics import changing
from framejit.graph.trace_state import EMPTY, TraceState
from framejit.graph.unbacked import Unbacked, is_unbacked
from framejit.graph.wrappers import Wrappers
from framejit.graph.written import WRITTEN_INSIDE, arguments_of, written_inside
from framejit.guards.dynamic import STATIC, Dynamic
from framejit.guards.source import Source
from framejit.objects.core.object import Object
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.process import interrupts
from framejit.process.when_needed import when_needed
from framejit.quick_dataclass import dataclass
from framejit.torch_state.operator_facts import is_in_place
from framejit.torch_state.torch_modes import MODE_CHANGES

shape_env = when_needed("framejit.graph.shape_env")

OF_THE_PROGRAM = ("stack_trace", USER_PLACES, "nn_module_stack")
"""The keys of the metadata that says where the program has called a node's operator."""
FEW_NODES = 8
"""In a graph with fewer nodes, layers hardly repeat, so results of its operators aren't noted for reuse."""


@dataclass(frozen=True, slots=True)
class LaterReader:
    """Code of the program that autograd runs later, in a backward pass, and that the trace has already run; `mark` is the trail's position after that.

    `reached`: the values that it may read. `reads_outside`: it reads values from outside the trace that a program may change at any time. `place`: the
    instruction that is left to native code, for this `reason`, if a value that it reads has changed by then, or may have. `of`: a tensor's node, if all this
    matters only when that tensor leaves the graph.
    """

    mark: int
    reached: Any
    reads_outside: bool
    place: tuple[CodeType, int]
    reason: breaks.Break
    of: fx.Node | None = None


class TorchVM(RunningTrace, Protocol):
    """The running trace as the models of torch's functions see it."""

    @property
    def graph(self) -> GraphBuilder:
        """The graphs of the trace."""


class GraphBuilder(TraceState):
    """Builds the graphs of one trace; see the module's docstring. `moved` and `twins` record changes to `data` and `requires_grad` of inputs."""

    vm: TorchVM

    def __init__(
        self,
        vm: TorchVM,
        dynamic: Dynamic = STATIC,
        demands: Demands = Demands(),
    ) -> None:
        super().__init__(vm, dynamic, demands)
        self.shapes = self.part(Shapes)
        self.unbacked = self.part(Unbacked)
        self.wrappers = self.part(Wrappers)
        self.inputs = self.part(GraphInputs)
        self.call_data = self.part(CallData)
        self.results = self.part(Results)
        self.known = self.part(KnownData)
        self.autograd_node = self.part(AutogradNode) if demands.one_autograd_node else None
        self.readers: tuple[LaterReader, ...] = ()
        self.regions: dict[str, fx.GraphModule] = {}
        """One inner graph for all those that compute the same, by `InnerGraph.pattern`."""
        self.traced_regions: dict[Any, list[Any]] = {}
        """Regions that have been traced, by the properties that a repetition of them must share; see library/torch/control_flow/repeated_regions.py."""
        self.copies_calls = True
        """True if calls of modules may be copied from calls like them."""
        self.module_calls: dict[Any, tuple[Any, ...]] = {}
        """Calls of modules that have been traced, by the properties that a call must share to be like one of them; see library/torch/nn/repeated_modules.py."""
        self.moved: list[tuple[fx.Node, tuple[CodeType, int], str]] = []
        """Nodes for tensors from outside after the program has stored to an attribute of them, each with the instruction and the attribute's name."""
        self.twins: dict[TensorObject, tuple[fx.Node, fx.Node]] = {}
        """The nodes for a tensor from outside whose `requires_grad` the program has changed: one that requires a gradient and one that doesn't."""

    def input(self, source: Source, tensor: torch.Tensor) -> TensorObject:
        """The Object of a real tensor; one placeholder for each tensor, however many paths lead to it. Guards its metadata."""
        return self.inputs.of_tensor(source, tensor)

    def number_node(self, function: Callable[..., Any], operands: Sequence[Object], sym: Any) -> fx.Node:
        """Make the node of arithmetic on symbolic numbers, and note the line of the program for which it asked the ShapeEnv something."""
        made = super().number_node(function, operands, sym)
        self.shapes.note_lines()
        return made

    def size(self, obj: TensorObject, dim: int) -> Object:
        """A size of a tensor as a number of the program."""
        size = obj.look(self.vm).shape[dim]
        if is_unbacked(size):
            return self.unbacked.known(size) or self.call("call_method", "size", [obj, self.vm.const(dim)], EMPTY)
        return self.shapes.number(size) if type(size) is torch.SymInt else self.vm.const(size)

    # Inner graphs, which an operator takes as arguments.

    def begin_inner(
        self,
        items_by_index: bool = False,
        takes_floats: bool = True,
        takes_numbers: bool = False,
        transform: Transforming | None = None,
        is_backward: bool = False,
        takes_sizes: bool = False,
    ) -> None:
        """Begin an inner graph, into which operators go until `end_inner`. The arguments are those of Body."""
        self.has_inner = True
        self.trail.set(self, "body", Body(self.trail, self.body, items_by_index, takes_floats, takes_numbers, transform, is_backward, takes_sizes))

    def inner_argument(
        self, name: str, make: Callable[[], torch.Tensor], of: fx.Node | None = None, cls: type = torch.Tensor
    ) -> TensorObject:
        """The value that the operator running the innermost graph makes from one of its arguments, `of` this node. `make` makes its fake."""

        def made() -> torch.Tensor:
            with torch.no_grad(), self.fakes.running():
                return make()

        self.refresh()
        node = self.body.argument(name, made, of)
        obj = TensorObject(node, cls)
        self.fakes.belongs_to(node.meta["example_value"], obj)
        return obj

    def reject_transformed(self, what: str) -> None:
        """Stop the trace at an operation that has another meaning if the whole call is inside one of the program's transforms."""
        if self.outermost.transform is not None:
            self.vm.unsupported(breaks.InsideTransform(self.outermost.transform.name, f"and {what} inside of it"))

    def check_identity(self, *objects: Object) -> None:
        """The program asks whether a tensor is the same as another. Restarts the trace if the graph has a copy of it instead."""
        if self.has_joined:
            self.part(JoinedTensors).check_kept_apart([obj.node for obj in objects if isinstance(obj, TensorObject)])

    def check_record(self, obj: TensorObject) -> None:
        """Stop the trace if the program asks for a tensor's autograd record inside a transform, where the fake's record may be incomplete, or where it depends
        on data whether there is one."""
        body: Body | None = self.body
        while body is not None and body.fx is not obj.node.graph:
            body = body.outer
        around = self.transform_around()
        if around is not None and body is not None and (obj.node.op != "placeholder" or body.leaves_transform) and body.hides_records():
            self.vm.unsupported(breaks.InsideTransform(around, "of a function that asks what autograd knows of a tensor"))
        self.part(OptionalRecords).check_asked(obj)

    def forget_inside(self) -> None:
        """Forget what fakes from around the innermost graph know from its operators, which may not run: the numbers that they have given, and the data of
        small constants that have been written to."""
        body = self.body
        fakes = [fake for node in body.lifted if isinstance(fake := node.meta["example_value"], torch.Tensor)]
        if body.numbers():
            self.unbacked.forget_inside(fakes)
        if body.kept:
            forget(constants_among(self.fakes.sharing_memory(fakes)))

    def end_inner(self, outputs: Sequence[Object]) -> InnerGraph:
        """End the inner graph with these values as outputs. Raises NotConstant if one of them can't be an output of a graph."""
        body = self.body
        assert body.outer is not None
        end = body.fx.output(tuple([self.argument(output) for output in outputs]))
        self.trail.learned(body, body.fx.erase_node, end)
        self.trail.set(self, "body", body.outer)
        switches_modes = any(node.target in MODE_CHANGES for node in body.kept)
        return InnerGraph(body.fx, tuple(body.lifted), module_with(body.modules), switches_modes, frozenset(body.kept))

    def attach(self, inner: InnerGraph, meta: dict[str, Any]) -> fx.Node:
        """A node for a finished inner graph with this metadata, to be passed to the operator that runs the graph."""
        module = self.module_of(inner)
        module.meta.update(meta)
        return self.body.attach(module)

    def module_of(self, inner: InnerGraph) -> fx.GraphModule:
        """The module that runs a finished inner graph."""
        make_spellable(inner.graph, self.is_one_autograd_node)
        return fx.GraphModule(inner.modules, inner.graph)

    def call_inner(self, target: Callable[..., Any], inner: InnerGraph, meta: dict[str, Any], kwargs: dict[str, Any]) -> Object:
        """Run `target(graph, *operands, **kwargs)` with a finished inner graph that changes none of its operands. `meta`: added to the graph's `meta`."""
        return self.call_on_nodes(target, (self.attach(inner, meta), *inner.operands), kwargs)

    def call_on_nodes(self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] = EMPTY) -> Object:
        """Run an operator on nodes of the innermost graph."""
        return self.result_of(self.node_of(target, args, kwargs))

    def result_of(self, node: fx.Node) -> Object:
        """The Object of a node's result."""
        return self.results.wrap(node.meta["example_value"], node, node.name)

    # Operators.

    def call(self, op: str, target: Callable[..., Any] | str, args: Sequence[Object], kwargs: dict[str, Object]) -> Object:
        """Run `target(*args, **kwargs)`, or the method of that name of the first argument, in the graph; `objects/tensors/torchcall.py` decides what is run.

        Raises NotConstant if an argument can't be an argument of a node.
        """
        interrupts.heed()

        def arguments() -> tuple[tuple[Any, ...], dict[str, Any]]:
            return self.nodes_of(args), {name: self.argument(arg) for name, arg in kwargs.items()} if kwargs else EMPTY

        place = self.vm.place()
        operation = self._performed(op, target, arguments)
        result = operation.result
        if is_unbacked(result):
            number = self.unbacked.known(result)
            if number is not None:
                return number
        elif not operation.changes:
            if isinstance(result, torch.Tensor):
                known = self.object_of(result)
                if known is not None:
                    return known
            elif result is not None and not has_tensor(result) and not has_unbacked(result):
                return self.results.constant(result, operation.name)
        return self.results.wrap(result, self._enter(operation, place), operation.name)

    def node_of(self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] = EMPTY, raises: bool = True) -> fx.Node:
        """A node that runs an operator on nodes of the innermost graph; its result may be anything.

        `raises`: an error on fakes means that the operator raises. That isn't so for transforms, which also leave the thread's dispatch keys changed when they
        raise.
        """
        place = self.vm.place()
        return self._enter(self._performed("call_function", target, lambda: (args, kwargs), True, raises), place)

    def repeated(self, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any], note: NodeNote) -> fx.Node:
        """A node of the innermost graph that runs the operator of a node of another graph, with these arguments. `note`: that of the other node."""
        given: Any = fake_of(args[0]) if args else None
        if node.target is operator.getitem and not isinstance(given, torch.Tensor):
            made = self.item_node(args[0], args[1], given[args[1]])
        else:
            made = self._enter(self._performed(node.op, node.target, lambda: (args, kwargs), True), note.instruction)
        made.meta.update({key: node.meta[key] for key in OF_THE_PROGRAM if key in node.meta})
        self.body.notes[made] = note
        if isinstance(made.meta["example_value"], torch.Tensor) or is_unbacked(made.meta["example_value"]):
            self.result_of(made)
        return made

    def _performed(
        self,
        op: str,
        target: Callable[..., Any] | str,
        arguments: Callable[[], tuple[tuple[Any, ...], dict[str, Any]]],
        is_fixed: bool = False,
        raises: bool = True,
    ) -> OperatorCall:
        """Run an operator on fakes, with all rules. `arguments` makes the arguments of its node; `is_fixed`: see OperatorCall; `raises`: see `node_of`."""
        while True:
            operation = self._operator_call(op, target, *arguments(), is_fixed)
            run_rules(Phase.REPLACE, self, operation)
            name, fakes, given = operation.name, operation.fakes, (operation.fake_args, operation.fake_kwargs)
            run_rules(Phase.REFUSE, self, operation)
            takes_graphs = bool(operation.inner_graphs)  # which were traced: nothing is assumed about numbers in them that isn't checked there
            if takes_graphs or isinstance(operation.target, HigherOrderOperator) or is_of_others(operation.target):
                self.fakes.symbols()  # its own code may ask whether the trace has a ShapeEnv
            if not takes_graphs:
                self.unbacked.before(name, fakes, [arg for arg in (*given[0], *given[1].values()) if not self.shapes.is_free_float(arg)])
            try:
                with contextlib.nullcontext() if raises else keeping_dispatch_keys():
                    self._run(operation)
            except FailedOnFakes as failed:
                if self._may_try_again(operation, failed.error):
                    self.fakes.stale = True
                    continue
                self._refuse_failed(operation, failed.error, raises)
            if not takes_graphs and self.unbacked.differs_now(name, operation.result, fakes):
                self.fakes.stale = True
                continue
            run_rules(Phase.CHECK, self, operation)
            if operation.changes:
                run_rules(Phase.CHECK_CHANGE, self, operation)
            self.shapes.note_lines()
            if takes_graphs:
                self.unbacked.forget_inside(fakes)
            else:
                operation.bindings = self.unbacked.after(name, operation.result, fakes, operation.changes)
            operation.changes = operation.changes or is_declared(operation.target)
            return operation

    def _refuse_failed(self, operation: OperatorCall, error: Exception, raises: bool) -> NoReturn:
        """Stop the trace at an operator that has raised an error on fakes. `raises`: see `node_of`."""
        reason = self.unbacked.failed(error, operation.name, (operation.fake_args, operation.fake_kwargs), operation.target)
        if not raises:
            reason = breaks.InsideTransform(f"torch.func.{operation.name}", f"that raises on tensors without data: {error}".partition("\n")[0])
        self.vm.unsupported(reason)

    def _operator_call(self, op: str, target: Callable[..., Any] | str, args: tuple[Any, ...], kwargs: dict[str, Any], is_fixed: bool) -> OperatorCall:
        """An operator with its arguments, as nodes and as fakes."""
        self.refresh()
        fakes: list[torch.Tensor] = []
        fake_args = tuple([fake_of(arg, fakes) for arg in args])
        fake_kwargs = {name: fake_of(arg, fakes) for name, arg in kwargs.items()} if kwargs else EMPTY
        name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
        return OperatorCall(op, target, name, args, kwargs, fake_args, fake_kwargs, fakes, is_fixed)

    def _may_try_again(self, operation: OperatorCall, error: Exception) -> bool:
        """Return whether an operator that has failed on fakes may succeed now: because the trace now has symbols, for a result that depends on data, or because
        it now depends on the values of numbers that the operator needs."""
        if self.fakes.shape_env is None:
            self.fakes.symbols()
            return True
        if operation.is_fixed:
            return False
        if self.shapes.rest_on_floats((*operation.args, *operation.kwargs.values())):
            return True
        return self.unbacked.settles(error, operation.fakes, (operation.fake_args, operation.fake_kwargs))

    def _run(self, operation: OperatorCall) -> None:
        """Run an operator on fakes, and find out whether it changes one of them. Raises FailedOnFakes."""
        target, args, kwargs, fakes = operation.target, operation.fake_args, operation.fake_kwargs, operation.fakes
        operation.changes = is_in_place(operation.name) or kwargs.get("out") is not None or changing(target, args, kwargs) is not None
        operation.versions = before = [version_of(fake) for fake in fakes]
        constants = constants_among(fakes)
        if operation.changes:
            self.fakes.changes_with_undoing()
        run_rules(Phase.REMEMBER, self, operation)
        repeats = self.fakes.repeats
        worth_noting = len(self.outermost.notes) >= FEW_NODES and not self.fakes.wrappers
        may_repeat = worth_noting and not operation.changes and fakes and -1 not in before
        key = repeats.key(target, args, kwargs, self.modes.current) if may_repeat else None
        operation.result = None if key is None else repeats.find(key, fakes)
        is_repeated = operation.result is not None
        writes = Writes(fakes) if -1 in before else contextlib.nullcontext()
        if not is_repeated:
            try:
                with self.fakes.running(), writes:
                    operation.result = (
                        getattr(args[0], operation.name)(*args[1:], **kwargs) if operation.op == "call_method" else run_on_fakes(target, args, kwargs)
                    )
            except Exception as error:
                raise FailedOnFakes(error) from None
        operation.has_forgotten = forget_outdated(constants, runs_inner_graph=bool(operation.inner_graphs))
        if not operation.changes and (before != [version_of(fake) for fake in fakes] or (isinstance(writes, Writes) and writes.seen)):
            operation.changes = True
            self.fakes.changes_with_undoing()
        if key is not None and not is_repeated and not operation.changes:
            repeats.note(key, operation.result, fakes)

    def _enter(self, operation: OperatorCall, place: tuple[CodeType, int] | None) -> fx.Node:
        """Make the node of an operation. `place`: the program's instruction that makes it."""
        node = operation.node = self.make_node(operation.op, operation.target, operation.args, operation.kwargs, operation.result, place)
        self.unbacked.bind(node, operation.bindings)
        written = written_inside(node) if operation.inner_graphs else None
        if written:
            node.meta[WRITTEN_INSIDE] = written
        if operation.changes or written:
            self.body.keep(node)
            changed = {*map(id, written_fakes(operation))} if operation.changes else set()
            node.meta[CHANGES] = tuple([used for used, fake in arguments_of(node) if used in (written or ()) or id(fake) in changed])
        run_rules(Phase.NODE, self, operation)
        return node

    def runs_later(
        self,
        reached: Any,
        reads_outside: bool,
        reason: breaks.Break,
        of: fx.Node | None = None,
        place: tuple[CodeType, int] | None = None,
    ) -> LaterReader:
        """Note that the trace has run code that autograd runs later, or has left it to a backward pass in the graph. `place`: see LaterReader; by default, the
        current instruction."""
        reader = LaterReader(self.trail.mark(), reached, reads_outside, place or self.vm.place(), reason, of)
        self.trail.set(self, "readers", (*self.readers, reader))
        return reader

    def is_empty(self) -> bool:
        """Return whether the graph has neither an input nor an operator."""
        return not self.known_inputs and not self.outermost.notes

    def counts_of_records(self, outputs: Sequence[object]) -> list[fx.Node]:
        """The nodes whose results say which optional records there are, for a graph that autograd sees as one node, besides these outputs."""
        return [node for node in self.part(OptionalRecords).counts() if node not in outputs] if self.is_one_autograd_node else []

    def has_operators(self) -> bool:
        """Return whether the outermost graph has any node besides inputs."""
        return bool(self.outermost.notes)

    # The end.

    def finish(self, outputs: Sequence[fx.Node], debug: bool = False) -> GraphResult:
        """Close the outermost graph: the given nodes become its outputs; what nothing needs is removed, including unused inputs.

        Nodes that change something, draw random numbers or have no result stay. `debug` checks the graph with `lint`.
        """
        self.refresh()
        if self.is_one_autograd_node:
            self.part(OptionalRecords).refresh()  # which results lead to which inputs is read from the fakes' record
        body = self.body
        assert body is self.outermost
        graph, kept, notes = body.fx, body.kept, body.notes
        if self.autograd_node is not None and (self.autograd_node.asks or self.autograd_node.differentiated_twice):
            rewrite_where_differentiated(graph.nodes)
        with self.fakes.running():  # autograd makes zeros for a gradient that nothing computes
            check_moved(self, self.moved, outputs)
            spent = {} if self.autograd_node is None else self.autograd_node.spent_outputs(outputs)
        self.part(JoinedTensors).check_leaving(outputs)
        mutated = self.fakes.changed_inputs(kept)
        self.part(OptionalRecords).check_leaving([*outputs, *mutated], self.autograd_node is not None and self.autograd_node.has_more_paths(notes))
        self.known.check_unchanged(self.fakes.changed_inputs(kept))
        graph.output(tuple([self._detached(node) if index in spent else node for index, node in enumerate(outputs)]))
        prune(graph, kept, self.fakes.running)
        self.unbacked.finish()
        inputs = self.inputs.used()
        self.inputs.guard_aliasing(inputs, mutated, self.known.rested_on() | self.call_data.read)
        self.inputs.guard_bases(inputs, outputs)
        if debug:
            graph.lint()
        make_spellable(graph, self.is_one_autograd_node)
        gm = _LazyGraphModule(module_with(body.modules), graph)  # its code is generated in the form that the backend wants, or never
        has_effects = any(node in kept for node in graph.nodes)
        indices = tuple(i for i, described in enumerate(inputs) if described.node in mutated)
        place = next((notes[node].place for node in graph.nodes if node in notes), None)
        acting = [node for node in graph.nodes if node in kept]
        put_back = indices if indices and can_be_put_back([inputs[index] for index in indices], acting) else ()
        repeatable = bool(put_back or not indices) and not any(map(runs_for_its_effect, acting))
        late = tuple(checks_after_changes(graph, kept, storages(self.input_fakes()), self.demands)) if kept else ()
        draws = self.fakes.may_have_drawn(graph)
        return GraphResult(gm, tuple(inputs), indices, has_effects, repeatable, late, self.modes.initial, place, spent, draws, body.copies, put_back)

    @property
    def is_finished(self) -> bool:
        """Return whether the outermost graph is closed."""
        return any(node.op == "output" for node in self.outermost.fx.nodes)

    def _without_gradients(self, nodes: list[fx.Node]) -> list[fx.Node]:
        """Nodes detached, to be outputs that nobody sees: else AOTAutograd would give leaves that only they depend on a gradient of zeros instead of None."""
        return [self._detached(node) if node.meta["example_value"].requires_grad else node for node in nodes]

    def _detached(self, output: fx.Node) -> fx.Node:
        """A node for a detached output."""
        node = self.outermost.add("call_method", "detach", (output,), EMPTY, self.outermost.notes[output])
        node.meta["example_value"] = output.meta["example_value"].detach()
        return node

    def unused_under_handlers(self, outputs: Sequence[fx.Node]) -> list[fx.Node]:
        """Nodes of unused tensors that are computed under a handler of the program: it may only want to know whether the computation raises."""
        body = self.outermost
        handled = [node for node, note in body.notes.items() if note.handled]
        unused = unneeded(reversed(handled), (*outputs, *body.kept), lambda node: is_computed(node.meta["example_value"]))
        return self._without_gradients(unused)

    def unused_draws(self, outputs: Sequence[fx.Node]) -> list[fx.Node]:
        """Nodes of unused random numbers: AOTAutograd would not draw them, and later draws would give different numbers."""
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
            shape_env.forget_shape_envs()
        self.shapes.dispose()
        self.__dict__.clear()


def written_fakes(operation: OperatorCall) -> list[torch.Tensor]:
    """The fakes that an operator which changes something may have changed: those whose version has changed, or that have none. If there are none, the first of
    its arguments, unless it is a normalisation that changes running statistics; all for an operator that runs a kernel or a graph."""
    if isinstance(operation.target, HigherOrderOperator):
        return operation.fakes
    fakes = [fake for fake, version in zip(operation.fakes, operation.versions) if version_of(fake) != version or version < 0]
    return fakes if fakes or changing(operation.target, operation.args, operation.kwargs) else operation.fakes[:1]
