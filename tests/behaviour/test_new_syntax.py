"""Programs in the syntax of newer Pythons, and those whose bytecode differs between Pythons, with breaks in every place, compared with eager."""

from __future__ import annotations

import builtins
import sys
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


FROZEN = {
    "items": "def f(x, d):\n    return [x * value for value in d.values()], [*d], len(d), d['a'], d.get('z', 5), 'b' in d",
    "union": "def f(x, d):\n    both = d | {'c': 3}\n    return type(both).__name__, x * both['c'], dict(both), hash(d) == hash(frozendict(b=2, a=1))",
    "made": "def f(x, d):\n    return frozendict(a=x)['a'] + 1, frozendict.fromkeys('ab', 2), {**d}, repr(d)",
    "store": "def f(x, d):\n    try:\n        d['a'] = x\n    except TypeError as error:\n        return x + 1, str(error)",
    "match": "def f(x, d):\n    match d:\n        case {'a': a, **rest}:\n            return x + a + len(rest)",
    "sentinel": "NONE = sentinel('NONE')\ndef f(x, d, default=NONE):\n    return (x + 1 if default is NONE else x), d.get('z', default) is NONE, repr(NONE)",
}


@pytest.mark.parametrize("name", FROZEN)
def test_builtins_of_new_versions(name):
    namespace: dict[str, Any] = {"__name__": "program"}
    if not hasattr(builtins, "frozendict"):
        assert sys.version_info < (3, 15)
        return
    exec(FROZEN[name], namespace)
    same_story(namespace["f"], (torch.arange(3.0), namespace["__builtins__"]["frozendict"](a=1, b=2)))
