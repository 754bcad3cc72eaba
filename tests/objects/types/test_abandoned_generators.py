"""Generators that wait inside `try` or `with` and are let go of: they end in their place, before the program goes on."""

from __future__ import annotations

import types

import pytest
import torch
from agreement import agree_over_calls

import framejit

x = torch.arange(6.0).reshape(2, 3)


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


PROGRAMS_THAT_LET_GO = (
    lets_go_of_locals, lets_go_by_assignment, lets_go_by_deletion, lets_go_of_cells, lets_go_in_called_functions,
    lets_go_inside_called_functions, lets_go_in_a_loop, lets_go_of_wrappers, lets_go_of_a_variable_that_another_function_sets,
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


@pytest.mark.usefixtures("own_evaluator")
@pytest.mark.parametrize("held", [begun_generator, begun_generator_in_an_iterator], ids=lambda held: held.__name__)
@pytest.mark.parametrize("program", PROGRAMS_THAT_LET_GO, ids=lambda program: program.__name__)
def test_a_generator_that_waits_inside_try_ends_in_its_place(program, held):
    make = framejit.disable(held)

    def steps(compile):
        f, log = compile(program), []
        return [f(log, make, x), f(log, make, x), log]

    agree_over_calls(steps, stops=True)


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

    agree_over_calls(steps, stops=True)
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

    agree_over_calls(steps, stops=True)
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

    agree_over_calls(program, stops=True)
