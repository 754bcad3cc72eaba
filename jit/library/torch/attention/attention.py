"""The kernels that attention may choose from: `torch.nn.attention.sdpa_kernel` and the switches of torch.backends.cuda, whose Python is traced.

A trace changes no switch. It remembers what the program has set, and functions of attention become nodes that run with these switches. AOTAutograd
chooses when it compiles: with it, entries with such a node are guarded by the switches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.graph.switches import Switch, with_switches
from framejit.library.python.contextvars import OWN_DEFAULT_COUNTS
from framejit.library.torch.settings.backend_flags import switch_of_program
from framejit.objects.core.object import Object
from framejit.objects.core.registry import models
from framejit.objects.tensors.torchcall import enter
from framejit.objects.types.typeobject import type_getattribute

ATTENTION = (
    torch.nn.functional.scaled_dot_product_attention, torch.nn.functional.multi_head_attention_forward, torch._native_multi_head_attention,
    torch._transformer_encoder_layer_fwd,
)  # fmt: skip
KERNELS = ("flash", "math", "mem_efficient", "cudnn", "overrideable", "fa3")
SWITCHES = tuple(
    Switch(getattr(torch._C, f"_get_{name}_sdp_enabled"), getattr(torch._C, f"_set_sdp_use_{name}"))
    for name in KERNELS
    if hasattr(torch._C, f"_set_sdp_use_{name}") and hasattr(torch._C, f"_get_{name}_sdp_enabled")
)



def priority() -> tuple[int, ...]:
    """The kernels in the order in which torch prefers them."""
    return tuple(torch._C._get_sdp_priority_order())


def set_priority(order: tuple[int, ...]) -> None:
    """Set that order."""
    torch._C._set_sdp_priority_order(list(order))


PRIORITY = Switch(priority, set_priority)
SWITCHES = (*SWITCHES, PRIORITY)

if hasattr(torch.nn.attention, "_sdpa_kernel_uses_priority"):
    OWN_DEFAULT_COUNTS.add(torch.nn.attention._sdpa_kernel_uses_priority)
models(type(torch._C._SDPBackend).__getattribute__)(type_getattribute)  # of classes made by pybind11: pybind11_meta_getattro


@models(torch._C._get_sdp_priority_order)
def read_priority(vm: TorchVM) -> Object:
    return vm.from_real(list(vm.graph.modes.switches.read(vm.guards, PRIORITY)))


@models(torch._C._set_sdp_priority_order)
def write_priority(vm: TorchVM, order: Object) -> Object:
    found = vm.observe(order).as_real(vm)
    if type(found) is not list or sorted(found) != sorted(priority()):
        vm.unsupported(breaks.GlobalStateUnsupported("setting an order of kernels of attention that torch doesn't take"))
    vm.graph.modes.switches.write(vm.guards, PRIORITY, tuple(found))
    return vm.const(None)


def attention(function: Callable[..., Any]) -> None:
    """Make a function a node that runs with the switches as the program has set them."""

    @models(function)
    def attend(vm: TorchVM, *args: Object, **kwargs: Object) -> Object:
        for switch in SWITCHES if vm.graph.is_one_autograd_node else ():
            vm.guards.read(switch.read)
        switched = vm.graph.modes.switches.differences()
        return enter(vm, with_switches(function, switched) if switched else function, args, kwargs)


for _function in ATTENTION:
    attention(_function)
for _switch in SWITCHES:
    if _switch is not PRIORITY:
        switch_of_program(_switch)
