"""Sparse tensors from outside and made in compiled code, what depends on how many elements they have, sparse gradients, and SparseAdam."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import framejit

BACKENDS = ("eager", "aot_eager")
EAGER_ITSELF = pytest.param("eager", marks=pytest.mark.only_eager("the test has aot_eager as another parameter, of which it expects something else"))


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


@pytest.mark.parametrize("backend", (EAGER_ITSELF, "aot_eager"))
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


def adjacency(nodes: int = 6, seed: int = 0) -> torch.Tensor:
    return (torch.rand(nodes, nodes, generator=torch.Generator().manual_seed(seed)) > 0.5).float()


class GraphNetwork(nn.Module):
    """Two layers that a matrix of edges, which is a buffer, leads from node to node."""

    def __init__(self, edges: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("edges", edges)
        self.first, self.second = nn.Linear(4, 5), nn.Linear(5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        degrees = torch.sparse.sum(self.edges, 1).to_dense() if self.edges.layout is torch.sparse_coo else self.edges.to_dense().sum(1)
        return self.edges @ self.second(torch.sparse.mm(self.edges, self.first(x)).relu() / (degrees[:, None] + 1))


@pytest.mark.parametrize("backend", (EAGER_ITSELF, "aot_eager"))
@pytest.mark.parametrize("layout", ("to_sparse", "to_sparse_csr"))
@pytest.mark.filterwarnings("ignore:Sparse")
def test_a_graph_network_is_one_graph(layout: str, backend: str) -> None:
    models = [GraphNetwork(getattr(adjacency(), layout)()) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    compiled = framejit.compile(models[1], backend=backend)
    for _ in range(3):
        x = torch.randn(6, 4)
        expected, found = models[0](x), compiled(x)
        torch.testing.assert_close(found, expected)
        expected.square().sum().backward()
        found.square().sum().backward()
    for left, right in zip(models[0].parameters(), models[1].parameters()):
        torch.testing.assert_close(right.grad, left.grad)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), models[0](x))
    if (layout, backend) != ("to_sparse_csr", "aot_eager"):
        assert (framejit.statistics()["graphs"], framejit.statistics()["graph_breaks"]) == (2, 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_elements_of_sparse_tensors_from_outside_are_known(backend: str) -> None:
    def f(edges: torch.Tensor, x: torch.Tensor) -> Any:
        edges = edges.coalesce()
        (targets, origins), weights = edges.indices(), edges.values()
        scaled = torch.sparse_coo_tensor(edges.indices(), weights * 2, edges.shape)
        return x[origins] * weights[:, None], targets, torch.sparse.mm(scaled, x), edges._nnz()

    compiled = framejit.compile(f, backend=backend)
    for seed in range(5):
        edges, x = adjacency(6, seed).to_sparse(), torch.randn(6, 3, requires_grad=True)
        for left, right in zip(f(edges, x), compiled(edges, x)):
            torch.testing.assert_close(right, left)
    assert (framejit.statistics()["graphs"], framejit.statistics()["graph_breaks"]) == (2, 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_of_sparse_tensors_from_outside(backend: str) -> None:
    def f(matrix: torch.Tensor, x: torch.Tensor) -> Any:
        return torch.sparse.mm(matrix, x) * 2, (matrix * 3).to_dense(), matrix.indices()

    runs = []
    for run in (f, framejit.compile(f, backend=backend)):
        matrix, x = adjacency().to_sparse().requires_grad_(), torch.ones(6, 2, requires_grad=True)
        results = run(matrix, x)
        (results[0].square().sum() + results[1].sum()).backward()
        assert matrix.grad is not None and matrix.grad.layout is torch.sparse_coo and x.grad is not None
        runs.append((*results, matrix.grad.to_dense(), x.grad))
    for left, right in zip(*runs):
        torch.testing.assert_close(right, left)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_changes_a_sparse_tensor_runs_natively(backend: str) -> None:
    def scaled(matrix: torch.Tensor, x: torch.Tensor) -> Any:
        matrix.mul_(2)
        return matrix @ x

    def written(matrix: torch.Tensor, x: torch.Tensor) -> Any:
        matrix._values().mul_(2)
        return matrix @ x

    def shared(matrix: torch.Tensor, values: torch.Tensor) -> Any:
        values.mul_(2)
        return matrix.to_dense() + 1

    for f in (scaled, written, shared):
        runs = []
        for run in (f, framejit.compile(f, backend=backend)):
            values = torch.ones(2)
            matrix = torch.sparse_coo_tensor([[0, 1], [1, 0]], values, (2, 2), is_coalesced=True)
            runs.append((run(matrix, values if f is shared else torch.ones(2, 2)), matrix.to_dense(), values))
        for left, right in zip(*runs):
            torch.testing.assert_close(right, left)


@pytest.mark.parametrize("backend", (EAGER_ITSELF, "aot_eager"))
def test_a_transposed_sparse_tensor_is_coalesced_where_asked(backend: str) -> None:
    def f(matrix: torch.Tensor) -> Any:
        return matrix.t().coalesce(), (matrix.coalesce() * 2).coalesce(), matrix.coalesce()

    compiled = framejit.compile(f, backend=backend)
    for matrix in (adjacency().to_sparse(), torch.sparse_coo_tensor([[0, 0, 1], [1, 1, 2]], torch.ones(3), (6, 6))):
        for left, right in zip(f(matrix), compiled(matrix)):
            assert right.is_coalesced() and torch.equal(left.indices(), right.indices()) and torch.equal(left.values(), right.values())
    if backend == "eager":
        assert framejit.statistics()["graph_breaks"] == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_sparse_tensors_whose_sizes_vary_are_left_outside(backend: str) -> None:
    compiled = framejit.compile(lambda edges, x: torch.sparse.mm(edges, x * 2) + 1, backend=backend)
    for nodes in (4, 5, 6, 7, 8, 9, 10, 11, 12, 13):
        edges, x = adjacency(nodes).to_sparse(), torch.randn(nodes, 2)
        torch.testing.assert_close(compiled(edges, x), torch.sparse.mm(edges, x * 2) + 1)
    assert framejit.statistics()["graphs"] <= 5 and framejit.statistics()["fallbacks"] == 0


INSIDE = {
    "scaled": lambda x: x.to_sparse() * 2,
    "dense again": lambda x: x.to_sparse().to_dense(),
    "a factor that comes second": lambda x: x @ x.to_sparse(),
    "a product with a vector": lambda x: x.to_sparse() @ x[0],
    "like one": lambda x: torch.zeros_like(x.to_sparse()),
    "made of elements": lambda x: torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 2]]), x[0, :2], (3, 3)) * 3,
}


@pytest.mark.parametrize("name", INSIDE)
def test_inductor_gets_no_operator_on_sparse_tensors_that_it_would_take_for_dense(name: str) -> None:
    f, x = INSIDE[name], torch.arange(9.0).reshape(3, 3)
    expected, found = f(x), framejit.compile(f, backend="inductor")(x)
    assert found.layout is expected.layout and torch.equal(found.to_dense(), expected.to_dense())
    assert framejit.statistics()["graph_breaks"] and not framejit.statistics()["fallbacks"]


def test_a_backend_that_takes_no_sparse_tensors_gets_graphs_around_them() -> None:
    """First the operators on sparse tensors stay outside of its graphs, and then those that give them too."""
    given = []

    def backend(gm: Any, example_inputs: Any) -> Any:
        layouts = [getattr(node.meta.get("example_value"), "layout", torch.strided) for node in gm.graph.nodes]
        if any(layout is not torch.strided for layout in layouts):
            raise NotImplementedError("only dense tensors")
        given.append(gm)
        return gm.forward

    x = torch.arange(9.0).reshape(3, 3)
    compiled = framejit.compile(lambda x: ((x + 1).to_sparse() * 2).to_dense() - 1, backend=backend)
    assert torch.equal(compiled(x), (x + 1) * 2 - 1)
    assert len(given) == 2 and not framejit.statistics()["fallbacks"]


def test_a_compressed_tensor_made_of_indices_and_values_splits_the_graph() -> None:
    def f(rows: torch.Tensor, columns: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return torch.sparse_csr_tensor(rows, columns, values * 2, size=(2, 2)) @ torch.ones(2, 2) + 1

    given = torch.tensor([0, 1, 2]), torch.tensor([1, 0]), torch.tensor([3.0, 4.0])
    framejit.reset()
    assert torch.equal(framejit.compile(f, backend="eager")(*given), f(*given))
    assert framejit.statistics()["fallbacks"] == 0
