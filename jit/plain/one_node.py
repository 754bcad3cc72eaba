"""A call that becomes one node of the graph, with arguments and results of any structure that `torch.utils._pytree` knows, in plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn
from torch.utils import _pytree as pytree


def call_as_one_node(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`function(*args, **kwargs)` as one node."""
    leaves, structure = pytree.tree_flatten((args, kwargs))
    named = [tensors_of(leaf) if isinstance(leaf, nn.Module) else None for leaf in leaves]
    results, gives = node_of_leaves(function, structure, leaves, named)
    return pytree.tree_unflatten(results, gives)


def tensors_of(module: nn.Module) -> dict[str, Any]:
    """A module's parameters and buffers by name; one with two names is included twice."""
    return {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers(remove_duplicate=False))}


def node_of_leaves(function: Callable[..., Any], structure: Any, leaves: list[Any], named: list[dict[str, Any] | None]) -> tuple[list[Any], Any]:
    """The leaves of the call's result and their structure, given arguments with this structure. The model is in library/directives/declared.py."""
    raise NotImplementedError
