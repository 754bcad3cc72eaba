"""`InputRegion` and `ExploredInputs`, the results of valid_inputs(): conditions on sizes and ints, examples, and what the program does there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
from torch import fx

from framejit.errors import BadArgument, UserFrame
from framejit.guards.input_sets import Undecided, smallest
from framejit.guards.prove import bounds
from framejit.guards.shape_values import value_of
from framejit.user.exploring.example_inputs import Arguments, ExampleInputs

Sizes = Mapping[str, int]
"""Sizes and ints by name: "x.size(0)", "n"."""
MOST_ELEMENTS = 1 << 24
"""The most elements of all tensors with varying sizes: inputs with more elements are not made."""
SECONDS_FOR_SIZES = 2.0
"""The time that z3 gets to find one set of sizes."""


@dataclass(frozen=True)
class RaisedError:
    """An error that the program raises, uncompiled. `frame`: the innermost of the program's frames that it came through, or of torch's if there is none."""

    type: type[BaseException]
    message: str
    frame: UserFrame | None

    def __str__(self) -> str:
        return f"{self.type.__qualname__}: {self.message}" + ("" if self.frame is None else f"\n{self.frame.render()}")


@dataclass(frozen=True)
class InputRegion:
    """A set of inputs for which a program takes one path.

    Attributes:
        conditions: the conditions on the inputs, as Python expressions: "x.size(0) >= 2". Sizes are never negative.
        guards: the conditions as sympy expressions, over the symbols in `symbols`.
        distinctions: those conditions that tell the region from the others that were found.
        sizes: the smallest sizes and ints in the region, among those that were still unexplored when it was found.
        graphs: the graphs that were compiled: one, or none if there is nothing to compute.
        error: the error that the program raises for the smallest inputs; None if it returns.
        stopped: why and where tracing has stopped, so that the program may take several paths from there; empty if it was traced to its end.
    """

    conditions: tuple[str, ...]
    guards: tuple[Any, ...]
    distinctions: tuple[str, ...]
    sizes: Sizes
    graphs: tuple[fx.GraphModule, ...]
    error: RaisedError | None
    stopped: str
    example: ExampleInputs = field(repr=False, compare=False)

    @property
    def condition(self) -> str:
        """All conditions in one."""
        return " and ".join(self.conditions) or "always"

    @property
    def symbols(self) -> dict[str, sympy.Symbol]:
        """The symbol of each size and int that varies."""
        return symbols_of(self.example)

    def accepts(self, sizes: Sizes) -> bool:
        """Return whether inputs of these sizes are in the region."""
        return holds(self.guards, sizes) and holds(bounds_of(self.example), sizes)

    def inputs(self, sizes: Sizes | None = None, seed: int = 0) -> Arguments:
        """New arguments: positional ones, and those by name. `sizes`: by default the smallest. Raises BadArgument for sizes outside of the region."""
        if sizes is not None and (sizes.keys() != self.sizes.keys() or not self.accepts(sizes)):
            raise BadArgument(f"InputRegion.inputs(): {text_of(sizes)} is not in the region: {self.condition}")
        return self.example.make(self.sizes if sizes is None else sizes, seed)[0]

    def sizes_from(self, least: Sizes) -> Sizes | None:
        """The smallest sizes and ints in the region of which none is less than in `least`; None where z3 finds none."""
        symbols = self.symbols
        above = [sympy.Ge(symbols[name], value, evaluate=False) for name, value in least.items()]
        try:
            return smallest_sizes(self.example, [*self.guards, *above])
        except Undecided:
            return None

    def __str__(self) -> str:
        lines = [self.condition, f"  smallest: {text_of(self.sizes)}"]
        operations = [sum(node.op in ("call_function", "call_method") for node in graph.graph.nodes) for graph in self.graphs]
        lines += [f"  graph of {count} operation{'' if count == 1 else 's'}" for count in operations]
        lines += [] if self.error is None else [f"  raises {self.error}".replace("\n", "\n  ")]
        lines += [f"  followed up to: {self.stopped}"] if self.stopped else []
        return "\n".join(lines)


@dataclass(frozen=True)
class ExploredInputs(Sequence[InputRegion]):
    """The regions that were found; the example's comes first. `unexplored`: texts about what isn't known; empty if the regions contain all inputs."""

    regions: tuple[InputRegion, ...]
    unexplored: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Return whether all inputs are in a region, and each region was traced to its end."""
        return not self.unexplored

    def __getitem__(self, index: Any) -> Any:
        return self.regions[index]

    def __len__(self) -> int:
        return len(self.regions)

    def __str__(self) -> str:
        parts = [f"region {number}: {region}" for number, region in enumerate(self.regions)]
        return "\n".join([*parts, *(f"not explored: {text}" for text in self.unexplored)])


def text_of(sizes: Sizes) -> str:
    """Sizes as text."""
    return ", ".join(f"{name} = {value}" for name, value in sizes.items()) or "nothing varies"


def symbols_of(example: ExampleInputs) -> dict[str, sympy.Symbol]:
    """The symbol of each size and int that varies."""
    ints = {number.symbol for number in example.ints}
    return {name: sympy.Symbol(name, integer=True, nonnegative=None if name in ints else True) for name in example.sizes}


def bounds_of(example: ExampleInputs) -> list[Any]:
    """The ranges that the example's marks declare, as conditions."""
    symbols = symbols_of(example)
    return bounds({symbols[name]: limits for name, limits in example.bounds.items()})


def holds(conditions: Iterable[Any], sizes: Sizes) -> bool:
    """Return whether conditions are true when Python evaluates them. A condition that can't be computed counts as false."""
    try:
        return all(value_of(condition, sizes) for condition in conditions)
    except (ArithmeticError, ValueError):
        return False


def smallest_sizes(example: ExampleInputs, conditions: Iterable[Any], near: Sizes | None = None) -> Sizes | None:
    """The sizes and ints that satisfy conditions and are smallest, or nearest to `near`; None where there are none. Raises Undecided."""
    symbols = symbols_of(example)
    least = {symbols[name]: lower for name, (lower, _) in example.bounds.items()}
    origins = None if near is None else {symbols[name]: value for name, value in near.items()}
    found = smallest([*conditions, *bounds_of(example)], least, SECONDS_FOR_SIZES, origins)
    return None if found is None else {name: found[symbol] for name, symbol in symbols.items()}
