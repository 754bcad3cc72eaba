"""Models and stand-ins of C functions accept, refuse and say the same as the real functions, over generated arguments.

Each function is called with arguments of many kinds, in numbers and with names that fit and that don't, compiled and not. FRAMEJIT_MODELS says
how many calls of each are made, and which ones: `FRAMEJIT_MODELS=200,7`.
"""

from __future__ import annotations

import math
import os
import warnings
from typing import Any

import pytest
import torch
from model_calls import attempt, calls_of, known_functions, portrait, shown

import framejit
from framejit import config
from framejit.objects.core import registry

COUNT, SEED = (int(part) for part in os.environ.get("FRAMEJIT_MODELS", "4,0").split(","))
FUNCTIONS = known_functions()
GROUPS: dict[str, list[str]] = {}
for _name in FUNCTIONS:
    GROUPS.setdefault(_name.rpartition(".")[0], []).append(_name)

DIFFER = {
    "_functools.cmp_to_key": "gives objects of another class, which a program sees only by their type",
}
"""Functions whose models are known to be wrong about some of these calls, and how."""


def outcome(run: Any, real: Any, args: Any, named: Any) -> Any:
    """Return a call's result and its arguments afterwards, in comparable form."""
    given, by_name = [make() for make in args], {name: make() for name, make in named.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return portrait(run(real, given, by_name)), portrait(given), portrait(by_name)


@pytest.mark.parametrize("group", GROUPS)
def test_calls_are_eagers(group):
    compiled = framejit.compile(attempt, backend="eager")
    for name in GROUPS[group]:
        if name in DIFFER:
            continue
        real = FUNCTIONS[name]
        for args, named in calls_of(real, COUNT, SEED):
            expected = outcome(attempt, real, args, named)
            assert outcome(compiled, real, args, named) == expected, f"{name}({shown(args, named)})"
            compiled.clear()
    framejit.reset()


def test_all_of_the_registry_is_called():
    assert len(FUNCTIONS) > 600
    assert {"builtins.len", "itertools.product", "builtins.list.sort", "math.prod", "_operator.countOf", "builtins.str.join"} <= FUNCTIONS.keys()
    assert DIFFER.keys() <= FUNCTIONS.keys()


def test_a_wrong_model_is_found_while_compiling(monkeypatch):
    def wrong(vm, *args):
        return vm.const(5)

    def refuses(vm, *args):
        vm.raise_(TypeError, "wrong")

    def handled(x):
        try:
            return x * math.isqrt(17)
        except TypeError:
            return x

    for model, said in ((wrong, r"isqrt\(17\) gives 5; the real function gives 4"), (refuses, r"isqrt\(17\) raises TypeError; the real function gives 4")):
        monkeypatch.setattr(registry.meaning_to_fill(math.isqrt), "model", model)
        with config.replace(check="compile"), pytest.raises(framejit.InternalError, match=said):
            framejit.compile(handled, backend="eager")(torch.ones(2))
    monkeypatch.undo()
    assert torch.equal(framejit.compile(handled, backend="eager")(torch.ones(2)), torch.ones(2) * 4)
