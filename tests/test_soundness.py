"""Programs whose later calls differ from the first: a compiled function must never answer with what was true before. PYTEST_DONT_REWRITE."""

from __future__ import annotations

import contextlib
import enum
import functools
import inspect
import math
import os
import tempfile
import traceback
import types
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import Comparison, outcome
from torch import nn

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


Setting = 3
LOG: list[int] = []


def scaled(n, by=2, *, plus=1):
    return n * by + plus


def set_setting(value):
    global Setting
    Setting = value


def captured():
    n = 4
    return lambda k: k + n


def noted(n):
    LOG.append(n)
    return n


class Stretched:
    factor = 2

    def __init__(self):
        self.size = 3

    def own(self, n):
        return self.size + n

    def shared(self, n):
        return self.factor + n

    def neither(self, n):
        return n + 1


@pytest.mark.parametrize("function", [
    lambda n: n + Setting, captured(), noted, lambda n: torch.zeros(n), lambda n: [n], lambda n: (n, [n]), lambda n: torch.get_default_dtype(),
    lambda n: torch.is_grad_enabled(), lambda n: os.environ.get("FRAMEJIT_TEST"), lambda n: print(n), lambda n, seen=[]: seen.append(n) or len(seen),
    lambda n: LOG[0] if LOG else n, lambda n: Stretched.factor,
])  # fmt: skip
def test_the_cache_is_asked_for_what_may_have_changed(function, monkeypatch):
    def program(compile):
        LOG.clear()
        if function.__defaults__:
            function.__defaults__[0].clear()
        cached = functools.lru_cache(function)
        f = compile(lambda t, n: (t + 1, cached(n)))
        seen = [f(x, 2), f(x, 2)]
        monkeypatch.setitem(globals(), "Setting", 8)
        monkeypatch.setenv("FRAMEJIT_TEST", "1")
        monkeypatch.setattr(Stretched, "factor", 5)
        LOG.append(9)
        with torch.no_grad():
            seen += [f(x, 2), f(x, 3)]
        monkeypatch.undo()
        cached.cache_clear()
        seen += [f(x, 2), f(x, 3), tuple(cached.cache_info())]
        return [*seen, LOG[:], seen[0][1] is seen[1][1]]

    versus(program, stops=True)


@pytest.mark.parametrize("function, arguments", [
    (scaled, (3,)), (lambda n: scaled(n, by=3), (3,)), (lambda text, mark=",": tuple(map(int, text.split(mark))), ("1,2",)),
    (lambda d: torch.finfo(d).min, (torch.float32,)), (lambda n: math.floor(math.pi * n), (2,)), (lambda shape, n: shape[0] * n, ((2, 3), 4)),
    (lambda n: torch.float32 if n else torch.int64, (1,)), (lambda kind: kind.__name__, (int,)), (Stretched.neither, (Stretched(), 1)),
])  # fmt: skip
def test_functions_that_only_their_arguments_decide_are_traced_behind_their_cache(function, arguments):
    def program(compile):
        cached = functools.lru_cache(function)
        f = compile(lambda t: (t + 1, cached(*arguments)))
        return [f(x), f(x)]

    versus(program)


def test_cached_functions_made_in_compiled_code():
    def program(compile):
        calls = []

        def f(t):
            @functools.lru_cache(None)
            def fibonacci(n):
                calls.append(n)
                return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

            t = t + fibonacci(6)
            return t * fibonacci(7), fibonacci.cache_info()

        return [compile(f)(x), calls]

    versus(program, stops=True)


def test_a_cached_function_that_claims_to_wrap_another():
    def program(compile):
        cached = functools.lru_cache(lambda n: n + 1)
        f = compile(lambda t: t + cached(1))
        before = f(x)
        cached.__wrapped__ = lambda n: n + 100
        return [before, f(x), compile(lambda t: t * cached(2))(x)]

    versus(program, stops=True)


def test_cached_methods_of_objects_that_change():
    def program(compile):
        seen = []
        for name in ("own", "shared"):
            cls = type("Made", (Stretched,), {name: functools.lru_cache(getattr(Stretched, name))})
            made = cls()
            f = compile(lambda t: (t + 1, getattr(made, name)(1)))
            seen += [f(x), f(x)]
            made.size = cls.factor = 7
            seen += [f(x), f(x)]
        return seen

    versus(program, stops=True)


