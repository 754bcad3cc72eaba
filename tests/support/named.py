"""Programs by their names, for tests that run each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Programs(dict[str, Callable[..., Any]]):
    """By name. `add` decorates a program that is to be among them."""

    def add(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        self[fn.__name__] = fn
        return fn
