"""Functions behind functools.lru_cache: the program's cache answers as it does in eager, for numbers and for libraries. It is asked by guards."""

from __future__ import annotations

import functools
import math
import os
import types

import pytest
import torch
from agreement import agree_over_calls

import framejit
from framejit.program import code_kinds

x = torch.arange(6.0).reshape(2, 3)


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

    agree_over_calls(counting, stops=True)
    agree_over_calls(mutable, stops=True)


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
        seen += [f(x, 2), f(x, 3), tuple(cached.cache_info())[1:]]
        return [*seen, LOG[:], seen[0][1] is seen[1][1]]

    agree_over_calls(program, stops=True)


@pytest.mark.parametrize("function, arguments", [
    (lambda n: scaled(n, by=3), (3,)), (lambda text, mark=",": tuple(map(int, text.split(mark))), ("1,2",)),
    (lambda d: torch.finfo(d).min, (torch.float32,)), (lambda shape, n: shape[0] * n, ((2, 3), 4)),
    (lambda n: torch.float32 if n else torch.int64, (1,)), (lambda kind: kind.__name__, (int,)), (Stretched.neither, (Stretched(), 1)),
])  # fmt: skip
def test_functions_of_the_program_behind_a_cache_that_compute_more_than_a_number(function, arguments):
    def program(compile):
        cached = functools.lru_cache(function)
        f = compile(lambda t: (t + 1, cached(*arguments)))
        return [f(x), f(x), cached.cache_info()]

    agree_over_calls(program)


@pytest.mark.parametrize("function, arguments", [
    (scaled, (3,)), (scaled, (2.5, 3)), (lambda n: math.floor(math.pi * n), (2,)), (lambda name: len(name) % 2, ("conv",)), (lambda n: n + Setting, (1,)),
    (lambda n: None if n > 3 else n / 2, (3,)), (lambda flag, text: text if flag else "", (True, "a")),
])  # fmt: skip
def test_caches_of_numbers_are_asked_by_guards(function, arguments):
    def program(compile):
        cached = functools.lru_cache(function)
        f = compile(lambda t: (t + 1, cached(*arguments)))
        return [f(x), f(x), tuple(cached.cache_info())[1:]]

    agree_over_calls(program)


def test_a_cache_answers_with_what_it_has():
    """Also with what was computed before a global changed, or for an argument that is equal; and with what is new after it was cleared."""

    def program(compile):
        cached, other = functools.lru_cache(lambda n: n + Setting), functools.lru_cache(lambda n, k: n * k)
        f = compile(lambda t: (t * cached(1), cached(1), other(1, 2), other(2, 0.0)))
        set_setting(3)
        seen = [other(1.0, 2), other(2, -0.0), f(x)]
        set_setting(8)
        seen += [f(x)]
        cached.cache_clear(), other.cache_clear()
        seen += [f(x), f(x)]
        set_setting(3)
        return seen

    agree_over_calls(program)


def test_numbers_that_vary_are_computed_natively():
    def program(compile):
        cached = functools.lru_cache(lambda n: n * 2)
        f = compile(lambda t: t * cached(t.shape[0]) + 1)
        return [f(torch.ones(n)) for n in range(2, 20)]

    agree_over_calls(program, stops=True)
    assert framejit.statistics()["fallbacks"] == 0


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

    agree_over_calls(program)


def test_a_cached_function_that_claims_to_wrap_another():
    def program(compile):
        cached = functools.lru_cache(lambda n: n + 1)
        f = compile(lambda t: t + cached(1))
        before = f(x)
        cached.__wrapped__ = lambda n: n + 100
        return [before, f(x), compile(lambda t: t * cached(2))(x)]

    agree_over_calls(program, stops=True)


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

    agree_over_calls(program)


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

    agree_over_calls(program)


LIBRARY = """
import functools

FOUND = False
KEEP = []

@functools.lru_cache
def is_there(name, strict=False):
    return FOUND and name in missing

@functools.lru_cache
def length(key):
    return len(KEEP)

def count(log):
    KEEP.append(len(log))
    return length(len(KEEP))
"""


def test_caches_of_libraries_behind_changes():
    """A library's cached function that reads only constants of its module may be called while tracing; one that reads more is called natively, in order."""

    def program(run):
        module, log = types.ModuleType("a_library"), []
        exec(compile(LIBRARY, code_kinds.INSTALLED[0] + "a_library.py", "exec"), vars(module))

        def f(t):
            log.append(1)
            return t + module.is_there("a"), module.count(log), log

        return [run(f)(x), run(f)(x)]

    agree_over_calls(program, stops=True)
    reasons = framejit.statistics()["reasons"]
    assert len(reasons) == 1 and "FJ026 call of length" in reasons[0], reasons


LIBRARY_OF_PARTS = """
import functools

class Owner:
    def __init__(self, parts):
        self.parts = parts

@functools.lru_cache
def parts_of(owner):
    return tuple(owner.parts)
"""


def test_what_a_cache_of_a_library_has_is_read_behind_changes():
    """The result of a call whose arguments are in the cache is known, no matter what has been changed since; without one, the call is made in its place."""

    def program(run):
        module, log = types.ModuleType("a_library"), []
        exec(compile(LIBRARY_OF_PARTS, code_kinds.INSTALLED[0] + "a_library.py", "exec"), vars(module))
        owner, other = module.Owner([1, 2]), module.Owner([5])
        seen = [module.parts_of(owner)]

        def f(t, owner):
            log.append(1)
            found = module.parts_of(owner)
            return t + len(found) + sum(found), found is module.parts_of(owner)

        compiled = run(f)
        seen += [compiled(x, owner), compiled(x, owner), len(log)]
        assert framejit.statistics()["graph_breaks"] == 0, framejit.statistics()["reasons"]
        owner.parts.append(3)
        seen += [compiled(x, owner), compiled(x, other), compiled(x, other)]
        module.parts_of.cache_clear()
        return [*seen, compiled(x, owner), compiled(x, owner), run(lambda owner: module.parts_of(owner))(owner) is module.parts_of(owner), len(log)]

    framejit.reset()
    agree_over_calls(program, stops=True)
    assert all("FJ026 call of parts_of" in reason for reason in framejit.statistics()["reasons"])
