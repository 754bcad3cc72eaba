"""Locks of the threading module that compiled code takes: they are held while what they protect changes, and free afterwards."""

from __future__ import annotations

import functools
import threading

import pytest
import torch

import framejit

LOCK = threading.Lock()
AGAIN = threading.RLock()
X = torch.ones(3)


class Counter:
    def __init__(self):
        self.lock = LOCK
        self.n = 0
        self.is_ready = False


def counted(counter, x):
    with counter.lock:
        counter.n += 1
    return x + 1


def made_once(counter, x):
    if not counter.is_ready:
        with counter.lock:
            if not counter.is_ready:
                counter.n = 7
                counter.is_ready = True
    return x * counter.n


def compiled(function, **options):
    framejit.reset()
    return framejit.compile(function, backend="eager", **options)


@pytest.mark.parametrize("lock", [LOCK, AGAIN], ids=["Lock", "RLock"])
def test_changes_under_a_lock_are_in_one_graph(lock):
    counter, run = Counter(), compiled(counted, fullgraph=True)
    counter.lock = lock
    for n in range(1, 5):
        assert torch.equal(run(counter, X), X + 1)
        assert counter.n == n and lock.acquire(False)
        lock.release()


def test_double_checked_lock():
    counter, run = Counter(), compiled(made_once, fullgraph=True)
    for _ in range(3):
        assert torch.equal(run(counter, X), X * 7)
        assert counter.is_ready and not LOCK.locked()
    assert framejit.statistics()["graphs"] == 2


def test_two_sections_of_one_lock_and_nested_ones():
    def program(counter, x):
        with counter.lock:
            counter.n += 1
            with AGAIN, AGAIN:
                counter.n += 10
        y = x * counter.n
        AGAIN.acquire()
        counter.n += 100
        AGAIN.release()
        with counter.lock:
            counter.last = counter.n
        return y

    expected, counter, run = Counter(), Counter(), compiled(program, fullgraph=True)
    for _ in range(3):
        assert torch.equal(program(expected, X), run(counter, X))
        assert vars(expected) == vars(counter) and not LOCK.locked()


def in_thread(function):
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("is_compiled_before", [False, True])
def test_a_lock_that_another_thread_holds_is_waited_for(is_compiled_before):
    counter, run = Counter(), compiled(counted)
    if is_compiled_before:
        run(counter, X)
    before = counter.n
    with LOCK:
        thread = in_thread(lambda: run(counter, X))
        thread.join(1)
        assert thread.is_alive() and counter.n == before
    thread.join(60)
    assert not thread.is_alive() and counter.n == before + 1 and not LOCK.locked()
    run(counter, X)
    assert counter.n == before + 2 and not LOCK.locked()


def test_threads_lose_no_change():
    counter, run = Counter(), compiled(counted)

    def work():
        for _ in range(200):
            run(counter, X)

    threads = [in_thread(work) for _ in range(4)]
    for thread in threads:
        thread.join(120)
    assert counter.n == 800 and not LOCK.locked()


def test_lock_is_taken_while_the_graph_runs():
    seen = []

    def backend(gm, inputs):
        def call(*args):
            seen.append(LOCK.locked())
            return gm(*args)

        return call

    framejit.reset()
    counter, run = Counter(), framejit.compile(counted, backend=backend)
    run(counter, X)
    assert seen == [True] and not LOCK.locked()


@pytest.mark.parametrize("handles", [False, True])
def test_lock_is_free_after_an_exception(handles):
    def program(counter, x, index):
        with counter.lock:
            counter.n += 1
        return x[index] if not handles else caught(x, index)

    def caught(x, index):
        try:
            return x[index]
        except IndexError:
            return x - 1

    counter, run = Counter(), compiled(program)
    run(counter, X, torch.tensor([0]))
    errors = []
    for number in range(2, 4):
        try:
            assert torch.equal(run(counter, X, torch.tensor([9])), X - 1) and handles
        except IndexError as error:
            errors.append(error)  # with its traceback, which holds the frames
        assert not LOCK.locked()
        assert counter.n == number or not handles
    assert len(errors) == (0 if handles else 2)
    run(counter, X, torch.tensor([1]))
    assert not LOCK.locked()


