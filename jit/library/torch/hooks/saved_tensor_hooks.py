"""Hooks on saved tensors: those that only compute are set and removed in the graph; others are set natively, between two graphs.

The hooks are traced for each saved tensor that looks unlike those before it: they may do nothing but compute a tensor that looks like it. In the graph the
program's own functions are called, where eager calls them, and in the modes that are in force there.
"""

from __future__ import annotations

from types import CellType, CodeType, FunctionType
from typing import Any, NoReturn

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.graph.inner import InnerGraph
from framejit.graph.on_fakes import STAND_INS
from framejit.graph.operator_call import OperatorCall, Phase, rule
from framejit.graph.prune import has_effect
from framejit.graph.trace_state import TraceState
from framejit.library.torch.autograd.autograd_settings import AUTOGRAD, HOOKS_FORBIDDEN, are_hooks_set_outside
from framejit.library.torch.hooks.backward_hooks import looks_like
from framejit.library.torch.inner_graphs.backward_code import BackwardCode, SideEffects, trace_backward, with_gradients_off
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, NotConstant, Object
from framejit.objects.core.registry import models
from framejit.objects.tensors.tensorkind import kind_of_class
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.types.funcobject import FunctionObject
from framejit.objects.types.tupleobject import TupleObject
from framejit.torch_state.saved_tensor_hooks import SavedTensorHooks, TracedHooks

CLASSES = (torch.Tensor, torch.nn.Parameter)
"""The classes that a saved tensor may have. AOTAutograd calls hooks with tensors of the other class."""


def real_function(vm: VM, obj: Object) -> Any:
    """A function equivalent to a function of the trace, which holds nothing of the call. Raises NotConstant if there is none."""
    obj = vm.observe(obj)
    if not isinstance(obj, FunctionObject):
        return obj.constant(vm)
    cells = [cell.load(vm) for cell in obj.cells(vm)]  # type: ignore[attr-defined]
    if obj.source is not None and not cells:
        return obj.value
    namespace = obj.globals.value
    if obj.source is not None or None in cells or type(namespace) is not dict or obj.kwdefaults is not None:
        raise NotConstant(obj)
    defaults = tuple([real_function(vm, value) for value in obj.default_values(vm)])
    closure = tuple([CellType(real_function(vm, cell)) for cell in cells if cell is not None])
    return FunctionType(obj.code, namespace, obj.code.co_name, defaults, closure)


@models(AUTOGRAD._push_saved_tensors_default_hooks)
def push_hooks(vm: TorchVM, pack_hook: Object, unpack_hook: Object) -> Object:
    graph = vm.graph
    checked = CheckedHooks(vm, pack_hook, unpack_hook)
    graph.reject_transformed("hooks on saved tensors")
    if graph.is_inner():
        vm.unsupported(breaks.GlobalStateUnsupported("hooks on saved tensors, in a function that an operator takes"))
    if not graph.demands.takes_hooks:
        vm.unsupported(breaks.GlobalStateUnsupported("hooks on saved tensors, with this backend"))
    forbidden = graph.modes.switches.read(vm.guards, HOOKS_FORBIDDEN) or HOOKS_FORBIDDEN.read()  # what the trace sets is set after the graph only
    if graph.function_modes.asks_modes() or forbidden is not None:
        vm.unsupported(breaks.GlobalStateUnsupported("hooks on saved tensors, under a function mode, or where they are forbidden"))
    if graph.autograd_node is not None and are_hooks_set_outside(vm):
        vm.unsupported(breaks.GlobalStateUnsupported("hooks on saved tensors, where others are set, with a backend that uses AOTAutograd"))
    try:
        hooks = SavedTensorHooks(real_function(vm, pack_hook), real_function(vm, unpack_hook))
    except NotConstant:
        vm.unsupported(checked.reason)
    graph.modes.push_hooks(TracedHooks(hooks, checked.check), graph.body.attach(hooks), TupleObject([pack_hook, unpack_hook]))
    return vm.const(None)


@models(AUTOGRAD._pop_saved_tensors_default_hooks)
def pop_hooks(vm: TorchVM) -> Object:
    if not vm.graph.modes.pop_hooks():
        vm.unsupported(breaks.GlobalStateUnsupported("hooks on saved tensors that were set elsewhere"))
    return vm.const(None)


