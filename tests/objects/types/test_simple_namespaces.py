"""types.SimpleNamespace made in compiled code, against eager."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import torch
from agreement import agree

import framejit


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


class ComparesOddly:
    def __eq__(self, other: object) -> Any:
        return "equal"

    def __repr__(self) -> str:
        return "odd"


def test_comparisons_and_texts() -> None:
    given, same = (SimpleNamespace(a=1, b=[2, {"k": 3}], c=SimpleNamespace(d=None)) for _ in range(2))
    odd = SimpleNamespace(x="q")
    vars(odd).update({"": 3, 5: 2})  # type: ignore[dict-item]

    def program(x: torch.Tensor) -> Any:
        oddly = SimpleNamespace(a=ComparesOddly()) == SimpleNamespace(a=ComparesOddly())
        return x + 1, given == same, given != same, given == odd, given != 3, oddly, repr(given), f"{odd} {SimpleNamespace(a=ComparesOddly(), b='c')!s}"

    agree(program, torch.ones(3))


def test_comparisons_and_texts_that_are_left_to_python() -> None:
    cycle = SimpleNamespace()
    cycle.me = [cycle]
    agree(lambda x: (x + 1, repr(cycle), cycle == cycle), torch.ones(3), fullgraph=False)
    agree(lambda x: (x + 1, Named(a=1) == Named(a=1), Named(a=1) != SimpleNamespace(a=2), repr(Named(a=1))), torch.ones(3), fullgraph=False)


def test_namespaces_that_change() -> None:
    given, other = SimpleNamespace(a=1, b=[2]), SimpleNamespace(a=1, b=[2])
    read = lambda n: (repr(n), n == other)
    compiled = framejit.compile(read, backend="eager")
    changes = [lambda: setattr(given, "z", 1), lambda: delattr(given, "z"), lambda: given.b.append(1), lambda: setattr(other, "b", [2, 1])]
    for change in (lambda: None, *changes):
        change()
        assert compiled(given) == read(given)
