"""torch's operators that run a function once: most are the function, traced. A region that is compiled once for all alike is a graph inside the graph."""

from __future__ import annotations

from torch._higher_order_ops.hints_wrap import hints_wrapper
from torch._higher_order_ops.invoke_subgraph import invoke_subgraph_placeholder
from torch._higher_order_ops.out_dtype import out_dtype
from torch._higher_order_ops.strict_mode import strict_mode_op
from torch._higher_order_ops.wrap import wrap, wrap_with_autocast, wrap_with_set_grad_enabled

from framejit.graph.builder import TorchVM
from framejit.graph.region import run_region
from framejit.modules.app import control_flow as plain
from framejit.modules.inner_function import Functions
from framejit.objects.listobject import ListObject
from framejit.objects.object import Object
from framejit.objects.registry import app, models
from framejit.objects.tupleobject import TupleObject

app(strict_mode_op)(plain.strict_mode)
app(hints_wrapper)(plain.hints_wrapper)
app(wrap)(plain.wrap)
app(wrap_with_set_grad_enabled)(plain.wrap_with_set_grad_enabled)
app(wrap_with_autocast)(plain.wrap_with_autocast)
app(invoke_subgraph_placeholder)(plain.nested_region)


@models(plain.region)
def region(vm: TorchVM, function: Object) -> Object:
    """A node where AOTAutograd makes what runs of the graph. Elsewhere it would have no use, nor has it where the function does more than compute."""
    found = vm.attempt(lambda: shared(vm, function)) if vm.graph.is_one_autograd_node else None
    return vm.const(None) if found is None else found


def shared(vm: TorchVM, function: Object) -> Object | None:
    """What a function gives, its graph being that of an earlier one if they are alike; None where a graph inside the graph is none for the operator."""
    graph, functions = vm.graph, Functions(vm, "nested_compile_region", asks_modes=False)
    traced = functions.traced(function)
    inner = traced.graph
    pattern = inner.pattern()
    if not traced.tensors or pattern is None or functions.copied or inner.does_more(graph.fakes.running):
        return None
    pattern = f"{graph.modes.current}\n{pattern}"
    taken = inner.taking(inner.operands, graph.fakes.running)
    module = graph.regions.setdefault(pattern, graph.module_of(taken))
    name = f"region_{list(graph.regions).index(pattern)}"
    results = functions.results(run_region, (graph.body.attach(module), name, *inner.operands))
    return TupleObject([ListObject(functions.filled_in(traced.leaves, results)), traced.structure])


@models(out_dtype)
def call_out_dtype(vm: TorchVM, operator: Object, dtype: Object, *args: Object) -> Object:
    """A node with the operator as its argument."""
    first = [vm.observe(part).constant(vm) for part in (operator, dtype)]
    return vm.graph.call_on_nodes(out_dtype, (*first, *vm.graph.nodes_of(args)))
