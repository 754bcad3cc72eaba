"""Checkpoints under AOTAutograd: which values are saved between the forward and the backward graph, and graphs that contain both passes."""

from __future__ import annotations

import functools
import logging
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch._higher_order_ops.wrap import tag_activation_checkpoint
from torch._ops import OpOverload
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

from framejit.graph.inner import graph_modules
from framejit.graph.metadata import CONTEXT_FN, OF_BACKWARD
from framejit.process.when_needed import when_needed

if TYPE_CHECKING:
    from torch._functorch import partitioners
else:
    partitioners = when_needed("torch._functorch.partitioners")

REGION, RECOMPUTE = "ac_graph_id", "recompute"
"""Metadata of nodes that come from a checkpoint under AOTAutograd: which checkpoint (one inside another counts as the outer one), and a CheckpointPolicy."""


@contextmanager
def without_its_warning() -> Iterator[None]:
    """Stop torch from warning of in-place operators in each graph that has a `context_fn`: framejit checkpoints no graph with such operators."""

    def passes(record: logging.LogRecord) -> bool:
        return "context_fn is passed" not in record.getMessage()

    logger = logging.getLogger(tag_activation_checkpoint.__class__.__module__)
    logger.addFilter(passes)
    try:
        yield
    finally:
        logger.removeFilter(passes)


def partition(gm: fx.GraphModule, joint_inputs: Sequence[object], **kwargs: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Divide AOTAutograd's joint graph into a forward and a backward graph as Inductor does, but save the arguments of each checkpoint.

    Inductor itself doesn't need this: it decomposes operators with several results, and its views don't count.
    """
    save_arguments(gm.graph)
    return partitioners.min_cut_rematerialization_partition(gm, joint_inputs, **kwargs)


def save_arguments(joint: fx.Graph) -> None:
    """Save the values that a checkpoint takes from outside for the backward pass, as in eager.

    Otherwise everything that is marked for recomputation may be computed from the graph's inputs, before the backward pass begins: then each block's tensors
    exist at the same time, as without checkpoints. torch also keeps values between two checkpoints (`cleanup_recompute_tags`), but not if one
    is a view, such as the result of a Linear, or one of the results of an operator, such as a LayerNorm.
    """
    for node in joint.nodes:
        if partitioners.must_recompute(node):
            region = node.meta.get(REGION)
            for argument in node.all_input_nodes:
                if argument.meta.get(REGION) != region:
                    save(argument)


def save(node: fx.Node) -> None:
    """Save a tensor for the backward pass: for a view its base, and with one result of an operator all of its results."""
    kinds = partitioners.get_default_op_list()
    while kinds.is_view(node):
        (node, *_) = node.all_input_nodes
    producer = node.args[0] if node.target is operator.getitem else node
    if node.op == "call_function" and isinstance(node.meta.get("val"), torch.Tensor):
        for saved in (producer, *(producer.users if producer is not node else ())):
            saved.meta[RECOMPUTE] = CheckpointPolicy.MUST_SAVE


def mark(gm: fx.GraphModule) -> None:
    """Mark for AOTAutograd the nodes that compute the backward pass, before which it puts the recomputed ones.

    It can't draw random numbers a second time: drawn numbers are saved, whatever the program's own policy says. Checkpoints of values that require no gradient
    are dissolved: AOTAutograd rejects those that draw.
    """
    for node in gm.graph.find_nodes(op="call_function", target=tag_activation_checkpoint):
        if not any(isinstance(value, torch.Tensor) and value.requires_grad for value in pytree.tree_leaves(node.meta["example_value"])):
            node.target, node.kwargs = run_once, {}
    asking = [node for node in gm.graph.nodes if node.target is torch.autograd.grad]
    for node in (*asking, *[node for node in gm.graph.nodes if OF_BACKWARD in node.meta]):
        node.meta["autograd_backward"] = True
    for module in checkpointed_graphs(gm) if asking else ():
        module.meta[CONTEXT_FN] = functools.partial(saving_what_is_drawn, module.meta.get(CONTEXT_FN))


def run_once(inner: fx.GraphModule, *operands: Any) -> Any:
    """Run a checkpoint whose graph is never recomputed."""
    return inner(*operands)


def computes_again(graph: fx.Graph) -> bool:
    """Return whether operators of this graph come from checkpoints: in a graph with both passes, some are there a second time, after the forward pass."""
    return any(partitioners.must_recompute(node) for node in graph.nodes)


def checkpointed_graphs(gm: fx.GraphModule) -> Iterator[fx.GraphModule]:
    """The checkpointed graphs inside the graph, and inside those."""
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
