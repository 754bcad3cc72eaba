"""Tensors without dimensions where torch's operators take a number: `p.add_(g, alpha=lr)`, `x.expand(n, -1)`. torch reads the number; so does a node."""

from __future__ import annotations

import torch

from framejit.graph.builder import TorchVM
from framejit.objects.core import abstract, operators
from framejit.objects.core.object import Object
from framejit.objects.core.registry import RuleOrder, library
from framejit.objects.tensors.tensorobject import TensorObject, number_out_of
from framejit.objects.tensors.torchfunctions import operation_of
from framejit.torch_state.operator_facts import overloads_of_method, takes_number, takes_one_tensor

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


@library(RuleOrder.BY_ARGUMENTS)
def with_known_numbers(vm: TorchVM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """A call with the numbers in the place of such tensors of ints that guards can read (`h`, `h // 2`), so that they may become constants or symbols."""
    places = [place for place, arg in enumerate(args) if arg.cls is torch.Tensor]
    name = getattr(function.value, "__name__", "") if places and operation_of(function.value) is not None else ""
    if not takes_one_tensor(name):
        return None
    if overloads_of_method(name):
        places = [place for place in places if place > 0]
    numbers = {place: number_in(vm, args[place]) for place in places}
    if not any(numbers.values()):
        return None
    return abstract.call(vm, function, [numbers.get(place) or arg for place, arg in enumerate(args)], kwargs)


def number_in(vm: TorchVM, tensor: Object) -> Object | None:
    """The int in a tensor without dimensions that guards can read, or that is computed from such an int and a constant; None for others."""
    if not isinstance(tensor, TensorObject):
        return None
    if vm.graph.known.is_int(tensor):
        return number_out_of(vm, tensor, "item")
    computed = vm.graph.known.arithmetic(tensor)
    number = None if computed is None else number_in(vm, computed[1])
    return None if computed is None or number is None else operators.binary_op(vm, computed[0], number, vm.const(computed[2]))
