"""Graphs that raise under a handler of the program's after they have changed inputs: small inputs get their old data back, and the call runs uncompiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import framejit
from framejit.graph import put_back

BACKENDS = ["eager", "aot_eager", "inductor"]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    framejit.reset()
    yield


class Normed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.table = torch.nn.BatchNorm1d(2), torch.nn.Embedding(3, 2)

    def forward(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return self.norm(x).sum() + self.table(index).sum()


def normed_if_possible(net: Normed, x: torch.Tensor, index: torch.Tensor) -> Any:
    try:
        return net(x, index)
    except IndexError as error:
        return str(error)


@pytest.mark.only_eager("the test names the backends that it is about")
@pytest.mark.parametrize("backend", BACKENDS)
def test_statistics_of_a_batch_that_raises_are_counted_as_in_eager(backend: str):
    found = []
    for make in (lambda function: function, framejit.compile(backend=backend)):
        torch.manual_seed(0)
        net, step = Normed(), make(normed_if_possible)
        results = [step(net, torch.arange(6.0).view(3, 2) * scale, torch.tensor([scale])) for scale in (1, 2, 7, 0, 9)]
        found.append((results, net.state_dict()))
    assert [type(result) for result in found[0][0]] == [torch.Tensor, torch.Tensor, str, torch.Tensor, str]
    for result, expected in zip(found[1][0], found[0][0], strict=True):
        assert result == expected if isinstance(expected, str) else torch.allclose(result, expected)
    for name, expected in found[0][1].items():
        assert torch.allclose(found[1][1][name], expected), name
    assert framejit.statistics()["graph_breaks"] == 0


def counted(x: torch.Tensor, counter: torch.Tensor, index: torch.Tensor) -> Any:
    counter.add_(1)
    try:
        return x[index] * counter
    except IndexError:
        return counter * 1


CALLS: dict[str, Callable[[], torch.Tensor]] = {
    "a tensor": lambda: torch.zeros(2),
    "a view": lambda: torch.zeros(4, 2)[1],
    "one of other strides": lambda: torch.zeros(4)[::2],
    "a parameter without gradients": lambda: torch.nn.Parameter(torch.zeros(2), requires_grad=False),
    "a tensor that is large": lambda: torch.zeros(put_back.MOST_BYTES // 4 + 2)[:2],
}


@pytest.mark.parametrize("name", CALLS)
def test_changed_arguments_get_their_data_and_versions_back(name: str):
    compiled = framejit.compile(counted, backend="eager")
    x, counter, expected = torch.ones(2), CALLS[name](), CALLS[name]()
    for index in (0, 5, 1, -7):
        assert compiled(x, counter, torch.tensor([index])).tolist() == counted(x, expected, torch.tensor([index])).tolist()
        assert counter.tolist() == expected.tolist()
    assert counter._version == expected._version or name == "a view"


def test_inference_tensors_get_their_data_back():
    compiled = framejit.compile(counted, backend="eager")
    for make in (torch.zeros, torch.ones, torch.inference_mode()(torch.zeros)):
        with torch.inference_mode():
            counter = make(2)
            for index in (0, 5):
                compiled(torch.ones(2), counter, torch.tensor([index]))
        assert counter.tolist() == (make(2) + 2).tolist()


def test_large_tensors_are_not_copied():
    counter = torch.zeros(put_back.MOST_BYTES // 4 + 1)
    compiled = framejit.compile(counted, backend="eager")
    assert compiled(torch.ones(1), counter, torch.tensor([0])).shape == counter.shape
    with pytest.raises(IndexError):  # a limit: a copy would cost too much in each call
        compiled(torch.ones(1), counter, torch.tensor([3]))


def checked(x: torch.Tensor, counter: torch.Tensor, index: torch.Tensor) -> torch.Tensor | str:
    try:
        y = x[index] * 2
        assert torch.isfinite(y).all(), "not finite"
        counter.add_(1)
        return y + torch.ones(2)[index]
    except IndexError:
        return "no such row"


@pytest.mark.only_eager("the test names the backends that it is about")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_graph_that_checks_before_it_changes_something_runs_again_for_other_errors_too(backend: str):
    compiled = framejit.compile(checked, backend=backend)
    counter = torch.zeros(2)
    for index, found in ((0, [3.0]), (3, "no such row"), (1, [5.0]), (2, "no such row")):
        result = compiled(torch.tensor([1.0, 2.0, 3.0]), counter, torch.tensor([index]))
        assert (result if isinstance(result, str) else result.tolist()) == found
    with pytest.raises(AssertionError, match="not finite"):
        compiled(torch.tensor([float("inf")]), counter, torch.tensor([0]))
    assert counter.tolist() == [3, 3]
    assert framejit.statistics()["graph_breaks"] == 0
