"""Full backward hooks of modules that autograd calls after the graph: nodes that register them, and operators by which AOTAutograd's backward calls them.

If the graph itself is run, torch's own code registers them. AOTAutograd runs that code only once, on tensors without data. So in that case the functions that
are registered make operators of the backward graph, which call the hooks. A graph gets the module as a *token* (tokens.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules._functions import BackwardHookFunction
from torch.utils.hooks import BackwardHook

from framejit.graph.gradient_paths import passes_on
from framejit.graph.tokens import of_token, standing_for, token_for
from framejit.quick_dataclass import dataclass
from framejit.torch_state.own_operators import declare_operator

Gradients = Sequence[torch.Tensor | None]
Hook = Callable[[Gradients, Gradients], Gradients | None]


@dataclass(frozen=True, slots=True)
class Hooks:
    """A module, and its hooks at the time of a call."""

    module: nn.Module
    full: list[Any]
    before: list[Any]


def hooks_of(module: nn.Module) -> Hooks:
    """A module with its present hooks, including those of all modules."""
    return Hooks(module, module._get_backward_hooks()[0], module._get_backward_pre_hooks())


@standing_for.register(nn.Module)
def token_of(module: nn.Module) -> torch.Tensor:
    """A tensor that stands for a module with its present hooks."""
    return token_for(hooks_of(module))


# Nodes of graphs.


def hearing(token: torch.Tensor) -> BackwardHook | HeardByOperators:
    """The object that puts on the hooks of a module for one call."""
    if type(token) is not torch.Tensor:
        return HeardByOperators(token)
    hooks = of_token(token)
    return BackwardHook(hooks.module, hooks.full, hooks.before)


@passes_on
def set_up_inputs(hook: BackwardHook | HeardByOperators, count: int, places: list[int], *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The tensors among a module's `count` arguments, after a node that receives their gradients."""
    if isinstance(hook, HeardByOperators):
        return hook.set_up_inputs(count, places, tensors)
    passed = hook.setup_input_hook(filled(count, places, tensors))
    return tuple([passed[place] for place in places])


