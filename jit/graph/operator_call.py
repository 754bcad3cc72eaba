"""`OperatorCall`, one call of an operator on its way into the graph, and the registry of rules for such calls.

A subject (sparse tensors, hooks on saved tensors, ...) handles the operators that concern it by a rule, in its own file:

    @rule(Phase.REFUSE)
    def refuse_sparse(state: TraceState, operation: OperatorCall) -> None:
        if ...:
            state.vm.unsupported(breaks.UnsupportedOperation(...))

The builder runs all rules of a phase, in the order of their qualified names, and doesn't know any of them. So no two rules may have the same name.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import field
from typing import Any

import torch
from torch import fx

from framejit.graph.fake import version_of
from framejit.graph.trace_state import TraceState
from framejit.quick_dataclass import dataclass


@dataclass(slots=True)
class OperatorCall:
    """One call of an operator. Rules may replace `op`, `target` and arguments in the phase REPLACE, and `kwargs` in the phase CHECK.

    Attributes:
        op, target: those of the node, as in torch.fx.
        name: the name of the operator, for break reasons.
        args, kwargs: the arguments of the node.
        fake_args, fake_kwargs: the same with fakes instead of nodes.
        fakes: the tensors among these.
        is_fixed: whether other code finds the node by its target; then no rule may replace the target.
        versions: the versions of `fakes` before the operator runs.
        changes: whether the operator changes one of `fakes`, or something else; then the node stays even if its result isn't used.
        result: its result on fakes.
        bindings: the symbols that its result binds, which depend on data.
        has_forgotten: whether the trace knew the data of small constants among `fakes`, and no longer does.
        node: its node; None until the phase NODE.
        notes: what a rule remembers for a later phase, by a key of its own.
    """

    op: str
    target: Any
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    fake_args: tuple[Any, ...]
    fake_kwargs: dict[str, Any]
    fakes: list[torch.Tensor]
    is_fixed: bool = False
    versions: list[int] = field(default_factory=list)
    changes: bool = False
    result: Any = None
    bindings: dict[Any, Any] | None = None
    has_forgotten: bool = False
    node: fx.Node | None = None
    notes: dict[Any, Any] = field(default_factory=dict)

    @property
    def inner_graphs(self) -> list[fx.GraphModule]:
        """The finished inner graphs among its arguments, which it runs."""
        return [arg for given in self.fake_args for arg in (given if isinstance(given, tuple) else (given,)) if isinstance(arg, fx.GraphModule)]

    def changed(self) -> list[torch.Tensor]:
        """The fakes that the operator may have changed: the first of its arguments, and those whose version has changed."""
        return [fake for index, fake in enumerate(self.fakes) if index == 0 or version_of(fake) != self.versions[index]]


class Phase(enum.IntEnum):
    """The phases in which rules run, in this order. The operator runs on fakes between REMEMBER and CHECK."""

    REPLACE = 0
    """Rules replace this operator by another one, or its arguments by equal ones."""
    REFUSE = 1
    """Rules stop the trace at operators that can't be in the graph."""
    REMEMBER = 2
    """Rules note what they compare in a later phase."""
    CHECK = 3
    """Rules check the result."""
    CHECK_CHANGE = 4
    """Rules check the changes; only for operators that change something."""
    NODE = 5
    """The operator has a node."""


Rule = Callable[["TraceState", OperatorCall], None]
RULES: dict[Phase, list[Rule]] = {phase: [] for phase in Phase}


class SecondRule(Exception):
    """Two rules of one phase have the same name, so that nothing tells which of them runs first."""


def rule(phase: Phase) -> Callable[[Rule], Rule]:
    """Register a function to be called with each operation in this phase. Raises SecondRule if the phase has a rule of that name in that module."""

    def register(function: Rule) -> Rule:
        known = RULES[phase]
        if any((one.__module__, one.__qualname__) == (function.__module__, function.__qualname__) for one in known):
            raise SecondRule(f"{phase.name} has two rules with the name {function.__qualname__} in {function.__module__}")
        known.append(function)
        known.sort(key=lambda one: (one.__module__, one.__qualname__))  # not by the order in which files are imported
        return function

    return register


def run_rules(phase: Phase, state: TraceState, operation: OperatorCall) -> None:
    """Run the rules of a phase."""
    for known in RULES[phase]:
        known(state, operation)
