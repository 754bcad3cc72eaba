"""torch's operators that run a function once: for most, the function is traced. A region that is compiled once for all similar calls is an inner graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import fx
from torch._higher_order_ops.hints_wrap import hints_wrapper
from torch._higher_order_ops.invoke_subgraph import invoke_subgraph_placeholder
from torch._higher_order_ops.out_dtype import out_dtype
from torch._higher_order_ops.strict_mode import strict_mode_op
from torch._higher_order_ops.wrap import wrap, wrap_with_autocast, wrap_with_set_grad_enabled

from framejit.graph.builder import TorchVM
from framejit.library.torch.control_flow.invoked_regions import run_drawing_region, run_region
from framejit.library.torch.control_flow.repeated_regions import RegionCall, Unmoved, call_of_region, note_region
from framejit.library.torch.inner_graphs.inner_function import Functions
from framejit.objects.core.object import Object
from framejit.objects.core.registry import app, models
from framejit.objects.types.listobject import ListObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.plain import control_flow as plain

OPERATOR = "nested_compile_region"

app(strict_mode_op)(plain.strict_mode)
app(hints_wrapper)(plain.hints_wrapper)
app(wrap)(plain.wrap)
app(wrap_with_set_grad_enabled)(plain.wrap_with_set_grad_enabled)
app(wrap_with_autocast)(plain.wrap_with_autocast)
app(invoke_subgraph_placeholder)(plain.nested_region)


@models(plain.region)
def region(vm: TorchVM, run: Object, function: Object, args: Object, names: Object) -> Object:
    """A node, if AOTAutograd compiles the graph. Otherwise it would be of no use, as it is if the function does more than compute."""
    if not vm.graph.is_one_autograd_node:
        return vm.const(None)
    call = call_of_region(vm, function, args, names)
    found = vm.attempt(lambda: repeated(vm, call)) or vm.attempt(lambda: shared(vm, run, call))
    return vm.const(None) if found is None else found


def node_of_region(
    functions: Functions, run: Callable[..., Any], module: fx.GraphModule, name: str, operands: Sequence[fx.Node], leaves: list[Object], structure: Object
) -> Object:
    """The result of a region that is run in this way. `leaves`: the leaves of its graph's results, tensors and others."""
    results = functions.results(run, (functions.vm.graph.body.attach(module), name, *operands))
    return TupleObject([ListObject(functions.filled_in(leaves, results)), structure])


def repeated(vm: TorchVM, call: RegionCall | None) -> Object | None:
    """The result of a region that has been traced with arguments like these; None if there is none."""
    for traced in () if call is None else vm.graph.traced_regions.get(call.key, ()):
        if traced.run is run_drawing_region and vm.graph.is_inner():
            continue
        operands = vm.attempt(lambda: traced.operands_for(vm, call))  # noqa: B023
        if operands is not None:
            functions = Functions(vm, OPERATOR, asks_modes=False)
            return node_of_region(functions, traced.run, traced.module, traced.name, vm.graph.nodes_of(operands), traced.results, traced.structure)
    return None


def shared(vm: TorchVM, run: Object, call: RegionCall | None) -> Object | None:
    """The result of a function, which shares the graph of an earlier one if they are alike; None if the operator can't take the inner graph."""
    graph, functions = vm.graph, Functions(vm, OPERATOR, asks_modes=False)
    before = Unmoved.now(vm)
    traced, looked_at = vm.noting_looks(lambda: functions.traced(run))
    inner = traced.graph
    pattern = inner.pattern()
    if not traced.tensors or pattern is None or functions.copied:
        return None
    acts, draws = inner.effects(graph.fakes.running)
    if acts or (draws and graph.is_inner()):
        return None
    pattern = f"{graph.modes.current}\n{pattern}"
    taken = inner.taking(inner.operands, graph.fakes.running)
    module = graph.regions.setdefault(pattern, graph.module_of(taken))
    name = f"region_{list(graph.regions).index(pattern)}"
    how = run_drawing_region if draws else run_region
    if call is not None and Unmoved.now(vm) == before:
        note_region(vm, call, traced, looked_at, how, module, name)
    return node_of_region(functions, how, module, name, inner.operands, traced.leaves, traced.structure)


@models(out_dtype)
def call_out_dtype(vm: TorchVM, operator: Object, dtype: Object, *args: Object) -> Object:
    """A node with the operator as its argument."""
    first = [vm.observe(part).constant(vm) for part in (operator, dtype)]
    return vm.graph.call_on_nodes(out_dtype, (*first, *vm.graph.nodes_of(args)))
