"""Code of the program that autograd runs in a backward pass: it is traced as an inner graph, and may do nothing but compute gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import BuiltinFunctionType, CellType, FunctionType, ModuleType, NoneType
from typing import Any

import torch

from framejit.graph.builder import TorchVM
from framejit.graph.inner import InnerGraph
from framejit.guards.source import FunctionField, Item, Pinned, Source
from framejit.library.torch.inner_graphs.changes import Reached, is_changed, reachable, stored_outside
from framejit.library.torch.triton.triton_launch import is_kernel
from framejit.objects.core.object import Object, Raise
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchcall import enter
from framejit.objects.types.constobject import SCALARS
from framejit.program import code_kinds
from framejit.quick_dataclass import dataclass

STAYS = (FunctionType, BuiltinFunctionType, ModuleType, type, CellType)
"""Types of values that are assumed not to be replaced. The contents of cells, modules and classes are checked separately."""
CONSTANTS = (*SCALARS, NoneType, torch.dtype)
"""Types of values that a module's constants may have."""


class SideEffects(Exception):
    """Signal: the code has changed something."""


@dataclass(frozen=True, slots=True)
class BackwardCode:
    """The program's backward code as a graph, and the values that it may have read (`reached`).

    `reads_outside`: it has read values from outside the trace which it was not given, and which a program may change at any time.
    `again`: whether the graph can be differentiated in turn, as the program's code could. Code that asks for the grad mode, as an autograd.Function
    does, might behave differently then.
    """

    graph: InnerGraph
    again: bool
    reached: Reached
    reads_outside: bool


def gradients_like(vm: TorchVM, tensors: Sequence[TensorObject]) -> list[Object]:
    """Tensors that look like the gradients of others. The graph doesn't compute with them: in the inner graph they stand for arguments."""
    layout = {"memory_format": vm.const(torch.contiguous_format)}
    return [enter(vm, torch.empty_like, [tensor], layout) for tensor in tensors]


def trace_backward(vm: TorchVM, used: Sequence[Object], run: Callable[[], list[Object] | None]) -> BackwardCode | None:
    """The graph of the results of `run`; None if these are None, or if it raises. `used`: what it may change, apart from values from outside.

    The caller has switched gradients off, as they are in a backward pass.
    """
    graph = vm.graph
    reached, looks = reachable(vm, used), graph.modes.grad_looks
    mark, before = vm.trail.mark(), reachable(vm, [*used, *stored_outside(vm)])
    graph.begin_inner(is_backward=True)
    body = graph.body
    looked_at: list[Object] = []
    count, answers = vm.guards.count(), vm.answers.count()
    try:
        computed, looked_at = vm.noting_looks(run)
    except Raise:
        vm.answers.after_raise_inside(answers)
        computed = None
    if computed is None:
        vm.trail.undo_to(mark)
        return None
    if is_changed(vm, mark, before) or body.changes_lifted():
        raise SideEffects
    reached.add_made(reachable(vm, looked_at))
    reached.taken_to_stay = {obj.source for obj in (*used, *looked_at) if obj.source is not None and not may_change(vm, obj)}
    reached.guards = vm.guards.since(count)
    reads_outside = any(obj.source not in reached.given and may_change(vm, obj) for obj in looked_at)
    return BackwardCode(graph.end_inner(computed), graph.modes.grad_looks == looks, reached, reads_outside)


def may_change(vm: TorchVM, obj: Object) -> bool:
    """Return whether a value from outside may be replaced, or have other contents, by the time autograd runs the code. Functions with their defaults, classes,
    modules, Triton kernels and the constants of modules are assumed to stay, and so are the contents of torch's and the standard library's modules and classes.
    """
    stays = issubclass(type(obj.value), STAYS) or is_kernel(obj.value) or is_constant_of_module(vm, obj.source, obj.value)
    source = None if stays else obj.source
    while source is not None:
        if isinstance(source, FunctionField) and source.payload in ("defaults", "kwdefaults"):
            return False
        if isinstance(source, Pinned) and code_kinds.belongs_to_library(source.payload):
            return False
        if source.base is None:
            return True
        source = source.base
    return False


def is_constant_of_module(vm: TorchVM, source: Source | None, value: Any) -> bool:
    """Return whether this is a number or the like in a global variable that has a constant's name (PEP 8: in capitals) and hasn't been seen to vary."""
    if not isinstance(source, Item) or not isinstance(source.base, Pinned) or type(value) not in CONSTANTS:
        return False
    name, namespace = source.payload, source.base.payload
    is_global = type(name) is str and type(namespace) is dict and "__builtins__" in namespace
    return is_global and name.isupper() and not vm.graph.dynamic.has_varied(source)


def with_gradients_off(vm: TorchVM, run: Callable[[], Any]) -> Any:
    """The result of `run` with gradients switched off."""
    enabled = vm.graph.modes.current.grad
    vm.graph.modes.set_grad_enabled(False)
    result = run()
    vm.graph.modes.set_grad_enabled(enabled)
    return result
