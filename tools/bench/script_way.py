"""The parts of a training script that are compiled, and the outcome of one.

A script asks its `Way` which part is to be compiled: `way.model(model)` if the loop is left alone, `way.step(function)` if the whole step is compiled. Each
returns its argument unchanged in eager, and if the other part is to be compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import nn

STEPS = 8
VOCABULARY = 64


def same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Way:
    """The way in which parts of a script are compiled: a function for the model, and one for the step. `same` leaves a part as it is."""

    model: Callable[[Any], Any] = same
    step: Callable[[Any], Any] = same


@dataclass
class Trained:
    """The outcome of a script: what it reports step by step, and all that it has changed."""

    losses: list[Any]
    state: list[Any] = field(default_factory=list)


def state_of(*things: Any) -> list[Any]:
    """Tensors of modules, and states and learning rates of optimizers."""
    found: list[Any] = []
    for thing in things:
        if isinstance(thing, nn.Module):
            found.append([value.detach().clone() for value in (*thing.parameters(), *thing.buffers())])
        else:
            found += [thing.state_dict()["state"], [group["lr"] for group in thing.param_groups]]
    return found
