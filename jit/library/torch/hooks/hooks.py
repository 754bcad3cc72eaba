"""Hooks on gradients of tensors that the graph computes, and handles of hooks.

A hook that only computes is part of the graph. Any other is called by the graph's own backward pass (backward_hooks.py), if there is one, or is put on
natively, between two graphs. A hook on a tensor from outside is put on after the graph (input_hooks.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, Protocol

import torch
from torch import fx
from torch.utils.hooks import RemovableHandle

from framejit import breaks
from framejit.graph.builder import LaterReader, TorchVM
from framejit.library.torch.hooks.backward_hooks import looks_like
from framejit.library.torch.hooks.gradient_hooks import Listener, Listening, listen_, stop_listening_, tap_
from framejit.library.torch.inner_graphs.backward_code import BackwardCode, SideEffects, gradients_like, trace_backward, with_gradients_off
from framejit.library.torch.inner_graphs.changes import Reached
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Codegen, Object, settle
from framejit.objects.core.registry import models, rules
from framejit.objects.tensors.tensorobject import TensorObject, read_is_leaf, read_retains_grad
from framejit.objects.types.constobject import ConstObject

METHODS = frozenset({"remove", "__enter__", "__exit__"})


class Registration(Protocol):
    """The registration of a hook by the trace, which its handle represents."""

    def take_off(self, vm: TorchVM) -> None:
        """The program removes the hook."""

    def build_handle(self, cg: Codegen) -> None:
        """Push a real handle."""

    def referents(self) -> list[Object]:
        """The Objects that `build_handle` loads."""


class HandleObject(Object):
    """The handle of a hook that the trace has put on a tensor."""

    __slots__ = ("registration",)

    def __init__(self, registration: Registration) -> None:
        super().__init__(RemovableHandle)
        self.registration = registration

    def getattr(self, vm: VM, name: str) -> Object:
        method = vm.type_lookup(RemovableHandle, name) if name in METHODS else None
        return super().getattr(vm, name) if method is None else method.descriptor_get(vm, self, RemovableHandle)

    def reconstruct(self, cg: Codegen) -> None:
        self.registration.build_handle(cg)

    def referents(self) -> list[Object]:
        return self.registration.referents()


class InGraph:
    """A hook that the graph puts on a tensor, by this node. It has no handle outside the graph: if one is needed, a restart
    leaves the hook to native code.
    """

    def __init__(self, vm: TorchVM, node: fx.Node) -> None:
        self.vm = vm
        self.node = node
        self.place = vm.place()

    def take_off(self, vm: TorchVM) -> None:
        vm.graph.node_of(stop_listening_, (self.node,))

    def build_handle(self, cg: Codegen) -> None:
        self.vm.restart(self.place, breaks.HookUnsupported("register_hook() of a tensor, whose handle is kept"))

    def referents(self) -> list[Object]:
        return []


class DeferredHook(InGraph):
    """A hook that the graph's own backward passes call. Through `reader`, a restart leaves it to native code if others may follow."""

    def __init__(self, vm: TorchVM, listener: Listener, reader: LaterReader) -> None:
        super().__init__(vm, listener.node)
        self.listener = listener
        self.reader = reader

    def take_off(self, vm: TorchVM) -> None:
        listening = vm.graph.part(Listening)
        vm.trail.set(listening, "hooks", tuple([listener for listener in listening.hooks if listener is not self.listener]))
        vm.trail.set(vm.graph, "readers", tuple([reader for reader in vm.graph.readers if reader is not self.reader]))


def put_on_computed(vm: TorchVM, tensor: TensorObject, hook: Object) -> Object:
    """Put a hook on a tensor that the graph has computed."""
    if is_left_to_native_code(vm):
        register_natively(vm, tensor, "register_hook")
    is_outermost = vm.graph.modes.current.grad and vm.graph.transform_around() is None
    traced = vm.attempt(lambda: with_gradients_off(vm, lambda: traced_hook(vm, tensor, hook))) if is_outermost else None
    if traced is not None:
        return listen(vm, tensor, *traced)
    if not may_defer(vm, tensor):
        register_natively(vm, tensor, "register_hook")
    return defer(vm, vm.graph.node_of(tap_, (tensor.node,)), hook, None, "register_hook() of a tensor")


