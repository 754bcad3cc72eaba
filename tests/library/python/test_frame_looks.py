"""Programs that ask for their frames with sys._getframe(), and read which code runs, at which line."""

from __future__ import annotations

import functools
import inspect
import logging
import sys
from typing import Any

import pytest
import torch
import torch.utils.checkpoint

import framejit

x = torch.arange(3.0)


@pytest.fixture(autouse=True)
def fresh() -> None:
    framejit.reset()


def where(level=1):
    frame = sys._getframe(level)
    return frame.f_code.co_filename, frame.f_code.co_name, frame.f_lineno


def asks_for_its_caller(a):
    first = where()
    b = a + 1
    return b, first, where(1), where(0)


def noted(value, filename=None, lineno=None):
    """As Pyro's warn_if_nan does it."""
    if filename is None:
        try:
            frame = sys._getframe(1)
        except ValueError:
            filename, lineno = "sys", 1
        else:
            filename = frame.f_code.co_filename
            lineno = frame.f_lineno
    return value * 2, filename, lineno


def in_calls(a):
    return noted(noted(a)[0].sin())


def through_the_callers(a):
    def inner():
        frame = sys._getframe()
        names = []
        while frame.f_code is not in_outer.__code__:
            names.append((frame.f_code.co_name, frame.f_lineno))
            frame = frame.f_back
        return names, frame is sys._getframe(2), frame.f_globals["__name__"], sys._getframe(1).f_back is frame

    def in_outer():
        return in_between()

    def in_between():
        return inner()

    return a + 1, in_outer()


def by_inspect(a):
    return a + 1, inspect.currentframe().f_code.co_name, inspect.currentframe().f_lineno


class Module(torch.nn.Module):
    def forward(self, a):
        return noted(a)


PROGRAMS = [asks_for_its_caller, in_calls, through_the_callers, by_inspect, Module()]


def same(found: Any, expected: Any) -> bool:
    return torch.equal(found[0], expected[0]) and found[1:] == expected[1:]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: getattr(program, "__name__", "module"))
def test_code_and_line_of_frames_of_the_trace_are_known(program):
    compiled = framejit.compile(program, backend="eager")
    for _ in range(2):
        assert same(compiled(x), program(x))
    found = framejit.statistics()
    assert (found["graphs"], found["graph_breaks"], found["fallbacks"]) == (1, 0, 0), found["reasons"]


def behind_a_break(a):
    a = a + 1
    framejit.graph_break()
    return noted(a)


def in_a_callee_behind_a_break(a):
    return noted(behind_a_break(a)[0])[0], *behind_a_break(a)[1:]


@pytest.mark.parametrize("program", [behind_a_break, in_a_callee_behind_a_break])
def test_behind_a_graph_break_the_code_is_that_of_the_program(program):
    compiled = framejit.compile(program, backend="eager")
    for _ in range(2):
        assert same(compiled(x), program(x))
    assert {reason[:5] for reason in framejit.statistics()["reasons"]} == {"FJ008"}


def keeps(a):
    frame = sys._getframe()
    b = a + 1
    return b, frame.f_code.co_name, sorted(frame.f_locals)


def hands_on(a):
    return a + 1, inspect.getframeinfo(sys._getframe())[:3]


def returns_it(a):
    return a + 1, (lambda: sys._getframe(1))().f_code.co_name, type(sys._getframe()).__name__


def breaks_later(a):
    frame = sys._getframe()
    print(end="")
    return a + 1, frame.f_code.co_name


def as_a_key(a):
    return a + 1, len({sys._getframe(): 1, sys._getframe(0): 2})


@pytest.mark.parametrize("program", [keeps, hands_on, returns_it, breaks_later, as_a_key])
def test_anything_else_is_left_to_native_code(program):
    compiled = framejit.compile(program, backend="eager")
    for _ in range(2):
        assert same(compiled(x), program(x))


def test_a_caller_outside_the_trace_is_looked_at_natively():
    def program(a):
        return a + 1, sys._getframe(1).f_code.co_name, sys._getframe().f_back.f_code.co_name

    compiled = framejit.compile(program, backend="eager")
    for _ in range(2):
        assert compiled(x)[1] == program(x)[1] == "test_a_caller_outside_the_trace_is_looked_at_natively"


class Cached:
    @functools.cached_property
    def asks(self):
        return sys._getframe(1).f_code.co_name

    def __add__(self, other):
        return sys._getframe(1).f_code.co_name

    def __call__(self):
        return sys._getframe(1).f_code.co_name


def through_code_between(a):
    cached = Cached()
    in_map = list(map(lambda level: sys._getframe(level).f_code.co_name, [0, 1]))
    by_partial = functools.partial(where, 1)()[1]
    in_checkpoint = torch.utils.checkpoint.checkpoint(lambda b: b * len(sys._getframe(1).f_code.co_name), a, use_reentrant=False)
    return in_checkpoint, cached.asks, cached + 1, cached(), in_map, by_partial, sorted([3, 1], key=lambda _: len(where(1)[1]))


def test_code_between_frames_counts():
    compiled = framejit.compile(through_code_between, backend="eager")
    for _ in range(2):
        assert same(compiled(x), through_code_between(x))


def test_too_deep_a_frame_is_an_error():
    def program(a):
        try:
            sys._getframe(10_000)
        except ValueError as error:
            return a + 1, str(error)

    assert same(framejit.compile(program, backend="eager")(x), program(x))


def test_a_logger_finds_the_line(caplog):
    logger = logging.getLogger("framejit.test")

    def program(a):
        logger.warning("seen")
        return a + 1

    with caplog.at_level("WARNING", "framejit.test"):
        framejit.compile(program, backend="eager")(x)
        program(x)
    assert len({(record.funcName.partition(" ")[0], record.lineno, record.filename) for record in caplog.records}) == 1
