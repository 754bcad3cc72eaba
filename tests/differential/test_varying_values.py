"""Values that vary from call to call, in all places that could take the traced call's value for a constant: against eager.

A row below, up to an empty line, is a program that evaluates some expressions of a number `n`, a truth value or a text. It is run with each way in which
such a value comes about.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import heapq
import itertools
import linecache
import math
import operator
import random
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from agreement import Comparison, outcome

import framejit

Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Data:
    a: Any
    b: Any = 0


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: Any


class Count:
    """An object that keeps what it is given."""

    def __init__(self, value: Any = 1) -> None:
        self.value = value

    def __getitem__(self, key: Any) -> Any:
        return self.value, key

    def __call__(self, number: Any) -> Any:
        self.last = number
        return self.value

    def __str__(self) -> str:
        return f"<{self.value}>"


def put(target: Any, key: Any, value: Any) -> Any:
    """A store as an expression."""
    target[key] = value
    return target


def seeded(number: int) -> float:
    random.seed(number)
    return random.random()


def arguments() -> dict[str, Any]:
    """Return fresh values by name that programs may read and change, besides the value that varies."""
    return {
        "x": torch.tensor([0.5, 1.0, 2.0]), "xx": torch.arange(6.0).reshape(2, 3), "xi": torch.tensor([1, 2, 3]), "xh": torch.tensor([1.0, 2.0]).half(),
        "L": [1, 2, 3], "D": {"a": 1, "k": 2}, "Q": collections.deque([1, 2, 3]), "O": Count(), "A": np.array([1.0, 2.0, 3.0]),
        "AA": np.arange(6.0).reshape(2, 3), "I": np.array([1, 2, 3]), "F32": np.array([1, 2, 3], np.float32),
    }  # fmt: skip


ARGUMENTS = tuple(arguments())
MODULES = (copy, dataclasses, functools, heapq, itertools, math, operator, torch, types)
VISIBLE = {module.__name__: module for module in MODULES} | {"np": np, "F": F} | {made.__name__: made for made in (Point, Data, Frozen, Count, put, seeded)}
"""What programs see by its name."""
INTS = """
abs(n), -n, +n, ~n, n + 1, 1 - n, n * 2, n / 4, n // 3, n % 3, n % -3, n // -3, divmod(n, 4), n ** 2, 2.0 ** (n % 8), n << 2, n >> 1, n & 7,
pow(n, 2), n * 0.5

n < 3, n == 3, n != 3, n >= 1e10, n != 2.5, n == None, n == "3", n == [3], not n, n and 5, n or 7, 5 if n else 6, isinstance(n, bool),
type(n), math.trunc(n)

max(n, 3), min([n, 1, 2]), sum([n, 1, 2]), sum([n] * 3, n), any([n]), all([n, 1]), max((), default=n), math.prod([n, 2]), round(n),
float(n), round(n / 7, 2)

math.sqrt(abs(n)), math.sin(n), math.log1p(abs(n)), math.tanh(n), math.pow(n, 2), n - math.nan, n * math.inf if n else 0, math.exp(n % 10),
(n % 5) ** 0.5

str(n), f"{n}|{n:05d}|{n:,}|{n:x}|{n:.2f}|{n!r}|{n!s:>8}|{n=}", "%d %5d %x %s" % (n, n, n, n), "{0} {0:>5} {1!r}".format(n, [n][0]),
"-".join([str(n), "a", str(n)])

list(zip([n, 1], (2, n))), list(map(lambda y: y + n, [1, 2])), list(reversed([n, 1])), [n] * 3, [n, 1].index(n), [*[n], 1], {**{"a": n}},
{"a": n} | {"b": n}

[y * n for y in range(3)], {y: n for y in range(2)}, tuple(n for _ in range(2)), [(m := n + 1), m * 2], (lambda a, b=n: a + b)(1),
next(iter([n])), next(iter([]), n)

slice(1, n, 2), operator.add(n, 1), operator.countOf([1, n], n), functools.reduce(operator.mul, [1, 2], n), functools.partial(max, n)(3),
[n, 1] == [1, n]

