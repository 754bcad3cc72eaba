"""Clocks are read natively, and a program that measures time isn't compiled again for each time that it has measured."""

import time

import pytest
import torch

import framejit


@pytest.mark.parametrize("clock", [time.time, time.perf_counter, time.monotonic, time.process_time, time.time_ns, time.perf_counter_ns])
def test_durations_compile_nothing_again(clock):
    def timed(x, durations):
        began = clock()
        y = x * 2
        took = clock() - began
        durations.append(took)
        return y + 1 if took >= 0 else y, took < 10**12

    framejit.reset()
    compiled, durations = framejit.compile(timed, backend="eager"), []
    for number in range(4):
        x = torch.arange(3.0) + number
        result, is_short = compiled(x, durations)
        assert torch.equal(result, x * 2 + 1) and is_short is True
    assert [type(took) for took in durations] == [type(clock())] * 4 and min(durations) >= 0
    counts = framejit.statistics()
    assert (counts["graph_breaks"], counts["recompiles"], counts["fallbacks"]) == (2, 0, 0), counts["reasons"]
    assert all(reason.startswith(f"FJ001 call of time.{clock.__name__}") for reason in counts["reasons"]), counts["reasons"]


def test_each_call_reads_the_clock():
    """Both ways of a comparison are compiled, and taken when the clock says so."""
    deadline = time.monotonic() + 3600

    def is_late(x):
        return x * 2 if time.monotonic() > deadline else x

    compiled, x = framejit.compile(is_late, backend="eager"), torch.ones(2)
    assert compiled(x) is x and compiled(x) is x
    deadline = time.monotonic() - 1
    assert torch.equal(compiled(x), x * 2)
    deadline = time.monotonic() + 3600
    assert compiled(x) is x


def test_a_clock_in_the_place_of_another_is_called(monkeypatch):
    def timed(x):
        return x, time.time()

    compiled, x = framejit.compile(timed, backend="eager"), torch.ones(2)
    assert compiled(x)[1] > 1
    monkeypatch.setattr(time, "time", lambda: 0.5)
    assert compiled(x)[1] == 0.5
