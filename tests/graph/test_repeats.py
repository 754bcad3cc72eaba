"""Operators on fakes that look like earlier ones: what is made without running them is what running them gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sympy
import torch
from torch import fx
from torch.nn import functional as F

import framejit
from framejit.graph import builder
from framejit.graph.fakes import Fakes
from framejit.graph.prune import run_node
from framejit.graph.repeats import Repeats


def looks(fake: Any) -> Any:
    """All that can be told of a fake, with symbolic numbers as text."""
    numbers = [*fake.size(), *fake.stride(), fake.storage_offset(), fake.untyped_storage().nbytes(), fake.numel()]
    numbers = [str(sympy.expand(number.node.expr)) if isinstance(number, torch.SymInt) else number for number in numbers]
    flags = fake.is_contiguous(), fake.is_inference(), fake.requires_grad, fake.is_leaf, fake.is_conj(), fake._version
    return type(fake), torch._C._dispatch_keys(fake).raw_repr(), fake.dtype, fake.device, fake.layout, numbers, flags


@pytest.fixture(autouse=True)
def noted_from_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder, "FEW_NODES", 0)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    """The fakes that were given without running an operator."""
    results: list[torch.Tensor] = []
    original = Repeats.find

    def find(self: Repeats, key: Any, fakes: Any) -> torch.Tensor | None:
        result = original(self, key, fakes)
        if result is not None:
            results.append(result)
        return result

    monkeypatch.setattr(Repeats, "find", find)
    return results


def compiled(function: Callable[..., Any], *args: Any, dynamic: bool = True, again: bool = False) -> Any:
    """The result, compared with eager's. again: each node's fake is compared with that of running the node once more."""

    def backend(graph: fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        fakes = [node.meta["example_value"] for node in graph.graph.nodes if node.op == "placeholder" and "example_value" in node.meta]
        tensors = [fake for fake in fakes if isinstance(fake, torch.Tensor)]
        running = Fakes.running
        for node in graph.graph.nodes if again else ():
            if node.op in ("call_function", "call_method") and isinstance(node.meta["example_value"], torch.Tensor):
                mode = tensors[0].fake_mode  # type: ignore[attr-defined]
                with running(_Running(mode)):  # type: ignore[arg-type]
                    expected = run_node(node)
                assert looks(node.meta["example_value"]) == looks(expected), node
        return graph

    framejit.reset()
    result = framejit.compile(function, backend=backend, dynamic=dynamic, fullgraph=True)(*args)
    torch.testing.assert_close(result, function(*args))
    return result


class _Running:
    """As much of Fakes as `running` needs."""

    symbolic = True

    def __init__(self, mode: Any) -> None:
        self.mode = mode


WEIGHT, BIAS = torch.randn(6, 6), torch.randn(6)
OPERATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "linear": lambda x: F.linear(x, WEIGHT),
    "linear with bias": lambda x: F.linear(x, WEIGHT, BIAS),
    "add": lambda x: x + x,
    "add one": lambda x: x + 1,
    "add true": lambda x: x + True,
    "negative zero": lambda x: (x * 0.0) + (x * -0.0),
    "compare": lambda x: (x > 0) * x,
    "mean": lambda x: x - x.mean(-1, keepdim=True),
    "softmax": lambda x: x.softmax(-1),
    "layer_norm": lambda x: F.layer_norm(x, (6,)),
    "gelu": lambda x: F.gelu(x),
    "dropout": lambda x: F.dropout(x, 0.1, False),
    "contiguous": lambda x: x.contiguous(),
    "transposed": lambda x: (x.transpose(0, 1) * 2).transpose(0, 1),
    "to": lambda x: x.to(torch.float64).to(torch.float32),
    "cat": lambda x: torch.cat([x, x], 0)[: x.shape[0]],
    "rsqrt": lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6),
    "complex": lambda x: torch.complex(x, x).conj().real.clone(),
    "reshape": lambda x: (x.reshape(-1) + 1).reshape(x.shape),
    "where": lambda x: torch.where(x > 0, x, 0.5),
    "sum of sizes": lambda x: x * x.shape[0],
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("dynamic", [True, False])
def test_repeated_operators(name: str, dynamic: bool, found: list[torch.Tensor]) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = OPERATIONS[name](x)
        return x

    with torch.no_grad():
        compiled(program, torch.randn(4, 5, 6), dynamic=dynamic, again=True)
    assert found


def test_memory_of_their_own(found: list[torch.Tensor]) -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a, b, c = x + 1, x + 1, x + 1
        b.mul_(2)
        c.index_copy_(0, torch.tensor([0]), a[1:2])
        return a, b, c

    with torch.no_grad():
        compiled(program, torch.randn(4, 3))
    assert len({fake.untyped_storage()._cdata for fake in found}) == len(found) >= 2


def test_modes_tell_apart() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = x @ x.t()
        with torch.autocast("cpu", torch.bfloat16):
            b = x @ x.t()
        return a, b, x @ x.t()

    with torch.no_grad():
        assert [result.dtype for result in compiled(program, torch.randn(4, 3))] == [torch.float32, torch.bfloat16, torch.float32]


def test_gradients_are_not_lost(found: list[torch.Tensor]) -> None:
    def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = x @ w + x @ w
        return y + x @ w + x @ w

    w = torch.randn(3, 3, requires_grad=True)
    framejit.reset()
    result = framejit.compile(program, backend="eager", dynamic=True)(torch.ones(4, 3), w)
    assert result.requires_grad and found and not any(fake.requires_grad for fake in found)
    result.sum().backward()
    torch.testing.assert_close(w.grad, torch.full((3, 3), 8.0))


def test_a_guard_is_needed_each_time() -> None:
    """A comparison of sizes that was decided for one tensor says nothing about another tensor with other symbols."""

    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.pad(x, (0, 1)).sum() + (x + 1)[:2].sum() + F.pad(y, (0, 1)).sum() + (y + 1)[:2].sum()

    framejit.reset()
    call = framejit.compile(program, backend="eager", dynamic=True)
    with torch.no_grad():
        for a, b in ((4, 5), (5, 4), (1, 7), (7, 1), (2, 3), (3, 3), (0, 2)):
            x, y = torch.randn(a, 3), torch.randn(b, 4)
            torch.testing.assert_close(call(x, y), program(x, y))
