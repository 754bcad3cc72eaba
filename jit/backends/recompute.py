"""Checkpoints under AOTAutograd: what is saved between the forward and the backward graph, and graphs that have both in one."""

from __future__ import annotations

import functools
import logging
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx
from torch._functorch.partitioners import get_default_op_list, min_cut_rematerialization_partition, must_recompute
from torch._higher_order_ops.wrap import tag_activation_checkpoint
from torch._ops import OpOverload
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

from framejit.graph.inner import graph_modules
from framejit.graph.metadata import CONTEXT_FN
from framejit.graph.repeated_changes import change_again_

REGION, RECOMPUTE = "ac_graph_id", "recompute"
"""Metadata of nodes that come of a checkpoint under AOTAutograd: which checkpoint (one inside another counts as the outer one), and a CheckpointPolicy."""


@contextmanager
def without_its_warning() -> Iterator[None]:
    """Keeps torch from warning of in-place operators in each graph that has a `context_fn`: framejit checkpoints no graph with such operators."""

    def passes(record: logging.LogRecord) -> bool:
        return "context_fn is passed" not in record.getMessage()

    logger = logging.getLogger(tag_activation_checkpoint.__class__.__module__)
    logger.addFilter(passes)
    try:
        yield
    finally:
        logger.removeFilter(passes)


def partition(gm: fx.GraphModule, joint_inputs: Sequence[object], **kwargs: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Divides AOTAutograd's joint graph into a forward and a backward graph as Inductor does, but saves the arguments of each checkpoint.

    Inductor itself has no need of it: it takes operators with several results apart, and its views don't count.
    """
    save_arguments(gm.graph)
    return min_cut_rematerialization_partition(gm, joint_inputs, **kwargs)


def save_arguments(joint: fx.Graph) -> None:
    """Have what a checkpoint takes from outside of it saved for the backward pass, as it is in eager.

    Else all that is marked for a second computation may be computed from the graph's inputs, before the backward pass begins: then each block's tensors
    are there at the same time, as without checkpoints. torch keeps what lies between two checkpoints too (`cleanup_recompute_tags`), but not where it
    is a view, such as the result of a Linear, or one of the results of an operator, such as a LayerNorm.
    """
    for node in joint.nodes:
        if must_recompute(node):
            region = node.meta.get(REGION)
            for argument in node.all_input_nodes:
                if argument.meta.get(REGION) != region:
                    save(argument)


def save(node: fx.Node) -> None:
    """Have a tensor saved for the backward pass: of a view what it is a view of, and with one result of an operator all of them."""
    kinds = get_default_op_list()
    while kinds.is_view(node):
        (node, *_) = node.all_input_nodes
    producer = node.args[0] if node.target is operator.getitem else node
    if node.op == "call_function" and isinstance(node.meta.get("val"), torch.Tensor):
        for saved in (producer, *(producer.users if producer is not node else ())):
            saved.meta[RECOMPUTE] = CheckpointPolicy.MUST_SAVE


def mark(gm: fx.GraphModule) -> None:
    """Mark for AOTAutograd what is computed backward, before which it puts what is computed a second time.

    It can't draw random numbers a second time: what was drawn is saved, whatever the program's own policy says. Checkpoints of what requires no gradient are
    what they consist of: AOTAutograd refuses those that draw.
    """
    for node in gm.graph.find_nodes(op="call_function", target=tag_activation_checkpoint):
        if not any(isinstance(value, torch.Tensor) and value.requires_grad for value in pytree.tree_leaves(node.meta["example_value"])):
            node.target, node.kwargs = run_once, {}
    asking = [node for node in gm.graph.nodes if node.target is torch.autograd.grad]
    for node in (*asking, *gm.graph.find_nodes(op="call_function", target=change_again_)):
        node.meta["autograd_backward"] = True
    for module in checkpointed_graphs(gm) if asking else ():
        module.meta[CONTEXT_FN] = functools.partial(saving_what_is_drawn, module.meta.get(CONTEXT_FN))


def run_once(inner: fx.GraphModule, *operands: Any) -> Any:
    """A checkpoint whose graph is never computed a second time."""
    return inner(*operands)


def computes_again(graph: fx.Graph) -> bool:
    """Whether operators of this graph come of checkpoints: in a graph with both passes, some are there a second time, after the forward pass."""
    return any(must_recompute(node) for node in graph.nodes)


def checkpointed_graphs(gm: fx.GraphModule) -> Iterator[fx.GraphModule]:
    """The graphs inside the graph, and inside those, that are checkpointed."""
    for module in graph_modules(gm):
        for node in module.graph.find_nodes(op="call_function", target=tag_activation_checkpoint):
            yield getattr(module, node.args[0].target)


def saving_what_is_drawn(context_fn: Callable[[], Any] | None) -> Any:
    """A `context_fn` for a checkpoint whose backward pass draws nothing."""
    forward, backward = (context_fn or functools.partial(create_selective_checkpoint_contexts, recompute_all))()
    forward.policy_fn = functools.partial(save_what_is_drawn, forward.policy_fn)
    return forward, backward


def recompute_all(context: Any, operation: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    return CheckpointPolicy.PREFER_RECOMPUTE


def save_what_is_drawn(policy: Callable[..., Any], context: Any, operation: Any, *args: Any, **kwargs: Any) -> Any:
    if isinstance(operation, OpOverload) and torch.Tag.nondeterministic_seeded in operation.tags:
        return CheckpointPolicy.MUST_SAVE
    return policy(context, operation, *args, **kwargs)
