"""Random number generators that the program makes: the trace knows the state of one as a tensor of the graph."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

from framejit import breaks
from framejit.graph.builder import TorchVM
from framejit.guards.kinds import ValueIs
from framejit.guards.relations import Distinct
from framejit.guards.source import MISSING, Pinned, Source
from framejit.library.random.generator_states import SEEDED_STATE, GeneratorKind
from framejit.objects.core.object import VM, Codegen, Object
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.objects.tensors.torchcall import enter


class StatefulGenerator(Object):
    """A generator. `kept`: its state; None until that of one from outside is asked for. `process`: the generator of its kind that belongs to the
    process, from which graphs draw in another way."""

    __slots__ = ("kept",)
    kind: ClassVar[GeneratorKind]
    process: ClassVar[Any] = None

    def __init__(self, source: Source | None = None, value: Any = MISSING, kept: TensorObject | None = None) -> None:
        super().__init__(self.kind.cls, source, value)
        self.kept = kept

    def break_graph(self, vm: VM) -> NoReturn:
        vm.unsupported(breaks.Random(f"a {self.kind.cls.__qualname__}"))

    def check(self, vm: TorchVM) -> None:
        """Guard what the graph must know about a generator from outside; breaks if the graph can't use it."""

    def state(self, vm: TorchVM) -> TensorObject:
        """The generator's present state, as a tensor."""
        if vm.graph.transform_around() is not None:
            vm.unsupported(breaks.Random(f"a {self.kind.cls.__qualname__}, inside a transform of torch.func"))
        if self.kept is not None:
            return self.kept
        assert self.source is not None
        if self.is_process(vm) or not vm.graph.demands.takes_objects:
            self.break_graph(vm)
        self.check(vm)
        if self.process is not None:
            vm.relate(Distinct, self.source, (vm.root_source.child(Pinned, self.process),))
        vm.trail.fill(self, "kept", vm.graph.inputs.of_state(self.source, self.kind.read(self.value)))
        assert self.kept is not None
        return self.kept

    def move(self, vm: TorchVM, state: Object) -> None:
        """Set the generator's state."""
        assert isinstance(state, TensorObject)
        self.state(vm)  # guards what it is
        vm.trail.set(self, "kept", state)
        vm.effects.mutated(self)

    def seed(self, vm: TorchVM, seed: Object) -> None:
        """Give the generator the state of one that is made with this seed."""
        self.move(vm, state_by_seed(vm, self.kind, seed))

    def is_process(self, vm: VM) -> bool:
        """Return whether it is the generator that the library has for the whole process."""
        if self.process is None or self.value is not self.process:
            return False
        assert self.source is not None
        vm.guard(ValueIs, self.source, self.value)
        return True

    def reconstruct(self, cg: Codegen) -> None:
        assert self.kept is not None
        cg.load(self.kept)
        cg.call_const(self.kind.made, 1)

    def replay(self, cg: Codegen) -> None:
        assert self.kept is not None
        cg.load(self)
        cg.load(self.kept)
        cg.call_const(self.kind.write, 2)
        cg.pop_top()

    def referents(self) -> list[Object]:
        return [] if self.kept is None else [self.kept]


def state_by_seed(vm: TorchVM, kind: GeneratorKind, seed: Object) -> TensorObject:
    """The state of a generator that is made with a seed."""
    found = enter(vm, SEEDED_STATE, [vm.const(kind.cls.__name__), seed])
    assert isinstance(found, TensorObject)
    return found
