"""Calls of packages that don't come with framejit in the middle of a tensor program, for the table of the boundary to library code."""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable
from typing import Any

import torch

from tools import libraries  # noqa: F401 - makes torchvision importable, which torchmetrics imports

PACKAGES = ("tqdm", "einops", "jaxtyping", "beartype", "torchmetrics", "numpy")
Case = tuple[int, Callable[[torch.Tensor], Any]]


def imported(name: str) -> Any:
    """A package, or None if it isn't installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


tqdm, einops, jaxtyping, beartype, torchmetrics, numpy = map(imported, PACKAGES)


def cases() -> dict[str, Case]:
    """The cases of the packages that are installed: how often the program uses the library, and what it does with the tensor."""
    found: dict[str, Case] = {}
    if tqdm is not None:
        found |= {"tqdm, 3 iterations": (6, lambda x: bar(x, file=io.StringIO())), "tqdm, disabled": (5, lambda x: bar(x, disable=True))}
    if einops is not None:
        found |= {
            "einops.rearrange": (1, lambda x: einops.rearrange(x, "(a b) -> b a", a=2)),
            "einops.reduce": (1, lambda x: einops.reduce(x, "(a b) -> b", "mean", a=2)),
            "einops.repeat": (1, lambda x: einops.repeat(x, "a -> a b", b=2)),
            "einops.einsum": (1, lambda x: einops.einsum(x, x, "a, b -> a b")),
        }
    if beartype is not None:
        bare = beartype.beartype(scaled)
        found["beartype"] = (1, lambda x: bare(x, 2.0))
    if jaxtyping is not None:
        vector = jaxtyping.Float[torch.Tensor, "n"]
        found["isinstance of jaxtyping"] = (1, lambda x: isinstance(x, vector))
    if beartype is not None and jaxtyping is not None:
        shaped = with_shapes(scaled, vector)
        found["jaxtyping with beartype"] = (1, lambda x: shaped(x, 2.0))
    if torchmetrics is not None:
        error = torchmetrics.MeanSquaredError()
        found |= {
            "torchmetrics, update and compute": (2, lambda x: (error.update(x, x + 1), error.compute())[1]),
            "torchmetrics, forward": (1, lambda x: error(x, x + 1)),
            "torchmetrics.functional": (1, lambda x: torchmetrics.functional.mean_squared_error(x, x + 1)),
        }
    if numpy is not None:
        found["numpy.save"] = (3, lambda x: numpy.save(io.BytesIO(), numpy.ones(2)))
    return found


def bar(x: torch.Tensor, **options: Any) -> torch.Tensor:
    """A loop of three iterations with a progress bar."""
    for _ in tqdm.tqdm(range(3), **options):
        x = x + 1
    return x


def scaled(x: torch.Tensor, scale: float) -> torch.Tensor:
    return x.sin() * scale


def with_shapes(function: Callable[..., Any], shape: Any) -> Callable[..., Any]:
    """The function with annotations of shapes, which are checked at each call."""

    def copied(x: Any, scale: float) -> Any:
        return function(x, scale)

    copied.__annotations__ = {"x": shape, "scale": float, "return": shape}
    return jaxtyping.jaxtyped(typechecker=beartype.beartype)(copied)  # type: ignore[no-any-return]
