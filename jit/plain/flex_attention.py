"""`flex_attention` in plain Python, down to functions that take functions of a score or of its place, and have models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention import flex_attention as flex


def attend(qkv: tuple[Any, ...], score_mod: Callable[..., Any], mask: tuple[Any, ...], mask_mod: Callable[..., Any], scale: Any, options: Any) -> Any:
    """The result of attention with functions for the scores and for the mask."""
    raise NotImplementedError


def flex_attention(
    query: Any, key: Any, value: Any, score_mod: Any, block_mask: Any, scale: Any, kernel_options: Any, score_buffers: Any = (), mask_buffers: Any = ()
) -> Any:
    """The operator of `flex_attention`."""
    *mask, mask_mod = block_mask
    return attend(
        (query, key, value),
        lambda *args: score_mod(*args, *score_buffers),
        tuple(mask),
        lambda *args: mask_mod(*args, *mask_buffers),
        scale,
        kernel_options,
    )


def over_places(mod: Callable[..., Any], scores: tuple[Any, ...], places: tuple[Any, ...]) -> Any:
    """The results of a function of one score for all scores, or if there are no `scores`, of a function of their places for all places."""
    raise NotImplementedError


def create_mask(mod_fn: Callable[..., Any], B: Any, H: Any, Q_LEN: int, KV_LEN: int, device: Any = None) -> Any:
    """`create_mask` of flex_attention, for functions of a place and for functions of a score."""
    if device is None:
        device = torch.accelerator.current_accelerator() or "cpu"
    sizes = (1 if B is None else B, 1 if H is None else H, Q_LEN, KV_LEN)
    places = tuple([torch.arange(0, size, device=device) for size in sizes])
    with torch.no_grad():
        if flex._get_mod_type(mod_fn) is flex._ModificationType.MASK_MOD:
            return over_places(mod_fn, (), places)
        return ~torch.isneginf(over_places(mod_fn, (torch.zeros(sizes, device=device),), places))


def ordered_to_dense(counts: Any, columns: Any, width: int | None = None) -> Any:
    """A mask of blocks, given the number of blocks in each row and, in `columns`, their columns; entries of `columns` after that number mean nothing."""
    width = columns.shape[-1] if width is None else width
    is_one = torch.arange(columns.shape[-1], device=columns.device) < counts.unsqueeze(-1)
    dense = columns.new_zeros((*columns.shape[:-1], width + 1), dtype=torch.int32)
    return dense.scatter(-1, torch.where(is_one, columns, width).long(), 1)[..., :width].contiguous()
