"""Seeds and states of torch's generators of the process: the graph reads and sets them, at the program's position among its draws."""

from __future__ import annotations

from types import FunctionType

import torch

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.library.random.draws import SEED_TORCH, SET_STATE_OF_TORCH, STATE, STATE_OF_TORCH
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import call_model, models, named, pure, unsupported
from framejit.objects.numbers.numberobject import NumberObject
from framejit.objects.numbers.unbackednumber import Datum
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchcall import enter, rest_on
from framejit.objects.types.funcobject import FunctionObject
from framejit.torch_state import peer

CPU = torch.device("cpu")
LARGEST = 2**63
"""Ints in a graph are smaller than this."""


def is_seed(vm: VM, number: Object) -> bool:
    """Return whether a number can be the seed of one of torch's generators in a graph."""
    if isinstance(number, Datum):
        return number.cls is int  # an element of a tensor
    if not isinstance(number, NumberObject) or number.cls is not int:
        return False
    return number.is_symbolic(vm) or -LARGEST <= number.constant(vm) < LARGEST


def is_state(vm: VM, state: Object) -> bool:
    """Return whether a value looks like the state of one of torch's CPU generators."""
    if not isinstance(state, TensorObject):
        return False
    fake = state.look(vm)
    return (fake.shape, fake.dtype, fake.device, fake.is_contiguous()) == (STATE.shape, STATE.dtype, CPU, True)


def place_among_draws(vm: TorchVM, function: FunctionType) -> Object:
    """The number of an operator that must keep its position. Breaks if it couldn't."""
    if not vm.graph.demands.draws_in_order or vm.graph.is_inner():
        vm.unsupported(breaks.Random(f"torch.{function.__name__}"))
    return vm.const(len(vm.graph.outermost.notes))


@models(torch.random.manual_seed)
def manual_seed(vm: TorchVM, seed: Object) -> Object:
    """torch.manual_seed, which returns the CPU generator."""
    place, number = place_among_draws(vm, torch.manual_seed), vm.observe(seed)
    if not is_seed(vm, number):
        vm.unsupported(breaks.Random("torch.manual_seed"))
    enter(vm, SEED_TORCH, [number, place])
    return vm.pin(torch.default_generator)


@named("torch.random", "manual_seed")
def hidden_manual_seed(vm: TorchVM, function: FunctionObject, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """torch.manual_seed once something has imported torch's own tracer, which hides it behind another function."""
    if not peer.hides(function.value) or peer.hidden_by(function.value) is not torch.random.manual_seed:
        return None
    rest_on(vm, function)
    return call_model(vm, manual_seed, torch.random.manual_seed, args, kwargs)


@models(torch.get_rng_state)
def get_rng_state(vm: TorchVM) -> Object:
    return enter(vm, STATE_OF_TORCH, [place_among_draws(vm, torch.get_rng_state)])


@models(torch.set_rng_state)
def set_rng_state(vm: TorchVM, new_state: Object) -> Object:
    place, state = place_among_draws(vm, torch.set_rng_state), vm.observe(new_state)
    if not is_state(vm, state):
        vm.unsupported(breaks.Random("torch.set_rng_state"))
    enter(vm, SET_STATE_OF_TORCH, [state, place])
    return vm.const(None)


pure(torch.get_device_module)  # which fork_rng() calls
unsupported(breaks.Random("torch.seed"), torch.seed)
unsupported(breaks.Random("torch.initial_seed"), torch.initial_seed)
