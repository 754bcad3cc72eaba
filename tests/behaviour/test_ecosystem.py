"""Libraries that mark functions for torch's own tracer (`assume_constant_result`), and generators that a library drops before their end."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import pytest
import torch
from agreement import agree

import framejit

x = torch.arange(6.0).reshape(2, 3)
asked: list[object] = []


@functools.lru_cache
@torch.compiler.assume_constant_result
def installed(name, *, version=None):
    asked.append(open)  # a side effect on a value from outside that a trace may not repeat
    if name == "missing":
        raise LookupError(name)
    return len(name) > 3


@torch.compiler.assume_constant_result
def table():
    asked.append("table")
    return {"scale": 2.0}


def test_a_function_assumed_constant_runs_once_while_tracing():
    def by_probe(x):
        return (x + 1 if installed("kernels", version="2") else x - 1) * table()["scale"]

    asked.clear()
    compiled = framejit.compile(by_probe, backend="eager", fullgraph=True)
    results = [compiled(x) for _ in range(3)]
    assert asked == [open, "table"]
    assert torch.equal(results[0], (x + 1) * 2) and torch.equal(results[2], (x + 1) * 2)


def test_what_a_function_assumed_constant_raises_is_raised_in_the_trace():
    def by_probe(x):
        try:
            installed("missing")
        except LookupError as error:
            return x, error.args
        return x, None

    assert framejit.compile(by_probe, backend="eager", fullgraph=True)(x)[1] == ("missing",)


def test_a_function_assumed_constant_is_asked_again_where_its_arguments_differ():
    def by_probe(x, name):
        return x + 1 if installed(name) else x - 1

    compiled = framejit.compile(by_probe, backend="eager", fullgraph=True)
    for name in ("kernels", "abc", "kernels"):
        assert torch.equal(compiled(x, name), by_probe(x, name))


class Layers(Sequence):
    """Its `__iter__` is collections.abc.Sequence's: a generator with `try: ... except IndexError:` around the `yield`."""

    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


def test_a_generator_may_be_dropped_where_its_handlers_let_generator_exit_pass():
    def nested(items):
        for item in items:
            try:
                try:
                    yield item
                except (KeyError, torch.cuda.OutOfMemoryError):
                    asked.append(item)
            except StopIteration as error:
                asked.append(error)

    def program(x):
        found = any(item == 2 for item in Layers([1, 2, 3])) and 2 in Layers([1, 2])
        return x + 1 if found else x, next(nested([4, 5]))

    asked.clear()
    agree(program, x)
    assert asked == []


def test_a_generator_whose_handlers_would_run_stops_the_trace():
    def at_the_end(log):
        try:
            yield 1
        finally:
            log.append("closed")

    def on_everything(log):
        try:
            yield 1
        except BaseException as error:
            log.append(type(error))
            raise

    def on_one_of_two(log):
        try:
            yield 1
        except (KeyError, GeneratorExit):
            log.append("left")

    for generator in (at_the_end, on_everything, on_one_of_two):

        def program(x, generator=generator):
            log = []
            first = next(generator(log))
            return x + first, log

        with pytest.raises(framejit.Unsupported, match="FJ029"):
            framejit.compile(program, backend="eager", fullgraph=True)(x)
