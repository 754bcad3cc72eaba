"""torch's operators that run a function many times: `while_loop`, `map`, `scan` and `associative_scan`. The function is an inner graph.

It is traced once, with tensors that look like those that it will get.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import fx
from torch._higher_order_ops.associative_scan import associative_scan_op
from torch._higher_order_ops.map import map_impl
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.while_loop import while_loop_op

from framejit.graph.builder import TorchVM
from framejit.library.torch.control_flow.loop_arguments import copy_of
from framejit.library.torch.inner_graphs.inner_function import FunctionGraph, Functions, described
from framejit.objects.core import abstract
from framejit.objects.core.object import Object
from framejit.objects.core.registry import app, models
from framejit.objects.numbers.unbackednumber import comparison_as_tensor
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchcall import enter
from framejit.objects.types.listobject import ListObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.plain import control_flow as plain

app(while_loop_op)(plain.while_loop)
app(map_impl)(plain.map_impl)
app(scan_op)(plain.scan)
app(associative_scan_op)(plain.associative_scan)


class LoopFunctions(Functions):
    """The functions of an operator that starts with some tensors, or goes through rows of some."""

    def copies(self, tensors: Iterable[TensorObject]) -> list[Object]:
        """Tensors that look like others. The graph doesn't compute with them: in the inner graph they stand for arguments."""
        return [enter(self.vm, copy_of, [tensor]) for tensor in tensors]

    def rows(self, tensors: Iterable[TensorObject]) -> list[Object]:
        """A row of each tensor, to stand for any."""
        zero = self.vm.const(0)
        return [enter(self.vm, torch.select, [copy, zero, zero]) for copy in self.copies(tensors)]

    def nodes(self, values: Sequence[Object]) -> tuple[fx.Node, ...]:
        return self.vm.graph.nodes_of(values)

    def begin(self, tensors: Sequence[Object], copies: Sequence[Object], used: Iterable[fx.Node]) -> tuple[fx.Node, ...]:
        """The nodes that the operator starts with: each once, and none that the functions also use, because the operator doesn't copy them."""
        found: list[fx.Node] = []
        for node, copy in zip(self.nodes(tensors), self.nodes(copies)):
            found.append(copy if node in found or node in used else node)
        return tuple(found)

    def result(self, function: FunctionGraph, results: list[Object]) -> Object:
        """The result for the operator's stand-in: leaves, and their structure."""
        return TupleObject([ListObject(results), function.structure])


def tensors_of(vm: TorchVM, functions: Functions, values: Object, what: str) -> list[TensorObject]:
    return functions.all_tensors(abstract.iterate(vm, vm.observe(values)), what)


@models(plain.compared)
def compared(vm: TorchVM, condition: Object) -> Object:
    """A condition as a tensor, which operators need."""
    condition = vm.observe(condition)
    return comparison_as_tensor(vm, condition) or condition


@models(plain.loop)
def while_loop(vm: TorchVM, condition: Object, body: Object, carried: Object) -> Object:
    """Stop the trace if the loop carries something other than tensors, or the body returns tensors that look different."""
    functions = LoopFunctions(vm, "while_loop")
    begin = tensors_of(vm, functions, carried, "the carried value")
    args = functions.copies(begin)
    test = functions.traced_to_tensor(condition, args)
    step = functions.traced(body, args)
    (pred,) = test.tensors
    if pred.look(vm).dtype is not torch.bool or pred.look(vm).dim():
        functions.break_graph(f"with a condition that gives {described(vm, pred)}, and not one bool")
    functions.check_unchanged((test, step))
    functions.check_like(step.leaves, begin, "carried values")
    first = functions.nodes(args)
    operands = functions.operands((test, step), first)
    additional = tuple(operands[len(first) :])
    graphs = functions.attached(test, operands, bare=True), functions.attached(step, operands)
    return functions.result(step, functions.results(while_loop_op, (*graphs, functions.begin(begin, args, additional), additional)))


@models(plain.each)
def map_rows(vm: TorchVM, function: Object, rows: Object) -> Object:
    """Stop the trace if the function returns something other than tensors."""
    functions = LoopFunctions(vm, "map")
    xs = tensors_of(vm, functions, rows, "the value to map over")
    args = functions.rows(xs)
    step = functions.traced(function, args)
    functions.check_unchanged((step,))
    functions.all_tensors(step.leaves, "the result")
    first = functions.nodes(args)
    operands = functions.operands((step,), first)
    given = functions.begin(xs, functions.copies(xs), ())
    results = functions.results(map_impl, (functions.attached(step, operands), given, tuple(operands[len(first) :])))
    return functions.result(step, results)


@models(plain.run)
def scan_rows(vm: TorchVM, step: Object, carried: Object, rows: Object) -> Object:
    """Stop the trace unless the function returns tensors, beginning with those that look like what it carries."""
    functions = LoopFunctions(vm, "scan")
    begin = tensors_of(vm, functions, carried, "the initial value")
    xs = tensors_of(vm, functions, rows, "the value to scan")
    args = [*functions.copies(begin), *functions.rows(xs)]
    traced = functions.traced(step, args)
    functions.check_unchanged((traced,))
    functions.all_tensors(traced.leaves, "the result")
    functions.check_like(traced.leaves[: len(begin)], begin, "carried values")
    first = functions.nodes(args)
    operands = functions.operands((traced,), first)
    additional = tuple(operands[len(first) :])
    given = functions.begin([*begin, *xs], [*args[: len(begin)], *functions.copies(xs)], additional)
    graph = functions.attached(traced, operands)
    return functions.result(traced, functions.results(scan_op, (graph, given[: len(begin)], given[len(begin) :], additional)))


@models(plain.combined)
def combine_rows(vm: TorchVM, combine: Object, rows: Object) -> Object:
    """Stop the trace unless the function returns tensors like the rows, and is elementwise: the operator calls it with many rows at once."""
    functions = LoopFunctions(vm, "associative_scan")
    xs = tensors_of(vm, functions, rows, "the value to scan")
    zero = vm.const(0)
    args = [enter(vm, torch.select_copy, [copy, zero, zero]) for copy in functions.copies([*xs, *xs])]
    step = functions.traced(combine, args)
    functions.check_unchanged((step,))
    functions.check_like(step.leaves, functions.all_tensors(args[: len(xs)], "the value to scan"), "values to scan")
    if not step.graph.is_elementwise(vm.graph.fakes.running):
        functions.break_graph('with combine_mode="pointwise" of a function that isn\'t elementwise')
    first = functions.nodes(args)
    operands = functions.operands((step,), first)
    additional = tuple(operands[len(first) :])
    given = functions.begin(xs, functions.copies(xs), additional)
    return functions.result(step, functions.results(associative_scan_op, (functions.attached(step, operands), given, additional)))
