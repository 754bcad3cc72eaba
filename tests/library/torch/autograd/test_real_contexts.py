"""Forwards of autograd Functions that run natively, since their backwards look at data: what they save, against eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import close

import framejit


def look(gradient: torch.Tensor) -> None:
    """Run something that can't be traced, so that the Function isn't one node."""
    if not torch.isfinite(gradient).all():
        print("not finite")


class Output(torch.autograd.Function):
    """Saves its result, and its input."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        y = x.exp()
        ctx.save_for_backward(y, x)
        return y

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        look(gradient)
        y, x = ctx.saved_tensors
        return gradient * y + x


class Mask(torch.autograd.Function):
    """Saves what it has computed, and None."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        mask = (x > 0).float()
        ctx.save_for_backward(mask, None)
        return x * mask

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        look(gradient)
        mask, none = ctx.saved_tensors
        return gradient * mask if none is None else gradient


class Largest(torch.autograd.Function):
    """One of its results has no gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        place = x.argmax()
        ctx.mark_non_differentiable(place)
        ctx.save_for_backward(place)
        ctx.size = x.shape
        return x.max(), place

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, of_place: torch.Tensor) -> torch.Tensor:
        look(gradient)
        (place,) = ctx.saved_tensors
        result = torch.zeros(ctx.size)
        result[place] = gradient
        return result


class Again(torch.autograd.Function):
    """Saves twice: the second time counts."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, x)
        ctx.save_for_backward(x * 3)
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        look(gradient)
        return gradient * ctx.saved_tensors[0]


def outcome(program: Callable[..., Any], i: int) -> Any:
    x = torch.tensor([1.0, -2.0, 3.0 + i], requires_grad=True)
    first, *rest = program(x)
    first.sum().backward()
    return first.detach(), x.grad, [(other, other.requires_grad) for other in rest]


@pytest.mark.parametrize("function", [Output, Mask, Largest, Again])
def test_what_a_forward_saves_is_part_of_its_graph(function: Any) -> None:
    def program(x: torch.Tensor) -> Any:
        found = function.apply(x * 1.5)
        return (found[0] * 2, found[1]) if isinstance(found, tuple) else (found + 1,)

    framejit.reset()
    compiled = framejit.compile(program, backend="eager")
    for i in range(3):
        close(outcome(compiled, i), outcome(program, i))
    counted = framejit.statistics()
    assert (counted["graph_breaks"], counted["fallbacks"], counted["recompiles"]) == (1, 0, 0), counted


def test_what_cannot_be_saved_is_what_eager_says() -> None:
    class Wrong(Again):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(1, x)
            return x * 2

    for program in (Wrong.apply, framejit.compile(lambda x: Wrong.apply(x), backend="eager")):
        with pytest.raises(TypeError, match="save_for_backward can only save variables"):
            program(torch.ones(2, requires_grad=True))


class Scaled(torch.autograd.Function):
    """Saves what it needs for the gradients that are asked for."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, scale)
        return x * scale if any(ctx.needs_input_grad) else x * scale + 0

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        look(gradient)
        x, scale = ctx.saved_tensors
        return gradient * scale if ctx.needs_input_grad[0] else None, None if x is None else gradient * x


def test_which_gradients_are_needed_is_known() -> None:
    framejit.reset()
    compiled = framejit.compile(lambda x, scale: Scaled.apply(x * 2, scale), backend="eager")
    for needed in ((True, False), (True, True), (False, True), (False, False), (True, False)):
        x, scale = (torch.tensor([2.0, 3.0], requires_grad=one) for one in needed)
        found, expected = compiled(x, scale), Scaled.apply(x * 2, scale)
        assert torch.equal(found, expected) and found.requires_grad == expected.requires_grad
        if any(needed):
            inputs = [tensor for tensor in (x, scale) if tensor.requires_grad]
            assert all(map(torch.equal, torch.autograd.grad(found.sum(), inputs), torch.autograd.grad(expected.sum(), inputs)))
    assert not any("needs_input_grad" in reason for reason in framejit.statistics()["reasons"])
