"""Recordings of a traced call of a module, and copies of them for another module.

Guards, and the paths of the graph's inputs, are moved to the same paths through the other module; nodes are copied. The trail says what was recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, TypeAlias

from torch import fx

from framejit.graph.builder import TorchVM
from framejit.graph.copied_nodes import ModuleStack, NodeToCopy, copy_nodes, node_to_copy
from framejit.graph.graph_inputs import GraphInputs, InputLook, look_of
from framejit.guards.kinds import Equals, Guard, ItemsEmpty, TensorMatch, TypeIs, values_at
from framejit.guards.relations import Relation, Same
from framejit.guards.source import MISSING, Source
from framejit.library.torch.control_flow.repeated_regions import below
from framejit.library.torch.nn.own_items import OwnItem
from framejit.objects.core.object import Object, settle
from framejit.objects.numbers.numberobject import NumberObject
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchobject import TorchConstObject
from framejit.objects.types.constobject import ConstObject
from framejit.objects.types.emptyitems import is_one_changed
from framejit.objects.types.pickeditems import ListRead, PickedItem
from framejit.objects.types.tupleobject import TupleObject
from framejit.quick_dataclass import dataclass
from framejit.torch_state.torch_classes import PLAIN_TENSORS
from framejit.trail import Changed, FieldFilled, FieldSet, Learned, NodeAdded, TrailRecord


class NotCopied(Exception):
    """Signal: a call can't be copied, or another one isn't like it."""


@dataclass(slots=True, eq=False)
class ModuleCall:
    """A call that has been traced, between two positions of the trail.

    Attributes:
        module, tensors, result: the module, the tensors among the arguments that the trace has made, and the result.
        start, end: the positions.
        guards: the number of guards before it.
        around: the modules whose calls it is inside of, as nodes have them in their metadata.
        reachable: the values made by the trace that could be reached from outside. They are kept alive, since the call's key has their ids.
        own: the objects that it has taken out of lists made by the trace, by indices that are its module's own.
        recording: what it has recorded; MISSING until another call asks, None if that can't be copied.
    """

    module: Object
    tensors: Sequence[TensorObject]
    result: Object
    start: int
    end: int
    around: ModuleStack
    guards: int
    reachable: Sequence[Object]
    own: Sequence[OwnItem]
    recording: CallRecording | None = MISSING


GuardToMove: TypeAlias = tuple[int, Guard, type | None, bool]
"""The index of a guard's path, the guard, the type that the value must have, if the guard is about nothing else, and whether its own check decides."""
Action: TypeAlias = list[GuardToMove] | tuple[int, TensorObject] | NodeToCopy


@dataclass(slots=True, eq=False)
class CallRecording:
    """The records of one traced call.

    Attributes:
        paths: the paths through the module that guards and inputs are at: the module's own first, each after the one that it is a step from.
        steps: for each path but the first, the index of the one that it is a step from, the kind of step and its payload.
        observed: the indices of the paths at which something was observed.
        actions: in order: guards, those that follow one another together; inputs of the graph, with the index of their path; and nodes.
        values: the values at the paths.
        outer: the inputs of the graph, at other paths, that its nodes use.
        met: the indices of the paths at which it has met a value that is mutable or compared by identity.
        inputs: for each input, by the id of its Object, what must be the same of the other module's. `places_of_inputs`: the indices of their paths.
        own: see ModuleCall. `indices`: for each, the index of the path of its index in the list.
        failed: the guard that didn't hold for the last module that was asked.
    """

    paths: list[Source]
    steps: list[tuple[int, type[Source], Any]]
    observed: set[int]
    values: list[Any]
    outer: list[TensorObject]
    met: list[int]
    actions: list[Action]
    inputs: dict[int, InputLook]
    places_of_inputs: frozenset[int]
    own: Sequence[OwnItem] = ()
    indices: Sequence[int] = ()
    failed: tuple[int, Guard] | None = None

    def copied_for(self, vm: TorchVM, call: ModuleCall, module: Object, tensors: Sequence[TensorObject]) -> Object:
        """The result of a call of another module, whose key is the same as that of `call`, which this is the recording of. Raises NotCopied, after which the
        caller undoes what was added to the trace."""
        if not all(map(vm.graph.inputs.is_as_outside, self.outer)):
            raise NotCopied
        moved = MovedPaths(vm, self, module)
        actions, own = moved.checked(), moved.own()
        stack = StackRenaming(call, module, vm.graph.module_stack)
        nodes = {one.node: other.node for one, other in zip(call.tensors, tensors)}
        objects: dict[int, Object] = {id(one): other for one, other in zip(call.tensors, tensors)}
        inputs: list[Object] = []
        for action in actions:
            if isinstance(action, list):
                vm.rest_on_all(action)
            elif isinstance(action, tuple):
                index, obj = action
                made = vm.graph.inputs.add_like(moved.paths[index], moved.values[index])
                objects[id(obj)], nodes[obj.node] = made, made.node
                inputs.append(made)
        copy_nodes(vm.graph, [action for action in actions if isinstance(action, NodeToCopy)], nodes, stack)
        vm.meet_in_copy([vm.wrap(moved.values[index], moved.paths[index]) for index in self.met if index not in moved.elsewhere], inputs)
        for one, other in zip(self.own, own):
            other.note(vm)
            for name, key, value in one.changes():
                other.attributes.put(vm, name, key, rebuilt(vm, value, objects, nodes))
        return rebuilt(vm, call.result, objects, nodes)


