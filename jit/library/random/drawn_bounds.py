"""Finds bounds of numbers that the graph draws: `torch.randperm(n).tolist()[0]` is a valid index of n items, so a check of that can't fail."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import fx

from framejit.graph.fractions import FRACTIONS
from framejit.graph.unbacked import DRAWS
from framejit.library.random.draws import DRAW, ORDERS
from framejit.library.random.generator_draws import DRAW_FROM
from framejit.library.random.generator_states import DRAW_NUMBERS
from framejit.torch_state.operator_exceptions import GIVE_ELEMENTS


def bounds_of(node: fx.Node, are_changed: Callable[[Iterable[fx.Node]], bool]) -> tuple[int, int] | None:
    """The smallest and the largest int that a node can return, if it returns drawn ints; None if it doesn't, or they aren't known. `are_changed`: whether the
    memory of one of these nodes' tensors has been written to since."""
    passed = []
    while gives_part(node):
        node = node.args[0]  # type: ignore[assignment]
        passed.append(node)
    if not isinstance(node.meta["example_value"], torch.Tensor) or are_changed(passed):
        return None
    if node.target is operator.getitem and isinstance(node.args[0], fx.Node) and node.args[1] == 0:
        node = node.args[0]
    if node.target is DRAW_FROM:
        name, args, kwargs = json.loads(str(node.args[1]))
        return bounds_by_call(name, args, dict(kwargs))
    if node.target in (torch.randperm, torch.randint):
        return bounds_by_call(node.target.__name__, list(node.args), dict(node.kwargs))  # type: ignore[union-attr]
    if node.target is DRAW or node.target is DRAW_NUMBERS:
        arguments: Any = node.args[-4:-1] if node.target is DRAW_NUMBERS else node.args[1:4]
        return bounds_of_numbers(node.args[0] in ("random", "Random"), *arguments)
    return None


UNITS = frozenset({(), (0, 1)})
"""The bounds, where a function that draws has any, between which its floats lie."""


def is_fraction(node: fx.Node, are_changed: Callable[[Iterable[fx.Node]], bool]) -> bool:
    """Return whether a node returns drawn floats, each of which is at least 0 and less than 1. Floats of 16 bits may be rounded to 1."""
    passed = [node]
    while gives_part(node):
        node = node.args[0]  # type: ignore[assignment]
        passed.append(node)
    drawn = node.meta.get("example_value")
    if not isinstance(drawn, torch.Tensor) or drawn.dtype not in (torch.float32, torch.float64):
        return False
    source: Any = node.args[0] if node.target is operator.getitem and node.args[1] == 0 else node
    if not isinstance(source, fx.Node):
        return False
    if source.target is DRAW_FROM:
        is_unit = json.loads(str(source.args[1]))[0] in ("rand", "rand_like")
    elif source.target is DRAW or source.target is DRAW_NUMBERS:
        function, numbers, _ = source.args[-4:-1] if source.target is DRAW_NUMBERS else source.args[1:4]
        is_unit = function in ("random", "random_sample", "rand") or (function == "uniform" and tuple(numbers) in UNITS)  # type: ignore[arg-type]
    else:
        is_unit = source.target in (torch.rand, torch.rand_like)
    return is_unit and not are_changed([part for part in passed if isinstance(part.meta.get("example_value"), torch.Tensor)])


FRACTIONS.append(is_fraction)


def gives_part(node: fx.Node) -> bool:
    """Return whether a node returns elements of its first argument, a tensor."""
    if not node.args or not isinstance(node.args[0], fx.Node) or not isinstance(node.args[0].meta.get("example_value"), torch.Tensor):
        return False
    return node.target is operator.getitem or (node.op == "call_method" and node.target in GIVE_ELEMENTS)


def draw_of_number(number: fx.Node) -> fx.Node | None:
    """The node that draws a number: the node before it, or a draw of Python's generator from which the number's list was made. None if it isn't drawn."""
    node: Any = number.args[0] if number.args else None
    if isinstance(node, fx.Node) and node.target is DRAW:
        return node
    while isinstance(node, fx.Node) and node.target is not DRAW:
        node = node.args[1] if node.target is torch.take else node.args[0] if gives_part(node) or node.target in (torch.mul, torch.add) else None
    return node if node is not None and node.args[0] == "random" else None


DRAWS.append(draw_of_number)


def bounds_by_call(name: str, args: list[Any], kwargs: dict[str, Any]) -> tuple[int, int] | None:
    """The smallest and the largest number that a function of torch draws; None if they aren't known."""
    ends = [arg for arg in args if not isinstance(arg, (list, tuple))] + [kwargs[name] for name in ("low", "high", "n") if name in kwargs]
    if name not in ("randperm", "randint") or "out" in kwargs or not 1 <= len(ends) <= 2 or not all(type(end) is int for end in ends):
        return None
    return (0, ends[0] - 1) if len(ends) == 1 else (ends[0], ends[1] - 1)


def bounds_of_numbers(is_python: bool, function: str, numbers: tuple[Any, ...], size: Any) -> tuple[int, int] | None:
    """The smallest and the largest number that a function of Python or NumPy draws; None if they aren't known."""
    if not all(type(number) in (int, bool) for number in numbers):
        return None
    if function in ORDERS:
        return 0, numbers[0] - 1
    if function == "getrandbits":
        return 0, 2 ** numbers[0] - 1
    if is_python:
        return tuple(numbers) if function == "randint" else None  # type: ignore[return-value]
    if function == "permutation" and isinstance(size, (tuple, list)) and type(size[0]) is int:
        return 0, size[0] - 1
    if function == "choice":
        return 0, numbers[0] - 1
    if function in ("randint", "integers"):
        return (0, numbers[0] - 1) if len(numbers) == 1 else (numbers[0], numbers[1] - 1)
    return None
