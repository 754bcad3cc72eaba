"""Programs with PyTorch Geometric: networks of graphs, of batches of graphs and of graphs with several kinds of nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
import torch_geometric.nn as geometric
from torch import nn
from torch_geometric import utils
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.loader import DataLoader
from torch_geometric.nn import MessagePassing, global_add_pool, global_max_pool, global_mean_pool

from tools.bench.library_programs.program import Compile, model, program, training

SIZES = ((10, 30), (10, 30), (12, 40), (15, 33))
"""Nodes and edges of a graph, call by call."""


def graph(nodes: int, edges: int, attributes: int = 0) -> Data:
    weights = torch.randn(edges, attributes) if attributes else None
    return Data(x=torch.randn(nodes, 8), edge_index=torch.randint(0, nodes, (2, edges)), y=torch.randint(0, 3, (1,)), edge_attr=weights)


def one_graph(turn: int) -> tuple[torch.Tensor, torch.Tensor]:
    found = graph(*SIZES[turn])
    return found.x, found.edge_index


def classes(network: nn.Module, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of classes of nodes."""
    return F.cross_entropy(network(x, edges), torch.arange(x.size(0)) % 3)


def batches(attributes: int = 0) -> Iterator[tuple[Batch]]:
    """Batches of small graphs, as a loader gives them."""
    graphs = [graph(5 + i, 9 + 2 * i, attributes) for i in range(11)]
    return ((batch,) for batch in DataLoader(graphs, batch_size=3))


def of_graphs(network: nn.Module, data: Batch) -> torch.Tensor:
    """Cross-entropy of classes of graphs, for a network that takes a batch."""
    return F.cross_entropy(network(data), data.y)


class Layers(nn.Module):
    """Two layers with dropout between them, as most tutorials have it."""

    def __init__(self, layer: Callable[[int, int], nn.Module]) -> None:
        super().__init__()
        self.first, self.second = layer(8, 16), layer(16, 3)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        x = F.dropout(F.relu(self.first(x, edges)), p=0.5, training=self.training)
        return self.second(x, edges)


@model(one_graph, classes)
def gcn() -> nn.Module:
    """Two GCNConv layers"""
    return Layers(geometric.GCNConv)


@model(one_graph, classes)
def gat() -> nn.Module:
    """Two GATConv layers with two heads"""
    return Layers(lambda width, out: geometric.GATConv(width, out, heads=2, concat=False))


class OwnConv(MessagePassing):
    """The graph convolution that the tutorial on message passing writes."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__(aggr="add")
        self.lin = nn.Linear(width, out, bias=False)
        self.bias = nn.Parameter(torch.zeros(out))

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        edge_index, _ = utils.add_self_loops(edge_index, num_nodes=x.size(0))
        x = self.lin(x)
        row, col = edge_index
        root = utils.degree(col, x.size(0), dtype=x.dtype).pow(-0.5)
        root[root == float("inf")] = 0
        return self.propagate(edge_index, x=x, norm=root[row] * root[col]) + self.bias

    def message(self, x_j: torch.Tensor, norm: torch.Tensor) -> torch.Tensor:
        return norm.view(-1, 1) * x_j


@program
def own_message_passing(compiled: Compile) -> Iterator[Any]:
    """A MessagePassing layer of one's own, trained on batches of graphs."""

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.lin = OwnConv(8, 16), OwnConv(16, 16), nn.Linear(16, 3)

        def forward(self, data: Batch) -> torch.Tensor:
            x = F.relu(self.first(data.x, data.edge_index))
            return self.lin(global_mean_pool(self.second(x, data.edge_index), data.batch))

    yield from training(compiled, Network(), of_graphs, batches())


