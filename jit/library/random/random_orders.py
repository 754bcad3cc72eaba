"""random.choice, sample, choices and shuffle of numbers: the graph draws positions, and the numbers at these.

Numbers that are drawn from a list or a range are numbers read from a tensor. Which positions are drawn doesn't affect how many numbers are.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy
import torch

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.guards.source import MISSING
from framejit.library.random.random_functions import MOST
from framejit.objects.core import abstract
from framejit.objects.core.object import Object
from framejit.objects.numbers.numberobject import NumberObject
from framejit.objects.tensors.tensorobject import MOST_NUMBERS, TensorObject, number_out_of, tensor_tolist
from framejit.objects.tensors.torchcall import enter
from framejit.objects.types.listobject import ListObject
from framejit.objects.types.tupleobject import TupleObject

NAMES: dict[Any, tuple[str, str]] = {
    random.Random.choice: ("random", "choice_of"), random.Random.sample: ("random", "sample"), random.Random.choices: ("random", "choices"),
    random.Random.shuffle: ("random", "shuffle"), numpy.random.shuffle.__func__: ("numpy.random", "permutation"),  # type: ignore[attr-defined]
}  # fmt: skip
"""Functions, by the function of their bound methods, with the module and the name by which the operators that draw know them."""
Draw = Callable[[list[Object]], Object]
"""Draws positions in the graph. It is given the arguments that `numbers_from` takes (draws.py), but for the generator."""


def drawn_order(vm: TorchVM, function: Any, args: list[Object], kwargs: dict[str, Object], draw: Draw) -> Object | None:
    """The result of a call; None if it is left to native code."""
    found = order_in_graph(vm, NAMES[function][1], args, kwargs, draw)
    if found is None and function is random.Random.sample:
        reject_varying(vm, args)
    return found


def order_in_graph(vm: TorchVM, name: str, args: list[Object], kwargs: dict[str, Object], draw: Draw) -> Object | None:
    """The result of a call that the graph makes; None if it can't."""
    if not args or vm.graph.is_inner() or not vm.graph.unbacked.may_begin():
        return None
    population, is_shuffle = vm.observe(args[0]), name in ("shuffle", "permutation")
    if is_shuffle and (population.cls is not list or population.source is not None):  # one from outside has another order in each call
        return None
    values = values_of(vm, population)
    count = len(values) if values is not None and is_shuffle and len(args) == 1 and not kwargs else count_of(vm, name, args[1:], kwargs)
    if not values or count is None or not 0 < count <= MOST_NUMBERS or (name == "sample" and count > len(values)):
        return None
    vm.place()
    numbers = () if name == "permutation" else (len(values), count) if name in ("sample", "choices") else (len(values),)
    size = None if name == "choice_of" else (count,)
    drawn = draw([vm.const(name), vm.const(numbers), vm.const(size), vm.const(torch.int64)])
    found = at_places(vm, values, drawn)
    if name == "choice_of":
        return number_out_of(vm, found, "item")
    chosen = tensor_tolist(vm, found)
    if not is_shuffle:
        return chosen
    assert isinstance(chosen, ListObject) and isinstance(population, ListObject)
    population.replace(vm, list(chosen.items(vm)))
    return vm.const(None)


def reject_varying(vm: TorchVM, args: list[Object]) -> None:
    """Break at a draw from a list or deque whose length is symbolic. The code of `sample` would break where it draws, after it has compared the length."""
    population = vm.observe(args[0]) if args else vm.const(None)
    if population.cls in (list, deque) and abstract.length(vm, population).is_symbolic(vm):
        vm.unsupported(breaks.Random(f"random.sample() of a {population.type_name} whose length varies"))


def count_of(vm: TorchVM, name: str, args: Sequence[Object], kwargs: dict[str, Object]) -> int | None:
    """The number of draws; None if it isn't given plainly, or there are other arguments."""
    if name == "choice_of":
        return None if args or kwargs else 1
    if name == "choices":
        given = kwargs.get("k", vm.const(1)) if not args and kwargs.keys() <= {"k"} else None
    else:
        given = args[0] if name == "sample" and len(args) == 1 and not kwargs else kwargs["k"] if not args and kwargs.keys() == {"k"} else None
    count = None if given is None else vm.observe(given)
    return count.constant(vm) if count is not None and count.cls is int and count.is_knowable() and not count.is_symbolic(vm) else None


def values_of(vm: TorchVM, population: Object) -> Sequence[float] | None:
    """The numbers of a list, a tuple or a range, all ints or all floats; None for others, and if they vary."""
    if population.cls is range:
        values = population.constant(vm)
        return values if all(abs(end) < MOST for end in (values.start, values.stop, values.step, len(values))) else None
    if population.cls not in (list, tuple) or not isinstance(population, (ListObject, TupleObject)) or not is_small(population.value):
        return None
    items = [vm.observe(item) for item in population.items(vm)]
    if len({item.cls for item in items}) != 1 or not all(isinstance(item, NumberObject) and item.symbol(vm) is None for item in items):
        return None
    found = [item.constant(vm) for item in items]
    return found if all(type(value) is float or abs(value) < MOST for value in found) else None


def is_small(real: Any) -> bool:
    """Return whether a real sequence from outside is small enough to be opened, which guards its contents; lists that collect things aren't."""
    return real is MISSING or (len(real) <= MOST_NUMBERS and all(type(item) in (int, float) for item in real))


def at_places(vm: TorchVM, values: Sequence[float], places: Object) -> TensorObject:
    """A tensor of the numbers at these positions."""
    found = places
    if isinstance(values, range):
        if values.step != 1:
            found = enter(vm, torch.mul, [found, vm.const(values.step)])
        if values.start != 0:
            found = enter(vm, torch.add, [found, vm.const(values.start)])
    elif list(values) != list(range(len(values))) or type(values[0]) is float:
        dtype = torch.float64 if type(values[0]) is float else torch.int64
        table = enter(vm, torch.tensor, [vm.const(tuple(values))], {"dtype": vm.const(dtype), "device": vm.const("cpu")})
        found = enter(vm, torch.take, [table, places])
    assert isinstance(found, TensorObject)
    return found