def listen(vm: TorchVM, tensor: TensorObject, code: BackwardCode, gradient: fx.Node) -> Object:
    """Have the graph put on a hook, which is a graph as well."""
    operands = code.graph.operands
    position = operands.index(gradient) if gradient in operands else None
    given = tuple([node for node in operands if node is not gradient])
    reason = breaks.HookUnsupported("register_hook() of a tensor, with a hook that reads what changes before it runs")
    vm.graph.runs_later(code.reached, code.reads_outside, reason)
    if vm.graph.autograd_node is not None:
        vm.graph.autograd_node.listened_to(tensor)
    return HandleObject(InGraph(vm, vm.graph.node_of(listen_, (tensor.node, vm.graph.attach(code.graph, {}), given, position))))


def is_left_to_native_code(vm: TorchVM) -> bool:
    """Return whether an earlier trace has found that the present instruction has to run natively."""
    return vm.attempt(vm.place) is None


def may_defer(vm: TorchVM, tensor: TensorObject) -> bool:
    """Return whether a backward pass in the graph can call a hook on a tensor that the graph has computed."""
    graph = vm.graph
    return graph.modes.current.grad and graph.body is graph.outermost and graph.demands.takes_gradients and not tensor.look(vm).is_leaf


def defer(vm: TorchVM, tap: fx.Node, hook: Object, inputs: int | None, what: str) -> Object:
    """Leave a hook to backward passes in the graph. If another may follow after the graph, a restart leaves the hook to native code.

    `tap`: a node that returns the Tap which they pass. `inputs`: see Listener.
    """
    listener = Listener(tap, hook, inputs)
    vm.trail.set(vm.graph.part(Listening), "hooks", (*vm.graph.part(Listening).hooks, listener))
    return HandleObject(DeferredHook(vm, listener, vm.graph.runs_later(Reached(), True, breaks.HookUnsupported(what))))


def traced_hook(vm: TorchVM, tensor: TensorObject, hook: Object) -> tuple[BackwardCode, fx.Node] | None:
    """A hook as a graph, and the node that stands for the gradient passed to it; None if it can't be a graph."""
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


def register_natively(vm: TorchVM, tensor: TensorObject, name: str) -> NoReturn:
    """Stop the trace at a method that makes autograd track the tensor itself."""
    if vm.graph.autograd_node is not None:
        vm.graph.autograd_node.asked_about(tensor, f"{name}() of a tensor")
    vm.unsupported(breaks.HookUnsupported(f"{name}() of a tensor"))


@models(torch.Tensor.retain_grad)
def retain_grad(vm: TorchVM, self: TensorObject) -> Object:
    """Keep the gradient of a tensor that the graph has computed, if its backward pass computes it. If another may follow, and the tensor leaves a graph that is
    one operator to autograd, a restart leaves the call to native code."""
    vm.graph.check_record(self)
    fake = self.look(vm)
    if not fake.requires_grad:
        vm.raise_(RuntimeError, "can't retain_grad on Tensor that has requires_grad=False")
    if self.source is not None or self.retains or fake.is_leaf or not may_defer(vm, self) or is_left_to_native_code(vm):
        return retain_grad_of_input(vm, self)
    vm.trail.set(self, "retains", True)
    vm.trail.set(vm.graph.part(Listening), "retaining", (*vm.graph.part(Listening).retaining, self))
    if vm.graph.autograd_node is not None:
        vm.graph.runs_later(Reached(), True, breaks.HookUnsupported("retain_grad() of a tensor"), self.node)
    return vm.const(None)


def retain_grad_of_input(vm: TorchVM, tensor: TensorObject) -> Object:
    """retain_grad of a tensor from outside: a leaf keeps its gradient anyway, and so does a tensor for which it was called before."""
    if tensor.source is None or not tensor.kind.is_disguised:
        if read_is_leaf(vm, tensor).constant(vm) or read_retains_grad(vm, tensor).constant(vm):
            return vm.const(None)
    register_natively(vm, tensor, "retain_grad")


@models(torch.Tensor.register_hook)
def register_hook(vm: TorchVM, self: TensorObject, hook: Object) -> Object:
    vm.graph.check_record(self)
    if not self.look(vm).requires_grad:
        vm.raise_(RuntimeError, "cannot register a hook on a tensor that doesn't require gradient")
    return put_on_computed(vm, self, hook) if self.source is None else put_on_input(vm, self, hook, "register_hook")


