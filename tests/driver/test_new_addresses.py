"""Tests of functions that use the addresses of objects that are new in each call: after a few, the code that asks for an address runs between graphs."""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from guarding import HERE, slot

import framejit
from framejit.driver.history import FEW_ENDED, Addresses
from framejit.guards.kinds import AddressIs
from framejit.guards.source import Root

X = torch.ones(3)
CALLS = 12


class Request:
    def __init__(self, scale: int) -> None:
        self.scale = scale


@functools.lru_cache(maxsize=2)
def scale_of(request: Request) -> int:
    return request.scale


notes: dict[Any, int] = {}
served: weakref.WeakKeyDictionary[Request, int] = weakref.WeakKeyDictionary()


def hashed(x: torch.Tensor, request: Request) -> Any:
    return x * request.scale, hash(request)


def numbered(x: torch.Tensor, request: Request) -> Any:
    notes[id(request)] = request.scale
    return x + request.scale


def told(x: torch.Tensor, request: Request) -> Any:
    return x + request.scale, f"{request}"


def cached(x: torch.Tensor, request: Request) -> Any:
    return x * scale_of(request)


def looked_up(x: torch.Tensor, request: Request) -> Any:
    return x * served.get(request, 3)


@pytest.fixture(autouse=True)
def begin_anew() -> None:
    framejit.reset()
    notes.clear()
    scale_of.cache_clear()


@pytest.mark.parametrize("is_kept", [False, True], ids=["ended", "kept"])
@pytest.mark.parametrize("program", [hashed, numbered, told, cached, looked_up])
def test_new_objects_are_not_compiled_for_each(program: Callable[..., Any], is_kept: bool) -> None:
    compiled = framejit.compile(program, backend="eager")
    kept = []
    for number in range(CALLS):
        request = Request(2 + number % 2)
        assert repr(compiled(X, request)) == repr(program(X, request))
        kept += [request] * is_kept
    after = framejit.statistics()
    for number in range(CALLS):
        request = Request(2 + number % 2)
        assert repr(compiled(X, request)) == repr(program(X, request))
        kept += [request] * is_kept
    assert framejit.statistics() == after
    assert after["graphs"] and not after["fallbacks"]


def test_an_object_that_stays_splits_no_graph() -> None:
    compiled = framejit.compile(hashed, backend="eager")
    request = Request(2)
    for size in range(2, 8):
        assert compiled(torch.ones(size), request)[1] == hash(request)
    assert not framejit.statistics()["graph_breaks"]


def test_modules_that_come_and_go_are_compiled_whole() -> None:
    class Layer(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return x + 1, hash(self)

    forward = framejit.compile(Layer.forward, backend="eager")
    for _ in range(6):
        layer = Layer()
        assert forward(layer, X)[1] == hash(layer)
        del layer
        gc.collect()
    assert not framejit.statistics()["graph_breaks"]


def test_fullgraph_never_splits() -> None:
    compiled = framejit.compile(hashed, backend="eager", fullgraph=True)
    for _ in range(5):
        request = Request(2)
        assert compiled(X, request)[1] == hash(request)
    assert framejit.statistics()["graphs"] == 5


def test_objects_that_have_ended_are_not_kept_track_of_without_an_end() -> None:
    known, source = Addresses(), slot(Root())
    for _ in range(5):
        request = Request(2)
        known.note([AddressIs(source, HERE, request)], None)
        del request
    (references,) = known._known.values()
    assert len(references) == FEW_ENDED and list(known.varying(8)) == [source.path()]


def test_the_objects_are_freed_and_forgotten() -> None:
    compiled = framejit.compile(hashed, backend="eager")
    request = Request(2)
    compiled(X, request)
    reference = weakref.ref(request)
    del request
    gc.collect()
    assert reference() is None
    framejit.reset()
    for _ in range(2):
        compiled(X, Request(2))
    assert framejit.statistics()["graphs"] == 2 and not framejit.statistics()["graph_breaks"]
