"""Weak references and finalizers after graph breaks: what variables hold lives, and what they let go of ends at the next break or with the frame."""

from __future__ import annotations

import abc
import collections
import contextlib
import functools
import gc
import os
import re
import sys
import tempfile
import unittest
import weakref
from typing import Any

import pytest
import torch
from agreement import agree_in_text, agree_over_calls

import framejit

PROGRAMS = []


def program(function):
    PROGRAMS.append(function)
    return function


class I:
    pass


@program
def held_set():
    x = {1}
    r = weakref.ref(x)
    return r() is None


@program
def held_set2():
    x = {1}
    r = weakref.ref(x)
    framejit.graph_break()
    a = r() is None
    framejit.graph_break()
    return a, r() is None


@program
def held_inst():
    x = I()
    r = weakref.ref(x)
    return r() is None


@program
def held_inst2():
    x = I()
    r = weakref.ref(x)
    framejit.graph_break()
    a = r() is None
    framejit.graph_break()
    return a, r() is None


@program
def held_func():
    def x():
        pass

    r = weakref.ref(x)
    return r() is None


@program
def held_func2():
    def x():
        pass

    r = weakref.ref(x)
    framejit.graph_break()
    a = r() is None
    framejit.graph_break()
    return a, r() is None


@program
def held_class():
    class x:
        pass

    r = weakref.ref(x)
    gc.collect()
    return r() is None


@program
def held_class2():
    class x:
        pass

    r = weakref.ref(x)
    framejit.graph_break()
    gc.collect()
    a = r() is None
    framejit.graph_break()
    return a, r() is None


@program
def held_deque():
    x = collections.deque([1])
    r = weakref.ref(x)
    framejit.graph_break()
    a = r() is None
    framejit.graph_break()
    return a, r() is None


@program
def held_gen():
    x = (i for i in range(3))
    r = weakref.ref(x)
    framejit.graph_break()
    a = r() is None
    framejit.graph_break()
    return a, r() is None


@program
def held_wd():
    x = I()
    d = weakref.WeakValueDictionary()
    d[1] = x
    framejit.graph_break()
    n = len(d)
    del x
    framejit.graph_break()
    return n, len(d)


@program
def held_ws():
    x = I()
    y = {1}
    d = weakref.WeakSet([x])
    framejit.graph_break()
    n = len(d)
    framejit.graph_break()
    return n, len(d)


@program
def held_fin():
    x = {1}
    l = []
    weakref.finalize(x, l.append, 1)
    framejit.graph_break()
    n = list(l)
    framejit.graph_break()
    n2 = list(l)
    return n, n2


@program
def held_fin2():
    def x():
        pass

    l = []
    weakref.finalize(x, l.append, 1)
    framejit.graph_break()
    n = list(l)
    del x
    framejit.graph_break()
    n2 = list(l)
    return n, n2


@program
def held_proxy():
    x = I()
    x.a = 4
    p = weakref.proxy(x)
    framejit.graph_break()
    return p.a, p.a


@program
def held_proxy2():
    x = {1, 2}
    p = weakref.proxy(x)
    framejit.graph_break()
    return len(p), sorted(p)


@program
def held_inlist():
    x = [{1}]
    r = weakref.ref(x[0])
    framejit.graph_break()
    return r() is None


@program
def held_method():
    x = I()

    class K:
        def m(self):
            return 3

    k = K()
    r = weakref.WeakMethod(k.m)
    framejit.graph_break()
    a = r() is None
    framejit.graph_break()
    return a, r() is None


@program
def held_cell():
    x = {1}

    def g():
        return x

    r = weakref.ref(x)
    framejit.graph_break()
    a = r() is None
    framejit.graph_break()
    return a, r() is None


@program
def held_del():
    x = {1}
    r = weakref.ref(x)
    framejit.graph_break()
    del x
    a = r() is None
    return a


@program
def held_del2():
    x = I()
    r = weakref.ref(x)
    framejit.graph_break()
    del x
    a = r() is None
    return a


@program
def held_rebind():
    x = {1}
    r = weakref.ref(x)
    framejit.graph_break()
    x = 3
    a = r() is None
    return a


@program
def held_callee():
    def g():
        x = {1}
        return weakref.ref(x)

    r = g()
    return r() is None


@program
def held_callee2():
    def g(x):
        r = weakref.ref(x)
        framejit.graph_break()
        return r() is None

    return g({1}), g(I()), g(lambda: 1)


@program
def held_cb():
    l = []
    x = {1}
    r = weakref.ref(x, lambda r: l.append(1))
    framejit.graph_break()
    a = list(l)
    framejit.graph_break()
    b = list(l)
    x = None
    return a, b, l


