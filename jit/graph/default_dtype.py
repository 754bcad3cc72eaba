"""Handles operators whose results have the default dtype, in graphs that run under another default dtype than the program has set."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.utils import _pytree as pytree

from framejit.graph.on_fakes import run_on_fakes


def with_dtype(
    op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, default: torch.dtype, running: Callable[[], AbstractContextManager[Any]]
) -> dict[str, Any] | None:
    """Keyword arguments with which an operator, on fakes, gives what it has given, where the default dtype is `default`: its own, or further ones that
    name the dtype. None if there are none. In force is the default dtype that the program has set.
    """
    wanted = dtypes(result)
    if torch.get_default_dtype() not in [torch.empty(0, dtype=dtype, device="meta").real.dtype for dtype in wanted]:
        return kwargs
    for given in (kwargs, {**kwargs, "dtype": wanted[0]}):
        before = torch.get_default_dtype()
        torch.set_default_dtype(default)
        try:
            with running():
                found = getattr(args[0], target)(*args[1:], **given) if op == "call_method" else run_on_fakes(target, args, given)
        except Exception:
            continue
        finally:
            torch.set_default_dtype(before)
        if dtypes(found) == wanted:
            return given
    return None


def dtypes(result: Any) -> list[torch.dtype]:
    """The dtypes of the tensors that an operator has given."""
    return [leaf.dtype for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
