"""Tensors without dimensions where torch's operators take a number: `p.add_(g, alpha=lr)`. torch reads the number; so does a node of the graph."""

from __future__ import annotations

from framejit.graph.builder import TorchVM
from framejit.objects.core import abstract
from framejit.objects.core.object import Object
from framejit.objects.core.registry import RuleOrder, library
from framejit.objects.tensors.tensorobject import TensorObject, number_out_of
from framejit.objects.tensors.torchfunctions import operation_of
from framejit.torch_state.operator_facts import takes_number

NAMES = ("alpha", "value")
"""Keywords under which operators take a number."""


@library(RuleOrder.BY_ARGUMENTS)
def with_numbers(vm: TorchVM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """A call with a number in the place of such a tensor."""
    name = next((name for name in NAMES if name in kwargs), None)
    if name is None or operation_of(function.value) is None or not takes_number(function.value.__name__, name):
        return None
    given = vm.observe(kwargs[name])
    if not isinstance(given, TensorObject) or given.look(vm).dim() or given.fake.requires_grad:
        return None
    number = number_out_of(vm, given, "item")
    return None if number is None else abstract.call(vm, function, args, kwargs | {name: number})