@program
def held_subclasses():
    class A:
        pass

    class B(A):
        pass

    class C(A):
        pass

    gc.collect()
    n = [c.__name__ for c in A.__subclasses__()]
    gc.collect()
    return n, len(A.__subclasses__())


@program
def by_a_callee_later():
    x = I()
    references = weakref.WeakSet([x])
    return len(references)


@program
def class_registered_with_an_abstract_one():
    class A(metaclass=abc.ABCMeta):
        pass

    class B(A):
        pass

    B.register(str)
    gc.collect()
    return isinstance("", A)


@program
def variables_of_a_traceback_that_library_code_looks_at():
    x, y = I(), I()
    references = weakref.WeakKeyDictionary({x: 1})
    unittest.TestCase().assertRaises(KeyError, lambda: references[y])
    return len(references)


class Told:
    """Adds to a list where the last reference goes; no weak reference to it can be made."""

    __slots__ = ("ends",)

    def __init__(self, ends):
        self.ends = ends

    def __del__(self):
        self.ends.append(1)


@program
def address_of_what_tells_its_end():
    ends = []
    x = Told(ends)
    framejit.graph_break()
    numbers = [id(x)]
    del x
    framejit.graph_break()
    return len(numbers), len(ends)


@program
def hash_of_what_tells_its_end():
    ends = []
    x = Told(ends)
    framejit.graph_break()
    numbers = [hash(x), hash((x, 1))]
    del x
    framejit.graph_break()
    return len(numbers), len(ends)


@program
def address_of_a_list_of_what_tells_its_end():
    ends = []
    x = [Told(ends)]
    framejit.graph_break()
    numbers = {id(x): 1}
    x = None
    framejit.graph_break()
    return len(numbers), len(ends)


class WithMethod:
    def method(self):
        return 1


def finished():
    if False:
        yield


def end(generator):
    list(generator)
    return generator


