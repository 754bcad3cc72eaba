"""What the benchmarks run: a small function, two deep transformers, a deep convolutional network, a function of containers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from tools.models import SMALL, Example, decoder, encoder

LAYERS = 36
ENTRIES = 50


@dataclass(frozen=True)
class Case:
    """A callable to compile, and one call of it."""

    name: str
    about: str
    builder: Callable[[str], tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]

    def build(self, device: str = "cpu") -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        """The callable, its positional arguments and its keyword arguments, the same on every call."""
        torch.manual_seed(0)
        return self.builder(device)


def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The smallest graph there is."""
    return x + y


def total(items: list[torch.Tensor], table: dict[str, torch.Tensor]) -> torch.Tensor:
    """The sum over a list and a dict of tensors of one shape."""
    result = torch.zeros_like(items[0])
    for item in items:
        result = result + item
    for value in table.values():
        result = result + value
    return result


class ConvolutionBlock(nn.Module):
    """Convolution, batch normalisation, ReLU."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.normalisation = nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From and to (batch, width, height, width of the image)."""
        return torch.relu(self.normalisation(self.convolution(x)))


def _add(device: str) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    return add, (torch.randn(8, device=device), torch.randn(8, device=device)), {}


def _total(device: str) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    items = [torch.randn(4, device=device) for _ in range(ENTRIES)]
    table = {f"entry{index}": torch.randn(4, device=device) for index in range(ENTRIES)}
    return total, (items, table), {}


def _blocks(device: str) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    model = nn.Sequential(*(ConvolutionBlock(8) for _ in range(LAYERS))).to(device).eval()
    return model, (torch.randn(1, 8, 16, 16, device=device),), {}


def _text(build: Callable[[], Example]) -> Callable[[str], tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]:
    def builder(device: str) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        example = build().to(device)
        return example.model.eval(), example.args, example.kwargs

    return builder


_DEEP: dict[str, Any] = {**SMALL, "num_hidden_layers": LAYERS}

CASES: tuple[Case, ...] = (
    Case("add", "`x + y` on two tensors of 8 elements", _add),
    Case("containers", f"the sum of {ENTRIES} tensors in a list and {ENTRIES} in a dict", _total),
    Case("conv36", f"{LAYERS} blocks of convolution, batch normalisation and ReLU, 8 channels", _blocks),
    Case("bert36", f"BERT with {LAYERS} layers of width 64, with padding and labels", _text(encoder("Bert", **_DEEP))),
    Case(
        "qwen36",
        f"Qwen3 with {LAYERS} layers of width 64, with labels and cache",
        _text(decoder("Qwen3", num_key_value_heads=2, head_dim=16, **_DEEP)),
    ),
)


def select(only: str | None) -> list[Case]:
    """The cases named in the comma-separated list `only`, or all; raises ValueError at an unknown name."""
    if not only:
        return list(CASES)
    known = {case.name: case for case in CASES}
    names = [name.strip() for name in only.split(",") if name.strip()]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"unknown case {', '.join(unknown)}; known: {', '.join(known)}")
    return [known[name] for name in names]
