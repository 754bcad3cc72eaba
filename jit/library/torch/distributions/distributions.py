"""torch.distributions: models of what its Python code calls in C. The rest of it is traced as any code."""

from __future__ import annotations

from types import FunctionType

import torch
from torch.distributions.utils import _lazy_property_and_property

from framejit import breaks
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import models, pure
from framejit.objects.tensors.torchcall import rest_on

pure(torch._C._infer_size)


@models(_lazy_property_and_property)
def lazy_property_of_class(vm: VM, wrapped: Object) -> Object:
    """The value that a class gives for a parameter that its instances compute lazily: a new property at each access, whose type `validate_args` asks for."""
    wrapped = vm.observe(wrapped)
    if wrapped.cls is not FunctionType or not isinstance(wrapped.value, FunctionType):
        vm.unsupported(breaks.UnsupportedCall("a lazy property of what is no function from outside"))
    rest_on(vm, wrapped)
    return vm.pin(_lazy_property_and_property(wrapped.value))
