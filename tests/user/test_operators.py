"""`framejit.compile_operators`: torch's operators that take functions, called outside of compiled code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._higher_order_ops import utils
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.strict_mode import strict_mode
from torch._higher_order_ops.while_loop import while_loop

import framejit
from framejit.errors import UnknownBackend

pytestmark = pytest.mark.skipif(not hasattr(utils, "_hop_compile_and_call"), reason="torch 2.11 compiles operators itself")
WEIGHT = torch.tensor([0.5, 2.0, 1.5], requires_grad=True)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    framejit.reset()
    monkeypatch.setattr(utils, "_hop_compile_and_call", before := utils._hop_compile_and_call)
    yield
    assert utils._hop_compile_and_call in (before, None)


def condition(x):
    return torch.cond(x.sum() > 0, lambda y: y.sin() * WEIGHT, lambda y: y * 2, (x,)), x.sin() * WEIGHT


def loop(x):
    return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * WEIGHT), (torch.tensor(0), x))[1], x * WEIGHT * WEIGHT * WEIGHT


def rows(x):
    return torch_map(lambda row: row.cumsum(0) * WEIGHT, x), x.cumsum(1) * WEIGHT


def running(x):
    return scan(lambda total, row: (total + row, total * WEIGHT), x[0] * 0, x)[1], (x.cumsum(0) - x) * WEIGHT


def strict(x):
    return strict_mode(lambda y: y.sin(), (x.detach(),)) * WEIGHT, x.detach().sin() * WEIGHT


@pytest.mark.parametrize("program", [condition, loop, rows, running, strict])
def test_functions_are_compiled(program: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """By framejit, once, and not by torch. Gradients reach what they close over."""
    monkeypatch.setattr(utils, "_hop_compile_and_call", None)
    with framejit.compile_operators():
        for scale in (1, 2):
            x = (torch.rand(4, 3) * scale).requires_grad_()
            found, expected = program(x)
            torch.testing.assert_close(found, expected)
            for a, b in zip(*[torch.autograd.grad(part.sum(), [x, WEIGHT], allow_unused=True) for part in (found, expected)], strict=True):
                torch.testing.assert_close(a, b)
    assert (framejit.statistics()["graphs"], framejit.statistics()["reasons"]) == (1, [])


def test_another_backend() -> None:
    with framejit.compile_operators("aot_eager"):
        found, expected = condition(torch.rand(4, 3))
    torch.testing.assert_close(found, expected)
    with pytest.raises(UnknownBackend, match="aot_eager"):
        framejit.compile_operators("aot_eagr")


def test_many_of_them() -> None:
    """There is no limit on how many functions a program gives to operators."""
    functions: list[Any] = []
    for number in range(12):
        exec(f"functions.append(lambda y: y * {number})")
    with framejit.compile_operators():
        for number, function in enumerate(functions):
            assert torch.equal(torch.cond(torch.tensor(True), function, lambda y: y + 1, (torch.ones(2),)), torch.full((2,), float(number)))
    assert framejit.statistics()["graphs"] == 12


def test_what_is_left_to_torch() -> None:
    """Functions that can't be graphs; calls under transforms; what is exported."""
    seen: list[int] = []

    def appends(y):
        seen.append(1)
        return y * 2

    def mapped(x):
        return torch.vmap(lambda row: torch.cond(row.sum() > 1, lambda y: y.sin(), lambda y: y * 2, (row,)))(x)

    class Exported(torch.nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y * 2, (x,))

    x = torch.rand(4, 3)
    expected = mapped(x)
    with framejit.compile_operators():
        with pytest.raises(Exception, match="side effect|torch.compile"):
            torch.cond(x.sum() > 0, appends, lambda y: y * 1, (x,))
        torch.testing.assert_close(mapped(x), expected)
        program = torch.export.export(Exported(), (x,), strict=False)
        torch.testing.assert_close(program.module()(-x), -x * 2)
        if torch.__version__ < "2.14":
            with pytest.raises(ValueError, match="need to be on CUDA"):
                associative_scan(torch.mul, x, 0)
    assert not seen and framejit.statistics()["graphs"] == 0


def test_nothing_changes_unless_asked_for() -> None:
    condition(torch.rand(4, 3))
    assert framejit.statistics()["graphs"] == 0