@passes_on
def set_up_outputs(
    hook: BackwardHook | HeardByOperators, inputs: int, input_places: list[int] | None, count: int, places: list[int], *tensors: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """The tensors among a module's `count` results, after a node that receives their gradients. `inputs`: the number of its arguments; `input_places`: the
    places of those that come after such a node, if any.
    """
    if isinstance(hook, HeardByOperators):
        return hook.set_up_outputs(inputs, input_places, count, places, tensors)
    hook.n_inputs, hook.input_tensors_index = inputs, input_places  # type: ignore[assignment]
    passed = hook.setup_output_hook(filled(count, places, tensors))
    return tuple([passed[place] for place in places])


def filled(count: int, places: Sequence[int], values: Gradients) -> tuple[Any, ...]:
    """`count` values: the given ones at their places, and None elsewhere."""
    known = dict(zip(places, values, strict=True))
    return tuple([known.get(place) for place in range(count)])


class HeardByOperators:
    """Puts on the hooks of a module while AOTAutograd traces a graph and its backward: they are functions that call the operators below."""

    def __init__(self, token: torch.Tensor) -> None:
        self.token = token
        self.of_outputs: tuple[Any, ...] | None = None

    def set_up_inputs(self, count: int, places: list[int], tensors: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        def changed(gradients: Gradients, _: Gradients) -> Gradients | None:
            of_outputs, self.of_outputs = self.of_outputs, None
            if of_outputs is None:
                return None
            return among(gradients, torch.ops.framejit.heard_of_inputs(self.token, list(gradients), places, count, list(of_outputs)))

        return passed_through(tensors, changed)

    def set_up_outputs(
        self, inputs: int, input_places: list[int] | None, count: int, places: list[int], tensors: tuple[torch.Tensor, ...]
    ) -> tuple[torch.Tensor, ...]:
        def changed(_: Gradients, gradients: Gradients) -> Gradients:
            found = among(gradients, torch.ops.framejit.heard_of_outputs(self.token, list(gradients), places, count, inputs, input_places))
            if input_places is not None:
                self.of_outputs = filled(count, places, found)
            return found

        return passed_through(tensors, changed)


def passed_through(tensors: tuple[torch.Tensor, ...], hook: Hook) -> tuple[torch.Tensor, ...]:
    """Tensors after an autograd node with a hook."""
    passed: tuple[torch.Tensor, ...] = BackwardHookFunction.apply(*tensors)  # type: ignore[no-untyped-call]
    node = next(tensor.grad_fn for tensor in passed if tensor.requires_grad)
    assert node is not None
    node.register_hook(hook)  # type: ignore[arg-type]
    return passed


def among(gradients: Gradients, found: Sequence[torch.Tensor]) -> tuple[torch.Tensor | None, ...]:
    """An operator's results, in the places of the gradients that aren't None."""
    rest = iter(found)
    return tuple([None if gradient is None else next(rest) for gradient in gradients])


# Operators.


class Taken(BackwardHook):
    """torch's code for the hooks of a module, from which the function is taken that it would put on an autograd node."""

    def __init__(self, hooks: Hooks, inputs: int, input_places: list[int] | None) -> None:
        super().__init__(hooks.module, hooks.full, hooks.before)
        self.n_inputs, self.input_tensors_index = inputs, input_places  # type: ignore[assignment]
        self.places: Sequence[int] = ()
        self.hook: Any = None

    def register_hook(self, hook: Any) -> None:
        self.hook = hook

    def _apply_on_tensors(self, fn: Any, args: Any) -> Any:
        fn(self)
        return args, self.places

    def of_outputs(self, gradients: Gradients, places: Sequence[int], count: int) -> Any:
        """The new gradients of the results."""
        self.places = places
        self.setup_output_hook((None,) * count)
        return self.hook(None, gradients)

    def of_inputs(self, gradients: Gradients, of_outputs: Gradients) -> Any:
        """The new gradients of the arguments."""
        self.grad_outputs = tuple(of_outputs)  # type: ignore[assignment]
        self._set_user_hook(self)
        return self.hook(gradients, None)


@contextmanager
def as_in_a_backward_pass() -> Iterator[None]:
    """Inside an operator's implementation, make autograd available, but switched off."""
    with torch._C._PreserveDispatchKeyGuard(), torch.no_grad():
        torch._C._dispatch_tls_set_dispatch_key_excluded(torch._C.DispatchKey.AutogradFunctionality, False)
        yield


@declare_operator("heard_of_outputs(Tensor token, Tensor?[] gradients, int[] places, int count, int inputs, int[]? input_places) -> Tensor[]")
def heard_of_outputs(
    token: torch.Tensor, gradients: Gradients, places: Sequence[int], count: int, inputs: int, input_places: list[int] | None
) -> list[torch.Tensor]:
    """Call the hooks that come before a module's gradients, or all of them if no argument requires one; returns the gradients of the results."""
    with as_in_a_backward_pass():
        found = Taken(of_token(token), inputs, input_places).of_outputs(copies(gradients), places, count)
        return results(gradients, found)


@declare_operator("heard_of_inputs(Tensor token, Tensor?[] gradients, int[] places, int count, Tensor?[] of_outputs) -> Tensor[]")
def heard_of_inputs(token: torch.Tensor, gradients: Gradients, places: Sequence[int], count: int, of_outputs: Gradients) -> list[torch.Tensor]:
    """Call the hooks on a module's gradients; returns those of its arguments."""
    with as_in_a_backward_pass():
        found = Taken(of_token(token), count, list(places)).of_inputs(copies(gradients), copies(of_outputs))
        return results(gradients, found)


def copies(gradients: Gradients) -> tuple[torch.Tensor | None, ...]:
    """Copies of gradients, which a hook may keep: the memory of the originals belongs to the compiler."""
    return tuple([None if gradient is None else gradient.clone() for gradient in gradients])


def results(gradients: Gradients, found: Gradients) -> list[torch.Tensor]:
    """The hooks' replacements of gradients, as autograd needs them: laid out like the originals, and in memory of their own."""
    made = []
    for gradient, given in zip(gradients, found, strict=True):
        if gradient is None:
            continue
        if given is not None and given.shape != gradient.shape:
            raise RuntimeError(f"a backward hook of a module has given a gradient of shape {list(given.shape)}; expected {list(gradient.shape)}")
        made.append(torch.zeros_like(gradient) if given is None else torch.empty_like(gradient).copy_(given))
    return made


@heard_of_outputs.fake
@heard_of_inputs.fake
def fake_heard(token: Any, gradients: Gradients, *rest: Any) -> list[torch.Tensor]:
    return results(gradients, gradients)
