"""Loops over a list of modules backwards (`for layer in reversed(self.layers)`) go on after graph breaks, and see what the program changes meanwhile."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import agree_over_calls
from torch import nn

import framejit

x = torch.arange(6.0).reshape(2, 3)


class Scale(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, t: torch.Tensor) -> torch.Tensor:
        return t * self.factor + 1


class Counting(nn.ModuleList):
    asked = 0

    def __len__(self) -> int:
        self.asked += 1
        return super().__len__()


def scales(kind: Any, count: int = 3) -> Any:
    layers = [Scale(2.0 + n) for n in range(count)]
    return kind(*layers) if kind is nn.Sequential else kind(layers)


def stop() -> None:
    print(end="")


def forward(layers: Any, t: torch.Tensor) -> Any:
    for layer in reversed(layers):
        t = layer(t)
        stop()
    return t


@pytest.mark.parametrize("kind", [nn.ModuleList, nn.Sequential])
def test_the_loop_goes_on_after_a_break(kind):
    def program(compile):
        layers = scales(kind)
        compiled = compile(forward)
        return [compiled(layers, x), compiled(layers, x), compiled(scales(kind), x + 1), compiled(scales(kind, 1), x), compiled(scales(kind, 0), x)]

    framejit.reset()
    agree_over_calls(program, stops=True)
    counts = framejit.statistics()
    assert counts["fallbacks"] == 0 and {reason[:5] for reason in counts["reasons"]} == {"FJ012"}, counts["reasons"]


def removes_last(layers, t):
    for layer in reversed(layers):
        t = layer(t)
        stop()
        layers.pop(-1)
    return t, len(layers)


def removes_first(layers, t):
    seen = []
    for layer in reversed(layers):
        seen.append(layer.factor)
        del layers[0]
        stop()
    return t + len(seen), seen, len(layers)


def removes_ahead(layers, t):
    steps, seen = reversed(layers), []
    seen.append(next(steps).factor)
    del layers[-1], layers[-1]
    stop()
    seen += [layer.factor for layer in steps]
    return t + len(seen), seen


def replaces(layers, t):
    seen = []
    for n, layer in enumerate(reversed(layers)):
        seen.append(layer.factor)
        stop()
        if n == 0:
            layers[0] = Scale(9.0)
            layers.append(Scale(7.0))
    return t + sum(seen), seen


def replaces_before(layers, t):
    steps = reversed(layers)
    first = next(steps)
    layers[0] = Scale(5.0)
    stop()
    return first(t), [layer(t) for layer in steps], next(steps, None), list(steps)


def steps_by_hand(layers, t):
    steps = reversed(layers)
    t = next(steps)(t)
    stop()
    t = next(steps)(t)
    stop()
    rest = [layer(t) for layer in steps]
    stop()
    return t, rest, next(steps, None), type(steps), steps.__length_hint__()


def ended(layers, t):
    steps = reversed(layers)
    count = len(list(steps))
    stop()
    layers.append(Scale(4.0))
    return t + count, next(steps, None), list(steps)


def raises(layers, t):
    seen = []
    try:
        for layer in reversed(layers):
            stop()
            seen.append(layer(t))
            if len(seen) == 2:
                raise ValueError(layer.factor)
    except ValueError as error:
        return seen, error.args
    return seen


def two_at_once(layers, t):
    for one, other in zip(reversed(layers), reversed(layers)):
        stop()
        t = one(t) + other(t)
    return t


def by_generator(layers, t):
    def results():
        for layer in reversed(layers):
            yield layer(t)

    found = []
    for result in results():
        found.append(result)
        stop()
    return found


def of_a_copy(layers, t):
    for layer in reversed(copy.deepcopy(layers)):
        t = layer(t)
        stop()
    return t


def made_inside(layers, t):
    for layer in reversed(nn.ModuleList([Scale(3.0), Scale(4.0)])):
        t = layer(t)
        stop()
    return t


PROGRAMS: list[Callable[..., Any]] = [
    forward, removes_last, removes_first, removes_ahead, replaces, replaces_before, steps_by_hand, ended, raises, two_at_once, by_generator, of_a_copy,
    made_inside,
]  # fmt: skip


@pytest.mark.parametrize("kind", [nn.ModuleList, nn.Sequential, Counting])
@pytest.mark.parametrize("fn", PROGRAMS)
def test_what_changes_meanwhile(fn, kind):
    """Lists that count how often they are asked for their length are asked as often as in eager."""

    def program(compile):
        compiled, found = compile(fn), []
        for count in (3, 4, 3):
            layers = scales(kind, count)
            found += [compiled(layers, x), [layer.factor for layer in layers], getattr(layers, "asked", 0)]
            found += [compiled(layers, x), len(layers)]
        return found

    framejit.reset()
    agree_over_calls(program, stops=True)


def test_an_iterator_from_outside():
    """Its position is guarded, and is left where eager leaves it."""

    def program(compile):
        def step(steps, t):
            layer = next(steps, None)
            return t if layer is None else layer(t)

        layers, compiled, found = scales(nn.ModuleList), compile(step), []
        for steps in (reversed(layers), reversed(layers), reversed(scales(nn.ModuleList)), reversed((layers[0], layers[1])), reversed([layers[2]])):
            found += [(compiled(steps, x), steps.__length_hint__()) for _ in range(5)]
        return found

    framejit.reset()
    agree_over_calls(program, stops=True)
