"""Finds the inputs that a graph changes and that get their old data back if the graph raises: small ones, of which a copy in each call costs little.

After that the call can run uncompiled from its beginning, as after a graph that changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import fx

from framejit.graph.fake import is_of_others, name_of_operator
from framejit.graph.inner import nodes_within
from framejit.graph.inputs import GraphInput
from framejit.torch_state.operator_facts import changes_tensor_itself

MOST_BYTES = 2**20
"""The most memory that copies may take in a call: more than the statistics of the batch normalisations of a ResNet-50 have."""


def can_be_put_back(changed: Sequence[GraphInput], kept: Iterable[fx.Node]) -> bool:
    """Return whether a graph's inputs that it changes can get their old data back after the graph has raised, and nothing about them has changed but data.

    `kept`: the nodes of the graph that change something.
    """
    if not all(map(is_plain, changed)) or sum(map(bytes_of, changed)) > MOST_BYTES:
        return False
    targets = [inner.target for node in kept for inner in (node, *nodes_within(node))]
    return not any(is_of_others(target) or changes_tensor_itself(name_of_operator(target).rpartition("::")[2]) for target in targets)


def is_plain(described: GraphInput) -> bool:
    """Return whether an input is a plain tensor that has kept its form, of constant sizes, which autograd has no record of."""
    tensor, fake = described.value, described.node.meta["example_value"]
    if not described.is_tensor or described.is_state or type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided:
        return False
    form, now = ((each.shape, each.stride(), each.storage_offset()) for each in (tensor, fake))
    if not all(type(size) is int for size in (*now[0], *now[1], now[2])) or form != now:
        return False
    return not fake.requires_grad or type(tensor) is torch.nn.Parameter


def bytes_of(described: GraphInput) -> int:
    return described.value.numel() * described.value.element_size()
