"""The operator that gives results of a graph a gradient which the program computes itself, in the `backward` of an autograd.Function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from framejit.graph.gradient_paths import TracedGradient
from framejit.quick_dataclass import dataclass

Tensors = tuple[torch.Tensor | None, ...]
TENSOR = object()
"""Stands for a tensor that is among the saved ones."""


@dataclass(frozen=True, slots=True)
class BackwardGraph:
    """A traced backward, with the operands that it takes, in order. Each is `("gradient", i)`, the gradient of the i-th result; `("saved", i)`, the i-th
    tensor that the forward has saved; or `("kept", i)`, the i-th of the other values that it uses. `takes_any_layout`: it computes element by element, so it
    takes gradients as autograd has laid them out. Another graph takes contiguous ones, with which it was traced.
    """

    operands: tuple[tuple[str, int], ...]
    takes_any_layout: bool


@dataclass(frozen=True, slots=True)
class ForwardGraph:
    """A traced `jvp`, with the operands that it takes, in order: of the kinds "saved" and "kept", or `("tangent", i)` for the i-th of the inputs that have
    tangents, whose indices are `moved`. `given`: for each result, whether there is a tangent for it.
    """

    operands: tuple[tuple[str, int], ...]
    moved: tuple[int, ...]
    given: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class GradientRule:
    """The properties of an autograd.Function of the program, and its traced backwards.

    Attributes:
        name: the name of the Function.
        dirty: indices of the results that are inputs changed in place.
        non_differentiable: indices of the results that have no gradient.
        materializes: whether unused results have a gradient of zeros; otherwise it is None.
        once: whether the backward can't be differentiated, and raises an error if that is tried.
        again: whether the traced backward can be differentiated as the program's could.
        backwards: the traced backwards, by the results whose gradients aren't None.
        forward: the traced `jvp`, inside a transform that needs it. Its graph comes after those of the backwards.
    """

    name: str
    dirty: tuple[int, ...]
    non_differentiable: tuple[int, ...]
    materializes: bool
    once: bool
    again: bool
    backwards: dict[tuple[bool, ...], BackwardGraph]
    forward: ForwardGraph | None

    def operator_in_transform(self, copied: tuple[bool, ...], has_vmap: bool) -> Callable[..., Any]:
        """The function that a node calls in a graph which one of torch.func's transforms runs. `copied`: the results that have memory of their own.
        `has_vmap`: a `vmap` method of the Function has computed the results."""
        function: Any = type(self.name, (GradientWithinMap if has_vmap else TransformedGradient,), {})

        def differentiable_(graphs: tuple[Any, ...], results: Tensors, saved: Tensors, kept: tuple[Any, ...], inputs: Tensors) -> Any:
            used = (*saved, *kept)
            own = tuple([next((place for place, result in enumerate(results) if result is value), None) for value in used])
            return function.apply(Applied(self, graphs, copied, own, len(saved)), *results, *used, *inputs)

        return differentiable_

    def operator(self) -> Callable[..., Any]:
        """The function that a node of the graph calls. Its name ends in an underscore because it changes its arguments: their autograd record. See
        `gives_gradients`."""
        function: Any = type(self.name, (CustomGradient,), {})

        def differentiable_(graphs: tuple[Any, ...], results: Tensors, saved: Tensors, kept: tuple[Any, ...], inputs: Tensors) -> Any:
            return function.apply(self, graphs, results, saved, kept, *inputs)

        differentiable_.dirty = self.dirty  # type: ignore[attr-defined]
        return differentiable_


class CustomGradient(TracedGradient):
    """Registers the backward of a Function with autograd, for the values that its forward has computed."""

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
        return None, None, None, None, None, *differentiated(run, rule.once)(ctx, *gradients)


def differentiated(run: Callable[..., Any], once: bool) -> Callable[..., Any]:
    """A function that computes gradients, possibly only `once`. Torch's decorator for that may return a single tensor, which is put into a tuple."""

    def run_once(ctx: Any, *gradients: Any) -> Any:
        found = once_differentiable(run)(ctx, *gradients)
        return found if isinstance(found, tuple) else (found,)

    return run_once if once else run


def run(ctx: Any, *gradients: Any) -> Any:
    """The gradients of a Function's inputs."""
    return gradients_of(ctx.rule, ctx.graphs, gradients, ctx.saved_tensors, ctx.kept)


