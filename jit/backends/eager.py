"""The backend `eager`: runs the captured graph as it is, operator by operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import fx

from framejit.backends.calling import boxed_forward
from framejit.backends.registry import Backend


def compile_eager(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[[list[Any]], Any]:
    """The graph's own generated code, boxed."""
    forward = boxed_forward(gm)

    def run(args: list[Any]) -> Any:
        return forward(args)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


BACKEND = Backend("eager", compile_eager, trusted=True, needs_contexts=False)
