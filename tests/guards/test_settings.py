"""Settings of the process that a trace reads are guarded: changing one afterwards is noticed."""

from __future__ import annotations

import abc
import gc
import weakref

import pytest
import torch

import framejit

x = torch.ones(2)


@pytest.mark.parametrize(
    ("read", "write"),
    [
        (lambda: torch.backends.cudnn.benchmark, lambda value: setattr(torch.backends.cudnn, "benchmark", value)),
        (torch.backends.cuda.flash_sdp_enabled, torch.backends.cuda.enable_flash_sdp),
        (torch.backends.cuda.math_sdp_enabled, torch.backends.cuda.enable_math_sdp),
    ],
    ids=["cudnn.benchmark", "flash_sdp", "math_sdp"],
)
def test_a_setting_that_was_read_is_guarded(read, write):
    def f(t):
        return t + 1 if read() else t - 1

    compiled = framejit.compile(f, backend="eager", fullgraph=True)
    before = read()
    try:
        for value in (before, not before, before):
            write(value)
            assert torch.equal(compiled(x), f(x)), value
        assert len(compiled.entries) == 2
    finally:
        write(before)


def test_a_setting_that_was_not_read_is_not():
    compiled = framejit.compile(lambda t: t + 1, backend="eager", fullgraph=True)
    before = torch.backends.cudnn.benchmark
    try:
        compiled(x)
        torch.backends.cudnn.benchmark = not before
        compiled(x)
        assert len(compiled.entries) == 1
    finally:
        torch.backends.cudnn.benchmark = before


def test_a_class_registered_later_is_noticed():
    class Base(abc.ABC):
        pass

    class Other:
        pass

    other = Other()
    compiled = framejit.compile(lambda t: t + 1 if isinstance(other, Base) else t - 1, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), x - 1) and torch.equal(compiled(x), x - 1)
    assert len(compiled.entries) == 1
    Base.register(Other)
    assert torch.equal(compiled(x), x + 1)


@pytest.mark.only_eager(reason="the test has backends of its own")
def test_an_import_by_the_backend_that_registers_classes_compiles_nothing_twice():
    """As AOTAutograd imports networkx, which does."""

    class Base(abc.ABC):
        pass

    class Other:
        pass

    def register_one(gm, example_inputs):
        Base.register(type("Unrelated", (), {}))
        return gm

    other = Other()

    def f(t):
        return t + 1 if isinstance(other, Base) else t - 1

    compiled = framejit.compile(f, backend=register_one, fullgraph=True)
    assert torch.equal(compiled(x), x - 1) and torch.equal(compiled(x), x - 1)
    assert len(compiled.entries) == 1
    Base.register(Other)
    assert torch.equal(compiled(x), x + 1)


def test_a_class_that_is_asked_about_is_not_kept_alive():
    class Base(abc.ABC):
        pass

    def f(t, other):
        return t + 1 if isinstance(other, Base) else t - 1

    compiled = framejit.compile(f, backend="eager", fullgraph=True)
    for register in (False, True):
        other = type("Other", (), {})
        if register:
            Base.register(other)
        reference = weakref.ref(other)
        assert torch.equal(compiled(x, other()), x + 1 if register else x - 1)
        del other
        gc.collect()
        assert reference() is None
