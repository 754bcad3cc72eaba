"""Exception groups made, taken apart, handled by `except*` and raised again in compiled code, as plain Python does it. PYTEST_DONT_REWRITE."""

from __future__ import annotations

import functools
import gc
import re
import sys
import weakref
from typing import Any

import pytest

import framejit
from framejit.objects.core import differences


class Coded(ExceptionGroup):
    def __new__(cls, message, exceptions, code):
        made = super().__new__(cls, message, exceptions)
        made.code = code
        return made

    def derive(self, exceptions):
        return Coded(self.message, exceptions, self.code)


class Plain(ExceptionGroup):
    pass


class Wrong(ExceptionGroup):
    def derive(self, exceptions):
        return exceptions


def portrait(value: Any) -> Any:
    """Describe a result by all that a program can see of it: of exceptions, their fields, members and the places of their tracebacks."""
    if isinstance(value, list | tuple):
        return [portrait(item) for item in value]
    if not isinstance(value, BaseException):
        return value
    places, traceback = [], value.__traceback__
    while traceback is not None:
        name = re.sub(r" \(resumed.*", "", traceback.tb_frame.f_code.co_name)
        places.append((name, traceback.tb_lineno))
        traceback = traceback.tb_next
    parts = portrait(value.exceptions) if isinstance(value, BaseExceptionGroup) else ()
    chain = [portrait(each) for each in (value.__cause__, value.__context__)]
    return type(value), str(value), repr(value), portrait(value.args), parts, places, chain, value.__suppress_context__, vars(value)


def again():
    raise  # noqa: PLE0704


def several():
    return ExceptionGroup("several", [ValueError(1), KeyError(2), ExceptionGroup("inner", [ValueError(3), TypeError(4)])])


def a_part_is_raised_again():
    found = []
    try:
        try:
            raise several()
        except* ValueError as group:
            found += [group, sys.exc_info()[1] is group]
            raise
        except* KeyError as group:
            found.append(group)
    except BaseException as left:
        found.append(left)
    return found


def clauses_raise_something_else():
    found = []
    try:
        try:
            raise several()
        except* ValueError:
            raise IndexError(7)
        except* KeyError as group:
            raise RuntimeError from group
    except BaseException as left:
        found.append(left)
    return found


def one_clause_raises_and_nothing_is_left():
    try:
        try:
            raise ExceptionGroup("one", [ValueError(1)])
        except* ValueError:
            raise IndexError(7)
    except BaseException as left:
        return left


def a_part_raised_by_a_callee_is_new():
    found = []
    try:
        try:
            raise several()
        except* ValueError:
            try:
                again()
            except BaseException as passed:
                found.append(passed)
                raise
    except BaseException as left:
        found.append(left)
    return found


def loops_with_else_and_finally():
    found = []
    for i in range(3):
        try:
            if i:
                raise ExceptionGroup("x", [ValueError(i)])
        except* (ValueError, TypeError) as group:
            found.append(group.exceptions[0].args)
        else:
            found.append("else")
        finally:
            found.append("finally")
    return found, sys.exc_info()


def groups_are_taken_apart():
    group = Coded("m", [ValueError(1), TypeError(2), Coded("n", [ValueError(5)], 7)], 42)
    group.add_note("noted")
    match, rest = group.split(ValueError)
    part = group.subgroup(lambda error: isinstance(error, TypeError))
    whole = group.split(Exception)
    return match, rest, part, whole[0] is group, whole[1], group.split(KeyError)[1] is group, match.exceptions[0] is group.exceptions[0], match.code


def a_group_keeps_its_chain_when_it_is_taken_apart():
    try:
        try:
            raise OSError(1)
        except OSError:
            raise several() from LookupError(2)
    except ExceptionGroup as group:
        return group.split(TypeError)


def conditions():
    found = []
    predicate = functools.partial(isinstance, ValueError(1))
    for condition in (1, int, (ValueError, 3), lambda error: False, (), (ValueError,), (ValueError, (KeyError,)), predicate):
        try:
            found.append(Plain("a", [ValueError(1), KeyError(1)]).split(condition))
        except TypeError as error:
            found.append(str(error))
    return found


