"""objects/core/registry.py: a callable, a type and a function by name have one meaning each, whichever file is loaded first."""

from __future__ import annotations

import pytest

from framejit.objects.core import registry
from framejit.objects.core.registry import SecondMeaning


@pytest.fixture(autouse=True)
def tables_of_its_own(monkeypatch):
    for name in ("MEANINGS", "WRAPPERS", "NAMED"):
        monkeypatch.setattr(registry, name, dict(getattr(registry, name)))
    monkeypatch.setattr(registry, "LIBRARY", list(registry.LIBRARY))


def target(x):
    return x


def first(vm, x):
    return "first"


def second(vm, x):
    return "second"


@pytest.mark.parametrize("register", [registry.models(target), registry.models_by_default(target), registry.around(target), registry.rules(target)])
def test_a_second_meaning_of_one_kind_is_refused(register):
    register(first)
    register(first)
    with pytest.raises(SecondMeaning, match=r"target has a (model|fallback|around|rule) in .*first and in .*second"):
        register(second)


def test_a_stand_in_beside_a_model_is_refused():
    registry.models(target)(first)
    with pytest.raises(SecondMeaning, match="has the stand-in .*second and the model .*first"):
        registry.app(target)(second)


def test_a_second_wrapper_of_a_type_is_refused():
    class Made:
        pass

    registry.wraps(Made)(first)
    with pytest.raises(SecondMeaning, match="Made is wrapped by .*first and by .*second"):
        registry.wraps(Made)(second)


def test_a_second_rule_for_a_name_is_refused():
    registry.named("absent.module", "f")(first)
    with pytest.raises(SecondMeaning, match=r"absent\.module\.f has a rule in .*first and in .*second"):
        registry.named("absent.module", "f")(second)


@pytest.mark.parametrize("own_first", [True, False])
def test_a_model_of_its_own_counts_more_than_one_of_a_group(own_first):
    steps = [registry.models(target), registry.models_by_default(target)]
    for register, model in list(zip(steps, (first, second)))[:: 1 if own_first else -1]:
        register(model)
    assert registry.model_of(target) is first


@pytest.mark.parametrize("own_first", [True, False])
def test_what_is_around_a_model_is_asked_first_in_either_order(own_first):
    def asked(vm, x, own):
        return "asked", own(vm, x)

    steps = [(registry.models(target), first), (registry.around(target), asked)]
    for register, function in steps[:: 1 if own_first else -1]:
        register(function)
    model = registry.model_of(target)
    assert model(None, 1) == ("asked", "first")
    assert registry.model_of(target) is model


def test_rules_are_asked_in_their_order(monkeypatch):
    monkeypatch.setattr(registry, "LIBRARY", [])
    for order in reversed(registry.RuleOrder):
        registry.library(order)(lambda vm, function, args, kwargs: None)
    assert [order for order, _ in registry.LIBRARY] == list(registry.RuleOrder)


def test_a_second_meaning_of_code_is_refused(monkeypatch):
    monkeypatch.setattr(registry, "CODES", {})
    code = target.__code__
    registry.rules_of_code(code)(first)
    with pytest.raises(SecondMeaning, match="target has a rule in .*first and in .*second"):
        registry.rules_of_code(code)(second)
    registry.runs_uncompiled(code, "a reason")
    with pytest.raises(SecondMeaning, match="target is said twice"):
        registry.runs_uncompiled(code, "another")