def test_a_cached_function_after_the_trace_has_changed_what_it_reads():
    cached = functools.lru_cache(lambda: Setting)

    def step(t):
        before = cached()
        set_setting(Setting + 1)
        return t + 1, before, cached()

    def program(compile):
        set_setting(3)
        cached.cache_clear()
        f = compile(step)
        seen = [f(x), f(x), Setting]
        set_setting(3)
        return seen

    versus(program, stops=True)


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

    versus(program)


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


def lets_go_of_locals(log, held, t):
    g = held(log)
    log.append("in")
    framejit.graph_break()
    log.append("out")
    return t + 1


def lets_go_by_assignment(log, held, t):
    g = held(log)
    t = t + 1
    log.append("in")
    g = None
    log.append("out")
    return t + 1, g


def lets_go_by_deletion(log, held, t):
    g = held(log)
    log.append("in")
    kept = (g,)
    del g
    log.append("kept")
    del kept
    log.append("out")
    return t + 1


def lets_go_of_cells(log, held, t):
    g = held(log)

    def inner():
        return g

    log.append("in")
    g = inner() is None
    log.append("out")
    return t + 1


def lets_go_in_called_functions(log, held, t):
    def use(g, t):
        log.append("in")
        return t + 1

    t = use(held(log), t) * 2
    log.append("out")
    return t + 1


def lets_go_inside_called_functions(log, held, t):
    def use(g, t):
        g = None
        log.append("in")
        return t + 1, g

    def use_after_a_break(g, t):
        framejit.graph_break()
        for i in range(2):
            g = held(log) if i == 0 else None
            log.append(i)
        return t + 1, g

    def between(t):
        log.append("between")
        t, _ = use_after_a_break(held(log), t)
        log.append("behind")
        return t

    t = use(held(log), t)[0] * 2
    t = between(t) * 3
    log.append("out")
    return t + 1


def lets_go_in_a_loop(log, held, t):
    for i in range(3):
        g = held(log)
        log.append(i)
        t = t + 1
    log.append("out")
    return t


def lets_go_when_raising(log, held, t):
    def refuse(g):
        log.append("in")
        raise ValueError

    try:
        refuse(held(log))
    except ValueError:
        log.append("handled")
        t = t + 1
    log.append("out")
    return t


def lets_go_from_a_dict(log, held, t):
    kept = {1: held(log)}
    log.append("in")
    kept.clear()
    log.append("out")
    return t + 1


def lets_go_of_wrappers(log, held, t):
    for i, g in zip(range(3), [held(log), held(log)]):
        log.append(i)
        t = t + 1
    log.append("out")
    g = None
    log.append("end")
    return t


def lets_go_of_a_variable_that_another_function_sets(log, held, t):
    kept = None

    def store():
        nonlocal kept
        kept = held(log)
        return t + 1

    def store_inside():
        return (lambda: store())() * 2

    t = store()
    log.append("once")
    t = store_inside()
    log.append("twice")
    store = None
    framejit.graph_break()
    log.append("out")
    return t


def lets_go_with_the_exception(log, held, t):
    def refuse():
        g = held(log)
        raise ValueError

    try:
        refuse()
    except ValueError:
        log.append("handled")
        framejit.graph_break()
        log.append("still")
    log.append("out")
    return t + 1


def lets_go_with_the_exception_raised_again(log, held, t):
    def refuse():
        try:
            raise ValueError
        except ValueError:
            g = iter([held(log)])
            raise

    try:
        try:
            refuse()
        finally:
            log.append("finally")
    except ValueError:
        log.append("handled")
        t = t + 1
    log.append("out")
    return t


def lets_go_with_a_kept_exception(log, held, t):
    def refuse():
        try:
            raise ValueError
        except ValueError as error:
            g = held(log)
            raise KeyError from error

    try:
        refuse()
    except KeyError as error:
        kept = error
    framejit.graph_break()
    log.append("kept")
    kept = None
    log.append("out")
    return t + 1, kept


