"""Finds all regions of a program: it compiles for some sizes, reads the conditions from the guards, and continues with sizes that fail one of them."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import sympy

from framejit.errors import BadArgument, UserFrame
from framejit.guards.input_sets import InputSet, Undecided, negations, tells_apart
from framejit.program.code_kinds import is_library_file
from framejit.user.exploring.conditions import Condition
from framejit.user.exploring.example_inputs import ExampleInputs
from framejit.user.exploring.program import Program, frames_of
from framejit.user.exploring.regions import (
    MOST_ELEMENTS,
    ExploredInputs,
    InputRegion,
    RaisedError,
    Sizes,
    bounds_of,
    holds,
    smallest_sizes,
    symbols_of,
    text_of,
)

SECONDS_FOR_DISTINCTIONS = 1.0
"""The time that z3 gets to find out which conditions tell all regions apart."""


def explore(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Any, max_regions: int, seconds: float) -> ExploredInputs:
    """Explore a program; see `valid_inputs`, which checks the arguments."""
    deadline = time.monotonic() + seconds
    example = ExampleInputs(target, args, kwargs, dynamic)
    if not holds(bounds_of(example), example.sizes):
        raise BadArgument("valid_inputs(): the sizes of the example are outside the ranges that it is marked with")
    program = Program(target, example)
    regions: list[InputRegion] = []
    unexplored: dict[str, None] = {}
    left: deque[tuple[Any, ...]] = deque([()])
    sizes: Sizes | None = example.sizes
    while left:
        if len(regions) == max_regions or time.monotonic() > deadline:
            what = f"max_regions={max_regions} is" if len(regions) == max_regions else f"the {seconds} seconds are"
            unexplored[f"{what} used up, and there are more sizes" + ("" if regions else " than the example's")] = None
            break
        assumed = left.popleft()
        try:
            sizes = smallest_sizes(example, assumed, example.sizes) if regions else sizes
        except Undecided:
            unexplored[f"z3 finds no sizes that satisfy {' and '.join(map(str, assumed))}, and doesn't rule them out"] = None
            continue
        if sizes is None:
            continue
        region = next((known for known in regions if known.accepts(sizes)), None)
        if region is None and example.elements(sizes) > MOST_ELEMENTS:
            unexplored[f"tensors of {example.elements(sizes)} elements are too large to be tried: {text_of(sizes)}"] = None
            continue
        if region is None:
            region, unknown = region_of(program, assumed, sizes)
            regions.append(region)
            unexplored |= dict.fromkeys(unknown)
        left.extend((*assumed, *failing) for failing in negations(region.guards))
    return ExploredInputs(with_distinctions(regions), tuple(unexplored))


def region_of(program: Program, assumed: Sequence[Any], sizes: Sizes) -> tuple[InputRegion, list[str]]:
    """The region that contains inputs of these sizes, and texts about what isn't known about it. `assumed`: conditions that hold for inputs in no other
    region."""
    found, example = program.compile(sizes), program.example
    symbols = symbols_of(example)
    conditions = found.conditions
    if conditions is None:
        conditions = tuple(Condition(f"{name} == {value}", sympy.Eq(symbols[name], value)) for name, value in sizes.items())
    guards = tuple(condition.expression for condition in conditions)
    assert holds(guards, sizes), f"the guards of a new entry reject the call that they were made for: {conditions}, {text_of(sizes)}"
    with contextlib.suppress(Undecided):
        sizes = smallest_sizes(example, [*guards, *assumed]) or sizes
    error = program.run(sizes)
    frames = [] if error is None else frames_of(error)
    at, stopped = found.stopped_at, found.stopped
    if at is not None and any((frame.filename, frame.lineno) == (at.filename, at.lineno) for frame in frames):
        stopped = ""  # the error is raised where the trace ended
    unknown = [f"what depends on {text}" for text in found.unfollowed] + ([f"what comes after {stopped}"] if stopped else [])
    texts = tuple(dict.fromkeys(condition.text for condition in conditions))
    return InputRegion(texts, guards, texts, sizes, found.graphs, None if error is None else raised_error(error, frames), stopped, example), unknown


def raised_error(error: Exception, frames: Sequence[UserFrame]) -> RaisedError:
    """An error as data, with the innermost frame that isn't a library's."""
    own = [frame for frame in frames if not is_library_file(frame.filename)] or frames
    return RaisedError(type(error), str(error), own[-1] if own else None)


def with_distinctions(regions: Sequence[InputRegion]) -> tuple[InputRegion, ...]:
    """The regions, each with the conditions that tell it from the others."""
    sets = []
    for region in regions:
        counts = {symbol: (0, None) for symbol in region.symbols.values() if symbol.is_nonnegative}
        sets.append(InputSet(region.guards, region.symbols, counts))
    needed = tells_apart(sets, SECONDS_FOR_DISTINCTIONS) if len(regions) > 1 else [()] * len(regions)
    made = []
    for region, requirements in zip(regions, needed, strict=True):
        kept = [text for text, guard in zip(region.conditions, region.guards) if any(guard == other for other in requirements)]
        made.append(dataclasses.replace(region, distinctions=tuple(kept)))
    return tuple(made)
