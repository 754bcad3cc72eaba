"""`TensorKind`, what a trace knows of one kind of tensors (nested, sparse, distributed, ...), and the registry of the kinds.

    @tensor_kind(20)
    class JaggedTensors(TensorKind):
        name = "jagged"
        stays_itself = True

        def holds_class(self, cls: type) -> bool:
            return cls is NestedTensor

Each kind is in the file of its subject in jit/library, which the loader imports. A tensor is of the first kind, by rank, that holds its class
(`holds_class`) or the tensor itself (`holds`). Nothing else asks which kind a tensor is: others ask the kind for what they need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch._subclasses.fake_tensor import FakeTensor

from framejit.breaks import Break
from framejit.guards.source import Source
from framejit.objects.core.object import VM, Object
from framejit.torch_state.torch_classes import PLAIN_TENSORS, has_torch_function, overrides_operators

NOTHING: tuple[Any, ...] = ()


class TensorKind:
    """A kind of tensors; the defaults are what holds of plain tensors. A kind overrides `holds_class` or `holds`, and what is different.

    The room of this class doesn't know the graph. Kinds annotate `inputs` as `GraphInputs`, and `state` as `TraceState`.
    """

    name = ""
    is_in_graphs = True
    """True if the trace distinguishes tensors of this kind in the graph too. Otherwise, only tensors from outside are of this kind."""
    stays_itself = False
    """True if a graph has such tensors with their class, and not as plain tensors."""
    wraps = False
    """True if such a tensor is a wrapper of others, whose `__torch_function__` the graph's operators must not ask."""
    brings_its_own = False
    """True if the class's `__torch_function__` is torch's own, and belongs to each operator of a graph."""
    is_disguised = False
    """True if a graph has such tensors as plain ones, although their class has a `__torch_function__`, which the trace calls."""
    has_memory = True
    """True if the data of such a tensor is in its own storage, or also there."""

    # Which tensors are of this kind.

    def holds_class(self, cls: type) -> bool:
        """Return whether all tensors of this class are of this kind, unless a kind of lower rank holds them."""
        return False

    def holds(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor whose class no kind of lower rank holds is of this kind. No `__torch_function__` may be called."""
        return False

    # Tensors from outside.

    def refusal(self, tensor: torch.Tensor) -> Break | None:
        """The reason why a tensor from outside can't be an input of a graph, or None."""
        return None

    def make_input(self, inputs: Any, source: Source, tensor: torch.Tensor, plain: torch.Tensor) -> Object:
        """Make a tensor from outside an input of the graph. `plain`: what the graph gets, the tensor itself or the same as a plain one."""
        made: Object = inputs.add_dense(source, tensor, plain)
        return made

    def guard_contents(self, vm: VM, made: Object) -> None:
        """Guard what an input holds besides data and metadata."""

    # Tensors in the graph.

    def note_result(self, state: Any, made: Object) -> None:
        """An operator of the graph has made this tensor: note that, or stop the trace."""

    def parts(self, fake: torch.Tensor) -> Sequence[torch.Tensor]:
        """The tensors in which one has its data, if it isn't in its own memory alone."""
        return NOTHING

    def sized(self, fake: torch.Tensor) -> Sequence[torch.Tensor]:
        """The tensors whose sizes an input brings into the graph: itself, and its parts."""
        return (fake,)

    # Graphs that autograd sees as one node (graph/autograd_node.py).

    def refusal_as_argument(self, fake: torch.Tensor) -> Break | None:
        """The reason why no operator of such a graph can take a tensor, or None."""
        return None

    def refusal_as_result(self, fake: torch.Tensor) -> Break | None:
        """The reason why no operator of such a graph can make a tensor, or None."""
        return None

    def refusal_as_output(self, state: Any, node: Any) -> Break | None:
        """The reason why the tensor that a node gives can't leave such a graph, or None. The trace is restarted then, to break where the tensor is made."""
        return None


class SecondKind(Exception):
    """Two kinds of tensors have the same name or rank."""


KINDS: dict[int, TensorKind] = {}
"""The kinds, by rank and in its order."""
FIXED = (*PLAIN_TENSORS, FakeTensor)
"""Classes that don't change, so that the kinds of their tensors are found once."""
OF_FIXED: dict[tuple[int, bool], tuple[list[TensorKind], TensorKind]] = {}
"""The results of `_candidates` for the classes in FIXED, by the id of the class and whether the tensors are in the graph."""
K = TypeVar("K", bound=type[TensorKind])


def tensor_kind(rank: int) -> Callable[[K], K]:
    """Register a class of kinds. Of the kinds that hold a tensor, the one of the lowest rank is the tensor's."""

    def register(cls: K) -> K:
        known = KINDS.get(rank) or next((kind for kind in KINDS.values() if kind.name == cls.name), None)
        if known is not None:
            raise SecondKind(f"{cls.__qualname__} has the name or rank of {type(known).__qualname__}: {cls.name!r}, {rank}")
        KINDS[rank] = cls()
        for each in sorted(KINDS):
            KINDS[each] = KINDS.pop(each)
        OF_FIXED.clear()
        return cls

    return register


def _candidates(cls: type, in_graph: bool) -> tuple[list[TensorKind], TensorKind]:
    """The kinds that are asked for each tensor of a class, and the kind of those that none of these holds."""
    found = OF_FIXED.get((id(cls), in_graph))
    if found is None:
        kinds = [kind for kind in KINDS.values() if kind.is_in_graphs or not in_graph]
        assert kinds, "framejit.library.load() registers the kinds of tensors"
        of_class = next(kind for kind in kinds if kind.holds_class(cls))
        found = [kind for kind in kinds[: kinds.index(of_class)] if type(kind).holds is not TensorKind.holds], of_class
        if any(cls is fixed for fixed in FIXED):
            OF_FIXED[id(cls), in_graph] = found
    return found


def kind_of(tensor: torch.Tensor) -> TensorKind:
    """The kind of a tensor from outside."""
    asked, of_class = _candidates(type(tensor), False)
    return next((kind for kind in asked if kind.holds(tensor)), of_class) if asked else of_class


def kind_of_data(tensor: torch.Tensor) -> TensorKind:
    """The kind of which a tensor from outside would be if it were of torch's class: what its own class means is left out."""
    asked, of_class = _candidates(torch.Tensor, False)
    return next((kind for kind in asked if kind.holds(tensor)), of_class)


def kind_in_graph(fake: torch.Tensor) -> TensorKind:
    """The kind of a tensor of the graph."""
    asked, of_class = _candidates(type(fake), True)
    return next((kind for kind in asked if kind.holds(fake)), of_class) if asked else of_class


def kind_of_class(cls: type) -> TensorKind:
    """The kind of tensors of the graph of which only the class is known."""
    return _candidates(cls, True)[1]


def overrides_functions(cls: type) -> bool:
    """Return whether values of a class are asked what functions of torch's mean (`__torch_function__`), by code that is to be traced."""
    return has_torch_function(cls) and not kind_of_class(cls).brings_its_own


def overrides(cls: type) -> bool:
    """Return whether values of a class take part in torch's functions by code of their own."""
    return overrides_functions(cls) or overrides_operators(cls)
