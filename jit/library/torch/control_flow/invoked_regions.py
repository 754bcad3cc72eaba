"""The node of a region that is compiled once for all similar regions: AOTAutograd traces its graph the first time, and then finds it by name.

A region that draws random numbers must draw them only once, for its forward and its backward pass. If AOTAutograd makes the backward pass of the whole graph,
it ensures that. If the graph itself computes gradients, the operator would draw again, so the region is inlined there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._higher_order_ops.invoke_subgraph import get_invoke_subgraph_cache, invoke_subgraph

from framejit.graph.on_fakes import stand_in
from framejit.graph.rewrites import WHERE_DIFFERENTIATED


def run_region(graph: fx.GraphModule, name: str, *operands: Any) -> tuple[torch.Tensor, ...]:
    """torch's operator for such a region. Regions with the same name have the same graph, which changes nothing.

    If gradients are recorded, the operator traces the graph at each call to see whether it changes its operands. Here that is done once.
    """
    known = autograd_of(name) if torch.is_grad_enabled() and any(is_recorded(operand) for operand in operands) else None
    result: tuple[torch.Tensor, ...] = invoke_subgraph(graph, name, *operands) if known is None else known(*operands)
    return result


def run_drawing_region(graph: fx.GraphModule, name: str, *operands: Any) -> tuple[torch.Tensor, ...]:
    """`run_region` for a graph that draws random numbers."""
    return run_region(graph, name, *operands)


def is_recorded(operand: Any) -> bool:
    return isinstance(operand, torch.Tensor) and operand.requires_grad


def autograd_of(name: str) -> Callable[..., Any] | None:
    """The operator's cached autograd of the first region of this name for which it was needed."""
    cache = get_invoke_subgraph_cache()
    return None if cache is None else cache.get_autograd_key_entry(name)


def run_on_fakes(graph: fx.GraphModule, name: str, *operands: Any) -> tuple[torch.Tensor, ...]:
    """Run the graph itself, which gives the operator's result without its checks."""
    result: tuple[torch.Tensor, ...] = graph(*operands)
    return result


stand_in(run_region, run_on_fakes)
stand_in(run_drawing_region, run_on_fakes)
WHERE_DIFFERENTIATED[run_drawing_region] = run_on_fakes
