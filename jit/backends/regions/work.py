"""Estimates the work of a graph's nodes, from the sizes of their values in the trace."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx

PRODUCTS = frozenset({
    F.linear, F.bilinear, F.scaled_dot_product_attention, F.conv1d, F.conv2d, F.conv3d, F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d,
    torch.matmul, torch.mm, torch.bmm, torch.addmm, torch.baddbmm, torch.einsum, torch.conv1d, torch.conv2d, torch.conv3d, operator.matmul,
    "matmul", "mm", "bmm", "addmm", "baddbmm", "__matmul__",
})  # fmt: skip
"""Functions and methods that multiply each of many elements with each of many others."""
UNKNOWN = 512
"""The size that is assumed for one that depends on data."""


def work_of(nodes: Iterable[fx.Node]) -> int:
    """An estimate of the work that nodes do, in multiplications. Every element of a result counts; a product of matrices counts with its inner size."""
    return sum(map(work_of_node, nodes))


def work_of_node(node: fx.Node) -> int:
    results = elements(node.meta.get("example_value"))
    operands = [size for used in node.all_input_nodes if (size := elements(used.meta.get("example_value")))]
    if node.target not in PRODUCTS or len(operands) < 2:
        return results
    # (m x k) times (k x n): the square root of mk * kn * mn is the number of multiplications.
    return results + math.isqrt(results * operands[0] * operands[1])


def elements(value: Any) -> int:
    """The number of elements of a tensor in the trace, or of several."""
    if isinstance(value, torch.Tensor):
        return math.prod(map(hint, value.size()))
    return sum(map(elements, value)) if isinstance(value, (tuple, list)) else 0


def hint(size: Any) -> int:
    """A size as a number: for a symbolic one, that of the first call."""
    if not isinstance(size, torch.SymInt):
        return int(size)
    return int(size.node.hint) if size.node.has_hint() else UNKNOWN
