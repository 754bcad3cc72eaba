"""Several calls of a program, with what they return and leave behind, including the random streams of torch's default generator, Python's and NumPy's."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from agreement import Comparison

import framejit


def seed(number: int) -> None:
    torch.manual_seed(number)
    random.seed(number)
    np.random.seed(number)


def streams() -> list[Any]:
    """Return the current states of the random streams."""
    name, keys, *rest = np.random.get_state()
    return [torch.get_rng_state().clone(), random.getstate(), name, keys.tobytes(), *rest]


def picture(value: Any) -> Any:
    """Return a copy of a value's current state, which later changes of the value leave alone."""
    if isinstance(value, torch.Tensor):
        grad = value.grad if value.is_leaf else None
        return value.detach().clone(memory_format=torch.contiguous_format), value.requires_grad, None if grad is None else grad.clone()
    if isinstance(value, torch.Generator):
        return value.get_state().clone()
    if isinstance(value, np.random.Generator):
        return str(value.bit_generator.state)
    if isinstance(value, np.random.RandomState):
        return str(value.get_state(legacy=False))
    if isinstance(value, random.Random):
        return value.getstate()
    if isinstance(value, torch.nn.Module):
        return [picture(tensor) for tensor in (*value.parameters(), *value.buffers())]
    if isinstance(value, (tuple, list)):
        return [picture(item) for item in value]
    if isinstance(value, dict):
        return {key: picture(item) for key, item in value.items()}
    return value


def story(make: Callable[[], Any], call: Callable[[Any], Any], calls: int = 3) -> list[Any]:
    """Make a state and call a function with it several times; return for each call its result or exception, the state's attributes, and the streams."""
    seed(1)
    state = make()
    seed(2)
    told: list[Any] = []
    for _ in range(calls):
        try:
            found = picture(call(state))
        except (ValueError, RuntimeError, TypeError) as error:
            found = type(error).__name__, str(error).splitlines()[:1]
        told.append([found, picture(vars(state)), streams()])
    return told


def does_as_eager(make: Callable[[], Any], program: Callable[[Any], Any], backend: str, calls: int = 3) -> dict[str, Any]:
    """Assert that compiled calls have the same story as eager ones, bit for bit; return the statistics."""
    framejit.reset()
    expected = story(make, program, calls)
    Comparison().same(story(make, framejit.compile(program, backend=backend), calls), expected)
    found = framejit.statistics()
    assert found["fallbacks"] == 0, found["reasons"]
    return found
