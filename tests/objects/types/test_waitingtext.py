"""Texts with numbers in them that vary from call to call: written by the generated code, without a guard on the numbers, against eager."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import Comparison, agree
from torch import nn

import framejit


def told(function: Callable[..., Any], values: list[Any]) -> dict[str, Any]:
    """Compare calls with eager's; what has been counted."""
    framejit.reset()
    compiled = framejit.compile(function, backend="eager")
    x = torch.arange(3.0)
    for value in values:
        Comparison().same(compiled(x, value), function(x, value))
    return framejit.statistics()


@pytest.mark.parametrize("text", [
    lambda i, x: f"step {i}",
    lambda i, x: f"[{i:03d}] {i * 2 + 1:>6}|{i!r}|{-i}",
    lambda i, x: "step " + str(i) + "!",
    lambda i, x: f"{i / 3:.2f} {float(i)}",
    lambda i, x: f"{i}: {x.sum().item():.3f}" + f", {i}",
    lambda i, x: [f"{i}", {"name": f"loss_{i}"}],
    lambda i, x: [text := f"{i}", ", ".join([text, text, "end", text]), "-".join([text])],
    lambda i, x: [text := str(x.sum().item() + i), " ".join((text, text))],
])  # fmt: skip
def test_ints_in_texts(text: Callable[[int, torch.Tensor], Any]) -> None:
    found = told(lambda x, i: (x * 2, text(i, x)), [*range(7), -3, 2**62])
    assert (found["graph_breaks"], found["fallbacks"]) == (0, 0) and found["recompiles"] == 1, found


def test_floats_in_texts() -> None:
    found = told(lambda x, rate: (x * rate, f"{rate:.3e} {rate} {rate!s:>12}"), [0.1, 0.5, 1e-30, float("inf"), -2.0, 1e300])
    assert (found["graph_breaks"], found["fallbacks"]) == (0, 0) and found["recompiles"] == 1, found


def test_printed_lines_recompile_nothing() -> None:
    def step(x: torch.Tensor, i: int, out: io.StringIO) -> torch.Tensor:
        y = x * i
        print(f"step {i}: {y.sum().item():.2f}", file=out)
        return y + 1

    framejit.reset()
    compiled = framejit.compile(step, backend="eager")
    expected, found = io.StringIO(), io.StringIO()
    for i in range(2, 9):
        Comparison().same(compiled(torch.ones(3), i, found), step(torch.ones(3), i, expected))
    assert found.getvalue() == expected.getvalue() and framejit.statistics()["recompiles"] <= 2


@pytest.mark.parametrize("look", [
    lambda text: len(text),
    lambda text: text == "step 3",
    lambda text: {"step 2": 1}.get(text, 0),
    lambda text: text.upper()[::-1],
    lambda text: text in ("step 1", "step 4"),
    lambda text: sorted({text: 1, "a": 2}),
    lambda text: int(text[5:]) if text else None,
])  # fmt: skip
def test_a_look_at_the_text(look: Callable[[str], Any]) -> None:
    told(lambda x, i: (x + 1, look(f"step {i}")), [1, 2, 3, 4, 4, 3])


def test_a_text_that_an_exception_has() -> None:
    def function(x: torch.Tensor, i: int) -> Any:
        try:
            if i > 1:
                raise ValueError(f"no step {i}")
        except ValueError as error:
            return x, str(error), error.args
        return x

    told(function, [0, 1, 2, 3, 4])


def test_a_format_that_fails() -> None:
    def function(x: torch.Tensor, i: int) -> Any:
        try:
            return x, f"{i:c}"
        except OverflowError as error:
            return x, str(error)[:10]

    told(function, [65, 66, -1, 2**40, 67])