PROGRAMS_THAT_LET_GO = (
    lets_go_of_locals, lets_go_by_assignment, lets_go_by_deletion, lets_go_of_cells, lets_go_in_called_functions,
    lets_go_inside_called_functions, lets_go_in_a_loop, lets_go_when_raising, lets_go_from_a_dict, lets_go_of_wrappers,
    lets_go_of_a_variable_that_another_function_sets, lets_go_with_the_exception, lets_go_with_the_exception_raised_again,
    lets_go_with_a_kept_exception,
)  # fmt: skip


class Loud:
    def __init__(self, log):
        self.log = log

    def __del__(self):
        self.log.append("gone")


def waiting(log):
    try:
        yield
    finally:
        log.append("gone")


def begun_generator(log):
    made = waiting(log)
    next(made)
    return made


def begun_generator_in_an_iterator(log):
    return enumerate(begun_generator(log))


@pytest.mark.parametrize("held", [Loud, begun_generator, begun_generator_in_an_iterator], ids=lambda held: held.__name__)
@pytest.mark.parametrize("program", PROGRAMS_THAT_LET_GO, ids=lambda program: program.__name__)
def test_what_runs_at_the_end_of_a_value_runs_in_its_place(program, held):
    make = framejit.disable(held) if held is not Loud else lambda log: framejit.disable(Loud)(log)

    def steps(compile):
        f, log = compile(program), []
        return [f(log, make, x), f(log, make, x), log]

    versus(steps, stops=True)


def leaves_by_break(log, numbers, t):
    for number in numbers(log, t):
        framejit.graph_break()
        try:
            t = t + number
            if len(log) > 2:
                break
        finally:
            log.append("inner")
    log.append("left")
    return t


def leaves_by_return(log, numbers, t):
    def first():
        for number in numbers(log, t):
            log.append("first")
            framejit.graph_break()
            return number
        return t

    t = first() + 1
    log.append("left")
    return t


def leaves_by_exception(log, numbers, t):
    try:
        for number in numbers(log, t):
            t = t + number
            framejit.graph_break()
            if number.shape[0] == 2:
                raise ValueError(number)
    except ValueError:
        log.append("handled")
    return t + 1


def guarded(log, t):
    try:
        log.append("begun")
        yield t
        yield t + 1
        with torch.no_grad():
            yield t + 2
    finally:
        log.append("ended")


def breaking(log, t):
    with torch.no_grad():
        framejit.graph_break()
        yield t
    try:
        yield t * 2
        log.append("second")
    except GeneratorExit:
        log.append("exit")
        raise


def breaking_inside_try(log, t):
    try:
        framejit.graph_break()
        yield t
        yield t + 1
    finally:
        log.append("ended")


@pytest.mark.parametrize("numbers", [guarded, breaking], ids=lambda numbers: numbers.__name__)
@pytest.mark.parametrize("program", [leaves_by_break, leaves_by_return, leaves_by_exception], ids=lambda program: program.__name__)
def test_loops_that_leave_generators_inside_try(program, numbers):
    def steps(compile):
        f, log = compile(program), []
        return [f(log, numbers, x), torch.is_grad_enabled(), f(log, numbers, x), torch.is_grad_enabled(), log]

    versus(steps, stops=True)
    assert framejit.statistics()["fallbacks"] == 0


def takes_the_first(log, numbers, t):
    number = next(numbers(log, t))
    log.append("after")
    return t + number


def takes_the_first_of_each(log, numbers, t):
    return [next(numbers(log, t * i)) for i in range(3)], log.append("after")


def leaves_the_loop(log, numbers, t):
    for number in numbers(log, t):
        break
    log.append("after")
    return t + number


def leaves_the_loop_behind_a_break(log, numbers, t):
    made = numbers(log, t)
    number = next(made)
    framejit.graph_break()
    log.append("behind")
    made = None
    log.append("after")
    return t + number, made


def keeps_it_in_a_variable(log, numbers, t):
    made = numbers(log, t)
    log.append(tuple(next(made).shape))
    log.append("after")
    return t + 1


