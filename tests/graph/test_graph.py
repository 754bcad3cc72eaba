"""The graph builder alone, under a stub of the tracer: nodes, fakes, undoing, mutation, pruning, modes."""

from __future__ import annotations

import operator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import fx

from framejit import breaks, library
from framejit.graph.builder import GraphBuilder
from framejit.graph.finished import GraphResult
from framejit.graph.global_modes import Modes
from framejit.guards.kinds import Guard, TensorMatch
from framejit.guards.relations import Same, StorageAliasing
from framejit.guards.source import Item, Pinned, Root
from framejit.objects.core import build
from framejit.objects.core.object import LazyObject, NotConstant, Object
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchfunctions import operation_of
from framejit.objects.types.listobject import ListObject
from framejit.torch_state import peer
from framejit.torch_state.operator_exceptions import NOT_IN_GRAPH
from framejit.trail import Trail


class Stopped(Exception):
    def __init__(self, reason: breaks.Break) -> None:
        self.reason = reason


class Stub:
    """As much of a VM as the graph needs."""

    def __init__(self) -> None:
        library.load()
        self.trail = Trail()
        self.root_source = Root()
        self.guards: list[tuple[type[Guard], Any, tuple[Any, ...]]] = []
        self.graph = GraphBuilder(self)  # type: ignore[arg-type]
        self.graph.modes.enter()

    def guard(self, kind: type[Guard], source: Any, *payload: Any) -> None:
        self.guards.append((kind, source, payload))
        self.trail.learned(self, self.guards.pop)

    relate = guard

    def met(self, value: object) -> None:
        return None

    def note_handlers(self) -> bool:
        return False

    def user_line(self) -> None:
        return None

    def place(self) -> Any:
        return None

    def observe(self, obj: Object) -> Object:
        assert type(obj) is not LazyObject
        return obj

    def const(self, value: Any) -> Object:
        return build.const(self, value)  # type: ignore[arg-type]

    from_real = const

    def unsupported(self, reason: breaks.Break) -> Any:
        raise Stopped(reason)

    def user_stack(self) -> list[Any]:
        return [SimpleNamespace(filename="user.py", lineno=3, function="f", line="y = x + 1")]

    def user_places(self) -> tuple[Any, ...]:
        return ((None, 0),)

    def source(self, name: str) -> Any:
        return self.root_source.child(Pinned, GLOBALS).child(Item, name)

    def tensor(self, name: str, value: torch.Tensor) -> TensorObject:
        return self.graph.input(self.source(name), value)

    def call(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        return self.graph.call("call_function", function, self._objects(args), {k: self._objects([v])[0] for k, v in kwargs.items()})

    def method(self, name: str, receiver: TensorObject, *args: Any) -> Any:
        return self.graph.call("call_method", name, [receiver, *self._objects(args)], {})

    def _objects(self, args: Any) -> list[Object]:
        return [arg if isinstance(arg, Object) else self.const(arg) for arg in args]

    def finish(self, *outputs: TensorObject) -> GraphResult:
        result = self.graph.finish([output.node for output in outputs], debug=True)
        self.graph.modes.restore()
        return result


GLOBALS: dict[str, Any] = {"__name__": "test"}


@pytest.fixture
def vm() -> Any:
    before = Modes.read()
    stub = Stub()
    yield stub
    stub.graph.modes.restore()
    assert Modes.read() == before


def targets(result: GraphResult) -> list[Any]:
    return [node.target for node in result.gm.graph.nodes if node.op.startswith("call")]


def run(result: GraphResult, *args: torch.Tensor) -> Any:
    return result.gm(*args)


def test_operators_become_nodes_with_metadata(vm: Stub) -> None:
    x = vm.tensor("x", torch.randn(3, 4))
    y = vm.call(operator.add, x, 1)
    z = vm.method("sum", y, 0)
    result = vm.finish(z)
    assert [node.name for node in result.gm.graph.nodes] == ["x", "add", "sum_1", "output"]
    node = next(node for node in result.gm.graph.nodes if node.name == "add")
    assert node.meta["example_value"].shape == (3, 4)
    assert 'File "user.py", line 3, in f' in node.stack_trace
    assert node.meta["source_fn_stack"] == [("add", operator.add)]
    value = torch.randn(3, 4)
    torch.testing.assert_close(run(result, value)[0], (value + 1).sum(0))
    assert [kind for kind, *_ in vm.guards] == [TensorMatch]


def test_one_tensor_by_two_paths_is_one_input(vm: Stub) -> None:
    value = torch.randn(2)
    a, b = vm.tensor("a", value), vm.tensor("b", value)
    assert a is b
    assert (Same, vm.source("b"), (vm.source("a"),)) in vm.guards
    assert len(vm.finish(vm.call(torch.add, a, b)).inputs) == 1


def test_unused_inputs_and_pure_nodes_go(vm: Stub) -> None:
    x, y = vm.tensor("x", torch.randn(2)), vm.tensor("y", torch.randn(2))
    vm.call(torch.mul, y, vm.call(torch.sin, y))
    result = vm.finish(vm.call(torch.neg, x))
    assert [found.name for found in result.inputs] == ["x"]
    assert targets(result) == [torch.neg]
    assert not result.has_effects


def test_random_and_in_place_nodes_stay(vm: Stub) -> None:
    x = vm.tensor("x", torch.randn(2))
    vm.call(torch.rand, 3)
    vm.call(torch.nn.functional.dropout, x, 0.5)
    vm.call(torch.nn.functional.dropout, x, 0.5, training=False)
    vm.method("add_", x, 1)
    result = vm.finish()
    assert targets(result) == [torch.rand, torch.nn.functional.dropout, "add_"]
    assert result.mutated == (0,)
    assert result.has_effects
    assert any(kind is StorageAliasing for kind, *_ in vm.guards)


def test_in_place_result_is_the_same_object(vm: Stub) -> None:
    x = vm.tensor("x", torch.randn(2))
    assert vm.method("add_", x, 1) is x
    assert vm.call(operator.iadd, x, 1) is x
    assert vm.method("contiguous", x) is x
    assert targets(vm.finish(x)) == ["add_", operator.iadd]


def test_changes_through_a_view_count_as_the_inputs(vm: Stub) -> None:
    x = vm.tensor("x", torch.zeros(4))
    vm.method("fill_", vm.call(operator.getitem, x, 0), 1)
    result = vm.finish()
    assert result.mutated == (0,)
    value = torch.zeros(4)
    run(result, value)
    assert value.tolist() == [1, 0, 0, 0]


def test_constants_leave_no_node(vm: Stub) -> None:
    x = vm.tensor("x", torch.randn(2, 3))
    assert vm.method("size", x, 1).constant(vm) == 3
    size = vm.method("size", x)
    assert size.cls is torch.Size and size.constant(vm) == torch.Size([2, 3])
    assert vm.method("is_floating_point", x).constant(vm) is True
    assert vm.finish().is_empty


def test_tuples_lists_and_named_results(vm: Stub) -> None:
    x = vm.tensor("x", torch.randn(4, 2))
    parts = vm.method("split", x, 2)
    assert parts.cls is tuple and len(parts.elements) == 2
    top = vm.method("max", x, 0)
    assert top.cls is torch.return_types.max
    a, b = parts.elements
    values, indices = top.elements
    result = vm.finish(a, b, values, indices)
    value = torch.randn(4, 2)
    expected = [*value.split(2), *value.max(0)]
    for found, wanted in zip(run(result, value), expected, strict=True):
        torch.testing.assert_close(found, wanted)


def test_undoing_takes_nodes_inputs_and_guards_back(vm: Stub) -> None:
    x = vm.tensor("x", torch.randn(2))
    y = vm.call(torch.sin, x)
    mark = vm.trail.mark()
    z = vm.tensor("z", torch.randn(2))
    vm.call(torch.add, y, z)
    vm.trail.undo_to(mark)
    assert [node.op for node in vm.graph.body.fx.nodes] == ["placeholder", "call_function"]
    assert len(vm.guards) == 1
    again = vm.tensor("w", torch.randn(2))
    assert len(vm.finish(vm.call(torch.add, y, again)).inputs) == 2


def test_undone_in_place_operators_leave_the_fakes_as_they_were(vm: Stub) -> None:
    x = vm.tensor("x", torch.randn(2, 3))
    y = vm.call(torch.sin, x)
    mark = vm.trail.mark()
    vm.method("unsqueeze_", y, 0)
    vm.method("add_", x, 1)
    assert y.fake.shape == (1, 2, 3)
    vm.trail.undo_to(mark)
    z = vm.call(torch.cos, y)
    assert z.fake.shape == y.fake.shape == (2, 3)
    result = vm.finish(z)
    assert result.mutated == ()
    assert targets(result) == [torch.sin, torch.cos]


def test_undoing_under_modes_keeps_gradients_right(vm: Stub) -> None:
    x = vm.tensor("x", torch.randn(2, requires_grad=True))
    vm.graph.modes.set_grad_enabled(False)
    y = vm.call(torch.sin, x)
    vm.graph.modes.set_grad_enabled(True)
    z = vm.call(torch.sin, x)
    mark = vm.trail.mark()
    vm.method("detach_", z)
    vm.graph.modes.set_grad_enabled(False)
    vm.trail.undo_to(mark)
    assert torch.is_grad_enabled()
    w = vm.call(torch.add, y, z)
    assert (y.fake.requires_grad, z.fake.requires_grad, w.fake.requires_grad) == (False, True, True)
    assert targets(vm.finish(w)) == [torch._C._set_grad_enabled, torch.sin, torch._C._set_grad_enabled, torch.sin, torch.add]


def test_idle_grad_switches_go(vm: Stub) -> None:
    x = vm.tensor("x", torch.randn(2))
    vm.graph.modes.set_grad_enabled(False)
    vm.graph.modes.set_grad_enabled(True)
    y = vm.call(torch.sin, x)
    vm.graph.modes.set_grad_enabled(False)
    [difference] = vm.graph.modes.final_differences(casts_are_cached=True)
    assert not difference.arguments[0].grad
    assert targets(vm.finish(y)) == [torch.sin]


def test_failing_operators_break_with_their_reason(vm: Stub) -> None:
    x = vm.tensor("x", torch.randn(2, 3))
    for call, kind in (
        (lambda: vm.call(torch.matmul, x, x), breaks.OperatorRaises),
        (lambda: vm.method("nonzero", x), breaks.DataDependent),
        (lambda: vm.call(operator.add, x, None), breaks.OperatorRaises),
    ):
        with pytest.raises(Stopped) as stopped:
            call()
        assert type(stopped.value.reason) is kind


def test_foreign_tensors_are_refused(vm: Stub) -> None:
    for value in (torch.quantize_per_tensor(torch.eye(2), 0.1, 0, torch.qint8), torch.nn.UninitializedParameter()):
        with pytest.raises(Stopped):
            vm.tensor("x", value)
    parameter = torch.nn.Parameter(torch.randn(2))
    obj = vm.tensor("p", parameter)
    assert obj.cls is torch.nn.Parameter and obj.fake.requires_grad


def test_tracing_draws_no_random_numbers(vm: Stub) -> None:
    before = torch.get_rng_state()
    vm.call(torch.nn.functional.dropout, vm.call(torch.randn, 3), 0.5)
    vm.finish()
    assert torch.equal(before, torch.get_rng_state())


def test_graph_runs_in_inference_mode(vm: Stub) -> None:
    x = vm.tensor("x", torch.randn(2, requires_grad=True))
    owner, ordinary = Object(object), torch.randn(2)
    vm.graph.modes.enter_inference_mode(True, owner)
    y = vm.call(torch.sin, x)
    late = vm.tensor("late", ordinary)
    assert y.fake.is_inference() and not late.fake.is_inference()
    vm.method("add_", y, late)
    assert not vm.graph.modes.exit_scope(Object(object))
    assert vm.graph.modes.exit_scope(owner)
    result = vm.finish(y)
    assert run(result, torch.ones(2), torch.ones(2))[0].is_inference()


def test_autocast_scopes(vm: Stub) -> None:
    x = vm.tensor("x", torch.randn(2, 2))
    owner = Object(object)
    vm.graph.modes.enter_autocast("cpu", torch.bfloat16, True, True, owner)
    mark = vm.trail.mark()
    y = vm.call(torch.mm, x, x)
    vm.graph.modes.exit_scope(owner)
    assert not torch.is_autocast_enabled("cpu")
    vm.trail.undo_to(mark)
    assert torch.is_autocast_enabled("cpu")
    y = vm.call(torch.mm, x, x)
    vm.graph.modes.exit_scope(owner)
    assert y.fake.dtype == torch.bfloat16
    assert run(vm.finish(y), torch.ones(2, 2))[0].dtype == torch.bfloat16


def unhidden(function: Any) -> Any:
    """The function that another one, of torch's own tracer, hides, or the function itself."""
    return peer.hidden_by(function) if peer.hides(function) else function


def test_overridable_functions_are_known() -> None:
    """Every public function that torch says may be overridden is a node, a method, or on the list of exceptions."""
    inlined = {"autocast", "lobpcg", "pca_lowrank", "svd_lowrank"}
    ignored = set(map(unhidden, torch.overrides.get_ignored_functions()))
    unknown = []
    for namespace, functions in torch.overrides.get_overridable_functions().items():
        for function in map(unhidden, functions):
            name = getattr(function, "__name__", "")
            if function in ignored or not callable(function) or name.startswith(("_", "sym_")) or name in NOT_IN_GRAPH or name in inlined:
                continue
            if operation_of(function) is None:
                unknown.append(f"{getattr(namespace, '__name__', namespace)}.{name}")
    assert sorted(unknown) == []


def test_wrapped_nodes_are_fx(vm: Stub) -> None:
    x = vm.tensor("x", torch.randn(2))
    assert isinstance(x.as_graph_argument(vm), fx.Node)  # type: ignore[arg-type]


# ---- Inner graphs ----


def test_an_inner_graph_takes_what_it_uses_of_the_graphs_around_it(vm: Stub) -> None:
    x, y = vm.tensor("x", torch.randn(3)), vm.tensor("y", torch.randn(3))
    a = vm.call(operator.add, x, 1)
    vm.graph.begin_inner()
    b = vm.call(operator.mul, a, y)
    c = vm.call(torch.stack, ListObject([b, a, b]))
    inner = vm.graph.end_inner([c])
    assert inner.operands == (a.node, y.node)
    gm = fx.GraphModule(inner.modules, inner.graph)
    left, right = torch.randn(3), torch.randn(3)
    torch.testing.assert_close(gm(left, right), (torch.stack([left * right, left, left * right]),))
    d = vm.call(operator.neg, a)
    result = vm.finish(d)
    assert targets(result) == [operator.add, operator.neg]


def test_what_two_inner_graphs_use_is_lifted_through_both(vm: Stub) -> None:
    x = vm.tensor("x", torch.randn(3))
    a = vm.call(operator.add, x, 1)
    vm.graph.begin_inner()
    vm.graph.begin_inner()
    innermost = vm.graph.end_inner([vm.call(operator.mul, a, a)])
    between = vm.graph.end_inner([vm.call(operator.neg, a)])
    assert between.operands == (a.node,)
    assert [node.op for node in innermost.graph.nodes] == ["placeholder", "call_function", "output"]
    [standing_for_a] = innermost.operands
    assert standing_for_a.graph is between.graph and standing_for_a.op == "placeholder"


def test_a_tensor_of_an_inner_graph_that_has_ended_is_no_argument(vm: Stub) -> None:
    x = vm.tensor("x", torch.randn(3))
    vm.graph.begin_inner()
    a = vm.call(operator.add, x, 1)
    vm.graph.end_inner([a])
    for argument in (a, ListObject([a])):
        with pytest.raises(NotConstant):
            vm.call(torch.stack if isinstance(argument, ListObject) else operator.neg, argument)


def test_an_inner_graph_can_be_taken_back_and_is_refreshed(vm: Stub) -> None:
    x = vm.tensor("x", torch.randn(2, 3))
    before = vm.trail.mark()
    vm.graph.begin_inner()
    vm.graph.end_inner([vm.call(operator.add, x, 1)])
    vm.trail.undo_to(before)
    assert vm.graph.body is vm.graph.outermost and not vm.graph.has_operators() and len(vm.graph.body.fx.nodes) == 1
    vm.graph.begin_inner()
    a = vm.call(operator.add, x, 1)
    mark = vm.trail.mark()
    vm.method("unsqueeze_", a, 0)
    vm.trail.undo_to(mark)
    vm.graph.refresh()
    assert a.fake.shape == (2, 3) and vm.graph.body.own(x.node).meta["example_value"] is x.fake  # type: ignore[union-attr]


def test_a_finished_inner_graph_runs_as_part_of_the_outer_one(vm: Stub) -> None:
    x = vm.tensor("x", torch.randn(3))
    vm.graph.begin_inner()
    inner = vm.graph.end_inner([vm.call(operator.add, x, 1)])
    module = vm.graph.attach(inner, {})
    y = vm.call(operator.mul, x, 2)
    graph = y.node.graph
    with graph.inserting_before(y.node):
        y.node.args = (graph.call_function(operator.getitem, (graph.call_function(call, (module, x.node)), 0)), 2)
    result = vm.graph.finish([y.node])
    value = torch.randn(3)
    torch.testing.assert_close(result.gm(value)[0], (value + 1) * 2)


def call(function: Any, *args: Any) -> Any:
    return function(*args)
