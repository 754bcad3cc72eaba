"""torch.optim: steps of optimizers are traced up to the function that does the arithmetic, which is one node of the graph.

If the backend takes no such graph, steps run uncompiled.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from importlib.util import find_spec
from types import CodeType, FunctionType
from typing import Any

import torch
from torch.autograd.graph import increment_version
from torch.optim.optimizer import _use_grad_for_differentiable

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.graph.on_fakes import stand_in
from framejit.library.torch.optim import optimizer_steps, schedulers
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import models, rules_of_code, runs_uncompiled
from framejit.objects.core.vm import FrameView
from framejit.objects.numbers.numberobject import NumberObject
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchcall import enter, rest_on
from framejit.objects.types.listobject import ListObject
from framejit.plain import optim as app

MODULES = ("adam", "sgd", "nadam", "radam", "adamax", "adagrad", "adadelta", "rmsprop", "asgd", "rprop", "_adafactor", "_muon")
"""Modules of torch.optim with a function of the same name, which does the arithmetic of a step."""
BY_TENSORS: dict[str, Callable[..., None]] = {"radam": optimizer_steps.radam, "asgd": optimizer_steps.asgd, "adafactor": optimizer_steps.adafactor}
"""The functions that AOTAutograd traces in place of those that read data, by their names."""
CONDITIONS = {
    **dict.fromkeys(("weight_decay", "momentum"), app.if_compared_with_zero),
    **dict.fromkeys(("beta1", "alpha"), app.if_complement_is_a_weight),
}
"""For settings that the arithmetic, or Inductor's version of it, compares: the comparisons that must hold if one is to be a symbol of the graph."""
CONDITIONS_OF = {"muon": {**CONDITIONS, "momentum": app.if_both_are_weights}}
"""By the names of functions whose arithmetic uses a setting in another way: the conditions on their settings."""

MADE = "momentum_buffer_list"
"""The list in which the arithmetic of SGD puts buffers that don't exist yet."""


def code_inside(code: CodeType) -> CodeType:
    """The code of the function that a function defines. From Python 3.14 on, annotations have code of their own, which comes first."""
    return next(constant for constant in code.co_consts if isinstance(constant, CodeType) and constant.co_name != "__annotate__")


STEP = code_inside(torch.optim.Optimizer.profile_hook_step.__code__)
"""The code that torch wraps around the `step` of each class of optimizers."""
WITH_GRAD_MODE = code_inside(_use_grad_for_differentiable.__code__)
"""The code that torch wraps around the `step` of its own optimizers."""


def wrapped(function: Any) -> Any:
    """The function that STEP or WITH_GRAD_MODE wraps."""
    return inspect.getclosurevars(function).nonlocals.get("func") if isinstance(function, FunctionType) else None


def is_traceable(vm: TorchVM, function: Any) -> bool:
    """Return whether the function in STEP is a step that the program has written, or one of torch's whose arithmetic can be one node."""
    module = str(getattr(wrapped(function), "__module__", None))
    return not module.startswith("torch.optim.") or (vm.graph.demands.takes_gradients and module in TRACEABLE)


runs_uncompiled(STEP, breaks.OptimizerStep("an optimizer of torch.optim"), is_traceable)