def mistakes():
    found = []
    for kinds in (ExceptionGroup, 5, (ValueError, Plain), (ValueError, int)):
        try:
            try:
                raise several()
            except* kinds:
                found.append("no")
        except TypeError as error:
            found.append(str(error))
    for make in (lambda: Coded("a", [KeyboardInterrupt()], 1), lambda: Plain("a", []), lambda: Wrong("w", [ValueError(), KeyError()]).split(KeyError)):
        try:
            make()
        except (TypeError, ValueError) as error:
            found.append(str(error))
    return found


def exceptions_that_are_no_exceptions():
    try:
        try:
            raise BaseExceptionGroup("x", [ValueError(1), BaseExceptionGroup("y", [KeyboardInterrupt()])])
        except* KeyboardInterrupt:
            raise
        except* ValueError as group:
            kept = group
    except BaseException as left:
        return left, kept


WHOLE = [
    a_part_is_raised_again, clauses_raise_something_else, one_clause_raises_and_nothing_is_left, a_part_raised_by_a_callee_is_new,
    loops_with_else_and_finally, groups_are_taken_apart, a_group_keeps_its_chain_when_it_is_taken_apart, mistakes, exceptions_that_are_no_exceptions,
]  # fmt: skip


@pytest.mark.parametrize("function", WHOLE)
def test_in_one_graph(function: Any) -> None:
    compiled = framejit.compile(function, backend="eager", fullgraph=True)
    for _ in range(2):
        assert portrait(compiled()) == portrait(function())


def test_conditions() -> None:
    assert portrait(framejit.compile(conditions, backend="eager")()) == portrait(conditions())


@pytest.mark.skipif(differences.WRAPPERS_HAVE_TRACEBACKS, reason="the group that stands for it has a traceback")
def test_a_plain_exception_is_handled_as_a_group() -> None:
    def function(kind):
        found = []
        try:
            try:
                raise kind(1)
            except* (ValueError, TypeError) as group:
                found.append(group)
                raise
        except BaseException as left:
            found.append(left)
        return found

    compiled = framejit.compile(function, backend="eager", fullgraph=True)
    for kind in (ValueError, KeyError, KeyboardInterrupt):
        assert portrait(compiled(kind)) == portrait(function(kind))


def test_a_break_in_a_clause(capsys: Any) -> None:
    """The frame runs uncompiled: what a clause handles can't be restored."""

    def function():
        found = []
        try:
            raise several()
        except* ValueError as group:
            print("values", sys.exc_info()[1] is group)
            found.append(sys.exc_info()[1])
        except* KeyError:
            try:
                raise OSError
            except OSError as error:
                print("keys")
                found.append(error)
        except* TypeError:
            pass
        return found, sys.exc_info()

    expected = portrait(function()), capsys.readouterr().out
    assert (portrait(framejit.compile(function, backend="eager")()), capsys.readouterr().out.replace("\nframejit", "")) == expected


def test_a_group_from_outside(capsys: Any) -> None:
    def function(group):
        found = []
        try:
            raise group
        except* ValueError as part:
            found.append(part)
        except* KeyError as part:
            found.append(part)
        except* Exception:
            found.append("rest")
        return found

    assert portrait(framejit.compile(function, backend="eager")(several()))[0][:3] == portrait(function(several()))[0][:3]


def test_a_generator_suspended_in_a_clause() -> None:
    def steps():
        try:
            yield 1
            raise several()
        except* ValueError as group:
            yield group
            yield sys.exc_info()[1] is group
        except* Exception:
            yield 4

    def function():
        generator = steps()
        first = [next(generator), next(generator)]
        print("a break")
        return first, list(generator)

    assert portrait(framejit.compile(function, backend="eager")()) == portrait(function())


def test_groups_nested_deeper_than_a_trace_takes_apart() -> None:
    def function():
        group: Any = ValueError(1)
        for i in range(80):
            group = ExceptionGroup(str(i), [group, KeyError(i)])
        match, rest = group.split(ValueError)
        return str(match), len(rest.exceptions)

    assert framejit.compile(function, backend="eager")() == function()


def test_nothing_is_kept_alive() -> None:
    class Held:
        pass

    def function(held):
        try:
            raise ExceptionGroup("x", [ValueError(held), KeyError(1)])
        except* ValueError as group:
            count = len(group.exceptions)
        except* KeyError:
            pass
        return count

    compiled = framejit.compile(function, backend="eager", fullgraph=True)
    held = Held()
    gone = weakref.ref(held)
    assert compiled(held) == 1
    del held
    gc.collect()
    assert gone() is None