def test_program_raises_under_a_lock():
    def program(counter, x):
        with counter.lock:
            counter.n += 1
            if counter.n > 1:
                raise ValueError(counter.n)
        return x + 1

    counter, run = Counter(), compiled(program)
    run(counter, X)
    for n in (2, 3):
        with pytest.raises(ValueError, match=str(n)):
            run(counter, X)
        assert counter.n == n and not LOCK.locked()


@pytest.mark.parametrize("inside", [True, False])
def test_graph_break_in_or_after_a_section(inside):
    states = []

    @framejit.disable
    def look():
        states.append(LOCK.locked())

    def program(counter, x):
        with counter.lock:
            counter.n += 1
            if inside:
                look()
        look()
        return x * counter.n

    counter, run = Counter(), compiled(program)
    for n in range(1, 4):
        assert torch.equal(run(counter, X), X * n)
        assert states == [True, False][not inside :] and not LOCK.locked()
        states.clear()


def test_lock_that_the_call_leaves_taken():
    def program(counter, x):
        counter.lock.acquire()
        return x + 1

    counter, run = Counter(), compiled(program)
    for _ in range(2):
        assert torch.equal(run(counter, X), X + 1) and LOCK.locked()
        LOCK.release()


def test_release_of_a_lock_that_is_free():
    def program(counter, x):
        counter.lock.release()
        return x + 1

    with pytest.raises(RuntimeError, match="release unlocked lock"):
        compiled(program)(Counter(), X)


@torch.library.custom_op("framejit_tests::waits", mutates_args=())
def waits(x: torch.Tensor) -> torch.Tensor:
    with LOCK:
        return x + 1


@waits.register_fake
def _(x):
    return torch.empty_like(x)


def test_operator_that_takes_the_lock_itself():
    def program(counter, x):
        with counter.lock:
            counter.n += 1
        return waits(x)

    counter, run = Counter(), compiled(program)
    done = []
    thread = in_thread(lambda: done.extend(run(counter, X) for _ in range(2)))
    thread.join(60)
    assert not thread.is_alive(), "the compiled code waits for its own lock"
    assert counter.n == 2 and all(torch.equal(found, X + 1) for found in done)


class Cached:
    def __init__(self):
        self.lock = threading.RLock()
        self.calls = 0

    @functools.cached_property
    def value(self):
        with self.lock, self.lock:
            self.calls += 1
        return 5


def test_locks_that_are_made_here():
    def made(x):
        class Local:
            @functools.cached_property
            def value(self):
                return 3

        counter, other, lock = Cached(), Cached(), threading.Lock()
        with lock:
            counter.calls += 1
        same = lock is lock, counter.lock is other.lock, bool(lock), lock.acquire(), type(lock) is type(threading.Lock())
        lock.release()
        return x * counter.value + Local().value, counter.calls, same, counter, lock

    run = compiled(made, fullgraph=True)
    for _ in range(2):
        found, calls, same, counter, lock = run(X)
        assert torch.equal(found, X * 5 + 3) and calls == 2 and same == (True, False, True, True, True)
        assert not lock.locked() and counter.lock.acquire(False) and type(counter.lock) is type(AGAIN)
    assert framejit.statistics()["recompiles"] == 0


@pytest.mark.parametrize("make", [threading.Lock, threading.RLock])
def test_a_lock_that_is_made_here_may_leave_while_it_is_held(make):
    def leaving(x):
        lock = make()
        lock.acquire()
        try:
            raise KeyError(1)
        except KeyError:
            framejit.graph_break()
        return lock, x + 1

    lock, _ = compiled(leaving)(X)
    seen = []
    for expected in ([False], [False, True]):
        thread = threading.Thread(target=lambda: seen.append(lock.acquire(False)))
        thread.start()
        thread.join()
        assert seen == expected
        if len(seen) == 1:
            lock.release()


def test_a_lock_that_is_made_here_is_not_taken_twice():
    def twice(x):
        lock = threading.Lock()
        with lock:
            return lock.acquire(False), lock.acquire(timeout=0.01), x

    assert compiled(twice)(X)[:2] == (False, False)