@models(torch.Tensor.register_post_accumulate_grad_hook)
def register_post_accumulate_grad_hook(vm: TorchVM, self: TensorObject, hook: Object) -> Object:
    name = "register_post_accumulate_grad_hook"
    if self.source is None or not self.look(vm).requires_grad or not self.value.is_leaf:
        register_natively(vm, self, name)
    return put_on_input(vm, self, hook, name)


def put_on_input(vm: TorchVM, tensor: TensorObject, hook: Object, method: str) -> Object:
    """Put a hook on a tensor from outside, by this method: after the graph, whose own backward passes call it."""
    graph = vm.graph
    if graph.body is not graph.outermost or graph.transform_around() is not None or tensor.kind.is_disguised or graph.fakes.has_new_version(tensor.node):
        register_natively(vm, tensor, method)
    if graph.autograd_node is not None and holds_computed(vm, hook):
        vm.unsupported(breaks.NotInsideAutogradNode(f"{method}() with a hook that may ask for gradients of what was computed,"))
    read_is_leaf(vm, tensor)
    registration = OnInput(vm, tensor, hook, method, graph.part(Listening).on_inputs)
    vm.trail.set(graph.part(Listening), "on_inputs", (*graph.part(Listening).on_inputs, registration))
    vm.effects.in_order(registration)
    return registration.handle


def holds_computed(vm: TorchVM, hook: Object) -> bool:
    """Return whether a hook may ask for gradients of something that the graph has computed."""
    seen: set[int] = set()
    waiting = [hook]
    while waiting:
        obj = settle(waiting.pop())
        if isinstance(obj, TensorObject) and obj.source is None and obj.fake.requires_grad:
            return True
        if id(obj) not in seen and (obj.source is None or vm.effects.is_mutated(obj)):
            seen.add(id(obj))
            waiting += obj.referents()
    return False


class OnInput:
    """The effect of putting a hook on a tensor from outside, by a method of this name. `earlier`: the hooks that were put on before it."""

    def __init__(self, vm: TorchVM, tensor: TensorObject, hook: Object, method: str, earlier: tuple[OnInput, ...]) -> None:
        self.vm = vm
        self.tensor = tensor
        self.hook = hook
        self.method = method
        self.earlier = earlier
        self.removed = False
        self.place = vm.place()
        self.handle = HandleObject(self)

    def take_off(self, vm: TorchVM) -> None:
        vm.trail.set(self, "removed", True)

    def replay(self, cg: Codegen) -> None:
        if self.removed:
            return
        if self.vm.graph.fakes.has_new_version(self.tensor.node) and not self.tensor.value.is_leaf:  # the hook is on the tensor's state before the change
            self.vm.restart(self.place, breaks.HookUnsupported(f"{self.method}() of a tensor that is changed in place"))
        cg.load(self.handle)
        cg.pop_top()

    def build_handle(self, cg: Codegen) -> None:
        before = [registration.handle for registration in self.earlier if registration.tensor is self.tensor and not registration.removed]
        cg.load(self.tensor)
        cg.load(self.hook)
        for handle in before:  # autograd must call their hooks before this one
            cg.load(handle)
        cg.call_const(PUT_ON[self.method, self.removed], 2 + len(before))

    def referents(self) -> list[Object]:
        return [self.tensor, self.hook]


def put_on(method: str, removed: bool) -> Callable[..., RemovableHandle]:
    """The function by which generated code puts on a hook, and may remove it at once. It takes the tensor and the hook."""

    def function(tensor: torch.Tensor, hook: Callable[..., object], *earlier: RemovableHandle) -> RemovableHandle:
        with torch._C.DisableTorchFunction():
            handle: RemovableHandle = getattr(tensor, method)(hook)
        if removed:
            handle.remove()
        return handle

    return function


PUT_ON = {(method, removed): put_on(method, removed) for method in ("register_hook", "register_post_accumulate_grad_hook") for removed in (False, True)}


@rules(RemovableHandle.remove)
def removal_of_hook(vm: TorchVM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """Remove a hook that the trace has put on a tensor. After a graph break, one that was put on before it is removed natively, because its number differs
    in each call. None: it's neither."""
    handle = vm.observe(args[0])
    if isinstance(handle, HandleObject):
        handle.registration.take_off(vm)
        return vm.const(None)
    if vm.resumed and handle.source is not None:
        vm.unsupported(breaks.HookUnsupported("remove() of a handle that was made before a graph break"))
    return None
