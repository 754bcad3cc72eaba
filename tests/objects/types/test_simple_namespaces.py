"""types.SimpleNamespace made in compiled code, against eager."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import torch
from agreement import agree


def made(x: torch.Tensor) -> Any:
    n = SimpleNamespace(a=x + 1, b=2, inner=SimpleNamespace())
    n.c, n.inner.n = n.a * n.b, n
    del n.b
    m = SimpleNamespace(**vars(n), d=[3])
    return n.c + m.a, m, hasattr(n, "b"), list(vars(n)), m.inner is n.inner, m.inner.n is n, isinstance(n, SimpleNamespace)


class Named(SimpleNamespace):
    pass


def test_namespaces_are_part_of_the_graph() -> None:
    agree(made, torch.ones(3))
    agree(lambda x: (lambda n: (n.a, vars(n), n))(SimpleNamespace(a=x * 2)), torch.ones(3))


def test_others_are_made_natively() -> None:
    agree(lambda x: (x + 1, copy.copy(SimpleNamespace(a=3)).a), torch.ones(3), fullgraph=False)
    agree(lambda x: (Named(a=x + 1).a, SimpleNamespace(a=1) == SimpleNamespace(a=1), repr(SimpleNamespace(a=1, b="c"))), torch.ones(3), fullgraph=False)


def test_wrong_arguments() -> None:
    def program(x: torch.Tensor) -> Any:
        try:
            return SimpleNamespace(x, 2)  # type: ignore[call-arg]
        except TypeError as error:
            return str(error)

    agree(program, torch.ones(3), fullgraph=False)
