"""Replaces calls that can't be written as Python code, because a parameter, or an operator's overload named `from`, has a Python keyword as its name.

FX writes a graph as Python code, `f(x, from = 1)`, and so does AOTAutograd with the operators that it meets, `torch.ops.aten.random.from(x, 1, 5)`.
A power of a negative number it writes as `-2 ** x`, which is the negative of a power.
"""

from __future__ import annotations

import keyword
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload, OpOverloadPacket

from framejit.torch_state.own_operators import DRAWS, declare_operator

FILLING = ("random_", torch.Tensor.random_, torch.ops.aten.random_, getattr(torch.ops.aten.random_, "from"))
"""The function that fills a tensor with random integers, as the target of a node."""
MAKING = (torch.ops.aten.random, getattr(torch.ops.aten.random, "from"))
"""The function that makes such a tensor like another one."""


@declare_operator("random_between(Tensor like, SymInt low, SymInt? high) -> Tensor", tags=DRAWS)
def random_between(like: torch.Tensor, low: int, high: int | None) -> torch.Tensor:
    """A tensor like `like` that `random_(low, high)` has filled."""
    return torch.empty_like(like).random_(low, high)


@random_between.fake
def nothing_between(like: torch.Tensor, low: int, high: int | None) -> torch.Tensor:
    return torch.empty_like(like)


def make_between(x: torch.Tensor, low: int, high: int | None = None) -> torch.Tensor:
    """`torch.ops.aten.random` with bounds, for AOTAutograd."""
    return random_between(x.detach(), low, high)  # type: ignore[no-any-return]


def fill_between(x: torch.Tensor, low: int, high: int | None = None) -> torch.Tensor:
    """`x.random_(low, high)`, for AOTAutograd."""
    return x.copy_(make_between(x, low, high))


def is_spelled(name: str) -> bool:
    """Return whether code can pass an argument by this name."""
    return name.isidentifier() and not keyword.iskeyword(name)


def has_spelled_name(target: Any) -> bool:
    """Return whether code can name the target of a node: an operator is named as in `torch.ops.aten.add.Tensor`."""
    return not isinstance(target, (OpOverload, OpOverloadPacket)) or all(map(is_spelled, str(target).split(".")))


def is_spelled_in_full(target: Any) -> bool:
    """Return whether the code of AOTAutograd's graph, which names overloads and arguments, can call an operator."""
    overloads = [target] if isinstance(target, OpOverload) else [getattr(target, name) for name in target.overloads()]
    arguments = [argument.name for overload in overloads for argument in overload._schema.arguments]
    return all(map(has_spelled_name, overloads)) and all(map(is_spelled, arguments))


def make_spellable(graph: fx.Graph, for_autograd: bool) -> None:
    """Replace each call that can't be written as code by one that can. `for_autograd`: AOTAutograd takes the graph."""
    for node in graph.nodes:
        if for_autograd and draws_between(node):
            by_name = {"low" if name == "from" else "high" if name == "to" else name: value for name, value in node.kwargs.items()}
            node.op, node.target, node.kwargs = "call_function", fill_between if node.target in FILLING else make_between, by_name
        elif not all(map(is_spelled, node.kwargs)) or not has_spelled_name(node.target):
            names = tuple(node.kwargs)
            target: Any = node.target if node.op == "call_function" else method(node.target)
            node.args, node.kwargs = (*node.args, *node.kwargs.values()), {}
            node.op, node.target = "call_function", by_place(target, names)
        elif node.target is operator.pow and not isinstance(node.args[0], fx.Node) and repr(node.args[0]).startswith("-"):
            node.target = pow


def draws_between(node: fx.Node) -> bool:
    """Return whether a node calls the overload `from` of `random_` or `random`."""
    if node.op not in ("call_function", "call_method") or not (node.target in FILLING or node.target in MAKING):
        return False
    return len(node.args) == 3 or "from" in node.kwargs


def method(name: str) -> Callable[..., Any]:
    """The function that calls a method of this name on its first argument."""

    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(x, name)(*args, **kwargs)

    call.__name__ = name
    return call


def by_place(function: Callable[..., Any], names: tuple[str, ...]) -> Callable[..., Any]:
    """A function that takes the arguments of these names last, by position."""

    def call(*args: Any) -> Any:
        first = len(args) - len(names)
        return function(*args[:first], **dict(zip(names, args[first:], strict=True)))

    call.__name__ = getattr(function, "__name__", "call")
    return call
