"""Programs that run into an exception only because they are told that they are compiled: they aren't told so where that is the reason, and stay compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import framejit

x = torch.arange(6.0).reshape(2, 3)
LEAF = torch.ones(3, requires_grad=True)


def is_torchdynamo_compiling() -> bool:
    """Asks as transformers does."""
    try:
        return torch.compiler.is_compiling()
    except Exception:
        return False


def masked(a: torch.Tensor, mask: Any = None, ask: Callable[[], bool] = is_torchdynamo_compiling) -> Any:
    if mask is None and not ask():
        mask = torch.ones(3)
    return a * mask[None]


def in_turn(a, ask):
    return masked(a.sin(), ask=ask).cos()


def an_operator_raises(a):
    if torch.compiler.is_compiling():
        return a + torch.ones(7)
    return a + 1


def an_operator_may_raise(a):
    if torch.compiler.is_compiling():
        LEAF.add_(1)
    return a * LEAF.detach()


def it_asked_long_before(a):
    fast = is_torchdynamo_compiling()

    def inner(b):
        if fast:
            raise RuntimeError("no fast path")
        return b * 2

    b = a.sin()
    return inner(b) if is_torchdynamo_compiling() else inner(b)


def it_asked_for_another_value_later(a):
    mask = None if is_torchdynamo_compiling() else torch.ones(3)
    scale = 2 if is_torchdynamo_compiling() else 2.0
    return a.sin() * mask[None] * scale


def in_the_last_iteration(a):
    for i in range(3):
        mask = None if is_torchdynamo_compiling() and i == 2 else torch.ones(3)
        a = a * mask[None]
    return a


def in_a_generator(a):
    return sum(masked(a) * i for i in range(1, 3))


def it_refuses(a):
    if torch.compiler.is_compiling():
        raise NotImplementedError("not compiled, please")
    return a.sin()


def under_a_finally(a):
    log = []
    try:
        return masked(a)
    finally:
        log.append(1)


class Attribute(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.is_fast = False

    def forward(self, a: torch.Tensor) -> torch.Tensor:
        self.is_fast = is_torchdynamo_compiling()
        is_torchdynamo_compiling()
        return self.inner(a.cos())

    def inner(self, a: torch.Tensor) -> torch.Tensor:
        is_torchdynamo_compiling()
        return a @ a if self.is_fast else a + 1


WHOLE = [
    an_operator_raises, an_operator_may_raise, it_asked_long_before, it_asked_for_another_value_later, in_the_last_iteration, in_a_generator, it_refuses,
    under_a_finally, masked, Attribute(),
]  # fmt: skip


@pytest.fixture(autouse=True)
def fresh() -> None:
    framejit.reset()


def check(program: Any, backend: str, **options: Any) -> dict[str, Any]:
    """A program three times, with other sizes the last time, against eager; what has been counted."""
    compiled = framejit.compile(program, backend=backend, **options)
    for given in (x, x + 1, torch.ones(5, 3)):
        assert torch.equal(compiled(given), program(given))
    return framejit.statistics()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", WHOLE, ids=lambda program: getattr(program, "__name__", "module"))
def test_a_program_that_fails_when_told_that_it_is_compiled_is_one_graph(program, backend):
    found = check(program, backend)
    assert found["graphs"] and (found["graph_breaks"], found["fallbacks"], found["reasons"]) == (0, 0, [])


@pytest.mark.parametrize(
    "ask",
    [
        torch.compiler.is_compiling, torch.compiler.is_dynamo_compiling, framejit.is_compiling, torch._dynamo.is_compiling,
        torch._dynamo.external_utils.is_compiling, is_torchdynamo_compiling,
    ],
)  # fmt: skip
def test_however_it_asks(ask):
    compiled = framejit.compile(in_turn, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x, ask), in_turn(x, lambda: False))
    assert framejit.statistics()["fallbacks"] == 0


def test_what_it_does_when_not_told_may_split_the_call():
    def program(a):
        a = a.sin()
        mask = None
        if not is_torchdynamo_compiling():
            print(end="")
            mask = torch.ones(3)
        return a.cos() * mask[None]

    found = check(program, "eager")
    assert (found["graph_breaks"] > 0, found["fallbacks"]) == (True, 0) and [reason[:5] for reason in found["reasons"]] == ["FJ012"]


def test_behind_a_break_and_in_what_native_code_calls():
    def program(a):
        first = sorted([a + 1, a], key=lambda each: masked(each).sum().item())[0]
        framejit.graph_break()
        return masked(first.sin())

    found = check(program, "eager")
    assert found["fallbacks"] == 0 and found["graphs"] >= 2


def test_only_where_it_helps_is_the_answer_another_one():
    def program(a):
        a = a + (10 if torch.compiler.is_compiling() else 0)
        return masked(a)

    compiled = framejit.compile(program, backend="eager")
    for rows in (2, 3, 4):
        assert torch.equal(compiled(torch.ones(rows, 3)), torch.full((rows, 3), 11.0))
    assert framejit.statistics()["fallbacks"] == 0


def test_an_error_of_the_programs_own_stays_one_and_other_calls_are_told():
    def program(a, size):
        if not torch.compiler.is_compiling():
            print(end="")
        if size > 3:
            raise ValueError(size)
        return a + size

    compiled = framejit.compile(program, backend="eager")
    for _ in range(3):
        with pytest.raises(ValueError, match="5"):
            compiled(x, 5)
    found = framejit.statistics()
    assert (found["internal_errors"], found["graphs"]) == (0, 0)
    assert torch.equal(compiled(x, 2), x + 2)
    assert framejit.statistics()["graph_breaks"] == found["graph_breaks"]


def test_the_log_says_what_happened(caplog):
    framejit.set_logs("fallbacks")
    try:
        with caplog.at_level("INFO", "framejit.fallbacks"):
            framejit.compile(masked, backend="eager")(x)
    finally:
        framejit.set_logs()
    (record,) = caplog.records
    assert "told that it is compiled" in record.message and "TypeError" in record.message and record.message.count(__file__) == 2


class Masking(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: torch.Tensor) -> Any:
        return masked(a)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return masked(grad) * 3


def mapped(a: torch.Tensor) -> torch.Tensor:
    return torch.vmap(lambda row: masked(row[None])[0])(a)


def checkpointed(a: torch.Tensor) -> Any:
    return torch.utils.checkpoint.checkpoint(lambda b: masked(b).sin(), a, use_reentrant=False)


def of_a_function(a: torch.Tensor) -> Any:
    return Masking.apply(a) * 2


def hooked(a: torch.Tensor) -> Any:
    b = a * 2
    b.register_hook(lambda grad: masked(grad) * 5)
    return b.sin()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [mapped, checkpointed, of_a_function, hooked])
def test_in_functions_that_become_graphs_inside_the_graph(program, backend):
    compiled = framejit.compile(program, backend=backend)
    for _ in range(2):
        given, expected = (x.clone().requires_grad_() for _ in range(2))
        compiled(given).sum().backward()
        program(expected).sum().backward()
        assert torch.equal(given.grad, expected.grad)
    found = framejit.statistics()
    assert (found["graphs"], found["graph_breaks"], found["fallbacks"]) == (1, 0, 0), found["reasons"]
