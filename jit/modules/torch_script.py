"""Functions that `torch.jit` has compiled: a call of one is one node of the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from framejit.guards.source import Source
from framejit.objects.delivery import Delivery
from framejit.objects.object import VM, IdentityConstant, Object
from framejit.objects.registry import wraps
from framejit.objects.torchcall import enter

TARGET = "_framejit_target"
"""The attribute of a scripted function that holds the target of its nodes."""


class ScriptFunctionObject(IdentityConstant):
    """A scripted function: immutable, and known by identity. It isn't traced into, as TorchScript doesn't mean all that Python does."""

    __slots__ = ()

    def truth(self, vm: VM) -> bool:
        return True

    def call(self, vm: VM, args: list[Object], kwargs: dict[str, Object], delivery: Delivery | None = None) -> Object:
        return enter(vm, target_of(self.value), args, kwargs)


@wraps(torch.jit.ScriptFunction, by_identity=True)
def wrap_script_function(vm: VM, value: Any, source: Source | None) -> ScriptFunctionObject:
    return ScriptFunctionObject(type(value), source, value)


def target_of(script: Any) -> Callable[..., Any]:
    """The function that nodes call for a scripted function: FX writes targets by their names, and a scripted function's leads nowhere."""
    known = script.__dict__.get(TARGET)
    if known is None:

        def call(*args: Any, **kwargs: Any) -> Any:
            if not torch._C._len_torch_dispatch_stack():
                return script(*args, **kwargs)
            with torch.jit.optimized_execution(False):  # else TorchScript takes note of the sizes of fakes, and asks whether they have these
                return script(*args, **kwargs)

        call.__name__ = script.name
        call.of_others = True  # type: ignore[attr-defined]
        known = script.__dict__[TARGET] = call
    return known  # type: ignore[no-any-return]
