"""Operators that raise on fakes: what eager raises is predicted, and where it may raise something else, or nothing, the operator runs natively."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from agreement import Comparison, outcome

import framejit

BACKENDS = ("eager", "aot_eager")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    framejit.reset()
    yield


def leaf() -> torch.Tensor:
    return torch.ones(4, requires_grad=True)


def computed() -> torch.Tensor:
    return leaf() * 1


def view_of_leaf() -> torch.Tensor:
    return leaf()[:]


def view_under_no_grad() -> torch.Tensor:
    base = computed()
    with torch.no_grad():
        return base[:]


def one_of_several_views() -> torch.Tensor:
    return torch.ones(8, requires_grad=True).mul(1).split(4)[0]


def of_inference() -> torch.Tensor:
    with torch.inference_mode():
        return torch.ones(4)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * 2


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x.mul_(2)


def stored(x: torch.Tensor) -> torch.Tensor:
    x[0] = 5.0
    return x * 2


def scaled_if_it_can_be(x: torch.Tensor) -> torch.Tensor:
    try:
        return x.mul_(2)
    except RuntimeError:
        return x * 3


def resized(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    return y.resize_(2) * 2


def resized_argument(x: torch.Tensor, size: int) -> torch.Tensor:
    x.resize_(size).fill_(size)
    return x


CALLS: dict[str, tuple[Callable[..., Any], list[Callable[[], tuple[Any, ...]]]]] = {
    "a leaf and others": (scaled, [lambda: (leaf(),), lambda: (computed(),), lambda: (view_of_leaf(),), lambda: (computed(),), lambda: (leaf(),)]),
    "others and a leaf": (scaled, [lambda: (computed(),), lambda: (leaf(),), lambda: (computed(),)]),
    "others and a leaf, handled": (
        scaled_if_it_can_be, [lambda: (computed(),), lambda: (leaf(),), lambda: (view_of_leaf(),), lambda: (computed(),), lambda: (leaf(),)]
    ),
    "a leaf changed by a Function": (Doubled.apply, [lambda: (leaf(),), lambda: (computed(),), lambda: (computed(),)]),
    "a view of a leaf": (scaled, [lambda: (view_of_leaf(),), lambda: (computed(),), lambda: (computed(),)]),
    "a view made under no_grad": (scaled, [lambda: (view_under_no_grad(),), lambda: (computed()[:],), lambda: (view_under_no_grad(),)]),
    "one of several views": (scaled, [lambda: (one_of_several_views(),), lambda: (computed()[:4],), lambda: (one_of_several_views(),)]),
    "an item of a leaf": (stored, [lambda: (leaf(),), lambda: (computed(),), lambda: (computed(),)]),
    "an output that is a leaf": (
        lambda x, y: torch.add(x, x, out=y),
        [lambda: (torch.ones(4), leaf()), lambda: (torch.ones(4), torch.ones(4)), lambda: (torch.ones(4), leaf())],
    ),
    "views that are detached": (lambda x: x.detach_() * 2, [lambda: (view_of_leaf(),), lambda: (computed(),), lambda: (computed(),)]),
    "an inference tensor": (scaled, [lambda: (of_inference(),), lambda: (torch.ones(4),), lambda: (of_inference(),)]),
    "sizes that vary": (resized, [lambda n=n: (torch.ones(n),) for n in (3, 4, 5, 6)]),
    "an argument that is resized": (resized_argument, [lambda n=n: (torch.zeros(2), n) for n in (4, 3, 5, 6)]),
    "a size of another tensor": (
        lambda x, y: (x + 1).resize_as_(y).numel(), [lambda n=n: (torch.ones(n), torch.ones(n + 1)) for n in (3, 4, 5)]
    ),
    "ranges that run away from their end": (
        lambda x, n: ((x + 1).tolist(), np.arange(n), np.arange(5, n)), [lambda n=n: (torch.ones(2), n) for n in (3, -2, 4, 7, 0)]
    ),
    "powers of whole numbers": (lambda a, n: a**n, [lambda n=n: (np.arange(6), n) for n in (2, 3, -1, 0, 4)]),
}  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CALLS)
def test_calls_that_look_alike_each_end_as_in_eager(name: str, backend: str) -> None:
    program, calls = CALLS[name]
    compiled = framejit.compile(program, backend=backend)
    for make in calls:
        (kind, expected), (found_kind, found) = outcome(program, make(), {}), outcome(compiled, make(), {})
        assert kind == found_kind, (expected, found)
        if kind == "raised":
            assert type(found) is type(expected) and str(found)[:60] == str(expected)[:60]
        else:
            Comparison().same(expected, found)
    assert not framejit.statistics()["internal_errors"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["sizes that vary", "a size of another tensor"])
def test_what_symbols_alone_make_an_operator_raise_breaks_the_graph(name: str, backend: str) -> None:
    program, calls = CALLS[name]
    compiled = framejit.compile(program, backend=backend)
    for make in calls:
        compiled(*make())
    counts = framejit.statistics()
    raises = torch.__version__ < "2.14" or backend != "eager"  # on fakes, resize_() takes symbolic sizes from then on
    assert not counts["fallbacks"] and bool(counts["graph_breaks"]) is raises, counts["reasons"]


def test_fullgraph_gives_the_programs_error_where_it_raises_and_refuses_where_it_does_not() -> None:
    compiled = framejit.compile(scaled, backend="eager", fullgraph=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        compiled(leaf())
    with pytest.raises(framejit.Unsupported, match="FJ081"):
        compiled(computed())


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_leaf_made_of_a_view_of_an_input_under_a_handler_is_part_of_the_graph(backend: str) -> None:
    """As speech models do for checkpoints. Whether `requires_grad_()` raises depends on nothing but what guards hold."""

    def program(x: torch.Tensor, weight: torch.Tensor) -> Any:
        try:
            row = x[:, None]
            row.requires_grad_()
            return (row * weight).sum()
        except RuntimeError as error:
            return str(error)

    compiled = framejit.compile(program, backend=backend)
    weight = torch.randn(2, requires_grad=True)
    for make in (lambda: torch.ones(2), leaf, computed, lambda: torch.ones(2, dtype=torch.int64)):
        (kind, expected), (found_kind, found) = outcome(program, (make()[:2], weight), {}), outcome(compiled, (make()[:2], weight), {})
        assert kind == found_kind, (expected, found)
        Comparison().same(expected, found)
    assert not any("FJ081" in reason for reason in framejit.statistics()["reasons"])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_computed_tensor_is_changed_in_the_graph_under_a_handler(backend: str) -> None:
    """As speech models do to their masked features, in a function whose outputs another one records."""

    def masked(x: torch.Tensor, mask: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        try:
            x[mask] = weight
        except RuntimeError:
            x = x * 3
        return x * 2

    compiled, mask = framejit.compile(masked, backend=backend), torch.tensor([True, False, False, True])
    for make in (computed, computed):
        Comparison().same(masked(make(), mask, torch.ones(())), compiled(make(), mask, torch.ones(())))
    counts = framejit.statistics()
    assert (counts["graphs"], counts["graph_breaks"], counts["recompiles"]) == (1, 0, 0), counts["reasons"]
    for make in (leaf, view_of_leaf, view_under_no_grad, computed, lambda: torch.ones(4)):
        Comparison().same(masked(make(), mask, torch.ones(())), compiled(make(), mask, torch.ones(())))


@pytest.mark.skipif(torch.__version__ < "2.13", reason="torch 2.11 has a fake of that operator in Python")
def test_an_operator_that_takes_what_its_fake_rejects_is_left_to_run_natively(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call runs uncompiled, to raise what the fake has raised; as it doesn't, later calls are split there."""

    def rejected(*args: Any) -> Any:
        raise RuntimeError("not on fakes")

    library = torch.library.Library("aten", "IMPL", "Meta")
    program = framejit.compile(lambda x: torch.special.bessel_j1(x + 1) * 2, backend="eager")
    x = torch.ones(3)
    expected = torch.special.bessel_j1(x + 1) * 2
    try:
        library.impl("special_bessel_j1", rejected)
        for _ in range(3):
            assert torch.equal(program(x), expected)
    finally:
        library._destroy()
    told = framejit.statistics()
    assert (told["fallbacks"], told["graph_breaks"], told["internal_errors"]) == (1, 1, 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_ids_of_sizes_are_compared_and_looked_up(backend: str) -> None:
    def program(x: torch.Tensor) -> Any:
        n, m = x.shape[0], x.stride(0)
        found = {id(n): n, id(m): m}
        return x.sum() + found[id(n)], id(n) == id(n), id(x.dtype) == id(torch.float32), copy.copy(n)

    compiled = framejit.compile(program, backend=backend)
    for size in (300, 301, 302, 303):
        Comparison().same(program(torch.ones(size)), compiled(torch.ones(size)))
    assert framejit.statistics()["graphs"] == 2 and not framejit.statistics()["fallbacks"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_in_graphs_are_on_the_cpu_whatever_the_default_device(backend: str) -> None:
    programs = (
        lambda x, s: (x * (x.sum().item() + s)).tolist(),
        lambda x, s: torch.tensor(x.sum().item() * 2 + s).device.type,
        lambda x, s: torch.tensor(s * 2 + x.sum().item(), device="cpu") + x,
        lambda x, s: x[[0, 1, x.argmax().item()]] * s,
    )
    with torch.device("meta"):
        for program in programs:
            compiled = framejit.compile(program, backend=backend)
            for s in (1.0, 2.0, 3.0):
                x = torch.full((2,), s, device="cpu")
                Comparison().same(program(x, s), compiled(x, s))
