"""Checkpoints in graphs that ask autograd for gradients by themselves, which AOTAutograd compiles forward and backward in one."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx
from torch._higher_order_ops.wrap import tag_activation_checkpoint
from torch._ops import OpOverload
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

from framejit.graph.metadata import CONTEXT_FN


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


def mark(gm: fx.GraphModule) -> None:
    """Mark for AOTAutograd what is computed backward, before which it puts what is computed a second time.

    It can't draw random numbers a second time: what was drawn is saved, whatever the program's own policy says.
    """
    asking = [node for node in gm.graph.nodes if node.target is torch.autograd.grad]
    for node in asking:
        node.meta["autograd_backward"] = True
    for module in checkpointed_graphs(gm) if asking else ():
        module.meta[CONTEXT_FN] = functools.partial(saving_what_is_drawn, module.meta.get(CONTEXT_FN))


def checkpointed_graphs(gm: fx.GraphModule) -> Iterator[fx.GraphModule]:
    """The graphs inside the graph, and inside those, that are checkpointed."""
    for module in gm.modules():
        if isinstance(module, fx.GraphModule):
            for node in module.graph.find_nodes(op="call_function", target=tag_activation_checkpoint):
                yield getattr(module, node.args[0].target)


def saving_what_is_drawn(context_fn: Callable[[], Any] | None) -> Any:
    """A `context_fn` for a checkpoint whose backward pass draws nothing."""
    forward, backward = (context_fn or functools.partial(create_selective_checkpoint_contexts, recompute_all))()
    forward.policy_fn = functools.partial(save_what_is_drawn, forward.policy_fn)
    return forward, backward


def recompute_all(context: Any, operator: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    return CheckpointPolicy.PREFER_RECOMPUTE


def save_what_is_drawn(policy: Callable[..., Any], context: Any, operator: Any, *args: Any, **kwargs: Any) -> Any:
    if isinstance(operator, OpOverload) and torch.Tag.nondeterministic_seeded in operator.tags:
        return CheckpointPolicy.MUST_SAVE
    return policy(context, operator, *args, **kwargs)
