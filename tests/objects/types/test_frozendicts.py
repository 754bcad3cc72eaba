"""frozendict, which Python has from 3.15 on, in compiled code."""

from __future__ import annotations

import builtins

import pytest
import torch

import framejit

frozendict = getattr(builtins, "frozendict", None)
pytestmark = pytest.mark.skipif(frozendict is None, reason="Python 3.15 and later have frozendict")
x = torch.ones(2)


def test_a_frozendict_from_outside_is_read_in_the_trace():
    weight = torch.full((2,), 3.0)
    table = frozendict(a=1, b=weight, c=[5])

    def program(t, table):
        table["c"].append(len(table["c"]))
        total = t * table["a"] + table["b"]
        known = [*table], list(table.keys()), [type(v).__name__ for v in table.values()], [k for k, _ in table.items()], [*reversed(table)]
        return total, known, len(table), "a" in table, "z" in table, table.get("z", 7), table.get("z"), bool(table), table["c"][-1], table["c"][0]

    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for given in (table, table, frozendict(a=2, b=weight, c=[5]), frozendict(a=2, b=weight, c=[5])):
        other = frozendict({**given, "c": [*given["c"]]})
        (found, *rest), (expected, *others) = compiled(x, given), program(x, other)
        assert torch.equal(found, expected) and rest == others and given["c"] == other["c"]


def test_missing_keys_and_stores_raise():
    table = frozendict(a=1)

    def program(t):
        errors = []
        for act in (lambda: table["z"], lambda: table.__setitem__("a", 2)):
            try:
                act()
            except (KeyError, AttributeError) as error:
                errors.append(type(error).__name__)
        return t + 1, errors

    assert framejit.compile(program, backend="eager")(x)[1] == program(x)[1] == ["KeyError", "AttributeError"]
