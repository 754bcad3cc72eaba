"""torch.Generator: the trace knows a generator's state as a tensor; a draw in the graph takes that and also returns the next one."""

from __future__ import annotations

from typing import Any

import torch

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.guards.source import CAttr, Source
from framejit.library.random.generator_draws import CHECKED_STATE, DEFAULT_SEED, DRAW_FROM, DrawCall
from framejit.library.random.generator_states import TORCH
from framejit.library.random.stateful_generators import StatefulGenerator, state_by_seed
from framejit.library.random.torch_seeds import CPU, is_seed, is_state
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import RuleOrder, library, models, wraps
from framejit.objects.numbers.numberobject import NumberObject
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchcall import enter, rest_on
from framejit.objects.tensors.torchfunctions import operation_of
from framejit.objects.types.tupleobject import TupleObject

REASON = breaks.Random("a torch.Generator")


class RandomGeneratorObject(StatefulGenerator):
    """A torch.Generator for the CPU."""

    __slots__ = ()
    kind = TORCH
    process = torch.default_generator

    def check(self, vm: TorchVM) -> None:
        assert self.source is not None
        device = vm.observe(vm.wrap(self.value.device, self.source.child(CAttr, "device")))
        if device.constant(vm) != CPU:
            self.break_graph(vm)


@wraps(torch.Generator, shared=True)
def wrap_generator(vm: VM, value: torch.Generator, source: Source) -> Object:
    return RandomGeneratorObject(source, value) if type(value) is torch.Generator else Object(type(value), source, value)


@models(torch.Generator)
def make_generator(vm: TorchVM, device: Object | None = None) -> Object:
    """A new generator, in the initial state, which is the same for all."""
    where = None if device is None else vm.observe(device).constant(vm)
    if where is not None and torch.device(where) != CPU:
        vm.unsupported(REASON)
    return RandomGeneratorObject(kept=state_by_seed(vm, TORCH, vm.const(DEFAULT_SEED)))


def known(vm: VM, self: Object) -> RandomGeneratorObject:
    """The receiver of a method. Breaks if it is of a subclass, or the generator that torch draws from by default."""
    if not isinstance(self, RandomGeneratorObject) or (self.source is not None and self.is_process(vm)):
        vm.unsupported(REASON)
    return self


@models(torch.Generator.manual_seed)
def manual_seed(vm: TorchVM, self: Object, seed: Object) -> Object:
    generator, number = known(vm, self), vm.observe(seed)
    if not is_seed(vm, number):
        vm.unsupported(REASON)
    generator.seed(vm, number)
    return generator


@models(torch.Generator.get_state)
def get_state(vm: TorchVM, self: Object) -> Object:
    return enter(vm, torch.clone, [known(vm, self).state(vm)])


@models(torch.Generator.set_state)
def set_state(vm: TorchVM, self: Object, state: Object) -> Object:
    generator, tensor = known(vm, self), vm.observe(state)
    if not is_state(vm, tensor):
        vm.unsupported(REASON)
    generator.move(vm, enter(vm, CHECKED_STATE, [tensor]))
    return generator


@models(torch.Generator.device)
def read_device(vm: TorchVM, self: Object) -> Object:
    known(vm, self).state(vm)
    return vm.const(CPU)


# Draws.


@library(RuleOrder.BY_ARGUMENTS)
def draw(vm: TorchVM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """A call of one of torch's functions or methods with `generator=`; None if that isn't passed."""
    if "generator" not in kwargs:
        return None
    generator = vm.observe(kwargs["generator"])
    operation = operation_of(function.value)
    if not isinstance(generator, RandomGeneratorObject) or operation is None or operation.op is None:
        return None
    rest_on(vm, function)
    others = {name: value for name, value in kwargs.items() if name != "generator"}
    if generator.source is not None and generator.is_process(vm):
        return abstract.call(vm, function, args, others)
    name = name_of(function.value, operation.target)
    state = generator.state(vm)
    if name is None or not {"out", "requires_grad"}.isdisjoint(others):
        vm.unsupported(breaks.Random(f"{function.name_when_called}() with a torch.Generator"))
    fills, alike = name.startswith(".") and name.endswith("_"), name.endswith("_like")
    drawn = drawn_by(vm, DrawCall(name), state, args, others, fills or alike)
    result, after = [vm.observe(part) for part in abstract.iterate(vm, drawn)]
    generator.move(vm, after)
    return enter(vm, torch.Tensor.copy_, [args[0], result]) if fills else result


def name_of(function: Any, target: Any) -> str | None:
    """The name of a function in a DrawCall; None if it can't be named."""
    if isinstance(target, str):
        return f".{target}"
    name = getattr(function, "__name__", "")
    return name if getattr(torch, name, None) is function else None


def drawn_by(vm: TorchVM, call: DrawCall, state: TensorObject, args: list[Object], kwargs: dict[str, Object], looks: bool) -> Object:
    """The result of a draw, and the next state. `looks`: the draw reads no more than the form of its first tensor."""

    def part(obj: Object) -> Any:
        obj = vm.observe(obj)
        if isinstance(obj, TensorObject):
            if looks and not call.tensors:
                obj = vm.observe(enter(vm, torch.Tensor.detach, [obj]))
            assert isinstance(obj, TensorObject)
            if obj.look(vm).requires_grad or obj.look(vm).device != CPU:
                vm.unsupported(REASON)
            return call.tensor(obj)
        if obj.cls in (tuple, list, torch.Size):
            return [part(item) for item in abstract.iterate(vm, obj)]
        if isinstance(obj, NumberObject) and obj.cls is int and not obj.is_known():
            return call.number(obj)
        try:
            return call.constant(obj.constant(vm))
        except TypeError:
            vm.unsupported(REASON)

    text = call.text([part(arg) for arg in args], {name: part(value) for name, value in kwargs.items()})
    return enter(vm, DRAW_FROM, [state, vm.const(text), TupleObject(call.tensors), TupleObject(call.numbers)])
