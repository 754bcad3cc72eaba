"""operator, math, functools, collections, copy, dataclasses and heapq in compiled functions."""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import heapq
import math
import operator
import sys
import typing

import pytest
import torch
from agreement import agree, raising

import framejit

x = torch.arange(6.0).reshape(2, 3)


@dataclasses.dataclass
class Options:
    width: int
    items: list = dataclasses.field(default_factory=list)
    name: str = "n"

    def __post_init__(self):
        self.double = self.width * 2


@dataclasses.dataclass(frozen=True, order=True)
class Frozen:
    a: int
    b: str = "b"


class Cached:
    def __init__(self):
        self.calls = 0

    @functools.cached_property
    def value(self):
        self.calls += 1
        return self.calls * 10

    @functools.partialmethod
    def unused(self):
        return None


@functools.total_ordering
class Rank:
    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return self.n == other.n

    def __lt__(self, other):
        return self.n < other.n


def scale(t, by=2, *, plus=0):
    return t * by + plus


SCALE = functools.partial(scale, by=3, plus=1)
FIRST = operator.itemgetter(0)
NAME = operator.attrgetter("a.n")
UPPER = operator.methodcaller("replace", "a", "b")


def operators(t):
    items = [1, 2, 3]
    operator.setitem(items, 0, 9)
    operator.delitem(items, 1)
    operator.iadd(items, [4])
    return (
        operator.add(1, 2),
        operator.mul(t, 2),
        operator.neg(3),
        operator.not_([]),
        operator.truth([1]),
        operator.lt(1, 2),
        operator.eq(1, 1.0),
        operator.is_(None, None),
        operator.contains(items, 9),
        operator.getitem(items, 0),
        operator.matmul(t, t.T),
        operator.floordiv(7, 2),
        operator.and_(6, 3),
        operator.invert(5),
        operator.concat([1], [2]),
        operator.index(True),
        operator.countOf([1, 1], 1),
        operator.indexOf([1, 2], 2),
        operator.pow(2, 3),
        items,
        operator.itemgetter(1)([1, 2]),
        operator.itemgetter(1, 0)("ab"),
        operator.attrgetter("real")(3),
        operator.methodcaller("upper")("a"),
        operator.methodcaller("split", sep=",")("a,b"),
        FIRST((t, 1)) is t,
        UPPER("aa"),
        sorted([(2, "a"), (1, "b")], key=operator.itemgetter(1)),
        functools.reduce(operator.add, [1, 2, 3]),
        raising(lambda: FIRST([])),
        operator.length_hint([1, 2]),
    )


def maths(t, n):
    return (
        math.sqrt(16),
        math.pi,
        math.floor(2.5),
        math.ceil(-2.5),
        math.trunc(2.9),
        math.log(math.e),
        math.prod([1, 2, 3]),
        math.gcd(12, 8),
        math.isnan(float("nan")),
        math.inf,
        math.hypot(3, 4),
        math.comb(5, 2),
        math.factorial(5),
        math.copysign(1, -0.0),
        math.sqrt(n),
        math.isclose(0.1 + 0.2, 0.3),
        math.fsum([0.1] * 10),
        math.exp(1),
        math.log2(8),
        math.cos(0),
        raising(lambda: math.sqrt(-1)),
        raising(lambda: math.sqrt("a")),
        raising(lambda: math.log(0)),
        t / math.sqrt(t.shape[-1]),
    )


def partials(t):
    p = functools.partial(scale, t)
    q = functools.partial(p, by=5)
    return (
        SCALE(t),
        p(),
        q(plus=1),
        q.func is scale,
        q.args[0] is t,
        q.keywords,
        functools.partial(max, 3)(1, 2),
        list(map(functools.partial(operator.add, 1), [1, 2])),
        SCALE.keywords["by"],
        SCALE(t, by=4),
    )


def return_partial(t):
    return functools.partial(scale, t, by=4)


