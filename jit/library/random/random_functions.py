"""The functions of Python's and NumPy's generators that a graph can call, with their arguments and results."""

from __future__ import annotations

import inspect
import random
from collections.abc import Mapping
from types import FunctionType
from typing import Any

import numpy
import torch

from framejit.library.random.draws import BY_DIMENSIONS
from framejit.objects.arrays.ndarrayobject import ArrayObject, array_of_tensor
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Object
from framejit.objects.numbers.numberobject import NumberObject
from framejit.objects.tensors.tensorobject import TensorObject, number_out_of
from framejit.objects.types.tupleobject import TupleObject
from framejit.quick_dataclass import dataclass

NEEDED = inspect.Parameter.empty
OF_PYTHON = (
    "random", "uniform", "triangular", "betavariate", "expovariate", "gammavariate", "gauss", "lognormvariate", "normalvariate", "vonmisesvariate",
    "paretovariate", "weibullvariate", "randint", "randrange",
)  # fmt: skip
FROM_0_TO_1, STANDARD = {"low": 0.0, "high": 1.0}, {"loc": 0.0, "scale": 1.0}
OF_ARRAYS: dict[str, dict[str, Any]] = {
    "random": {}, "standard_normal": {}, "standard_exponential": {}, "uniform": FROM_0_TO_1, "normal": STANDARD, "laplace": STANDARD, "gumbel": STANDARD,
    "logistic": STANDARD, "lognormal": {"mean": 0.0, "sigma": 1.0}, "beta": {"a": NEEDED, "b": NEEDED}, "gamma": {"shape": NEEDED, "scale": 1.0},
    "exponential": {"scale": 1.0}, "rayleigh": {"scale": 1.0}, "triangular": {"left": NEEDED, "mode": NEEDED, "right": NEEDED}, "weibull": {"a": NEEDED},
    "chisquare": {"df": NEEDED}, "poisson": {"lam": 1.0}, "binomial": {"n": NEEDED, "p": NEEDED}, "geometric": {"p": NEEDED},
    "choice": {"a": NEEDED, "size": None, "replace": True}, "permutation": {"x": NEEDED},
}  # fmt: skip
"""Functions of NumPy's generators, and their parameters besides `size`, with the defaults."""
OF_STATES = {**OF_ARRAYS, "random_sample": {}, "rand": {}, "randn": {}, "randint": {"low": NEEDED, "high": None}}
"""Functions of numpy.random and of RandomState, and their parameters besides `size`, with the defaults."""
INTEGRAL = frozenset({"randint", "integers", "randrange", "poisson", "binomial", "geometric", "choice", "permutation", "getrandbits"})
MOST = 2**62
"""Larger ints are left to Python."""


@dataclass(frozen=True)
class DrawingFunction:
    """A function that draws, its parameters besides `size`, with the defaults, and whether it takes a `size`."""

    name: str
    parameters: Mapping[str, Any]
    sized: bool

    @property
    def dtype(self) -> torch.dtype:
        return torch.int64 if self.name in INTEGRAL else torch.float64


@dataclass(frozen=True)
class NumbersAsked:
    """The arguments of a call that draws: its numbers, and the size of the array; None for a single number."""

    function: DrawingFunction
    numbers: tuple[float, ...]
    size: TupleObject | None

    def arguments(self, vm: VM) -> list[Object]:
        """The arguments for the operators of library/random/draws.py."""
        size = vm.const(None) if self.size is None else self.size
        return [vm.const(self.function.name), vm.const(self.numbers), size, vm.const(self.function.dtype)]

    def result(self, vm: VM, drawn: Object) -> Object | None:
        """The program's result, made from the tensor that an operator has drawn."""
        assert isinstance(drawn, TensorObject)
        if self.size is not None:
            return array_of_tensor(vm, drawn)
        return ArrayObject(numpy.int64, drawn) if self.function.name == "integers" else number_out_of(vm, drawn, "item")


