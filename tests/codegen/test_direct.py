"""Compiled calls that need no frame can't be told from others: by results, exceptions, mutation, tracers and profilers."""

from __future__ import annotations

import gc
import inspect
import sys
import threading
import traceback
import weakref
from collections import OrderedDict, deque, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import framejit
from framejit._runtime import Entry

x = torch.arange(6.0).reshape(2, 3)
Pair = namedtuple("Pair", "first second")
seen: dict[str, bool] = {}


@dataclass
class Record:
    value: Any


class ModelOutput(OrderedDict):
    """Items that are attributes too, as the outputs of transformers' models are."""

    def __init__(self, **items: Any) -> None:
        super().__init__(items)
        for name, item in items.items():
            object.__setattr__(self, name, item)


def entry_of(compiled: Any) -> Entry:
    found = compiled if hasattr(compiled, "entries") else type(compiled).__call__
    (entry,) = found.entries
    return entry


def same(ours: Any, eager: Any) -> bool:
    if isinstance(eager, torch.Tensor):
        return type(ours) is type(eager) and torch.equal(ours, eager)
    if isinstance(eager, dict):
        attributes = same(vars(ours), vars(eager)) if isinstance(eager, ModelOutput) else True
        return type(ours) is type(eager) and list(ours) == list(eager) and all(same(ours[key], eager[key]) for key in eager) and attributes
    if isinstance(eager, (list, tuple, deque)):
        return type(ours) is type(eager) and len(ours) == len(eager) and all(map(same, ours, eager))
    if isinstance(eager, Record):
        return type(ours) is Record and same(ours.value, eager.value)
    return ours == eager


# ---- which calls ----


def shared(t):
    part = (t + 1,)
    return [part, {"again": part, "number": 3}, part]


def many(t):
    return [t + i for i in range(40)], tuple(t * i for i in range(40)), {str(i): t - i for i in range(40)}


def hundreds(t):
    return tuple(t + i for i in range(300))


def keywords(t, *rest, scale=2.0, **more):
    return t * scale, rest, more


NEEDS_NO_FRAME: list[Callable[..., Any]] = [
    lambda t: t + 1,
    lambda t: (t + 1, t * 2),
    lambda t: [t + 1, [t * 2, ()], t],
    lambda t: {"a": t + 1, 2: (t, None), b"c": [], None: "text", 1.5: True},
    lambda t: t,
    lambda t: None,
    lambda t: (t.shape[0], "constant", t.sum()),
    lambda t: t.add_(0) is t,
    shared,
    many,
    hundreds,
    keywords,
    lambda t: Pair(t + 1, t),
    lambda t: Record([t + 1]),
    lambda t: OrderedDict(a=t + 1, b=[{"c": (t,)}]),
    lambda t: (slice(1, 2), t[slice(1, 2)]),
    lambda t: ModelOutput(loss=t.sum(), logits={"inner": [t + 1]}),
]
NEEDS_A_FRAME: list[Callable[..., Any]] = [
    lambda t: {t + 1},
    lambda t: deque([t + 1]),
    lambda t: frozenset([t]),
    lambda t: {torch.float32: t + 1},
    lambda t: (lambda: t + 1),
    lambda t: seen.update(t=True) or t + 1,
]


@pytest.mark.parametrize("boxed", [True, False])
@pytest.mark.parametrize("number", range(len(NEEDS_NO_FRAME)))
def test_results_built_without_a_frame(number, boxed):
    function = NEEDS_NO_FRAME[number]
    compiled = framejit.compile(function, backend="eager" if boxed else lambda gm, inputs: gm.forward, fullgraph=True)
    for _ in range(3):
        assert same(compiled(x), function(x))
    entry = entry_of(compiled)
    assert entry.direct and (entry.hits, entry.direct_hits) == (3, 2)  # the first call is compiled in its frame


@pytest.mark.parametrize("number", range(len(NEEDS_A_FRAME)))
def test_results_that_take_a_frame(number):
    function = NEEDS_A_FRAME[number]
    compiled = framejit.compile(function, backend="eager", fullgraph=True)
    for _ in range(2):
        ours, eager = compiled(x), function(x)
        if callable(ours):
            ours, eager = ours(), eager()
        assert same(ours, eager) or (type(ours) is type(eager) and torch.equal(*ours, *eager))
    entry = entry_of(compiled)
    assert not entry.direct and (entry.hits, entry.direct_hits) == (2, 0)


