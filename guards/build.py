"""Builds one guard tree from guards and captured sources. Duplicates are dropped, steps are shared, and guards that are cheap or likely to fail come first."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from operator import attrgetter
from types import FunctionType
from typing import Any, TypeVar

from framejit._runtime import ACCESSORS, LEAVES, GuardTree
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


class TreeStep:
    """A source that the tree needs, with the guards on its value, the captures of it, and the steps that begin there."""

    __slots__ = ("source", "leaves", "children", "weight")

    def __init__(self, source: Source) -> None:
        self.source = source
        self.leaves: list[Guard] = []
        self.children: list[TreeStep] = []
        self.weight = 1


def is_implied(guard: TypeIs, others: Sequence[Guard]) -> bool:
    """Return whether one of the other guards on a value implies one about its type. The same object may have got another class since."""
    telling = [other for other in others if other.tells_type]
    if not telling:
        return False
    can_change = guard.value is not MISSING and classes.instances_change_class(guard.value)
    return not can_change or not all(isinstance(other, ValueIs) for other in telling)


class Builder:
    """Builds the steps that guards and captures need, from the root on."""

    def __init__(self) -> None:
        self.steps: dict[int, TreeStep] = {}
        self.root: TreeStep | None = None
        self.looks_up = False

    def step(self, source: Source) -> TreeStep:
        """The step for a source; its bases are added as needed."""
        found = self.steps.get(id(source))
        if found is not None:
            return found
        found = self.steps[id(source)] = TreeStep(source)
        if source.base is None:
            if self.root is not None:
                raise ValueError("guards of two traces can't share a tree: their sources have different roots")
            self.root = found
        else:
            self.step(source.base).children.append(found)
            if isinstance(source, LookedUp):
                self.step(source.payload)
                self.looks_up = True
        return found

    def sort(self) -> list[TreeStep]:
        """All steps in preorder, but a lookup comes after its key. Among siblings, small subtrees come first, and objects that the tree itself holds come last,
        because they change rarely."""
        if self.root is None:
            self.root = TreeStep(Root())
        for step in reversed(preorder(self.root)):
            leaves, children = step.leaves, step.children
            if len(leaves) > 1:
                kinds = set(map(type, leaves))
                if len(kinds) < len(leaves):
                    leaves = without_duplicates(leaves)
                if TypeIs in kinds and len(kinds) > 1:
                    leaves = [guard for guard in leaves if type(guard) is not TypeIs or not is_implied(guard, leaves)]
                leaves.sort(key=COST)
                step.leaves = leaves
            step.weight = (1 if type(step.source) is not Pinned else AT_THE_END) + sum(map(COST, leaves)) + sum(map(WEIGHT, children))
            if len(children) > 1:
                children.sort(key=WEIGHT)
        order = preorder(self.root)
        return sorted(order, key=lambda step: step.source.lookups()) if self.looks_up else order


COST = attrgetter("cost")
WEIGHT = attrgetter("weight")
AT_THE_END = 1 << 40


def preorder(root: TreeStep) -> list[TreeStep]:
    order: list[TreeStep] = []
    waiting = [root]
    while waiting:
        step = waiting.pop()
        order.append(step)
        if step.children:
            waiting.extend(step.children[::-1])
    return order


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


def check_attribute(source: Source, parent: TreeStep) -> None:
    """Raise an error for attributes of objects whose type isn't guarded: reading them could run the user's Python code."""
    is_fixed = isinstance(parent.source, Pinned) and not classes.instances_change_class(type(parent.source.payload))
    if not is_fixed and not any(guard.exact_type for guard in parent.leaves):
        owner = parent.source.describe()
        raise ValueError(f"{source.describe()}: an attribute of a C type needs a guard on the exact type of {owner}")


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
    builder = Builder()
    steps = builder.steps
    relations: list[Relation] = []
    for guard in guards:
        if isinstance(guard, Relation):
            relations.append(guard)
            for source in guard.sources():
                builder.step(source)
        else:
            (steps.get(id(guard.source)) or builder.step(guard.source)).leaves.append(guard)
    relations = sorted(without_duplicates(relations), key=COST)
    captured = [*inputs, *captures]
    for source in captured:
        builder.step(source)

    nodes: list[tuple[int, int, Any]] = []
    leaves: list[tuple[int, int, Any]] = []
    ordered: list[Guard] = []
    index: dict[int, int] = {}
    for number, step in enumerate(builder.sort()):
        source, base = step.source, step.source.base
        index[id(source)] = number
        payload = index[id(source.payload)] if builder.looks_up and isinstance(source, LookedUp) else source.native()
        if payload is MISSING:
            raise ValueError(f"{source.describe()}: what the path goes through is gone already")
        if base is not None and source.needs_exact_type:
            check_attribute(source, steps[id(base)])
        nodes.append((ACCESSORS[source.accessor], 0 if base is None else index[id(base)], payload))
        for guard in step.leaves:
            payload = guard.native()
            if payload is MISSING or type(guard) is Equals:
                check_payload(guard, payload)
            leaves.append((number, LEAVES[guard.leaf], payload))
        ordered += step.leaves
    relation_specs = [relation_spec(guard, index) for guard in relations]
    tree = GuardTree(nodes, leaves, relation_specs, [index[id(source)] for source in captured])
    return BuiltGuards(tree, (*ordered, *relations), len(inputs))


def relation_spec(guard: Relation, index: dict[int, int]) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """A relation as the native tree takes it: the number of the check, the numbers of the nodes, and the numbers that the check itself takes."""
    return LEAVES[guard.leaf], tuple(index[id(source)] for source in guard.sources()), guard.native()


def check_all(guards: Iterable[Guard], call: Call) -> Guard | None:
    """The first guard that doesn't hold for `call`, by the reference checks; None if all hold."""
    for guard in guards:
        if not guard.check(guard.source.fetch(call), call):
            return guard
    return None
