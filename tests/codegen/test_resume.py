"""Graph breaks: what a call split by them does is what eager does, in every construct and place."""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import Comparison
from resume_programs import CASES, vector
from stories import same_story, story
from undo import executed_by, undoing

import framejit
from framejit.bytecode.decode import decode

for _module in ("resume_programs_flow", "resume_programs_calls", "resume_programs_statements", "resume_programs_objects"):
    importlib.import_module(_module)  # adds its programs to CASES


AS_WRITTEN = {
    "dropped_generator_with_finally", "except_star", "except_star_native", "locals_and_eval", "eval_among_cells", "runs_text",
}  # fmt: skip
"""A generator that would have to be closed in between; frames of `except*`, and frames that are looked at more than once."""
RAISES = [
    "failing_assert", "with_exit_prints_exception", "native_exception_not_caught", "bare_raise_to_the_caller", "traced_raise_to_the_caller",
    "context_to_the_caller", "raise_from", "finally_to_the_caller", "escapes_two_frames", "break_below_a_handler",
    "init_returns_something_to_the_caller", "property_fails_to_the_caller", "getattr_hook",
]  # fmt: skip
"""An exception leaves these: what raises it runs uncompiled."""


@pytest.mark.parametrize("name", CASES)
def test_program(name: str) -> None:
    fn, arguments = CASES[name]
    with contextlib.redirect_stdout(io.StringIO()):
        args = arguments()
    counts = same_story(fn, args)
    assert sys.exc_info() == (None, None, None)
    assert counts["graphs"] <= 40
    if name not in AS_WRITTEN:
        assert not [reason for reason in counts["reasons"] if reason.startswith("FJ019")]
        assert counts["fallbacks"] <= RAISES.count(name), counts["reasons"]


def twenty_breaks() -> Callable[..., Any]:
    lines = [f"    x = x + {i}\n    y = (x, x * 2)[1]\n    print({i})\n    x = y - x" for i in range(20)]
    namespace: dict[str, Any] = {}
    exec("def twenty(x):\n" + "\n".join(lines) + "\n    return x\n", namespace)
    return namespace["twenty"]


def test_a_function_with_many_breaks_is_traced_about_once() -> None:
    """A break goes on where it was: the instructions interpreted are those of the function, and those of the prologues."""
    counted: list[str] = []

    def counting(execute: Callable[..., Any]) -> Callable[..., Any]:
        def run(vm: Any, frame: Any, instruction: Any) -> Any:
            counted.append(instruction.op)
            return execute(vm, frame, instruction)

        return run

    fn = twenty_breaks()
    with executed_by(counting):
        counts = same_story(fn, (torch.ones(2),))
    assert counts["graph_breaks"] == 20 and counts["graphs"] == 21 and not counts["fallbacks"]
    own = len(decode(fn.__code__).instructions)
    assert own <= len(counted) <= own + 20 * 12


@pytest.mark.parametrize("name", CASES)
def test_instructions_can_be_undone(name: str) -> None:
    """Instructions at random are executed, undone, and executed again: the trail must take everything back."""
    fn, arguments = CASES[name]
    with contextlib.redirect_stdout(io.StringIO()):
        args = arguments()
    with undoing(0.2, name):
        same_story(fn, args, calls=1)


def numbers_change(x: torch.Tensor, n: int) -> Any:
    for i in range(n):
        x = x.cos() * i
        print("", end="")
        x = x.sin() + 1
    return x


def lists_grow(x: torch.Tensor, n: int) -> Any:
    seen: list[Any] = []
    for i in range(n):
        x = x.cos()
        print("", end="")
        seen.append(x.sum())
        if len(seen) % 2:
            x = x + 1
        x = x.sin()
    return x, seen


def dicts_grow(x: torch.Tensor, n: int) -> Any:
    seen: dict[str, Any] = {}
    for i in range(n):
        seen[f"key {i}"] = x = x.cos()
        print("", end="")
        x = (x.sin() + len(seen) + ("key 3" in seen)).abs()
    return x, seen


