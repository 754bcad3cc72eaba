"""Context variables: read in a trace as guarded constants."""

from __future__ import annotations

import contextvars
import threading

import torch
from agreement import agree

import framejit

x = torch.arange(6.0).reshape(2, 3)
scale = contextvars.ContextVar("scale", default=3)
bare = contextvars.ContextVar("bare")


def reads(t):
    return t * scale.get(), scale.get(7), bare.get(None), bare.get("given")


def test_reading():
    agree(reads, x)
    framejit.reset()
    compiled = framejit.compile(reads, backend="eager", fullgraph=True)
    for value in (3, 4.0, True, -0.0, 0.0, 3):
        token = scale.set(value)
        expected, got = reads(x), compiled(x)
        assert torch.equal(got[0], expected[0]) and got[0].dtype == expected[0].dtype
        assert str(got[1:]) == str(expected[1:]) and type(got[1]) is type(expected[1])
        assert torch.equal(torch.signbit(got[0]), torch.signbit(expected[0]))
        scale.reset(token)
    assert compiled(x)[1] == 7
    token = bare.set("set")
    assert compiled(x)[2:] == ("set", "set")
    bare.reset(token)
    assert compiled(x)[2:] == (None, "given")


def test_reading_in_other_threads_and_contexts():
    compiled = framejit.compile(reads, backend="eager", fullgraph=True)
    context = contextvars.copy_context()
    context.run(scale.set, 5)
    assert compiled(x)[1] == 7
    assert context.run(compiled, x)[1] == 5
    results = []
    thread = threading.Thread(target=lambda: results.append(compiled(x)[1]))
    thread.start()
    thread.join()
    assert results == [7]


def test_a_variable_that_is_an_argument():
    def read(t, variable):
        return t * variable.get(2)

    compiled = framejit.compile(read, backend="eager", fullgraph=True)
    other = contextvars.ContextVar("other", default=9)
    for variable in (scale, other, scale):
        assert torch.equal(compiled(x, variable), read(x, variable))
    token = other.set(8)
    assert torch.equal(compiled(x, other), read(x, other))
    other.reset(token)


def sets_to(variable, value):
    def program(t):
        token = variable.set(value)
        t = t * variable.get()
        variable.reset(token)
        return t * variable.get(), variable.get(7)

    return program


def left_set(t):
    scale.set(3)
    return t * scale.get()


def a_break_between(t):
    token = scale.set(3)
    t = t * scale.get()
    torch._dynamo.graph_break()
    scale.reset(token)
    return t * scale.get(), scale.get(7)


def token_returned(t):
    token = scale.set(3)
    scale.reset(token)
    return t * scale.get(), type(token).__name__, token.var is scale


def reset_twice(t):
    token = scale.set(3)
    scale.reset(token)
    try:
        scale.reset(token)
    except RuntimeError:
        return t + 1
    return t


def read_between(t):
    token = scale.set(3)
    t = t * scale.get(7)
    scale.reset(token)
    return t


def test_setting_what_is_set():
    """A graph may set a context variable to the value that it has and set it back; to set it to another value, or one that isn't set, breaks the graph."""

    def run(program, outer, graph_breaks):
        framejit.reset()
        token = scale.set(outer) if outer is not None else None
        try:
            agree(program, x, fullgraph=not graph_breaks)
            assert (framejit.statistics()["graph_breaks"] > 0) == graph_breaks
        finally:
            if token is not None:
                scale.reset(token)
        assert contextvars.copy_context().get(scale) is None

    run(sets_to(scale, 3), 3, False)
    run(sets_to(scale, 3.0), 3, True)
    run(sets_to(scale, 4), 3, True)
    for program in (sets_to(scale, 3), a_break_between, token_returned, reset_twice, read_between):
        run(program, None, True)
    for program in (a_break_between, token_returned, reset_twice):
        run(program, 3, True)
    run(read_between, 3, False)


def test_what_is_left_set_is_set():
    compiled = framejit.compile(left_set, backend="eager")
    context = contextvars.copy_context()
    assert torch.equal(context.run(compiled, x), x * 3) and context[scale] == 3
    assert torch.equal(context.run(compiled, x), x * 3) and context[scale] == 3


def test_what_breaks():
    def writes(t):
        token = scale.set(10)
        t = t * scale.get()
        scale.reset(token)
        return t * scale.get()

    def missing(t):
        try:
            return t, bare.get()
        except LookupError:
            return t + 1

    def holds_a_list(t):
        return t + len(shared.get())

    shared = contextvars.ContextVar("shared", default=[1, 2])
    for program in (writes, missing, holds_a_list):
        framejit.reset()
        agree(program, x, fullgraph=False)
        assert not framejit.statistics()["fallbacks"]
        assert framejit.statistics()["graph_breaks"], program
        assert all(reason.startswith("FJ021") for reason in framejit.statistics()["reasons"])
