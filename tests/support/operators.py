"""Comparison of torch's operators that take functions with implementations of them in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from agreement import close
from torch.utils import _pytree as pytree

import framejit

BACKENDS = ("eager", "aot_eager")


def gradients(result: Any, args: Iterable[torch.Tensor]) -> list[Any]:
    """Differentiate the sum of a result; return the gradients of the arguments, None for those that have none."""
    roots = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if roots:
        sum(root.sum() for root in roots).backward()  # type: ignore[union-attr]
    return [arg.grad for arg in args]


def copied(args: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """Return copies of the arguments that are leaves, and require gradients if these do."""
    return [arg.detach().clone().requires_grad_(arg.requires_grad) for arg in args]


def compare(
    program: Callable[..., Any],
    operator: Any,
    meaning: Any,
    calls: Iterable[tuple[torch.Tensor, ...]],
    backend: str = "eager",
    graphs: int | None = 1,
    exact: bool = True,
) -> None:
    """Compare `program(operator, *args)` compiled with `program(meaning, *args)` uncompiled: results, gradients, arguments, random numbers.

    `graphs`: the expected number of graphs, without any break; None if neither is checked. `exact`: tensors must be equal to the last bit.
    """
    framejit.reset()
    compiled = framejit.compile(lambda *args: program(operator, *args), backend=backend)
    for args in calls:
        told = []
        for call in (compiled, lambda *args: program(meaning, *args)):
            given = copied(args)
            torch.manual_seed(0)
            result = call(*given)
            told.append((result, gradients(result, given), given, torch.rand(2)))
        (found, *_), (expected, *_) = told
        for a, b in zip(*map(pytree.tree_leaves, told), strict=True):
            if isinstance(b, torch.Tensor):
                assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())
                torch.testing.assert_close(a, b, **({"rtol": 0, "atol": 0} if exact else {}))
            elif b is None and isinstance(a, torch.Tensor):  # to autograd, the operator uses all that one of its functions uses
                assert not a.any()
            else:
                assert type(a) is type(b) and a == b
        assert pytree.tree_structure(found) == pytree.tree_structure(expected)
    if graphs is not None:
        assert (framejit.statistics()["graphs"], framejit.statistics()["reasons"]) == (graphs, []), framejit.statistics()


def compare_refused(program: Callable[..., Any], operator: Any, calls: Callable[[], tuple[torch.Tensor, ...]]) -> None:
    """Compare `program(operator, *calls())` compiled with eager: the same result, or an error of the same class. The operator's call is a break."""
    framejit.reset()
    told: list[Any] = []
    for call in (framejit.compile(lambda *args: program(operator, *args), backend="eager"), lambda *args: program(operator, *args)):
        try:
            told.append(call(*calls()))
        except Exception as error:
            told.append(type(error))
    close(*told, tolerance=None)
