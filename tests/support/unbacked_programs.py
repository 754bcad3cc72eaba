"""Programs with `assert` statements about tensors, where pytest doesn't rewrite them."""

from __future__ import annotations


def asserts(x):
    assert (x[:, 1] >= 0).all(), f"negative: {x.min()}"
    assert x.argmax().item() != 3
    assert x.dim() == 2 and x.isfinite().all()
    return x * 2


def asserts_behind_a_change(x):
    x.add_(1)
    assert (x > 0).any(), "none"
    return x.mul_(2)
