"""Programs in the syntax of newer Pythons, and those whose bytecode differs between Pythons, with breaks in every place, compared with eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from stories import same_story
from syntax_programs import KNOWN, PROGRAMS, compiles, program

import framejit


@pytest.mark.parametrize("name", KNOWN)
def test_program(name):
    same_story(program(name), (torch.arange(3.0),))


def test_an_import_that_waits_is_done_where_it_is_used(tmp_path, monkeypatch):
    if not compiles("lazy import json"):
        assert "lazy" not in PROGRAMS
        return
    (tmp_path / "waiting_module.py").write_text("print('imported')\ndef scale(x):\n    return x * 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    namespace: dict[str, Any] = {"__name__": "program"}
    exec("lazy import waiting_module\nlazy from json import dumps\ndef f(x):\n    return waiting_module.scale(x), dumps([1])\n", namespace)
    fast = framejit.compile(namespace["f"], backend="eager")
    for _ in range(2):
        scaled, text = fast(torch.ones(2))
        assert torch.equal(scaled, torch.full((2,), 3.0)) and text == "[1]"
