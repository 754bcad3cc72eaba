"""datetime in compiled functions: what follows from known dates and differences is computed, and what varies or asks the clock is left to the program."""

from __future__ import annotations

import copy
import datetime
import types
from datetime import timedelta, timezone

import pytest
import torch

import framejit

when = datetime.datetime(2024, 2, 28, 23, 30, fold=1)
world = types.SimpleNamespace(start=when, step=timedelta(minutes=90), zone=timezone(timedelta(hours=2)))


class Local(datetime.tzinfo):
    def utcoffset(self, when):
        return timedelta(hours=1)

    def dst(self, when):
        return None

    def tzname(self, when):
        return "local"


def arithmetic(x):
    later = when + timedelta(days=1, hours=2) * 2
    parts = timedelta(5) // timedelta(2), divmod(world.step, timedelta(1))
    return x + (later - when).total_seconds(), later, later > when, -timedelta(1), abs(timedelta(-1)), parts


def fields_and_texts(x):
    day = when.date()
    texts = str(when), repr(world.step), f"{when:%Y-%m-%d}", f"{when}", when.isoformat(" ", "minutes"), when.strftime("%H:%M:%S.%f"), day.ctime()
    return x * when.hour, texts, day.weekday(), day.toordinal(), when.timetuple().tm_yday, world.step.seconds, when.fold, datetime.date.max.year


def makers(x):
    made = datetime.datetime.fromisoformat("2024-01-02T03:04:05"), datetime.date.fromordinal(738000), datetime.datetime.combine(when.date(), datetime.time(1))
    return x + made[0].second, made, made[0].replace(year=2000, tzinfo=timezone.utc), datetime.datetime(2024, 1, 1, tzinfo=world.zone).isoformat()


def errors(x):
    found = []
    for act in (lambda: datetime.date(2023, 2, 29), lambda: when + 1, lambda: when < when.date(), lambda: timedelta(days=10**10), lambda: when - "a"):
        try:
            found.append(act())
        except (ValueError, TypeError, OverflowError) as error:
            found.append((type(error), error.args))
    return x + len(found), found, when == 3, when != when.replace(fold=0)


@pytest.mark.parametrize("program", [arithmetic, fields_and_texts, makers, errors])
def test_known_values(program):
    framejit.reset()
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        expected, found = program(torch.ones(2)), compiled(torch.ones(2))
        assert torch.equal(expected[0], found[0]) and repr(expected[1:]) == repr(found[1:])
    assert framejit.statistics()["graphs"] == 1


def test_values_from_outside_are_guarded_by_their_parts():
    held = types.SimpleNamespace(start=when, step=timedelta(minutes=90), zone=None)

    def program(x):
        return x + held.step.total_seconds(), (held.start + held.step).isoformat(), held.start.fold

    framejit.reset()
    compiled = framejit.compile(program, backend="eager")

    def assert_same(graphs):
        assert repr(compiled(torch.ones(2))) == repr(program(torch.ones(2)))
        assert framejit.statistics()["graphs"] == graphs

    assert_same(1)
    held.start, held.step = copy.deepcopy(held.start), timedelta(minutes=90)
    assert_same(1)
    held.start = when.replace(fold=0)
    compiled(torch.ones(2))
    for other in (when.replace(tzinfo=timezone.utc), when.replace(tzinfo=world.zone), when.replace(tzinfo=Local())):
        held.start = other
        assert repr(compiled(torch.ones(2))) == repr(program(torch.ones(2)))


def test_values_that_vary_are_not_compiled_for():
    held = types.SimpleNamespace(last=when)

    def program(x, step, elapsed):
        spent = timedelta(seconds=elapsed) * step
        before, held.last = held.last, held.last + timedelta(seconds=1)
        return x + 1, str(spent), before, (held.last - before).seconds

    compiled = framejit.compile(program, backend="eager")
    for step in range(12):
        held.last = when + timedelta(seconds=step)
        expected = program(torch.ones(2), step, step * 1.5)
        held.last = when + timedelta(seconds=step)
        assert repr(compiled(torch.ones(2), step, step * 1.5)) == repr(expected)
    assert framejit.statistics()["recompiles"] <= 4


def test_arguments_and_values_that_are_passed_on():
    def program(x, start, keep):
        keep.append(start)
        return x + 1, start, (start - when).days

    framejit.reset()
    compiled, kept = framejit.compile(program, backend="eager"), []
    for days in range(6):
        start = when + timedelta(days=days)
        found = compiled(torch.ones(2), start, kept)
        assert found[1] is start and found[2] == days and kept[-1] is start
    assert framejit.statistics()["recompiles"] == 0


def test_the_clock_and_classes_of_the_program():
    class Stamp(datetime.datetime):
        def __add__(self, other):
            return "added"

    def program(x):
        start = datetime.datetime.now()
        return x + 1, Stamp(2024, 1, 1) + timedelta(1), datetime.datetime.now() >= start, datetime.datetime.now() - start < timedelta(1)

    compiled = framejit.compile(program, backend="eager")
    for _ in range(3):
        assert compiled(torch.ones(2))[1:] == program(torch.ones(2))[1:]


def test_a_difference_that_is_in_use_at_a_graph_break():
    def program(x):
        step = timedelta(hours=1)
        framejit.graph_break()
        return x + 1, step * 2, step

    compiled = framejit.compile(program, backend="eager")
    for _ in range(2):
        assert compiled(torch.ones(2))[1:] == program(torch.ones(2))[1:]
