"""Sparse tensors made in compiled code: what depends on how many elements they have, embeddings with sparse gradients, and SparseAdam."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import framejit

BACKENDS = ("eager", "aot_eager")


@pytest.fixture(autouse=True)
def counting() -> None:
    framejit.reset()


@pytest.mark.parametrize("layout", ("to_sparse", "to_sparse_csr"))
@pytest.mark.filterwarnings("ignore:Sparse")
def test_the_number_of_elements_is_the_datas(layout: str) -> None:
    def f(x: torch.Tensor) -> Any:
        sparse = getattr(x, layout)() * 2
        return sparse._nnz(), sparse.values().shape, sparse.to_dense()

    def merged(indices: torch.Tensor, values: torch.Tensor) -> Any:
        sparse = torch.sparse_coo_tensor(indices, values, (3, 3))
        return sparse.is_coalesced(), sparse.coalesce().indices(), sparse.coalesce().values() * 2

    compiled, other = framejit.compile(f, backend="eager"), framejit.compile(merged, backend="eager")
    for elements in ([0.0, 2.0, 1.0], [0.0, 0.0, 3.0]):
        x = torch.tensor([elements, elements])
        expected, found = f(x), compiled(x)
        assert expected[:2] == found[:2] and torch.equal(expected[2], found[2])
    for rows in ([0, 0, 1], [0, 1, 2]):
        arguments = torch.tensor([rows, rows]), torch.ones(3)
        for left, right in zip(merged(*arguments), other(*arguments)):
            assert torch.equal(torch.as_tensor(left), torch.as_tensor(right))


@pytest.mark.parametrize("backend", BACKENDS)
def test_products_with_what_is_made_inside_are_one_graph(backend: str) -> None:
    def f(indices: torch.Tensor, values: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        adjacency = torch.sparse_coo_tensor(indices, values, (4, 4))
        return torch.sparse.mm(adjacency, x) + torch.sparse.mm((values[0] * 2).expand(4, 4).to_sparse(), x)

    indices, values, x, y = torch.tensor([[0, 1, 3], [2, 0, 3]]), torch.ones(3), *(torch.ones(4, 2, requires_grad=True) for _ in range(2))
    expected, found = f(indices, values, x), framejit.compile(f, backend=backend)(indices, values, y)
    torch.testing.assert_close(found, expected)
    expected.square().sum().backward()
    found.square().sum().backward()
    torch.testing.assert_close(y.grad, x.grad)
    assert (framejit.statistics()["graphs"], framejit.statistics()["graph_breaks"]) == (1, 0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_tensors_with_gradients(backend: str) -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        return (x * 2).to_sparse_csr() @ y.sin(), (x.cos().to_sparse() * 2).to_dense()

    x, y, others = torch.ones(4, 4, requires_grad=True), torch.ones(4, 2, requires_grad=True), [torch.ones(4, n, requires_grad=True) for n in (4, 2)]
    expected, found = f(x, y), framejit.compile(f, backend=backend)(*others)
    for left, right in zip(expected, found):
        torch.testing.assert_close(right, left)
    (expected[0].sum() + expected[1].sum()).backward()
    (found[0].sum() + found[1].sum()).backward()
    for left, right in zip((x, y), others):
        torch.testing.assert_close(right.grad.to_dense(), left.grad.to_dense())  # type: ignore[union-attr]
    if backend == "eager":
        assert (framejit.statistics()["graphs"], framejit.statistics()["graph_breaks"]) == (1, 0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("layer", (nn.Embedding, nn.EmbeddingBag))
def test_steps_with_sparse_gradients(layer: Any, backend: str) -> None:
    def trained(compile_step: Any) -> list[Any]:
        torch.manual_seed(0)
        embedding, head = layer(20, 4, sparse=True), nn.Linear(4, 2)
        optimizers = torch.optim.SparseAdam(embedding.parameters(), lr=0.1), torch.optim.SGD(head.parameters(), lr=0.1)

        def step(tokens: torch.Tensor) -> torch.Tensor:
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss = head(embedding(tokens)).square().mean()
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
            return loss.detach()

        run = compile_step(step)
        return [run(torch.randint(20, (3, 2))) for _ in range(6)] + [parameter.detach() for parameter in (*embedding.parameters(), *head.parameters())]

    for expected, found in zip(trained(lambda step: step), trained(framejit.compile(backend=backend)), strict=True):
        torch.testing.assert_close(found, expected)
    assert framejit.statistics()["graphs"] <= 2