def test_identity_and_freshness_of_what_is_built():
    compiled = framejit.compile(shared, backend="eager")
    compiled(x)
    first, second = compiled(x), compiled(x)
    assert first[0] is first[2] is first[1]["again"] and first is not second and first[1] is not second[1]
    given = [x]
    passes = framejit.compile(lambda items: (items, items[0] + 1, items[0]), backend="eager")
    passes(given)
    items, _, item = passes(given)
    assert items is given and item is x and entry_of(passes).direct_hits == 1


def test_modules_methods_and_keywords():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, t, *, scale=1.0, **more):
            return {"out": self.linear(t) * scale, **more}

    model = Model()
    compiled = framejit.compile(model, backend="eager", fullgraph=True)
    for _ in range(3):
        assert same(compiled(x, scale=2.0, extra=3), model(x, scale=2.0, extra=3))
    assert entry_of(compiled).direct_hits == 2
    method = framejit.compile(model.forward, backend="eager", fullgraph=True)
    for _ in range(3):
        assert same(method(x), model(x))


def test_resume_functions_need_no_frame_either():
    def f(t):
        t = t + 1
        framejit.graph_break()
        t = t * 2
        framejit.graph_break()
        return {"t": t - 3}

    compiled = framejit.compile(f, backend="eager")
    for _ in range(3):
        assert same(compiled(x), f(x))
    chain = [entry_of(compiled)]
    while chain[-1].resumes:
        chain.append(entry_of(chain[-1].resumes[0]))
    assert [(entry.direct, entry.direct_hits) for entry in chain] == [(True, 2)] * 3


def test_with_the_other_backends():
    for backend in ("aot_eager", "inductor"):
        compiled = framejit.compile(lambda t: (t + 1, [t * 2]), backend=backend)
        for _ in range(3):
            assert same(compiled(x), (x + 1, [x * 2]))
        assert entry_of(compiled).direct_hits == 2
        framejit.reset()


def test_training_step():
    model = nn.Linear(3, 3)
    compiled = framejit.compile(lambda t: (model(t) ** 2).sum(), backend="aot_eager")
    for _ in range(3):
        model.zero_grad()
        compiled(x).backward()
        ours = model.weight.grad.clone()
        model.zero_grad()
        (model(x) ** 2).sum().backward()
        assert torch.allclose(ours, model.weight.grad)
    assert entry_of(compiled).direct_hits == 2


def test_a_backend_that_returns_the_wrong_number_of_outputs():
    wrong = framejit.compile(lambda t: (t + 1, t * 2), backend=lambda gm, inputs: lambda t: (t,))
    for _ in range(2):
        with pytest.raises(framejit.BackendError, match="returned 1 outputs; the graph has a tuple of 2 outputs"):
            wrong(x)
    assert entry_of(wrong).direct_hits == 1


# ---- exceptions ----


def places(call: Callable[[], object]) -> list[tuple[Any, ...]]:
    """The place in this file where the traceback passes through the function: line and columns."""
    with pytest.raises(IndexError) as caught:
        call()
    found = []
    for entry in traceback.extract_tb(caught.value.__traceback__):
        if entry.filename == __file__ and entry.name.startswith("looks_up"):
            found.append((entry.name, entry.lineno, entry.end_lineno, entry.colno, entry.end_colno))
    return found


def looks_up(table, where):
    return [functional.embedding(where, table), 1]


def test_an_error_in_the_graph_is_at_the_line_and_columns_of_eager():
    right, wrong = torch.tensor([0, 1]), torch.tensor([0, 7])
    compiled = framejit.compile(looks_up, backend="eager", fullgraph=True)
    assert same(compiled(x, right), looks_up(x, right))
    expected = places(lambda: looks_up(x, wrong))
    assert len(expected) == 1 and expected[0][3] is not None
    for _ in range(2):
        assert places(lambda: compiled(x, wrong)) == expected
    assert entry_of(compiled).direct_hits == 2
    sys.setprofile(lambda *event: None)
    try:
        assert places(lambda: compiled(x, wrong)) == expected  # by a frame
    finally:
        sys.setprofile(None)
    assert (entry_of(compiled).hits, entry_of(compiled).direct_hits) == (4, 2)


