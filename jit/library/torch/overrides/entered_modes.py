"""Modes that are asked before each of torch's functions (`TorchFunctionMode`), and their entry and exit by the program; `with torch.device(...)` is one."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._device import DeviceContext, _device_constructors

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.objects.core import abstract
from framejit.objects.core.object import Object
from framejit.objects.core.registry import Model, around, models
from framejit.objects.tensors.overrides import arguments, ask_modes
from framejit.torch_state.torch_function_stack import AT, LENGTH, POP, PUSH, default_devices

NATIVE = torch._C
ELSEWHERE = breaks.GlobalStateUnsupported("a default device that was set elsewhere")


def push(vm: TorchVM, mode: Object) -> None:
    """Put a mode in force."""
    modes = vm.graph.function_modes
    modes.set_stack((*modes.stack, mode))


@models(PUSH)
def push_on_stack(vm: TorchVM, mode: Object) -> Object:
    push(vm, vm.observe(mode))
    return vm.const(None)


@models(POP)
def pop_from_stack(vm: TorchVM) -> Object:
    """End the innermost mode. Default devices below the program's modes are also in force while graphs run: they end natively."""
    stack = vm.graph.function_modes.stack
    if not stack:
        vm.unsupported(ELSEWHERE)
    vm.graph.function_modes.set_stack(stack[:-1])
    return stack[-1]


@models(torch.device.__enter__)
def enter_device(vm: TorchVM, self: Object) -> Object:
    """THPDevice_enter."""
    push(vm, vm.observe(abstract.call(vm, vm.const(DeviceContext), [self])))
    return self


@models(torch.device.__exit__)
def leave_device(vm: TorchVM, self: Object, *error: Object) -> Object:
    """THPDevice_exit, which ends the innermost mode, whichever that is."""
    pop_from_stack(vm)
    return vm.const(None)


@models(DeviceContext.__torch_function__)
def device_override(vm: TorchVM, self: Object, func: Object, types: Object, args: Object | None = None, kwargs: Object | None = None) -> Object:
    """torch/utils/_device.py: the device is passed to functions that make tensors."""
    func = vm.observe(func)
    positional, by_name = arguments(vm, args, kwargs)
    if func.value in _device_constructors() and ("device" not in by_name or vm.observe(by_name["device"]).cls is type(None)):
        by_name["device"] = abstract.getattr_(vm, self, "device")
    return abstract.call(vm, func, positional, by_name)


# Functions that read the stack. The default devices at its bottom, which aren't the trace's, are guarded with the global state.


@models(NATIVE._is_torch_function_mode_enabled)
def is_mode_enabled(vm: TorchVM) -> Object:
    return vm.const(vm.graph.function_modes.asks_modes() or NATIVE._is_torch_function_mode_enabled())


@models(LENGTH)
def stack_length(vm: TorchVM) -> Object:
    return vm.const(len(vm.graph.function_modes.stack) + default_devices())


@models(AT)
def stack_at(vm: TorchVM, level: Object) -> Object:
    index = vm.observe(level).constant(vm) - default_devices()
    if not 0 <= index < len(vm.graph.function_modes.stack):
        vm.unsupported(ELSEWHERE)
    return vm.graph.function_modes.stack[index]


# Functions that ask modes, and aren't operations on tensors.


def asking_modes(function: Any) -> None:
    """Let modes be asked before the function's own model."""

    @around(function)
    def asked(vm: TorchVM, *args: Object, own: Model, **kwargs: Object) -> Object:
        if vm.graph.function_modes.asks_modes():
            return ask_modes(vm, function, args, kwargs)
        return own(vm, *args, **kwargs)


for _function in (NATIVE._set_grad_enabled, torch.device):
    asking_modes(_function)


@around(torch.get_default_device)
def get_default_device(vm: TorchVM, own: Model) -> Object:
    """torch.get_default_device. Modes see how torch determines the index of the device: if there are any, its own code is traced."""
    if any(mode.cls is not DeviceContext for mode in vm.graph.function_modes.stack):
        return vm.run_function(vm.pin(torch.get_default_device), {})
    for mode in reversed(vm.graph.function_modes.stack):
        if mode.cls is DeviceContext:
            device = vm.observe(abstract.getattr_(vm, mode, "device"))
            if device.constant(vm).index is None and device.constant(vm).type not in ("cpu", "meta"):
                vm.unsupported(breaks.GlobalStateUnsupported("the index of a default device"))
            return device
    return own(vm)
