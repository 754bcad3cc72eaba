"""Kinds of tensors: a test declares one with what framejit's own kinds use, and nothing else has to know it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import framejit
from framejit import library
from framejit.breaks import Break, TensorSubclass
from framejit.graph.graph_inputs import GraphInputs
from framejit.graph.wrappers import Wrappers
from framejit.guards.source import Source
from framejit.objects.core import abstract
from framejit.objects.core.object import VM, Object
from framejit.objects.tensors import tensorkind
from framejit.objects.tensors.tensorkind import KINDS, SecondKind, TensorKind, kind_in_graph, kind_of, kind_of_class, tensor_kind
from framejit.objects.tensors.tensorobject import TensorObject


class Box(torch.Tensor):
    """A wrapper of one tensor, with a factor that its operators use and a remark that they don't."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor, factor: int = 1) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

    def __init__(self, inner: torch.Tensor, factor: int = 1) -> None:
        self.inner = inner
        self.factor = factor
        self.remark = "new"

    def __tensor_flatten__(self) -> Any:
        return ["inner"], self.factor

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return Box(inner["inner"], context)

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        factor = max(box.factor for box in pytree.tree_leaves(args) if isinstance(box, Box))
        return Box(func(*pytree.tree_map_only(Box, lambda box: box.inner, args), **(kwargs or {})) * factor, factor)

    def __repr__(self) -> str:  # type: ignore[override]
        return "Box()"


@pytest.fixture
def kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kinds that a test registers are forgotten after it."""
    library.load()
    monkeypatch.setattr(tensorkind, "KINDS", dict(KINDS))
    monkeypatch.setattr(tensorkind, "OF_FIXED", {})


def doubled(box: Any) -> Any:
    return (box + 1) * 2


@pytest.mark.usefixtures("kinds")
def test_a_kind_refuses_its_tensors_with_a_message_of_its_own() -> None:
    @tensor_kind(45)
    class RefusedBoxes(TensorKind):
        name = "refused boxes"

        def holds_class(self, cls: type) -> bool:
            return cls is Box

        def refusal(self, tensor: torch.Tensor) -> Break | None:
            return TensorSubclass("Box, which this test refuses")

    box = Box(torch.randn(3), 3)
    report = framejit.explain(doubled, backend="eager")(box)
    assert report.graphs == 0
    assert "Box, which this test refuses" in str(report)
    with framejit.config.replace(strict=False):
        assert torch.equal(framejit.compile(doubled, backend="eager")(box).inner, doubled(box).inner)


@pytest.mark.usefixtures("kinds")
def test_a_kind_goes_into_graphs_as_itself_and_says_what_is_guarded() -> None:
    results = []

    @tensor_kind(45)
    class Boxes(TensorKind):
        name = "boxes"
        stays_itself = True
        wraps = True

        def holds_class(self, cls: type) -> bool:
            return cls is Box

        def make_input(self, inputs: GraphInputs, source: Source, tensor: torch.Tensor, plain: torch.Tensor) -> TensorObject:
            inputs.state.part(Wrappers).meet(self)
            return inputs.add_sized(source, tensor, plain, inputs.state.fakes.of_input(tensor, None), None, True)

        def guard_contents(self, vm: VM, made: Object) -> None:
            vm.observe(abstract.getattr_(vm, made, "factor")).constant(vm)

        def note_result(self, state: Any, made: Object) -> None:
            results.append(made)

        def parts(self, fake: Any) -> Sequence[torch.Tensor]:
            return [fake.inner]

    framejit.reset()
    compiled = framejit.compile(doubled, backend="eager")
    box = Box(torch.randn(3), 3)
    for factor, remark, graphs in ((3, "new", 1), (3, "changed", 1), (4, "changed", 2)):
        box.factor, box.remark = factor, remark
        found, expected = compiled(box), doubled(box)
        assert type(found) is Box
        assert found.factor == expected.factor == factor
        assert torch.equal(found.inner, expected.inner)
        assert framejit.statistics()["graphs"] == graphs
    assert len(results) == 4


@pytest.mark.usefixtures("kinds")
def test_a_second_kind_of_one_rank_or_name_is_an_error() -> None:
    class Another(TensorKind):
        name = "another"

    with pytest.raises(SecondKind, match="SparseTensors"):
        tensor_kind(100)(Another)
    Another.name = "sparse"
    with pytest.raises(SecondKind, match="SparseTensors"):
        tensor_kind(101)(Another)
    assert 101 not in tensorkind.KINDS


@pytest.mark.usefixtures("kinds")
def test_kinds_are_asked_in_the_order_of_their_ranks() -> None:
    def holding(name: str, rank: int) -> None:
        tensor_kind(rank)(type(name, (TensorKind,), {"name": name, "holds_class": lambda self, cls: cls is Box}))

    holding("second", 46)
    assert kind_of_class(Box).name == "second"
    holding("first", 45)
    assert kind_of_class(Box).name == "first"
    assert list(tensorkind.KINDS) == sorted(tensorkind.KINDS)


class Named(torch.Tensor):
    """A class that inherits torch's default `__torch_function__`."""


def test_kinds_of_tensors_from_outside_and_in_graphs() -> None:
    library.load()
    with torch._subclasses.FakeTensorMode() as mode:
        fake, sparse = torch.ones(2), torch.eye(2).to_sparse()
    outside = {
        "plain": torch.ones(2), "disguised": torch.ones(2).as_subclass(Named), "sparse": torch.eye(2).to_sparse(), "wrapper": Box(torch.ones(2)),
        "jagged": torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged), "of another layout": torch.ones(2).to_mkldnn(), "fake": fake,
        "uninitialized": torch.nn.UninitializedParameter(), "quantized": torch.quantize_per_tensor(torch.eye(2), 0.1, 0, torch.qint8),
    }  # fmt: skip
    assert {name: kind_of(tensor).name for name, tensor in outside.items()} == {name: name for name in outside}
    assert mode is not None
    assert (kind_in_graph(fake).name, kind_in_graph(sparse).name, kind_of(sparse).name) == ("plain", "sparse", "fake")
    assert kind_of_class(type(fake)) is kind_of_class(torch.nn.Parameter) is kind_of(torch.ones(2))
