"""Inputs that a graph changes in place, under AOTAutograd: the backward graph never computes from one directly, since it would get its new data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._functorch._aot_autograd.descriptors import InputMutationAOTOutput
from torch.utils.checkpoint import CheckpointPolicy

from framejit.backends.memory import value_of, views_of
from framejit.backends.recompute import RECOMPUTE

COPY = "framejit_copy"
"""The metadata key that marks a node which copies an input before the graph changes it."""
ATEN = torch.ops.aten
Partition = Callable[..., tuple[fx.GraphModule, fx.GraphModule]]


def partition_with_copies(
    partition: Partition, gm: fx.GraphModule, joint_inputs: Sequence[object], **kwargs: Any
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Divide AOTAutograd's joint graph into a forward and a backward graph as `partition` does, but so that the backward graph takes no input that the
    forward graph changes.

    torch's partitioner assumes that an input costs nothing to save, and has the backward graph recompute what follows from it; but by then the input has its
    new data. So everything that is computed from such an input is computed from a copy, which may be saved, but isn't made a second time. If the backward
    graph doesn't need the copy, the forward graph does without it.
    """
    for changed in changed_inputs(gm.graph):
        insert_copy(gm.graph, changed)
    forward, backward = partition(gm, joint_inputs, **kwargs)
    copies = [node for node in forward.graph.nodes if COPY in node.meta]
    for copy in copies:
        if not leaves(copy):
            put_in_place(copy, copy.args[0])
            forward.graph.erase_node(copy)
    if copies:
        forward.recompile()
    return forward, backward


def changed_inputs(joint: fx.Graph) -> dict[fx.Node, None]:
    """The placeholders whose data a call changes, each once. AOTAutograd ends the forward pass with a `copy_` to each; if autograd has to record the change,
    the graph returns the new data instead, and AOTAutograd copies them to the input after it."""
    found: dict[fx.Node, None] = {}
    for node in joint.find_nodes(op="call_function", target=ATEN.copy_.default):
        if node.args[0].op == "placeholder" and node.meta.get("partitioner_tag") != "must_be_in_backward":
            found[node.args[0]] = None
    inputs = {node.meta["desc"]: node for node in joint.find_nodes(op="placeholder") if "desc" in node.meta}
    for described in joint.output_node().meta.get("desc", ()):
        if isinstance(described, InputMutationAOTOutput):  # of a plain tensor: graphs with tensors that wrap others change nothing
            found[inputs[described.mutated_input]] = None
    return found


def insert_copy(joint: fx.Graph, changed: fx.Node) -> None:
    """Make everything that is computed from an input be computed from a copy of it."""
    first = next(node for node in joint.nodes if node.op != "placeholder")
    with joint.inserting_before(first):
        copy = joint.call_function(ATEN.clone.default, (changed,))
    copy.meta = {COPY: True, RECOMPUTE: CheckpointPolicy.MUST_SAVE}
    copy.meta["val"] = value_of(copy)
    put_in_place(changed, copy)


def put_in_place(old: fx.Node, new: fx.Node) -> None:
    """Make the users of one node use another, with equal data, except for the other node itself, outputs, and operators that write to it.

    The fakes of views record in which memory they lie, which tells Inductor what it may overwrite: so they are made again.
    """

    def is_reading(user: fx.Node) -> bool:
        writes = user.target is ATEN.copy_.default and user.args[0] is old
        return user is not new and user.op != "output" and not writes

    old.replace_all_uses_with(new, is_reading)
    for view in views_of(new):
        view.meta["val"] = value_of(view)


def leaves(copy: fx.Node) -> bool:
    """Return whether a copy, or a view of it, is a result of its graph."""
    return any(user.op == "output" for node in (copy, *views_of(copy)) for user in node.users)
