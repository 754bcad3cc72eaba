"""torch.distributions: models of what its Python code calls in C. The rest of it is traced as any code."""

from __future__ import annotations

import warnings
from types import FunctionType

import torch
from torch.distributions import kl
from torch.distributions.utils import _lazy_property_and_property

from framejit import breaks
from framejit.graph.running import RunningTrace
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import models, pure, rules
from framejit.objects.tensors.torchcall import rest_on
from framejit.process.warning_filters import version_kept

pure(torch._C._infer_size)


@models(_lazy_property_and_property)
def lazy_property_of_class(vm: VM, wrapped: Object) -> Object:
    """The value that a class gives for a parameter that its instances compute lazily: a new property at each access, whose type `validate_args` asks for."""
    wrapped = vm.observe(wrapped)
    if wrapped.cls is not FunctionType or not isinstance(wrapped.value, FunctionType):
        vm.unsupported(breaks.UnsupportedCall("a lazy property of what is no function from outside"))
    rest_on(vm, wrapped)
    return vm.pin(_lazy_property_and_property(wrapped.value))


@rules(kl.kl_divergence)
def remember_formula(vm: RunningTrace, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """Fill torch's memory of the formula for two of its own classes, as any call does, before the trace looks into it: so the second call compiles nothing.

    The search for the formula depends on classes alone. Where it warns, the traced code does.
    """
    pair = tuple([vm.observe(arg).cls for arg in args])
    memory = kl._KL_MEMOIZE
    if kwargs or len(pair) != 2 or pair in memory or vm.met(memory) is not None or any(cls.__module__.partition(".")[0] != "torch" for cls in pair):
        return None
    with version_kept(), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        formula = kl._dispatch_kl(*pair)
    if not warned and formula is not NotImplemented:
        memory[pair] = formula
    return None
