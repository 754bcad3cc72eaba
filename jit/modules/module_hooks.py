"""Backward hooks of modules: torch has what goes into a module, and what comes out, pass through a node of autograd's, and puts a hook on that.

Such hooks are called by the graph's own backward pass (backward_hooks.py). Where another may follow behind the graph, torch's code runs natively.
"""

from __future__ import annotations

import torch
from torch.nn.modules._functions import BackwardHookFunction
from torch.utils.hooks import BackwardHook

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.graph.gradient_hooks import Listener, tap_node_
from framejit.modules.app import module_hooks as app
from framejit.modules.changes import Reached
from framejit.objects import abstract
from framejit.objects.object import Object
from framejit.objects.registry import app as traced_as
from framejit.objects.registry import library, models
from framejit.objects.tensorobject import TensorObject
from framejit.objects.torchcall import enter

traced_as(BackwardHook._apply_on_tensors)(app.apply_on_tensors)
REASON = breaks.HookUnsupported("a full backward hook of a module")


def pass_through(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Tensors behind a node of autograd's, which hands their gradients on as they are."""
    return BackwardHookFunction.apply(*tensors)  # type: ignore[no-any-return,no-untyped-call]


@library
def backward_hook_of_module(vm: TorchVM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> None:
    """Torch is about to set up such a hook. Its own code says what is done."""
    real = function.value
    if real is BackwardHook.setup_input_hook or real is BackwardHook.setup_output_hook:
        graph = vm.graph
        given = vm.observe(args[1])
        tensors = [given] if isinstance(given, TensorObject) else [vm.observe(item) for item in abstract.iterate(vm, given)]
        if graph.modes.current.grad and any(isinstance(tensor, TensorObject) and tensor.look(vm).requires_grad for tensor in tensors):
            if graph.body is not graph.outermost or not graph.demands.takes_gradients:
                vm.unsupported(REASON)
            graph.runs_later(Reached(), True, REASON)


@models(app.passed_through)
def passed_through(vm: TorchVM, *tensors: Object) -> Object:
    return enter(vm, pass_through, tensors)


@models(app.put_on_node)
def put_on_node(vm: TorchVM, tensor: Object, inputs: Object, hook: Object) -> Object:
    (node,) = vm.graph.nodes_of([tensor])
    listener = Listener(vm.graph.node_of(tap_node_, (node,)), hook, vm.observe(inputs).constant(vm))
    vm.trail.set(vm.graph.listening, "hooks", (*vm.graph.listening.hooks, listener))
    return vm.const(None)
