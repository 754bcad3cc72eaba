"""Freezing: makes a graph's parameters and buffers attributes of the graph module, where Inductor looks for constants."""

from __future__ import annotations

from dataclasses import replace

import torch

from framejit.backends.request import GraphRequest
from framejit.graph.torch_sources import InputSource
from framejit.quick_dataclass import dataclass


@dataclass(frozen=True)
class Frozen:
    """A request whose parameters and buffers are attributes, with the original positions of the inputs that stay and of those removed."""

    request: GraphRequest
    kept: tuple[int, ...]
    frozen: tuple[int, ...]
    sources: dict[str, InputSource]
    """For each new attribute, its entry in torch's `_param_name_to_source`."""


def freeze(request: GraphRequest) -> Frozen:
    """Turn the placeholders of parameters and buffers into attributes of `request.gm`, in place."""
    gm = request.gm
    kept, frozen = [], []
    sources: dict[str, InputSource] = {}
    for index, (node, info) in enumerate(zip(gm.graph.find_nodes(op="placeholder"), request.inputs, strict=True)):
        if not (info.is_parameter or info.is_buffer):
            kept.append(index)
            continue
        frozen.append(index)
        name = f"frozen_{index}"
        if isinstance(info.value, torch.nn.Parameter):
            gm.register_parameter(name, info.value)
        else:
            gm.register_buffer(name, info.value)
        sources[name] = InputSource(info.source_name, info.origin)
        with gm.graph.inserting_before(node):
            attribute = gm.graph.get_attr(name)
        attribute.meta = dict(node.meta)
        node.replace_all_uses_with(attribute)
        gm.graph.erase_node(node)
    _placeholders_first(gm)
    gm.recompile()
    remaining = replace(request, inputs=[request.inputs[i] for i in kept])
    return Frozen(remaining, tuple(kept), tuple(frozen), sources)


def _placeholders_first(gm: torch.fx.GraphModule) -> None:
    """Move the remaining placeholders before the new attributes: generated code reads arguments first."""
    first = next(iter(gm.graph.nodes))
    for node in gm.graph.find_nodes(op="placeholder"):
        if node is not first:
            first.prepend(node)