list(itertools.islice(itertools.count(0, n), 3)), list(itertools.accumulate([1, 2], initial=n)), list(itertools.repeat(n, 2)),
list(heapq.merge([1], [n]))

Point(n, 1)._replace(y=2), Point(n, 2)._asdict(), Data(n, b=n), dataclasses.replace(Data(1), a=n), Frozen(n), Count(n)[n], str(Count(n)),
copy.copy([n]), Data(n) == Data(3)

L.append([n, [n]]), D.__setitem__("k", n), D.setdefault("q", n), D.update(z=n), Q.appendleft(n), setattr(O, "z", n), O(n),
types.SimpleNamespace(a=n).a, seeded(n % 50)

torch.tensor([n, 1]), torch.tensor(n, dtype=torch.float64), torch.full((n % 4,), n), x.new_full((2,), n), torch.arange(n % 9, 10),
torch.zeros(n % 4, 2), torch.eye(n % 4)

x + n, n - x, x // (n or 1), x ** (n % 4), x.add(1, alpha=n), xi * n, xi & n, xi << (n % 8), xh + n, x == n, torch.isin(x, n),
torch.where(x > 1, n, x), x.clamp(0, n)

x[n % 3 :: n % 2 + 1], x[None, : n % 3], x.roll(n), x.split([n % 3, 3 - n % 3]), x.topk(n % 3 + 1).values, x.narrow(0, n % 2, 1),
xx.tril(n % 3), F.pad(x, (n % 3, 0)), x.repeat(n % 3)

put(x, n % 3, 5.0), put(x, slice(n % 3, None), n), x.clone().fill_(n), x.add_(n), xi.add_(n), x.masked_fill_(x > 1, n),
xx.fill_diagonal_(n), x.scatter_(0, torch.tensor([n % 3]), n)

A + n, n - A, A // (n or 1), A ** (n % 3), np.where(A > 1, n, 0), np.clip(A, 0, n), np.maximum(A, n), I * n, I % (n or 1), I == n, F32 + n,
np.full_like(I, n), I & n

put(A, 0, n), put(A, slice(n % 3, None), 1.0), put(AA, (slice(None), 1), n), put(I, I > 1, n), F32.fill(n), A.__iadd__(n),
np.add(A, n, out=A), I.__imul__(n)

np.full((n % 3,), n), np.arange(n % 5, 9), np.zeros((n % 3, 2)), A[n % 3 :], np.roll(A, n), np.tril(AA, n % 3), np.std(A, ddof=n % 2),
np.split(AA, [n % 3], 1), x.numpy() * n
"""
FLOATS = """
abs(n), -n, n + 1, 1 - n, n * 0, 0.0 - n, n * -1, n / 0.1, n == n, n != 1.5, n == "a", max(n, 1.0), min(1.0, n), max(-0.0, n),
sum([n, 0.1, 0.2]), sum([0.1] * 10, n)

str(n), f"{n}|{n:.2f}|{n:e}|{n:%}|{n!r}|{n:>10}|{n=}", "%f %.3g %s %r" % (n, n, n, n), "{0:.3f} {0}".format(n),
"-".join([str(n), str(n)]), round(n, 2)

[n] * 2, (n, n), {"a": n}, Point(n, 1), Data(n), Frozen(n), functools.reduce(operator.add, [n, 1.0]), list(itertools.repeat(n, 2)),
L.append(n), D.update(z=n), setattr(O, "z", n), O(n)

x + n, n - x, x * n, n / (x + 1), x ** n, x == n, torch.full((2,), n), torch.where(x > 1, n, x), x.clamp(min=n), torch.tensor([n, 1]),
x.fill_(n), put(xx, 0, n), xh * n, xi * n

math.atan(n), math.fabs(n), math.tanh(n), n if n > 2 else -n, bool(n), math.copysign(2.0, n), [n, 1.0].count(1.0),
list(map(lambda y: y * n, [1.0, 2.0])), n // 3, n % 3
"""
TEXTS = """
n, n + "a", f"{n!r:>6}", "-".join([n, n]), n * 2, len(n), n.upper(), n.replace("1", "x"), n[0], [n, "a"].index(n), {n: 1}, n == "3",
n < "5", "1" in n, "%s" % n, sorted([n, "2"])
"""
TRUTHS = """
n, not n, n and 1, 1 if n else 2, n == 1, int(n), str(n), f"{n}", [1, 2][n], {True: 1, False: 2}[n], n + 1, n & True, -n, {n: 1}, [n] * 2,
sum([n, 1]), max(n, False), any([n])

