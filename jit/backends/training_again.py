"""A graph with its backward pass, as AOTAutograd runs it, made again in a process that has loaded neither AOTAutograd nor Inductor (see inductor_code.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from framejit.backends.inductor_again import Call, without_autocast
from framejit.backends.views_again import HiddenResult, ResultViews, bases_of, with_views

Layout = tuple[torch.memory_format | None, tuple[int, ...], tuple[int, ...]]
"""The layout of a gradient that the backward pass has been compiled for: a memory format, or sizes and strides."""


class Division(NamedTuple):
    """The facts about a graph that AOTAutograd has divided into a forward pass and a backward pass.

    Attributes:
        changed: the inputs that the forward pass changes in place.
        detached: the inputs that get no gradient, and are no leaves.
        results: the number of results of the graph, and of the bases after them of results that are views; the forward pass returns what it saves after these.
        unchecked: the number of saved tensors that autograd doesn't check for changes. They come after those that it does.
        numbers: the number of saved numbers, which are sizes. They come last.
        copied: the results that are views in name only, and share no memory with anything else.
        views: the results that are views.
        constant: the results that have no gradient.
        gradients: the results whose gradients the backward pass takes.
        layouts: the layout of each of these.
        autocast: whether autocast was on, which must not change the calls that the compiled code makes.
        nondeterministic: whether the graph was compiled without `torch.use_deterministic_algorithms`.
    """

    changed: tuple[int, ...]
    detached: tuple[int, ...]
    results: int
    unchecked: int
    numbers: int
    copied: tuple[int, ...]
    views: ResultViews
    constant: tuple[int, ...]
    gradients: tuple[int, ...]
    layouts: tuple[Layout, ...]
    autocast: bool
    nondeterministic: bool


def run_training(forward: Call, backward: Call, about: Division) -> Call:
    """A boxed callable that runs a graph whose results have gradients, by Inductor's functions for its two passes."""
    apply = function_of(forward, backward, about).apply

    def run(inputs: list[Any]) -> Sequence[Any]:
        if about.changed:
            torch.autograd.graph.increment_version([inputs[index] for index in about.changed])
        bases = bases_of(about.views, inputs)
        for index in about.detached:
            if isinstance(inputs[index], torch.Tensor):
                inputs[index] = inputs[index].detach()
        given, before = tuple(inputs), torch._C._is_view_replay_enabled()
        inputs.clear()
        torch._C._set_view_replay_enabled(True)
        try:
            with torch.enable_grad(), without_autocast(about.autocast):
                results = apply(*given)
        finally:
            torch._C._set_view_replay_enabled(before)
        found = list(results) if isinstance(results, tuple) else [results]
        return with_views(about.views, bases, found) if about.views.each else found

    return run


def function_of(forward: Call, backward: Call, about: Division) -> type[torch.autograd.Function]:
    """The autograd function. Its name is that of AOTAutograd's, by which framejit and programs know the nodes of compiled graphs."""

    class CompiledFunction(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            with without_autocast(about.autocast):
                found = list(forward(list(inputs)))
            results, saved = found[: about.results], found[about.results :]
            numbers = len(saved) - about.numbers
            tensors, checked = [tensor.detach() if tensor._is_view() else tensor for tensor in saved[:numbers]], numbers - about.unchecked
            ctx.save_for_backward(*tensors[:checked])
            ctx.unchecked, ctx.numbers = tensors[checked:], saved[numbers:]
            for index in about.copied:
                results[index] = torch.ops.aten._unsafe_view(results[index], results[index].shape)
            for view in about.views.each:
                results[view.result] = HiddenResult(results[view.result])
            ctx.mark_non_differentiable(*[results[index] for index in about.constant if isinstance(results[index], torch.Tensor)])
            ctx._materialize_non_diff_grads = False
            return tuple(results)

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            if torch._C._functorch.peek_interpreter_stack() is not None:
                raise RuntimeError("the backward pass of compiled code can't run inside vmap, grad or vjp: compile the function that calls them, or nothing")
            if about.nondeterministic and torch.are_deterministic_algorithms_enabled():
                raise RuntimeError("torch.use_deterministic_algorithms(True) was set after the forward pass, which was compiled without it")
            given = [*ctx.numbers, *ctx.saved_tensors, *ctx.unchecked]
            given += [laid_out(gradients[index], layout) for index, layout in zip(about.gradients, about.layouts, strict=True)]

            def run() -> tuple[Any, ...]:
                ctx.maybe_clear_saved_tensors()
                with torch.no_grad(), without_autocast(about.autocast):
                    return tuple(backward(given))

            return OnceOnly.apply(torch.empty(0, requires_grad=True), run) if torch.is_grad_enabled() else run()

        backward._torchdynamo_disable = True  # type: ignore[attr-defined]  # torch's compiled autograd would trace it

    return CompiledFunction


class OnceOnly(torch.autograd.Function):
    """Gives gradients that can't be differentiated a record that says so. They get one because of the empty tensor, which requires a gradient."""

    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, run: Callable[[], Any]) -> Any:
        return run()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise RuntimeError("compiled code, whose backward pass is one operator, does not currently support double backward; the backend 'eager' does")


def laid_out(gradient: Any, layout: Layout) -> Any:
    """A gradient with the layout that a backward pass has been compiled for. Raises RuntimeError for a tensor of a subclass."""
    if not isinstance(gradient, torch.Tensor):
        return gradient
    if type(gradient) not in (torch.Tensor, torch.nn.Parameter):
        raise RuntimeError(f"the backward pass was compiled for a tensor as gradient of a result, and gets one of the class {type(gradient).__qualname__}")
    memory_format, sizes, strides = layout
    if memory_format is not None:
        return gradient if gradient.is_contiguous(memory_format=memory_format) else gradient.contiguous(memory_format=memory_format)
    if gradient.shape == sizes and gradient.stride() == strides:
        return gradient
    return torch.empty_strided(sizes, strides, dtype=gradient.dtype, device=gradient.device).copy_(gradient)