def keeps_it_in_a_list(log, numbers, t):
    made = [numbers(log, t)]
    log.append(tuple(next(made[0]).shape))
    log.append("after")
    return t + 1


def keeps_it_in_a_list_from_before_a_break(log, numbers, t):
    made = []
    framejit.graph_break()
    made.append(numbers(log, t))
    log.append(tuple(next(made[0]).shape))
    log.append("after")
    return t + 1


def keeps_it_in_an_object(log, numbers, t):
    made = types.SimpleNamespace()
    made.numbers = numbers(log, t)
    log.append(tuple(next(made.numbers).shape))
    log.append("after")
    return t + 1


def keeps_it_in_a_wrapper(log, numbers, t):
    made = map(torch.neg, numbers(log, t))
    log.append(tuple(next(made).shape))
    log.append("after")
    return t + 1


def keeps_it_in_a_method(log, numbers, t):
    step = numbers(log, t).__next__
    log.append(tuple(step().shape))
    log.append("after")
    return t + 1


def keeps_it_in_a_cell(log, numbers, t):
    made = None
    framejit.graph_break()

    def make():
        nonlocal made
        made = numbers(log, t)

    make()
    log.append(tuple(next(made).shape))
    log.append("after")
    return t + 1


def keeps_it_in_a_caller(log, numbers, t):
    def first(made):
        log.append(tuple(next(made).shape))
        return t + 1

    made = numbers(log, t)
    t = first(made)
    log.append("between")
    t = t + first(numbers(log, t))
    log.append("after")
    return t


PROGRAMS_THAT_TAKE_SOME = (
    takes_the_first, takes_the_first_of_each, leaves_the_loop, leaves_the_loop_behind_a_break, keeps_it_in_a_variable, keeps_it_in_a_list,
    keeps_it_in_a_list_from_before_a_break, keeps_it_in_an_object, keeps_it_in_a_wrapper, keeps_it_in_a_method, keeps_it_in_a_cell,
    keeps_it_in_a_caller,
)  # fmt: skip


@pytest.mark.parametrize("numbers", [guarded, breaking_inside_try], ids=lambda numbers: numbers.__name__)
@pytest.mark.parametrize("program", PROGRAMS_THAT_TAKE_SOME, ids=lambda program: program.__name__)
def test_generators_dropped_inside_try_run_their_handlers(program, numbers):
    def steps(compile):
        f, log, states = compile(program), [], []
        for _ in range(3):
            states.append((f(log, numbers, x), log[:], log.clear()))
        return states

    versus(steps, stops=True)
    assert framejit.statistics()["fallbacks"] == 0 and framejit.statistics()["graphs"] > 0


def test_variables_that_nothing_reads_any_more_keep_what_nobody_has_looked_at():
    make = framejit.disable(lambda log, kind: None if kind is None else kind(log))

    def ends(log, kind, t):
        made = make(log, kind)
        framejit.graph_break()
        log.append("first")
        framejit.graph_break()
        log.append("second")
        return t + 1

    def program(compile):
        f, log = compile(ends), []
        return [f(log, kind, x) for kind in (None, begun_generator, None, Loud, begun_generator)], log

    versus(program, stops=True)


def test_a_generator_closed_before_it_has_started_gives_nothing():
    def f(t):
        made = (t + i for i in range(3))
        made.close()
        made.close()
        return t + 1, list(made), next(made, 5)

    versus(lambda compile: [compile(f)(x)])


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


def places(tb):
    return [(entry.name.partition(" (resumed at")[0], entry.lineno) for entry in traceback.extract_tb(tb) if entry.filename == __file__]


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
    versus(lambda compile: [(f := compile(program))(x), f(x)], stops=True)


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
        return t + 1, lengths, refused, [attempt(function, Odd(v)) for function, v in texts]

    functions = (hash, int, float, str, repr, iter, list, lambda value: f"{value}")
    # CPython warns of an `__int__` that returns a bool: tests/test_exceptions.py has it.
    texts = [(function, v) for v in (0, True, -1, 2**70, "a", None) for function in functions if not (function is int and v is True)]
    versus(lambda compile: [compile(f)(x)])


