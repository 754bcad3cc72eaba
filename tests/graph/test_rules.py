"""Rules for operators: subjects register them, the builder runs them in a stated order, and neither knows the other."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
import torch

import framejit
from framejit import library
from framejit.breaks import UnsupportedOperation
from framejit.graph import operator_call
from framejit.graph.operator_call import RULES, OperatorCall, Phase, Rule, SecondRule, rule
from framejit.graph.trace_state import TraceState

GRAPH = Path(operator_call.__file__).parent


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules that a test registers are removed after it; framejit's own stay."""
    library.load()
    for phase, known in RULES.items():
        monkeypatch.setitem(RULES, phase, list(known))


@pytest.mark.usefixtures("rules")
def test_a_rule_refuses_an_operator_and_the_rest_is_compiled() -> None:
    @rule(Phase.REFUSE)
    def reject_cosines(state: TraceState, operation: OperatorCall) -> None:
        if operation.name == "cos":
            state.vm.unsupported(UnsupportedOperation("a cosine, which this test refuses"))

    def function(t: torch.Tensor) -> torch.Tensor:
        return (t + 1).cos() * 2

    t = torch.randn(3)
    report = framejit.explain(function, backend="eager")(t)
    assert report.graphs == 2
    assert "a cosine, which this test refuses" in str(report)
    assert torch.equal(framejit.compile(function, backend="eager")(t), function(t))


@pytest.mark.usefixtures("rules")
def test_phases_are_run_in_order_and_a_change_is_seen() -> None:
    seen: list[Any] = []
    for phase in Phase:

        def note(state: TraceState, operation: OperatorCall, phase: Phase = phase) -> None:
            seen.append((operation.name, phase, operation.changes, operation.node is not None))

        note.__qualname__ = phase.name
        rule(phase)(note)

    def function(t: torch.Tensor) -> torch.Tensor:
        return t.clone().add_(1)

    framejit.compile(function, backend="eager")(torch.ones(2))
    assert [phase for name, phase, _, _ in seen if name == "clone"] == [phase for phase in Phase if phase is not Phase.CHECK_CHANGE]
    assert [phase for name, phase, _, _ in seen if name == "add_"] == list(Phase)
    assert [changes for name, phase, changes, _ in seen if phase is Phase.CHECK] == [False, True]
    assert [has_node for _, phase, _, has_node in seen] == [phase is Phase.NODE for _, phase, _, _ in seen]


@pytest.mark.usefixtures("rules")
def test_the_order_of_rules_does_not_depend_on_the_order_of_imports() -> None:
    def first(state: TraceState, operation: OperatorCall) -> None: ...
    def second(state: TraceState, operation: OperatorCall) -> None: ...

    first.__qualname__, second.__qualname__ = "a", "b"
    for given in ((first, second), (second, first)):
        RULES[Phase.CHECK] = []
        for one in given:
            rule(Phase.CHECK)(one)
        assert RULES[Phase.CHECK] == [first, second]


@pytest.mark.usefixtures("rules")
def test_a_second_rule_of_one_name_is_an_error() -> None:
    def named() -> Rule:
        def check_nothing(state: TraceState, operation: OperatorCall) -> None: ...

        return check_nothing

    rule(Phase.CHECK)(named())
    with pytest.raises(SecondRule, match=r"CHECK has two rules with the name .*check_nothing in "):
        rule(Phase.CHECK)(named())
    assert [one.__name__ for one in RULES[Phase.CHECK]].count("check_nothing") == 1
    rule(Phase.NODE)(named())


def test_the_builder_imports_no_rule() -> None:
    """A file of rules is found by the loader, and is named by nobody who runs rules."""
    library.load()
    tree = ast.parse((GRAPH / "operator_call.py").read_text())
    assert not [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module not in ALLOWED]
    names = {function.__name__ for known in RULES.values() for function in known}
    assert len(names) > 10
    text = (GRAPH / "builder.py").read_text()
    assert not [name for name in names if name in text]


ALLOWED = ("__future__", "collections.abc", "dataclasses", "typing", "torch", "framejit.quick_dataclass", "framejit.graph.fake", "framejit.graph.trace_state")
