"""What runs on fake tensors in the place of a function that needs their data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

STAND_INS: dict[Any, Callable[..., Any]] = {}
"""By the target of a node."""


def stand_in(target: Callable[..., Any], function: Callable[..., Any]) -> None:
    """Where `target` would run on fakes, `function` runs with the same arguments: it gives a result that looks the same, and changes the same fakes."""
    STAND_INS[target] = function


def run_on_fakes(target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a node with this target gives for fakes."""
    function = STAND_INS.get(target)
    if function is None:
        function = getattr(target, "on_fakes", target)  # the targets of launches say it themselves
    return function(*args, **kwargs)
