"""Proves, by the guards, that one entry of a function serves every call that another one serves.

    supersedes(general, special)      # the guards of an entry for any x.size(0) >= 2, and of one for 8 rows: True
    fixes_more(special, general)      # True: 8 rows are a constant there, which code may be better for

Entries are right for all calls that they serve. So a superseded entry can be dropped, and no call is compiled again because of that.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from framejit.guards.kinds import Equals, Guard, TensorMatch, TypeIs
from framejit.guards.relations import Relation
from framejit.guards.shape_vm import LARGEST, SMALLEST
from framejit.guards.shapes import STEPS, ShapesHold
from framejit.guards.source import Source
from framejit.guards.tensor_spec import TensorSpec
from framejit.process.when_needed import when_needed

if TYPE_CHECKING:
    import sympy

    from framejit.guards import input_sets, program_to_sympy, shape_values
else:
    sympy = when_needed("sympy")
    input_sets = when_needed("framejit.guards.input_sets")
    program_to_sympy = when_needed("framejit.guards.program_to_sympy")
    shape_values = when_needed("framejit.guards.shape_values")

Place = tuple[int, str, int]
"""The place of a number: the number of the path to a tensor or number, what is read there (one of `shapes.READS`), and the dimension."""
SECONDS = 0.2
"""The time that z3 gets, if nothing simpler decides."""
TRIES = 200
"""The count of numbers that are tried out before z3 is asked."""


class Paths:
    """Numbers for paths, so that sources of two traces with the same path get the same number. This is as `Source.path()`, but doesn't make the paths."""

    def __init__(self) -> None:
        self._steps: dict[tuple[int, type[Source], Any], int] = {}
        self._known: dict[int, int] = {}

    def number(self, source: Source) -> int:
        """The number of a source, which must stay alive."""
        found = self._known.get(id(source))
        if found is None:
            step = (0 if source.base is None else self.number(source.base), type(source), source.own_key())
            found = self._known[id(source)] = self._steps.setdefault(step, len(self._steps) + 1)
        return found


class GuardsOfEntry:
    """The guards of an entry, indexed so that those of another entry can be found among them.

    Attributes:
        facts: all guards except for those on tensors, by what they say.
        types: the exact types that guards demand, by the number of the path.
        tensors: the specs that guards demand of tensors, by the number of the path.
        numbers: the numbers that guards demand, by place.
        relations: the guards on numbers that may vary.
    """

    def __init__(self, guards: Iterable[Guard], paths: Paths) -> None:
        self.paths = paths
        self.facts: dict[Hashable, Guard] = {}
        self.types: dict[int, type] = {}
        self.tensors: dict[int, TensorSpec] = {}
        self.numbers: dict[Place, int | float] = {}
        self.relations: list[ShapesHold] = []
        for guard in guards:
            if isinstance(guard, ShapesHold):
                self.relations.append(guard)
                continue
            path = paths.number(guard.source)
            if isinstance(guard, TensorMatch):
                self.tensors[path], self.types[path] = guard.spec, guard.spec.cls
                for what, numbers in (("size", guard.spec.sizes or ()), ("stride", guard.spec.strides or ())):
                    self.numbers |= {(path, what, dim): number for dim, number in enumerate(numbers) if number is not None}
                continue
            if isinstance(guard, TypeIs):
                self.types[path] = guard.value
            elif isinstance(guard, Equals):
                self.types[path] = type(guard.value)
                if type(guard.value) in (int, float):
                    self.numbers[path, type(guard.value).__name__, 0] = guard.value
            self.facts[said(guard, paths)] = guard


def said(guard: Guard, paths: Paths) -> Hashable:
    """A key that says what a guard checks, by which it is found among the guards of another trace."""
    if isinstance(guard, Relation):
        return type(guard), tuple(map(paths.number, guard.sources())), guard.native()
    return type(guard), paths.number(guard.source), guard.key()


def supersedes(general: Sequence[Guard], special: Sequence[Guard]) -> bool:
    """Return whether it is proven that an entry with the guards `general` serves every call that one with the guards `special` serves."""
    if not any(isinstance(guard, ShapesHold) for guard in general):
        return False
    paths = Paths()
    wide, narrow = GuardsOfEntry(general, paths), GuardsOfEntry(special, paths)
    facts = all(fact in narrow.facts or is_known_type(guard, narrow) for fact, guard in wide.facts.items())
    tensors = all(path in narrow.tensors and is_like(spec, narrow.tensors[path]) for path, spec in wide.tensors.items())
    return facts and tensors and follows(wide.relations, narrow)


def fixes_more(special: Sequence[Guard], general: Sequence[Guard]) -> bool:
    """Return whether `special` demands one size, stride or number where `general` accepts several."""
    paths = Paths()
    return not GuardsOfEntry(special, paths).numbers.keys() <= GuardsOfEntry(general, paths).numbers.keys()


