"""Settings of autograd that don't affect the operators of a graph: whether hooks on saved tensors may be set, and how many threads run a backward pass.

The trace remembers what the program sets.
"""

from __future__ import annotations

import torch

from framejit.graph.builder import TorchVM
from framejit.graph.switches import Switch
from framejit.library.torch.settings.backend_flags import switch_of_program

AUTOGRAD = torch._C._autograd


def forbid_hooks(message: str | None) -> None:
    """Make torch raise with this message if hooks on saved tensors are set; None: it doesn't raise."""
    if message is None:
        AUTOGRAD._saved_tensors_hooks_enable()
    else:
        AUTOGRAD._saved_tensors_hooks_disable(message)


HOOKS_FORBIDDEN = Switch(AUTOGRAD._saved_tensors_hooks_get_disabled_error_message, forbid_hooks)
switch_of_program(HOOKS_FORBIDDEN)
switch_of_program(Switch(torch._C._is_multithreading_enabled, torch._C._set_multithreading_enabled))


def are_hooks_set_outside(vm: TorchVM) -> bool:
    """Return whether hooks on saved tensors were in force when the trace began. Inside hooks that it has set itself, that has been asked already."""
    return vm.graph.modes.current.hooks is None and vm.guards.read(AUTOGRAD._top_saved_tensors_default_hooks, True) is not None