torch.tensor(n), torch.full((2,), n), x * n, torch.where(x > 1, n, False), np.full(2, n), np.where(A > 1, n, False), put(A, 0, n),
L.insert(n, 5), L.sort(reverse=n), x.sum(0, keepdim=n)
"""
SOME = (2, 3, 5, 0, -1, 2**53 + 1, 2**62 + 3, 2)
SMALL = (2, 3, 5, 0, 1, 2)
REAL = (1.5, 2.5, -3.25, 0.0, -0.0, math.nan, math.inf, 1e300, 1.5)
SOURCES: dict[str, tuple[str, str, tuple[Any, ...], Callable[[Any], Any]]] = {
    "an int": (INTS, "v", SOME, lambda v: v),
    "a sum": (INTS, "v + 1", SOME[:5], lambda v: v),
    "a length": (INTS, "len(v)", SMALL, lambda v: [0] * v),
    "a size": (INTS, "v.size(0)", SMALL[:4], lambda v: torch.zeros(v)),
    "an item": (INTS, "v.item()", SOME, lambda v: torch.tensor(v)),
    "a float": (FLOATS, "v", REAL, lambda v: v),
    "a product": (FLOATS, "v * 0.5", SOME[:5], lambda v: v),
    "an item that is a float": (FLOATS, "v.item()", REAL, lambda v: torch.tensor(v, dtype=torch.float64)),
    "a text": (TEXTS, "f'{v}'", SOME, lambda v: v),
    "a text of an item": (TEXTS, "f'{v.item()}'", SMALL, lambda v: torch.tensor(v)),
    "a comparison": (TRUTHS, "v > 2", SMALL, lambda v: v),
    "a comparison of an item": (TRUTHS, "v.item() > 2", SMALL, lambda v: torch.tensor(v)),
}
"""By the way in which a value comes about: rows, the expression, what it is made of in each call, and how that becomes an argument."""
SHOWN = ("an int", "a float", "a text", "a text of an item", "a comparison")
"""Those of which each row is run by default; of the others one in so many is."""
ONE_IN = 4


def cases() -> list[Any]:
    """A case for each row with each way."""
    found = []
    for place, (name, (rows, *rest)) in enumerate(SOURCES.items()):
        for number, row in enumerate(rows.strip().split("\n\n")):
            marks = () if name in SHOWN or (number + place) % ONE_IN == 0 else (pytest.mark.slow,)
            found.append(pytest.param(row, *rest, id=f"{name}, row {number}", marks=marks))
    return found


def made(row: str, expression: str, name: str) -> Callable[..., Any]:
    """A program of a row."""
    text = f"def program(v, {', '.join(ARGUMENTS)}):\n    n = {expression}\n    y = xx * 2\n    return ({row}), y\n"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace = dict(VISIBLE)
    exec(compile(text, name, "exec"), namespace)
    return namespace["program"]  # type: ignore[no-any-return]


@pytest.mark.parametrize(("row", "expression", "values", "argument"), cases())
def test_what_varies_is_no_constant_anywhere(row: str, expression: str, values: tuple[Any, ...], argument: Callable[[Any], Any]) -> None:
    program = made(row, expression, f"<{expression}: {row}>")
    framejit.reset()
    with framejit.config.replace(recompile_limit=16):
        compiled = framejit.compile(program, backend="eager", dynamic=True)
        raises = False
        for value in values:
            runs: list[Any] = []
            for run in (program, compiled):
                random.seed(0)
                given = argument(value), *arguments().values()
                runs.append((outcome(run, given, {}), given, torch.rand(1), random.random()))
            Comparison().same(*runs, f"{value!r}")
            raises = raises or runs[0][0][0] == "raised"
    assert raises or not framejit.statistics()["fallbacks"]