def decorators(t):
    def twice(fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            return fn(*args, **kwargs) * 2

        return wrapper

    @twice
    def plus(a):
        """Doc."""
        return a + 1

    return plus(t), plus.__name__, plus.__doc__, plus.__wrapped__(1)


def caches(t):
    c = Cached()
    return c.value, c.value, c.calls, vars(c), t


def cached_argument(t, c):
    return c.value + t


def comparisons(t):
    backwards = functools.cmp_to_key(lambda a, b: b - a)
    return (
        sorted([1, 3, 2], key=backwards),
        Rank(1) <= Rank(2),
        Rank(3) > Rank(2),
        functools.reduce(lambda a, b: a * b, [t, 2], 3),
        raising(lambda: functools.reduce(operator.add, [])),
    )


def data(t):
    o = Options(2)
    o.items.append(t)
    r = dataclasses.replace(o, width=5)
    f = Frozen(1)
    return (
        o,
        r,
        r.items is o.items,
        [field.name for field in dataclasses.fields(o)],
        dataclasses.asdict(Options(1, [2])),
        dataclasses.astuple(Options(1)),
        dataclasses.is_dataclass(o),
        o == Options(2),
        f == Frozen(1),
        f < Frozen(2),
        repr(f),
        repr(Options(1)),
        raising(lambda: setattr(f, "a", 2)),
        raising(lambda: Options()),
    )


def data_argument(t, o):
    o.items.append(t)
    o.width += 1
    return o.double * t, o


def copies(t):
    nested = {"a": [1, [t]], "b": (2,)}
    shallow, deep = copy.copy(nested), copy.copy([1, nested])
    shallow["a"].append(5)
    return nested, shallow, deep, copy.copy((1,)), copy.copy({1}), copy.copy(3), copy.copy(Rank(2))


def deep_copies(t):
    nested = {"a": [1, [2]], "b": (2, [3])}
    nested["loop"] = nested["a"]
    nested["rank"] = Rank(3)
    deep = copy.deepcopy(nested)
    deep["a"].append(9)
    return nested, deep, deep["loop"] is deep["a"]


def identities(t):
    a, b = [1], [1]
    seen = {id(a): "a"}
    return id(a) == id(a), id(a) == id(b), id(a) in seen, id(b) in seen, seen.get(id(a)), t


def heaps(t):
    h = [5, 1, 4, 2]
    heapq.heapify(h)
    heapq.heappush(h, 0)
    return (
        heapq.heappop(h),
        h,
        heapq.nlargest(2, [1, 5, 3]),
        heapq.nsmallest(2, [4, 1, 3]),
        heapq.heappushpop(h, 9),
        heapq.heapreplace(h, 7),
        h,
        t,
    )


def versions(t):
    if sys.version_info >= (3, 8) and sys.version_info.major == 3 and sys.maxsize > 2**32:
        return t + 1, sys.version_info[:1], sys.byteorder
    return t


def typings(t):
    number = typing.cast(int, 3)
    alias = list[int]
    return number, alias((1, 2)), typing.cast("str", t), typing.TYPE_CHECKING


def user_collections(t):
    class_ = collections.UserDict(a=1)
    class_["b"] = t
    listed = collections.UserList([1])
    listed.append(2)
    return class_["a"], len(class_), sorted(class_), listed[1], list(listed)


ALONE = [
    operators,
    partials,
    return_partial,
    decorators,
    caches,
    comparisons,
    data,
    copies,
    deep_copies,
    identities,
    heaps,
    versions,
    typings,
    user_collections,
]


@pytest.mark.parametrize("program", ALONE, ids=lambda program: program.__name__)
def test_functions_of_the_standard_library_agree_with_eager(program):
    if program is return_partial:
        ours, theirs = framejit.compile(program, backend="eager", fullgraph=True)(x), program(x)
        assert ours.func is theirs.func and ours.keywords == theirs.keywords and torch.equal(ours(), theirs())
        return
    agree(program, x)


def test_maths():
    agree(maths, x, 2)


def test_arguments():
    agree(data_argument, x, Options(3, [1]))
    agree(cached_argument, x, Cached())


def test_a_partial_argument():
    def apply(t, f):
        return f(t)

    compiled = framejit.compile(apply, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x, SCALE), SCALE(x))
    other = functools.partial(scale, by=7)
    assert torch.equal(compiled(x, other), other(x))
