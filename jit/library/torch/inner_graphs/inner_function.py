"""The program's functions that operators take: each is traced as an inner graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, TypeVar

import torch
from torch import fx

from framejit import breaks
from framejit.graph.body import Body
from framejit.graph.builder import TorchVM
from framejit.graph.fake import storages
from framejit.graph.inner import InnerGraph
from framejit.library.torch.inner_graphs.changes import is_changed, reachable, stored_outside
from framejit.objects.core import abstract
from framejit.objects.core.object import Object, Raise
from framejit.objects.core.registry import models
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchcall import enter
from framejit.objects.types.tupleobject import TupleObject
from framejit.plain import control_flow as plain
from framejit.quick_dataclass import dataclass

T = TypeVar("T")
BreakGraph = Callable[[str], NoReturn]
"""A function that stops the trace, for a reason such as "of a function that raises"."""


def trace_inside(
    vm: TorchVM,
    run: Callable[[], T],
    used: Iterable[Object],
    break_graph: BreakGraph,
    items_by_index: bool = False,
    takes_floats: bool = True,
    takes_numbers: bool = False,
    takes_sizes: bool = False,
    untells: bool = False,
) -> T:
    """The result of `run`, traced into an inner graph, which the caller ends. `used`: what it may change, apart from values from outside.
    `untells`: in eager the operator doesn't tell the function that it is compiled, so an exception may be due to that answer.

    Stops the trace if it raises, or does something besides computing: the operator may run it any number of times, or not at all.
    """
    mark, before, modes = vm.trail.mark(), reachable(vm, [*used, *stored_outside(vm)]), vm.graph.modes.current
    answers = vm.answers.count()
    vm.graph.begin_inner(items_by_index, takes_floats, takes_numbers, takes_sizes=takes_sizes)
    try:
        result = run()
    except Raise:
        if untells:
            vm.answers.after_raise_inside(answers)
        break_graph("of a function that raises")
    vm.graph.forget_inside()
    if is_changed(vm, mark, before) or vm.graph.modes.current != modes:
        break_graph("of a function with side effects")
    return result


@dataclass(frozen=True, slots=True)
class FunctionGraph:
    """A function that has been traced as a graph. The graph returns the tensors among `leaves`, each in its own memory; `structure` is the tree structure
    of the leaves.
    """

    graph: InnerGraph
    leaves: list[Object]
    structure: Object
    changes: bool

    @property
    def tensors(self) -> list[TensorObject]:
        """The results of the graph."""
        return [leaf for leaf in self.leaves if isinstance(leaf, TensorObject)]


class Functions:
    """The functions in a call of an operator, which the program knows as `operator`.

    `asks_modes`: torch's function modes are asked about the operator's result, but not while its functions run. `copy`: makes the copy of a tensor that a
    graph may not return itself.
    """

    def __init__(self, vm: TorchVM, operator: str, asks_modes: bool = True, copy: Callable[[torch.Tensor], torch.Tensor] = torch.clone) -> None:
        self.vm = vm
        self.operator = operator
        self.copy = copy
        if asks_modes and vm.graph.function_modes.asks_modes():
            self.break_graph("under a function mode, which is asked what the operator gives")
        vm.graph.reject_transformed(operator)
        self.copied = False
        """True if a function's graph returns a copy of a tensor that shares memory with another result or an input of the graph, or that isn't of the graph."""

    def break_graph(self, why: str) -> NoReturn:
        """Stop the trace at the program's call."""
        self.vm.unsupported(breaks.InnerFunction(self.operator, why))

    def traced(self, function: Object, args: Sequence[Object] = ()) -> FunctionGraph:
        """Trace a function that returns leaves and their structure."""
        vm = self.vm
        found = self._call(function, args)
        leaves, structure = [vm.observe(part) for part in abstract.iterate(vm, found)]
        return self.ended([vm.observe(leaf) for leaf in abstract.iterate(vm, leaves)], structure)

    def traced_to_tensor(self, function: Object, args: Sequence[Object], items_by_index: bool = False) -> FunctionGraph:
        """Trace a function that returns a tensor. `items_by_index`: see graph/body.py."""
        found = self._call(function, args, items_by_index)
        if not isinstance(found, TensorObject):
            self.break_graph(f"of a function that gives {found!r}, and no tensor")
        return self.ended([found], self.vm.const(None))

    def _call(self, function: Object, args: Sequence[Object], items_by_index: bool = False) -> Object:
        """The result of a function, traced. Its graph takes tensors and ints: operators don't accept floats."""
        vm, used = self.vm, [function, *args]

        def run() -> Object:
            return vm.observe(abstract.call(vm, function, list(args), {}))

        return trace_inside(vm, run, used, self.break_graph, items_by_index, takes_floats=False, takes_numbers=not items_by_index)

    def ended(self, leaves: list[Object], structure: Object) -> FunctionGraph:
        """End the graph that is being traced, and return it."""
        graph = self.vm.graph
        changes = graph.body.changes_lifted()
        if graph.is_one_autograd_node and graph.body.changes_uncounted():
            self.break_graph("of a function that changes running statistics, or tensors in a list")
        leaves = self._apart(graph.body, leaves)
        inner = graph.end_inner([leaf for leaf in leaves if isinstance(leaf, TensorObject)])
        if graph.is_one_autograd_node and inner.checks_factors(graph.fakes.running):  # AOTAutograd (torch 2.13) leaves the check out of such graphs
            self.break_graph("of a function that factorises a matrix, which may fail")
        return FunctionGraph(inner, leaves, structure, changes)

    def _apart(self, body: Body, leaves: list[Object]) -> list[Object]:
        """The leaves. Tensors that share memory with each other or with the graph's arguments are copied, as operators forbid that."""
        found: list[Object] = []
        for leaf in leaves:
            if isinstance(leaf, TensorObject):
                if leaf.kind.is_disguised or leaf.has_more():
                    self.break_graph("of a function that gives a tensor of a subclass, or with attributes of its own")
                self.vm.graph.refresh()
                taken = storages([fake for placeholder in body.lifted.values() if isinstance(fake := placeholder.meta["example_value"], torch.Tensor)])
                taken |= storages([other.fake for other in found if isinstance(other, TensorObject)])
                if leaf.node.graph is not body.fx or storages([leaf.fake]) & taken:
                    self.copied = True
                    copy = enter(self.vm, self.copy, [leaf])
                    assert isinstance(copy, TensorObject)
                    leaf = copy
            found.append(leaf)
        return found

    def operands(self, functions: Iterable[FunctionGraph], first: Iterable[fx.Node] = ()) -> list[fx.Node]:
        """All values outside the graphs of some functions that these use, each once, after the `first` ones."""
        return list(dict.fromkeys([*first, *(operand for function in functions for operand in function.graph.operands)]))

    def attached(self, function: FunctionGraph, operands: Sequence[fx.Node], bare: bool = False) -> fx.Node:
        """A node that returns the graph of a function, with these operands. `bare`: the graph doesn't return a tuple."""
        graph = self.vm.graph
        return graph.attach(function.graph.taking(operands, graph.fakes.running, bare), {})

    def results(self, target: Callable[..., Any], args: tuple[Any, ...]) -> list[Object]:
        """The results of the operator."""
        made = self.vm.graph.call_on_nodes(target, args)
        assert isinstance(made, TupleObject)
        return made.items(self.vm)

    def all_tensors(self, values: Iterable[Object], what: str) -> list[TensorObject]:
        """The values, which must be tensors."""
        found = [self.vm.observe(value) for value in values]
        for value in found:
            if not isinstance(value, TensorObject):
                self.break_graph(f"with {what} {value!r}, which is no tensor")
            if value.kind.is_disguised:
                self.break_graph(f"with {what} {value!r}, a tensor of a subclass")
        return found  # type: ignore[return-value]

    def check_like(self, found: Sequence[Object], expected: Sequence[TensorObject], what: str) -> None:
        """Stop the trace if a function doesn't return tensors that look like these."""
        if len(found) != len(expected):
            self.break_graph(f"of a function that gives {len(found)} values where there are {len(expected)} {what}")
        for a, b in zip(found, expected):
            if described(self.vm, a) != described(self.vm, b):
                self.break_graph(f"of a function that gives {described(self.vm, a)} in the place of {described(self.vm, b)}")

    def check_unchanged(self, functions: Iterable[FunctionGraph]) -> None:
        """Stop the trace if a function changes a tensor from outside it."""
        if any(function.changes for function in functions):
            self.break_graph("of a function that changes tensors in place")

    def check_changes(self, functions: Iterable[FunctionGraph], operands: Sequence[fx.Node]) -> None:
        """Stop the trace if a function changes a tensor from outside it, and autograd would have to know."""
        if any(function.changes for function in functions) and self.vm.graph.modes.current.grad:
            fakes = [operand.meta["example_value"] for operand in operands]
            if any(isinstance(fake, torch.Tensor) and fake.requires_grad for fake in fakes):
                self.break_graph("of a function that changes tensors in place, where others require gradients")

    def filled_in(self, leaves: Sequence[Object], results: Iterable[Object]) -> list[Object]:
        """The leaves of a result, with the operator's results in place of tensors."""
        following = iter(results)
        return [next(following) if isinstance(leaf, TensorObject) else leaf for leaf in leaves]


def look_of(tensor: TensorObject, vm: TorchVM) -> str:
    """A tensor's type, sizes and layout, for messages: `float32[3, 4] on cpu with strides (4, 1)`."""
    look = tensor.look(vm)
    sizes = ", ".join(map(str, look.shape))
    return f"{str(look.dtype).removeprefix('torch.')}[{sizes}] on {look.device} with strides {tuple(look.stride())}"


def described(vm: TorchVM, leaf: Object) -> Any:
    """A leaf of a result, for messages."""
    return look_of(leaf, vm) if isinstance(leaf, TensorObject) else repr(leaf)


@models(plain.break_graph)
def break_graph(vm: TorchVM, operator: Object, why: Object) -> Object:
    """Stop the trace, for a stand-in of an operator."""
    Functions(vm, vm.observe(operator).constant(vm)).break_graph(vm.observe(why).constant(vm))