class CheckedHooks:
    """Hooks that the program sets at the present instruction. If they do more than compute, a restart leaves that instruction to native code."""

    def __init__(self, vm: TorchVM, pack: Object, unpack: Object) -> None:
        self.vm = vm
        self.pack = pack
        self.unpack = unpack
        self.place: tuple[CodeType, int] = vm.place()
        self.reason = breaks.GlobalStateUnsupported("hooks on saved tensors that may do more than compute")
        self.known: frozenset[Any] = frozenset()
        """The looks of the saved tensors for which the hooks have been traced."""

    def check(self, hooks: TracedHooks, target: Any) -> None:
        """Trace the hooks for the tensors that an operator has saved."""
        if torch.is_grad_enabled() and (target in STAND_INS or hasattr(target, "on_fakes")):
            self.break_graph()  # the real operator doesn't save the same tensors
        saved, hooks.saved = hooks.saved, []
        if any(kind_of_class(type(tensor)).wraps or tensor.layout is not torch.strided or tensor.is_conj() or tensor.is_neg() for tensor in saved):
            self.break_graph()
        for tensor in saved:
            key = look_of(tensor)
            if key not in self.known and isinstance(tensor, FakeTensor):  # with a real one, framejit computes for itself
                self.trace(tensor)
                self.vm.trail.set(self, "known", self.known | {key})

    def trace(self, tensor: torch.Tensor) -> None:
        """Trace the hooks for a tensor that looks like this one."""
        graph = self.vm.graph
        found = [self.traced(tensor, cls) for cls in CLASSES]
        if graph.autograd_node is not None and (len({code.graph.pattern() for code in found}) > 1 or is_moved(found[0].graph, tensor.device)):
            self.break_graph()

    def traced(self, tensor: torch.Tensor, cls: type) -> BackwardCode:
        """The hooks as a graph, for a tensor of a class."""
        vm, graph = self.vm, self.vm.graph
        try:
            code: BackwardCode | None = vm.attempt(lambda: with_gradients_off(vm, lambda: self.computed(tensor, cls)))
        except SideEffects:
            self.break_graph()
        if (
            code is None
            or code.reads_outside
            or code.graph.operands
            or any(code.reached.has_outside(obj) for obj in vm.effects.mutated_since(0))
            or any(has_effect(node, graph.fakes.running) for node in code.graph.graph.nodes if node.op.startswith("call") and node not in code.graph.kept)
        ):
            self.break_graph()
        graph.runs_later(code.reached, False, self.reason, place=self.place)
        return code

    def computed(self, tensor: torch.Tensor, cls: type) -> BackwardCode | None:
        """The graph of packing and unpacking such a tensor; None if the result doesn't look like it."""
        vm, graph = self.vm, self.vm.graph

        def make() -> torch.Tensor:
            found = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device)
            with torch.enable_grad():
                found.requires_grad_(tensor.requires_grad)
                return found if cls is torch.nn.Parameter or not found.requires_grad else found.view_as(found)

        def run() -> list[Object] | None:
            saved = graph.inner_argument("saved", make, cls=cls)
            found = vm.observe(abstract.call(vm, self.unpack, [abstract.call(vm, self.pack, [saved])]))
            is_alike = isinstance(found, TensorObject) and not found.kind.is_disguised and looks_like(found.look(vm), saved.look(vm))
            return [found] if is_alike and not graph.body.changes_arguments() else None

        return trace_backward(vm, [self.pack, self.unpack], run)

    def break_graph(self) -> NoReturn:
        self.vm.restart(self.place, self.reason)


def is_moved(graph: InnerGraph, device: torch.device) -> bool:
    """Return whether a graph moves a tensor to another device. AOTAutograd may prefer to keep the tensor as it was, and move it when the backward pass runs."""
    made = [node.meta.get("example_value") for node in graph.graph.nodes]
    return any(isinstance(value, torch.Tensor) and value.device != device for value in made)


def look_of(tensor: torch.Tensor) -> tuple[object, ...]:
    """The facts that a program may ask about a tensor. Symbolic sizes are distinguished by what they are computed from."""
    sizes = tuple([str(size) for size in (*tensor.size(), *tensor.stride())])
    return tensor.dtype, tensor.device, sizes, tensor.requires_grad


@models(AUTOGRAD._saved_tensors_hooks_disable)
def disable_hooks(vm: TorchVM, error_message: Object) -> Object:
    if vm.graph.modes.current.hooks is not None or are_hooks_set_outside(vm):
        vm.unsupported(breaks.GlobalStateUnsupported("forbidding hooks on saved tensors, where there are some"))
    vm.graph.modes.switches.write(vm.guards, HOOKS_FORBIDDEN, vm.observe(error_message).constant(vm))
    return vm.const(None)


@models(AUTOGRAD._saved_tensors_hooks_enable)
def enable_hooks(vm: TorchVM) -> Object:
    vm.graph.modes.switches.write(vm.guards, HOOKS_FORBIDDEN, None)
    return vm.const(None)


@rule(Phase.NODE)
def check_hooks(state: TraceState, operation: OperatorCall) -> None:
    """Check an operator that may have saved tensors with hooks of the program's."""
    if state.modes.current.hooks is not None:
        state.modes.current.hooks.check(operation.target)