class Plain:
    """Hashes by identity."""


KEYS: dict[str, Callable[[], Any]] = {
    "tensors": lambda: torch.ones(1), "objects": Plain, "modules": lambda: nn.Linear(1, 1), "functions": lambda: lambda: 1,
    "methods": lambda: Plain().__init__, "tuples": lambda: (Plain(), 1),
}  # fmt: skip


@pytest.mark.parametrize("kind", KEYS)
def test_keys_by_identity_may_be_one_object_in_the_next_call(kind):
    def f(t, a, b):
        looked_up = {a: 1, b: 2}[a], a in {b: 1}, {}.get(a), dict.fromkeys([a, b]).keys() == {a}
        return t + 1, looked_up, len({a, b}), {a} == {b}, len({a} | {b}), {a}.isdisjoint([b]), frozenset([a]) == frozenset([b])

    def program(compile):
        compiled, one, other = compile(f), KEYS[kind](), KEYS[kind]()
        return [compiled(x, *pair) for pair in ((one, other), (one, one), (other, one), (other, other))]

    versus(program)


def test_weak_references_are_keys_by_what_they_refer_to():
    def f(t, a, b):
        return t + 1, {a: 1, b: 2}[a], len({a, b}), a in {b: 1}

    one, other = Plain(), Plain()
    pairs = [(weakref.ref(one), weakref.ref(other)), (weakref.ref(one), weakref.ref(one, print)), (weakref.ref(one), weakref.ref(one))]
    compiled = framejit.compile(f, backend="eager")
    for pair in pairs:
        assert compiled(x, *pair)[1:] == f(x, *pair)[1:]


def test_weights_may_come_to_be_shared():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(1, 1), nn.Linear(1, 1)

        def forward(self, t):
            seen = set()
            for layer in (self.first, self.second):
                seen.add(layer)
            return t + 1, len(seen), len(set(self.parameters()))

    def program(compile):
        net = Net()
        compiled = compile(net)
        results = [compiled(x)]
        net.second.weight = net.first.weight
        results.append(compiled(x))
        net.second = net.first
        return [*results, compiled(x)]

    versus(program)


def weak_reference(log, t):
    kept = Plain()
    reference = weakref.ref(kept)
    framejit.graph_break()
    log.append(reference() is None)
    kept = None
    log.append(reference() is None)
    return t + 1


def weak_reference_with_a_callback(log, t):
    kept = Plain()
    reference = weakref.ref(kept, lambda _: log.append("gone"))
    framejit.graph_break()
    del kept
    log.append("after")
    return t + 1


def finalizer(log, t):
    kept = Plain()
    weakref.finalize(kept, log.append, "gone")
    log.append("made")
    kept = None
    log.append("after")
    return t + 1


def temporary_directory(log, t):
    made = tempfile.TemporaryDirectory()
    path = made.name
    framejit.graph_break()
    log.append(os.path.isdir(path))
    return t + 1


def open_file(log, t):
    opened = open(__file__)
    number = opened.fileno()
    framejit.graph_break()
    log.append(os.fstat(number).st_size > 0)
    return t + 1


def weak_values(log, t):
    values = weakref.WeakValueDictionary()
    kept = values["first"] = Plain()
    framejit.graph_break()
    log.append(list(values))
    for i in range(3):
        kept = values[i] = Plain()
        framejit.graph_break()
        log.append(len(values))
    del kept
    return t + len(values)


def weak_keys(log, t):
    keys, kept = weakref.WeakKeyDictionary(), Plain()
    keys[kept] = 1
    log.append(len(keys))
    del kept
    return t + len(keys)


def weak_references_in_a_loop(log, t):
    references = []
    for _ in range(3):
        kept = Plain()
        references.append(weakref.ref(kept))
        framejit.graph_break()
        log.append([reference() is None for reference in references])
    return t + 1


WEAKLY_HELD = (
    weak_reference, weak_reference_with_a_callback, finalizer, temporary_directory, open_file, weak_values, weak_keys, weak_references_in_a_loop,
)  # fmt: skip


