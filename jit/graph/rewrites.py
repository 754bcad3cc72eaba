"""Rewrites of graphs for AOTAutograd, by the targets of nodes: of functions that it can't trace, and of those that it must trace into for a backward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch import fx

from framejit.graph.inner import nodes_inside

Rewrite = Callable[[fx.Node], None]
REWRITES: dict[Any, Rewrite] = {}
"""The rewrites, by the target of a node."""
WHERE_DIFFERENTIATED: dict[Any, Callable[..., Any]] = {}
"""The functions that nodes call in place of these targets, in a graph that contains its backward pass."""


def rewrites(*targets: Any) -> Callable[[Rewrite], Rewrite]:
    """Register a function that replaces nodes which call one of these functions."""

    def register(rewrite: Rewrite) -> Rewrite:
        for target in targets:
            assert target not in REWRITES, target
            REWRITES[target] = rewrite
        return rewrite

    return register


def replaces(target: Any, function: Callable[..., Any]) -> None:
    """Register a function that nodes call in place of `target`, with the same arguments."""

    def rewrite(node: fx.Node) -> None:
        node.target = function

    assert target not in REWRITES, target
    REWRITES[target] = rewrite


def rewrite_where_differentiated(nodes: Iterable[fx.Node]) -> None:
    """Replace targets in a graph that contains its backward pass."""
    for node in nodes:
        node.target = WHERE_DIFFERENTIATED.get(node.target, node.target)


def rewrite_for_aot_autograd(gm: fx.GraphModule) -> None:
    """Apply all rewrites to a graph and to the graphs inside it."""
    for node in list(nodes_inside(gm)):
        rewrite = REWRITES.get(node.target) if node.op == "call_function" else None
        if rewrite is not None:
            rewrite(node)
