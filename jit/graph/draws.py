"""The operator by which a graph draws a number from Python's or NumPy's global generator: when it runs, never while it is traced or compiled.

Draws take the one before them as an argument, so that no backend changes their order.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy
import torch

if TYPE_CHECKING:
    from torch import fx


@dataclass(frozen=True, slots=True)
class Generator:
    """A generator of the process: the module whose functions draw from it, and how its state is read and put back."""

    module: ModuleType
    get_state: Callable[[], Any]
    set_state: Callable[[Any], None]


GENERATORS = {
    "random": Generator(random, random.getstate, random.setstate),
    "numpy.random": Generator(numpy.random, numpy.random.get_state, numpy.random.set_state),
}

_library = torch.library.Library("framejit", "FRAGMENT")
_library.define(
    "draw(str module, str function, Scalar[] arguments, ScalarType dtype, Tensor? after) -> Tensor",
    tags=(torch.Tag.nondeterministic_seeded, torch.Tag.pt2_compliant_tag),
)
DRAW = torch.ops.framejit.draw.default


@torch.library.impl(_library, "draw", "CompositeExplicitAutograd")
def draw(module: str, function: str, arguments: Sequence[float], dtype: torch.dtype, after: torch.Tensor | None) -> torch.Tensor:
    """Call a function of a module for a number, which comes as a tensor. `after`: the draw that must have been made."""
    return torch.tensor(getattr(GENERATORS[module].module, function)(*arguments), dtype=dtype)


@torch.library.register_fake("framejit::draw", lib=_library)
def draw_nothing(module: str, function: str, arguments: Sequence[float], dtype: torch.dtype, after: torch.Tensor | None) -> torch.Tensor:
    return torch.empty((), dtype=dtype)


def draws_of(graph: fx.Graph) -> list[fx.Node]:
    """The nodes of a graph that draw, in order."""
    return list(graph.find_nodes(op="call_function", target=DRAW))


def drawn_from(graph: fx.Graph) -> tuple[Generator, ...]:
    """The generators that a graph draws from by such nodes."""
    return tuple([GENERATORS[name] for name in sorted({node.args[0] for node in draws_of(graph)})])  # type: ignore[index, type-var]
