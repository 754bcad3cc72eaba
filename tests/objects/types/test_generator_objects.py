"""Generators as objects in compiled functions: attributes, send, throw and close, names, cycles."""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
import inspect
import sys
import types

import pytest
import torch
from agreement import agree_in_text, agree_over_calls, tried

PROGRAMS = []


def program(function):
    PROGRAMS.append(function)
    return function


# generators
def gen(n=3):
    for i in range(n):
        r = yield i
        if r:
            yield ("got", r)
    return "end"


@program
def g1():
    g = gen()
    return (
        g.gi_frame is not None,
        g.gi_running,
        g.gi_yieldfrom,
        g.gi_code.co_name,
        g.__name__,
        g.__qualname__,
        next(g),
        g.gi_frame.f_lineno > 0,
        g.gi_suspended,
        list(g),
        g.gi_frame,
        g.gi_suspended,
    )


@program
def g2():
    g = gen()
    r = [next(g), g.send(5), next(g)]
    g.close()
    return r, tried(next, g), list(g), g.close()


@program
def g3():
    g = gen()
    return tried(g.send, 1), tried(g.throw, ValueError("x")), tried(next, g), tried(g.throw, ValueError), tried(g.send, None)


@program
def g4():
    def g():
        try:
            yield 1
        except ValueError as e:
            yield ("caught", str(e))
        finally:
            out.append("fin")

    out = []
    a = g()
    r = [next(a), a.throw(ValueError("v"))]
    r.append(tried(next, a))
    return r, out


@program
def g5():
    def g():
        try:
            yield 1
        except GeneratorExit:
            out.append("ge")
            return 7

    out = []
    a = g()
    next(a)
    return a.close(), out


@program
def g6():
    def g():
        try:
            yield 1
        except GeneratorExit:
            yield 2

    a = g()
    next(a)
    return tried(a.close)


@program
def g7():
    def g():
        yield from inner()

    def inner():
        x = yield 1
        out.append(x)
        return 3

    out = []
    a = g()
    r = next(a)
    y = a.gi_yieldfrom is not None
    return r, y, tried(a.send, 5), out


@program
def g8():
    def g():
        yield me.gi_running
        try:
            next(me)
        except ValueError as e:
            yield str(e)

    me = g()
    return list(me)


@program
def g9():
    def g():
        raise StopIteration(3)
        yield

    return tried(next, g())


@program
def g10():
    def g():
        return 5
        yield

    try:
        next(g())
    except StopIteration as e:
        return e.value, e.args


@program
def g11():
    g = (i for i in [1, 2])
    return (
        g.__name__,
        g.__qualname__,
        tried(setattr, g, "__name__", 3),
        setattr(g, "__name__", "zz"),
        g.__name__,
        type(g).__name__,
        iter(g) is g,
        hasattr(g, "__next__"),
        tried(setattr, g, "foo", 1),
        repr(g)[:19],
    )


@program
def g12():
    class C:
        pass

    def g():
        c = yield 1
        c.me = me
        yield 2

    me = g()
    c = C()
    next(me)
    me.send(c)
    return c.me is me


@program
def g13():
    def g():
        x = me
        yield 1
        yield x is me

    me = g()
    return next(me), next(me)


@program
def g14():
    g = gen()
    del g
    l = [gen()]
    l[0].__next__()
    l.append(l)
    return len(l)


@program
def g15():
    g = gen(2)
    h = gen(2)
    return (
        [*zip(g, h)],
        [*g],
        dict(zip("ab", gen(2))),
        sum(gen()),
        max(gen()),
        (1 in gen()),
        sorted(gen(), reverse=True),
        tuple(gen()),
        set(gen()),
    )


@program
def g16():
    def g():
        try:
            yield 1
        finally:
            out.append(sys.exc_info()[0])

    out = []
    a = g()
    next(a)
    del a
    return out


@program
def g17():
    g = gen()
    return tried(g.throw, 5), tried(g.throw, ValueError, 5), tried(g.throw, ValueError("a"), 5), tried(g.throw), tried(g.send)


@program
def g18():
    def g():
        yield 1

    a = g()
    b = copy.copy if 0 else None
    return tried(copy.copy, a), tried(len, a), tried(lambda: a[0]), tried(lambda: a + 1), bool(a), a == a, hash(a) == hash(a)


@program
def g19():
    def g():
        with contextlib.suppress(ValueError):
            yield 1
            raise ValueError
        yield 2

    return list(g())


@program
def g20():
    def outer():
        try:
            yield from inner()
        except KeyError:
            yield "ke"

    def inner():
        try:
            yield 1
        except ValueError:
            raise KeyError

    a = outer()
    return next(a), a.throw(ValueError), tried(next, a)


@program
def g21():
    def g():
        yield 1

    a = g()
    next(a)
    return inspect.getgeneratorstate(a), inspect.isgenerator(a), inspect.isgeneratorfunction(g)


@program
def g22():
    def g():
        r = yield from [1, 2]
        yield r

    a = g()
    return next(a), tried(a.send, 3)


