"""threading.local and numbers of threads in compiled code: each thread has its own attributes, and its own number."""

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


class Recorder(threading.local):
    """Flags of each thread, as a library keeps them that notes what its calls do."""

    def __init__(self):
        self.is_marked = False
        self.seen = []


def test_a_constructor_that_stores_constants_runs_in_each_thread():
    recorder = Recorder()

    def use(x):
        if recorder.is_marked:
            return x * 10, len(recorder.seen)
        recorder.is_marked = True
        recorder.seen.append(1)
        y = x + 1
        recorder.is_marked = False
        return y, len(recorder.seen)

    framejit.reset()
    compiled = framejit.compile(use, backend="eager", fullgraph=True, dynamic=False)
    x = torch.ones(2)
    assert [compiled(x)[1], compiled(x)[1]] == [1, 2]
    before = framejit.statistics()["recompiles"]
    for _ in range(3):
        assert in_thread(lambda: compiled(x)[1]) == 1
    assert framejit.statistics()["recompiles"] <= before + 1
    assert compiled(x)[1] == 3

    def marked():
        recorder.is_marked = True
        return compiled(x), recorder.is_marked

    (found, seen), is_marked = in_thread(marked)
    assert torch.equal(found, x * 10) and seen == 0 and is_marked
    assert torch.equal(compiled(x)[0], x + 1)


def test_a_thread_that_has_not_begun_is_no_reason_to_compile_again():
    recorder = Recorder()
    framejit.reset()
    compiled = framejit.compile(lambda x: x + 1 if not recorder.is_marked else x, backend="eager", fullgraph=True)
    x = torch.ones(2)
    assert torch.equal(compiled(x), x + 1)
    assert all(torch.equal(in_thread(lambda: compiled(x)), x + 1) for _ in range(12))
    assert framejit.statistics()["recompiles"] == 0


def test_a_constructor_that_does_more_is_left_to_eager():
    calls = []

    class Counted(threading.local):
        def __init__(self):
            calls.append(1)
            self.factor = 2

    class WithSetter(threading.local):
        factor = property(lambda self: 2, lambda self, value: calls.append(value))

        def __init__(self):
            self.factor = 3

    x = torch.ones(2)
    for own in (Counted(), WithSetter()):
        with pytest.raises(framejit.Unsupported, match="attributes are found by C code"):
            framejit.compile(lambda x, own=own: x * own.factor, backend="eager", fullgraph=True)(x)
        assert torch.equal(framejit.compile(lambda x, own=own: x * own.factor, backend="eager")(x), x * 2)


def test_a_constructor_that_is_replaced():
    recorder = Recorder()
    compiled = framejit.compile(lambda x: x + 1 if not recorder.is_marked else x * 5, backend="eager")
    x = torch.ones(2)
    assert torch.equal(compiled(x), x + 1)
    before = Recorder.__init__
    try:
        Recorder.__init__ = lambda self: self.__dict__.update(is_marked=True)
        assert torch.equal(in_thread(lambda: compiled(x)), x * 5)
        assert torch.equal(compiled(x), x + 1)
    finally:
        Recorder.__init__ = before


def test_the_number_of_the_running_thread_is_compared_and_looked_up():
    mine, names = threading.get_ident(), {threading.get_ident(): "mine", ("k", threading.get_ident()): 2}

    def where(x):
        number = threading.get_ident()
        return x + 1, number == mine, names.get(number), names.get(("k", number)), number in {mine}, [mine].count(number), number == threading.get_ident()

    framejit.reset()
    compiled = framejit.compile(where, backend="eager", fullgraph=True)
    for run in (lambda function: function(), in_thread, lambda function: function()):
        found, expected = run(lambda: compiled(torch.ones(2))), run(lambda: where(torch.ones(2)))
        assert torch.equal(found[0], expected[0]) and found[1:] == expected[1:]
    assert framejit.statistics()["recompiles"] == 1


def test_a_number_that_is_only_returned_serves_all_threads():
    def number(x):
        found = threading.get_ident()
        return x + 1, found, found == threading.get_ident(), bool(found)

    framejit.reset()
    compiled = framejit.compile(number, backend="eager", fullgraph=True)
    assert compiled(torch.ones(2))[1:] == (threading.get_ident(), True, True)
    assert in_thread(lambda: compiled(torch.ones(2))[1] == threading.get_ident())
    assert framejit.statistics()["recompiles"] == 0


def test_the_running_thread_is_found_by_its_number():
    def name(x):
        thread = threading.current_thread()
        return x * 2, thread.name, thread is threading.main_thread()

    compiled = framejit.compile(name, backend="eager", fullgraph=True)
    assert compiled(torch.ones(2))[1:] == name(torch.ones(2))[1:]
    assert in_thread(lambda: compiled(torch.ones(2))[1] == threading.current_thread().name)
    assert compiled(torch.ones(2))[2]


def test_the_number_of_a_thread_across_a_graph_break():
    def numbers(x):
        begun = threading.get_ident()
        framejit.graph_break()
        return x + 1, begun, begun == threading.get_ident(), {begun: 1}[threading.get_ident()]

    compiled = framejit.compile(numbers, backend="eager")
    for _ in range(2):
        assert compiled(torch.ones(2))[1:] == numbers(torch.ones(2))[1:]
    assert in_thread(lambda: compiled(torch.ones(2))[2])
