"""Autocast that is switched without a scope, as programs do inside compiled functions, against eager."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from agreement import Comparison
from named import Programs

import framejit

BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])
WHOLE = Programs()
"""By name: programs that are never split."""
SPLIT = Programs()
"""Programs that are split."""
whole, split = WHOLE.add, SPLIT.add
enable, use = torch.set_autocast_enabled, torch.set_autocast_dtype
STATES = [
    (False, torch.bfloat16), (False, torch.bfloat16), (False, torch.float16), (True, torch.float16), (True, torch.bfloat16), (False, torch.float16),
    (False, torch.bfloat16),
]  # fmt: skip
"""The settings of autocast at the calls: is it on, and which dtype has it."""


def put(enabled: bool, dtype: torch.dtype) -> None:
    torch.set_grad_enabled(True)
    enable("cpu", enabled)
    use("cpu", dtype)
    torch.clear_autocast_cache()


@pytest.fixture(autouse=True)
def autocast_stays() -> Iterator[None]:
    yield
    put(False, torch.bfloat16)


@whole
def on_and_back(x, w):
    before = torch.is_autocast_enabled("cpu")
    enable("cpu", True)
    y = x @ w
    enable("cpu", before)
    return y, x @ w


@whole
def on_for_good(x, w):
    enable("cpu", True)
    return x @ w


@whole
def off_for_good(x, w):
    enable(device_type="cpu", enabled=False)
    return x @ w


@whole
def another_dtype(x, w):
    use("cpu", torch.float16)
    return x @ w, torch.get_autocast_dtype("cpu"), torch.is_autocast_enabled("cpu")


@whole
def on_and_another_dtype(x, w):
    enable("cpu", True)
    use("cpu", torch.float16)
    inside = x @ w, torch.get_autocast_dtype("cpu"), torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled()
    use("cpu", torch.bfloat16)
    return inside, x @ x


@whole
def in_a_scope(x, w):
    with torch.autocast("cpu", dtype=torch.float16):
        enable("cpu", False)
        y = x @ w
    return y, x @ w


@whole
def put_back_after_an_error(x, w):
    before = torch.is_autocast_enabled("cpu")
    enable("cpu", True)
    try:
        y = x @ w
        raise ValueError
    except ValueError:
        pass
    finally:
        enable("cpu", before)
    return y, x @ w


@whole
def backward(x, w):
    enable("cpu", True)
    loss = (x @ w).float().sum()
    loss.backward()
    enable("cpu", False)
    gradient, w.grad = w.grad, None
    return loss, gradient


@whole
def gradients_off_for_good(x, w):
    torch.set_grad_enabled(False)
    return x @ w


@whole
def cache_cleared(x, w):
    with torch.autocast("cpu"):
        y = x @ w
        with torch.no_grad():
            w.add_(1)
        torch.clear_autocast_cache()
        z = x @ w
        with torch.no_grad():
            w.sub_(1)
    return y, z


@split
def break_while_on(x, w):
    enable("cpu", True)
    y = x @ w
    framejit.graph_break("in the middle")
    z = x @ w
    enable("cpu", False)
    return y, z


@split
def break_in_a_scope(x, w):
    with torch.autocast("cpu", dtype=torch.float16):
        enable("cpu", False)
        y = x @ w
        framejit.graph_break("in the middle")
        z = x @ w
        enable("cpu", True)
        a = x @ w
    return y, z, a, x @ w


@split
def break_in_a_scope_after(x, w):
    enable("cpu", True)
    use("cpu", torch.float16)
    with torch.autocast("cpu", enabled=False):
        y = x @ w
        framejit.graph_break("in the middle")
        z = x @ w
    a = x @ w
    enable("cpu", False)
    use("cpu", torch.bfloat16)
    return y, z, a


@split
def break_in_scopes_in_between(x, w):
    enable("cpu", True)
    with torch.autocast("cpu", dtype=torch.float16):
        enable("cpu", False)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ w
            framejit.graph_break("in the middle")
            z = x @ w
        a = x @ w
    b = x @ w
    enable("cpu", False)
    return y, z, a, b


@split
def break_in_inference_mode(x, w):
    with torch.inference_mode():
        enable("cpu", True)
        with torch.enable_grad():
            y = x @ w
        framejit.graph_break("in the middle")
        z = x @ w
    a = x @ w
    enable("cpu", False)
    return y + 0, z + 0, a


@split
def on_if_the_data_says_so(x, w):
    if x.sum() > 0:
        enable("cpu", True)
    y = x @ w
    enable("cpu", False)
    return y


@split
def what_torch_refuses(x, w):
    seen = []
    for args in (("nope", True), ("cpu", 1), ("cpu",)):
        try:
            enable(*args)
        except (RuntimeError, TypeError) as error:
            seen.append((type(error), str(error).splitlines()[0]))
    return seen, x @ w


@split
def in_a_checkpoint(x, w):
    def inner(x):
        enable("cpu", True)
        y = x @ w
        enable("cpu", False)
        return y

    return torch.utils.checkpoint.checkpoint(inner, x, use_reentrant=False)


shared = torch.autocast("cpu", dtype=torch.float16)


@whole
def what_an_object_keeps(x, w):
    with shared:
        y = x @ w
    return y, shared.prev, shared.prev_fastdtype, shared.prev_cache_enabled


@whole
def one_object_twice(x, w):
    with shared:
        y = x @ w
    with shared:
        return y, x @ w


@whole
def decorated_in_a_checkpoint(x, w):
    return torch.utils.checkpoint.checkpoint(shared(torch.matmul), x, w, use_reentrant=False), x @ w


@split
def one_object_inside_itself(x, w):
    with shared:
        y = x @ x
        with shared:
            z = x @ x
    return y, z, x @ x


def check(program: Any, backend: str) -> None:
    """Results and the settings left are eager's, whatever autocast was set to before the calls."""
    framejit.reset()
    compiled = framejit.compile(program, backend=backend)
    for state in STATES:
        x, w = torch.randn(3, 3), torch.randn(3, 3, requires_grad=True)
        seen = []
        for function in (program, compiled):
            put(*state)
            result = function(x, w)
            seen.append((result, torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), torch.is_grad_enabled()))
        put(False, torch.bfloat16)
        Comparison().same(*seen)


@BACKENDS
@pytest.mark.parametrize("name", WHOLE)
def test_in_one_graph(name: str, backend: str) -> None:
    check(WHOLE[name], backend)
    assert framejit.statistics()["graph_breaks"] == 0


@BACKENDS
@pytest.mark.parametrize("name", SPLIT)
def test_split(name: str, backend: str) -> None:
    check(SPLIT[name], backend)
    assert framejit.statistics()["graph_breaks"] > 0


def test_an_error_in_the_graph_leaves_autocast_as_it_was() -> None:
    def program(x: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.float16):
            enable("cpu", False)
            return (x @ x)[indices]

    compiled = framejit.compile(program, backend="eager")
    compiled(torch.eye(3), torch.tensor([1]))
    with pytest.raises(IndexError):
        compiled(torch.eye(3), torch.tensor([7]))
    assert (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")) == (False, torch.bfloat16)
