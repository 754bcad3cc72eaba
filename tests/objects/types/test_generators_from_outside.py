"""Suspended generators that compiled functions get from outside: they are resumed in the trace, and left where uncompiled code would leave them."""

from __future__ import annotations

import contextlib
import gc
import inspect
import itertools
import random
import sys
import threading
import weakref

import pytest
import torch
from agreement import Comparison, agree_over_calls, outcome, tried

import framejit
from framejit._runtime import Unset, end_generator, has_generator_ended, move_generator, suspended_generator

pytestmark = pytest.mark.skipif(sys.version_info >= (3, 14), reason="suspended frames can't be read")
x = torch.arange(3.0)


# generators


def of_tensors(t):
    for i in range(4):
        t = t * 2
        yield t + i
    return t


def counting(t):
    n = 0
    while n < 4:
        got = yield n
        n += 1 if got is None else 2
    return "counted"


def with_handlers(t):
    log = []
    try:
        try:
            got = yield t
            log.append(got is None)
            yield log
        except ValueError as error:
            log.append(str(error))
        yield log
    finally:
        log.append("end")
    yield log


def in_a_block(t):
    with torch.no_grad(), contextlib.suppress(KeyError):
        yield t * 2
        yield torch.is_grad_enabled()
        raise KeyError
    yield torch.is_grad_enabled()


def delegating(t):
    first = yield from counting(t)
    yield first
    yield from [t, t + 1]
    return (yield from of_tensors(t))


def with_temporaries(t):
    found = [1, (yield 2), *[(yield 3), (yield 4)]]
    return dict(a=(yield found), b=max((yield 5) or 0, 1))


def sharing_cells(t):
    total = [0]
    extra = t

    def add(n):
        nonlocal extra
        extra = extra + n
        total[0] += n

    for n in range(3):
        add(n)
        yield extra, total, add
    yield extra


def recursive(t, depth=2):
    if depth:
        yield from recursive(t, depth - 1)
        yield depth
        yield from recursive(t, depth - 1)


def handling(t):
    try:
        yield t
        raise ValueError("mine")
    except ValueError as error:
        yield str(error)  # waits while it handles an exception
        yield 3
    yield 4


def raising(t):
    yield t
    raise LookupError("over")


def ignoring_its_end(t):
    try:
        yield t
        yield t + 1
    except GeneratorExit:
        yield "not yet"


def unbinding(t):
    a = t
    yield a
    del a
    b = t + 1
    yield b


class Batches:
    def __init__(self, t):
        self.t, self.count = t, 0

    def steps(self):
        while self.count < 3:
            self.count += 1
            yield self.t * self.count


def of_a_method(t):
    return Batches(t).steps()


def of_an_expression(t):
    return (t * i for i in range(4) if i != 2)


def in_a_loop_over_iterators(t):
    for i, each in enumerate(zip([t, t + 1, t + 2], itertools.count(3))):
        yield i, each


GENERATORS = (
    of_tensors, counting, with_handlers, in_a_block, delegating, with_temporaries, sharing_cells, recursive, handling, raising, ignoring_its_end, unbinding,
    of_a_method, of_an_expression, in_a_loop_over_iterators,
)  # fmt: skip


# what is done with them


def takes_one(g, t):
    return next(g, None)


def sends(g, t):
    return tried(g.send, t)


def throws(g, t):
    return tried(g.throw, ValueError("thrown"))


def closes(g, t):
    return tried(g.close)


def loops(g, t):
    found = []
    for i, item in enumerate(g):
        found.append(item)
        if i == 1:
            break
    return found, t + 1


def goes_on_after_a_break(g, t):
    first = next(g, 0)
    framejit.graph_break()
    return first, next(g, 0), t * 2


def breaks_in_a_loop(g, t):
    found = []
    for item in g:
        found.append(item)
        framejit.graph_break()
        if len(found) == 3:
            break
    return found


def delegates(g, t):
    def around():
        got = yield from g
        yield got

    made = around()
    return next(made, 0), next(made, 0), tried(made.throw, ValueError("inside")), made


def takes_the_rest(g, t):
    return tried(list, g)


def takes_nothing(g, t):
    return g, t + 1


USES = (takes_one, sends, throws, closes, loops, goes_on_after_a_break, breaks_in_a_loop, delegates, takes_the_rest, takes_nothing)


def state_of(generator, shows_variables=True):
    """What a program can see about a generator. Variables that nothing reads any more aren't kept in one that the trace has made."""
    frame = generator.gi_frame
    at = None if frame is None else (frame.f_lasti, frame.f_lineno)
    variables = {name: value for name, value in frame.f_locals.items() if not callable(value)} if frame is not None and shows_variables else {}
    delegate = generator.gi_yieldfrom
    inner = state_of(delegate, False) if inspect.isgenerator(delegate) else type(delegate).__name__
    return inspect.getgeneratorstate(generator), id(generator.gi_code), at, variables, inner


def run(functions, make, looks, seed):
    """Use one generator with several functions, with steps of uncompiled code between them."""
    choose = random.Random(seed)
    with torch.enable_grad():
        generator, found = make(x), []
        for _ in range(6):
            if choose.random() < 0.3:
                found.append(tried(next, generator))
            result = outcome(functions[choose.choice(USES)], (generator, x), {})
            found.append((result[0], str(result[1]) if result[0] == "raised" else [part for part in [result[1]] if not inspect.isgenerator(part)]))
            if looks:
                found.append(state_of(generator))
            found.append(torch.is_grad_enabled())
        return [strip(part) for part in found], generator


def strip(value):
    """The value without generators, whose state is compared."""
    if isinstance(value, (list, tuple)):
        return type(value)(strip(item) for item in value)
    return "generator" if inspect.isgenerator(value) else value


@pytest.mark.parametrize("make", GENERATORS, ids=lambda make: make.__name__)
def test_generators_are_left_as_uncompiled_code_leaves_them(make):
    compiled = {use: framejit.compile(use, backend="eager", isolate_recompiles=True) for use in USES}
    for seed in range(12):
        looks = seed % 2
        expected, left = run({use: use for use in USES}, make, looks, seed)
        got, right = run(compiled, make, looks, seed)
        Comparison().same((expected, state_of(left)), (got, state_of(right)))
        left.close(), right.close()
