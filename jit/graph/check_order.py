"""Finds the program's checks in a graph that may fail after the graph has changed something.

If a check fails, the call runs uncompiled from its beginning, and so meets the problem itself. So the graph must not have changed anything by then, except
for state that is restored: that of random number generators.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from types import BuiltinFunctionType

import torch
from torch import fx

from framejit.graph.demands import Demands
from framejit.graph.fake import is_of_others, name_of_operator, storages
from framejit.graph.inner import nodes_within
from framejit.graph.metadata import CHANGES
from framejit.graph.on_fakes import STAND_INS
from framejit.graph.opaque_objects import takes_opaque
from framejit.graph.prune import PURE_TARGETS, has_tensor
from framejit.graph.statistics import changed_statistics
from framejit.graph.written import arguments_of
from framejit.torch_state.operator_exceptions import READ_NUMBER
from framejit.torch_state.torch_modes import MODE_CHANGES

ASSERT = torch.ops.aten._assert_scalar.default


def checks_after_changes(graph: fx.Graph, kept: set[fx.Node], inputs: set[int], demands: Demands) -> Iterator[fx.Node]:
    """The checks of a graph that may fail after a change of something outside it. `kept`: the nodes that change something; `inputs`: the storages of
    its inputs.
    """
    in_any_order = [] if demands.draws_in_order else [node for node in graph.nodes if node in kept]
    has_changed = any(changes_outside(node, inputs, demands.checks_before_changes) for node in in_any_order)
    changes_inputs = has_changed or any(changes_outside(node, inputs, False) for node in in_any_order)
    for node in graph.nodes:
        if node.target is ASSERT:
            if has_changed or (changes_inputs and flag_of(node) is None):
                yield node
        elif node in kept and changes_outside(node, inputs, demands.one_autograd_node):
            has_changed = True


def flag_of(check: fx.Node) -> tuple[fx.Node, bool] | None:
    """The tensor of one bool that a check asks for, and what it must be. None if the check asks for something else."""
    condition, expected = check.args[0], True
    if isinstance(condition, fx.Node) and condition.target is torch.sym_not:
        condition, expected = condition.args[0], False
    if not isinstance(condition, fx.Node) or name_of_operator(condition.target).rpartition("::")[2] not in READ_NUMBER:
        return None
    flag = condition.args[0]
    assert isinstance(flag, fx.Node)
    fake = flag.meta.get("example_value", flag.meta.get("val"))
    return (flag, expected) if isinstance(fake, torch.Tensor) and fake.dtype is torch.bool else None


def changes_outside(node: fx.Node, inputs: set[int], changes_inputs_last: bool) -> bool:
    """Return whether this node, one of those that change something, changes something outside the graph. `changes_inputs_last`: the graph's inputs are changed
    at its end, as in AOTAutograd's code, which computes their new values first.
    """
    if node.target in MODE_CHANGES or node.target is ASSERT:
        return False
    if changes_inputs_last and (node.target in STAND_INS or not runs_for_its_effect(node)):
        return False
    return not changes_result_only(node, inputs)


def runs_for_its_effect(node: fx.Node) -> bool:
    """Return whether a node changes something besides its arguments and torch's modes, as far as is known. One that takes graphs does so if a node
    of these does."""
    if takes_opaque(node):
        return True
    if node.target in MODE_CHANGES or node.target in PURE_TARGETS or has_tensor(node.meta.get("example_value")):
        return False
    calls = [inner for inner in nodes_within(node) if inner.op.startswith("call")]
    return not calls or any(map(runs_for_its_effect, calls))


def changes_result_only(node: fx.Node, outside: set[int]) -> bool:
    """Return whether a node that changes something in place changes a tensor in none of these storages, which are the inputs'. An operator that isn't torch's
    own may return a new tensor and write to any of its arguments, and do anything to an opaque object."""
    if takes_opaque(node):
        return False
    if storages(changed_statistics(node)) & outside:
        return False
    if is_of_others(node.target) and storages(fake for _, fake in arguments_of(node)) & outside:
        return False
    if isinstance(node.target, BuiltinFunctionType) and node.target.__name__.startswith(("_foreach_", "_amp_foreach_")):  # which return None
        return CHANGES in node.meta and not storages(used.meta["example_value"] for used in node.meta[CHANGES]) & outside
    changed = node.args[0] if node.target is operator.setitem else node
    fake = changed.meta["example_value"] if isinstance(changed, fx.Node) else None
    return isinstance(fake, torch.Tensor) and not storages([fake]) & outside
