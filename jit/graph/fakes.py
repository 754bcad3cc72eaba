"""The fake tensors of a trace: the Object that each belongs to, and how all fakes are made again when undoing has made them wrong.

An in-place operator changes its fake, and that can't be undone. So undoing the operator only marks the fakes as stale. When they are needed next, they are
made again: those of inputs as before, and the others by running the remaining nodes, in a new fake mode over the same ShapeEnv.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from framejit.graph.body import Body
from framejit.graph.fake import plain_fake, storages, to_fake, version_of
from framejit.graph.fake_constants import constants_among, forget_outdated
from framejit.graph.fake_mode import DrawsSeen, begin_symbols, make_fake_mode
from framejit.graph.inputs import GraphInput
from framejit.graph.on_fakes import runs_as_on_fakes, written_by
from framejit.graph.parts import PartsContext
from framejit.graph.prune import run_node
from framejit.graph.repeats import Repeats
from framejit.graph.written import arguments_of, written_by_others
from framejit.objects.tensors.tensorobject import TensorObject
from framejit.process.when_needed import when_needed
from framejit.torch_state.torch_modes import MODE_CHANGES
from framejit.trail import Trail

if TYPE_CHECKING:
    from torch.fx.experimental.symbolic_shapes import StatefulSymbolicContext

    from framejit.graph.shape_env import TraceShapeEnv

shape_env = when_needed("framejit.graph.shape_env")


class Fakes:
    """The fakes of one trace. `takes_unbacked`: operators may return numbers and sizes that depend on data."""

    def __init__(self, trail: Trail, takes_unbacked: bool = False) -> None:
        self.shape_env: TraceShapeEnv | None = None
        """The ShapeEnv of the trace, if it has one; see `symbols`."""
        self.mode = make_fake_mode()
        self.repeats = Repeats(self.mode, None)
        self._takes_unbacked = takes_unbacked
        self.stale = False
        self._caches = True
        self.symbolic = False
        """True if there has been a symbolic number: a size of a fake, or an argument of an operator."""
        self.wrappers = False
        """True if the graph has had a tensor that wraps others."""
        self._trail = trail
        self._objects: dict[int, TensorObject] = {}
        self._versions: dict[fx.Node, int] = {}

    def symbols(self) -> TraceShapeEnv:
        """The ShapeEnv of the trace. It is made when something may first be symbolic: the fakes that there are then have no symbols."""
        if self.shape_env is None:
            self.shape_env = shape_env.TraceShapeEnv(self._takes_unbacked)
            self._begin(self.mode)
        return self.shape_env

    def _begin(self, mode: FakeTensorMode) -> None:
        """Run operators under a mode from now on."""
        self.mode = mode
        if self.shape_env is not None:
            begin_symbols(mode, self.shape_env)
        self.repeats = Repeats(mode, self.shape_env)

    def running(self) -> AbstractContextManager[object]:
        """The context in which operators run on fakes. With symbolic sizes, composite operators written in C++ run in Python."""
        if not self.symbolic:
            return self.mode
        stack = ExitStack()
        stack.enter_context(enable_python_dispatcher())
        stack.enter_context(self.mode)
        return stack

    def meet_wrapper(self) -> None:
        """Note that the graph has a tensor that wraps others."""
        if not self.wrappers:
            self._trail.set(self, "wrappers", True)

    def may_have_drawn(self, graph: fx.Graph) -> bool:
        """Return whether a graph of the trace may draw from torch's CPU generator. What doesn't run on fakes as it runs later may always."""
        seen = self.draws_seen()
        return seen is None or seen.any or not all(map(runs_as_on_fakes, graph.nodes))

    def draws_seen(self) -> DrawsSeen | None:
        """The note of whether operators have drawn random numbers; None if the mode has none."""
        seen = self.mode.__dict__.get("dispatch")
        return seen if isinstance(seen, DrawsSeen) else None

    def stop_caching(self) -> None:
        """Let every operator run, and none be taken from torch's cache: a cached view has memory of another size,
        so that forward-mode differentiation takes its tangents to be unlike their tensors."""
        self._trail.set(self, "_caches", False)
        self._trail.set(self.mode, "cache_enabled", False)

    def object_of(self, fake: torch.Tensor) -> TensorObject | None:
        """The Object of a fake that the trace knows."""
        return self._objects.get(id(fake))

    def of_input(self, tensor: torch.Tensor, symbolic: StatefulSymbolicContext | PartsContext | None) -> torch.Tensor:
        """A new fake of a real tensor. `symbolic`: which of its sizes are symbolic; None if none is."""
        if symbolic is not None:
            self.symbolic = True
            self.symbols()
        return to_fake(self.mode, tensor, symbolic)

    def of_transformed(self, tensor: torch.Tensor) -> torch.Tensor:
        """A new fake of a tensor inside a transform of torch.func, without the transform."""
        return plain_fake(self.mode, tensor)

    def sharing_memory(self, fakes: Iterable[torch.Tensor]) -> list[torch.Tensor]:
        """The fakes that the trace knows that share memory with some of these."""
        keys = storages(fakes)
        return [obj.fake for obj in self._objects.values() if storages([obj.fake]) & keys]

    def that_wrap(self) -> list[torch.Tensor]:
        """The fakes that the trace knows that wrap others."""
        return [obj.fake for obj in self._objects.values() if obj.kind.stays_itself]

    def belongs_to(self, fake: torch.Tensor, obj: TensorObject) -> None:
        """Note that a fake belongs to a new Object."""
        self._objects[id(fake)] = obj
        self._trail.learned(self, self._forget, obj)

    def _forget(self, obj: TensorObject) -> None:
        self._objects.pop(id(obj.node.meta["example_value"]), None)

    def move(self, obj: TensorObject, node: fx.Node) -> None:
        """Note that an Object is represented by another node from now on. Its old fake belongs to no Object any more."""
        old, new = id(obj.node.meta["example_value"]), id(node.meta["example_value"])
        self._trail.set(self, "_objects", {key: known for key, known in self._objects.items() if key != old} | {new: obj})
        self._trail.set(obj, "node", node)

    def note_version(self, node: fx.Node) -> None:
        """Note the version of an input's fake, to tell later whether the input has been changed in place."""
        self._versions[node] = version_of(node.meta["example_value"])
        self._trail.learned(self, self._versions.pop, node)

    def has_new_version(self, node: fx.Node) -> bool:
        """Return whether an input that requires a gradient has been changed in place."""
        return bool(node.meta["example_value"].requires_grad) and self.has_other_version(node)

    def has_other_version(self, node: fx.Node) -> bool:
        """Return whether the version of an input's fake isn't the one with which it was made."""
        return version_of(node.meta["example_value"]) != self._versions[node]

    def changed_inputs(self, kept: set[fx.Node]) -> set[fx.Node]:
        """The inputs that have been changed in place. `kept`: the nodes that change something."""
        written, handed = self._written(kept)
        return {node for node, version in self._versions.items() if is_changed(node.meta["example_value"], version, written, handed)}

    def are_changed(self, nodes: Iterable[fx.Node], kept: set[fx.Node]) -> bool:
        """Return whether the memory of tensors that nodes return, inputs included, has been written to since. `kept`: the nodes that change something."""
        written, handed = self._written(kept)
        written |= storages(node.meta["example_value"] for node in self.changed_inputs(kept))  # another argument may have the same memory
        return any(is_changed(node.meta["example_value"], self._versions.get(node, 0), written, handed) for node in nodes)

    def _written(self, kept: set[fx.Node]) -> tuple[set[int], set[int]]:
        """The keys of the storages that these nodes have written to by tensors other than inputs, and of the storages of all their arguments."""
        handed = storages(fake for changing in kept for _, fake in arguments_of(changing))
        return written_by_others(kept, self._versions), handed

    def changes_with_undoing(self) -> None:
        """Note that a fake has been changed in place, so that undoing the instruction makes all fakes stale."""
        self._trail.learned(self, setattr, self, "stale", True)

    def refresh(self, inputs: Iterable[GraphInput], bodies: Iterable[Body], made_again: Callable[[fx.Node], None]) -> None:
        """Make all fakes again if they are stale. `bodies`: the graphs under construction, the outermost first; `made_again` is called with each node."""
        if not self.stale:
            return
        self.stale = False
        objects = list(self._objects.values())
        self._begin(make_fake_mode())
        self.mode.cache_enabled = self.mode.cache_enabled and self._caches
        for described in inputs:
            if not described.is_tensor:
                continue
            fake = described.node.meta["example_value"] = self.of_input(described.obj.value, described.symbolic)
            self._versions[described.node] = version_of(fake)
        again = set(self._versions)
        for body in bodies:
            body.refresh_lifted()
            for node in body.fx.nodes:
                note = body.notes.get(node)
                if note is not None and node.target not in MODE_CHANGES and not (is_symbol(node) and again.isdisjoint(node.all_input_nodes)):
                    again.add(node)
                    constants = constants_among(fake for _, fake in arguments_of(node))
                    with note.modes.applied(), self.running():
                        node.meta["example_value"] = run_node(node)
                    forget_outdated(constants)
                    made_again(node)
        self._objects = {id(obj.node.meta["example_value"]): obj for obj in objects}


