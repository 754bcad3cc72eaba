"""Backward hooks of modules: torch passes the inputs and the outputs of a module through an autograd node, and puts a hook on that.

Such hooks are called by the graph's own backward pass (backward_hooks.py). If another pass may follow after the graph, nodes of the graph have
autograd call them (library/torch/hooks/hooked_modules.py).
"""

from __future__ import annotations

import torch
from torch import fx, nn
from torch.nn.modules._functions import BackwardHookFunction
from torch.utils.hooks import BackwardHook

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.library.torch.hooks.gradient_hooks import Listener, Listening, tap_node_
from framejit.library.torch.hooks.hooked_modules import hearing, hooks_of, set_up_inputs, set_up_outputs, token_of
from framejit.library.torch.hooks.hooks import is_left_to_native_code
from framejit.library.torch.inner_graphs.changes import Reached
from framejit.objects.core import abstract
from framejit.objects.core.object import Codegen, Object
from framejit.objects.core.registry import app as traced_as
from framejit.objects.core.registry import models, rules
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchcall import enter
from framejit.plain import module_hooks as app

traced_as(BackwardHook._apply_on_tensors)(app.apply_on_tensors)
REASON = breaks.HookUnsupported("a full backward hook of a module")


def pass_through(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Pass tensors through an autograd node that passes their gradients on unchanged."""
    return BackwardHookFunction.apply(*tensors)  # type: ignore[no-any-return,no-untyped-call]


@rules(BackwardHook.setup_input_hook, BackwardHook.setup_output_hook)
def backward_hook_of_module(vm: TorchVM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """Torch is about to set up such a hook. If autograd is to call it after the graph, nodes of the graph set it up; otherwise torch's own code is traced."""
    real = function.value
    graph = vm.graph
    hook, given = vm.observe(args[0]), vm.observe(args[1])
    tensors = [given] if isinstance(given, TensorObject) else [vm.observe(item) for item in abstract.iterate(vm, given)]
    if not graph.modes.current.grad or not any(isinstance(tensor, TensorObject) and tensor.look(vm).requires_grad for tensor in tensors):
        return None
    if graph.body is not graph.outermost or not graph.demands.takes_gradients:
        vm.unsupported(REASON)
    if is_heard(vm, hook) or is_left_to_native_code(vm):
        return vm.call_app(app.set_up_inputs if real is BackwardHook.setup_input_hook else app.set_up_outputs, [hook, given])
    graph.runs_later(Reached(), True, REASON)
    return None


class Hearing(Object):
    """The object that puts the hooks of a module on for one call, in the graph, by this node. While it waits for the module's results, it is the `grad_outputs`
    of torch's own object for that, which stays in the graph: if the call is split inside the module, a restart leaves the hooks to native code.
    """

    __slots__ = ("node", "place", "vm")

    def __init__(self, vm: TorchVM, node: fx.Node) -> None:
        super().__init__(BackwardHook)
        self.node = node
        self.vm, self.place = vm, vm.place()

    def reconstruct(self, cg: Codegen) -> None:
        self.vm.restart(self.place, REASON)


def is_heard(vm: TorchVM, hook: Object) -> bool:
    """Return whether the graph has put hooks on a module's arguments, for this BackwardHook of torch."""
    return isinstance(vm.observe(abstract.getattr_(vm, hook, "grad_outputs")), Hearing)


def hearing_for(vm: TorchVM, hook: Object) -> Hearing:
    """The Hearing that puts on the hooks of a BackwardHook which the trace has made. The graph's call must find the same hooks on the module."""
    module = vm.observe(abstract.getattr_(vm, hook, "module"))
    if not vm.graph.demands.takes_objects or hook.source is not None or module.source is None or not isinstance(module.value, nn.Module):
        vm.unsupported(REASON)
    real = hooks_of(module.value)
    known = [vm.observe(item).value for name in ("user_hooks", "user_pre_hooks") for item in abstract.iterate(vm, abstract.getattr_(vm, hook, name))]
    if len(known) != len(real.full) + len(real.before) or any(one is not other for one, other in zip(known, [*real.full, *real.before])):
        vm.unsupported(REASON)
    listening = vm.graph.part(Listening)
    token = dict(listening.tokens).get(module.source)
    if token is None:
        token = vm.graph.inputs.of_state(module.source, token_of(module.value)).node
        vm.trail.set(listening, "tokens", (*listening.tokens, (module.source, token)))
    return Hearing(vm, vm.graph.node_of(hearing, (token,)))


@models(app.inputs_heard)
def inputs_heard(vm: TorchVM, hook: Object, count: Object, places: Object, *tensors: Object) -> Object:
    found = hearing_for(vm, hook)
    abstract.setattr_(vm, hook, "grad_outputs", found)
    return vm.graph.call_on_nodes(set_up_inputs, (found.node, *vm.graph.nodes_of([count, places, *tensors])))


@models(app.outputs_heard)
def outputs_heard(vm: TorchVM, hook: Object, inputs: Object, input_places: Object, count: Object, places: Object, *tensors: Object) -> Object:
    waiting = vm.observe(abstract.getattr_(vm, hook, "grad_outputs"))
    found = waiting if isinstance(waiting, Hearing) else hearing_for(vm, hook)
    return vm.graph.call_on_nodes(set_up_outputs, (found.node, *vm.graph.nodes_of([inputs, input_places, count, places, *tensors])))


@models(app.passed_through)
def passed_through(vm: TorchVM, *tensors: Object) -> Object:
    return enter(vm, pass_through, tensors)


@models(app.put_on_node)
def put_on_node(vm: TorchVM, tensor: Object, inputs: Object, hook: Object) -> Object:
    (node,) = vm.graph.nodes_of([tensor])
    listener = Listener(vm.graph.node_of(tap_node_, (node,)), hook, vm.observe(inputs).constant(vm))
    vm.trail.set(vm.graph.part(Listening), "hooks", (*vm.graph.part(Listening).hooks, listener))
    return vm.const(None)
