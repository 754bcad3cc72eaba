"""A call that becomes one node of the graph, with arguments and results of any structure that `torch.utils._pytree` knows, in plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn
from torch.utils import _pytree as pytree


def call_as_one_node(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`function(*args, **kwargs)`."""
    leaves, structure = pytree.tree_flatten((args, kwargs))
    named = [tensors_of(leaf) if isinstance(leaf, nn.Module) else None for leaf in leaves]
    results, gives = node_of_leaves(function, structure, leaves, named)
    return pytree.tree_unflatten(results, gives)


def tensors_of(module: nn.Module) -> dict[str, Any]:
    """A module's parameters and buffers, by their names; what has two names is there twice."""
    return {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers(remove_duplicate=False))}


def node_of_leaves(function: Callable[..., Any], structure: Any, leaves: list[Any], named: list[dict[str, Any] | None]) -> tuple[list[Any], Any]:
    """The leaves, and the structure, of what the call gives with arguments of this structure; modules/declared.py says what it means."""
    raise NotImplementedError