class MovedPaths:
    """The paths of a recording for another module: `paths`, and the `values` there.

    `elsewhere`: where the same value is at the path of the first module and at that of the other, and the trace has met it on a third one, or on the first
    module's, that path, by the index; and None for the indices of the paths that go through it. Nothing about it has to be checked again.
    """

    def __init__(self, vm: TorchVM, recording: CallRecording, module: Object) -> None:
        assert module.source is not None
        self.vm = vm
        self.recording = recording
        self.paths: list[Source] = [module.source]
        self.values: list[Any] = [module.value]
        self.elsewhere: dict[int, Source | None] = {}
        observed, met = recording.observed, vm.met
        for base, kind, payload in recording.steps:
            index, value, path = len(self.paths), self.values[base], self.paths[base].child(kind, payload)
            self.paths.append(path)
            self.values.append(MISSING if value is MISSING else path.step(value))
            if base in self.elsewhere:
                self.elsewhere[index] = None
            elif (known := met(self.values[index])) is not None and known.source is not path and (index in observed or vm.effects.is_mutated(known)):
                if known.source is None or self.values[index] is not recording.values[index]:
                    raise NotCopied
                self.elsewhere[index] = known.source
        self.replaced = dict(zip(recording.paths, self.paths))

    def checked(self) -> list[list[Guard] | tuple[int, TensorObject] | NodeToCopy]:
        """Return the records to add to the trace, in order; guards that follow one another are together. Raises NotCopied if a guard doesn't hold."""
        if self.recording.failed is not None:
            self.check(*self.recording.failed)
        elsewhere, inputs = self.elsewhere, self.vm.graph.inputs
        actions: list[list[Guard] | tuple[int, TensorObject] | NodeToCopy] = []
        related: set[int] = set()
        tensors: set[int] = set()
        for action in self.recording.actions:
            if isinstance(action, list):
                actions.append(self.moved(action, related))
                continue
            if not isinstance(action, NodeToCopy):
                index, obj = action
                value = self.values[index]
                if index in elsewhere or id(value) in tensors or not inputs.has_look(self.paths[index], value, self.recording.inputs[id(obj)]):
                    raise NotCopied
                tensors.add(id(value))
            actions.append(action)
        return actions

    def moved(self, guards: Sequence[GuardToMove], related: set[int]) -> list[Guard]:
        """Return guards about the other module. `related`: the indices of the paths to values that the trace has met elsewhere, once it is said that they lead
        there. Raises NotCopied if one doesn't hold."""
        paths, values, elsewhere, call = self.paths, self.values, self.elsewhere, self.vm.call
        found: list[Guard] = []
        for index, guard, cls, is_plain in guards:
            if index in elsewhere:
                if index not in related:
                    related.add(index)
                    found += self.relation(index, guard)
            elif cls is None and not is_plain:
                found.append(self.check(index, guard))
            else:
                made = guard.at(paths[index])
                if not (made.check(values[index], call) if cls is None else type(values[index]) is cls):
                    self.fail(index, guard)
                found.append(made)
        return found

    def own(self) -> list[PickedItem]:
        """Return the objects in the place of those that the first module's call has taken out of lists. Raises NotCopied if they aren't like these."""
        found: list[PickedItem] = []
        pairs: set[tuple[int, int]] = set()
        for one, index in zip(self.recording.own, self.recording.indices):
            other = one.counterpart(self.paths[index], self.values[index])
            if other is None or index in self.elsewhere:
                raise NotCopied
            found.append(other)
            pairs.add((id(one.item), id(other.item)))
        if any(len(pairs) != len({pair[side] for pair in pairs}) for side in (0, 1)):
            raise NotCopied
        return found

    def relation(self, index: int, guard: Guard) -> Sequence[Guard]:
        """The guard that a path leads to a value that the trace has met on another path, in the place of all guards about that value."""
        known = self.elsewhere[index]
        return () if known is None else (Same(self.paths[index], guard.line, known),)

    def check(self, index: int, guard: Guard) -> Guard:
        """A guard about the other module. Raises NotCopied if it doesn't hold."""
        if type(guard).sources is Guard.sources:
            found, value = guard.at(self.paths[index]), self.values[index]
        else:
            found = guard.moved(lambda source: self.replaced.get(source, source))
            value = self.values[index] if guard.source in self.replaced else found.source.fetch(self.vm.call)
        if index in self.recording.places_of_inputs and isinstance(found, TensorMatch):
            return found  # `has_look` compares
        if index in self.recording.indices and isinstance(found, Equals) and type(value) is int:
            return Equals(found.source, found.line, value)  # `own` compares what is at this index of the list
        if not found.check(value, self.vm.call):
            self.fail(index, guard)
        if isinstance(found, ItemsEmpty) and is_one_changed(self.vm, values_at(value, found.names)):
            raise NotCopied
        return found

    def fail(self, index: int, guard: Guard) -> NoReturn:
        """Note that a guard doesn't hold, so that it is the first that the next module is asked about. Raises NotCopied."""
        self.recording.failed = index, guard
        raise NotCopied


