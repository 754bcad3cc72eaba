"""The operator that observers of quantisation-aware training run: its first call resizes the statistics of channels, which fakes don't show.

    torch.fused_moving_avg_obs_fake_quant(weight, on, on, running_min, running_max, scale, zero_point, ..., 0, True)    # running_min has no elements yet
"""

from __future__ import annotations

import math
from typing import Any

import torch

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.objects.core.object import Object
from framejit.objects.core.registry import models
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchcall import enter


def gives_sizes(function: Any) -> None:
    """Let a call of such an operator first resize statistics without elements, as it does itself (ATen/native/quantized/cpu/fused_obs_fake_quant.cpp)."""

    def call(
        vm: TorchVM, input: TensorObject, observer_on: Object, fake_quant_on: Object, running_min: TensorObject, running_max: TensorObject,
        scale: TensorObject, zero_point: TensorObject, averaging_const: Object, quant_min: Object, quant_max: Object, ch_axis: Object,
        per_row_fake_quant: Object | None = None, symmetric_quant: Object | None = None,
    ) -> Object:  # fmt: skip
        tensors = [vm.observe(tensor) for tensor in (input, observer_on, fake_quant_on, running_min, running_max, scale, zero_point)]
        options = [vm.const(False) if option is None else vm.observe(option) for option in (per_row_fake_quant, symmetric_quant)]
        lowest, highest, *derived = tensors[3:]
        if options[0].constant(vm) and isinstance(lowest, TensorObject) and lowest.look(vm).numel() == 0:
            if lowest.source is not None and not vm.graph.demands.takes_first_steps and not vm.is_in_loop():
                vm.unsupported(breaks.FirstStep("an observer of channels"))
            size = enter(vm, torch.Tensor.size, [tensors[0], ch_axis])
            for tensor in (lowest, highest, *derived):
                enter(vm, torch.Tensor.resize_, [tensor, size])
            enter(vm, torch.Tensor.fill_, [lowest, vm.const(math.inf)])
            enter(vm, torch.Tensor.fill_, [highest, vm.const(-math.inf)])
        return enter(vm, function, [*tensors, averaging_const, quant_min, quant_max, ch_axis, *options])

    models(function)(call)


for _function in (torch.fused_moving_avg_obs_fake_quant, torch._fused_moving_avg_obs_fq_helper):
    gives_sizes(_function)
