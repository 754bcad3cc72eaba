"""random and numpy.random: single numbers drawn from the generators of the process are drawn by the graph. All else of these modules runs natively.

A number that is drawn is not known while tracing, like a number out of a tensor. Where the program needs its value, say for a branch, it is drawn natively.
"""

from __future__ import annotations

import random
from types import FunctionType, MethodType
from typing import Any

import numpy
import torch

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.graph.draws import DRAW, SEED, draws_of
from framejit.guards.kinds import ValueIs
from framejit.modules.torch_seeds import is_seed
from framejit.objects import abstract, operators
from framejit.objects.naming import callable_name
from framejit.objects.numberobject import NumberObject
from framejit.objects.object import Object
from framejit.objects.registry import library, models
from framejit.objects.tensorobject import TensorObject, number_out_of
from framejit.objects.torchcall import enter

OF_RANDOM = {
    "random": 0, "uniform": 2, "triangular": 3, "betavariate": 2, "expovariate": 1, "gammavariate": 2, "gauss": 2, "lognormvariate": 2,
    "normalvariate": 2, "vonmisesvariate": 2, "paretovariate": 1, "weibullvariate": 2, "randint": 2, "randrange": 3,
}  # fmt: skip
"""Functions that draw one number, and how many numbers they take at most."""
OF_NUMPY = {
    "random": 0, "random_sample": 0, "rand": 0, "randn": 0, "standard_normal": 0, "uniform": 2, "normal": 2, "beta": 2, "gamma": 2,
    "exponential": 1, "laplace": 2, "lognormal": 2, "triangular": 3, "randint": 2, "poisson": 1, "binomial": 2,
}  # fmt: skip
INTEGRAL = frozenset({"randint", "randrange", "poisson", "binomial"})
MOST = 2**62
"""Ints beyond this are left to Python."""

Drawing = tuple[str, str, int]
"""The module and the name of a function that draws, and how many numbers it takes at most."""
METHODS: dict[Any, tuple[Any, Drawing]] = {}
"""Such functions by what their bound methods are of; with the object that holds the process's generator."""


def draw(vm: TorchVM, drawing: Drawing, args: list[Object]) -> Object | None:
    """A number that the graph draws; None where that is left to native code."""
    module, name, most = drawing
    numbers = [vm.observe(arg) for arg in args]
    if len(numbers) > most or not vm.graph.unbacked.may_begin():
        return None
    if not all(isinstance(number, NumberObject) and not number.is_symbolic(vm) for number in numbers):
        return None
    values = [number.constant(vm) for number in numbers]
    if name in INTEGRAL and not all(abs(value) < MOST for value in values):
        return None
    vm.place()
    dtype = torch.int64 if name in INTEGRAL else torch.float64
    drawn = enter(vm, DRAW, [vm.const(module), vm.const(name), vm.const(tuple(values)), vm.const(dtype), last_draw(vm)])
    assert isinstance(drawn, TensorObject)
    return number_out_of(vm, drawn, "item")


def last_draw(vm: TorchVM) -> Object:
    """What the last operator on one of these generators has given; None where there is none."""
    earlier = draws_of(vm.graph.outermost.fx)
    found = vm.graph.object_of(earlier[-1].meta["example_value"]) if earlier else vm.const(None)
    assert found is not None
    return found


def seed(vm: TorchVM, module: str, args: list[Object]) -> Object | None:
    """Seeding a generator of the process; None where that is left to native code."""
    number = vm.observe(args[0]) if len(args) == 1 else None
    if number is None or vm.graph.is_inner() or not is_seed(vm, number):
        return None
    if module == "numpy.random" and not all(abstract.truth(vm, operators.compare(vm, *bound)) for bound in bounds_of_seed(vm, number)):
        return None
    enter(vm, SEED, [vm.const(module), number, last_draw(vm)])
    return vm.const(None)


def bounds_of_seed(vm: TorchVM, number: Object) -> list[tuple[str, Object, Object]]:
    """What must hold of a seed that NumPy takes."""
    return [(">=", number, vm.const(0)), ("<", number, vm.const(2**32))]


def refuse(function: Any) -> breaks.Break:
    return breaks.Random(f"{callable_name(function)}()")


def builtin(function: Any, drawing: Drawing) -> None:
    """A method in C that is bound to the process's generator for good."""

    @models(function)
    def drawn(vm: TorchVM, *args: Object) -> Object:
        return draw(vm, drawing, list(args)) or vm.unsupported(refuse(function))


for _module, _functions, _name in ((random, OF_RANDOM, "random"), (numpy.random, OF_NUMPY, "numpy.random")):
    for _function, _most in _functions.items():
        _method = getattr(_module, _function)
        if isinstance(_method, MethodType):
            METHODS[_method.__func__] = _method.__self__, (_name, _function, _most)
        else:
            builtin(_method, (_name, _function, _most))


SEEDED: dict[Any, tuple[Any, str]] = {random.Random.seed: (random.seed.__self__, "random")}  # type: ignore[attr-defined]
"""Functions that seed, by what their bound methods are of; with the object that holds the process's generator."""


def by_method(vm: TorchVM, function: Object, args: list[Object]) -> Object | None:
    """A call of a method of the process's generator, bound or not; None where it is none."""
    generator, drawing = METHODS.get(function.value) or SEEDED.get(function.value) or (None, None)
    if drawing is None or not args or vm.observe(args[0]).value is not generator:
        return None
    receiver = vm.observe(args[0])
    found = seed(vm, drawing, args[1:]) if isinstance(drawing, str) else draw(vm, drawing, args[1:])
    for obj in (function, receiver):
        if found is not None and obj.source is not None:
            vm.guard(ValueIs, obj.source, obj.value)
    return found


@library
def method_in_python(vm: TorchVM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """A function of `random` is a bound method of the process's generator."""
    return by_method(vm, function, args) if type(function.value) is FunctionType and not kwargs else None


CYTHON_CALL = vars(type(getattr(numpy.random.beta, "__func__", None))).get("__call__")
"""How Cython's functions are called; None where NumPy's methods are of another kind."""


def method_in_cython(vm: TorchVM, function: Object, *args: Object, **kwargs: Object) -> Object:
    """A function of `numpy.random` is a bound method of the process's generator."""
    if kwargs:
        vm.unsupported(refuse(function.value))
    if function.value is numpy.random.seed:
        found = seed(vm, "numpy.random", list(args))
        if function.source is not None:
            vm.guard(ValueIs, function.source, function.value)
    else:
        found = by_method(vm, function, list(args))
    return found if found is not None else vm.unsupported(refuse(function.value))


if CYTHON_CALL is not None:
    models(CYTHON_CALL)(method_in_cython)
