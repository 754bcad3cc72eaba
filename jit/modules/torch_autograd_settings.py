"""Settings of autograd's that say nothing to the operators of a graph: whether hooks on saved tensors may be set, and how many threads run a backward pass.

The trace remembers what the program sets. What sets such hooks runs natively, with the setting in force.
"""

from __future__ import annotations

import torch

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.graph.switches import Switch
from framejit.modules.torch_backends import switch_of_program
from framejit.objects.object import Object
from framejit.objects.registry import models, refuse

AUTOGRAD = torch._C._autograd


def forbid_hooks(message: str | None) -> None:
    """Have torch raise this message where somebody sets hooks on saved tensors; None: it doesn't."""
    if message is None:
        AUTOGRAD._saved_tensors_hooks_enable()
    else:
        AUTOGRAD._saved_tensors_hooks_disable(message)


HOOKS_FORBIDDEN = Switch(AUTOGRAD._saved_tensors_hooks_get_disabled_error_message, forbid_hooks)
switch_of_program(HOOKS_FORBIDDEN)
switch_of_program(Switch(torch._C._is_multithreading_enabled, torch._C._set_multithreading_enabled))


@models(AUTOGRAD._saved_tensors_hooks_disable)
def disable_hooks(vm: TorchVM, error_message: Object) -> Object:
    if vm.guards.read(AUTOGRAD._top_saved_tensors_default_hooks, True) is not None:
        vm.unsupported(breaks.GlobalStateUnsupported("forbidding hooks on saved tensors, where there are some"))
    vm.graph.modes.switches.write(vm.guards, HOOKS_FORBIDDEN, vm.observe(error_message).constant(vm))
    return vm.const(None)


@models(AUTOGRAD._saved_tensors_hooks_enable)
def enable_hooks(vm: TorchVM) -> Object:
    vm.graph.modes.switches.write(vm.guards, HOOKS_FORBIDDEN, None)
    return vm.const(None)


refuse(breaks.GlobalStateUnsupported("hooks on saved tensors"), AUTOGRAD._push_saved_tensors_default_hooks, AUTOGRAD._pop_saved_tensors_default_hooks)