class StackRenaming:
    """Says which modules are called at copied nodes: in the place of a module and of those inside it, another module and those inside that one."""

    def __init__(self, call: ModuleCall, module: Object, around: ModuleStack) -> None:
        assert call.module.source is not None and module.source is not None
        self._before, self._after = call.module.source.describe(), module.source.describe()
        self._outer, self._around = len(call.around), around
        self._known: dict[int, ModuleStack] = {}

    def __call__(self, stack: ModuleStack) -> ModuleStack:
        found = self._known.get(id(stack))
        if found is None:
            inner = [(self._renamed(path), cls) for path, cls in list(stack.values())[self._outer :]]
            found = self._known[id(stack)] = {**self._around, **{path: (path, cls) for path, cls in inner}}
        return found

    def _renamed(self, path: str) -> str:
        rest = path.removeprefix(self._before)
        return self._after + rest if path.startswith(self._before) and rest[:1] in ("", ".", "[") else path


class NothingToCopy:
    """Return whether a record of the trail needn't be copied: the trace only knows more, or has changed a value of its own."""


NOTHING = NothingToCopy()
Recorded: TypeAlias = Guard | TensorObject | fx.Node | NothingToCopy


def recorded(vm: TorchVM, record: TrailRecord) -> Recorded:
    """Return the recorded item that a record of the trail stands for. Raises NotCopied if it can't be copied."""
    owner, kind, graph = record.owner, type(record), vm.graph
    if isinstance(record, FieldSet):
        if isinstance(owner, Object) and (kind is FieldFilled or not isinstance(owner, TensorObject)):
            return NOTHING  # a change of a value from outside is announced as an effect
        harmless = (graph, "module_stack"), (graph.body, "_last_placeholder"), (vm, "handled"), (vm, "_met_in_copies")
        if any(owner is of and record.field == name for of, name in harmless):
            return NOTHING
        raise NotCopied
    if kind is NodeAdded:
        assert isinstance(owner, fx.Node)
        return owner
    if kind is Changed and isinstance(owner, Object) and owner.source is None and not isinstance(owner, TensorObject):
        return NOTHING
    if kind is not Learned:
        raise NotCopied
    if isinstance(owner, Guard):
        return owner
    if isinstance(owner, GraphInputs):
        described = graph.known_inputs[record.args[0]]
        if not isinstance(described.obj, TensorObject) or described.is_state or described.symbolic is not None or described.obj.cls not in PLAIN_TENSORS:
            raise NotCopied
        return described.obj
    if owner is vm or owner is vm.lookups:
        if isinstance(getattr(record.undo, "__self__", None), dict):
            return NOTHING  # what it has met, by identity
        raise NotCopied
    if isinstance(owner, (Object, fx.Node, ModuleCall, ListRead)) or (owner is graph.fakes and record.undo is not setattr):
        return NOTHING
    raise NotCopied


def recording_of(vm: TorchVM, call: ModuleCall) -> CallRecording | None:
    """Return the recording of a call; None if it can't be copied."""
    try:
        order = [recorded(vm, record) for record in vm.trail.since(call.start, call.end)]
        return CallRecorder(vm, call, [*vm.guards.since(0)[: call.guards], *order]).recording()
    except NotCopied:
        return None


