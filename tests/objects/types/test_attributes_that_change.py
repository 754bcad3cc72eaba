"""Attributes of functions, classes, exceptions and slots that change between calls: a compiled function reads them anew."""

from __future__ import annotations

import torch
from agreement import agree_over_calls

x = torch.arange(6.0).reshape(2, 3)


def test_slots_that_are_unset():
    class Pair:
        __slots__ = ("one", "two")

    def step(t, pair):
        had = hasattr(pair, "two")
        pair.one = t
        pair.two = had
        del pair.one
        return t + 1, had, hasattr(pair, "one")

    def program(compile):
        f, pair = compile(step), Pair()
        return [f(x, pair), f(x, pair), f(x, Pair()), pair.two, hasattr(pair, "one")]

    agree_over_calls(program)


def test_exceptions_from_outside():
    def program(compile):
        f = compile(lambda t, e: (t + len(e.args), e.args, str(e), e.__cause__ is None))
        caused = ValueError("y", 1)
        caused.__cause__ = KeyError()
        return [f(x, ValueError("z")), f(x, ValueError("y")), f(x, ValueError("y", 1)), f(x, caused), f(x, KeyError("y"))]

    agree_over_calls(program)


def test_raising_an_exception_from_outside_changes_it():
    def f(t, e):
        try:
            raise e
        except ValueError as caught:
            return t + 1, caught is e, e.__traceback__ is None

    agree_over_calls(lambda compile: [compile(f)(x, ValueError("z"))], stops=True)


def test_names_of_functions():
    def program(compile):
        def helper(t):
            return t

        f = compile(lambda t: (helper(t), helper.__name__, helper.__doc__, helper.__annotations__))
        seen = [f(x)]
        helper.__name__ = "other"
        seen.append(f(x))
        helper.__doc__ = "text"
        seen.append(f(x))
        helper.__annotations__["t"] = int
        return [*seen, f(x)]

    agree_over_calls(program)


def test_names_of_classes():
    def program(compile):
        class Named:
            pass

        value = Named()
        f = compile(lambda t: (t + 1, type(value).__name__, Named.__qualname__, Named.__module__, Named.__doc__))
        seen = [f(x)]
        Named.__name__ = "Other"
        seen.append(f(x))
        Named.__doc__ = "text"
        Named.__module__ = "elsewhere"
        return [*seen, f(x)]

    agree_over_calls(program)


class Holder:
    failure = ValueError("kept", 1)

    @staticmethod
    def static():
        """Text."""


def test_exceptions_and_functions_that_classes_hold():
    def program(compile):
        f = compile(lambda t: (t + 1, Holder.failure.args, str(Holder.failure), Holder.static.__name__, Holder.static.__doc__))
        seen = [f(x)]
        Holder.failure.args = ("changed",)
        seen.append(f(x))
        Holder.failure.args = ("kept", 1)
        return seen

    agree_over_calls(program)
