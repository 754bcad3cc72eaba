"""The side effects of a traced function, and the values that it reads: they decide whether it may be run again, or later."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Any

import torch
from torch import fx

from framejit.graph.autograd_node import spent_error
from framejit.graph.builder import TorchVM
from framejit.guards.kinds import Guard, ValueIs
from framejit.guards.relations import Relation
from framejit.guards.source import FunctionField, Pinned, Source, TypeAttr
from framejit.objects.core.object import Object, settle
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.types.cellobject import CellObject
from framejit.objects.types.constobject import ConstObject
from framejit.objects.types.dictobject import DictObject
from framejit.objects.types.funcobject import FunctionObject
from framejit.objects.types.genobject import GeneratorObject
from framejit.program import classes
from framejit.quick_dataclass import dataclass
from framejit.trail import Changed, FieldFilled, FieldSet, TrailRecord


@dataclass(slots=True)
class Reached:
    """The values reachable from some others, apart from constants and tensors from outside.

    `made`: those made by the trace, and the frames of the generators among them, by id; `cells`: the ids of the cells among them. `sources`: those of values
    from outside, which aren't followed any further. `given`: these sources, and those of the constants and tensors.
    `taken_to_stay`, `guards`: the values that were read and assumed not to change, and the guards added, when code that has these values was traced.
    """

    made: dict[int, Any] = field(default_factory=dict)
    cells: set[int] = field(default_factory=set)
    sources: set[Source] = field(default_factory=set)
    given: set[Source] = field(default_factory=set)
    taken_to_stay: set[Source] = field(default_factory=set)
    guards: list[Guard] = field(default_factory=list)

    def add_made(self, other: Reached) -> None:
        """Add the reachable values of another Reached that the trace has made."""
        self.made |= other.made
        self.cells |= other.cells

    def rests_on(self, guard: Guard) -> bool:
        """Return whether this guards a value that was assumed not to change: the code or the defaults of such a function, or the class that has it."""
        source = guard.source
        if any(guard is made for made in self.guards) or source in self.taken_to_stay:
            return True
        if isinstance(source, TypeAttr) and isinstance(guard, ValueIs):
            function = getattr(guard.value, "__func__", guard.value)
            return any(isinstance(known, Pinned) and known.payload is function for known in self.taken_to_stay)
        while isinstance(source.base, FunctionField) or isinstance(source, FunctionField):
            assert source.base is not None
            source = source.base
        return source in self.taken_to_stay

    def is_changed_by(self, record: TrailRecord) -> bool:
        """Return whether a mutation has changed one of these values, among those made by the trace."""
        if id(record.owner) not in self.made:
            return False
        if isinstance(record, FieldFilled):
            filled = getattr(record.owner, record.field)
            return isinstance(filled, DictObject) and bool(filled.entries)
        return isinstance(record, Changed) or (isinstance(record, FieldSet) and not record.is_restored())

    def has_outside(self, obj: Object) -> bool:
        """Return whether a value from outside is one of these, or belongs to one of them."""
        source = None if isinstance(obj, TensorObject) else obj.source
        while source is not None and source not in self.sources:
            source = source.base
        return source is not None


def reachable(vm: TorchVM, values: Iterable[Object]) -> Reached:
    """The values reachable from some others, also through values from outside in which the trace has stored something."""
    found = Reached()
    waiting = list(values)
    stored = [effect for effect in vm.effects.all() if isinstance(effect, Object)]
    while waiting:
        follow(found, waiting)
        waiting = [kept for obj in stored if found.has_outside(obj) for kept in obj.referents()]
        stored = [obj for obj in stored if not found.has_outside(obj)]
    return found


def follow(found: Reached, waiting: list[Object]) -> None:
    """Add the values that are reachable from some others through values made by the trace."""
    while waiting:
        obj = waiting.pop()
        if obj.source is not None:
            found.given.add(obj.source)
        obj = settle(obj)
        is_plain = isinstance(obj, ConstObject) or (isinstance(obj, TensorObject) and obj.source is not None)
        if id(obj) in found.made or is_plain:
            continue
        frame = obj.frame if isinstance(obj, GeneratorObject) else None
        if frame is not None:
            found.made[id(frame)] = frame
        function = obj if frame is None else frame.function
        if isinstance(function, FunctionObject) and function.globals.source is not None:
            found.sources.add(function.globals.source)
        if obj.source is not None:
            found.sources.add(obj.source)
            continue
        found.made[id(obj)] = obj
        if isinstance(obj, CellObject):
            found.cells.add(id(obj))
        waiting += obj.referents()
        made_class = classes.STAND_INS.get(id(obj.cls))
        if made_class is not None:
            waiting.append(made_class)
        if obj.attrs is not None:
            waiting.append(obj.attrs)


def stored_outside(vm: TorchVM) -> Iterator[Object]:
    """The Objects that the trace has stored in values from outside, or in effects that are still to come."""
    return (kept for effect in vm.effects.all() for kept in effect.referents())


def is_changed(vm: TorchVM, mark: int, before: Reached) -> bool:
    """Return whether anything outside the trace, or any of these objects, has been changed since a position of the trail."""
    return vm.effects.has_changed_since(mark) or any(map(before.is_changed_by, vm.trail.since(mark)))


def check_read_later(vm: TorchVM, outputs: Iterable[object], state: Object | None = None) -> None:
    """Restart the trace if a value has been changed that autograd reads in a backward pass and that the trace has read before, or if it may still
    be changed, since the program can ask for gradients after the graph.

    `outputs`: what the graph leaves, see `left_by`. `state`: the state that a split call passes on: code that gets a variable's cell from it may change the
    variable.
    """
    goes_on = reachable(vm, [state]).cells if vm.graph.readers and state is not None else set()
    outputs = list(outputs)
    for reader in vm.graph.readers:
        since = vm.trail.since(reader.mark)
        read: Reached = reader.reached
        if (
            any(map(read.is_changed_by, since))
            or any(read.has_outside(obj) for obj in vm.effects.mutated_since(reader.mark))
            or not read.cells.isdisjoint(goes_on)
            or (reader.reads_outside and (reader.of is None or reader.of in outputs) and can_be_differentiated(vm, outputs))
        ):
            vm.restart(reader.place, reader.reason)


def left_by(vm: TorchVM, outputs: Iterable[object]) -> list[object]:
    """The nodes of the tensors that a graph leaves: its outputs, and the inputs that it changes in place, of which a program can ask for gradients, too."""
    vm.graph.refresh()
    return [*outputs, *vm.graph.fakes.changed_inputs(vm.graph.outermost.kept)] if vm.graph.readers else []


def guards_of_backwards(vm: TorchVM, outputs: Iterable[object]) -> tuple[Guard, ...]:
    """The guards that code run by autograd in a backward pass after the graph depends on, apart from those on the call's values. `outputs`: what the graph
    leaves, see `left_by`."""
    if not vm.graph.readers or not can_be_differentiated(vm, outputs):
        return ()
    read: list[Reached] = [reader.reached for reader in vm.graph.readers]
    facts = [guard for guard in vm.guards.all() if guard.source.base is not None and not isinstance(guard, Relation) and is_of_no_call(guard.source)]
    return tuple([guard for guard in facts if any(reached.rests_on(guard) for reached in read)])


def is_of_no_call(source: Source) -> bool:
    """Return whether a path leads to the same value in every call."""
    while source.base is not None and source.base.base is not None:
        source = source.base
    return isinstance(source, Pinned)


def can_be_differentiated(vm: TorchVM, outputs: Iterable[object]) -> bool:
    """Return whether a program can ask for gradients of one of these results or inputs of the graph."""
    vm.graph.refresh()
    fakes = [output.meta["example_value"] for output in outputs if isinstance(output, fx.Node)]
    with vm.graph.fakes.running():
        return any(isinstance(fake, torch.Tensor) and fake.requires_grad and spent_error(fake) is None for fake in fakes)
