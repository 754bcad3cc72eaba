"""Functions of the program behind functools.lru_cache that make tensors and other objects: one graph, the cache's own objects, and the cache's own counts."""

from __future__ import annotations

import functools
import gc
import weakref

import pytest
import torch
from agreement import Comparison, agree_over_calls

import framejit

x = torch.arange(16.0).reshape(4, 4)


def counts():
    found = framejit.statistics()
    return found["graphs"], found["graph_breaks"], found["recompiles"]


@pytest.mark.parametrize("cache", [functools.cache, functools.lru_cache, functools.lru_cache(maxsize=2), functools.lru_cache(None, typed=True)])
def test_a_table_is_one_graph_with_its_caller(cache):
    def program(compile):
        mask = cache(lambda n, *, k=0: torch.ones(n, n).tril(k))
        f = compile(lambda t: (t.sin() * mask(4) + mask(4, k=1), mask(4)))
        seen = [f(x), mask.cache_info(), f(x + 1), mask.cache_info()]
        return [*seen, seen[0][1] is seen[2][1] is mask(4)]

    agree_over_calls(program)
    assert counts() == (1, 0, 0)


def test_what_the_program_has_put_into_the_cache_before():
    def program(compile):
        seen = []

        @functools.lru_cache
        def noted(n):
            seen.append(n)
            return [torch.ones(n), {"n": n}]

        noted(4)
        f = compile(lambda t: (t + noted(4)[0], noted(4)[1]["n"]))
        return [f(x), f(x), noted.cache_info(), seen]

    agree_over_calls(program)
    assert counts() == (1, 0, 0)


def test_another_object_after_the_cache_was_cleared():
    def program(compile):
        table = functools.lru_cache(lambda n: torch.full((n,), float(n)))
        f = compile(lambda t: (t + table(4), table(4)))
        first, kept = f(x), table(4)
        table.cache_clear()
        second = f(x)
        third = f(x)
        table.cache_clear()
        kept.zero_()
        fourth, now = table(4), f(x)
        return [first, second, third, second[1] is third[1], second[1] is kept, now, now[1] is fourth, table.cache_info()]

    agree_over_calls(program)


def test_the_cached_object_is_changed():
    def program(compile):
        table = functools.cache(lambda n: (torch.ones(n), []))

        def step(t):
            made, log = table(4)
            made.add_(1)
            log.append(len(log))
            return t + made, made

        f = compile(step)
        first, second = f(x), f(x)
        return [first, second, first[1] is second[1] is table(4)[0], table(4)[1], table.cache_info()]

    agree_over_calls(program)


def test_methods_keep_the_cache_of_their_object():
    def program(compile):
        class Scaled(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(4))
                self.of_object = functools.lru_cache(self.shifted)

            @functools.lru_cache(maxsize=4, typed=True)
            def scaled(self, n, *, by=2):
                return self.weight * n * by

            def shifted(self, n):
                return self.weight + n

            def forward(self, t):
                with torch.no_grad():
                    plain = self.scaled(3, by=4)
                return t + plain + self.of_object(2), plain.requires_grad

        one, other = Scaled(), Scaled()
        f, g = compile(one), compile(other)
        seen = [f(x), f(x), g(x), g(x), f(x), Scaled.scaled.cache_info(), one.of_object.cache_info()]
        with torch.no_grad():
            one.weight.zero_()
        return [*seen, f(x)]

    agree_over_calls(program)


def test_functions_behind_caches_that_call_each_other():
    def program(compile):
        @functools.cache
        def number(n):
            return torch.ones(4) if n < 2 else number(n - 1) + number(n - 2)

        f = compile(lambda t: t + number(10) + number(4))
        return [f(x), f(x), number.cache_info()]

    agree_over_calls(program)
    assert counts() == (1, 0, 0)


def fails(n):
    if n > 3:
        raise ValueError(n)
    return torch.ones(n)


LOG: list[int] = []


def logs(n):
    LOG.append(n)
    return torch.ones(n)


