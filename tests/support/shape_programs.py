"""Functions and models whose inputs come in many sizes, for tests of symbolic shapes and for the comparison in tools/bench/shapes.py."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

SIZES = ((2, 3), (3, 5), (4, 4), (1, 3), (3, 1), (0, 3), (5, 9), (9, 5), (8, 8), (16, 2))
"""Pairs of sizes that are passed one after the other: zero, one, equal and unequal ones."""
NUMBERS = (3, 4, 7, -5, 0, 1, 2, 100, -1, 12)


@dataclass(frozen=True)
class ShapeProgram:
    """A function with its arguments for each pair of sizes: the call is `function(*make(first, second))`."""

    name: str
    function: Callable[..., Any]
    make: Callable[[int, int], tuple[Any, ...]]
    calls: tuple[tuple[int, int], ...] = SIZES


def matrix(a: int, b: int) -> tuple[Any, ...]:
    return (torch.randn(a, b),)


def two(a: int, b: int) -> tuple[Any, ...]:
    return torch.randn(a, b), torch.randn(a, b)


def of_matrix(name: str, function: Callable[..., Any]) -> ShapeProgram:
    return ShapeProgram(name, function, matrix)


def of_two(name: str, function: Callable[..., Any]) -> ShapeProgram:
    return ShapeProgram(name, function, two)


def of_number(name: str, function: Callable[..., Any]) -> ShapeProgram:
    return ShapeProgram(name, function, lambda n, _: (torch.ones(3), n), tuple((n, 0) for n in NUMBERS))


def ragged(x: torch.Tensor) -> torch.Tensor:
    rows = []
    for i in range(2):
        rows.append(F.pad(x, (0, x.shape[1] * i)))
    return torch.cat(rows, 1)


def loop_over_shape(x: torch.Tensor) -> torch.Tensor:
    total = 1
    for size in x.shape:
        total *= size
    return x.reshape(total) + total


def attention(x: torch.Tensor) -> torch.Tensor:
    scores = x @ x.transpose(0, 1) / math.sqrt(max(x.shape[-1], 1))
    mask = torch.triu(torch.full((x.shape[0], x.shape[0]), float("-inf")), 1)
    return (scores + mask).softmax(-1) @ x


def positions(x: torch.Tensor) -> torch.Tensor:
    steps = torch.arange(x.shape[0], device=x.device)
    return x + (steps[:, None] / 10000 ** (torch.arange(x.shape[1]) / max(x.shape[1], 1))).sin()


def windows(x: torch.Tensor) -> torch.Tensor:
    size = max(x.shape[0] // 2, 1)
    return x[: x.shape[0] // size * size].reshape(-1, size * x.shape[1]) if x.shape[0] else x


def inplace(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[: y.shape[0] // 2] += 1
    y.unsqueeze_(0)
    return y.mul_(x.shape[1])


def kept(x: torch.Tensor) -> tuple[Any, ...]:
    """Sizes that the compiled function returns."""
    b, s = x.shape
    return x + b, b, s * 2 + 1, (b, s), [b - s], {"n": b * s}, x.shape[:-1] + (7,), f"{x.dim()}"


def grouped(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([part.sum() for part in x.unbind(1)]) if x.shape[1] else x


TABLE = torch.arange(64.0)[None]


def window_of(x: torch.Tensor, n: int) -> torch.Tensor:
    return x * n + n // 2 - n % 3


def of_sign(x: torch.Tensor, n: int) -> torch.Tensor:
    return x + n if n > 0 else x - n


def numbers_out(x: torch.Tensor, n: int) -> tuple[Any, ...]:
    return x + 1, n * 2 + 1, -n, n - x.shape[0], [n, n + 1], max(n, 5), n == 7


FUNCTIONS = (
    of_matrix("relu", lambda x: x.relu() + 1),
    of_matrix("softmax", lambda x: x.softmax(-1)),
    of_matrix("log_softmax", lambda x: x.log_softmax(0)),
    of_matrix("layer_norm", lambda x: F.layer_norm(x, x.shape[-1:])),
    of_matrix("view_flat", lambda x: x.view(-1)),
    of_matrix("reshape_product", lambda x: x.reshape(x.shape[0] * x.shape[1])),
    of_matrix("flatten", lambda x: x[None].flatten(1)),
    of_matrix("loop_over_shape", loop_over_shape),
    of_matrix("transpose", lambda x: x.t().contiguous()),
    of_matrix("permute", lambda x: x[None].permute(2, 0, 1) * 2),
    of_matrix("cat", lambda x: torch.cat([x, x[:, :1]], 1)),
    of_matrix("stack", lambda x: torch.stack([x, x + 1])),
    of_matrix("arange", lambda x: torch.arange(x.size(1)) + x),
    of_matrix("zeros", lambda x: torch.zeros(x.shape) + x.new_ones(x.shape[0], 1)),
    of_matrix("full", lambda x: torch.full((x.size(0), 2), 3.0)),
    of_matrix("full_like", lambda x: torch.full_like(x, 2.0)),
    of_matrix("eye", lambda x: torch.eye(x.shape[0]) @ x),
    of_matrix("mean_by_hand", lambda x: x.sum() / x.numel()),
    of_matrix("mean_of_rows", lambda x: x.sum(1) / max(x.shape[1], 1)),
    of_matrix("var", lambda x: x.var(0, unbiased=False)),
    of_matrix("scaled", lambda x: x * x.shape[-1] ** -0.5),
    of_matrix("sqrt", lambda x: x / math.sqrt(x.shape[1])),
    of_matrix("divided", lambda x: x / len(x) if len(x) else x),
    of_matrix("half", lambda x: x[: x.shape[0] // 2]),
    of_matrix("last", lambda x: x[:, -1]),
    of_matrix("narrow", lambda x: x.narrow(1, 0, x.size(1) - 1)),
    of_matrix("of a table", lambda x: TABLE[:, : x.size(1)] + x),
    of_matrix("step", lambda x: x[::2]),
    of_matrix("flip", lambda x: x.flip(0)),
    of_matrix("roll", lambda x: x.roll(1, 0)),
    of_matrix("tril", lambda x: torch.tril(torch.ones(x.size(0), x.size(0)))),
    of_matrix("branch", lambda x: x + 1 if x.shape[0] > 4 else x - 1),
    of_matrix("even", lambda x: x.view(2, -1) if x.shape[0] % 2 == 0 and x.shape[0] else x),
    of_matrix("expand", lambda x: x[None].expand(3, *x.shape).sum(0)),
    of_matrix("expand_as", lambda x: x[:, :1].expand_as(x) + x),
    of_matrix("repeat", lambda x: x.repeat(2, 1)),
    of_matrix("matmul", lambda x: x @ x.t()),
    of_matrix("einsum", lambda x: torch.einsum("ij,kj->ik", x, x)),
    of_matrix("chunk", lambda x: torch.cat(x.chunk(2, 0)) if x.shape[0] > 1 else x),
    of_matrix("split", lambda x: x.split([1, x.shape[0] - 1])[1] if x.shape[0] else x),
    of_matrix("pad", lambda x: F.pad(x, (0, max(0, 20 - x.shape[1])))),
    of_matrix("ragged", ragged),
    of_matrix("where", lambda x: torch.where(x > 0, x, x.new_zeros(()))),
    of_matrix("masked_fill", lambda x: x.masked_fill(x > 0, 0.0)),
    of_matrix("gather", lambda x: x.gather(1, torch.zeros(x.shape[0], 1, dtype=torch.int64))),
    of_matrix("cumsum", lambda x: x.cumsum(0)),
    of_matrix("sort", lambda x: x.sort(1).values),
    of_matrix("inplace", inplace),
    of_matrix("windows", windows),
    of_matrix("attention", attention),
    of_matrix("positions", positions),
    of_matrix("interpolate", lambda x: F.interpolate(x[None, None], scale_factor=2) if x.numel() else x),
    of_matrix("kept", kept),
    of_matrix("unbind", grouped),
    of_matrix("size_object", lambda x: x.new_zeros(torch.Size([x.shape[1], x.shape[0]]))),
    of_matrix("numel_of_shape", lambda x: x + x.shape.numel()),
    of_two("add", lambda x, y: x + y),
    of_two("cat_two", lambda x, y: torch.cat([x, y]).relu()),
    of_two("outer", lambda x, y: x[:, None] * y[None]),
    of_two("shapes_equal", lambda x, y: x + y if x.shape == y.shape else x),
    of_number("window_of", window_of),
    of_number("of_sign", of_sign),
    of_number("numbers_out", numbers_out),
    of_number("powers", lambda x, n: x * n**2),
    of_number("shifted", lambda x, n: x + (n - 1) / 2),
)


class Attention(nn.Module):
    """Causal attention over heads, as in a small decoder."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, width = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(mixed.transpose(1, 2).reshape(b, s, width))