def is_known_type(guard: Guard, narrow: GuardsOfEntry) -> bool:
    """Return whether a guard only checks a type that other guards imply."""
    return isinstance(guard, TypeIs) and narrow.types.get(narrow.paths.number(guard.source)) is guard.value


def is_like(wide: TensorSpec, narrow: TensorSpec) -> bool:
    """Return whether every tensor that fits the spec `narrow` fits the spec `wide`."""
    if replace(wide, sizes=(), strides=None) != replace(narrow, sizes=(), strides=None):
        return False
    if wide.sizes is None or narrow.sizes is None:
        return wide == narrow
    if len(wide.sizes) != len(narrow.sizes):
        return False
    pairs = list(zip(wide.sizes, narrow.sizes))
    if wide.strides is not None:
        if narrow.strides is None:
            return False
        pairs += zip(wide.strides, narrow.strides)
    return all(expected is None or expected == number for expected, number in pairs)


# Numbers that may vary.


def follows(relations: Sequence[ShapesHold], narrow: GuardsOfEntry) -> bool:
    """Return whether the demands of relations on numbers follow from guards: the guards contain them literally, or z3 proves it."""
    symbols: dict[Place, sympy.Symbol] = {}
    try:
        known = set(demands(narrow.relations, narrow, symbols))
        left = [condition for condition in demands(relations, narrow, symbols) if condition != sympy.true and condition not in known]
    except (ArithmeticError, ValueError, TypeError):
        return False  # there is no value
    if left and sympy.false in left:
        return False
    if not left or not known:
        return not left
    if any(satisfies(known, numbers) and not satisfies(left, numbers) for numbers in tried_out(list(symbols.values()), [*known, *left])):
        return False
    return proven(left, list(known), {symbol: 0 for (_, what, _), symbol in symbols.items() if what == "size"}, symbols.values())


def demands(relations: Iterable[ShapesHold], narrow: GuardsOfEntry, symbols: dict[Place, sympy.Symbol]) -> Iterator[Any]:
    """The demands of relations as conditions, with numbers in place of those that guards demand. `symbols`: symbols for the other numbers, by place; new ones
    are added.

    Raises ValueError for a number that a program can't take.
    """
    for relation in relations:
        inputs: list[Any] = []
        for path, what, dim in relation.reads:
            place = (narrow.paths.number(relation.paths[path]), what, dim)
            number = narrow.numbers.get(place)
            if type(number) is int and not SMALLEST <= number <= LARGEST:
                raise ValueError(f"{number} doesn't fit 64 bits")
            if number is not None:
                inputs.append(sympy.sympify(number))
            else:
                inputs.append(symbols.setdefault(place, number_at(len(symbols), what)))
        yield from program_to_sympy.demands_of(relation.program, inputs)


def number_at(number: int, what: str) -> sympy.Symbol:
    """A symbol for a number that is read: an integer or, for a float, a real number."""
    return sympy.Symbol(f"number{number}", real=True) if what == "float" else sympy.Symbol(f"number{number}", integer=True, nonnegative=what in STEPS or None)


def tried_out(symbols: Sequence[sympy.Symbol], conditions: Iterable[Any]) -> Iterator[dict[str, int]]:
    """Numbers for symbols to try out, which are near those that conditions contain."""
    named = sorted({int(number) for condition in conditions for number in condition.atoms(sympy.Integer)})
    around = sorted({2, 3, *(number + step for number in named[:8] for step in (-1, 0, 1) if number + step >= 0)})
    chosen = random.Random(0)
    everything = itertools.product(around, repeat=len(symbols))
    some = ([chosen.choice(around) for _ in symbols] for _ in range(TRIES))
    for numbers in everything if len(around) ** len(symbols) <= TRIES else some:
        yield {symbol.name: number for symbol, number in zip(symbols, numbers)}


def satisfies(conditions: Iterable[Any], numbers: Mapping[str, int | float]) -> bool:
    """Return whether Python finds conditions true."""
    try:
        return all(shape_values.value_of(condition, numbers) for condition in conditions)
    except (shape_values.NoPythonValue, ArithmeticError, ValueError, TypeError):
        return False


def proven(wanted: Sequence[Any], known: Sequence[Any], least: Mapping[Any, int], symbols: Iterable[sympy.Symbol]) -> bool:
    """Return whether z3 proves that conditions follow from others. `least`: the lower bounds of the symbols."""
    reads = {symbol.name: symbol for symbol in symbols}
    ranges = {symbol: (number, None) for symbol, number in least.items()}
    return bool(input_sets.subsumes(input_sets.InputSet(wanted, reads), input_sets.InputSet(known, reads, ranges), SECONDS))
