"""A Triton kernel that is interpreted, on the CPU, is launched under Inductor, which compiles kernels."""

import os

os.environ["TRITON_INTERPRET"] = "1"

import torch
import triton
import triton.language as tl

import framejit


@triton.jit
def double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    tl.store(out_ptr + places, tl.load(x_ptr + places, mask=places < n) * 2, mask=places < n)


@framejit.compile(backend="inductor")
def doubled(x, out):
    double[(1,)](x, out, 3, BLOCK=4)
    return out


result = doubled(torch.arange(3.0), torch.empty(3))
