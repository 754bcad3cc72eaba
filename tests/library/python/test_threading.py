"""threading.local in compiled code: each thread has its own attributes."""

from __future__ import annotations

import threading

import pytest
import torch
from agreement import agree_over_calls

import framejit

STATE = threading.local()


def in_thread(function):
    found = []

    def run():
        try:
            found.append(function())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


def read(x):
    return x * getattr(STATE, "factor", 1)


def count(x):
    STATE.seen = getattr(STATE, "seen", 0) + 1
    STATE.last = x + STATE.seen
    return STATE.last


def forget(x):
    had = hasattr(STATE, "seen")
    if had:
        del STATE.seen
    return x, had, sorted(STATE.__dict__)


@pytest.fixture(autouse=True)
def fresh():
    STATE.__dict__.clear()
    yield
    STATE.__dict__.clear()


def test_what_a_thread_has_is_guarded():
    x = torch.ones(2)
    compiled = framejit.compile(read, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), x)
    STATE.factor = 3
    assert torch.equal(compiled(x), x * 3)
    assert torch.equal(in_thread(lambda: compiled(x)), x)
    assert torch.equal(compiled(x), x * 3)
    del STATE.factor
    assert torch.equal(compiled(x), x)


def test_stores_go_to_the_thread_that_calls():
    def program(compile):
        STATE.__dict__.clear()
        run, drop = compile(count), compile(forget)
        x = torch.ones(2)
        return [run(x), run(x), STATE.seen, in_thread(lambda: run(x)), STATE.last, drop(x), drop(x), run(x)]

    agree_over_calls(program)


def test_a_missing_attribute_raises():
    def program(compile):
        STATE.__dict__.clear()
        return [compile(lambda x: x * STATE.nothing)(torch.ones(1))]

    agree_over_calls(program, stops=True)


class WithDefaults(threading.local):
    factor = 2


DEFAULTS = WithDefaults()


def test_a_subclass_without_code_of_its_own_has_the_attributes_of_its_class():
    def program(compile):
        DEFAULTS.__dict__.clear()
        use = compile(lambda x: x * DEFAULTS.factor + getattr(DEFAULTS, "shift", 1))
        results = [use(torch.ones(1))]
        DEFAULTS.shift = 5
        results.append(use(torch.ones(1)))
        DEFAULTS.factor = 7
        return [*results, use(torch.ones(1))]

    agree_over_calls(program)


def test_a_subclass_with_a_constructor_is_left_to_eager():
    class Own(threading.local):
        def __init__(self):
            self.factor = 2

    own = Own()

    def use(x):
        return x * own.factor

    x = torch.ones(2)
    with pytest.raises(framejit.Unsupported, match="attributes are found by C code"):
        framejit.compile(use, backend="eager", fullgraph=True)(x)
    assert torch.equal(framejit.compile(use, backend="eager")(x), x * 2)
