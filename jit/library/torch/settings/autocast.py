"""Autocast that is switched without a scope (`torch.set_autocast_enabled`, `torch.set_autocast_dtype`), and its cache.

The graph switches autocast where the program does, and reverts it at its end; what the program leaves is set after the graph.
"""

from __future__ import annotations

from typing import Any

import torch

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.library.torch.operators.functions import autocast_now
from framejit.objects.core.latercall import LaterCall
from framejit.objects.core.object import Object
from framejit.objects.core.registry import models
from framejit.torch_state.torch_modes import AUTOCAST_DEVICES


def arguments(vm: TorchVM, device_type: Object, taken: type, given: Object) -> tuple[str, Any]:
    """The constants that one of the setters is called with. Others than it takes are for torch to refuse."""
    device, value = vm.observe(device_type).constant(vm), vm.observe(given).constant(vm)
    if device not in AUTOCAST_DEVICES or type(value) is not taken:
        vm.unsupported(breaks.GlobalStateUnsupported("autocast, by what torch doesn't take"))
    if vm.graph.is_inner():
        vm.unsupported(breaks.GlobalStateUnsupported("autocast in a function that an operator takes"))
    return device, value


@models(torch.set_autocast_enabled)
def set_autocast_enabled(vm: TorchVM, device_type: Object, enabled: Object) -> Object:
    device, value = arguments(vm, device_type, bool, enabled)
    _, dtype = autocast_now(vm, device)
    vm.graph.modes.set_autocast(device, value, dtype)
    return vm.const(None)


@models(torch.set_autocast_dtype)
def set_autocast_dtype(vm: TorchVM, device_type: Object, dtype: Object) -> Object:
    device, value = arguments(vm, device_type, torch.dtype, dtype)
    enabled, _ = autocast_now(vm, device)
    vm.graph.modes.set_autocast(device, enabled, value)
    return vm.const(None)


@models(torch.clear_autocast_cache)
def clear_autocast_cache(vm: TorchVM) -> Object:
    """Graphs of AOTAutograd cache no casts: there, the program's cache is cleared when the graph has run."""
    if vm.graph.is_inner():
        vm.unsupported(breaks.GlobalStateUnsupported("the cache of autocast in a function that an operator takes"))
    if vm.graph.is_one_autograd_node:
        vm.effects.in_order(LaterCall(torch.clear_autocast_cache, ()))
    else:
        vm.graph.modes.clear_autocast_cache()
    return vm.const(None)
