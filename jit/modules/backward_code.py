"""Code of the program's that autograd runs in a backward pass: it is traced as a graph inside the graph, and may do nothing but compute gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from framejit.graph.builder import InnerGraph, TorchVM
from framejit.modules.changes import Reached, is_changed, reachable
from framejit.objects.object import Object, Raise
from framejit.objects.tensorobject import TensorObject
from framejit.objects.torchcall import enter


class SideEffects(Exception):
    """Signal: the code has changed something."""


@dataclass(frozen=True, slots=True)
class BackwardCode:
    """Such code as a graph, and what it may have read (`reached`).

    `again`: whether the graph can be differentiated in turn as the program's code could. Code that asks for the grad mode, as an autograd.Function
    does, might do something else then.
    """

    graph: InnerGraph
    again: bool
    reached: Reached


def gradients_like(vm: TorchVM, tensors: Sequence[TensorObject]) -> list[Object]:
    """Tensors that look like the gradients of others. The graph doesn't compute with them: in the graph inside it they stand for arguments."""
    layout = {"memory_format": vm.const(torch.contiguous_format)}
    return [enter(vm, torch.empty_like, [tensor], layout) for tensor in tensors]


def trace_backward(vm: TorchVM, used: Iterable[Object], run: Callable[[], list[Object] | None]) -> BackwardCode | None:
    """The graph of what `run` computes; None where that is None, or where it raises. `used`: what it may change, apart from what is outside.

    To be called where gradients are off, as they are in a backward pass.
    """
    graph = vm.graph
    mark, before, looks = vm.trail.mark(), reachable(used), graph.modes.grad_looks
    graph.begin_inner()
    body = graph.body
    try:
        computed = run()
    except Raise:
        computed = None
    if computed is None:
        vm.trail.undo_to(mark)
        return None
    if is_changed(vm, mark, before) or body.changes_lifted():
        raise SideEffects
    return BackwardCode(graph.end_inner(computed), graph.modes.grad_looks == looks, before)


def with_gradients_off(vm: TorchVM, run: Callable[[], Any]) -> Any:
    """What `run` gives where gradients are off."""
    enabled = vm.graph.modes.current.grad
    vm.graph.modes.set_grad_enabled(False)
    result = run()
    vm.graph.modes.set_grad_enabled(enabled)
    return result