MAKERS = {
    "method": lambda: WithMethod().method,
    "method of a builtin": lambda: [].append,
    "finished generator": lambda: end(finished()),
    "memoryview": lambda: memoryview(b"ab"),
    "partial": lambda: functools.partial(len),
    "pattern": lambda: re.compile("held weakly"),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_argument_with_a_weak_reference_lives_as_long_as_its_function(make):
    """Nothing reads the argument after the graph break; the caller's value is a temporary one."""

    def held(value):
        reference = weakref.ref(value)
        framejit.graph_break()
        alive = reference() is not None
        framejit.graph_break()
        return alive, reference() is not None

    agree_in_text(lambda: (held(make()), held(make())))


@program
def finalizers():
    seen = []
    x = I()
    finalizer = weakref.finalize(x, seen.append, 1)
    before = finalizer.alive, finalizer.atexit
    finalizer.atexit = False
    del x
    return before, finalizer.alive, seen, finalizer.atexit


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_weak_references_to_what_variables_hold(program):
    agree_in_text(program)


class Numbered:
    def __init__(self, number, ends):
        self.number, self.ends = number, ends

    def __del__(self):
        self.ends.append(self.number)


def by_assignment(log, t):
    value = Numbered(log.append("made"), log)
    value = None
    return t + 1, value


def by_deletion(log, t):
    value = Numbered(log.append("made"), log)
    del value
    return t + 1


def of_a_temporary_value(log, t):
    Numbered(log.append("made"), log)
    return t + 1


def in_a_called_function(log, t):
    return by_assignment(log, t)[0] + 1


def in_a_loop(log, t):
    for i in range(3):
        value = Numbered(i, log)
    value = None
    return t + 1, value


def in_a_container(log, t):
    values = [Numbered(log.append("made"), log)]
    values.clear()
    return t + 1


def in_a_handler(log, t):
    def break_graph():
        value = Numbered(log.append("made"), log)
        raise ValueError(value.number)

    try:
        break_graph()
    except ValueError:
        log.append("handled")
    return t + 1


def of_a_container_from_outside(log, t, held=[]):
    held[:] = [Numbered(log.append("made"), log)]
    framejit.graph_break()
    held.clear()
    return t + 1


LET_GO = (by_assignment, by_deletion, of_a_temporary_value, in_a_called_function, in_a_loop, in_a_container, in_a_handler, of_a_container_from_outside)


@pytest.mark.parametrize("lets_go", LET_GO, ids=lambda lets_go: lets_go.__name__)
def test_what_a_resumed_frame_lets_go_of_ends_at_the_next_break_at_the_latest(lets_go):
    def before_a_break(log, t):
        lets_go(log, t)
        framejit.graph_break()
        log.append("after the break")
        return t + 1

    for program, more in ((before_a_break, []), (lets_go, ["returned"])):
        compiled = framejit.compile(program, backend="eager")
        for _ in range(2):
            seen = []
            for run in (program, compiled):
                log = []
                run(log, torch.ones(1))
                seen.append(log + more)
            assert seen[0][-1] == seen[1][-1] and sorted(map(str, seen[0])) == sorted(map(str, seen[1]))


def test_variables_end_in_their_order():
    """Also at the first call, whose entry runs in a frame."""

    def function(x, ends):
        a, b, c = Numbered(1, ends), Numbered(2, ends), Numbered(3, ends)
        framejit.graph_break()
        return x + 1

    def callback_of_a_reference_that_ends_first(x, ends):
        reference = None

        def inner():
            return x

        reference = weakref.ref(inner, lambda gone: ends.append("called"))
        framejit.graph_break()
        return x + 1

    def callback_of_a_reference_that_ends_last(x, ends):
        inner = None
        reference = Numbered(1, ends)
        inner, reference = reference, weakref.ref(reference, lambda gone: ends.append("called"))
        framejit.graph_break()
        return x + 1

    def overwritten(x, ends):
        a, b, c = Numbered(1, ends), Numbered(2, ends), Numbered(3, ends)
        framejit.graph_break()
        b = None
        return x + 1

    in_order = sys.version_info < (3, 14)  # from then on, CPython clears the last variable first
    for program, expected in (
        (function, [1, 2, 3] if in_order else [3, 2, 1]),
        (overwritten, [2, 1, 3] if in_order else [2, 3, 1]),
        (callback_of_a_reference_that_ends_first, [] if in_order else ["called"]),
        (callback_of_a_reference_that_ends_last, [1, "called"] if in_order else [1]),
    ):
        compiled = framejit.compile(program, backend="eager")
        for run in (program, compiled, compiled):
            ends = []
            run(torch.ones(1), ends)
            assert ends == expected, run


def test_a_context_manager_without_a_name_ends_in_its_place_behind_a_break():
    log = []

    class Noted:
        def __enter__(self):
            log.append("in")

        def __exit__(self, *error):
            log.append("out")

    @contextlib.contextmanager
    def manager(value):
        with Noted():
            framejit.graph_break()
            yield value

    def f(x):
        return manager(x).__enter__() * len(log)  # the manager is gone by then, and what it has entered is left

    compiled = framejit.compile(f, backend="eager")
    for run in (f, compiled, compiled):
        log.clear()
        assert run(torch.ones(1)).item() == 2 and log == ["in", "out"]


class Plain:
    """Hashes by identity."""


def weak_reference(log, t):
    kept = Plain()
    reference = weakref.ref(kept)
    framejit.graph_break()
    log.append(reference() is None)
    kept = None
    log.append(reference() is None)
    return t + 1


def weak_reference_with_a_callback(log, t):
    kept = Plain()
    reference = weakref.ref(kept, lambda _: log.append("gone"))
    framejit.graph_break()
    del kept
    framejit.graph_break()
    log.append("after")
    return t + 1


def finalizer(log, t):
    kept = Plain()
    weakref.finalize(kept, log.append, "gone")
    log.append("made")
    framejit.graph_break()
    kept = None
    framejit.graph_break()
    log.append("after")
    return t + 1


def temporary_directory(log, t):
    made = tempfile.TemporaryDirectory()
    path = made.name
    framejit.graph_break()
    log.append(os.path.isdir(path))
    return t + 1


def open_file(log, t):
    opened = open(__file__)
    number = opened.fileno()
    framejit.graph_break()
    log.append(os.fstat(number).st_size > 0)
    return t + 1


def weak_values(log, t):
    values = weakref.WeakValueDictionary()
    kept = values["first"] = Plain()
    framejit.graph_break()
    log.append(list(values))
    for i in range(3):
        kept = values[i] = Plain()
        framejit.graph_break()
        log.append(len(values))
    del kept
    return t + len(values)


def weak_keys(log, t):
    keys, kept = weakref.WeakKeyDictionary(), Plain()
    keys[kept] = 1
    log.append(len(keys))
    del kept
    return t + len(keys)


def weak_references_in_a_loop(log, t):
    references = []
    for _ in range(3):
        kept = Plain()
        references.append(weakref.ref(kept))
        framejit.graph_break()
        log.append([reference() is None for reference in references])
    return t + 1


WEAKLY_HELD = (
    weak_reference, weak_reference_with_a_callback, finalizer, temporary_directory, open_file, weak_values, weak_keys, weak_references_in_a_loop,
)  # fmt: skip


@pytest.mark.parametrize("f", WEAKLY_HELD, ids=lambda f: f.__name__)
def test_what_weak_references_and_files_show(f):
    def program(compile):
        compiled, logs = compile(f), []
        for _ in range(3):
            log: list[Any] = []
            compiled(log, torch.ones(2))
            logs.append(log)
        return logs

    agree_over_calls(program, stops=True)
