"""Flags of torch.backends that choose among kernels of cuDNN and oneDNN: the trace remembers what the program sets, and sets none itself.

With the backend "eager" an operator on a device that a flag is about becomes a node that runs with the flags so set. What AOTAutograd makes of a graph runs
with the flags in force when it is called: with it, such an operator breaks the trace. On other devices the flags mean nothing.
"""

from __future__ import annotations

import torch

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.graph.switches import Switch
from framejit.objects.object import Object
from framejit.objects.registry import models

NATIVE = torch._C
CUDNN, ONEDNN, ONEDNN_TF32 = frozenset({"cuda"}), frozenset({"cpu", "xpu"}), frozenset({"xpu"})
"""Devices that flags are about."""
GET_PRECISION, SET_PRECISION = NATIVE._get_fp32_precision_getter, NATIVE._set_fp32_precision_setter
FLAGS = (
    ("_get_cudnn_enabled", "_set_cudnn_enabled", CUDNN, ()),
    ("_get_cudnn_benchmark", "_set_cudnn_benchmark", CUDNN, ()),
    ("_get_cudnn_deterministic", "_set_cudnn_deterministic", CUDNN, ()),
    ("_get_cudnn_allow_tf32", "_set_cudnn_allow_tf32", CUDNN, (GET_PRECISION,)),
    ("_get_cudnn_depthwise_kernel", "_set_cudnn_depthwise_kernel", CUDNN, ()),
    ("_cuda_get_cudnn_benchmark_limit", "_cuda_set_cudnn_benchmark_limit", CUDNN, ()),
    ("_get_mkldnn_enabled", "_set_mkldnn_enabled", ONEDNN, ()),
    ("_get_mkldnn_deterministic", "_set_mkldnn_deterministic", ONEDNN, ()),
    ("_get_onednn_allow_tf32", "_set_onednn_allow_tf32", ONEDNN_TF32, ()),
)
"""The functions that read and write each flag, the devices that it is about, and what else shows it."""


def switch_of_program(switch: Switch) -> None:
    """Have the trace remember a switch that the program sets, and give that where it reads it."""

    @models(switch.read)
    def read(vm: TorchVM) -> Object:
        return vm.const(vm.graph.modes.switches.read(vm.guards, switch))

    @models(switch.write)
    def write(vm: TorchVM, value: Object) -> Object:
        vm.graph.modes.switches.write(vm.guards, switch, vm.observe(value).constant(vm))
        return vm.const(None)


@models(SET_PRECISION)
def set_precision(vm: TorchVM, backend: Object, op: Object, precision: Object) -> Object:
    """`torch.backends.cudnn.flags` sets what says nothing to what says nothing. What else is said decides of several settings at a time."""
    which = [vm.observe(word).constant(vm) for word in (backend, op)]
    if vm.observe(precision).constant(vm) != "none" or vm.guards.read(GET_PRECISION, *which) != "none":
        vm.unsupported(breaks.GlobalStateUnsupported("setting the precision of float32 for some operators"))
    return vm.const(None)


for _read, _write, _devices, _shown_by in FLAGS:
    if hasattr(NATIVE, _read) and hasattr(NATIVE, _write):
        switch_of_program(Switch(getattr(NATIVE, _read), getattr(NATIVE, _write), _devices, frozenset(_shown_by)))
