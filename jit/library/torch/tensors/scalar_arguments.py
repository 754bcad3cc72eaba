"""Tensors without dimensions where torch's operators take a number: `p.add_(g, alpha=lr)`. torch reads the number; so does a node of the graph."""

from __future__ import annotations

from framejit.graph.builder import TorchVM
from framejit.objects.core import abstract
from framejit.objects.core.object import Object
from framejit.objects.core.registry import RuleOrder, library
from framejit.objects.tensors.tensorobject import TensorObject, number_out_of
from framejit.objects.tensors.torchfunctions import operation_of

WITH_VALUE = frozenset({"addcmul", "addcmul_", "addcdiv", "addcdiv_"})
"""Functions whose `value` is a number; others take a tensor there."""


@library(RuleOrder.BY_ARGUMENTS)
def with_numbers(vm: TorchVM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """A call with a number in the place of such a tensor."""
    name = "alpha" if "alpha" in kwargs else "value"
    if name not in kwargs or operation_of(function.value) is None or (name == "value" and function.value.__name__ not in WITH_VALUE):
        return None
    given = vm.observe(kwargs[name])
    if not isinstance(given, TensorObject) or given.look(vm).dim() or given.fake.requires_grad:
        return None
    number = number_out_of(vm, given, "item")
    return None if number is None else abstract.call(vm, function, args, kwargs | {name: number})
