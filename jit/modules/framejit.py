"""framejit's own functions, and torch's of the same meaning, where traced code calls them."""

from __future__ import annotations

from typing import Any

from framejit import api, breaks
from framejit._runtime import CompiledFunction
from framejit.guards.source import Source
from framejit.objects.funcobject import FunctionObject
from framejit.objects.object import Object
from framejit.objects.registry import library, models, wraps
from framejit.objects.vm import VM

DISABLED_BY_TORCH = "_torchdynamo_disable"


@models(api.is_compiling)
def is_compiling(vm: VM) -> Object:
    return vm.const(True)


@library
def disabled_function(vm: VM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """A function that framejit.disable or torch.compiler.disable marked stops the trace."""
    if isinstance(function, FunctionObject):
        marks = function.value.__dict__
        if api.DISABLED in marks or marks.get(DISABLED_BY_TORCH):
            vm.unsupported(breaks.DisabledFunction(function.qualname))
    return None


@wraps(CompiledFunction, by_identity=True)
def wrap_compiled(vm: VM, value: Any, source: Source | None) -> Object:
    """A compiled function called inside a trace is traced through."""
    return vm.pin(value.function)
