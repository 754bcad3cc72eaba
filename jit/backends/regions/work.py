"""Estimates the work of a graph's nodes, from the sizes of their values in the trace."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import fx

UNKNOWN = 512
"""The size that is assumed for one that depends on data."""


def work_of(nodes: Iterable[fx.Node]) -> int:
    """An estimate of the work that nodes do, in multiplications. Each element of a result counts; in a product of matrices, as often as its sum has terms."""
    return sum(map(work_of_node, nodes))


def work_of_node(node: fx.Node) -> int:
    result = node.meta.get("example_value")
    own = elements(result)
    operands = [shape_of(value) for arg in node.args if isinstance(arg, fx.Node) and isinstance(value := arg.meta.get("example_value"), torch.Tensor)][:2]
    if not isinstance(result, torch.Tensor) or len(operands) < 2 or fits(operands, shape_of(result)):
        return own
    # (m x k) times (k x n): the square root of mn * mk * kn is the number of multiplications.
    return own + math.isqrt(own * math.prod(operands[0]) * math.prod(operands[1]))


def fits(operands: Iterable[Sequence[int]], result: Sequence[int]) -> bool:
    """Return whether the operands can be expanded to the size of the result, as in an operator that works element by element."""
    return all(
        len(shape) <= len(result) and all(size in (1, other) for size, other in zip(reversed(shape), reversed(result))) for shape in operands
    )


def elements(value: Any) -> int:
    """The number of elements of a tensor in the trace, or of several."""
    if isinstance(value, torch.Tensor):
        return math.prod(shape_of(value))
    return sum(map(elements, value)) if isinstance(value, (tuple, list)) else 0


def shape_of(tensor: torch.Tensor) -> tuple[int, ...]:
    """The sizes of a tensor as numbers: of a symbolic one, that of the first call."""
    return tuple([size if isinstance(size, int) else int(size.node.hint) if size.node.has_hint() else UNKNOWN for size in tensor.size()])
