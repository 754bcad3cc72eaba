"""Stand-ins for `torch.utils.hooks.BackwardHook`, for hooks of modules that the graph's own backward pass calls."""

from __future__ import annotations

from typing import Any

import torch


def passed_through(*tensors: Any) -> Any:
    """The tensors after an autograd node that passes them on unchanged: it has a model."""
    raise NotImplementedError


def put_on_node(tensor: Any, inputs: int, hook: Any) -> None:
    """Put a hook on the node that has made a tensor and has this number of inputs: it has a model."""
    raise NotImplementedError


def inputs_heard(hook: Any, count: int, places: Any, *tensors: Any) -> Any:
    """The tensors among a module's arguments, after a node that receives their gradients after the graph: it has a model."""
    raise NotImplementedError


def outputs_heard(hook: Any, inputs: int, input_places: Any, count: int, places: Any, *tensors: Any) -> Any:
    """The tensors among a module's results, after a node that receives their gradients after the graph: it has a model."""
    raise NotImplementedError


def set_up_inputs(hook: Any, args: Any) -> Any:
    """BackwardHook.setup_input_hook, for hooks that autograd calls after the graph."""
    places = [place for place, arg in enumerate(args) if isinstance(arg, torch.Tensor)]
    hook.n_inputs, hook.input_tensors_index = len(args), places
    return with_tensors(args, places, inputs_heard(hook, len(args), places, *[args[place] for place in places]))


def set_up_outputs(hook: Any, results: Any) -> Any:
    """BackwardHook.setup_output_hook, for hooks that autograd calls after the graph."""
    items = results if isinstance(results, tuple) else (results,)
    places = [place for place, item in enumerate(items) if isinstance(item, torch.Tensor)]
    tensors = [items[place] for place in places]
    passed = with_tensors(items, places, outputs_heard(hook, hook.n_inputs, hook.input_tensors_index, len(items), places, *tensors))
    hook.n_outputs, hook.output_tensors_index, hook.grad_outputs = len(items), places, None
    return passed if isinstance(results, tuple) else passed[0]


def with_tensors(args: Any, places: Any, tensors: Any) -> Any:
    """A tuple with other tensors in these places."""
    passed = list(args)
    for index, place in enumerate(places):
        passed[place] = tensors[index]
    return tuple(passed) if type(args) is tuple else type(args)(*passed)


class PassedNode:
    """The node that tensors have passed through, for torch's code that puts a hook on it."""

    def __init__(self, tensors: Any) -> None:
        self.tensors = tensors

    def register_hook(self, hook: Any) -> None:
        """Put a hook on the node; its handle isn't used."""
        behind = [tensor for tensor in self.tensors if tensor.requires_grad]
        put_on_node(behind[0], len(self.tensors), hook)


def apply_on_tensors(self: Any, fn: Any, args: Any) -> Any:
    """BackwardHook._apply_on_tensors (torch/utils/hooks.py): have the tensors among the arguments pass through a node, on which `fn` puts a hook."""
    places = [place for place, arg in enumerate(args) if isinstance(arg, torch.Tensor)]
    if not torch.is_grad_enabled() or not [place for place in places if args[place].requires_grad]:
        return args, None
    tensors = passed_through(*[args[place] for place in places])
    fn(PassedNode(tensors))
    return with_tensors(args, places, tensors), places
