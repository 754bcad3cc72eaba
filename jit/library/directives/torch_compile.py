"""`torch.compile`, called by the program inside a trace: calls of the compiled function are traced as calls of the function itself."""

from __future__ import annotations

import functools
from types import FunctionType

import torch

from framejit import breaks
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, NotConstant, Object, settle
from framejit.objects.core.registry import models
from framejit.objects.types.compiledobject import GivenToCompiler
from framejit.objects.types.funcobject import FunctionObject, MethodObject

BACKENDS = (None, "inductor", "eager", "aot_eager")
"""The backends by which torch compiles a function without rejecting them: for other names, only torch knows whether there is such a backend."""
MODES = (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
FLAGS = (None, False, True)
ACCEPTED = {"fullgraph": FLAGS, "dynamic": FLAGS, "backend": BACKENDS, "mode": MODES}


class CompiledByTorch(GivenToCompiler):
    """The result of `torch.compile` for a function inside a trace. None of its attributes is known."""

    __slots__ = ()

    def getattr(self, vm: VM, name: str) -> Object:
        vm.unsupported(breaks.UnsupportedOperation(f"attribute {name} of what torch.compile gives"))

    def setattr(self, vm: VM, name: str, value: Object | None) -> None:
        self.getattr(vm, name)


@models(torch.compile)
def compile_by_torch(vm: VM, model: Object | None = None, **options: Object) -> Object:
    """`torch.compile` in compiled code: functions and methods are inlined where they are called, if torch accepts the options. Anything else is compiled by
    torch itself, at a break."""
    if model is None or vm.observe(model).cls is type(None):
        return abstract.call(vm, vm.const(functools.partial), [vm.const(torch.compile)], options)
    real = {name: vm.observe(value).constant(vm) for name, value in options.items()}
    function = settle(vm.observe(model))
    if not isinstance(function, (FunctionObject, MethodObject)):
        raise NotConstant(function)
    if any(value not in ACCEPTED.get(name, ()) for name, value in real.items()):
        vm.unsupported(breaks.UnsupportedCall("torch.compile with options that only torch can judge"))
    return CompiledByTorch(FunctionType, function, functools.partial(torch.compile, **real))
