"""Plans which values are built in which order, which graph nodes must be returned, and which sources must be captured.

Each value made by the trace is recorded once as two fragments: its creation and, if it is mutable, its filling. Values that need each other form a group
(a strongly connected component). A group is built after the groups that it needs, and all its values are created before any is filled. So cycles and shared
references come out right, and a value is complete before anything else sees it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from types import CodeType
from typing import Any

from framejit.breaks import CannotReconstruct
from framejit.bytecode.instruction import NO_POSITION, Position
from framejit.codegen.recorder import CannotGenerate, CodeStep, StepKind, record
from framejit.effects import Effects
from framejit.errors import InternalError
from framejit.guards.source import Source
from framejit.objects.core.object import Object, settle
from framejit.objects.types.iterobject import ReverseIterator, SequenceIterator
from framejit.program import classes
from framejit.quick_dataclass import dataclass

INLINE_HEIGHT = 16
"""A group used once is built where it is used, unless that would nest deeper than this: then it waits in temporaries."""


@dataclass(frozen=True, slots=True)
class FinishedTrace:
    """The facts about a finished trace that code generation needs.

    `root_code`: the code object of the traced frame. `graph_needed`: the graph must run even if none of its results is returned (it writes to its inputs, or
    draws random numbers). `call_position`: where the traced frame was when the first graph node was made. `held`: values that the code holds until it ends,
    used or not. `rerun`: if the call must run uncompiled when the graph raises, the function and its argument slots. `only_checks`: the call runs uncompiled
    only if a check of the program fails in the graph.
    """

    result: Object
    effects: Effects
    root_code: CodeType
    graph_needed: bool = False
    return_position: Position = NO_POSITION
    call_position: Position = NO_POSITION
    held: Sequence[Source] = ()
    rerun: Sequence[Source] = ()
    only_checks: bool = False


@dataclass(slots=True, eq=False)
class Group:
    """Values that need each other, in order of creation; usually a single value. `height`: how deeply groups that are built in place are nested in it."""

    values: list[Value]
    height: int
    inline: bool


@dataclass(slots=True, eq=False)
class Value:
    """A value made by the trace, with the steps that build it. `uses` counts all loads of it."""

    obj: Object
    create: list[CodeStep]
    fill: list[CodeStep]
    uses: int = 0
    group: Group = None  # type: ignore[assignment]  # set when the group is complete

    def needs(self) -> Iterator[Object]:
        """The values made by the trace that building this one loads."""
        for steps in (self.create, self.fill):
            for step in steps:
                if step.kind is StepKind.VALUE:
                    yield step.payload


@dataclass(slots=True)
class Statement:
    """Code that starts and ends on an empty stack (or, for the last one, leaves the result), and the values to build before it."""

    steps: list[CodeStep]
    position: Position
    groups: list[Group] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Plan:
    """The order in which everything is built and replayed.

    `outputs`: the FX nodes that the graph must return. `captures`: the sources that the guard walk must fetch. `before_graph`: the effects that are replayed
    before the graph is called; there are none if the call may have to run uncompiled from its beginning.
    """

    trace: FinishedTrace
    before_graph: list[Statement]
    statements: list[Statement]
    values: dict[int, Value]
    outputs: list[Any]
    captures: list[Source]
    source_uses: dict[int, int]

    @property
    def needs_graph(self) -> bool:
        """Return whether the graph is called at all."""
        return bool(self.outputs) or self.trace.graph_needed

    def rerun_from(self, sources: Sequence[Source], only_checks: bool) -> Plan:
        """A plan whose code calls the function again, with its captured arguments, if the graph raises, or if a check in the graph fails."""
        known = set(map(id, self.captures))
        more = [source for source in sources if id(source) not in known]
        return replace(self, trace=replace(self.trace, rerun=sources, only_checks=only_checks), captures=[*self.captures, *more])


def plan(trace: FinishedTrace) -> Plan:
    """Plan the replacement code, which makes the replays in order, and then builds the result."""
    before_graph, statements = (
        [
            Statement(record(logged.effect.replay, 0, logged.effect), logged.position if logged.position.lineno else trace.return_position)
            for logged in effects
        ]
        for effects in (trace.effects.before_graph(), trace.effects.order())
    )
    statements.append(Statement(record(lambda cg: cg.load(trace.result), 1, trace.result), trace.return_position))
    values = _record_values([*before_graph, *statements])
    statements = _in_order(statements, values, trace.effects)
    grouper = _Grouper(values)
    for statement in statements:
        statement.groups = grouper.groups(step.payload for step in statement.steps if step.kind is StepKind.VALUE)
    outputs: dict[int, Any] = {}
    captures: dict[int, Source] = {}
    source_uses: dict[int, int] = {}
    for steps in _fragments([*before_graph, *statements], values):
        for kind, payload in steps:
            if kind is StepKind.NODE:
                outputs.setdefault(id(payload), payload)
            elif kind is StepKind.SOURCE:
                captures.setdefault(id(payload), payload)
                source_uses[id(payload)] = source_uses.get(id(payload), 0) + 1
    # A tuple lets go of its items from the last to the first.
    for source in reversed(trace.held):
        captures.pop(id(source), None)
        captures[id(source)] = source
    return Plan(trace, before_graph, statements, values, list(outputs.values()), list(captures.values()), source_uses)


def _fragments(statements: list[Statement], values: dict[int, Value]) -> Iterator[list[CodeStep]]:
    for statement in statements:
        yield statement.steps
    for value in values.values():
        yield value.create
        yield value.fill


def _record_values(statements: list[Statement]) -> dict[int, Value]:
    """All values that the statements need, by the id of their Objects. A value that is a single constant or node replaces its loads."""
    values: dict[int, Value] = {}
    simple: dict[int, tuple[Object, CodeStep]] = {}  # holds the Objects: some are made just to be loaded, and ids must not come again
    pending: list[list[CodeStep]] = [statement.steps for statement in statements]
    while pending:
        steps = pending.pop()
        for index, step in enumerate(steps):
            if step.kind is not StepKind.VALUE:
                continue
            obj = step.payload
            key = id(obj)
            if key in simple:
                steps[index] = simple[key][1]
            elif key not in values:
                create = record(obj.reconstruct, 1, obj)
                filled = obj.needs_fill()
                if len(create) == 1 and not filled and create[0].kind in (StepKind.CONST, StepKind.NODE, StepKind.SOURCE):
                    steps[index] = create[0]
                    simple[key] = obj, create[0]
                    continue
                # Known before its filling is recorded: that loads the value itself.
                values[key] = value = Value(obj, create, record(obj.fill, 0, obj) if filled else [])
                pending.append(value.create)
                pending.append(value.fill)
    for steps in _fragments(statements, values):
        for step in steps:
            if step.kind is StepKind.VALUE:
                values[id(step.payload)].uses += 1
    return values


def _in_order(statements: list[Statement], values: dict[int, Value], effects: Effects) -> list[Statement]:
    """The statements in their order, except that a statement comes after those replays on whose outcome the creation of a value that it needs depends."""
    replays = {id(logged.effect): index for index, logged in enumerate(effects.order())}
    awaited = {key: index for key, value in values.items() if (index := replays.get(id(_awaited_by(value)))) is not None}
    if not awaited:
        return statements
    needed = [sorted({awaited[key] for key in _needed(statement, values) if key in awaited}) for statement in statements]
    calls = {index for index, logged in enumerate(effects.order()) if not isinstance(logged.effect, Object)}
    ordered: dict[int, Statement] = {}
    path: list[tuple[int, Iterator[int]]] = []

    def enter(index: int) -> None:
        path.append((index, iter(needed[index])))

    # A native call stays after what has come before it: what needs it comes later instead.
    for root in sorted(range(len(statements)), key=lambda index: max([index, *calls.intersection(needed[index])])):
        if root not in ordered:
            enter(root)
        while path:
            index, earlier = path[-1]
            for other in earlier:
                if any(other == open_ for open_, _ in path):
                    _reject_cycle(values[key].obj for key in awaited if awaited[key] == other)
                elif other not in ordered:
                    enter(other)
                    break
            else:
                path.pop()
                ordered[index] = statements[index]
    _reject_overtaking(list(ordered), calls, calls & set(awaited.values()))
    return list(ordered.values())


def _reject_overtaking(order: list[int], calls: set[int], awaited: set[int]) -> None:
    """Raise CannotGenerate if a new order would let a native call see changes that were made later, or miss changes that were made before it."""
    for place, index in enumerate(order):
        if index not in calls:
            continue
        comes_too_early = index not in awaited and any(other < index for other in order[place + 1 :])
        if comes_too_early or any(other > index for other in order[:place]):
            raise CannotGenerate(CannotReconstruct("what is changed before a native call, and by what another one gives"))


def _awaited_by(value: Value) -> Object | None:
    awaited = value.obj.awaits()
    return None if awaited is None else settle(awaited)


def _needed(statement: Statement, values: dict[int, Value]) -> set[int]:
    """The ids of all values that a statement needs, directly or for other values."""
    needed: set[int] = set()
    pending = [step.payload for step in statement.steps if step.kind is StepKind.VALUE]
    while pending:
        obj = pending.pop()
        if id(obj) not in needed:
            needed.add(id(obj))
            pending += values[id(obj)].needs()
    return needed


def _reject_cycle(waiting: Iterable[Object]) -> None:
    """Raise CannotGenerate if creating a value needs the contents of a value into which it is put. Only an iterator with a position can be created without."""
    for obj in waiting:
        if not isinstance(obj, (SequenceIterator, ReverseIterator)):
            raise CannotGenerate(CannotReconstruct(f"a {classes.name(obj.cls)} over what holds it"))


class _Grouper:
    """Finds strongly connected components of values with Tarjan's algorithm, without recursion. Each group comes after the groups that it needs."""

    def __init__(self, values: dict[int, Value]) -> None:
        self._values = values
        self._number: dict[int, int] = {}
        self._low: dict[int, int] = {}
        self._open: list[Value] = []
        self._is_open: set[int] = set()

    def groups(self, roots: Iterable[Object]) -> list[Group]:
        """The groups that the roots need, without those that an earlier call has returned, in building order."""
        found: list[Group] = []
        for root in roots:
            if id(root) not in self._number:
                self._visit(self._values[id(root)], found)
        return found

    def _enter(self, value: Value, path: list[tuple[Value, Iterator[Object]]]) -> None:
        key = id(value.obj)
        self._number[key] = self._low[key] = len(self._number)
        self._open.append(value)
        self._is_open.add(key)
        path.append((value, value.needs()))

    def _visit(self, root: Value, found: list[Group]) -> None:
        path: list[tuple[Value, Iterator[Object]]] = []
        self._enter(root, path)
        while path:
            value, needs = path[-1]
            key = id(value.obj)
            for needed in needs:
                if id(needed) not in self._number:
                    self._enter(self._values[id(needed)], path)
                    break
                if id(needed) in self._is_open:
                    self._low[key] = min(self._low[key], self._number[id(needed)])
            else:
                path.pop()
                if path:
                    parent = id(path[-1][0].obj)
                    self._low[parent] = min(self._low[parent], self._low[key])
                if self._low[key] == self._number[key]:
                    found.append(self._close(value))

    def _close(self, first: Value) -> Group:
        """The group that was opened by `first`."""
        members: list[Value] = []
        while not members or members[-1] is not first:
            members.append(self._open.pop())
        keys = {id(value.obj) for value in members}
        self._is_open -= keys
        uses = sum(value.uses for value in members)
        height = 0
        for value in members:
            for needed in value.needs():
                if id(needed) in keys:
                    uses -= 1
                elif (group := self._values[id(needed)].group).inline:
                    height = max(height, group.height)
        if len(members) > 1:
            _reject_cycle(value.obj for value in members if id(_awaited_by(value)) in keys)
        ordered = members if len(members) == 1 else _by_creation(members)
        group = Group(ordered, height + 1, inline=uses == 1 and height < INLINE_HEIGHT)
        for value in members:
            value.group = group
        return group


def _by_creation(group: list[Value]) -> list[Value]:
    """The values of a cycle, each after those that its creation loads; creations alone have no cycles."""
    members = {id(value.obj): value for value in group}
    ordered: dict[int, Value] = {}
    for root in reversed(group):
        path = [root]
        while path:
            if len(path) > len(group) ** 2 + 1:
                raise InternalError(f"the creation of {root.obj!r} needs itself")
            value = path[-1]
            missing = [
                members[id(step.payload)]
                for step in value.create
                if step.kind is StepKind.VALUE and id(step.payload) in members and id(step.payload) not in ordered
            ]
            if missing:
                path += missing
            else:
                ordered.setdefault(id(value.obj), value)
                path.pop()
    return list(ordered.values())
