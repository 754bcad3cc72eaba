"""Triton kernels that programs write and launch themselves; they run interpreted, as there is no GPU."""

import importlib.util
from typing import Any

import torch

from tools.bench.feature_cases.feature import feature as any_feature

if importlib.util.find_spec("triton"):
    import triton
    import triton.language as tl
    from triton.language import constexpr
else:
    triton = tl = constexpr = None


def feature(name: str, arguments: Any) -> Any:
    """A row of this family: its kernels are made when its arguments are first asked for, under the environment that it asks for."""

    def prepared() -> Any:
        if add_kernel is None:
            make_kernels()
        return arguments()

    return any_feature(name, prepared, packages=("triton",), environment={"TRITON_INTERPRET": "1"})


add_kernel: Any = None
scale_kernel: Any = None
exp_kernel: Any = None
tuned_kernel: Any = None
heuristic_kernel: Any = None


def add_code(x_ptr, y_ptr, out_ptr, n, BLOCK: constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask), mask=mask)


def scale_code(x_ptr, scale, n, SQUARE: constexpr, BLOCK: constexpr = 4):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    if SQUARE:
        x = x * x
    tl.store(x_ptr + offsets, x * scale, mask=mask)


def exp_code(x_ptr, out_ptr, rows, columns, BLOCK: constexpr):
    row = tl.program_id(0)
    offsets = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < columns
    tl.store(out_ptr + row * columns + offsets, tl.exp(tl.load(x_ptr + row * columns + offsets, mask=mask)), mask=mask)


def make_kernels() -> None:
    global add_kernel, scale_kernel, exp_kernel, tuned_kernel, heuristic_kernel
    add_kernel, scale_kernel, exp_kernel = triton.jit(add_code), triton.jit(scale_code), triton.jit(exp_code)
    tuned_kernel = triton.autotune(configs=[triton.Config({"BLOCK": 8}, num_warps=2)], key=["n"])(triton.jit(add_code))
    heuristic_kernel = triton.heuristics({"BLOCK": lambda args: 4 if args["n"] < 100 else 16})(triton.jit(add_code))


def two() -> Any:
    return torch.randn(10), torch.randn(10)


@feature("a kernel with a grid of numbers", two)
def plainly(x: torch.Tensor, y: torch.Tensor) -> Any:
    out = torch.empty_like(x)
    add_kernel[(3,)](x, y * 2, out, 10, BLOCK=4)
    return out + 1


@feature("a kernel with a grid that is a function", two)
def with_a_function(x: torch.Tensor, y: torch.Tensor) -> Any:
    out = torch.empty_like(x)
    n = out.numel()
    add_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n, BLOCK=4)
    return out * y


@feature("a kernel that changes its argument", two)
def in_place(x: torch.Tensor, y: torch.Tensor) -> Any:
    z = x + y
    scale_kernel[(3,)](z, 2.5, 10, SQUARE=True)
    scale_kernel[(5, 1)](y, scale=0.5, n=10, SQUARE=False, BLOCK=2)
    return z, z * y


@feature("a kernel of several dimensions", lambda: (torch.randn(3, 7),))
def in_two_dimensions(x: torch.Tensor) -> Any:
    out = torch.empty_like(x)
    rows, columns = x.shape
    exp_kernel[(rows, triton.cdiv(columns, 4))](x, out, rows, columns, BLOCK=4)
    return out / out.sum(1, keepdim=True)


@feature("a kernel with autotune", two)
def autotuned(x: torch.Tensor, y: torch.Tensor) -> Any:
    out = torch.empty_like(x)
    tuned_kernel[lambda meta: (triton.cdiv(10, meta["BLOCK"]),)](x, y, out, 10)
    return out + 1


@feature("a kernel with heuristics", two)
def with_heuristics(x: torch.Tensor, y: torch.Tensor) -> Any:
    out = torch.empty_like(x)
    heuristic_kernel[lambda meta: (triton.cdiv(10, meta["BLOCK"]),)](x, y, out, 10)
    return out + 1


class Exponential(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        exp_kernel[(1, triton.cdiv(x.numel(), 4))](x, out, 1, x.numel(), BLOCK=4)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (out,) = ctx.saved_tensors
        result = torch.zeros_like(out)
        gradient = gradient.contiguous()
        add_kernel[(3,)](gradient * out, result, result, out.numel(), BLOCK=4)
        return result


@feature("kernels in an autograd.Function", lambda: (torch.randn(10, requires_grad=True),))
def in_a_function(x: torch.Tensor) -> Any:
    return Exponential.apply(x * 2) * 3


@torch.library.triton_op("framejit_features::triton_add", mutates_args={})
def triton_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    torch.library.wrap_triton(add_kernel)[(triton.cdiv(x.numel(), 4),)](x, y, out, x.numel(), BLOCK=4)
    return out


triton_add.register_autograd(lambda ctx, gradient: (gradient, gradient))


@feature("torch.library.triton_op", lambda: (torch.randn(10, requires_grad=True), torch.randn(10)))
def operator(x: torch.Tensor, y: torch.Tensor) -> Any:
    return triton_add(x * 2, y) * 3


@feature("wrap_triton", two)
def wrapped(x: torch.Tensor, y: torch.Tensor) -> Any:
    out = torch.empty_like(x)
    torch.library.wrap_triton(add_kernel)[(3,)](x, y, out, 10, BLOCK=4)
    return out + 1
