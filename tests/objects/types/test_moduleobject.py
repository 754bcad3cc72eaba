"""Attributes of modules that are read by the method of their type."""

from __future__ import annotations

import types

import torch
from agreement import tried

import framejit

MADE = types.ModuleType("made")
MADE.factor = 2
MADE.__getattr__ = lambda name: name.upper() if name == "other" else missing(name)


def missing(name):
    raise AttributeError(name)


class Proxy(types.ModuleType):
    """Reads from another module, as torch.backends does."""

    def __getattr__(self, name):
        return MADE.__getattribute__(name)


def test_attributes_read_by_the_method():
    def program(x):
        proxy = PROXY
        found = MADE.__getattribute__("factor"), types.ModuleType.__getattribute__(torch, "pi"), proxy.factor, proxy.other
        return x * found[0], found, getattr(proxy, "nothing", None), [tried(MADE.__getattribute__, name) for name in ("nothing", 3)]

    framejit.reset()
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    assert repr(compiled(torch.ones(2))) == repr(program(torch.ones(2)))
    MADE.factor = 3
    try:
        assert repr(compiled(torch.ones(2))) == repr(program(torch.ones(2)))
    finally:
        MADE.factor = 2


PROXY = Proxy("proxy")
