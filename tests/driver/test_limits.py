"""Calls of a function that may not be compiled again."""

from __future__ import annotations

import pytest
import torch

import framejit
from framejit.driver import callback


def test_beyond_the_limit_no_guard_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a user has been told of a limit, calls that no entry fits run as written at once; the entries that are there still serve theirs."""
    with framejit.config.replace(recompile_limit=2):
        compiled = framejit.compile(lambda x: x * 2 + len(x), backend="eager", dynamic=False)
    for n in (1, 2, 3):
        compiled(torch.ones(n))
    asked = []
    monkeypatch.setattr(callback, "decide", asked.append)
    monkeypatch.setattr(callback, "note_varying", asked.append)
    before = framejit.statistics()
    for n in (3, 4, 1, 2, 5):
        assert torch.equal(compiled(torch.ones(n)), torch.full((n,), 2.0 + n))
    assert not asked and framejit.statistics() == before
