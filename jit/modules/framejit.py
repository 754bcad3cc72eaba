"""framejit's own functions, where traced code calls them."""

from __future__ import annotations

from typing import Any

from framejit import api, breaks
from framejit._runtime import CompiledFunction
from framejit.guards.source import Source
from framejit.objects.funcobject import FunctionObject
from framejit.objects.object import Object
from framejit.objects.registry import library, models, wraps
from framejit.objects.vm import VM


@models(api.is_compiling)
def is_compiling(vm: VM) -> Object:
    return vm.const(True)


@library
def disabled_function(vm: VM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """A function that framejit.disable marked stops the trace."""
    if isinstance(function, FunctionObject) and api.DISABLED in function.value.__dict__:
        vm.unsupported(breaks.DisabledFunction(function.qualname))
    return None


@wraps(CompiledFunction, by_identity=True)
def wrap_compiled(vm: VM, value: Any, source: Source | None) -> Object:
    """A compiled function called inside a trace is traced through."""
    return vm.pin(value.function)
