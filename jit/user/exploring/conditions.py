"""Reads the conditions on varying sizes and ints from the guards of an entry, as text and as sympy expressions."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch.utils._sympy import functions as shape

from framejit.guards.kinds import Equals, Guard, TensorMatch
from framejit.guards.program_to_sympy import demands_of
from framejit.guards.prove import prove
from framejit.guards.shapes import ShapesHold
from framejit.guards.source import Call, Index, Item, Local, Source
from framejit.quick_dataclass import dataclass
from framejit.user.exploring.example_inputs import ExampleInputs, Position, VaryingTensor
from framejit.user.exploring.regions import symbols_of


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a region. `about_strides`: it is about strides, which follow from the sizes in contiguous tensors."""

    text: str
    expression: Any
    about_strides: bool = False


def without_implied(conditions: Sequence[Condition]) -> list[Condition]:
    """The conditions without those that follow from others: conditions about strides, and bounds of numbers that equal another number."""
    equal = {symbol for known in conditions if isinstance(known.expression, sympy.Eq) for symbol in known.expression.free_symbols}
    kept = list(conditions)
    for condition in conditions:
        is_bound = isinstance(condition.expression, (sympy.Ge, sympy.Le)) and len(condition.expression.free_symbols & equal) == 1
        others = [known.expression for known in kept if known is not condition]
        if (condition.about_strides or is_bound) and prove(others, [(condition.expression, None, condition.text)]).holds:
            kept.remove(condition)
    return kept


def position_of(source: Source | None) -> Position | None:
    """The position in the frame's arguments to which a path leads, through lists, tuples and dicts; None for other paths."""
    steps: list[Any] = []
    while isinstance(source, (Index, Item)):
        steps.append(source.payload)
        source = source.base
    return (source.payload.name, *reversed(steps)) if isinstance(source, Local) else None


class Conditions:
    """Reads from the guards of an entry what they demand of the varying sizes and ints. `unfollowed`: guards that may be about these, by unknown paths."""

    def __init__(self, example: ExampleInputs, call: Call, tensors: Sequence[torch.Tensor], ints: Mapping[Position, str]) -> None:
        self.symbols = symbols_of(example)
        self.unfollowed: list[str] = []
        self._call = call
        self._tensors = {id(made): tensor for made, tensor in zip(tensors, example.tensors, strict=True)}
        self._ints = ints

    def of(self, guards: Iterable[Guard]) -> list[Condition]:
        """The conditions that don't follow from the others."""
        return without_implied([condition for guard in guards for condition in self._of_guard(guard) if condition.expression != sympy.true])

    def _of_guard(self, guard: Guard) -> Iterator[Condition]:
        if isinstance(guard, TensorMatch):
            tensor = self._tensors.get(id(guard.source.fetch(self._call)))
            if tensor is not None:
                yield from self._of_tensor(tensor, guard)
        elif isinstance(guard, ShapesHold):
            yield from self._of_program(guard)
        elif isinstance(guard, Equals):
            yield from self._of_value(guard)

    def _of_value(self, guard: Equals) -> Iterator[Condition]:
        """The conditions that a guard on the value of an int, or of a tuple with ints in it, sets to the ints that vary."""
        place = position_of(guard.source)
        if place is None and type(guard.value) in (int, tuple) and self._may_vary(guard.source):
            self.unfollowed.append(f"{guard.source.name_in_reports()} {guard.expected()}")
        for position, name in self._ints.items():
            if place is not None and position[: len(place)] == place:
                value = functools.reduce(operator.getitem, position[len(place) :], guard.value)
                yield Condition(f"{name} == {value}", sympy.Eq(self.symbols[name], value))

    def _of_tensor(self, tensor: VaryingTensor, guard: TensorMatch) -> Iterator[Condition]:
        assert guard.spec.sizes is not None
        for dim, name in tensor.symbols.items():
            size = guard.spec.sizes[dim]
            if size is not None:
                yield Condition(f"{name} == {size}", sympy.Eq(self.symbols[name], size))
        for dim, stride in enumerate(guard.spec.strides or ()):
            if stride is not None:
                yield Condition(f"{tensor.name}.stride({dim}) == {stride}", sympy.Eq(self._stride(tensor, dim), stride), True)

    def _of_program(self, guard: ShapesHold) -> Iterator[Condition]:
        names, inputs, strided = [], [], set()
        for number, read in enumerate(guard.reads):
            path = guard.paths[read.path]
            value = path.fetch(self._call)
            tensor = self._tensors.get(id(value))
            name = tensor.symbols.get(read.dim) if tensor is not None and read.what == "size" else None
            if read.what == "int" and tensor is None:
                name = self._ints.get(position_of(path) or ())
            if name is not None:
                names.append(name)
                inputs.append(self.symbols[name])
            elif tensor is not None and read.what == "stride":
                names.append(f"{tensor.name}.stride({read.dim})")
                inputs.append(self._stride(tensor, read.dim))
                strided.add(number)
            else:
                names.append(read.name_in_reports(path))
                inputs.append(sympy.sympify(read.of(value)))
        for number, expression in zip(guard.program.demands, demands_of(guard.program, inputs), strict=True):
            yield Condition(guard.program.text(number, names), expression, bool(strided.intersection(guard.program.inputs_of(number))))

    def _stride(self, tensor: VaryingTensor, dim: int) -> Any:
        """A stride of a contiguous tensor."""
        sizes = [self.symbols[tensor.symbols[i]] if i in tensor.symbols else sympy.Integer(size) for i, size in enumerate(tensor.example.shape)]
        return math.prod([shape.Max(1, size) for size in sizes[dim + 1 :]], start=sympy.Integer(1))

    def _may_vary(self, source: Source) -> bool:
        """Return whether a path begins at an argument that has ints in it that vary."""
        root: Source | None = source
        while root is not None and not isinstance(root, Local):
            root = root.base
        return root is not None and any(position[0] == root.payload.name for position in self._ints)
