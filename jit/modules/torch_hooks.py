"""Hooks on gradients: one that only computes is part of the graph; others are put on their tensors natively, between two graphs."""

from __future__ import annotations

from typing import NoReturn

import torch
from torch import fx
from torch.utils.hooks import BackwardHook, RemovableHandle

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.graph.gradient_hooks import listen_, stop_listening_
from framejit.modules.backward_code import BackwardCode, SideEffects, gradients_like, trace_backward, with_gradients_off
from framejit.objects import abstract
from framejit.objects.constobject import ConstObject
from framejit.objects.object import VM, Codegen, Object
from framejit.objects.registry import library, models
from framejit.objects.tensorobject import TensorObject

METHODS = frozenset({"remove", "__enter__", "__exit__"})


class HandleObject(Object):
    """The handle of a hook that the graph puts on a tensor, by this node. Outside the graph there is none, so that where somebody wants it, a
    restart leaves the hook to native code.
    """

    __slots__ = ("node", "vm", "place")

    def __init__(self, vm: TorchVM, node: fx.Node) -> None:
        super().__init__(RemovableHandle)
        self.node = node
        self.vm = vm
        self.place = vm.place()

    def getattr(self, vm: VM, name: str) -> Object:
        method = vm.type_lookup(RemovableHandle, name) if name in METHODS else None
        return super().getattr(vm, name) if method is None else method.descriptor_get(vm, self, RemovableHandle)

    def reconstruct(self, cg: Codegen) -> None:
        self.vm.restart(self.place, breaks.HookUnsupported("register_hook() of a tensor, whose handle is kept"))


@models(torch.Tensor.register_hook)
def register_hook(vm: TorchVM, self: TensorObject, hook: Object) -> Object:
    """The graph can hold a hook on what it has computed. On its inputs autograd is told of others' shares of the gradient too."""
    if not self.look(vm).requires_grad:
        vm.raise_(RuntimeError, "cannot register a hook on a tensor that doesn't require gradient")
    traced = None
    if self.source is None and vm.graph.modes.current.grad and vm.graph.transform_around() is None:
        traced = vm.attempt(lambda: with_gradients_off(vm, lambda: traced_hook(vm, self, hook)))
    if traced is None:
        register_natively(vm, self, "register_hook")
    code, gradient = traced
    operands = code.graph.operands
    position = operands.index(gradient) if gradient in operands else None
    given = tuple([node for node in operands if node is not gradient])
    reason = breaks.HookUnsupported("register_hook() of a tensor, with a hook that reads what changes before it runs")
    vm.graph.runs_later(code.reached, code.reads_outside, reason)
    if vm.graph.autograd_node is not None:
        vm.graph.autograd_node.listened_to(self)
    node = vm.graph.node_of(listen_, (self.node, vm.graph.attach(code.graph, {}), given, position))
    return HandleObject(vm, node)


def traced_hook(vm: TorchVM, tensor: TensorObject, hook: Object) -> tuple[BackwardCode, fx.Node] | None:
    """A hook as a graph, and the node that stands for the gradient which it is given; None where it can't be a graph."""
    (gradient,) = gradients_like(vm, [tensor])
    assert isinstance(gradient, TensorObject)

    def called() -> list[Object] | None:
        found = vm.observe(abstract.call(vm, hook, [gradient]))
        if isinstance(found, ConstObject) and found.value is None:
            return []
        return [found] if isinstance(found, TensorObject) and looks_like(found.look(vm), gradient.look(vm)) else None

    try:
        code = trace_backward(vm, [hook], called)
    except SideEffects:
        return None
    return (code, gradient.node) if code is not None and code.again else None


def looks_like(found: torch.Tensor, gradient: torch.Tensor) -> bool:
    """Whether autograd takes what a hook has given in the place of a gradient."""
    return found.shape == gradient.shape and found.dtype == gradient.dtype and found.device == gradient.device


def register_natively(vm: TorchVM, tensor: TensorObject, name: str) -> NoReturn:
    """Stop the trace at a method that makes autograd track the tensor itself."""
    if vm.graph.autograd_node is not None:
        vm.graph.autograd_node.asked_about(tensor, f"{name}() of a tensor")
    vm.unsupported(breaks.HookUnsupported(f"{name}() of a tensor"))


@models(torch.Tensor.register_post_accumulate_grad_hook)
def register_post_accumulate_grad_hook(vm: TorchVM, self: TensorObject, hook: Object) -> NoReturn:
    register_natively(vm, self, "register_post_accumulate_grad_hook")


@models(torch.Tensor.retain_grad)
def retain_grad(vm: TorchVM, self: TensorObject) -> NoReturn:
    register_natively(vm, self, "retain_grad")


@library
def hook_machinery(vm: TorchVM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """Taking off a hook of the graph's; and what torch does for hooks of modules: it puts a node of autograd's around what goes into a module or
    comes out of it, and hooks on that. None: it's neither, or torch's own code says what is done.
    """
    real = function.value
    if real is RemovableHandle.remove:
        handle = vm.observe(args[0])
        if isinstance(handle, HandleObject):
            vm.graph.node_of(stop_listening_, (handle.node,))
            return vm.const(None)
    if real is BackwardHook.setup_input_hook or real is BackwardHook.setup_output_hook:
        if vm.graph.modes.current.grad and any(requires_grad(vm, item) for item in abstract.iterate(vm, args[1])):
            vm.unsupported(breaks.HookUnsupported("a full backward hook of a module"))
    return None


def requires_grad(vm: TorchVM, value: Object) -> bool:
    """Whether a value is a tensor that requires a gradient."""
    value = vm.observe(value)
    return isinstance(value, TensorObject) and value.look(vm).requires_grad
