"""Generators of Python and NumPy that the program makes: random.Random, numpy.random.default_rng and RandomState. Other kinds draw natively."""

from __future__ import annotations

import random
from types import FunctionType
from typing import Any

import numpy

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.guards.kinds import KeyAbsent, TypeIs
from framejit.guards.source import MISSING, CAttr, InstanceDict, Source
from framejit.library.random.generator_states import DRAW_NUMBERS, MERSENNE, PCG64, PYTHON
from framejit.library.random.random_functions import GENERATORS, STATES, DrawingFunction, asked, orders_array
from framejit.library.random.random_functions import PYTHON as OF_PYTHON
from framejit.library.random.random_orders import NAMES, drawn_order
from framejit.library.random.stateful_generators import StatefulGenerator, state_by_seed
from framejit.library.random.torch_seeds import is_seed
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Codegen, Object
from framejit.objects.core.registry import models, rules, wrapper_for, wraps
from framejit.objects.tensors.torchcall import enter
from framejit.objects.types.funcobject import MethodObject
from framejit.plain import random as app


class PythonGenerator(StatefulGenerator):
    """A random.Random. Its attributes are part of its state."""

    __slots__ = ()
    kind = PYTHON
    process = random.random.__self__  # type: ignore[attr-defined]

    def getattr(self, vm: VM, name: str) -> Object:
        if name == "__class__":
            return vm.const(self.cls)
        found = vm.type_lookup(self.cls, name)
        if found is None or name == "__dict__" or (self.source is not None and name in self.value.__dict__):
            self.break_graph(vm)
        if self.source is not None:
            vm.guard(KeyAbsent, self.source.child(InstanceDict), name)
        return found.descriptor_get(vm, self, self.cls)

    def setattr(self, vm: VM, name: str, value: Object | None) -> None:
        self.break_graph(vm)


class BitGenerator(StatefulGenerator):
    """The bit generator of a NumPy generator, of the kind that default_rng makes."""

    __slots__ = ()
    kind = PCG64


class NumpyGenerator(Object):
    """A numpy.random.Generator. `bits`: the bit generator that has its state."""

    __slots__ = ("bits",)

    def __init__(self, bits: BitGenerator | None, source: Source | None = None, value: Any = MISSING) -> None:
        super().__init__(numpy.random.Generator, source, value)
        self.bits = bits

    def stateful(self, vm: VM) -> BitGenerator:
        """The bit generator that has its state. Breaks if that is of another kind."""
        if self.bits is None:
            assert self.source is not None
            found = vm.observe(vm.wrap(self.value.bit_generator, self.source.child(CAttr, "bit_generator")))
            if not isinstance(found, BitGenerator):
                vm.unsupported(breaks.Random(f"a {found.cls.__qualname__}"))
            vm.trail.fill(self, "bits", found)
        assert self.bits is not None
        return self.bits

    def getattr(self, vm: VM, name: str) -> Object:
        if name == "bit_generator":
            return self.stateful(vm)
        method = METHODS.get(name)
        return MethodObject(vm.pin(method), self) if method is not None else super().getattr(vm, name)

    def reconstruct(self, cg: Codegen) -> None:
        assert self.bits is not None
        cg.load(self.bits)
        cg.call_const(numpy.random.Generator, 1)

    def referents(self) -> list[Object]:
        return [] if self.bits is None or self.source is not None else [self.bits]


class StateGenerator(StatefulGenerator):
    """A numpy.random.RandomState, with the kind of bit generator that it makes by itself."""

    __slots__ = ()
    kind = MERSENNE
    process = numpy.random.shuffle.__self__  # type: ignore[attr-defined]

    def check(self, vm: TorchVM) -> None:
        assert self.source is not None
        bits = self.value._bit_generator
        if type(bits) is not numpy.random.MT19937:
            self.break_graph(vm)
        vm.guard(TypeIs, self.source.child(CAttr, "_bit_generator"), numpy.random.MT19937)

    def getattr(self, vm: VM, name: str) -> Object:
        method = STATE_METHODS.get(name)
        return MethodObject(vm.pin(method), self) if method is not None else super().getattr(vm, name)


STATE_METHODS = {name: getattr(numpy.random.RandomState, name) for name in (*STATES, "shuffle", "seed")}
OF_STATES = {STATE_METHODS[name]: function for name, function in STATES.items()}
METHODS = {name: getattr(numpy.random.Generator, name) for name in (*GENERATORS, "shuffle")}
FUNCTIONS = {METHODS[name]: function for name, function in GENERATORS.items()}
ON_ARRAYS = {
    methods[name]: (order, methods["choice" if name == "choice" else "permutation"])
    for methods in (METHODS, STATE_METHODS)
    for name, order in (("permutation", app.permutation), ("shuffle", app.shuffle), ("choice", app.choice))
}
"""Methods that may be given an array, with their stand-in for that, and the method that draws an order for it."""
IN_PYTHON: dict[Any, DrawingFunction | None] = {getattr(random.Random, name): function for name, function in OF_PYTHON.items()}
IN_PYTHON[random.Random.seed] = None
ORDERS = [function for function, (module, _) in NAMES.items() if module == "random"]


@wraps(random.Random, shared=True)
def wrap_random(vm: VM, value: random.Random, source: Source) -> Object:
    return PythonGenerator(source, value) if type(value) is random.Random else wrapper_for(object).wrap(vm, value, source)


def break_reason(function: Object) -> breaks.Break:
    return breaks.Random(f"{function.name_when_called}()")


