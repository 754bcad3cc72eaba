"""Settings that choose among kernels (flags of cuDNN and oneDNN, precision, threads): the trace remembers what the program sets, and sets none itself.

With the backend "eager" an operator on a device that a flag applies to becomes a node that runs with these flags. What AOTAutograd makes of a graph runs
with the flags in force when it is called: with it, such an operator breaks the trace. On other devices the flags have no effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.graph.switches import Switch
from framejit.objects.core.object import Object
from framejit.objects.core.registry import models

NATIVE = torch._C
CUDNN, ONEDNN, ONEDNN_TF32 = frozenset({"cuda"}), frozenset({"cpu", "xpu"}), frozenset({"xpu"})
"""Devices that flags apply to."""
GET_PRECISION, SET_PRECISION = NATIVE._get_fp32_precision_getter, NATIVE._set_fp32_precision_setter
SHOW_PRECISION = frozenset({GET_PRECISION, NATIVE._get_cublas_allow_tf32})
"""Other functions that show the precision of matrix products."""
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
"""The functions that read and write each flag, the devices that it applies to, and other functions that show it."""


def always(value: object) -> bool:
    return True


def switch_of_program(switch: Switch, takes: Callable[[Any], bool] = always) -> None:
    """Have the trace remember the value that the program sets a switch to, and return that to it. `takes`: whether torch accepts a value for it."""

    @models(switch.read)
    def read(vm: TorchVM) -> Object:
        return vm.const(vm.graph.modes.switches.read(vm.guards, switch))

    @models(switch.write)
    def write(vm: TorchVM, value: Object) -> Object:
        found = vm.observe(value).constant(vm)
        if not takes(found):
            vm.unsupported(breaks.GlobalStateUnsupported(f"setting what torch doesn't take: {found!r}"))
        vm.graph.modes.switches.write(vm.guards, switch, found)
        return vm.const(None)


@models(SET_PRECISION)
def set_precision(vm: TorchVM, backend: Object, op: Object, precision: Object) -> Object:
    """Do nothing if the precision is "none" and stays so, as in `torch.backends.cudnn.flags`. Other values affect several settings at once, and break."""
    which = [vm.observe(word).constant(vm) for word in (backend, op)]
    if vm.observe(precision).constant(vm) != "none" or vm.guards.read(GET_PRECISION, *which) != "none":
        vm.unsupported(breaks.GlobalStateUnsupported("setting the precision of float32 for some operators"))
    return vm.const(None)


for _read, _write, _devices, _shown_by in FLAGS:
    if hasattr(NATIVE, _read) and hasattr(NATIVE, _write):
        switch_of_program(Switch(getattr(NATIVE, _read), getattr(NATIVE, _write), _devices, frozenset(_shown_by)))

switch_of_program(
    Switch(NATIVE._get_float32_matmul_precision, NATIVE._set_float32_matmul_precision, frozenset({"cuda", "cpu", "xpu"}), SHOW_PRECISION),
    {"highest", "high", "medium"}.__contains__,
)
switch_of_program(Switch(torch.get_num_threads, torch.set_num_threads, frozenset({"cpu"})), lambda number: type(number) is int and 0 < number < 2**31)