@pytest.mark.parametrize("f", WEAKLY_HELD, ids=lambda f: f.__name__)
def test_what_weak_references_and_files_show(f):
    def program(compile):
        compiled, logs = compile(f), []
        for _ in range(3):
            log: list[Any] = []
            compiled(log, x)
            logs.append(log)
        return logs

    versus(program, stops=True)


class Doubling(type):
    def __getattribute__(cls, name):
        found = super().__getattribute__(name)
        return found * 2 if name == "size" else found

    def __getattr__(cls, name):
        return len(name)


class Measured(metaclass=Doubling):
    size = 3


class Talking(enum.Enum):
    RED = 1
    GREEN = 2

    @classmethod
    def _missing_(cls, value):
        NOTED.append(value)
        return cls.RED if len(NOTED) % 2 else cls.GREEN

    def __str__(self):
        NOTED.append(self.name)
        return f"talking {self.name}"


class Listing(enum.Enum):
    ITEMS = [1]


class Three(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        return t * (3 if ctx.needs_input_grad[0] else 2)

    @staticmethod
    def backward(ctx, grad):
        return grad


class Slot:
    __slots__ = ("value",)


class BadIndex:
    def __index__(self):
        return "a"  # noqa: PLE0305


NOTED: list[Any] = []


def reads_a_class(t):
    return t * Measured.size, Measured.other


def asks_an_enum(t):
    return t * Talking(7).value, Talking(2).value, Talking["RED"].value, [member.name for member in Talking], len(NOTED)


def formats_an_enum(t):
    return t, f"{Talking.RED} {Talking.RED!s}", "%s" % Talking.RED, "%s" % (Talking.GREEN,), "{}".format(Talking.RED), str(Talking.RED), len(NOTED)


def shows_an_enum(t):
    Listing.ITEMS.value.append(len(NOTED))
    return t, repr(Listing.ITEMS), f"{Listing.ITEMS!r}"


def applies_a_function(t):
    needed = t.clone().requires_grad_()
    with torch.no_grad():
        return Three.apply(needed), Three.apply(t)


def unsets_a_slot(t):
    slot, results = Slot(), []
    slot.value = 1
    for _ in range(2):
        try:
            del slot.value
        except AttributeError as error:
            results.append(str(error))
    return t, results


def sorts_by_comparison(t):
    key = functools.cmp_to_key(lambda a, b: (NOTED.append((a, b)), framejit.graph_break(), b - a)[-1])
    return t + 1, sorted([3, 1, 2], key=key), key(1) < key(2), max([1, 3, 2], key=key)


def indexes_badly(t):
    try:
        return [1][BadIndex()]
    except TypeError as error:
        return t, str(error)


TRACED = (reads_a_class, applies_a_function, unsets_a_slot, indexes_badly)
SPLIT = (asks_an_enum, formats_an_enum, shows_an_enum, sorts_by_comparison)


@pytest.mark.parametrize("function", [*TRACED, *SPLIT], ids=lambda function: function.__name__)
def test_what_runs_the_programs_code_out_of_sight(function):
    def program(compile):
        NOTED.clear()
        Listing.ITEMS.value[:] = [1]
        compiled = compile(function)
        return [compiled(x), compiled(x), compiled(x), NOTED[:]]

    versus(program, stops=function in SPLIT)


def test_a_signature_that_changes():
    def program(compile):
        def target(a, b=1):
            return a

        def f(t):
            return t + inspect.signature(target).parameters["b"].default, list(inspect.signature(target).parameters)

        compiled = compile(f)
        results = [compiled(x)]
        target.__defaults__ = (5,)
        results.append(compiled(x))
        target.__code__ = (lambda c, b: c).__code__
        return [*results, compiled(x)]

    versus(program)


def test_a_grad_of_another_type_is_carried():
    def program(compile):
        layer = nn.Linear(3, 3)
        nn.init.ones_(layer.weight), nn.init.ones_(layer.bias)
        layer(x).sum().backward()
        compiled = compile(lambda layer, t: (layer.double()(t.double()), layer.weight.grad.dtype))
        return [compiled(layer, x), compiled(layer, x)]

    versus(program, stops=True)