def test_an_error_of_the_backend_passes_through_unchanged():
    class Odd(Exception):
        pass

    error = Odd("kept")

    def backend(gm, inputs):
        def run(*args):
            if fail:
                raise error
            return gm(*args)

        return run

    fail = False
    compiled = framejit.compile(lambda t: t + 1, backend=backend)
    compiled(x)
    fail = True
    for _ in range(2):
        with pytest.raises(Odd) as caught:
            compiled(x)
        assert caught.value is error and caught.value.__context__ is None
        names = [entry.name for entry in traceback.extract_tb(caught.value.__traceback__)]
        assert names.count("<lambda>") == 1 and names[-1] == "run"
        error.__traceback__ = None
    fail = False
    assert torch.equal(compiled(x), x + 1)


# ---- who watches ----


def test_tracers_and_profilers_see_the_function():
    def watched(t):
        return t + 1

    compiled = framejit.compile(watched, backend="eager")
    compiled(x)
    for switch in (sys.settrace, sys.setprofile):
        seen: list[str] = []
        switch(lambda frame, event, arg: seen.append(frame.f_code.co_name) if event == "call" else None)
        try:
            compiled(x)
        finally:
            switch(None)
        assert seen.count("watched") == 1
    assert entry_of(compiled).direct_hits == 0


def test_a_tracer_on_another_thread_sees_that_threads_calls():
    def watched(t):
        return t + 1

    compiled = framejit.compile(watched, backend="eager")
    compiled(x)
    seen: list[str] = []

    def work():
        sys.settrace(lambda frame, event, arg: seen.append(frame.f_code.co_name) if event == "call" else None)
        compiled(x)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen.count("watched") == 1
    compiled(x)
    assert entry_of(compiled).direct_hits >= 1


# ---- arguments ----


def test_defaults_and_signature_of_the_function_are_read_at_each_call():
    def f(t, scale=2.0, *, shift=1.0):
        return t * scale + shift

    compiled = framejit.compile(f, backend="eager")
    compiled(x)
    assert same(compiled(x), x * 2 + 1)
    f.__defaults__ = (3.0,)
    assert same(compiled(x), x * 3 + 1) and same(compiled(x), x * 3 + 1)
    f.__kwdefaults__ = {"shift": 5.0}
    assert same(compiled(x), x * 3 + 5) and same(compiled(t=x, shift=5.0), x * 3 + 5)
    for args, kwargs in [((), {}), ((x, 1, 2), {}), ((x,), {"t": x}), ((x,), {"nonsense": 1})]:
        with pytest.raises(TypeError) as ours:
            compiled(*args, **kwargs)
        with pytest.raises(TypeError) as eager:
            f(*args, **kwargs)
        assert str(ours.value) == str(eager.value)


def test_a_method_that_reads_its_class_cell():
    class Base(nn.Module):
        def forward(self, t):
            return t + 1

    class Derived(Base):
        def forward(self, t):
            return super().forward(t) * 2

    model = Derived()
    compiled = framejit.compile(model, backend="eager", fullgraph=True)
    for _ in range(3):
        assert same(compiled(x), (x + 1) * 2)
    assert entry_of(compiled).direct_hits == 2


# ---- lifetime ----


def test_an_input_is_freed_by_the_graph_that_is_done_with_it():
    """Only the caller's variable held it: a list that the caller empties when the graph begins."""
    seen: list[bool] = []
    held: list[torch.Tensor] = []

    def backend(gm, inputs):
        def run(args):
            (first,) = args
            args.clear()
            result = first + 1
            held.clear()
            gone = weakref.ref(first)
            del first
            seen.append(gone() is None)
            return (result,)

        run._boxed_call = True
        return run

    compiled = framejit.compile(lambda items: items[0] + 1, backend=backend)
    for _ in range(3):
        held.append(torch.ones(3))
        assert torch.equal(compiled(held), torch.full((3,), 2.0))
    assert seen == [True] * 3 and entry_of(compiled).direct_hits == 2


def test_memory_is_flat_over_many_calls():
    compiled = framejit.compile(shared, backend=lambda gm, inputs: (kept := gm(*inputs)) and (lambda *args: kept))
    for _ in range(100):
        compiled(x)
    gc.collect()
    count, blocks = sys.getrefcount(x), sys.getallocatedblocks()
    for _ in range(100_000):
        compiled(x)
    gc.collect()
    assert sys.getrefcount(x) == count and sys.getallocatedblocks() - blocks < 100


def test_generators_are_left_alone():
    compiled = framejit.compile(lambda t: t + 1, backend="eager")
    compiled(x), compiled(x)
    compiled.__code__ = (lambda t: (yield t)).__code__
    assert inspect.isgenerator(compiled(x))
