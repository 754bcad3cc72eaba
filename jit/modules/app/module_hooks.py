"""What `torch.utils.hooks.BackwardHook` does for hooks of modules, where the graph's own backward pass calls them."""

from __future__ import annotations

from typing import Any

import torch


def passed_through(*tensors: Any) -> Any:
    """The tensors, behind a node of autograd's: it has a model."""
    raise NotImplementedError


def put_on_node(tensor: Any, inputs: int, hook: Any) -> None:
    """Put a hook on the node that has made a tensor, and has so many inputs: it has a model."""
    raise NotImplementedError


class PassedNode:
    """The node that tensors have passed through, for torch's code that puts a hook on it."""

    def __init__(self, tensors: Any) -> None:
        self.tensors = tensors

    def register_hook(self, hook: Any) -> None:
        """Put a hook on, whose handle nobody takes."""
        behind = [tensor for tensor in self.tensors if tensor.requires_grad]
        put_on_node(behind[0], len(self.tensors), hook)


def apply_on_tensors(self: Any, fn: Any, args: Any) -> Any:
    """BackwardHook._apply_on_tensors (torch/utils/hooks.py): have the tensors among the arguments pass through a node, on which `fn` puts a hook."""
    places = [place for place, arg in enumerate(args) if isinstance(arg, torch.Tensor)]
    if not torch.is_grad_enabled() or not [place for place in places if args[place].requires_grad]:
        return args, None
    tensors = passed_through(*[args[place] for place in places])
    fn(PassedNode(tensors))
    passed = list(args)
    for index, place in enumerate(places):
        passed[place] = tensors[index]
    return (tuple(passed) if type(args) is tuple else type(args)(*passed)), places
