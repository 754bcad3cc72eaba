"""The setting that makes operators deterministic: the trace remembers what the program sets, and sets it at its end.

With the backend "eager", operators run with this setting. What AOTAutograd makes of a graph runs with the one in force when it is called: with it, an
operator that comes after a change of the setting breaks the trace.
"""

from __future__ import annotations

import torch

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.graph.switches import Switch
from framejit.objects.core.latercall import LaterCall
from framejit.objects.core.object import Object
from framejit.objects.core.registry import models

IS_ON, WARNS, SET = torch._C._get_deterministic_algorithms, torch._C._get_deterministic_algorithms_warn_only, torch._C._set_deterministic_algorithms


def switch_on(enabled: bool) -> None:
    SET(enabled, warn_only=WARNS())


def switch_warnings(warn_only: bool) -> None:
    SET(IS_ON(), warn_only=warn_only)


ON, WARN_ONLY = Switch(IS_ON, switch_on, everywhere=True), Switch(WARNS, switch_warnings, everywhere=True)


def use_deterministic_algorithms(enabled: bool, warn_only: bool) -> None:
    """Run by generated code. It also sets an option of Inductor."""
    torch.use_deterministic_algorithms(enabled, warn_only=warn_only)


@models(IS_ON)
def is_on(vm: TorchVM) -> Object:
    return vm.const(vm.graph.modes.switches.read(vm.guards, ON))


@models(WARNS)
def warns(vm: TorchVM) -> Object:
    return vm.const(vm.graph.modes.switches.read(vm.guards, WARN_ONLY))


@models(SET)
def set_deterministic(vm: TorchVM, mode: Object, *, warn_only: Object | None = None) -> Object:
    enabled, warning = vm.observe(mode).constant(vm), warn_only is not None and vm.observe(warn_only).constant(vm)
    if type(enabled) is not bool or type(warning) is not bool:
        vm.unsupported(breaks.GlobalStateUnsupported("deterministic algorithms, by what is no bool"))
    vm.graph.modes.switches.write(vm.guards, ON, enabled)
    vm.graph.modes.switches.write(vm.guards, WARN_ONLY, warning)
    return vm.const(None)


@models(torch.use_deterministic_algorithms)
def use(vm: TorchVM, mode: Object, *, warn_only: Object | None = None) -> Object:
    given = {} if warn_only is None else {"warn_only": warn_only}
    set_deterministic(vm, mode, **given)
    vm.effects.in_order(LaterCall(use_deterministic_algorithms, tuple(vm.graph.modes.switches.read(vm.guards, switch) for switch in (ON, WARN_ONLY))))
    return vm.const(None)