def draw(vm: TorchVM, generator: StatefulGenerator, function: DrawingFunction, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """Call a function that draws; None if no graph can handle the call."""
    wanted = asked(vm, function, args, kwargs)
    if wanted is None or not (wanted.size is not None or vm.graph.unbacked.may_begin()):
        return None
    vm.place()
    return wanted.result(vm, drawn_from(vm, generator, wanted.arguments(vm)))


def drawn_from(vm: TorchVM, generator: StatefulGenerator, wanted: list[Object]) -> Object:
    """The tensor that the graph draws from a generator. `wanted`: what `numbers_from` takes (draws.py), but for the generator."""
    drawn = enter(vm, DRAW_NUMBERS, [vm.const(generator.kind.cls.__name__), generator.state(vm), *wanted])
    result, after = [vm.observe(part) for part in abstract.iterate(vm, drawn)]
    generator.move(vm, after)
    return result


@models(random.Random)
def make_random(vm: TorchVM, x: Object | None = None) -> Object:
    return PythonGenerator(kept=state_by_seed(vm, PYTHON, seed_of(vm, x)))


def default_rng(vm: TorchVM, seed: Object | None = None) -> Object:
    """numpy.random.default_rng: a new generator, or the one that is passed."""
    if seed is not None and isinstance(vm.observe(seed), NumpyGenerator):
        return vm.observe(seed)
    number = seed_of(vm, seed)
    if not number.is_symbolic(vm) and number.constant(vm) < 0:
        vm.unsupported(breaks.Random("default_rng()"))
    return NumpyGenerator(BitGenerator(kept=state_by_seed(vm, PCG64, number)))


def seed_of(vm: VM, seed: Object | None) -> Object:
    """A number that is a seed. Breaks if it isn't one: then the system is asked for a seed."""
    number = None if seed is None else vm.observe(seed)
    if number is None or not is_seed(vm, number):
        vm.unsupported(breaks.Random("a generator made by no number"))
    return number


@models(random.Random.random)
def random_of_python(vm: TorchVM, self: Object) -> Object:
    return by_python(vm, vm.const(random.Random.random), [self], {}) or vm.unsupported(breaks.Random("Random.random()"))


@models(random.Random.getrandbits)
def bits_of_python(vm: TorchVM, self: Object, /, *args: Object, **kwargs: Object) -> Object:
    return by_python(vm, vm.const(random.Random.getrandbits), [self, *args], kwargs) or vm.unsupported(breaks.Random("Random.getrandbits()"))


@rules(*[function for function in (*IN_PYTHON, *ORDERS) if type(function) is FunctionType])
def by_python(vm: TorchVM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """A call of a method of random.Random; None if it is the process's generator, or of another class."""
    generator = vm.observe(args[0]) if args else None
    if not isinstance(generator, PythonGenerator) or (generator.source is not None and generator.is_process(vm)):
        return None
    if function.value in ORDERS:
        return drawn_order(vm, function.value, args[1:], kwargs, lambda wanted: drawn_from(vm, generator, wanted))
    drawing = IN_PYTHON[function.value]
    if drawing is not None:
        return draw(vm, generator, drawing, args[1:], kwargs) or vm.unsupported(break_reason(function))
    if len(args) != 2 or kwargs or not is_seed(vm, vm.observe(args[1])):
        vm.unsupported(break_reason(function))
    generator.seed(vm, vm.observe(args[1]))
    return vm.const(None)


@models(numpy.random.RandomState)
def make_state(vm: TorchVM, seed: Object | None = None) -> Object:
    return StateGenerator(kept=state_by_seed(vm, MERSENNE, seed_of_state(vm, seed)))


def seed_of_state(vm: VM, seed: Object | None) -> Object:
    """A number that is a seed of a RandomState, and known to be one."""
    number = seed_of(vm, seed)
    if not 0 <= number.constant(vm) < 2**32:
        vm.unsupported(breaks.Random("RandomState()"))
    return number


def by_numpy(vm: TorchVM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """A call of a method of numpy.random.Generator, or of a RandomState other than the process's; None if it is another call."""
    is_known = any(function.value in known for known in (FUNCTIONS, OF_STATES, ON_ARRAYS)) or function.value is STATE_METHODS["seed"]
    generator = vm.observe(args[0]) if args and is_known else None
    if not isinstance(generator, (NumpyGenerator, StateGenerator)):
        return None
    if isinstance(generator, StateGenerator) and generator.source is not None and generator.is_process(vm):
        return None
    on_array, order = ON_ARRAYS.get(function.value, (None, None))
    if on_array is not None and orders_array(vm, on_array.__name__, args[1:], kwargs):
        return vm.call_app(on_array, [MethodObject(vm.pin(order), generator), *args[1:]], kwargs)
    if function.value is STATE_METHODS["seed"] and isinstance(generator, StateGenerator):
        generator.seed(vm, seed_of_state(vm, args[1] if len(args) == 2 and not kwargs else None))
        return vm.const(None)
    drawing = (FUNCTIONS if isinstance(generator, NumpyGenerator) else OF_STATES).get(function.value)
    stateful = generator.stateful(vm) if isinstance(generator, NumpyGenerator) else generator
    return None if drawing is None else draw(vm, stateful, drawing, args[1:], kwargs)


@wraps(numpy.random.Generator, shared=True)
def wrap_numpy_generator(vm: VM, value: numpy.random.Generator, source: Source) -> Object:
    return NumpyGenerator(None, source, value)


@wraps(numpy.random.PCG64, shared=True)
def wrap_bit_generator(vm: VM, value: numpy.random.PCG64, source: Source) -> Object:
    return BitGenerator(source, value)


@wraps(numpy.random.RandomState, shared=True)
def wrap_state(vm: VM, value: numpy.random.RandomState, source: Source) -> Object:
    return StateGenerator(source, value)
