"""The backend `eager`: runs the captured graph as it is, operator by operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

from torch import fx, nn

from framejit.backends import node_lines
from framejit.backends.calling import boxed_forward
from framejit.backends.registry import Backend
from framejit.graph.demands import Demands


def boxed(forward: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """A function, marked in AOTAutograd's way as a boxed callable."""

    def run(args: list[Any]) -> Any:
        return forward(args)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def compile_eager(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[[list[Any]], Any]:
    """A graph's code as a boxed function that doesn't hold the graph, which is useless once its code exists, and much larger."""
    forward = boxed_forward(gm)
    holder = nn.Module()
    node_lines.remember(gm, holder)
    holder.__dict__.update({name: value for name, value in gm.__dict__.items() if name != "_graph"})
    return boxed(MethodType(forward.__func__, holder))  # type: ignore[attr-defined]


BACKEND = Backend(
    "eager", compile_eager, trusted=True, needs_contexts=False, faster_for_fixed_sizes=False, runs_nodes=True,
    takes=Demands(takes_unbacked=True, takes_gradients=True, takes_hooks=True, draws_in_order=True),
)  # fmt: skip