@program
def gin_of_batches(compiled: Compile) -> Iterator[Any]:
    """GIN with batch norms and sums and maxima over graphs, trained on batches."""

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gnn = geometric.GIN(8, 16, 2, dropout=0.5, jk="cat")
            self.head = geometric.MLP([32, 16, 3], norm="batch_norm", dropout=0.5)

        def forward(self, data: Batch) -> torch.Tensor:
            x, size = self.gnn(data.x, data.edge_index), data.num_graphs
            return self.head(torch.cat([global_add_pool(x, data.batch, size), global_max_pool(x, data.batch, size)], -1))

    yield from training(compiled, Network(), of_graphs, batches())


@program
def top_k_pooling(compiled: Compile) -> Iterator[Any]:
    """TopKPooling between two layers, trained on batches."""

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = geometric.GraphConv(8, 16), geometric.GraphConv(16, 16)
            self.pool, self.lin = geometric.TopKPooling(16, ratio=0.8), nn.Linear(32, 3)

        def forward(self, data: Batch) -> torch.Tensor:
            x = F.relu(self.first(data.x, data.edge_index))
            x, edges, _, batch, *_ = self.pool(x, data.edge_index, None, data.batch)
            x = F.relu(self.second(x, edges))
            return self.lin(torch.cat([global_mean_pool(x, batch), global_max_pool(x, batch)], -1))

    yield from training(compiled, Network(), of_graphs, batches())


@program
def edge_features(compiled: Compile) -> Iterator[Any]:
    """NNConv with features of edges, read out by Set2Set and attention."""

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.set2set = geometric.NNConv(8, 16, nn.Linear(4, 128)), geometric.Set2Set(16, 2)
            self.attention, self.lin = geometric.AttentionalAggregation(nn.Linear(16, 1)), nn.Linear(48, 3)

        def forward(self, data: Batch) -> torch.Tensor:
            x = F.relu(self.conv(data.x, data.edge_index, data.edge_attr))
            return self.lin(torch.cat([self.set2set(x, data.batch), self.attention(x, data.batch)], -1))

    yield from training(compiled, Network(), of_graphs, batches(attributes=4))


@program
def graph_transformer(compiled: Compile) -> Iterator[Any]:
    """GPSConv, which joins message passing with attention over each graph, trained on batches."""

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            mlps = [nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)) for _ in range(2)]
            self.convs = nn.ModuleList([geometric.GPSConv(8, geometric.GINEConv(mlp, edge_dim=4), heads=2) for mlp in mlps])
            self.lin = nn.Linear(8, 3)

        def forward(self, data: Batch) -> torch.Tensor:
            x = data.x
            for conv in self.convs:
                x = conv(x, data.edge_index, data.batch, edge_attr=data.edge_attr)
            return self.lin(global_add_pool(x, data.batch))

    yield from training(compiled, Network(), of_graphs, batches(attributes=4))


@program
def graph_unet(compiled: Compile) -> Iterator[Any]:
    """GraphUNet, which pools and unpools, trained on batches."""

    def loss(network: nn.Module, data: Batch) -> torch.Tensor:
        return F.cross_entropy(global_mean_pool(network(data.x, data.edge_index, data.batch), data.batch), data.y)

    yield from training(compiled, geometric.GraphUNet(8, 16, 3, depth=2, pool_ratios=0.5), loss, batches())


def papers(count: int, authors: int) -> HeteroData:
    """Papers and their authors."""
    data = HeteroData()
    data["paper"].x, data["author"].x = torch.randn(count, 8), torch.randn(authors, 5)
    written = torch.stack([torch.randint(0, authors, (20,)), torch.randint(0, count, (20,))])
    data["author", "writes", "paper"].edge_index, data["paper", "rev_writes", "author"].edge_index = written, written.flip(0)
    data["paper"].y = torch.randint(0, 3, (count,))
    return data


