"""Operators that draw from the generators of the process when the graph runs, and never while it is traced or compiled.

Operators on Python's and NumPy's generators take the result of the previous one as an argument, so that no backend changes their order. Operators that
seed torch's generators, or read or set their states, are only for backends that keep the graph's order. They have numbers, so that no two of them are equal.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy
import torch
from torch import fx

from framejit.quick_dataclass import dataclass
from framejit.torch_state.own_operators import DRAWS, declare_operator


@dataclass(frozen=True, slots=True)
class Generator:
    """A generator of the process: the module whose functions draw from it, and how its state is read and set."""

    module: ModuleType
    get_state: Callable[[], Any]
    set_state: Callable[[Any], None]


GENERATORS = {
    "random": Generator(random, random.getstate, random.setstate),
    "numpy.random": Generator(numpy.random, numpy.random.get_state, numpy.random.set_state),
}

STATE: torch.Tensor = torch.Generator().get_state()
"""The state of a new torch.Generator."""


@declare_operator("draw(str module, str function, Scalar[] arguments, SymInt[]? size, ScalarType dtype, Tensor? after) -> Tensor", tags=DRAWS)
def draw(
    module: str, function: str, arguments: Sequence[float], size: Sequence[int] | None, dtype: torch.dtype, after: torch.Tensor | None
) -> torch.Tensor:
    """Call a function of a module for a number, or an array of this size; the result is a tensor. `after`: the draw that must come first."""
    return numbers_from(GENERATORS[module].module, function, arguments, size, dtype)


BY_DIMENSIONS = frozenset({"rand", "randn", "permutation"})
"""Functions that take each dimension of their arrays as a separate argument, if at all."""


def shuffled(holder: Any, count: int) -> list[int]:
    """The positions from 0 to `count` - 1, in the order in which Python's `shuffle` leaves a list of that length."""
    places = list(range(count))
    holder.shuffle(places)
    return places


ORDERS: dict[str, Callable[..., Any]] = {
    "choice_of": lambda holder, count: holder.choice(range(count)), "sample": lambda holder, count, k: holder.sample(range(count), k),
    "choices": lambda holder, count, k: holder.choices(range(count), k=k), "shuffle": shuffled,
}  # fmt: skip
"""Python's functions that choose among items: here among the items' positions, which draws the same random numbers."""


def numbers_from(holder: Any, function: str, arguments: Sequence[float], size: Sequence[int] | None, dtype: torch.dtype) -> torch.Tensor:
    """The result of a function that draws, as a tensor. `holder`: the module, or a generator."""
    if function in ORDERS:
        return torch.tensor(ORDERS[function](holder, *map(int, arguments)), dtype=dtype)
    call = getattr(holder, function)
    if function == "choice":
        found = call(int(arguments[0]), size=size, replace=bool(arguments[1]))
    elif size is None:
        found = call(*arguments)
    else:
        found = call(*size) if function in BY_DIMENSIONS else call(*arguments, size=tuple(size))
    return torch.tensor(found, dtype=dtype) if size is None else torch.from_numpy(found).to(dtype)


@draw.fake
def draw_nothing(
    module: str, function: str, arguments: Sequence[float], size: Sequence[int] | None, dtype: torch.dtype, after: torch.Tensor | None
) -> torch.Tensor:
    return torch.empty(() if size is None else size, dtype=dtype)


@declare_operator("seed(str module, SymInt number, Tensor? after) -> Tensor", tags=DRAWS)
def seed(module: str, number: int, after: torch.Tensor | None) -> torch.Tensor:
    """Seed Python's or NumPy's generator. The result means nothing, as that of the other operators without a result."""
    GENERATORS[module].module.seed(number)
    return torch.zeros(())


@declare_operator("seed_torch(SymInt number, int place) -> Tensor", tags=DRAWS)
def seed_torch(number: int, place: int) -> torch.Tensor:
    """Seed torch's generators, on all devices."""
    torch.random.manual_seed(number)
    return torch.zeros(())


@declare_operator("state_of_torch(int place) -> Tensor", tags=DRAWS)
def state_of_torch(place: int) -> torch.Tensor:
    """The state of torch's CPU generator."""
    return torch.get_rng_state()


@declare_operator("set_state_of_torch(Tensor state, int place) -> Tensor", tags=DRAWS)
def set_state_of_torch(state: torch.Tensor, place: int) -> torch.Tensor:
    """Set the state of torch's CPU generator."""
    torch.set_rng_state(state)
    return torch.zeros(())


@state_of_torch.fake
def some_state(place: int) -> torch.Tensor:
    return torch.empty(STATE.shape, dtype=STATE.dtype, device="cpu")


@seed.fake
@seed_torch.fake
@set_state_of_torch.fake
def change_nothing(*args: Any) -> torch.Tensor:
    return torch.empty(())


DRAW, SEED = draw.overload, seed.overload
SEED_TORCH, STATE_OF_TORCH, SET_STATE_OF_TORCH = seed_torch.overload, state_of_torch.overload, set_state_of_torch.overload


def draws_of(graph: fx.Graph) -> list[fx.Node]:
    """The nodes of a graph that draw from Python's or NumPy's generator, or seed it, in order."""
    return [node for node in graph.nodes if node.target is DRAW or node.target is SEED]


def drawn_from(graph: fx.Graph) -> tuple[Generator, ...]:
    """The generators that such nodes of a graph draw from, or seed."""
    return tuple([GENERATORS[name] for name in sorted({node.args[0] for node in draws_of(graph)})])  # type: ignore[index, type-var]
