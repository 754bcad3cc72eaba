"""Builds one guard tree from guards and captured sources. Duplicates are dropped, steps are shared, and guards that are cheap or likely to fail come first."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from types import FunctionType
from typing import Any, TypeVar

from framejit._runtime import ACCESSORS, LEAVES, GuardTree, arrange
from framejit.guards.container_sources import LookedUp
from framejit.guards.kinds import Equals, Guard, TypeIs, ValueIs
from framejit.guards.relations import Relation
from framejit.guards.source import MISSING, Call, Pinned, Root, Source
from framejit.program import classes
from framejit.quick_dataclass import dataclass

AnyGuard = TypeVar("AnyGuard", bound=Guard)


@dataclass(frozen=True, slots=True)
class BuiltGuards:
    """A guard tree, with the guards that it checks.

    tree: the native matcher; its captures are the values of the inputs, followed by those of the other captures. guards: the guards without
    duplicates, in the order in which `tree.failing` numbers them. num_inputs: how many of the captures are graph inputs.
    Neither keeps the objects alive that the guards compare with, except for objects that can't be referenced weakly (globals that aren't those of an
    imported module, lists, dicts, instances with __slots__) and the classes of tensors.
    """

    tree: GuardTree
    guards: tuple[Guard, ...]
    num_inputs: int


def keeps_type(guard: TypeIs) -> bool:
    """Return whether an object of the type that a guard expects can't get another class, so that a guard on the object's identity implies this one."""
    return guard.value is MISSING or not classes.instances_change_class(guard.value)


COST = attrgetter("cost")


def without_duplicates(guards: Iterable[AnyGuard]) -> list[AnyGuard]:
    """The first of each set of guards with the same source, class and key."""
    seen: set[tuple[int, type[Guard], Any]] = set()
    kept = []
    for guard in guards:
        key = (id(guard.source), type(guard), guard.key())
        if key not in seen:
            seen.add(key)
            kept.append(guard)
    return kept


def check_step(source: Source, payload: Any, around: Sequence[Guard]) -> None:
    """Raise an error for a step through an object that is gone, and for attributes of objects whose type isn't guarded: reading them could run the user's
    Python code. `around`: the guards on the value that the step begins at."""
    base = source.base
    if payload is MISSING:
        raise ValueError(f"{source.describe()}: what the path goes through is gone already")
    if base is None or not source.needs_exact_type:
        return
    is_fixed = isinstance(base, Pinned) and not classes.instances_change_class(type(base.payload))
    if not is_fixed and not any(guard.exact_type for guard in around):
        raise ValueError(f"{source.describe()}: an attribute of a C type needs a guard on the exact type of {base.describe()}")


def check_payload(guard: Guard, payload: Any) -> None:
    """Raise an error for values with the user's own `==`, and for objects that are gone."""
    if payload is MISSING:
        raise ValueError(f"{guard.source.describe()}: what it is compared with is gone already")
    if isinstance(guard, Equals) and isinstance(type(payload).__eq__, FunctionType):
        raise TypeError(f"{guard.source.describe()} can't be guarded by ==: {type(payload).__qualname__}.__eq__ is Python code")


def build(guards: Sequence[Guard], inputs: Sequence[Source], captures: Sequence[Source]) -> BuiltGuards:
    """Build the tree that checks `guards`, and captures the values of `inputs` and then of `captures`.

    All sources must come from one root. Raises ValueError or TypeError for guards that can't be checked without running the user's Python code.
    """
    collecting = gc.isenabled()
    gc.disable()  # thousands of small objects that all stay: collections would take most of the time
    try:
        return build_tree(guards, inputs, captures)
    finally:
        if collecting:
            gc.enable()


def build_tree(guards: Sequence[Guard], inputs: Sequence[Source], captures: Sequence[Source]) -> BuiltGuards:
    captured = [*inputs, *captures]
    nodes, leaves, ordered, numbers = arrange([*guards], captured if guards or captured else [Root()], RULES)
    relations = sorted(without_duplicates([guard for guard in guards if isinstance(guard, Relation)]), key=COST)
    tree = GuardTree(nodes, leaves, [relation_spec(guard, numbers) for guard in relations], [numbers[source] for source in captured])
    return BuiltGuards(tree, (*ordered, *relations), len(inputs))


RULES = (
    ACCESSORS, LEAVES, Relation, TypeIs, ValueIs, Equals, Pinned, LookedUp, MISSING, keeps_type, check_step, check_payload,
    Guard.native, Guard.key, Source.native,
)  # fmt: skip
"""The classes and functions that the native part asks for, and methods that it does itself where a kind has no others."""


def relation_spec(guard: Relation, numbers: Mapping[Source, int]) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """A relation as the native tree takes it: the number of the check, the numbers of the nodes, and the numbers that the check itself takes."""
    return LEAVES[guard.leaf], tuple(numbers[source] for source in guard.sources()), guard.native()


def check_all(guards: Iterable[Guard], call: Call) -> Guard | None:
    """The first guard that doesn't hold for `call`, by the reference checks; None if all hold."""
    for guard in guards:
        if not guard.check(guard.source.fetch(call), call):
            return guard
    return None