def is_symbol(node: fx.Node) -> bool:
    """Return whether a node gives a symbolic number. One that is computed from numbers of the call alone is never made again: functions such as `math.exp`
    take no symbols."""
    return isinstance(node.meta["example_value"], (torch.SymInt, torch.SymFloat))


def is_changed(fake: torch.Tensor, version: int, written: set[int], handed: set[int]) -> bool:
    """Return whether a fake has been changed in place since it had this version: its counter says so, or its memory was written to through tensors with
    another counter. Inference tensors have no counter: they count as changed if they were passed to an operator that writes to something.
    """
    if version < 0:
        return bool(handed) and not storages([fake]).isdisjoint(handed)
    return version_of(fake) != version or bool(written) and not storages([fake]).isdisjoint(written)


class Writes(TorchDispatchMode):
    """Notes whether operators below write to the memory of some fakes: for inference tensors, which have no version that would show it."""

    supports_higher_order_operators = True

    def __init__(self, fakes: Iterable[torch.Tensor]) -> None:
        super().__init__()
        self._storages = storages(fakes)
        self.seen = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, HigherOrderOperator):
            return func(*[self._watched(arg) if isinstance(arg, torch.nn.Module) else arg for arg in args], **kwargs)
        self.seen = self.seen or bool(storages(written_by(func, args, kwargs)) & self._storages)
        return func(*args, **kwargs)

    def _watched(self, graph: torch.nn.Module) -> Callable[..., Any]:
        """A function that runs an inner graph, whose operators are watched."""

        def run(*args: Any) -> Any:
            with self:
                return graph(*args)

        return run
