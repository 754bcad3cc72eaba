"""torch.cond: both branches are inner graphs, one of which runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._higher_order_ops.cond import cond_op
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from framejit.graph.builder import TorchVM
from framejit.library.torch.inner_graphs.inner_function import FunctionGraph, Functions, described
from framejit.objects.core import abstract
from framejit.objects.core.object import Object
from framejit.objects.core.registry import app, models
from framejit.objects.numbers.unbackednumber import UnbackedNumber
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.types.listobject import ListObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.plain import control_flow as plain

NAME = "torch.cond"
CONSTANTS = frozenset({int, float, bool, str, type(None)})
"""Types of a branch's results besides tensors, which must be the same for the other branch."""
NUMBERS = (int, float, torch.SymInt, torch.SymFloat, torch.SymBool)

app(torch.cond, cond_op)(plain.cond)


@models(plain.is_open)
def is_open(vm: TorchVM, pred: Object) -> Object:
    """Return whether a predicate is a tensor, or a bool read from tensors."""
    pred = vm.observe(pred)
    return vm.const(isinstance(pred, TensorObject) or (isinstance(pred, UnbackedNumber) and vm.graph.unbacked.value(pred.truth_value()) is None))


@models(plain.choose)
def choose(vm: TorchVM, pred: Object, true_branch: Object, false_branch: Object) -> Object:
    """A node with two graphs. Stops the trace if the results of the branches differ in kind."""
    functions = Functions(vm, NAME)
    condition = predicate(vm, functions, vm.observe(pred))
    branches = [functions.traced(branch) for branch in (true_branch, false_branch)]
    check_same(vm, functions, *branches)
    check_writes(vm, functions, branches)
    first = branches[0]
    results: list[Object] = []
    if first.tensors or any(branch.changes for branch in branches):
        results = choose_graph(vm, functions, condition, branches)
    return TupleObject([ListObject(functions.filled_in(first.leaves, results)), first.structure])


def check_writes(vm: TorchVM, functions: Functions, branches: Sequence[FunctionGraph]) -> None:
    """Stop the trace if AOTAutograd would go wrong about what a branch writes to a tensor from around it: it loses what operators with `out=` write, and takes
    what one branch writes to a small constant for the number that the other reads from it."""
    if not vm.graph.is_one_autograd_node or not any(branch.changes for branch in branches):
        return
    nodes = [node for branch in branches for node in branch.graph.graph.nodes]
    if any(node.kwargs.get("out") is not None for node in nodes):
        functions.break_graph("with a branch that changes tensors by out=")
    if any(isinstance(node.meta.get("example_value"), NUMBERS) for node in nodes):
        functions.break_graph("with branches that change tensors and read numbers")


def one_of(pred: Any, true_graph: Any, false_graph: Any, operands: tuple[Any, ...]) -> Any:
    """The results of the one graph that runs. Autograd records what it does, while torch.cond is an operator for autograd, and finds its backward in each call.
    """
    is_known = type(pred) is torch.Tensor and not torch._is_functional_tensor(pred) and get_proxy_mode() is None
    if is_known or isinstance(pred, bool):
        return (true_graph if pred else false_graph)(*operands)
    return cond_op(pred, true_graph, false_graph, operands)


def choose_graph(
    vm: TorchVM,
    functions: Functions,
    condition: object,
    branches: Sequence[FunctionGraph],
    given: Callable[[fx.Node], fx.Node] = lambda node: node,
    target: Callable[..., Any] = cond_op,
) -> list[Object]:
    """The results of the node that runs the first of two graphs if the condition is true, and else the second. `condition`: a node or a bool. `given`: the
    operand for a node that the graphs use."""
    operands = functions.operands(branches)
    functions.check_changes(branches, operands)
    graphs = [functions.attached(branch, operands) for branch in branches]
    return functions.results(target, (condition, *graphs, tuple(map(given, operands))))


def predicate(vm: TorchVM, functions: Functions, pred: Object) -> object:
    """The node of a predicate."""
    if isinstance(pred, UnbackedNumber):
        pred = pred.truth_value()
        return vm.graph.nodes_of([pred])[0] if pred.sym(vm) is None else pred.in_graph(vm)
    assert isinstance(pred, TensorObject)
    look = pred.look(vm)
    if look.dtype is not torch.bool or look.dim() > 1 or any(size != 1 for size in look.shape):
        functions.break_graph(f"with the predicate {described(vm, pred)}, which is no single bool")
    return vm.graph.nodes_of([pred])[0]


def check_same(vm: TorchVM, functions: Functions, true: FunctionGraph, false: FunctionGraph) -> None:
    """Stop the trace unless the branches give the same results apart from the numbers in tensors."""
    if not abstract.truth(vm, vm.call_app(plain.same_structure, [true.structure, false.structure])):
        functions.break_graph("whose branches give trees of different structure")
    check_leaves(vm, functions, true, false)


def check_leaves(vm: TorchVM, functions: Functions, true: FunctionGraph, false: FunctionGraph) -> None:
    """Stop the trace unless the leaves of two results are the same apart from the numbers in tensors."""
    for a, b in zip(true.leaves, false.leaves, strict=True):
        if isinstance(a, TensorObject) and isinstance(b, TensorObject):
            same = described(vm, a) == described(vm, b)
        else:
            same = a is b or (a.cls is b.cls and a.cls in CONSTANTS and a.constant(vm) == b.constant(vm))
        if not same:
            functions.break_graph(f"whose branches give {described(vm, a)} and {described(vm, b)}")
