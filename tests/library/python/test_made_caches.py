"""functools.lru_cache of functions in compiled code: what is called how often, and what the cache says of it, is as in eager."""

from __future__ import annotations

import functools

import pytest
import torch
from agreement import agree, raising

import framejit

x = torch.arange(3.0)
CALLS = []


def recursive(t):
    @functools.lru_cache(None)
    def fibonacci(n):
        """Documented."""
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    return t * fibonacci(20), fibonacci.cache_info(), fibonacci.__name__, fibonacci.__doc__, fibonacci.__wrapped__(1), fibonacci.cache_parameters()


def keys(t):
    calls = []

    @functools.lru_cache
    def noted(*args, **kwargs):
        calls.append((args, kwargs))
        return [len(calls)]

    same = noted(1) is noted(1), noted(1) is noted(True), noted(1, 1) is noted(True, 1.0), noted(a=1, b=2) is noted(b=2, a=1), noted(t) is noted(t)
    noted(t + 1), noted("a", x=(1, 2)), noted("a", x=(1, 2)), noted()
    return same, calls, raising(lambda: noted([])), noted.cache_info().misses


def typed(t):
    @functools.lru_cache(maxsize=8, typed=True)
    def kind(n):
        return type(n).__name__

    return kind(1), kind(1.0), kind(True), kind(1), kind.cache_info(), t


def bounded(t):
    calls = []

    @functools.lru_cache(maxsize=2)
    def noted(n):
        calls.append(n)
        return t + n

    for n in (1, 2, 1, 3, 1, 2, 3, 3):
        noted(n)
    before = noted.cache_info()
    noted.cache_clear()
    noted(3)
    return calls, before, noted.cache_info()


def nothing_kept(t):
    calls = []
    noted = functools.lru_cache(maxsize=0)(lambda n: calls.append(n))
    noted(1), noted(1), noted([])
    return calls, noted.cache_info()


def errors(t):
    @functools.cache
    def failing(n):
        CALLS.append(n)
        raise ValueError(n)

    CALLS.clear()
    return raising(lambda: failing(1)), raising(lambda: failing(1)), len(CALLS), failing.cache_info()


def methods(t):
    class Table:
        @functools.lru_cache
        def row(self, n):
            return [t * n]

    table = Table()
    return table.row(2) is table.row(2), Table().row(2)[0], Table.row(table, 2) is table.row(2)


PROGRAMS = [recursive, keys, typed, bounded, nothing_kept, errors, methods]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_caches_that_the_call_makes(program):
    agree(program, x)


def test_a_cache_that_nothing_has_asked_is_returned():
    def program(t):
        return functools.lru_cache(maxsize=3)(lambda n: t * n)

    cached = framejit.compile(program, backend="eager", fullgraph=True)(x)
    assert torch.equal(cached(2), x * 2)
    assert cached(2) is cached(2)
    assert cached.cache_info()[:3] == (2, 1, 3)


def test_a_cache_with_results_that_outlives_the_call_is_made_by_the_program():
    def program(t):
        cached = functools.lru_cache(lambda n: [t * n])
        return cached, cached(2)

    cached, first = framejit.compile(program, backend="eager")(x)
    assert cached(2) is first
    assert cached.cache_info()[:2] == (1, 1)
    with pytest.raises(framejit.errors.FramejitError, match="outlive the call"):
        framejit.compile(program, backend="eager", fullgraph=True)(x)


def test_a_cache_that_lives_on_after_a_graph_break():
    def program(t):
        calls = []

        @functools.lru_cache
        def noted(n):
            calls.append(n)
            return t * n

        before = noted(1)
        framejit.graph_break()
        return noted(1) is before, noted(2), calls

    agree(program, x, fullgraph=False)