class CallRecorder:
    """Puts together what a call has recorded. `order`: everything that was recorded about the module, in order. Raises NotCopied if that can't be copied."""

    def __init__(self, vm: TorchVM, call: ModuleCall, order: Sequence[Recorded]) -> None:
        assert call.module.source is not None
        self.vm = vm
        self.call = call
        self.order = order
        self.source: Source = call.module.source
        self.inputs = {obj.source: obj for obj in order if isinstance(obj, TensorObject) and obj.source is not None and self.is_inside(obj.source)}
        self.paths: dict[Source, int] = {self.source: 0}
        self.steps: list[tuple[int, type[Source], Any]] = []
        self.observed: set[int] = set()
        self.values: list[Any] = [call.module.value]

    def recording(self) -> CallRecording:
        vm, actions = self.vm, list[Action]()
        of_inputs = {described.node: described.obj for described in vm.graph.known_inputs.values() if self.is_known(described.obj)}
        known = {tensor.node for tensor in self.call.tensors} | of_inputs.keys()
        used: dict[fx.Node, None] = {}
        for what in self.order:
            if isinstance(what, Guard):
                self.guard(what, actions)
            elif isinstance(what, TensorObject):
                if what.source is not None and self.is_inside(what.source):
                    actions.append((self.index(what.source), what))
            elif isinstance(what, fx.Node):
                copied = node_to_copy(vm.graph, what, known)
                if copied is None:
                    raise NotCopied
                known.add(what)
                used.update(dict.fromkeys(what.all_input_nodes))
                actions.append(copied)
        objects: dict[int, Object] = {id(obj): obj for obj in (*self.call.tensors, *self.inputs.values())}
        rebuilt(vm, self.call.result, objects, {node: node for node in known})
        looks = {id(obj): look_of(obj.value) for obj in self.inputs.values()}
        own = self.call.own
        for _, _, value in (change for one in own for change in one.changes()):
            if isinstance(value := settle(value), TensorObject) and value.source is not None and id(value) not in objects:
                raise NotCopied
            rebuilt(vm, value, objects, {node: node for node in known})
        if not all(self.is_inside(one.source) for one in own):
            raise NotCopied
        indices = [self.index(one.source) for one in own]
        paths = [*self.paths]
        shared = {obj.source for obj in vm.shared_values()}
        met = [index for index, path in enumerate(paths) if index and path in shared]
        outer = [obj for node in used if isinstance(obj := of_inputs.get(node), TensorObject) and obj.source not in self.inputs]
        if not all(map(vm.graph.inputs.is_as_outside, (*outer, *self.inputs.values()))):
            raise NotCopied
        places = frozenset(self.index(source) for source in self.inputs)
        return CallRecording(paths, self.steps, self.observed, self.values, outer, met, actions, looks, places, own, indices)

    def is_inside(self, source: Source | None) -> bool:
        return below(source, {self.source})

    def is_known(self, obj: Object) -> bool:
        """Return whether an input of the graph is at a path inside the module at which the call has met it first, or at a path outside."""
        return isinstance(obj, TensorObject) and obj.source is not None and (obj.source in self.inputs or not self.is_inside(obj.source))

    def guard(self, guard: Guard, actions: list[Action]) -> None:
        """Add a guard to the actions if it is about the module."""
        inside = [source for source in guard.sources() if self.is_inside(source)]
        if not inside:
            return
        if isinstance(guard, Relation) and not isinstance(guard, Same):
            raise NotCopied
        index = [self.index(source) for source in inside][0]
        self.observed.add(index)
        if not actions or not isinstance(actions[-1], list):
            actions.append([])
        assert isinstance(actions[-1], list)
        is_compared_elsewhere = isinstance(guard, (TensorMatch, ItemsEmpty)) or (isinstance(guard, Equals) and len(self.call.own) > 0)
        is_plain = type(guard).sources is Guard.sources and not is_compared_elsewhere
        actions[-1].append((index, guard, guard.value if type(guard) is TypeIs and guard.value is not MISSING else None, is_plain))

    def index(self, source: Source) -> int:
        """The index of a path, which is added if it isn't known."""
        found = self.paths.get(source)
        if found is None:
            if source.base is None or isinstance(source.payload, Source):
                raise NotCopied
            base = self.index(source.base)
            self.steps.append((base, type(source), source.payload))
            found = self.paths[source] = len(self.steps)
            value = self.values[base]
            self.values.append(MISSING if value is MISSING else source.step(value))
        return found


def rebuilt(vm: TorchVM, result: Object, objects: dict[int, Object], nodes: dict[fx.Node, fx.Node]) -> Object:
    """A result like another one, of other tensors. Raises NotCopied if it contains more than tensors and constants."""
    result = settle(result)
    if isinstance(result, TensorObject):
        if id(result) in objects:
            return objects[id(result)]
        found = vm.graph.object_of(nodes[result.node].meta["example_value"]) if result.node in nodes else None
        if found is None:
            raise NotCopied
        return found
    if result.source is None and type(result) is TupleObject and result.cls is tuple:
        return TupleObject([rebuilt(vm, item, objects, nodes) for item in result.items(vm)])
    if result.source is None and type(result) in (ConstObject, NumberObject, TorchConstObject) and result.is_known():
        return result
    raise NotCopied
