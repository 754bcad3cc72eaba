"""`torch.backends.cuda.SDPAParams`, and the question which kernels of attention support such parameters, which fakes answer while tracing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.graph.switches import with_switches
from framejit.library.torch.attention.attention import SWITCHES
from framejit.objects.core.object import VM, Codegen, Object
from framejit.objects.core.registry import models
from framejit.objects.tensors.tensorobject import TensorObject

PARAMS = torch._C._SDPAParams
FIELDS = ("query", "key", "value", "attn_mask", "dropout", "is_causal", "enable_gqa")
"""The parameters, in the order in which they are given."""


class ParamsObject(Object):
    """The parameters of an attention that the trace has made."""

    __slots__ = ("fields",)

    def __init__(self, fields: list[Object]) -> None:
        super().__init__(PARAMS)
        self.fields = fields

    def getattr(self, vm: VM, name: str) -> Object:
        return self.fields[FIELDS.index(name)] if name in FIELDS else Object.getattr(self, vm, name)

    def on_fakes(self, vm: VM) -> Any:
        """The parameters with fakes in place of tensors."""
        return PARAMS(*[field.look(vm) if isinstance(field, TensorObject) else field.constant(vm) for field in self.fields])

    def reconstruct(self, cg: Codegen) -> None:
        for field in self.fields:
            cg.load(field)
        cg.call_const(PARAMS, len(self.fields))

    def referents(self) -> list[Object]:
        return list(self.fields)


@models(PARAMS)
def make_params(vm: TorchVM, *args: Object, **kwargs: Object) -> Object:
    """Call the class, which takes its arguments by position."""
    made = ParamsObject([vm.observe(arg) for arg in args])
    try:
        if not kwargs and len(args) == len(FIELDS):
            made.on_fakes(vm)
            return made
    except TypeError:
        pass
    vm.unsupported(breaks.UnsupportedCall("SDPAParams() with other arguments than it takes"))


def answered_on_fakes(function: Callable[..., bool]) -> None:
    """Register a predicate of parameters, which depends on the sizes, types and devices of tensors, and on the kernels that are allowed."""

    @models(function)
    def asked(vm: TorchVM, params: Object, debug: Object) -> Object:
        params = vm.observe(params)
        if not isinstance(params, ParamsObject) or vm.observe(debug).constant(vm):
            vm.unsupported(breaks.UnsupportedCall(f"{function.__name__}() of parameters from outside, or with its reasons told"))
        for switch in SWITCHES:
            vm.guards.read(switch.read)
        switched = with_switches(function, vm.graph.modes.switches.differences())
        return vm.const(vm.graph.shapes.decide(switched, params.on_fakes(vm), False))


for _name in ("_can_use_flash_attention", "_can_use_mem_efficient_attention", "_can_use_cudnn_attention"):
    if hasattr(torch._C, _name):
        answered_on_fakes(getattr(torch._C, _name))
