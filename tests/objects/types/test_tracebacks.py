"""Traceback objects in compiled code: which of them are one object, exceptions that are given another's, and what is left of them afterwards."""

from __future__ import annotations

import contextlib
import sys
from types import TracebackType
from typing import Any

import pytest
import torch
from agreement import agree_over_calls

import framejit

programs: list[Any] = []


def program(function: Any) -> Any:
    programs.append(function)
    return function


def places(traceback: TracebackType | None) -> list[tuple[str, int]]:
    """Function and line of each entry, outermost first."""
    found = []
    while traceback is not None:
        found.append((traceback.tb_frame.f_code.co_name.partition(" (resumed")[0], traceback.tb_lineno))
        traceback = traceback.tb_next
    return found


def of_another(cls: Any = OSError) -> TracebackType | None:
    try:
        raise cls
    except cls as error:
        return error.__traceback__


def told(value: Any) -> Any:
    """A result with the tracebacks that it holds as lists of places."""
    if isinstance(value, TracebackType):
        return places(value)
    if isinstance(value, BaseException):
        return type(value), value.args, places(value.__traceback__), told(value.__context__)
    return [told(each) for each in value] if isinstance(value, (tuple, list)) else repr(value)


@program
def one_object_until_it_grows(t):
    try:
        raise OSError
    except OSError as error:
        first, table = error.__traceback__, {error.__traceback__: 1}
        same = first is error.__traceback__, first == sys.exc_info()[2], table.get(error.__traceback__), first is sys.exception().__traceback__
        try:
            raise error
        except OSError as again:
            return t + 1, same, again.__traceback__ is first, again.__traceback__.tb_next is first, table.get(again.__traceback__)


class Keeps:
    def __enter__(self):
        return self

    def __exit__(self, *found):
        self.found = found
        return True


@program
def what_exit_is_given(t):
    with Keeps() as keeps:
        raise OSError
    return t + 1, keeps.found[2] is keeps.found[1].__traceback__, keeps.found


@program
def given_another_and_raised(t):
    traceback = of_another()
    try:
        raise IndexError.with_traceback(IndexError(), traceback)
    except IndexError as error:
        return t + 1, error.__traceback__ is traceback, error.__traceback__.tb_next is traceback, error, traceback


@program
def given_another_and_kept(t):
    traceback, first, second = of_another(), KeyError(), ValueError()
    first.__traceback__ = second.__traceback__ = traceback
    return t + 1, first.__traceback__ is traceback, first.__traceback__ is second.__traceback__, first, second, traceback


@program
def given_anothers_and_escaping(t):
    raise KeyError(4).with_traceback(of_another())


@program
def given_that_of_its_context(t):
    try:
        try:
            raise OSError
        except OSError as error:
            first = error.__traceback__
            raise KeyError(1).with_traceback(error.__traceback__) from error
    except KeyError as error:
        return t + 1, error, first, error.__cause__.__traceback__ is first


@program
def given_and_taken_away(t):
    traceback = of_another()
    try:
        raise KeyError(1).with_traceback(traceback).with_traceback(None)
    except KeyError as error:
        return t + 1, error, traceback


@program
def given_back_an_earlier_one(t):
    error, traceback = OSError(), of_another()
    error.__traceback__ = traceback
    try:
        raise error
    except OSError:
        middle = error.__traceback__
    error.__traceback__ = traceback
    return t + 1, middle, error, error.__traceback__ is traceback


@program
def exchanged(t):
    first, second = OSError(), KeyError()
    try:
        raise first
    except OSError:
        try:
            raise second.with_traceback(first.__traceback__)
        except KeyError:
            first.__traceback__ = second.__traceback__
    return t + 1, first, second, first.__traceback__ is second.__traceback__


@program
def thrown_into_a_generator(t):
    def waits():
        try:
            yield 1
        except KeyError as error:
            yield error, error.__traceback__.tb_next is traceback

    traceback, generator = of_another(), waits()
    next(generator)
    return t + 1, generator.throw(KeyError(2).with_traceback(traceback)), generator.gi_frame is None


def outcome(function: Any) -> Any:
    try:
        return told(function(torch.ones(1)))
    except KeyError as error:
        assert error.__traceback__ is not None
        error.__traceback__ = error.__traceback__.tb_next
        return "raised", told(error)


@pytest.mark.parametrize("function", programs, ids=lambda function: function.__name__)
def test_tracebacks_are_eagers(function: Any) -> None:
    compiled = framejit.compile(function, backend="eager")
    assert outcome(compiled) == outcome(function)
    assert outcome(compiled) == outcome(function)


def test_identity_of_tracebacks_does_not_break_the_graph() -> None:
    def looks(t):
        traceback, error = of_another(), KeyError()
        error.__traceback__ = traceback
        return t + 1, error.__traceback__ is traceback, error.__traceback__ is of_another()

    assert framejit.compile(looks, backend="eager", fullgraph=True)(torch.ones(1))[1:] == (True, False)


def test_a_caught_exception_keeps_its_traceback():
    def f(t):
        try:
            raise ValueError("a")
        except ValueError as error:
            return error

    agree_over_calls(lambda compile: [places(compile(f)(torch.ones(2)).__traceback__)])


def refuses(n):
    raise ValueError(n)


def calls_what_refuses(n):
    refuses(n)


@contextlib.contextmanager
def around():
    yield


class BreaksAtExit:
    def __enter__(self):
        return self

    def __exit__(self, *raised):
        framejit.graph_break()


def leaves_a_manager(t):
    try:
        with BreaksAtExit(), around():
            calls_what_refuses(1)
    except ValueError as error:
        return t + 1, places(error.__traceback__)


def has_anothers_traceback(t):
    try:
        try:
            calls_what_refuses(1)
        except ValueError as error:
            raise KeyError(2).with_traceback(error.__traceback__) from None
    except KeyError as error:
        framejit.graph_break()
        return t + 1, places(error.__traceback__)


def keeps_tracebacks_of_each_time(t):
    kept = []

    def between(n):
        try:
            refuses(n)
        except ValueError as error:
            kept.append(error.__traceback__)
            raise

    try:
        between(1)
    except ValueError as error:
        kept.append(error.__traceback__)
    framejit.graph_break()
    return t + 1, list(map(places, kept))


def forgets_a_traceback_that_is_kept(t):
    try:
        calls_what_refuses(1)
    except ValueError as error:
        kept = error.__traceback__
        try:
            raise error.with_traceback(None)
        except ValueError as same:
            t = t + 1
            framejit.graph_break()
            return t, places(same.__traceback__), places(kept)


PROGRAMS_WITH_TRACEBACKS = (leaves_a_manager, has_anothers_traceback, keeps_tracebacks_of_each_time, forgets_a_traceback_that_is_kept)


@pytest.mark.parametrize("program", PROGRAMS_WITH_TRACEBACKS, ids=lambda program: program.__name__)
def test_a_traceback_is_what_it_was_when_it_was_taken(program):
    agree_over_calls(lambda compile: [(f := compile(program))(torch.ones(2)), f(torch.ones(2))], stops=True)