@pytest.mark.parametrize("function", [fails, logs, lambda n: torch.randn(n), lambda n: print(n) or torch.ones(n)])
def test_functions_with_side_effects_are_called_natively_the_first_time(function, capsys):
    def program(compile):
        LOG.clear()
        torch.manual_seed(0)
        cached = functools.lru_cache(function)

        def step(t, n):
            try:
                return t[:, :1] + cached(n), torch.rand(2)
            except ValueError as error:
                return str(error)

        f = compile(step)
        return [f(x, 4), f(x, 4), cached.cache_info(), LOG[:], capsys.readouterr().out]

    agree_over_calls(program, stops=True)


@pytest.mark.parametrize("maxsize", [0, 1])
def test_a_cache_that_drops_results(maxsize):
    def program(compile):
        table = functools.lru_cache(maxsize)(lambda n: torch.full((4,), float(n)))
        f = compile(lambda t: t + table(1) + table(2))
        return [f(x), f(x), f(x), table.cache_info()]

    agree_over_calls(program, stops=True)


class State:
    number = 1

    def __init__(self):
        self.number = 1
        self.weight = torch.ones(4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.table = {"a": 1}


def changes_an_attribute(state):
    state.number += 1


def changes_a_class(state):
    State.number += 1


def changes_a_dict(state):
    state.table["b"] = 2


def changes_a_tensor(state):
    state.weight.add_(1)


def changes_a_view(state):
    state.weight[1:].mul_(3)


def changes_statistics(state):
    state.norm(x + 1)


def changes_a_flag(state):
    state.weight.requires_grad_(True)


@pytest.mark.parametrize("reads", [
    lambda state: torch.ones(4) * state.number, lambda state: torch.ones(4) * State.number, lambda state: torch.ones(4) * len(state.table),
    lambda state: state.weight * 2, lambda state: state.weight[1:].sum(), lambda state: state.norm.running_mean * 1,
])  # fmt: skip
@pytest.mark.parametrize("change", [
    changes_an_attribute, changes_a_class, changes_a_dict, changes_a_tensor, changes_a_view, changes_statistics, changes_a_flag,
])  # fmt: skip
def test_a_function_that_may_read_what_the_call_has_changed(change, reads):
    def program(compile):
        state, State.number = State(), 1
        cached = functools.cache(lambda: reads(state))

        def step(t):
            change(state)
            return t + cached(), cached().requires_grad

        f = compile(step)
        return [f(x), f(x), cached()]

    expected, found = program(lambda fn: fn), program(lambda fn: framejit.compile(fn, backend="eager"))
    Comparison().same(expected, found)


def test_a_table_after_a_tensor_was_changed_in_place():
    def program(compile):
        total, plain = torch.zeros(4), functools.cache(lambda n: torch.arange(n) / n)

        def step(t):
            total.add_(1)
            return t * plain(4) + total

        f = compile(step)
        return [f(x), f(x), plain.cache_info()]

    agree_over_calls(program)
    assert counts() == (1, 0, 0)


def test_sizes_that_vary_are_looked_up_natively():
    def program(compile):
        table = functools.cache(lambda n: torch.arange(n) / n)
        f = compile(lambda t: t.sin() + table(t.shape[0]))
        return [*[f(torch.ones(n)) for n in (3, 3, 4, 5, 6, 3)], table.cache_info()]

    agree_over_calls(program, stops=True)


@pytest.mark.parametrize("inside", [False, True])
def test_the_device_of_a_mode(inside):
    def program(compile):
        table = functools.cache(lambda n: torch.ones(n))

        def step(t):
            if inside:
                with torch.device("meta"):
                    return table(4).device.type
            return table(4).device.type

        f = compile(step)
        with torch.device("meta"):
            return [f(x), f(x)]

    agree_over_calls(program, stops=inside)


def test_entries_keep_no_object_alive_that_only_a_cache_has_kept():
    class Model(torch.nn.Module):
        @functools.lru_cache
        def table(self, n):
            return torch.ones(n)

        def forward(self, t):
            return t + self.table(4)

    framejit.reset()
    model = Model()
    f = framejit.compile(model, backend="eager")
    f(x), f(x)
    assert framejit.statistics()["graph_breaks"] == 0
    gone, table = weakref.ref(model), weakref.ref(model.table(4))
    Model.table.cache_clear()
    del model, f
    gc.collect()
    assert gone() is None and table() is None