@program
def g22_what_is_delegated_to():
    def g(iterable):
        yield from iterable

    def sent(iterable):
        a = g(iterable)
        value = next(a)
        try:
            a.send(3)
        except AttributeError as error:
            return value, str(error), error.name, type(error.obj).__name__, error.obj is iterable

    def thrown(iterable):
        a = g(iterable)
        next(a)
        return tried(a.throw, ValueError("thrown")), list(a)

    class Listed(list):
        pass

    made = [1, 2]
    held = g(made)
    made.append(held)
    first = next(held)
    kinds = (made, (1, 2), "ab", "é", b"ab", range(3), Listed([1]), iter([1, 2]), {1: 2}, {1})
    return [sent(kind) for kind in kinds], [thrown(kind) for kind in ([1, 2], "ab", range(3))], first, next(held), next(held) is held


@program
def g22_a_break_while_it_delegates():
    def g(iterable):
        yield from iterable

    held = [g([1, 2, 3]), g((1, 2, 3)), g("abc"), g(b"abc")]
    taken = [next(a) for a in held]
    own = [1, 2, 3]
    own.append(g(own))
    taken.append(next(own[3]))
    torch._dynamo.graph_break()
    return taken, [list(a) for a in held], next(own[3]), next(own[3]), next(own[3]) is own[3]


@program
def g23():
    def g():
        yield from It()

    class It:
        def __iter__(s):
            return s

        def __next__(s):
            return 1

        def send(s, v):
            return ("sent", v)

        def throw(s, *a):
            return ("thrown", len(a))

        def close(s):
            out.append("closed")

    out = []
    a = g()
    r = [next(a), a.send(4), a.throw(ValueError), a.close()]
    return r, out


@program
def cyc():
    fin = []

    def gen():
        try:
            g = yield
            yield 1
        finally:
            fin.append(1)

    g = gen()
    next(g)
    r = g.send(g)
    a = list(fin)
    del g
    gc.collect()
    return r, a, fin


@program
def cyc2():
    def gen():
        g = yield
        yield g is me

    g = me = gen()
    next(g)
    return g.send(g), g.gi_frame is not None


@program
def cyc3():
    def gen():
        g = yield 1
        h = yield 2
        yield len(g)

    a = gen()
    b = gen()
    next(a)
    next(b)
    a.send((b,))
    b.send([a])
    return a.send(3), b.send(4), a.gi_running


@program
def names():
    def func():
        yield 1

    g = func()
    func.__name__ = "nn"
    func.__qualname__ = "qq"
    h = func()
    return g.__name__, g.__qualname__, h.__name__, h.__qualname__, next(h)


def deco(f):
    @functools.wraps(f)
    def w(*a):
        yield from f(*a)

    return w


@deco
def wrapped(x):
    yield x


@program
def names2():
    g = wrapped(3)
    return g.__name__, g.__qualname__, list(g)


@program
def throw():
    class E(Exception):
        def __new__(cls, *a):
            return cls

    def gen():
        yield 1

    g = gen()
    r = [tried(g.throw, E), tried(next, g)]
    h = gen()
    r.append(tried(h.throw, ValueError("a"), 5))
    k = gen()
    next(k)
    r += [tried(k.throw, 5), tried(k.throw, ValueError, "x", None), tried(next, k)]
    return r


async def answers():
    return "answer"


async def fails():
    raise KeyError(1)


@program
def coroutines_in_generators():
    def plain(coroutine):
        yield from coroutine

    @types.coroutine
    def of_coroutines(coroutine):
        return (yield from coroutine)

    @types.coroutine
    def handles(coroutine):
        try:
            yield from coroutine
        except KeyError as error:
            return error.args

    r = []
    for function, make in ((plain, answers), (of_coroutines, answers), (of_coroutines, fails), (handles, fails)):
        coroutine = make()
        r.append(ended(function(coroutine)))
        coroutine.close()
    return r, tried(list, of_coroutines([1, 2])), tried(list, of_coroutines(5))


def ended(generator):
    try:
        return generator.send(None)
    except StopIteration as stop:
        return "returned", stop.value
    except (TypeError, KeyError) as error:
        return repr(error)


class Closes:
    """An iterator with a `close()` that is seen to be called."""

    def __init__(self, log):
        self.log = log

    def __iter__(self):
        return self

    def __next__(self):
        return 1

    def close(self):
        self.log.append("closed")


def delegates(log):
    yield from Closes(log)


def delegates_inside_try(log):
    try:
        yield from Closes(log)
    except IndexError:
        log.append("never")


@program
def dropped_while_they_delegate():
    log = []
    for make in (delegates, delegates_inside_try):
        next(make(log))
        log.append("dropped")
        next(value for value in make(log) if value)
        log.append("dropped inside another")
        next(make(log) if log else None)
        for _ in zip(range(2), make(log)):
            pass
        log.append("dropped by zip")
        list(zip([1, 2], delegates_to_list()))
    return log


def delegates_to_list():
    yield from [1, 2, 3]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_generators(program):
    agree_in_text(program)


def test_a_generator_closed_before_it_has_started_gives_nothing():
    def f(t):
        made = (t + i for i in range(3))
        made.close()
        made.close()
        return t + 1, list(made), next(made, 5)

    agree_over_calls(lambda compile: [compile(f)(torch.ones(2))])


def test_a_generator_just_started_takes_no_value():
    def numbers():
        yield 1

    def f(t):
        try:
            numbers().send(3)
        except TypeError as error:
            return t + 1, str(error)

    agree_over_calls(lambda compile: [compile(f)(torch.ones(2))])
