"""torch's control flow in plain Python, down to what stands for its operators: functions that take no argument, or tensors, and give flat results.

The models of the functions without a body (modules/torch_cond.py and its like) trace what they are given as graphs inside the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

Flat = tuple[list[Any], Any]
"""The leaves of a tree, and its structure."""


def is_open(pred: Any) -> bool:
    """Whether a predicate isn't known before the graph runs."""
    raise NotImplementedError


def choose(pred: Any, true_branch: Callable[[], Flat], false_branch: Callable[[], Flat]) -> Flat:
    """What one of two branches gives."""
    raise NotImplementedError


def refuse(why: str) -> Any:
    """Stop the trace at the program's call of the operator."""
    raise NotImplementedError


def same_structure(a: Any, b: Any) -> bool:
    """Whether two structures of trees are the same. (Comparing them by `==` would compare the texts of their types.)"""
    if a.type is not b.type or a.context != b.context or a.num_children != b.num_children:
        return False
    return all(same_structure(one, other) for one, other in zip(a.children(), b.children()))


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()) -> Any:
    """`torch.cond`."""
    if not is_open(pred):
        return (true_fn if pred else false_fn)(*operands)
    if not isinstance(operands, (tuple, list)) or pytree.tree_any(lambda leaf: not isinstance(leaf, torch.Tensor), operands):
        return refuse("operands that are no tensors, nor tuples, lists or dicts of tensors")
    leaves, structure = choose(
        pred, lambda: pytree.tree_flatten(true_fn(*operands)), lambda: pytree.tree_flatten(false_fn(*operands))
    )
    return pytree.tree_unflatten(leaves, structure)
