"""Rewrites of graphs for AOTAutograd: each replaces the calls of a function that it can't trace, and one pass applies them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import fx

from framejit.graph.inner import nodes_inside

Rewrite = Callable[[fx.Node], None]
REWRITES: dict[Any, Rewrite] = {}
"""The rewrites, by the target of a node."""


def rewrites(*targets: Any) -> Callable[[Rewrite], Rewrite]:
    """Register a function that replaces nodes which call one of these functions."""

    def register(rewrite: Rewrite) -> Rewrite:
        for target in targets:
            assert target not in REWRITES, target
            REWRITES[target] = rewrite
        return rewrite

    return register


def rewrite_for_aot_autograd(gm: fx.GraphModule) -> None:
    """Apply all rewrites to a graph and to the graphs inside it."""
    for node in list(nodes_inside(gm)):
        rewrite = REWRITES.get(node.target) if node.op == "call_function" else None
        if rewrite is not None:
            rewrite(node)
