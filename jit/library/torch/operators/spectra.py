"""torch.istft: on fakes, where its version in C++ looks at the window's data, and under AOTAutograd, which takes the version in Python, without that check."""

from __future__ import annotations

from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher

from framejit.graph.builder import TorchVM
from framejit.graph.on_fakes import stand_in
from framejit.graph.rewrites import replaces
from framejit.objects.core.object import Object
from framejit.objects.core.registry import models
from framejit.objects.tensors.torchcall import enter
from framejit.torch_state.own_operators import declare_operator

SMALLEST = 1e-11
"""The least sum of squares of overlapping windows that torch divides by (aten/native/SpectralOps.cpp)."""


@models(torch.Tensor.istft)
def istft(vm: TorchVM, *args: Object, **kwargs: Object) -> Object:
    """The method, which calls the function."""
    return enter(vm, torch.istft, args, kwargs)


def istft_on_fakes(*args: Any, **kwargs: Any) -> torch.Tensor:
    """The signal of fakes, by torch's version in Python, which looks at no data."""
    with enable_python_dispatcher():
        return torch.istft(*args, **kwargs)


stand_in(torch.istft, istft_on_fakes)


@declare_operator("checked_window(Tensor window, int n_fft, int hop_length, SymInt frames, bool center, SymInt? length) -> Tensor")
def checked_window(window: torch.Tensor, n_fft: int, hop_length: int, frames: int, center: bool, length: int | None) -> torch.Tensor:
    """A copy of a window of `n_fft` elements. Raises RuntimeError, as torch.istft does, if the sum of the squares of the overlapping windows, by which the
    signal is divided, is nearly 0 somewhere."""
    squares = window.pow(2).expand(1, frames, n_fft)
    total = torch.ops.aten.unfold_backward(squares, (1, n_fft + hop_length * (frames - 1)), 1, n_fft, hop_length)
    start = n_fft // 2 if center else 0
    end = total.shape[1] - start if length is None else start + length
    if not total[:, start:end].abs().min() >= SMALLEST:
        raise RuntimeError(f"istft(n_fft={n_fft}, hop_length={hop_length}, center={center}, length={length}) window overlap add min: 1")
    return window.clone()


@checked_window.fake
def _(window: torch.Tensor, *_: Any) -> torch.Tensor:
    return torch.empty_like(window)


def remember_nothing(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    pass


@checked_window.gradient(remember_nothing)
def differentiate_window(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    return gradient, None, None, None, None, None


def checked_istft(
    input: torch.Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: torch.Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> torch.Tensor:
    """torch.istft, whose version in Python divides by whatever the overlapping windows give, with the check that its version in C++ makes."""
    hop, width = n_fft // 4 if hop_length is None else hop_length, n_fft if win_length is None else win_length
    if window is None:
        window = torch.ones(width, dtype=input.real.dtype, device=input.device)
    left = (n_fft - width) // 2
    window = torch.nn.functional.pad(window, (left, n_fft - width - left))
    window = checked_window(window, n_fft, hop, input.shape[-1], center, length)
    return torch.istft(input, n_fft, hop, n_fft, window, center, normalized, onesided, length, return_complex)


replaces(torch.istft, checked_istft)
