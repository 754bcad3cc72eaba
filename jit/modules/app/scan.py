"""torch's associative scan in plain Python: one step after the other, as its definition says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree


def associative_scan(
    combine_fn: Callable[[Any, Any], Any], xs: Any, dim: int, reverse: bool = False, combine_mode: str = "pointwise"
) -> Any:
    """Any order of combining is right for an associative function; in sequence it needs no vmap over `combine_fn`."""
    leaves, spec = pytree.tree_flatten(xs)
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    if len(leaves) == 0:
        raise ValueError("Expected at least 1 xs leaf")
    slices = list(zip(*[leaf.unbind(dim) for leaf in leaves], strict=True))
    if len(slices) == 0:
        raise ValueError("All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0")
    if reverse:
        slices.reverse()
    results = [slices[0]]
    for item in slices[1:]:
        combined = combine_fn(pytree.tree_unflatten(results[-1], spec), pytree.tree_unflatten(item, spec))
        results.append(pytree.tree_leaves(combined))
    if reverse:
        results.reverse()
    return pytree.tree_unflatten([torch.stack(list(parts), dim) for parts in zip(*results, strict=True)], spec)
