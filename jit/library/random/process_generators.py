"""random and numpy.random: numbers, and NumPy's arrays of them, that come from the generators of the process are drawn by the graph.

A drawn number is not known while tracing, like a number read from a tensor. If the program needs its value, say for a branch, it is drawn natively.
"""

from __future__ import annotations

import random
from collections import deque
from types import FunctionType, MethodType
from typing import Any

import numpy

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.guards.kinds import ValueIs
from framejit.library.random.draws import DRAW, SEED, draws_of
from framejit.library.random.random_functions import PYTHON, STATES, DrawingFunction, asked, orders_array
from framejit.library.random.random_objects import by_numpy, default_rng
from framejit.library.random.random_orders import NAMES, drawn_order
from framejit.library.random.torch_seeds import is_seed
from framejit.objects.core import abstract, operators
from framejit.objects.core.naming import callable_name
from framejit.objects.core.object import Object
from framejit.objects.core.registry import RuleOrder, call_model, library, models
from framejit.objects.tensors.torchcall import enter
from framejit.plain import random as app

METHODS: dict[Any, tuple[Any, str, DrawingFunction]] = {}
"""Functions that draw, by the function of their bound methods, with the object that holds the process's generator, and its module."""


def draw(vm: TorchVM, module: str, function: DrawingFunction, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """Draw in the graph; None if the call is left to native code."""
    wanted = None if vm.graph.is_inner() else asked(vm, function, args, kwargs)
    if wanted is None or not (wanted.size is not None or vm.graph.unbacked.may_begin()):
        return None
    vm.place()
    return wanted.result(vm, enter(vm, DRAW, [vm.const(module), *wanted.arguments(vm), last_draw(vm)]))


def last_draw(vm: TorchVM) -> Object:
    """The result of the last operator on one of these generators; None if there is none."""
    earlier = draws_of(vm.graph.outermost.fx)
    found = vm.graph.object_of(earlier[-1].meta["example_value"]) if earlier else vm.const(None)
    assert found is not None
    return found


def seed(vm: TorchVM, module: str, args: list[Object]) -> Object | None:
    """Seed a generator of the process; None if the call is left to native code."""
    number = vm.observe(args[0]) if len(args) == 1 else None
    if number is None or vm.graph.is_inner() or not is_seed(vm, number):
        return None
    if module == "numpy.random" and not all(abstract.truth(vm, operators.compare(vm, *bound)) for bound in bounds_of_seed(vm, number)):
        return None
    enter(vm, SEED, [vm.const(module), number, last_draw(vm)])
    return vm.const(None)


def bounds_of_seed(vm: TorchVM, number: Object) -> list[tuple[str, Object, Object]]:
    """The bounds within which NumPy accepts a seed."""
    return [(">=", number, vm.const(0)), ("<", number, vm.const(2**32))]


def break_reason(function: Any) -> breaks.Break:
    return breaks.Random(f"{callable_name(function)}()")


def builtin(function: Any, module: str, drawing: DrawingFunction) -> None:
    """Register a method in C that is permanently bound to the process's generator."""

    @models(function)
    def drawn(vm: TorchVM, *args: Object, **kwargs: Object) -> Object:
        return draw(vm, module, drawing, list(args), kwargs) or vm.unsupported(break_reason(function))


for _module, _functions in ((random, PYTHON), (numpy.random, STATES)):
    for _name, _function in _functions.items():
        _method = getattr(_module, _name)
        if isinstance(_method, MethodType):
            METHODS[_method.__func__] = _method.__self__, _module.__name__, _function
        else:
            builtin(_method, _module.__name__, _function)
SHUFFLE = numpy.random.shuffle.__func__  # type: ignore[attr-defined]
MODULES: dict[str, Any] = {"random": random, "numpy.random": numpy.random}
OTHERS: dict[Any, tuple[Any, str, None]] = {
    random.Random.seed: (random.seed.__self__, "random", None),  # type: ignore[attr-defined]
    **{function: (MODULES[module].shuffle.__self__, module, None) for function, (module, _) in NAMES.items()},
}
"""Functions that return no number, by the function of their bound methods, with the object that holds the process's generator, and its module."""
ON_ARRAYS = {numpy.random.permutation.__func__: app.permutation, SHUFFLE: app.shuffle, numpy.random.choice.__func__: app.choice}  # type: ignore[attr-defined]
"""Functions that may be given an array, by the function of their bound methods, with their stand-in for that."""


def by_method(vm: TorchVM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """A call of a method of the process's generator, bound or not; None if it isn't one."""
    generator, module, drawing = METHODS.get(function.value) or OTHERS.get(function.value) or (None, "", None)
    if generator is None or not args or vm.observe(args[0]).value is not generator:
        return None
    receiver = vm.observe(args[0])
    on_array = ON_ARRAYS.get(function.value)
    if on_array is not None and orders_array(vm, on_array.__name__, args[1:], kwargs):
        draws_order = vm.pin(getattr(numpy.random, "choice" if on_array is app.choice else "permutation"))
        found: Object | None = vm.call_app(on_array, [draws_order, *args[1:]], kwargs)
    elif function.value in NAMES:
        found = drawn_order(vm, function.value, args[1:], kwargs, lambda wanted: enter(vm, DRAW, [vm.const(module), *wanted, last_draw(vm)]))
        if found is None and not kwargs:
            reject_draw(vm, function.value, args[1:])
    elif drawing is not None:
        found = draw(vm, module, drawing, args[1:], kwargs)
    else:
        found = None if kwargs else seed(vm, module, args[1:])
    for obj in (function, receiver):
        if found is not None and obj.source is not None:
            vm.guard(ValueIs, obj.source, obj.value)
    return found


def reject_draw(vm: TorchVM, function: Any, args: list[Object]) -> None:
    """Break at a draw from a sequence that the graph can't draw from. The code of `sample` and `choice` would break where it asks for random bits."""
    if function not in (random.Random.sample, random.Random.choice) or len(args) != (2 if function is random.Random.sample else 1):
        return
    population = vm.observe(args[0])
    if population.cls not in (list, tuple, deque):
        return
    length = abstract.length(vm, population)
    if length.is_symbolic(vm):
        return
    count = vm.observe(args[1]) if len(args) > 1 else vm.const(1)
    if count.cls is int and count.is_knowable() and not count.is_symbolic(vm) and 0 < count.constant(vm) <= length.constant(vm):
        vm.unsupported(breaks.Random(f"random.{function.__name__}() of a {population.type_name} whose items aren't numbers that a graph takes"))


@library(RuleOrder.BY_KIND)
def method_in_python(vm: TorchVM, function: Object, args: list[Object], kwargs: dict[str, Object]) -> Object | None:
    """Call a function of `random`, which is a bound method of the process's generator."""
    return by_method(vm, function, args, kwargs) if type(function.value) is FunctionType else None


CYTHON_CALL = vars(type(getattr(numpy.random.beta, "__func__", None))).get("__call__")
"""The type of Cython's functions; None if NumPy's methods are of another type."""


def method_in_cython(vm: TorchVM, function: Object, *args: Object, **kwargs: Object) -> Object:
    """Call a function of `numpy.random`, which is a bound method of the process's generator."""
    if function.value is numpy.random.default_rng:
        return call_model(vm, default_rng, function.value, args, kwargs)
    found = by_numpy(vm, function, list(args), kwargs)
    if found is not None:
        return found
    if function.value is numpy.random.seed and not kwargs:
        found = seed(vm, "numpy.random", list(args))
        if function.source is not None:
            vm.guard(ValueIs, function.source, function.value)
    else:
        found = by_method(vm, function, list(args), kwargs)
    return found if found is not None else vm.unsupported(break_reason(function.value))


if CYTHON_CALL is not None:
    models(CYTHON_CALL)(method_in_cython)
