"""Programs whose later calls differ from the first: a compiled function must never answer with what was true before. PYTEST_DONT_REWRITE."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import Comparison, outcome

import framejit

x = torch.arange(6.0).reshape(2, 3)
Program = Callable[[Callable[..., Any]], list[Any]]


def versus(program: Program, stops: bool = False) -> None:
    """Run `program(compile)` eagerly and compiled; it makes its own state, and returns what it saw.

    Unless it `stops` (tracing is expected to stop somewhere), everything must have been compiled.
    """

    def run(wrap: Callable[..., Any]) -> list[Any]:
        def wrapped(fn: Callable[..., Any]) -> Callable[..., Any]:
            made = wrap(fn)

            def called(*args: Any, **kwargs: Any) -> Any:
                kind, value = outcome(made, args, kwargs)
                return (kind, type(value).__name__, value.args) if kind == "raised" else value

            return called

        return program(wrapped)

    framejit.reset()
    expected = run(lambda fn: fn)
    before = framejit.statistics()["fallbacks"]
    got = run(lambda fn: framejit.compile(fn, backend="eager"))
    Comparison().same(expected, got)
    reasons = framejit.statistics()["reasons"][before:]
    assert bool(reasons) == stops, reasons


@pytest.mark.parametrize("make", [lambda: int("1000"), lambda: "".join(["ab", "cd"]), lambda: tuple([1, 2]), lambda: float("nan")])
def test_identity_of_equal_values(make):
    def program(compile):
        f = compile(lambda a, b: (a is b, [a] == [b], a in [b], x + 1))
        one = make()
        return [f(one, one), f(one, make()), f(one, one), f(make(), make())]

    versus(program)


def test_cached_functions_whose_cache_shows():
    def counting(compile):
        calls = []

        @functools.lru_cache
        def cached(n):
            calls.append(n)
            return n + 1

        f = compile(lambda t: t + cached(1))
        return [f(x), f(x), calls]

    def mutable(compile):
        config = functools.lru_cache(lambda: [])
        f = compile(lambda t: (config().append(1), t + len(config())))
        return [f(x), f(x), config()]

    versus(counting, stops=True)
    versus(mutable, stops=True)


def test_finalizers_run_when_eager_runs_them():
    def program(compile):
        log = []

        class Loud:
            def __del__(self):
                log.append("gone")

        def f(t):
            Loud()
            log.append("after")
            return t + 1

        f = compile(f)
        return [f(x), log]

    versus(program, stops=True)


def test_generators_dropped_inside_try_run_their_handlers():
    def program(compile):
        log = []

        def numbers():
            try:
                yield 1
                yield 2
            finally:
                log.append("closed")

        def f(t):
            for n in numbers():
                break
            log.append("after")
            return t + n

        return [compile(f)(x), log]

    versus(program, stops=True)


def test_a_generator_just_started_takes_no_value():
    def numbers():
        yield 1

    def f(t):
        try:
            numbers().send(3)
        except TypeError as error:
            return t + 1, str(error)

    versus(lambda compile: [compile(f)(x)])


def test_exceptions_from_outside():
    def program(compile):
        f = compile(lambda t, e: (t + len(e.args), e.args, str(e), e.__cause__ is None))
        caused = ValueError("y", 1)
        caused.__cause__ = KeyError()
        return [f(x, ValueError("z")), f(x, ValueError("y")), f(x, ValueError("y", 1)), f(x, caused), f(x, KeyError("y"))]

    versus(program)


def test_raising_an_exception_from_outside_changes_it():
    def f(t, e):
        try:
            raise e
        except ValueError as caught:
            return t + 1, caught is e, e.__traceback__ is None

    versus(lambda compile: [compile(f)(x, ValueError("z"))], stops=True)


def test_a_caught_exception_keeps_its_traceback():
    def f(t):
        try:
            raise ValueError("a")
        except ValueError as error:
            return error

    versus(lambda compile: [[(e.name, e.lineno) for e in traceback.extract_tb(compile(f)(x).__traceback__)]])


def test_hashes_of_tuples_are_the_real_ones():
    versus(lambda compile: [compile(lambda t, k: (t + 1, hash(k), hash((k, 2))))(x, k) for k in [(1, "a"), (), ("b", (2.5, None))]])


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

    versus(program)


def test_order_of_equal_sets():
    def program(compile):
        f = compile(lambda t, s: (t + 1, list(s), 8 in s))
        other = {0}
        other.add(8)
        return [f(x, {8, 0}), f(x, other), f(x, frozenset({8, 0})), f(x, frozenset(other))]

    versus(program)


def test_equal_ranges():
    versus(lambda compile: [f(x, r) for f in [compile(lambda t, r: (t, r == range(0), r.start, repr(r)))] for r in (range(0), range(1, 1))])


def test_sorting_a_list_that_changes_meanwhile():
    def program(compile):
        def f(t, items):
            def key(item):
                items.append(item)
                return item

            try:
                items.sort(key=key)
            except ValueError as error:
                return t + 1, str(error), items

        def g(t, items):
            try:
                items.sort()
            except TypeError:
                return t + 1, items

        return [compile(f)(x, [2, 1]), compile(g)(x, [5, 4, 3, *range(70), "a", 1])]

    versus(program)


def test_sums_that_overflow():
    def f(t):
        try:
            return sum([2**2000, 1.0])
        except OverflowError as error:
            return t + 1, str(error)

    versus(lambda compile: [compile(f)(x)])


def test_printf_formatting_of_objects():
    class Shown:
        def __repr__(self):
            return "repr"

        def __str__(self):
            return "str"

    def attempt(template, values):
        try:
            return template % values
        except TypeError as error:
            return str(error)

    def f(t, shown):
        values = (shown, 3, [shown], t.shape)
        cases = [
            ("%s", shown), ("%8s|", shown), ("%r%%", shown), ("%s %05d %r %s", values), ("%s", values), ("%s %s %s %s %s", values), ("%d", shown),
            ("none", shown), ("%.2s", shown), ("%(a)s %(b)d", {"a": "x", "b": 2}), ("%*d", (4, 2)),
        ]  # fmt: skip
        return t + 1, [attempt(*case) for case in cases[:6] + cases[7:]]

    versus(lambda compile: [compile(f)(x, Shown())])


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

    versus(program)


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

    versus(program)


class Sized:
    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length


class Odd:
    """Whose special methods return whatever it was made with."""

    def __init__(self, value):
        self.value = value

    def __hash__(self):
        return self.value

    __int__ = __float__ = __str__ = __repr__ = __iter__ = __hash__

    def __format__(self, spec):
        return self.value


class Refusing:
    __iter__ = None
    __contains__ = None


def test_what_special_methods_may_return():
    def attempt(function, value):
        try:
            return function(value)
        except (TypeError, ValueError, OverflowError) as error:
            return str(error)

    def f(t):
        lengths = [attempt(function, Sized(n)) for n in (0, True, -1, 3, 2**70, "a") for function in (len, bool)]
        operations = (iter, list, lambda value: 1 in value)
        refused = [attempt(function, value) for value in (Refusing(), object()) for function in operations]
        texts = (hash, int, float, str, repr, iter, list, lambda value: f"{value}")
        return t + 1, lengths, refused, [attempt(function, Odd(v)) for v in (0, True, -1, 2**70, "a", None) for function in texts]

    versus(lambda compile: [compile(f)(x)])
