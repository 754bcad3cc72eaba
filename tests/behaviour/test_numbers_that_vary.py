"""Operations on an int or a float that differs at each call, used in arithmetic of tensors: how often each program is compiled."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from agreement import Comparison

import framejit
from framejit.guards.shapes import ShapesHold

Program = Callable[..., Any]
INTS = (2, 3, 4, 5, 6, 7)
SIGNED = (-2, 3, -4, 5, 6, -7)
FRACTIONS = (0.3, 0.4, 0.5, 0.6, 0.75, 0.81)
FLOATS = (1.5, 2.25, 3.7, 4.5, 5.9, -6.1)
PAIRS = ((0.1, 0.2), (0.3, 0.4), (0.5, 0.6), (0.2, 0.9), (0.7, 0.8), (0.11, 0.12))
NUMPY_INTS, NUMPY_FLOATS, NUMPY_SHORT = tuple(map(np.int64, INTS)), tuple(map(np.float64, FRACTIONS)), tuple(map(np.float32, FRACTIONS))
CROSSED = ((0.1, 0.2), (0.4, 0.3), (0.5, 0.6), (0.9, 0.2), (0.7, 0.8), (0.11, 0.12))
STRANGE: dict[type, tuple[Any, ...]] = {
    int: (0, 1, -1, 2, -3, 64, 1000, 2**31, -(2**53) - 1, 2**62, 2**63, -(2**70)),
    np.int64: tuple(map(np.int64, (0, 1, -1, 64, 2**53 + 1, 2**62, 2**63 - 1, -(2**63)))),
    np.float64: tuple(map(np.float64, (0.0, -0.0, 1.0, -0.5, 1e-320, 1e308, math.inf, -math.inf, math.nan))),
    np.float32: tuple(map(np.float32, (0.0, -0.0, 1e-40, math.inf, math.nan))),
    float: (0.0, -0.0, 1.0, -0.5, 2.5, 1e-320, 1e300, -1e300, 2.0**63, math.inf, -math.inf, math.nan),
}

PROGRAMS: dict[str, tuple[tuple[Any, ...], Program]] = {
    "int of a float": (FRACTIONS, lambda x, t: x * int(t * 10)),
    "int of a float as a size": (FRACTIONS, lambda x, t: x[: int(t * 10)] * 2),
    "a part of a size": (FRACTIONS, lambda x, t: x[: int(x.shape[0] * t)] * 2),
    "floor": (FLOATS, lambda x, t: x * math.floor(t)),
    "ceil": (FLOATS, lambda x, t: x * math.ceil(t)),
    "trunc": (FLOATS, lambda x, t: x * math.trunc(t)),
    "round": (FLOATS, lambda x, t: x * round(t)),
    "round to a digit": (FLOATS, lambda x, t: x * round(t, 1)),
    "fraction": (FLOATS, lambda x, t: x * (t % 1.0)),
    "fraction by int": (FLOATS, lambda x, t: x * (t - int(t))),
    "remainder of an int": (INTS, lambda x, n: x * (n % 1.5)),
    "whole quotient of floats": (FLOATS, lambda x, t: x * (t // 0.7)),
    "two to a power": (INTS, lambda x, n: x * 2**n),
    "two to a negative power": (INTS, lambda x, n: x * 2**-n),
    "a power of itself": (INTS, lambda x, n: x * n**n),
    "a power as a size": (INTS, lambda x, n: torch.ones(2**n).sum() + x),
    "text of a power": (FRACTIONS, lambda x, t: (x * 2, str(2 ** int(t * 10)))),
    "shifted": (INTS, lambda x, n: x * (1 << n)),
    "inverse by a power": (INTS, lambda x, n: x * n**-1),
    "square of a float": (FLOATS, lambda x, t: x * t**2),
    "cube of a float": (FLOATS, lambda x, t: x * t**3),
    "power of floats": (CROSSED, lambda x, pair: x * pair[0] ** pair[1]),
    "magnitude of an int": (SIGNED, lambda x, n: x * abs(n)),
    "magnitude as a size": (SIGNED, lambda x, n: x[: abs(n)] * 2),
    "magnitude of a float": (FLOATS, lambda x, t: x * abs(t)),
    "or": (INTS, lambda x, n: x * (n | 1)),
    "exclusive or": (SIGNED, lambda x, n: x * (n ^ 5)),
    "and": (INTS, lambda x, n: x * (n & 6)),
    "gcd": (INTS, lambda x, n: x * math.gcd(n, 12)),
    "whole logarithm": (INTS, lambda x, n: x * int(math.log2(n))),
    "branch on two floats": (PAIRS, lambda x, pair: x * pair[0] if pair[0] < pair[1] else x),
    "larger of two floats": (CROSSED, lambda x, pair: x * max(pair)),
    "comparison of ints in arithmetic": (INTS, lambda x, n: x * (n * (n > 3) + (n < 5) * 2)),
    "comparison of floats in arithmetic": (FRACTIONS, lambda x, t: x * (t * (t > 0.5))),
    "returned comparison of an int": (INTS, lambda x, n: (x * n, n > 3)),
    "returned comparison of a float": (FRACTIONS, lambda x, t: (x * t, t > 0.5)),
    "returned comparison of two floats": (CROSSED, lambda x, pair: (x * pair[0], pair[0] < pair[1])),
    "stored comparison of a computed float": (FRACTIONS, lambda x, t: {"y": x * t, "late": t * 2 - t**2 > 0.8}),
    "NumPy's int": (NUMPY_INTS, lambda x, n: x[:n] * n),
    "NumPy's int in arithmetic": (NUMPY_INTS, lambda x, n: x * (n + 1) / (2 * n)),
    "NumPy's int that is returned": (NUMPY_INTS, lambda x, n: (x * n, n * 2, n / 3, n - 0.5)),
    "NumPy's float": (NUMPY_FLOATS, lambda x, t: x * (1 - t) + x / t),
    "NumPy's float that is returned": (NUMPY_FLOATS, lambda x, t: (x * t, t + 1, 2.5 / t)),
    "branch on NumPy's float": (NUMPY_FLOATS, lambda x, t: x * 2 if 0.1 < t else x),
    "conversions of NumPy's numbers": (NUMPY_FLOATS, lambda x, t: x * int(t * 10) * float(t) + t.item() + math.sqrt(t)),
    "NumPy's short float": (NUMPY_SHORT, lambda x, t: x * t if t else x),
}
if torch.__version__ >= "2.13":  # whose fakes need no value of the exponent
    PROGRAMS["exponent"] = ((1.5, 2.25, 3.75, 4.5, 5.5, -6.0), lambda x, t: x**t)
    PROGRAMS["NumPy's float as exponent"] = (NUMPY_FLOATS, lambda x, t: x**t)


def compared(program: Program, values: tuple[Any, ...], backend: str) -> dict[str, Any]:
    """Compare a compiled program with eager for these values, with all checks; the statistics."""
    framejit.reset()
    with framejit.config.replace(check="compile,guards,shapes"):
        compiled = framejit.compile(program, backend=backend)
    for value in values:
        Comparison().same(*[outcome(function, value) for function in (program, compiled)], f"{value}")
    return framejit.statistics()


def outcome(program: Program, value: Any) -> Any:
    """The result, or the type of the exception and its arguments."""
    try:
        return program(torch.arange(12.0) + 0.5, value)
    except Exception as error:
        return type(error), error.args


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_two_compilations(name: str, backend: str) -> None:
    values, program = PROGRAMS[name]
    counts = compared(program, values, backend)
    assert counts["graphs"] == 2 and counts["graph_breaks"] == counts["fallbacks"] == 0, counts["reasons"]


ONLY_COMPARED: dict[str, tuple[tuple[Any, ...], Program, int]] = {
    "a count within a limit": (INTS, lambda x, n: x * 2 if n < 100 else x, 1),
    "each fourth step": ((0, 1, 2, 3, 4, 5, 6, 7), lambda x, n: x * 2 if (n + 1) % 4 == 0 else x + 1, 2),
    "truth of an int": (SIGNED, lambda x, n: x + 1 if n else x, 1),
    "two ints": (((1, 5), (2, 5), (3, 6), (4, 9)), lambda x, pair: x + 1 if pair[0] < pair[1] else x, 1),
    "a size": ((1, 2, 3, 13), lambda x, n: x + 1 if n > x.size(0) else x, 2),
    "a quotient": ((6, 7, 8, 9), lambda x, n: x + 1 if n // 3 < 9 else x, 1),
    "an outcome that is returned": (INTS, lambda x, n: (x + 1, n > 3), 1),
    "a float against a limit": (FRACTIONS, lambda x, t: x + 1 if t > 0.1 else x, 1),
    "two floats": (PAIRS, lambda x, pair: x + 1 if pair[0] < pair[1] else x, 1),
    "a dimension": ((0, -1, 0, -1), lambda x, n: x.sum(n + x.dim() if n < 0 else n), 2),
    "a way that uses the number": ((0, 1, 2, 3), lambda x, n: x.repeat(n) if n else x, 2),
}
"""Values, a program that only compares them, or nearly so, and its number of compilations."""


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", ONLY_COMPARED)
def test_the_outcome_of_a_comparison_is_guarded_from_the_first_call_on(name: str, backend: str) -> None:
    values, program, compilations = ONLY_COMPARED[name]
    counts = compared(program, values, backend)
    assert counts["frames"] == compilations and counts["graph_breaks"] == counts["fallbacks"] == 0, counts["reasons"]


@pytest.mark.parametrize("name", ONLY_COMPARED)
def test_strange_numbers_that_are_only_compared(name: str) -> None:
    values, program, _ = ONLY_COMPARED[name]
    if type(values[0]) is not tuple and name != "a way that uses the number":
        compared(program, (*values[:2], *STRANGE[type(values[0])], *values, True), "eager")


def test_the_first_sixteen_numbers_of_a_long_list_are_guarded_by_outcomes() -> None:
    def program(x: torch.Tensor, numbers: tuple[int, ...]) -> torch.Tensor:
        return x + sum(1 for number in numbers if number > 0)

    first = tuple(range(2, 42))
    early, late = (9, *first[1:]), (*first[:-1], 9)
    assert compared(program, (first, early), "eager")["frames"] == 1
    assert compared(program, (first, late, early), "eager")["frames"] == 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_functions_of_floats_before_an_operator_that_fails(backend: str) -> None:
    """Fakes of tensors are made again after the change that is undone; those of numbers stay."""

    def program(x: torch.Tensor, t: float) -> torch.Tensor:
        y = x * math.exp(t) + math.log1p(abs(t)) * x.size(0)
        y.add_(1)
        try:
            y.clone().mul_(2).add_([])  # type: ignore[arg-type]
        except TypeError:
            y = y * math.cos(t)
        return y

    assert compared(program, FRACTIONS, backend)["recompiles"] == 2  # one for each side of the break


def test_a_number_that_is_also_used_is_a_constant_of_the_first_graph() -> None:
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append(graph)
        return graph

    compiled = framejit.compile(lambda x, n: x.repeat(n) if n > 1 else x, backend=backend)
    assert compiled(torch.ones(2), 3).shape == (6,)
    assert [node.args[1] for node in graphs[0].graph.nodes if node.target == "repeat"] == [3]


def test_a_comparison_after_a_break_in_a_loop() -> None:
    """The state of a resume function holds the number; a generator compares it, and an exception ends a call in the middle."""

    def program(x: torch.Tensor, n: int) -> torch.Tensor:
        for step in range(3):
            framejit.graph_break("in the loop")
            if any(part > n for part in (step, step + 1)):
                x = x + 1
            if n == 7:
                raise ValueError(n)
        return x

    assert compared(program, (0, 1, 2, 7, 3, 7, 0), "eager")["graph_breaks"]


@pytest.mark.parametrize("name", [name for name, (values, _) in PROGRAMS.items() if type(values[0]) is not tuple and "a power" not in name])
def test_strange_numbers(name: str) -> None:
    """Numbers that are no ordinary ones are compiled again, or fail as in eager."""
    values, program = PROGRAMS[name]
    warnings.simplefilter("ignore")  # NumPy's, of overflows
    strange = [value for value in STRANGE[type(values[0])] if "power" not in name or abs(value) < 2000 or type(value) is float]
    if name == "shifted":
        strange = [value for value in strange if value < 64]
    compared(program, (*values[:2], *strange, *values), "eager")


def test_with_inductor() -> None:
    for name in ("int of a float as a size", "magnitude as a size", "two to a power", "fraction"):
        values, program = PROGRAMS[name]
        assert compared(program, values, "inductor")["graphs"] == 2, name


def test_one_symbol_for_one_formula() -> None:
    def f(x, t):
        return x[: int(t * 10)] + x[: int(t * 10)] * 2

    assert compared(f, FRACTIONS, "aot_eager")["graphs"] == 2


def test_the_guard_names_the_computation() -> None:
    def f(x, t):
        return x[2 : int(t * 10)] if int(t * 10) > 3 else x

    framejit.reset()
    compiled = framejit.compile(f, backend="eager")
    for value in FRACTIONS:
        compiled(torch.arange(12.0), value)
    guards = [guard.expected() for guard in compiled.entries[0].spec.guards if isinstance(guard, ShapesHold)]
    assert any("int(t * 10.0) >= 4" in text for text in guards), guards


@pytest.mark.parametrize("clock", [time.perf_counter, time.time, time.monotonic_ns])
def test_a_step_that_times_itself_is_compiled_twice(clock):
    """Clocks run natively; what is computed from them, and compared, makes no new entry for each time."""
    limit, durations = 1e12, []

    def step(x, stats):
        began = clock()
        y = torch.sin(x) * 2
        took = clock() - began
        stats["time"] += took
        if stats["time"] > limit or took > limit:
            stats["slow"] = True
        durations.append(took >= 0)
        return torch.cos(y), took < limit, max(took, 0)

    framejit.reset()
    compiled, stats = framejit.compile(step, backend="eager"), {"time": 0}
    for number in range(14):
        result, is_short, longest = compiled(torch.ones(3), stats)
        assert torch.equal(result, torch.cos(torch.sin(torch.ones(3)) * 2)) and is_short is True and longest >= 0, number
        if number == 3:
            before = framejit.statistics()
    assert "slow" not in stats and durations == [True] * 14 and stats["time"] > 0
    counts = framejit.statistics()
    assert all(counts[name] == before[name] for name in ("graphs", "graph_breaks", "recompiles", "fallbacks")), (before, counts)
    assert counts["graph_breaks"] == 2 and counts["recompiles"] <= 2 and counts["fallbacks"] == 0, counts["reasons"]
