"""DistributedDataParallel: its preparations before and after the forward pass run natively, each at one graph break; the module inside is traced."""

from __future__ import annotations

import contextlib
from typing import NoReturn

from torch.nn.parallel import DistributedDataParallel

from framejit import breaks
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import rules


@rules(DistributedDataParallel._pre_forward, DistributedDataParallel._post_forward)
def prepare(vm: VM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> NoReturn:
    """The module tells its reducer in C++ that a forward pass begins or has ended, and may communicate buffers."""
    vm.unsupported(breaks.UnsupportedCall(f"DistributedDataParallel.{function.value.__name__}, which prepares the reduction of gradients"))


@rules(DistributedDataParallel._inside_ddp_forward)
def name_active_module(vm: VM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object:
    """The region in which torch's own tracer is told which module is called."""
    return abstract.call(vm, vm.const(contextlib.nullcontext), [])
