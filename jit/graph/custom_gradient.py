"""The operator by which results of a graph get a gradient that the program computes itself, in the `backward` of an autograd.Function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.function import once_differentiable

Tensors = tuple[torch.Tensor | None, ...]


@dataclass(frozen=True, slots=True)
class BackwardGraph:
    """Which operands a traced backward takes, in order: `("gradient", i)`, the gradient of the i-th result; `("saved", i)`, the i-th tensor
    that the forward has saved; or `("kept", i)`, the i-th of the other values that it uses.
    """

    operands: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class GradientRule:
    """What an autograd.Function of the program's says of its results.

    Attributes:
        name: of the Function.
        dirty: indices of the results that are inputs changed in place.
        non_differentiable: indices of the results that have no gradient.
        materializes: whether results that nothing is computed from have a gradient of zeros; else it is None.
        once: whether the backward can't be differentiated, and says so where that is tried.
        again: whether the traced backward can be differentiated as the program's could.
        backwards: by the results whose gradients are no None, the traced backward.
    """

    name: str
    dirty: tuple[int, ...]
    non_differentiable: tuple[int, ...]
    materializes: bool
    once: bool
    again: bool
    backwards: dict[tuple[bool, ...], BackwardGraph]

    def operator(self) -> Callable[..., Any]:
        """The function that a node of the graph calls. Its name says to the graph that it changes its arguments: what autograd knows of them."""
        function: Any = type(self.name, (CustomGradient,), {})

        def differentiable_(graphs: tuple[Any, ...], results: Tensors, saved: Tensors, kept: tuple[Any, ...], inputs: Tensors) -> Any:
            return function.apply(self, graphs, results, saved, kept, *inputs)

        return differentiable_


def gives_gradients(target: Any) -> bool:
    """Whether a node with this target tells autograd of a backward."""
    return getattr(target, "__name__", "") == "differentiable_"


class CustomGradient(torch.autograd.Function):
    """Takes what the forward of a Function has computed, and tells autograd what its backward is."""

    @staticmethod
    def forward(ctx: Any, rule: GradientRule, graphs: tuple[Any, ...], results: Any, saved: Tensors, kept: tuple[Any, ...], *inputs: Any) -> Any:
        ctx.set_materialize_grads(rule.materializes)
        ctx.mark_dirty(*[results[index] for index in rule.dirty])
        ctx.mark_non_differentiable(*[results[index] for index in rule.non_differentiable])
        ctx.save_for_backward(*saved)
        ctx.rule, ctx.graphs, ctx.kept = rule, graphs, kept
        return results

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        rule: GradientRule = ctx.rule
        if torch.is_grad_enabled() and not rule.once and not rule.again:
            raise RuntimeError(f"the backward of {rule.name} was compiled so that it can't be differentiated in turn")
        return None, None, None, None, None, *(once_differentiable(run) if rule.once else run)(ctx, *gradients)


def run(ctx: Any, *gradients: Any) -> Any:
    """The gradients of a Function's inputs."""
    rule: GradientRule = ctx.rule
    which = tuple(gradient is not None for gradient in gradients)
    if which not in rule.backwards:
        raise TypeError(f"the backward of {rule.name} raised where one of its arguments was None")
    values = {"gradient": [None if gradient is None else laid_out(gradient) for gradient in gradients], "saved": ctx.saved_tensors, "kept": ctx.kept}
    graph = ctx.graphs[list(rule.backwards).index(which)]
    return graph(*[values[kind][index] for kind, index in rule.backwards[which].operands])


def laid_out(gradient: torch.Tensor) -> torch.Tensor:
    """A gradient in contiguous memory, as the one with which the backward was traced; one of a sum, for example, is not."""
    return gradient if gradient.is_contiguous() else gradient.contiguous()
