"""torch.compile, called by the program inside compiled code: what it makes is traced through, and leaves the graph as torch makes it."""

from __future__ import annotations

import types
from typing import Any

import pytest
import torch
from agreement import agree
from operators import BACKENDS
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import framejit


def decorated(x: Any) -> Any:
    @torch.compile(dynamic=True, backend="eager")
    def inner(y: Any) -> Any:
        return y.sin() + 1

    return inner(x) * 2


def called(x: Any) -> Any:
    return torch.compile(lambda y, scale: y * scale, backend="eager", fullgraph=True)(x, scale=2).cos()


class Stepper:
    """Compiles one of its methods when that is first needed."""

    def __init__(self) -> None:
        self.compiled: Any = None

    def __call__(self, x: Any) -> Any:
        if self.compiled is None:
            self.compiled = torch.compile(self.step, backend="eager")
        return self.compiled(x)

    def step(self, x: Any) -> Any:
        return x.cos() * 3


def when_first_needed(x: Any) -> Any:
    stepper = Stepper()
    return stepper(x) + stepper(x)


@pytest.mark.parametrize("program", [decorated, called, when_first_needed])
def test_calls_are_traced_through(program: Any) -> None:
    agree(program, torch.randn(3, requires_grad=True))


def test_what_torch_makes_leaves_the_graph() -> None:
    stepper = Stepper()
    x = torch.randn(3)
    framejit.reset()
    compiled = framejit.compile(Stepper.__call__, backend="eager", fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(compiled(stepper, x), x.cos() * 3)
    assert isinstance(stepper.compiled, types.FunctionType)
    torch.testing.assert_close(stepper.compiled(x), x.cos() * 3)


def test_attributes_and_unknown_options_are_left_to_torch() -> None:
    def attribute(x: Any) -> Any:
        function = torch.compile(lambda y: y * 2, backend="eager")
        return function(x), function.__name__

    def unknown(x: Any) -> Any:
        return torch.compile(lambda y: y * 2, backend="nobody's")(x)

    agree(attribute, torch.ones(3), fullgraph=False)
    agree(unknown, torch.ones(3), fullgraph=False)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_a_mask_of_blocks_that_is_compiled(backend: str) -> None:
    """So does `create_block_mask(..., _compile=True)`, which split the graph."""

    def causal(b: Any, h: Any, i: Any, j: Any) -> Any:
        return i >= j

    def attend(q: Any, k: Any, v: Any) -> Any:
        mask = torch.compile(create_block_mask)(causal, None, None, 16, 16, device="cpu")
        return flex_attention(q, k, v, block_mask=mask)

    q, k, v = (torch.randn(1, 2, 16, 8) for _ in range(3))
    expected = flex_attention(q, k, v, block_mask=create_block_mask(causal, None, None, 16, 16, device="cpu"))
    torch.testing.assert_close(framejit.compile(attend, backend=backend, fullgraph=True)(q, k, v), expected)
