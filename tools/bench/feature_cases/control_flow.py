"""torch's operators that take functions: conditions, loops, maps and scans, attention with functions for scores, regions compiled once."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as mapped
from torch._higher_order_ops.out_dtype import out_dtype
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.strict_mode import strict_mode
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import BlockMask, and_masks, create_block_mask, flex_attention

from tools.bench.feature_cases.feature import feature


def a_plain_matrix() -> tuple[torch.Tensor]:
    return (torch.randn(4, 6),)


@feature("torch.cond with lambdas")
def lambdas(x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y * 2, (x,))


class Gate(nn.Module):
    """A layer that takes one of two ways."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(6, 6), nn.Linear(6, 6)

    def by_left(self, x: torch.Tensor) -> torch.Tensor:
        return self.left(x).relu()

    def by_right(self, x: torch.Tensor) -> torch.Tensor:
        return self.right(x).tanh()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.mean() > 0, self.by_left, self.by_right, (x,))


@feature("torch.cond with methods of a module", lambda: (Gate(), torch.randn(4, 6)))
def methods(gate: nn.Module, x: torch.Tensor) -> Any:
    return gate(x)


@feature("torch.cond with free variables and a partial")
def free_variables(x: torch.Tensor) -> Any:
    scale, shift = x.exp(), 3

    def scaled(y: torch.Tensor) -> torch.Tensor:
        return y * scale + shift

    return torch.cond(x.sum() > 0, scaled, functools.partial(torch.add, scale), (x,))


@feature("torch.cond with trees of operands and results")
def trees(x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda d: {"a": d["x"] + 1, "b": (d["y"][0].cos(),)}, lambda d: {"a": d["x"] * 2, "b": (d["y"][0].sin(),)},
                      ({"x": x, "y": [x * 3]},))  # fmt: skip


@feature("torch.cond inside torch.cond")
def nested(x: torch.Tensor) -> Any:
    def inner(y: torch.Tensor) -> torch.Tensor:
        return torch.cond(y.max() > 1, lambda z: z.cos(), lambda z: z.exp(), (y,))

    return torch.cond(x.sum() > 0, inner, lambda y: y * 2, (x,))


@feature("torch.cond with a size for predicate")
def of_a_size(x: torch.Tensor) -> Any:
    return torch.cond(x.shape[0] > 3, lambda y: y + 1, lambda y: y - 1, (x,))


@feature("torch.cond that changes a tensor", a_plain_matrix)
def in_place(x: torch.Tensor) -> Any:
    with torch.no_grad():
        buffer = torch.zeros(6)
        torch.cond(x.sum() > 0, lambda b: b.add_(1).clone(), lambda b: b.sub_(1).clone(), (buffer,))
        return buffer


@feature("torch.cond that gives its operand", a_plain_matrix)
def given_back(x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda y: y.clone(), lambda y: y.view(6, 4).T.clone().T.reshape(4, 6).clone(), (x,)) + 1


@feature("while_loop over tensors", a_plain_matrix)
def loop(x: torch.Tensor) -> Any:
    return while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, y * 1.5), (torch.tensor(0), x))


@feature("while_loop over an int", a_plain_matrix)
def loop_over_an_int(x: torch.Tensor) -> Any:
    return while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, y * 1.5), (0, x))[1]


@feature("while_loop with a module", lambda: (nn.Linear(6, 6), torch.randn(4, 6)))
def loop_with_a_module(layer: nn.Module, x: torch.Tensor) -> Any:
    return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, layer(y).tanh()), (torch.tensor(0), x))[1]


@feature("map")
def rows(x: torch.Tensor) -> Any:
    return mapped(lambda row, w: (row * w).cumsum(0), x, x[0].exp())


@feature("scan with a tree for carry")
def running(x: torch.Tensor) -> Any:
    def step(carry: Any, row: torch.Tensor) -> Any:
        total = carry["total"] + row
        return {"total": total, "last": row.sin()}, total.tanh()

    return scan(step, {"total": torch.zeros(6), "last": torch.zeros(6)}, x)


@feature("scan of a recurrent cell", lambda: (nn.RNNCell(6, 5), torch.randn(4, 3, 6)))
def recurrent(cell: nn.Module, x: torch.Tensor) -> Any:
    def step(h: torch.Tensor, row: torch.Tensor) -> Any:
        new = cell(row, h)
        return new, new.clone()

    return scan(step, torch.zeros(3, 5), x, reverse=True)


@feature("associative_scan", a_plain_matrix)
def associative(x: torch.Tensor) -> Any:
    return associative_scan(lambda a, b: a * b, x, 0, combine_mode="generic")


@feature("strict_mode, and out_dtype", a_plain_matrix)
def small_ones(x: torch.Tensor) -> Any:
    whole = (x * 10).to(torch.int8)
    return strict_mode(lambda y: y.sin(), (x,)), out_dtype(torch.ops.aten.mm.default, torch.int32, whole, whole.T)


@torch.compiler.nested_compile_region
def block(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.relu(x @ w).sin() + x


@feature("nested_compile_region", lambda: (torch.randn(4, 6, requires_grad=True), torch.randn(6, 6, requires_grad=True)))
def regions(x: torch.Tensor, w: torch.Tensor) -> Any:
    for _ in range(3):
        x = block(x, w)
    return x


def heads() -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(1, 2, 16, 8) for _ in range(3))


@feature("flex_attention with a score_mod", heads)
def scores(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    return flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: score + (i - j) * 0.1)


@feature("flex_attention with a bias that is closed over", lambda: (*heads(), torch.randn(2, 31)))
def biased(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor) -> Any:
    return flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: score + bias[h, i - j + 15])


def causal(b: Any, h: Any, i: Any, j: Any) -> Any:
    return i >= j


def a_mask() -> tuple[Any, ...]:
    return *heads(), create_block_mask(causal, None, None, 16, 16, device="cpu", BLOCK_SIZE=8)


@feature("flex_attention with a BlockMask from outside", a_mask)
def masked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: BlockMask) -> Any:
    return flex_attention(q, k, v, block_mask=mask)


@feature("create_block_mask inside, of two masks", lambda: (*heads(), torch.tensor([0] * 8 + [1] * 8)))
def mask_inside(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, documents: torch.Tensor) -> Any:
    both = and_masks(causal, lambda b, h, i, j: documents[i] == documents[j])
    mask = create_block_mask(both, None, None, 16, 16, device="cpu", BLOCK_SIZE=8)
    return flex_attention(q, k, v, block_mask=mask)
