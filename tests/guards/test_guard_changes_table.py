"""The change table as a whole: every kind has its scenarios, and no scenario without a change beside what it looks at passes."""

from __future__ import annotations

import collections
from typing import Any

import pytest
import test_guard_changes
import test_guard_changes_afar
import test_guard_changes_modules
import test_guard_changes_python
import test_guard_changes_state
import test_guard_changes_torch
import torch
from change_kinds import Kind
from neighbours import RULES, Beside, Surroundings
from scenarios import NEW, SAME, Scenario, play, start

FILES = (test_guard_changes, test_guard_changes_afar, test_guard_changes_modules, test_guard_changes_python, test_guard_changes_state,
         test_guard_changes_torch)  # fmt: skip
ALL = [row for file in FILES for row in file.table.scenarios]
x = torch.arange(6.0).reshape(2, 3)


def test_every_kind_has_a_scenario():
    assert {row.kind for row in ALL} == set(Kind)


def test_no_two_kinds_are_the_same():
    """Members of an enum with equal values would be one."""
    assert len(Kind.__members__) == len(Kind)
    assert len({kind.what for kind in Kind}) == len(Kind) >= 60


def test_every_scenario_is_run_under_its_own_name():
    assert [name for name, count in collections.Counter(row.name for row in ALL).items() if count > 1] == []


def test_what_is_beside_has_a_rule_or_is_changed_by_the_scenario_itself():
    assert {beside for beside in Beside if beside not in RULES} == {Beside.ITEM, Beside.CELL, Beside.STATE}


def test_exceptions_say_why():
    assert all(reason for row in ALL for reason in row.looks_at.values())


def without_anything_beside():
    """A dict that is looked at as a whole; and nothing else is changed."""
    d = {"a": 1}
    yield start(lambda t: t * len(d), x)
    d["b"] = 2
    yield NEW


def test_a_scenario_needs_a_change_beside():
    with pytest.raises(AssertionError, match="nothing beside what without_anything_beside looks at"):
        play(Scenario(without_anything_beside, Kind.DICT, {Beside.KEY: "it asks for the length"}))


def test_a_change_beside_must_not_compile():
    with pytest.raises(AssertionError, match="another key of the same dict: .*"):
        play(Scenario(without_anything_beside, Kind.DICT, {}))


def whose_change_is_not_beside():
    yield start(lambda t: t + 1, x)
    yield SAME.of(x.double())


def test_what_a_scenario_calls_unrelated_must_not_compile():
    with pytest.raises(AssertionError, match="step 1: 1 compilations"):
        play(Scenario(whose_change_is_not_beside, Kind.PASSED_ON, {}))


class Thing:
    """With something for each rule."""

    def __init__(self):
        self.layer = torch.nn.Linear(3, 3)
        self.table = {"a": 1}


def everything(thing):
    return thing.layer(x) * thing.table["a"]


def portrait(thing: Thing) -> Any:
    parts = [vars(thing), vars(Thing), globals(), everything.__kwdefaults__, thing.table, vars(torch.Tensor), vars(torch)]
    settings = torch.is_warn_always_enabled(), torch.get_autocast_dtype("cpu"), torch.utils.deterministic.fill_uninitialized_memory
    dicts = [list(part) for part in vars(thing.layer).values() if isinstance(part, dict)]
    flags = torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction
    return [part and list(part) for part in parts], dicts, everything(thing).tolist(), settings, flags


@pytest.mark.parametrize("beside", RULES)
def test_rules_change_something_and_put_it_back(beside):
    thing = Thing()
    before = portrait(thing)
    around = Surroundings([everything, thing])
    states = []
    for _ in RULES[beside](around):
        states.append(portrait(thing))
    assert states and before not in states
    assert portrait(thing) == before
    changes = RULES[beside](around)
    next(changes)
    changes.close()
    assert portrait(thing) == before