@rules_of_code(WITH_GRAD_MODE)
def with_grad_mode(vm: TorchVM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """A step of one of torch's optimizers, inside what STEP does around it."""
    rest_on(vm, function)
    schedulers.make_in_place(vm, args[0])
    return vm.call_app(app.step, [vm.from_real(wrapped(function.value)), *args], kwargs)


def is_from_outside(frame: FrameView[Object] | None) -> bool:
    """Return whether the optimizer whose `step` this frame runs existed before the trace began."""
    optimizer = None if frame is None else frame.locals[0]
    return isinstance(optimizer, Object) and optimizer.source is not None


def as_traced(function: str, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments with which AOTAutograd can trace the arithmetic of a step."""
    for name, conditions in CONDITIONS_OF.get(function, CONDITIONS).items():
        if isinstance(given.get(name), torch.SymFloat):
            for condition in conditions(given[name]):
                torch._check(condition)  # enter_graph has guarded it
    if not given.get("fused"):
        return given
    on_gpu = {"capturable": any(step.is_cuda for step in given["state_steps"])} if "capturable" in given else {}
    return {**given, "fused": False, "foreach": False, **on_gpu}  # the backend fuses by itself, and AOTAutograd can't trace the kernels; steps stay on a GPU


def reject_unsupported(vm: TorchVM, given: dict[str, Object], lists: dict[str, list[Object]]) -> None:
    """Have a step run uncompiled if it isn't arithmetic on dense tensors, or if autograd is to record it."""
    if records(vm, given, lists):
        vm.unsupported(breaks.OptimizerStep("an optimizer with differentiable="))
    for name in ("capturable", "grad_scale", "found_inf"):
        if name in given and given[name].constant(vm) not in (None, False):
            vm.unsupported(breaks.OptimizerStep(f"an optimizer with {name}="))
    for tensor in (item for items in lists.values() for item in items if item.cls is not type(None)):
        if not isinstance(tensor, TensorObject) or tensor.look(vm).layout is not torch.strided or tensor.look(vm).is_inference():
            vm.unsupported(breaks.OptimizerStep("an optimizer with other than dense tensors"))


def records(vm: TorchVM, given: dict[str, Object], lists: dict[str, list[Object]]) -> bool:
    """Return whether autograd is to record a step: with `differentiable=True`, which SGD doesn't pass to its arithmetic."""
    if "differentiable" in given and abstract.truth(vm, given["differentiable"]):
        return True
    tensors = [item.look(vm) for items in lists.values() for item in items if isinstance(item, TensorObject)]
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def leave_first_step(vm: TorchVM, name: str, given: dict[str, Object], state: list[Object]) -> None:
    """Have the call run uncompiled if the step is the first one, with a state that it has just made, and a second call is to be expected."""
    makes_state = any(item.source is None for item in state)
    if makes_state and not vm.graph.demands.takes_first_steps and is_from_outside(vm.frame) and not vm.is_in_loop():
        for number in given.values():
            if isinstance(number, NumberObject):
                number.constant(vm)  # a number that differs at the second step is then seen to vary
        vm.unsupported(breaks.FirstStep(f"torch.optim's {name}"))


def rest_on_decisions(vm: TorchVM, function: str, given: dict[str, Object]) -> None:
    """Guard the decisions that the arithmetic makes by its settings, which AOTAutograd traces."""
    assert vm.graph.autograd_node is not None
    vm.trail.set(vm.graph.autograd_node, "asks", True)
    for name, conditions in CONDITIONS_OF.get(function, CONDITIONS).items():
        number = given.get(name)
        if isinstance(number, NumberObject) and not all(abstract.truth(vm, item) for item in abstract.iterate(vm, vm.call_app(conditions, [number], {}))):
            number.constant(vm)


def reject_empty(vm: TorchVM, params: list[Object]) -> None:
    """Stop the trace at a step of Adafactor, which divides by the numbers of elements, of an empty parameter."""
    if any(isinstance(param, TensorObject) and not param.look(vm).numel() for param in params):
        vm.unsupported(breaks.OptimizerStep("Adafactor of an empty parameter"))


def arithmetic(function: Callable[..., Any]) -> None:
    """Make the arithmetic of a step one node, which changes all tensors that it is given except the gradients, and returns the buffers that it makes."""
    signature = inspect.signature(function)
    parameters, gradients = list(signature.parameters)[:2]
    by_tensors = BY_TENSORS.get(function.__name__, function)

    def enter_graph(vm: TorchVM, *args: Object, **kwargs: Object) -> Object:
        given = {name: vm.observe(value) for name, value in signature.bind(*args, **kwargs).arguments.items()}
        lists = {name: [vm.observe(item) for item in value.items(vm)] for name, value in given.items() if isinstance(value, ListObject)}
        reject_unsupported(vm, given, lists)
        state = [item for name, items in lists.items() if name not in (parameters, gradients) for item in items if item.cls is not type(None)]
        leave_first_step(vm, function.__name__, given, [*state, *lists.get(MADE, ())])
        if vm.graph.autograd_node is not None:
            if by_tensors is optimizer_steps.adafactor:
                reject_empty(vm, lists[parameters])
            rest_on_decisions(vm, function.__name__, given)
        made = enter(vm, compute, args, kwargs)
        for index, item in enumerate(lists.get(MADE, ())):
            if item.cls is type(None):
                abstract.setitem(vm, given[MADE], vm.const(index), abstract.getitem(vm, made, vm.const(index)))
        return vm.const(None)

    def compute(*args: Any, **kwargs: Any) -> Any:
        given: dict[str, Any] = signature.bind(*args, **kwargs).arguments
        given = {name: list(value) if isinstance(value, list) else value for name, value in given.items()}
        if torch._C._len_torch_dispatch_stack() == 0:
            function(**given)
        else:
            by_tensors(**as_traced(function.__name__, given))
        return given.get(MADE)

    def change(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        for name, value in given.items():
            if isinstance(value, (list, tuple)) and name != gradients:
                increment_version([item for item in value if isinstance(item, torch.Tensor)])
        made = given.get(MADE)
        return made and [gradient.clone() if item is None else item for item, gradient in zip(made, given[gradients], strict=True)]

    compute.__name__ = compute.__qualname__ = f"{function.__name__}_step"
    models(function)(enter_graph)
    stand_in(compute, change)


TRACEABLE = frozenset(f"torch.optim.{name}" for name in (*MODULES, "adamw"))
for _name in MODULES:
    if find_spec(f"torch.optim.{_name}") is not None:
        arithmetic(getattr(importlib.import_module(f"torch.optim.{_name}"), _name.removeprefix("_")))


@models(torch.optim.Optimizer.zero_grad)
def zero_grad(vm: VM, *args: Object, **kwargs: Object) -> Object:
    """Optimizer.zero_grad, which torch marks as not to be compiled by its own tracer."""
    return vm.call_app(app.zero_grad, [vm.from_real(ZERO_GRAD), *args], kwargs)


ZERO_GRAD = inspect.unwrap(torch.optim.Optimizer.zero_grad)


@models(torch.optim.Optimizer.add_param_group)
def add_param_group(vm: VM, *args: Object, **kwargs: Object) -> Object:
    """Optimizer.add_param_group, which torch marks as not to be compiled by its own tracer."""
    return vm.call_app(app.plain, [vm.from_real(ADD_PARAM_GROUP), *args], kwargs)


ADD_PARAM_GROUP = inspect.unwrap(torch.optim.Optimizer.add_param_group)


@models(torch.nn.Module.zero_grad)
def zero_grad_of_module(vm: VM, *args: Object, **kwargs: Object) -> Object:
    """torch.nn.Module.zero_grad."""
    return vm.call_app(app.zero_grad_of_module, [vm.from_real(MODULE_ZERO_GRAD), *args], kwargs)


MODULE_ZERO_GRAD = inspect.unwrap(torch.nn.Module.zero_grad)


def health_check(vm: TorchVM, self: Object) -> Object:
    """Check whether an accelerator records a graph of the calls, and whether this optimizer can be in one."""
    if torch.xpu.is_available():
        vm.unsupported(breaks.OptimizerStep("an optimizer beside an XPU"))
    if torch.cuda.is_available() and vm.guards.read(torch._C._cuda_isCurrentStreamCapturing):
        vm.unsupported(breaks.OptimizerStep("an optimizer in a CUDA graph"))
    return vm.const(None)


for _name in ("_accelerator_graph_capture_health_check", "_cuda_graph_capture_health_check"):
    if hasattr(torch.optim.Optimizer, _name):
        models(getattr(torch.optim.Optimizer, _name))(health_check)


@models(torch._C._group_tensors_by_device_and_dtype)
def group_tensors(vm: TorchVM, lists: Object, with_indices: Object | None = None) -> Object:
    """Group tensors. If there are several groups, their order can't be known beforehand."""
    rows = [vm.observe(row) for row in abstract.iterate(vm, vm.observe(lists))]
    first = [vm.observe(item) for item in abstract.iterate(vm, rows[0])] if rows else []
    kinds = {(item.look(vm).device, item.look(vm).dtype) if isinstance(item, TensorObject) else None for item in first}
    if len(kinds) != 1 or None in kinds:
        vm.unsupported(breaks.UnsupportedCall("torch._C._group_tensors_by_device_and_dtype with tensors of several kinds"))
    return vm.call_app(app.one_group, [vm.from_real(kinds.pop()), lists, *([] if with_indices is None else [with_indices])])