def tensors_grow(x: torch.Tensor, n: int) -> Any:
    row = x
    for _ in range(n):
        row = torch.cat([row, (row[-1:] + x[:1]).cos()])
        print("", end="")
        x = x.sin() * 2 + x.cos()
    return row, x, row.shape


def texts_change(x: torch.Tensor, n: int) -> Any:
    text = ""
    for i in range(n):
        text += str(i)
        print("", end="")
        x = x.cos() + (1 if text.endswith("5") else 2)
        x = x.sin()
    return x, text


@pytest.mark.parametrize("program", [numbers_change, lists_grow, dicts_grow, tensors_grow, texts_change], ids=lambda program: program.__name__)
def test_loops_whose_values_change_keep_their_graphs(program: Callable[..., Any]) -> None:
    """Code that reads a value which differs in each iteration runs natively after some iterations; the rest stays in graphs."""
    with framejit.config.replace(recompile_limit=4):
        compiled = framejit.compile(program, backend="eager")
    framejit.reset()
    x = vector()
    for n in (30, 90):
        Comparison().same(program(x, n), compiled(x, n))
    before = framejit.statistics()
    Comparison().same(program(x, 150), compiled(x, 150))
    after = framejit.statistics()
    assert after["graphs"] - before["graphs"] <= 2
    assert after["graphs"] <= 40 and not after["fallbacks"], after["reasons"]


def test_sizes_that_differ_from_call_to_call_break_nothing_up() -> None:
    """Only what changes while one call runs is left out of graphs: such a function runs uncompiled beyond the limit."""

    def program(x: torch.Tensor) -> torch.Tensor:
        x = x.cos()
        print("", end="")
        return x.sin()

    with framejit.config.replace(recompile_limit=3):
        compiled = framejit.compile(program, backend="eager", dynamic=False)
    framejit.reset()
    for n in range(1, 8):
        assert torch.equal(compiled(torch.ones(n)), program(torch.ones(n)))
    counts = framejit.statistics()
    assert counts["graphs"] == 6 and [reason[:5] for reason in counts["reasons"]].count("FJ019") == 1


def test_a_later_call_that_raises_behind_a_break() -> None:
    """It is compiled once more at most, to be run uncompiled; calls that don't raise keep their entries."""

    def program(x: torch.Tensor, n: int) -> torch.Tensor:
        y = x + 1
        print("before", n)
        y = y * 2
        if n == 3:
            raise ValueError(n)
        return y * {1: 1, 2: 2}[n]

    framejit.reset()
    compiled = framejit.compile(program, backend="eager")
    x = torch.ones(2)
    for n in (1, 3, 2):
        assert story(program, (x, n))[1:3] == story(compiled, (x, n))[1:3]
    before = framejit.statistics()
    assert before["fallbacks"] == 1 and [reason for reason in before["reasons"] if reason.startswith("FJ007")]
    for n in (3, 3, 1, 3, 2, 3, 3):
        assert story(program, (x, n))[1:3] == story(compiled, (x, n))[1:3]
    assert framejit.statistics() == before


def test_an_error_of_the_backend_in_a_handler_is_raised_under_the_handlers_there() -> None:
    def refusing(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        if any(node.target == "cos" for node in graph.graph.nodes):
            raise RuntimeError("no cosines")
        return graph.forward

    seen = []

    @framejit.compile(backend=refusing)
    def program(x: torch.Tensor, values: dict[str, int]) -> torch.Tensor:
        y = x.sin()
        try:
            try:
                print(values["missing"])
            except KeyError:
                return y.cos()
        except Exception as error:
            seen.append(type(error).__name__)
            return y
        finally:
            seen.append("finally")

    class Missing(dict[str, int]):
        def __missing__(self, key: str) -> int:
            print("it breaks here")
            raise KeyError(key)

    x = vector()
    assert torch.equal(program(x, Missing()), x.sin()) and seen == ["BackendError", "finally"]
