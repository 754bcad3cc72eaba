"""The kernels that attention may choose from: `torch.nn.attention.sdpa_kernel` and the switches of torch.backends.cuda, whose Python is traced.

A trace changes no switch. It remembers what the program has set, and functions of attention become nodes that run with the switches so set. AOTAutograd
makes the choice when it compiles: with it, entries with such a node are guarded by the switches.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from framejit.graph.builder import TorchVM
from framejit.graph.switches import Switch, Switched
from framejit.objects.object import Object
from framejit.objects.registry import models
from framejit.objects.torchcall import enter
from framejit.objects.typeobject import type_getattribute

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

models(type(torch._C._SDPBackend).__getattribute__)(type_getattribute)  # of classes made by pybind11: pybind11_meta_getattro


@functools.cache
def with_switches(function: Callable[..., Any], switched: Switched) -> Callable[..., Any]:
    """`function`, which runs with these switches set, and leaves all as they were."""

    @functools.wraps(function, assigned=("__name__", "__qualname__"), updated=())
    def run(*args: Any, **kwargs: Any) -> Any:
        before = [switch.read() for switch, _ in switched]
        for switch, value in switched:
            switch.write(value)
        try:
            return function(*args, **kwargs)
        finally:
            for (switch, _), value in zip(switched, before):
                switch.write(value)

    del run.__wrapped__  # type: ignore[attr-defined]
    return run


def attention(function: Callable[..., Any]) -> None:
    """Have a function be a node with the switches as the program has set them."""

    @models(function)
    def attend(vm: TorchVM, *args: Object, **kwargs: Object) -> Object:
        for switch in SWITCHES if vm.graph.is_one_autograd_node else ():
            vm.guards.read(switch.read)
        switched = vm.graph.modes.switches.differences()
        return enter(vm, with_switches(function, switched) if switched else function, args, kwargs)


def switch_of_program(switch: Switch) -> None:
    """Reading a switch, and setting it."""

    @models(switch.read)
    def read(vm: TorchVM) -> Object:
        return vm.const(vm.graph.modes.switches.read(vm.guards, switch))

    @models(switch.write)
    def write(vm: TorchVM, value: Object) -> Object:
        vm.graph.modes.switches.write(vm.guards, switch, vm.observe(value).constant(vm))
        return vm.const(None)


for _function in ATTENTION:
    attention(_function)
for _switch in SWITCHES:
    switch_of_program(_switch)
