"""torch.distributions: what its Python code asks C for. All else of it is traced as any code."""

from __future__ import annotations

from types import FunctionType

import torch
from torch.distributions.utils import _lazy_property_and_property

from framejit import breaks
from framejit.objects.object import VM, Object
from framejit.objects.registry import models, pure
from framejit.objects.torchcall import rest_on

pure(torch._C._infer_size)


@models(_lazy_property_and_property)
def lazy_property_of_class(vm: VM, wrapped: Object) -> Object:
    """What a class gives for a parameter that its instances compute when asked: a new property at each access, of which `validate_args` asks the type."""
    wrapped = vm.observe(wrapped)
    if wrapped.cls is not FunctionType or not isinstance(wrapped.value, FunctionType):
        vm.unsupported(breaks.UnsupportedCall("a lazy property of what is no function from outside"))
    rest_on(vm, wrapped)
    return vm.pin(_lazy_property_and_property(wrapped.value))
