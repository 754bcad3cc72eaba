"""Average pooling with `ceil_mode=True`, whose last windows may reach over the edge: Inductor's gradients (torch 2.11 to 2.15) divide by whole windows there.

So for AOTAutograd the windows are summed up, and the sums divided by the sizes of the windows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from framejit.graph.rewrites import replaces

Ints = int | Sequence[int]


def sizes_of_windows(size: int, windows: int, kernel: int, stride: int, padding: int, like: torch.Tensor) -> torch.Tensor:
    """The sizes of the windows along one dimension, of which each counts the padding, but nothing beyond it (ATen/native/cpu/AvgPoolKernel.cpp)."""
    start = torch.arange(windows, device=like.device) * stride - padding
    return ((start + kernel).clamp(max=size + padding) - start).to(like.dtype)


def of_dimensions(given: Ints, dimensions: int) -> tuple[int, ...]:
    """A number for each dimension, of which only one may be given."""
    numbers = (given,) if isinstance(given, int) else tuple(given)
    return numbers * dimensions if len(numbers) == 1 else numbers


def divides_by_windows(pooling: Callable[..., torch.Tensor], dimensions: int) -> Callable[..., torch.Tensor]:
    """A pooling function of torch's over so many dimensions, with the same arguments, whose gradients are eager's."""

    def pooled(
        input: torch.Tensor,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> torch.Tensor:
        is_given = stride is not None and stride not in ((), [])
        given: list[Any] = [input, kernel_size, stride if is_given else kernel_size, padding, ceil_mode, count_include_pad]
        if not ceil_mode or not count_include_pad or divisor_override is not None or not input.is_floating_point():
            return pooling(*given, divisor_override)
        kernel, step, pad = (of_dimensions(each, dimensions) for each in given[1:4])
        sums = pooling(*given, 1)
        for dim in range(-dimensions, 0):
            sizes = sizes_of_windows(input.shape[dim], sums.shape[dim], kernel[dim], step[dim], pad[dim], sums)
            sums = sums / sizes.view(-1, *[1] * (-1 - dim))
        return sums

    return pooled


def pool_rows(input: torch.Tensor, kernel: Ints, stride: Ints, padding: Ints, ceil_mode: bool, count_include_pad: bool, divisor: int | None) -> torch.Tensor:
    """torch.avg_pool1d, as pooling over two dimensions of which one has a single element, since it takes no divisor."""
    if divisor is None:
        return torch.avg_pool1d(input, kernel, stride, padding, ceil_mode, count_include_pad)
    sizes = [(first, *of_dimensions(each, 1)) for first, each in ((1, kernel), (1, stride), (0, padding))]
    return torch._C._nn.avg_pool2d(input.unsqueeze(-2), *sizes, ceil_mode, count_include_pad, divisor).squeeze(-2)


avg_pool1d = divides_by_windows(pool_rows, 1)
avg_pool2d = divides_by_windows(torch._C._nn.avg_pool2d, 2)
avg_pool3d = divides_by_windows(torch._C._nn.avg_pool3d, 3)
replaces(torch.avg_pool1d, avg_pool1d)
replaces(torch._C._nn.avg_pool2d, avg_pool2d)
replaces(torch._C._nn.avg_pool3d, avg_pool3d)