def gradients_of(rule: GradientRule, graphs: tuple[Any, ...], gradients: Tensors, saved: Tensors, kept: tuple[Any, ...]) -> Any:
    """The results of the traced backward for these gradients."""
    which = tuple([gradient is not None for gradient in gradients])
    if which not in rule.backwards:
        raise TypeError(f"the backward of {rule.name} raised where one of its arguments was None")
    traced = rule.backwards[which]
    given = gradients if traced.takes_any_layout else [None if gradient is None else laid_out(gradient) for gradient in gradients]
    values = {"gradient": given, "saved": saved, "kept": kept}
    graph = graphs[list(rule.backwards).index(which)]
    return graph.forward(*[values[kind][index] for kind, index in traced.operands])


@dataclass(frozen=True, slots=True)
class Applied:
    """A Function's rule with its traced backwards, and the results that are copied. `own`: for each value that the backward uses, the index of the result that
    it is, or None; the forward has saved the first `saved` of these values."""

    rule: GradientRule
    graphs: tuple[Any, ...]
    copied: tuple[bool, ...]
    own: tuple[int | None, ...]
    saved: int

    def handed_on(self, values: tuple[Any, ...]) -> tuple[torch.Tensor, ...]:
        """The results, which are the first of these values, as a Function returns them."""
        return tuple([result.clone() if copied else result.view_as(result) for result, copied in zip(values, self.copied)])


class TransformedGradient(torch.autograd.Function):
    """CustomGradient inside transforms of torch.func: these ask for a `setup_context`, only look for tensors directly among the arguments, and run
    `setup_context` and `backward` once for each of their levels, with tensors of this level."""

    generate_vmap_rule = True

    @staticmethod
    def forward(applied: Applied, *values: Any) -> Any:
        return applied.handed_on(values)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        applied, *values = inputs
        used = [value if own is None else output[own] for value, own in zip(values[len(applied.copied) :], applied.own)]
        ctx.set_materialize_grads(applied.rule.materializes)
        ctx.mark_non_differentiable(*[output[index] for index in applied.rule.non_differentiable])
        tensors = [value for value in used if isinstance(value, torch.Tensor)]
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)
        ctx.applied, ctx.used = applied, [TENSOR if isinstance(value, torch.Tensor) else value for value in used]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        applied: Applied = ctx.applied
        others = 1 + len(applied.copied) + len(applied.own)
        return *[None] * others, *differentiated(run_in_transform, applied.rule.once)(ctx, *gradients)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        applied: Applied = ctx.applied
        forward = applied.rule.forward
        if forward is None:
            raise NotImplementedError(f"the jvp of {applied.rule.name} was not compiled: forward-mode differentiation began outside of compiled code")
        inputs = tangents[1 + len(applied.copied) + len(applied.own) :]
        saved, kept = used_by(ctx)
        values = {"tangent": [laid_out(inputs[index]) for index in forward.moved], "saved": saved, "kept": kept}
        found = iter(applied.graphs[-1].forward(*[values[kind][index] for kind, index in forward.operands]))
        return tuple([next(found) if given else None for given in forward.given])


class GradientWithinMap(TransformedGradient):
    """A TransformedGradient of results that a `vmap` method has computed. Outside the torch.vmap, they have the gradients of the method's operators."""

    generate_vmap_rule = False

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], applied: Applied, *values: Any) -> Any:
        results = applied.handed_on(values)
        return results, in_dims[1 : 1 + len(results)]


def used_by(ctx: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The values that a Function has saved, and the other values that its backward uses, at the level of the transform that asks."""
    tensors = iter(ctx.saved_tensors)
    used = tuple([next(tensors) if value is TENSOR else value for value in ctx.used])
    return used[: ctx.applied.saved], used[ctx.applied.saved :]


def run_in_transform(ctx: Any, *gradients: Any) -> Any:
    """The gradients of a Function's inputs at one level of a transform."""
    saved, kept = used_by(ctx)
    return gradients_of(ctx.applied.rule, ctx.applied.graphs, gradients, saved, kept)


def laid_out(gradient: torch.Tensor) -> torch.Tensor:
    """A gradient in contiguous memory, like the one with which the backward was traced. The gradient of a sum, for example, isn't contiguous."""
    return gradient if gradient.is_contiguous() else gradient.contiguous()
