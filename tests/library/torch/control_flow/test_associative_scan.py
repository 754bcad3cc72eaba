"""`associative_scan` in compiled code, against eager: to the last bit, with gradients, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from operators import BACKENDS, compare
from torch._higher_order_ops.associative_scan import associative_scan, associative_scan_op

import framejit
from framejit.errors import Unsupported

SCALE = torch.tensor(0.5)


def products(x):
    return associative_scan(lambda a, b: a * b, x, 0, combine_mode="generic")


def columns_from_the_end(x):
    return associative_scan(lambda a, b: a * b + a, x, -1, reverse=True, combine_mode="generic")


def linear_recurrence(x):
    def compose(left, right):
        return {"gain": left["gain"] * right["gain"], "bias": [right["gain"] * left["bias"][0] + right["bias"][0]]}

    return associative_scan(compose, {"gain": x, "bias": [x.sin()]}, 1, combine_mode="generic")


def with_a_free_variable(x):
    scale = x.sum() * SCALE
    return associative_scan(lambda a, b: a * b * scale, x, 0, combine_mode="generic")


def of_matrices(x):
    return associative_scan(torch.matmul, torch.stack([x[:2, :2] + i for i in range(5)]), 0, combine_mode="generic")


def of_one_row(x):
    return associative_scan(torch.maximum, x[:1], 0, combine_mode="generic")


GENERIC = (products, columns_from_the_end, linear_recurrence, with_a_free_variable, of_matrices, of_one_row)


def the_operator(x):
    """Call the operator that `combine_mode="pointwise"` leads to on a GPU; on a CPU, torch refuses that mode."""
    return tuple(associative_scan_op(lambda a, c, b, d: (a * b, torch.where(a > d, c, c + d)), [x.movedim(1, 0), x.sin().mT], ()))


@pytest.mark.parametrize(("program", "backend"), [*[(program, "aot_eager") for program in GENERIC], (linear_recurrence, "eager"),
                                                  *[(the_operator, backend) for backend in BACKENDS]])  # fmt: skip
def test_as_in_eager(program: Callable[..., Any], backend: str) -> None:
    torch.manual_seed(1)
    compare(lambda call, x: call(x), program, program, [(torch.randn(4, 5, requires_grad=True),)], backend)


def test_sizes_that_vary() -> None:
    """The number of calls of the combining function depends on the size, so each size has a graph."""
    compare(lambda call, x: call(x), products, products, [(torch.rand(n, 2),) for n in (3, 5)], graphs=2)


def test_the_operator_with_a_free_variable() -> None:
    def program(x):
        return tuple(associative_scan_op(lambda a, b: (a * b * SCALE,), [x], ()))

    compare(lambda call, x: call(x), program, program, [(torch.rand(5, 3),)], "aot_eager")


def not_elementwise(x):
    return associative_scan_op(lambda a, b: (a + b.cumsum(0),), [x], ())


def another_type(x):
    return associative_scan_op(lambda a, b: ((a * b).double(),), [x], ())


def in_place(x):
    return associative_scan_op(lambda a, b: (a.mul_(b).clone(),), [x], ())


REFUSED = {not_elementwise: "isn't elementwise", another_type: r"gives float64\[3\] .* in the place of float32", in_place: "changes tensors in place"}


@pytest.mark.parametrize("program", REFUSED)
def test_refused(program: Callable[..., Any]) -> None:
    """The error names the line, and says what is wrong with the function; without `fullgraph=True`, the call runs natively."""
    x = torch.rand(4, 3)
    framejit.reset()
    with pytest.raises(Unsupported, match=f"(?s){REFUSED[program]}") as raised:
        framejit.compile(program, backend="eager", fullgraph=True)(x)
    assert "test_associative_scan.py" in str(raised.value) and program.__name__ in str(raised.value)
    for found, expected in zip(framejit.compile(program, backend="eager")(x.clone()), program(x.clone()), strict=True):
        assert torch.equal(found, expected)


def test_what_torch_refuses() -> None:
    """Tensors on a CPU take `combine_mode="generic"`; since torch 2.15 it is chosen for them."""
    for options, error in (({}, "need to be on CUDA"), ({"combine_mode": "fast"}, "but got fast")):

        def scan(x: torch.Tensor) -> torch.Tensor:
            return associative_scan(torch.mul, x, 0, **options)

        x = torch.rand(4, 3)
        try:
            expected = scan(x)
        except ValueError as refusal:
            with pytest.raises(ValueError, match=error) as raised:
                framejit.compile(scan, backend="eager")(x)
            assert str(raised.value) == str(refusal)
        else:
            assert not options
            torch.testing.assert_close(framejit.compile(scan, backend="eager")(x), expected)
