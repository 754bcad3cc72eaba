"""Comparisons of drawn floats, which are at least 0 and less than 1, with numbers outside of that range: `torch.rand([]) < 0.0` never holds."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import fx

from framejit.graph.trace_state import TraceState
from framejit.objects.core.object import Object
from framejit.objects.numbers.numberobject import MIRRORED, NumberObject
from framejit.objects.numbers.unbackednumber import Computed, Datum, UnbackedNumber

FRACTIONS: list[Callable[[fx.Node, Callable[[Iterable[fx.Node]], bool]], bool]] = []
"""Functions of subjects that return whether a node has drawn floats, each of which is at least 0 and less than 1. They are also given a function that returns
whether the memory of one of some nodes' tensors has been written to since."""
SYMBOLS: dict[Any, str] = {operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">="}


def holds(symbol: str, bound: Any) -> bool | None:
    """Return whether a comparison of every such float with a number holds; None if that depends on the float. The number may be rounded to the float's type,
    which makes no number less than 1 of one that isn't, but may make 0 of a negative one."""
    if symbol not in SYMBOLS.values() or type(bound) not in (int, float):
        return None
    if bound >= 1:
        return symbol in ("<", "<=")
    if bound <= -1 or (bound <= 0 and symbol in ("<", ">=")):
        return symbol in (">", ">=")
    return None


def is_fraction(state: TraceState, node: Any) -> bool:
    """Return whether an argument in the graph is such a float, or a tensor of such."""
    return isinstance(node, fx.Node) and any(draws(node, state.are_changed) for draws in FRACTIONS)


def outcome_of_tensors(state: TraceState, comparison: fx.Node) -> bool | None:
    """The truth of a node's tensor of one element, a comparison of a drawn float; None if it isn't one, or isn't known."""
    symbol, args = SYMBOLS.get(comparison.target), comparison.args
    found = None if symbol is None or comparison.kwargs or len(args) != 2 else holds(symbol, args[1])
    fake = comparison.meta["example_value"]
    is_one = isinstance(fake, torch.Tensor) and all(type(size) is int and size == 1 for size in fake.shape)
    if found is None or not is_one or not is_fraction(state, args[0]) or state.are_changed([comparison]):
        return None
    return found


def outcome_of_numbers(state: TraceState, condition: UnbackedNumber) -> bool | None:
    """The truth of a comparison of a drawn float; None if it isn't one, or isn't known. If it follows from a number from outside, that is guarded."""
    if not isinstance(condition, Computed) or condition.operation not in SYMBOLS.values():
        return None
    left, right = condition.operands
    drawn, bound, symbol = (left, right, condition.operation) if isinstance(left, Datum) else (right, left, MIRRORED[condition.operation])
    if not isinstance(drawn, Datum) or drawn.cls is not float or not is_constant(state, bound):
        return None
    found = holds(symbol, bound.value)
    if found is None or not is_fraction(state, drawn.node):
        return None
    bound.constant(state.vm)
    return found


def is_constant(state: TraceState, number: Object) -> bool:
    """Return whether a number is a constant, or one from outside that the trace may depend on."""
    return isinstance(number, NumberObject) and type(number.value) in (int, float) and not number.is_symbolic(state.vm)