@program
def kinds_of_nodes(compiled: Compile) -> Iterator[Any]:
    """HeteroConv on dicts of nodes and edges, trained."""

    def layer(out: int) -> nn.Module:
        convs = {("author", "writes", "paper"): geometric.SAGEConv((-1, -1), out)}
        convs["paper", "rev_writes", "author"] = geometric.GATConv((-1, -1), out, add_self_loops=False)
        return geometric.HeteroConv(convs, aggr="sum")

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = layer(16), layer(3)

        def forward(self, nodes: dict[str, torch.Tensor], edges: dict[Any, torch.Tensor]) -> dict[str, torch.Tensor]:
            nodes = {kind: x.relu() for kind, x in self.first(nodes, edges).items()}
            return self.second(nodes, edges)

    def loss(network: nn.Module, data: HeteroData) -> torch.Tensor:
        return F.cross_entropy(network(data.x_dict, data.edge_index_dict)["paper"], data["paper"].y)

    network, first = Network(), papers(10, 7)
    with torch.no_grad():
        network(first.x_dict, first.edge_index_dict)
    yield from training(compiled, network, loss, ((papers(*sizes),) for sizes in ((10, 7), (10, 7), (12, 8), (9, 6))))


@program
def relations(compiled: Compile) -> Iterator[Any]:
    """RGCNConv and FastRGCNConv with kinds of edges, trained."""

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = geometric.RGCNConv(8, 16, 3, num_bases=2), geometric.FastRGCNConv(16, 3, 3)

        def forward(self, x: torch.Tensor, edges: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
            return self.second(self.first(x, edges, kinds).relu(), edges, kinds)

    def loss(network: nn.Module, x: torch.Tensor, edges: torch.Tensor, kinds: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(network(x, edges, kinds), y)

    given = (
        (torch.randn(nodes, 8), torch.randint(0, nodes, (2, edges)), torch.randint(0, 3, (edges,)), torch.randint(0, 3, (nodes,))) for nodes, edges in SIZES
    )
    yield from training(compiled, Network(), loss, given)


@program
def link_prediction(compiled: Compile) -> Iterator[Any]:
    """VGAE with sampled negative edges, trained."""

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.mu, self.logstd = geometric.GCNConv(8, 16), geometric.GCNConv(16, 4), geometric.GCNConv(16, 4)

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            x = self.conv(x, edges).relu()
            return self.mu(x, edges), self.logstd(x, edges)

    def loss(network: Any, data: Data) -> torch.Tensor:
        z = network.encode(data.x, data.edge_index)
        return network.recon_loss(z, data.edge_index) + network.kl_loss() / data.num_nodes

    yield from training(compiled, geometric.VGAE(Encoder()), loss, ((graph(*sizes),) for sizes in SIZES))


@program
def utilities(compiled: Compile) -> Iterator[Any]:
    """Functions of torch_geometric.utils: dropped edges, subgraphs, coalescing, softmax, scatter."""

    @compiled
    def computed(x: torch.Tensor, edges: torch.Tensor) -> list[Any]:
        nodes = x.size(0)
        changed = [utils.dropout_edge(edges, p=0.3), utils.to_undirected(edges), utils.coalesce(edges), utils.remove_self_loops(edges)]
        over_edges = [utils.softmax(x[edges[0]], edges[1], num_nodes=nodes), utils.scatter(x[edges[0]], edges[1], dim=0, dim_size=nodes, reduce="mean")]
        parts = [utils.k_hop_subgraph(0, 2, edges, relabel_nodes=True), utils.get_laplacian(edges, normalization="sym", num_nodes=nodes)]
        return [*changed, *over_edges, *parts, utils.is_undirected(edges), utils.degree(edges[0])]

    for nodes, edges in SIZES[1:]:
        yield computed(torch.randn(nodes, 8), torch.randint(0, nodes, (2, edges)))


@program
def batching(compiled: Compile) -> Iterator[Any]:
    """A Batch that the compiled function makes from a list of graphs."""
    network = geometric.GCN(8, 16, 2, 3)

    @compiled
    def read_out(graphs: list[Data]) -> tuple[Any, ...]:
        batch = Batch.from_data_list(graphs)
        return global_mean_pool(network(batch.x, batch.edge_index), batch.batch), batch.ptr, batch.num_graphs

    for count in (2, 3, 4):
        yield read_out([graph(5 + i, 9 + i) for i in range(count)])
