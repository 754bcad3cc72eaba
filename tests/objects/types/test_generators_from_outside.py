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
from framejit import breaks
from framejit._runtime import Unset, end_generator, move_generator, suspended_generator
from framejit.objects.core.registry import CODES, runs_uncompiled

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


def under_autocast(t):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        yield torch.is_autocast_enabled("cpu")
        yield torch.is_autocast_enabled("cpu")
    yield torch.is_autocast_enabled("cpu")


@torch.no_grad()
def decorated(t):
    for i in range(3):
        got = yield t * i
        if got is not None:
            yield got, torch.is_grad_enabled()


def holding_itself(t):
    held = []
    held.append((yield held))
    yield len(held)
    yield t


def of_many_arguments(t, /, a=1, *rest, b=2, **named):
    yield a, b
    c = a + b
    yield c, rest, named
    yield lambda: (a, c)


GENERATORS = (
    of_tensors, counting, with_handlers, in_a_block, delegating, with_temporaries, sharing_cells, recursive, handling, raising, ignoring_its_end, unbinding,
    of_a_method, of_an_expression, in_a_loop_over_iterators, under_autocast, decorated, holding_itself, of_many_arguments,
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
    """The state of a generator as a program can see it. Variables that nothing reads any more aren't kept in one that the trace has made."""
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
            found.append((torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")))
        torch.set_autocast_enabled("cpu", False)
        return [strip(part) for part in found], generator


def strip(value):
    """The value without generators, whose state is compared."""
    if isinstance(value, (list, tuple)):
        return type(value)(strip(item) for item in value)
    return "generator" if inspect.isgenerator(value) else "function" if inspect.isfunction(value) else value


@pytest.mark.parametrize("make", GENERATORS, ids=lambda make: make.__name__)
def test_generators_are_left_as_uncompiled_code_leaves_them(make):
    compiled = {use: framejit.compile(use, backend="eager", isolate_recompiles=True) for use in USES}
    for seed in range(12):
        looks = seed % 2
        expected, left = run({use: use for use in USES}, make, looks, seed)
        got, right = run(compiled, make, looks, seed)
        Comparison().same((expected, state_of(left)), (got, state_of(right)))
        left.close(), right.close()


# how often the graph breaks


def breaks_of(function, *args):
    """The ids of the breaks in a call of a function."""
    found = framejit.explain(function, backend="eager")(*args)
    return [stop.id for stop in found.breaks]


def test_a_generator_from_outside_is_traced_to_its_end():
    compiled = framejit.compile(takes_the_rest, backend="eager", fullgraph=True)
    for make in (of_tensors, counting, delegating, recursive, of_an_expression, in_a_loop_over_iterators):
        Comparison().same(takes_the_rest(make(x), x), compiled(make(x), x))


def test_a_context_manager_around_a_break_is_left_in_the_graph():
    log = []

    @contextlib.contextmanager
    def scope(name):
        log.append(name)
        try:
            yield name
        finally:
            log.append("end")

    def f(t):
        with scope("a") as name, scope("b"):
            t = t.sin()
            framejit.graph_break()
            t = t.cos()
        log.append(name)
        return t + 1

    assert breaks_of(f, x) == ["FJ008"]
    log.clear()
    agree_over_calls(lambda compile: [compile(f)(x), log[:], log.clear()], stops=True)


def test_a_generator_that_has_ended_before_a_break_lives_on():
    def f(t):
        g, failed = counting(t), raising(t)
        found = [*g, tried(list, failed)]
        framejit.graph_break()
        return found, g, failed, t + 1

    assert breaks_of(f, x) == ["FJ008"]
    for run in (f, framejit.compile(f, backend="eager")):
        *found, t = run(x)
        assert torch.equal(t, x + 1) and found[0] == [0, 1, 2, 3, ("LookupError", "over")]
        for g, function in zip(found[1:], (counting, raising)):
            assert inspect.getgeneratorstate(g) == "GEN_CLOSED" and g.gi_code is function.__code__ and next(g, None) is None


def test_a_loop_over_a_generator_breaks_only_in_its_body():
    def f(t):
        for item in of_tensors(t):
            framejit.graph_break()
            t = t + item
        return t

    assert set(breaks_of(f, x)) == {"FJ008"}
    agree_over_calls(lambda compile: [compile(f)(x)], stops=True)


def test_each_place_at_which_a_generator_waits_is_compiled_once():
    compiled = framejit.compile(lambda g: next(g) * 2, backend="eager", fullgraph=True)
    generator = of_tensors(x)
    for _ in range(4):
        compiled(generator)
    assert len(compiled.entries) <= 3
    for _ in range(3):
        again = of_tensors(x + 1)
        assert torch.equal(compiled(again), (x + 1) * 4)
    assert len(compiled.entries) <= 3


# what guards the compiled code


def test_a_generator_at_another_place_is_compiled_again():
    compiled = framejit.compile(lambda g, t: (next(g), t + 1), backend="eager", fullgraph=True)
    for make in (unbinding, of_a_method, with_temporaries):
        for count in range(3):
            left, right = make(x), make(x)
            for _ in range(count):
                next(left, None), next(right, None)
            Comparison().same(tried(next, left), compiled(right, x)[0]) if count < 2 else None


def test_one_generator_in_the_place_of_two_is_compiled_again():
    def f(a, b):
        return next(a, None), next(b, None), next(a, None)

    def two(compile):
        g, h, fast = counting(x), counting(x), compile(f)
        return [fast(g, h), fast(counting(x), g), fast(h, h), fast(g, h), next(g, "end"), next(h, "end")]

    agree_over_calls(two)


def test_variables_that_the_trace_has_read_are_guarded():
    def scaled(t):
        factor = [2]
        while True:
            factor = (yield t * factor[0]) or factor

    def f(g, value):
        return g.send(value)

    def program(compile):
        g, fast = scaled(x), compile(f)
        next(g)
        return [fast(g, value) for value in (None, None, [3], None, [4], None)]

    agree_over_calls(program)


def test_another_function_of_the_same_code_has_its_own_cells_and_globals():
    def make(factor):
        def inner(t):
            yield t * factor
            yield t + factor

        return inner

    compiled = framejit.compile(lambda g: next(g), backend="eager", fullgraph=True)
    for factor in (2, 3, 4):
        g = make(factor)(x)
        assert torch.equal(compiled(g), x * factor) and torch.equal(compiled(g), x + factor)
    code = "def f(t):\n    yield t * k\n    yield t + k"
    for k in (2, 3):
        namespace = {"k": k}
        exec(compile(code, "same", "exec"), namespace)
        g = namespace["f"](x)
        assert torch.equal(compiled(g), x * k) and torch.equal(compiled(g), x + k)


def test_a_function_that_resumes_many_generators_ends_up_resuming_them_natively():
    def f(g, t):
        t = t.sin()
        return next(g), t.cos()

    made = []
    for i in range(20):
        namespace = {}
        exec(f"def g(t):\n    yield t + {i}\n    yield t - {i}", namespace)
        made.append(namespace["g"])
    compiled = framejit.compile(f, backend="eager")
    for _ in range(2):
        for i, make in enumerate(made):
            g = make(x)
            Comparison().same((x + i, x.sin().cos()), compiled(g, x))
            Comparison().same((x - i, x.sin().cos()), compiled(g, x))
    assert len(compiled.entries) <= 12
    assert any(entry.resumes for entry in compiled.entries)
    assert not any("FJ019" in reason for reason in framejit.statistics()["reasons"])


# what splits the graph


def test_a_generator_whose_frame_is_held_is_resumed_natively():
    compiled = framejit.compile(takes_one, backend="eager")
    g = counting(x)
    next(g)
    frame = g.gi_frame
    assert [compiled(g, x) for _ in range(2)] == [1, 2]
    assert frame.f_locals["n"] == 2
    assert "FJ018" in framejit.statistics()["reasons"][-1]


def test_a_generator_that_runs_is_resumed_natively():
    def inside(t):
        yield compiled(box[0], t)

    box = []
    compiled = framejit.compile(lambda g, t: (tried(next, g), t + 1), backend="eager")
    box.append(inside(x))
    assert next(box[0])[0] == ("ValueError", "generator already executing")


def test_a_generator_that_another_thread_runs_is_resumed_natively():
    begun, go_on = threading.Event(), threading.Event()

    def waits(t):
        begun.set()
        go_on.wait()
        yield t

    g = waits(x)
    thread = threading.Thread(target=next, args=(g,))
    thread.start()
    begun.wait()
    compiled = framejit.compile(lambda g, t: (tried(next, g), t + 1), backend="eager")
    try:
        assert compiled(g, x)[0] == ("ValueError", "generator already executing")
    finally:
        go_on.set()
        thread.join()


def test_a_generator_that_moves_while_the_graph_runs_is_left_alone():
    """As where two threads resume it."""
    g = of_tensors(x)

    def backend(graph, inputs):
        def run(*args):
            next(g)
            return graph(*args)

        return run

    compiled = framejit.compile(takes_one, backend=backend)
    with pytest.raises(RuntimeError, match="resumed by something else"):
        compiled(g, x)
    assert g.gi_frame.f_locals["i"] == 0


def test_a_generator_of_code_that_is_not_traced_is_resumed_natively():
    def f(g, t):
        return next(g), t + 1

    def g(t):
        yield t
        yield t + 1

    runs_uncompiled(g.__code__, breaks.SkippedFrame("g"))
    try:
        compiled = framejit.compile(f, backend="eager")
        Comparison().same((x, x + 1), compiled(g(x), x))
        assert "whose code isn't traced" in framejit.statistics()["reasons"][-1]
    finally:
        del CODES[id(g.__code__)]


# what lives and dies


class Counted:
    def __init__(self, log):
        self.log = log

    def __del__(self):
        self.log.append("gone")


def test_values_die_with_the_variables_that_held_them():
    def holds(t, log):
        held = Counted(log)
        yield t
        held = None
        yield t + 1
        held = Counted(log)
        yield t + 2

    compiled = framejit.compile(takes_one, backend="eager", fullgraph=True)
    log = []
    g = holds(x, log)
    next(g)
    compiled(g, x)
    assert log == ["gone"]
    next(g)
    assert log == ["gone"]
    assert compiled(g, x) is None
    assert log == ["gone", "gone"]


def test_references_are_counted():
    value, other = object(), object()

    def swaps(t):
        a, b = value, [value]
        while True:
            yield t
            a, b = other, [a, b]

    compiled = framejit.compile(takes_one, backend="eager", fullgraph=True)
    g = swaps(x)
    next(g)
    compiled(g, x), compiled(g, x)
    gc.collect()
    before = sys.getrefcount(value), sys.getrefcount(other)
    for _ in range(50):
        g = swaps(x)
        next(g)
        for _ in range(3):
            compiled(g, x)
    del g
    gc.collect()
    g = swaps(x)
    next(g)
    compiled(g, x), compiled(g, x)
    assert (sys.getrefcount(value), sys.getrefcount(other)) == before


def test_a_generator_and_what_it_holds_are_collected():
    class Held:
        pass

    def holds(t):
        held = Held()
        yield held
        yield t, held

    compiled = framejit.compile(lambda g: next(g), backend="eager")
    g = holds(x)
    held, alive = weakref.ref(next(g)), weakref.ref(g)
    compiled(g)
    del g
    gc.collect()
    assert held() is None and alive() is None


def test_a_generator_that_is_let_go_of_is_closed_in_its_place():
    log = []

    def guarded(t):
        try:
            yield t
            yield t + 1
        finally:
            log.append("closed")

    def f(g, t):
        t = t + next(g)
        del g
        log.append("after")
        return t * 2

    def one(compile):
        fast = compile(f)
        return [(fast(guarded(x), x), log[:], log.clear()) for _ in range(2)]

    agree_over_calls(one, stops=True)


# the functions of the runtime


def test_a_generator_is_moved_and_ended():
    def g(a):
        b = a
        got = yield a
        yield b, got
        yield 3

    made = g(1)
    assert suspended_generator(made)[1:] == (0, g, (1, Unset, Unset))
    next(made)
    code, first, function, slots = suspended_generator(made)
    assert code is g.__code__ and function is g and slots == (1, 1, Unset)
    other = g(1)
    next(other), next(other)
    second = suspended_generator(other)[1]
    move_generator(made, first, second, 3, (1, 2), (Unset, "got"))
    assert next(made) == 3 and made.gi_frame.f_locals == {"a": 1, "got": "got"}
    end_generator(made, suspended_generator(made)[1], 0)
    assert made.gi_frame is None and list(made) == [] and suspended_generator(made) is None


WRONG = [(0, 0, 1, (), ()), (0, 9999, 3, (), ()), (0, 0, 3, (3,), (1,)), (0, 0, 3, (0,), ()), (0, 0, 99, (), ()), (0, 0, 3, (-1,), (1,))]


@pytest.mark.parametrize("args", WRONG)
def test_a_generator_is_moved_within_its_frame(args):
    def g(a):
        b = c = yield a
        yield b, c

    made = g(1)
    with pytest.raises(ValueError, match="takes slots"):
        move_generator(made, *args)
    with pytest.raises(RuntimeError):
        move_generator(made, 2, 0, 3, (), ())
    assert next(made) == 1