def of_python(name: str) -> DrawingFunction:
    """A function of a random.Random."""
    method = getattr(random.Random, name)
    known = inspect.signature(method).parameters if isinstance(method, FunctionType) else {}
    return DrawingFunction(name, {key: parameter.default for key, parameter in known.items() if key != "self"}, sized=False)


BITS = DrawingFunction("getrandbits", {"k": NEEDED}, sized=False)
PYTHON = {**{name: of_python(name) for name in OF_PYTHON}, "getrandbits": BITS}


def of_numpy(functions: Mapping[str, dict[str, Any]]) -> dict[str, DrawingFunction]:
    return {name: DrawingFunction(name, parameters, name not in BY_DIMENSIONS and name != "choice") for name, parameters in functions.items()}


STATES, GENERATORS = of_numpy(OF_STATES), of_numpy({**OF_ARRAYS, "integers": {"low": NEEDED, "high": None}})


def orders_array(vm: VM, name: str, args: list[Object], kwargs: dict[str, Object]) -> bool:
    """Return whether `choice`, `shuffle` or `permutation` is given an array, and no arguments that plain/random.py doesn't handle, such as probabilities."""
    if not args or not isinstance(vm.observe(args[0]), ArrayObject):
        return False
    return (len(args) <= 3 and kwargs.keys() <= {"size", "replace"}) if name == "choice" else len(args) == 1 and not kwargs


def asked(vm: VM, function: DrawingFunction, args: list[Object], kwargs: dict[str, Object]) -> NumbersAsked | None:
    """The arguments of a call that draws; None if no graph can handle them."""
    if function.name in BY_DIMENSIONS:
        dimensions = None if kwargs else size_of(vm, TupleObject(args))
        return None if dimensions is None else NumbersAsked(function, (), dimensions if dimensions.items(vm) else None)
    names = [*function.parameters, *(["size"] if function.sized else [])]
    if len(args) > len(names) or any(name not in names[len(args) :] for name in kwargs):
        return None
    given = {**{name: vm.observe(arg) for name, arg in zip(names, args)}, **{name: vm.observe(arg) for name, arg in kwargs.items()}}
    size = given.pop("size", vm.const(None))
    wanted = [name for name in function.parameters if name != "size"]
    if function.name != "choice":
        while wanted and (wanted[-1] not in given or given[wanted[-1]].cls is type(None)):
            wanted.pop()
    numbers = [number_of(vm, given[name]) if name in given else function.parameters[name] for name in wanted]
    misses = any(default is NEEDED and name not in wanted for name, default in function.parameters.items())
    if misses or not all(type(number) in (int, float, bool) for number in numbers):
        return None
    if any(type(number) is int and abs(number) >= MOST for number in numbers):
        return None
    if function is BITS and (kwargs or type(numbers[0]) is float or not 0 <= numbers[0] < MOST.bit_length()):
        return None
    if size.cls is type(None):
        return NumbersAsked(function, tuple(numbers), None)
    sizes = size_of(vm, size)
    return None if sizes is None else NumbersAsked(function, tuple(numbers), sizes)


def number_of(vm: VM, obj: Object) -> Any:
    """A number that is an argument; None if it isn't a number, or varies."""
    return obj.constant(vm) if obj.cls in (int, float, bool) and obj.is_knowable() and not obj.is_symbolic(vm) else None


def size_of(vm: VM, size: Object) -> TupleObject | None:
    """The sizes of an array; None if they aren't ints. Their values needn't be known."""
    sizes: list[Object] | None = [size] if isinstance(size, NumberObject) else None
    if sizes is None and size.cls in (tuple, list, torch.Size):
        sizes = [vm.observe(part) for part in abstract.iterate(vm, size)]
    if sizes is None or not all(isinstance(part, NumberObject) and part.cls is int for part in sizes):
        return None
    if any(not part.is_symbolic(vm) and part.constant(vm) < 0 for part in sizes):
        return None
    return TupleObject(list(sizes))


