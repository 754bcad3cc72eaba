"""Programs by their names, for tests that run each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Programs(dict[str, Callable[..., Any]]):
    """Programs by name. The decorator `add` adds a program."""

    def add(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        self[fn.__name__] = fn
        return fn
