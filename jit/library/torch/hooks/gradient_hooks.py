"""Operators by which a graph registers and removes hooks on gradients, and by which its backward passes call the program's hooks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils.hooks import RemovableHandle

from framejit.graph.trace_state import TraceState
from framejit.guards.source import Source
from framejit.library.torch.autograd.custom_gradient import Tensors, laid_out
from framejit.quick_dataclass import dataclass


def listen_(tensor: torch.Tensor, hook: Callable[..., Any], operands: tuple[Any, ...], position: int | None) -> RemovableHandle:
    """Have a graph compute a tensor's new gradient. `position`: the index of the operand before which it takes the gradient; None: it doesn't take it.

    The function's name ends in an underscore because it changes the tensor: its autograd record.
    """

    def changed(gradient: torch.Tensor) -> torch.Tensor | None:
        given = operands if position is None else (*operands[:position], laid_out(gradient), *operands[position:])
        return next(iter(hook(*given)), None)

    return tensor.register_hook(changed)


def stop_listening_(handle: RemovableHandle) -> None:
    """Remove a hook."""
    handle.remove()


def grad_without_hooks(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], *args: Any, **kwargs: Any) -> tuple[torch.Tensor | None, ...]:
    """`torch.autograd.grad`, which calls no hooks of the inputs: the trace has handled these."""
    taken_off = [(hooks, dict(hooks)) for tensor in inputs if (hooks := tensor._backward_hooks)]
    for hooks, _ in taken_off:
        hooks.clear()
    try:
        return torch.autograd.grad(outputs, inputs, *args, **kwargs)
    finally:
        for hooks, items in taken_off:
            hooks.update(items)


class Tap:
    """A place in autograd's record where a graph gets the gradients that pass by, while `grad_listening` runs, and may change them.

    `heard` is called with these gradients, and returns those with which autograd continues; None means that they are unchanged.
    """

    __slots__ = ("heard",)

    def __init__(self) -> None:
        self.heard: Callable[[Tensors], Tensors | None] | None = None

    def tell(self, gradients: Tensors) -> Tensors | None:
        """Called when autograd passes this place."""
        return None if self.heard is None else self.heard(gradients)


def tap_(tensor: torch.Tensor) -> Tap:
    """Get the gradient of a tensor. The function's name ends in an underscore because it changes the tensor: its autograd record."""
    tap = Tap()
    tensor.register_hook(lambda gradient: next(iter(tap.tell((gradient,)) or ()), None))
    return tap


def tap_node_(tensor: torch.Tensor) -> Tap:
    """Get the results of the autograd node that has made a tensor, which are gradients of its inputs, and its operands, which are gradients of its outputs."""
    tap = Tap()
    assert tensor.grad_fn is not None
    tensor.grad_fn.register_hook(lambda inputs, outputs: tap.tell((*inputs, *outputs)))
    return tap


def grad_listening(
    outputs: Sequence[torch.Tensor],
    inputs: Sequence[torch.Tensor],
    taps: Sequence[Tap],
    changes: Sequence[tuple[Any, ...] | None],
    **options: Any,
) -> tuple[torch.Tensor | None, ...]:
    """The gradients of leaves, whose hooks aren't called; then those that each tap gets.

    `changes`: for each tap None if nothing changes, or a graph that computes other gradients; its first operands; the gradients that it takes after these, as
    pairs (tap, place); and the results with which autograd continues (None: with the gradient as it is).
    """
    heard: dict[int, Tensors] = {}

    def listening(index: int) -> Callable[[Tensors], Tensors | None]:
        def hear(gradients: Tensors) -> Tensors | None:
            heard[index] = gradients
            change = changes[index]
            if change is None:
                return None
            graph, operands, places, given = change
            made = graph.forward(*operands, *[heard[tap][place] for tap, place in places])
            return tuple([gradients[place] if which is None else made[which] for place, which in enumerate(given)])

        return hear

    for index, tap in enumerate(taps):
        tap.heard = listening(index)
    try:
        found = grad_without_hooks(outputs, inputs, **options)
    finally:
        for tap in taps:
            tap.heard = None
    return (*found, *[gradient for index in range(len(taps)) for gradient in heard[index]])


def in_order_of_hooks(
    outputs: Sequence[torch.Tensor], leaves: Sequence[torch.Tensor], taps: Sequence[Tap], inputs: Sequence[torch.Tensor] | None
) -> list[tuple[int, int]]:
    """The order in which a backward pass of fakes reaches leaves and taps: the indices of leaves, to whose `.grad` it adds, and of taps, which are counted
    after the leaves; each with the number of gradients that it gets. `inputs`: the leaves that the pass is for; None: all that there are.
    """
    order: list[tuple[int, int]] = []
    before = [leaf.grad for leaf in leaves]
    handles = [leaf.register_hook(lambda gradient, index=index: order.append((index, 1))) for index, leaf in enumerate(leaves)]
    for index, tap in enumerate(taps, len(leaves)):
        tap.heard = lambda gradients, index=index: order.append((index, len(gradients)))  # type: ignore[misc]
    try:
        torch.autograd.backward(list(outputs), [torch.empty_like(output) for output in outputs], retain_graph=True, inputs=inputs)
    finally:
        for tap in taps:
            tap.heard = None
        for leaf, grad, handle in zip(leaves, before, handles, strict=True):
            handle.remove()
            leaf.grad = grad
    return order


@dataclass(frozen=True, slots=True)
class Listener:
    """A hook of the program that a traced backward pass calls when it reaches the tap made by `node`. `hook`: an Object.

    `inputs`: for a hook on an autograd node, the number of the node's inputs, whose gradients the hook may replace; None: it is on a tensor.
    """

    node: fx.Node
    hook: Any
    inputs: int | None


class Listening:
    """The tasks of a graph's own backward passes: call its hooks, and keep gradients of tensors that aren't leaves.

    `hooks`: Listeners in the order in which they were registered. `on_inputs`: hooks that the trace has registered on tensors from outside.
    `retaining`: Objects of tensors of the graph whose gradients are kept. `tokens`: sources of modules whose hooks autograd calls after the graph, and the
    nodes of their tokens (hooked_modules.py). All are replaced as a whole, through the trail.
    """

    def __init__(self, state: TraceState) -> None:
        self.hooks: tuple[Listener, ...] = ()
        self.on_inputs: tuple[Any, ...] = ()
        self.retaining: tuple[Any, ...] = ()
        self.tokens: tuple[tuple[Source, fx.Node], ...] = ()
