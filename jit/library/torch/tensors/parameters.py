"""Makes a Parameter by a node of a graph, as a new leaf with the data of a tensor. A graph whose backward is made as a whole can't do so (autograd_node.py)."""

from __future__ import annotations

import torch

from framejit.graph.on_fakes import stand_in


def make_parameter(data: torch.Tensor, requires_grad: bool) -> torch.Tensor:
    """`torch.nn.Parameter(data, requires_grad)` for a plain tensor."""
    return torch.Tensor._make_subclass(torch.nn.Parameter, data, requires_grad)


def parameter_on_fakes(data: torch.Tensor, requires_grad: bool) -> torch.Tensor:
    return data.detach().requires_grad_(requires_grad)


stand_in(make_parameter, parameter_on_fakes)