class Decoder(nn.Module):
    """Embeddings, positions, two layers of attention."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 16), nn.Embedding(64, 16)
        self.layers = nn.ModuleList([Attention(16, 2) for _ in range(2)])
        self.norm = nn.LayerNorm(16)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for layer in self.layers:
            x = layer(x)
        return self.norm(x) @ self.words.weight.t()


class Speech(nn.Module):
    """Strided convolutions over a signal, then a recurrent-free encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(nn.Conv1d(1, 8, 5, stride=2), nn.GELU(), nn.Conv1d(8, 16, 3, stride=2), nn.GELU())
        self.encoder = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        return self.encoder(self.convolutions(signal[:, None]).transpose(1, 2))


LENGTHS = ((2, 16), (3, 20), (4, 32), (1, 24), (2, 17), (5, 40))
"""Batch and length."""


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 2))


def convolutional() -> nn.Module:
    layers = [nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)]
    return nn.Sequential(*layers).eval()


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def translator() -> nn.Module:
    return nn.Transformer(16, 2, 1, 1, 32, dropout=0.0, batch_first=True)


MODELS: tuple[tuple[str, Callable[[], nn.Module], Callable[[int, int], tuple[Any, ...]]], ...] = (
    ("mlp", mlp, lambda b, s: (torch.randn(b, s, 4),)),
    ("convolutional", convolutional, lambda b, s: (torch.randn(b, 3, s, s + 2),)),
    ("encoder", encoder, lambda b, s: (torch.randn(b, s, 16),)),
    ("decoder", Decoder, lambda b, s: (torch.randint(0, 50, (b, s)),)),
    ("translator", translator, lambda b, s: (torch.randn(b, s, 16), torch.randn(b, s // 2, 16))),
    ("speech", Speech, lambda b, s: (torch.randn(b, 10 * s),)),
)