WRITTEN = {
    "f-string": lambda t: f"lr {t:.2f}|{t}|{t!r:>9}", "percent": lambda t: "lr %.3f of 100%%, %s, %r" % (t, "a", t), "percent of one": lambda t: "%8.2f" % t,
    "format": lambda t: "{0:.3f} {x} {0!r}".format(t, x=t), "str": lambda t: (str(t), repr(t), format(t, ".1e")),
    "join": lambda t: ", ".join(["a", str(t), f"{t}"]),
    "round": lambda t: (round(t, 2), round(-t, 0), f"{round(t, 3)}"), "sum": lambda t: (sum([t, 1, t]), sum([t], 0.5)), "abs": lambda t: (abs(t), abs(-t)),
    "a template that refuses": lambda t: ("%d" % t, "%s" % (t,), "%(a).1f" % {"a": t}),
}  # fmt: skip
VALUES = (0.5, 1.25, -2.125, 3.3, 4.7, 5.9, 1e20)


@pytest.mark.parametrize("name", WRITTEN)
def test_floats_that_vary_compile_twice_at_most(name: str) -> None:
    program = WRITTEN[name]
    framejit.reset()
    compiled = framejit.compile(lambda x, t: (x * t, program(t)), backend="eager")
    for value in VALUES:
        x = torch.randn(3)
        Comparison().same((x * value, program(value)), compiled(x, value))
    assert framejit.statistics()["graphs"] == (7 if "refuses" in name else 2)


@pytest.mark.parametrize("name", WRITTEN)
def test_numbers_out_of_tensors_break_nothing(name: str) -> None:
    program = WRITTEN[name]
    framejit.reset()
    compiled = framejit.compile(lambda x: (x * 2, program(x.max().item())), backend="aot_eager")
    for value in (*VALUES, float("nan"), float("inf")) if "refuses" not in name else VALUES:
        x = torch.full((3,), value, dtype=torch.float64)
        Comparison().same((x * 2, program(value)), compiled(x))
    assert framejit.statistics()["graph_breaks"] == ("refuses" in name)


def test_sizes_in_texts_compile_twice() -> None:
    framejit.reset()
    compiled = framejit.compile(lambda x: (x * 2, f"{x.shape[0]} rows", "%d" % x.shape[0], "{}".format(x.shape[0] + 1)), backend="eager", fullgraph=True)
    for size in (3, 4, 5, 6):
        assert compiled(torch.ones(size))[1:] == (f"{size} rows", str(size), str(size + 1))
    assert framejit.statistics()["graphs"] == 2


def test_a_text_that_is_looked_at_is_guarded() -> None:
    framejit.reset()
    table = {"0.5": 1, "1.5": 2}
    compiled = framejit.compile(lambda x, t: x * table.get(str(t), 3) + t, backend="eager", fullgraph=True)
    for value in (0.5, 1.5, 2.5, 0.5):
        assert torch.equal(compiled(torch.ones(2), value), torch.ones(2) * table.get(str(value), 3) + value)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_tensors_without_dimensions_are_written_as_their_numbers(backend: str) -> None:
    """So progress is told, and so multimodal models of transformers say what doesn't fit."""

    def step(x: torch.Tensor, log: list[str]) -> torch.Tensor:
        loss, count = x.square().sum(), (x > 1).sum()
        log.append(f"loss {loss:.3f} {loss}, {count} of {count + 1:>5} {count > 1}")
        log.append("{} {:.2e} {:>5}".format(count, loss, count))
        return loss * 2

    compiled = framejit.compile(step, backend=backend, fullgraph=True)
    for x in (torch.tensor([0.5, 2.0]), torch.tensor([float("nan"), 0.0]), torch.tensor([3.0, 1e10], requires_grad=True)):
        expected, found = [], []
        assert torch.equal(step(x, expected), compiled(x, found)) or "nan" in found[0]
        assert expected == found


@pytest.mark.parametrize("spec", ["", ">4", "d", "f", "?"])
def test_formats_of_other_tensors_are_those_of_eager(spec: str) -> None:
    for tensor in (torch.ones(2), torch.tensor(2), torch.tensor(2.5), torch.tensor(2 + 1j), nn.Parameter(torch.tensor(2.5))):
        agree(lambda t: (t + 1, format(t, spec)), tensor, fullgraph=False)
