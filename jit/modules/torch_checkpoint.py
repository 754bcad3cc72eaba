"""torch.utils.checkpoint: what is checkpointed is a graph inside the graph, which the backward pass runs a second time."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from torch._higher_order_ops.wrap import tag_activation_checkpoint
from torch.utils.checkpoint import checkpoint

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.graph.on_fakes import stand_in
from framejit.objects import abstract
from framejit.objects.constobject import ConstObject
from framejit.objects.object import Object, Raise, settle
from framejit.objects.registry import models
from framejit.objects.tensorobject import TensorObject
from framejit.objects.tupleobject import TupleObject
from framejit.torch_modes import MODE_CHANGES

SIGNATURE = inspect.signature(checkpoint)
OPTIONS = ("use_reentrant", "context_fn", "determinism_check", "debug", "early_stop", "preserve_rng_state")
"""Keyword arguments that are checkpoint's own; the others are the function's."""
REFUSED = breaks.UnsupportedOperation("torch.utils.checkpoint.checkpoint")


def checkpointed(preserve_rng_state: bool, inner: Callable[..., Any], *operands: Any) -> Any:
    """Runs a graph inside the graph where autograd records each operator: torch does as it does in eager."""
    return checkpoint(inner, *operands, use_reentrant=False, preserve_rng_state=preserve_rng_state)


stand_in(checkpointed, lambda preserve_rng_state, inner, *operands: inner(*operands))
stand_in(tag_activation_checkpoint, lambda inner, *operands, **options: inner(*operands))


def reachable(values: Iterable[Object]) -> set[int]:
    """The ids of what the trace has made that is reached from some values, and of the containers in which that is kept.

    Constants and tensors are none of it, nor is what is from outside.
    """
    found: set[int] = set()
    waiting = list(values)
    while waiting:
        obj = settle(waiting.pop())
        if id(obj) in found or obj.source is not None or isinstance(obj, (ConstObject, TensorObject)):
            continue
        found.add(id(obj))
        fields = [getattr(obj, name, None) for cls in type(obj).__mro__ for name in getattr(cls, "__slots__", ())]
        found.update(id(field) for field in fields if isinstance(field, (list, dict, set)))
        waiting += obj.referents()
    return found


def is_changed(vm: TorchVM, mark: int, before: set[int]) -> bool:
    """Whether anything outside the trace, or any of these objects, has been changed since a position of the trail."""
    if vm.effects.has_changed_since(mark):
        return True
    return any(id(part) in before for undo, args in vm.trail.since(mark) for part in (getattr(undo, "__self__", None), *args[:1]))


@models(checkpoint)
def call_checkpoint(vm: TorchVM, function: Object, *args: Object, **kwargs: Object) -> Object:
    """Stops the trace where the function does something besides computing tensors: in eager the backward pass does that a second time."""
    options = {name: vm.observe(kwargs.pop(name)).constant(vm) for name in OPTIONS if name in kwargs}
    keeps = bool(options.pop("preserve_rng_state", True))
    if options.pop("use_reentrant", None) is not False or any(value is not SIGNATURE.parameters[name].default for name, value in options.items()):
        vm.unsupported(REFUSED)
    if not vm.graph.modes.current.grad:
        return abstract.call(vm, function, list(args), kwargs)
    graph, mark, before = vm.graph, vm.trail.mark(), reachable([function, *args, *kwargs.values()])
    graph.begin_inner()
    try:
        result = vm.observe(abstract.call(vm, function, list(args), kwargs))
        items = [vm.observe(item) for item in result.items(vm)] if isinstance(result, TupleObject) and result.cls is tuple else [result]
        is_pure = not is_changed(vm, mark, before) and all(node.target in MODE_CHANGES for node in graph.body.kept)
        if not is_pure or not all(isinstance(item, TensorObject) for item in items):
            vm.unsupported(REFUSED)
        inner = graph.end_inner(items)
    except Raise:
        vm.unsupported(REFUSED)
    if graph.autograd_node is None:
        computed = graph.call_inner(checkpointed, (keeps,), inner, {})
    else:
        computed = graph.call_inner(tag_activation_checkpoint, (), inner, {"use_reentrant": False, "preserve_rng_state": keeps})
    return computed if isinstance(result, TupleObject) else abstract.getitem(vm, computed, vm.const(0))
