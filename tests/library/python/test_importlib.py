"""importlib's functions in compiled code: whether a package is there, as libraries ask in each step."""

from __future__ import annotations

import importlib.util
import sys
import types

import pytest
import torch

import framejit

x = torch.ones(2)


def test_a_package_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(t: torch.Tensor) -> torch.Tensor:
        if importlib.util.find_spec("no_such_package") is not None:
            return t + 1
        return t + 2

    compiled = framejit.compile(f, backend="eager", fullgraph=True)
    framejit.reset()
    assert torch.equal(compiled(x), x + 2) and torch.equal(compiled(x), x + 2)
    assert framejit.statistics()["recompiles"] == 0
    made = types.ModuleType("no_such_package")
    made.__spec__ = importlib.machinery.ModuleSpec("no_such_package", None)
    monkeypatch.setitem(sys.modules, "no_such_package", made)
    assert torch.equal(compiled(x), x + 1)


@pytest.mark.parametrize("name, breaks", [("torch", 0), ("os.path", 1), ("this", 1)])
def test_a_package_that_is_there(name: str, breaks: int) -> None:
    def f(t: torch.Tensor) -> object:
        found = importlib.util.find_spec(name)
        return t + 1, found.name

    framejit.reset()
    assert str(framejit.compile(f, backend="eager")(x)) == str(f(x))
    assert len(framejit.statistics()["reasons"]) == breaks
