"""Python's language in compiled functions: functions, classes, closures, exceptions, context managers, generators. PYTEST_DONT_REWRITE."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
from collections import namedtuple
from typing import NamedTuple

import pytest
import torch
from agreement import agree

x = torch.arange(6.0).reshape(2, 3)
y = torch.ones(2, 3)
SCALE = 3


def add(a, b=1, *rest, key=2, **more):
    return a + b + sum(rest) + key + sum(more.values())


def outer_counter():
    count = 0

    def bump(t):
        nonlocal count
        count += 1
        return t * count

    return bump


class Point:
    """A user class with everything usual."""

    shared = 5

    def __init__(self, a, b):
        self.a = a
        self.b = b

    @property
    def total(self):
        return self.a + self.b

    @total.setter
    def total(self, value):
        self.a = value - self.b

    @classmethod
    def make(cls, t):
        return cls(t, t + 1)

    @staticmethod
    def twice(t):
        return t * 2

    def __add__(self, other):
        if not isinstance(other, Point):
            return NotImplemented
        return Point(self.a + other.a, self.b + other.b)

    def __radd__(self, other):
        return Point(other + self.a, self.b)

    def __eq__(self, other):
        return isinstance(other, Point) and self.a is other.a

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return (self.a, self.b)[index]

    def __contains__(self, item):
        return item == "a"

    def __call__(self, t):
        return self.a * t

    def __iter__(self):
        yield self.a
        yield self.b


class Child(Point):
    def __init__(self, a, b, c):
        super().__init__(a, b)
        self.c = c

    @property
    def total(self):
        return super().total + self.c

    def __getattr__(self, name):
        if name.startswith("dyn_"):
            return self.c
        raise AttributeError(name)


class Slotted:
    __slots__ = ("p", "q")

    def __init__(self, p):
        self.p = p


@dataclasses.dataclass
class Data:
    t: torch.Tensor
    n: int = 3
    names: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.double = self.t * 2


@dataclasses.dataclass(frozen=True)
class Frozen:
    t: torch.Tensor
    n: int


class Named(NamedTuple):
    t: torch.Tensor
    n: int = 1


Pair = namedtuple("Pair", "left right")


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Managed:
    def __init__(self, log, swallow=False):
        self.log = log
        self.swallow = swallow

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, value, traceback):
        self.log.append("none" if kind is None else kind.__name__)
        return self.swallow


@contextlib.contextmanager
def managed(log):
    log.append("in")
    try:
        yield len(log)
    finally:
        log.append("out")


def test_parameters_of_every_kind():
    def f(a, /, b, *c, d=4, **e):
        return add(a, b) + add(a, b, *c, key=d, **e), d, tuple(e)

    agree(f, x, 2, 3, 4, d=5, z=y)
    agree(lambda a, b=2: a * b, x)


def test_wrong_arguments_raise_what_python_raises():
    def f(t):
        try:
            add()
        except TypeError as error:
            return str(error), t + 1

    agree(f, x)


def test_closures_and_nonlocal():
    def f(t):
        bump = outer_counter()
        return bump(t) + bump(t)

    agree(f, x)


def test_mutation_of_a_captured_cell_is_visible():
    def make():
        n = 0

        def f(t):
            nonlocal n
            n += 1
            return t + n

        return f, lambda: n

    compiled_inner, read = make()
    import framejit

    g = framejit.compile(compiled_inner, backend="eager", fullgraph=True)
    for i in range(1, 4):
        assert torch.equal(g(x), x + i)
        assert read() == i


def test_global_store():
    global SCALE

    def f(t):
        global SCALE
        SCALE = SCALE + 1
        return t * SCALE

    SCALE = 3
    import framejit

    g = framejit.compile(f, backend="eager", fullgraph=True)
    assert torch.equal(g(x), x * 4) and SCALE == 4
    assert torch.equal(g(x), x * 5) and SCALE == 5


def test_user_class():
    def f(a, b):
        p = Point(a, b)
        q = Point.make(a)
        r = p + q
        s = 1 + p
        p.total = a
        return r.total, s, Point.twice(a), p(b), p[0], p[-1], len(p), "a" in p, "z" in p, list(p), p == p, bool(p), Point.shared, p.shared

    agree(f, x, y)


def test_user_objects_from_outside():
    def f(p, q, t):
        p.a = p.a + t
        p.extra = [t, p.b]
        q.p = t
        del q.q
        return p.total, q.p

    q = Slotted(1)
    q.q = 3
    agree(f, Point(x, y), q, x)


def test_inheritance_super_and_getattr():
    def f(a, b):
        c = Child(a, b, 3)
        return c.total, c.dyn_x, isinstance(c, Point), issubclass(Child, Point), hasattr(c, "nope"), getattr(c, "nope", 7), type(c) is Child

    agree(f, x, y)


def test_constructed_objects_are_returned():
    def f(a, b):
        s = Slotted(a)
        p = Child(a, b, s)
        p.me = p
        return p, s, Data(a, names=["z"]), Frozen(a, 2), Named(a), Pair(a, b)._replace(left=b), Color.RED, Color(2).name

    agree(f, x, y)


def test_dataclass_operations():
    def f(d, t):
        e = dataclasses.replace(d, n=7)
        d.names.append("new")
        return e, [field.name for field in dataclasses.fields(d)], e.double + t

    agree(f, Data(x), y)


def test_namedtuple():
    def f(p):
        left, right = p
        return p.left + right, p._asdict(), p._fields, Named(t=left).n

    agree(f, Pair(x, y))


def test_exceptions():
    def f(t, log):
        try:
            try:
                raise KeyError("inner")
            except KeyError as error:
                log.append(repr(error))
                raise ValueError("outer") from error
            finally:
                log.append("finally")
        except (TypeError, ValueError) as error:
            log.append((str(error), type(error.__cause__).__name__, error.args))
            t = t + 1
        else:
            log.append("else")
        return t

    agree(f, x, [])


def test_exception_that_escapes():
    def f(t, log):
        log.append(1)
        if t.shape[0] == 2:
            raise ValueError(f"bad shape {tuple(t.shape)}")
        return t

    agree(f, x, [])


def test_assert():
    def f(t):
        assert t.ndim == 2, "two dimensions"
        return t + 1

    agree(f, x)
    agree(f, x[0])


def test_with_user_class():
    def f(t, log):
        with Managed(log) as m, Managed(log, swallow=True):
            t = t + len(m.log)
            raise RuntimeError("swallowed")
        return t

    agree(f, x, [])


def test_contextmanager():
    def f(t, log):
        with managed(log) as n:
            t = t + n
        try:
            with managed(log):
                raise ValueError
        except ValueError:
            log.append("caught")
        with contextlib.suppress(ValueError), contextlib.nullcontext(3) as three:
            t = t * three
            raise ValueError
        return t

    agree(f, x, [])


def test_generators():
    def squares(n, t):
        for i in range(n):
            got = yield t * i
            if got:
                yield got

    def delegate(t):
        result = yield from squares(2, t)
        assert result is None
        return 5

    def f(t):
        g = squares(3, t)
        first = next(g)
        sent = g.send(7)
        rest = list(g)
        total = sum(s for s in squares(3, t))
        return first, sent, rest, total, list(delegate(t)), any(i > 1 for i in range(3)), dict((str(i), i) for i in range(2))

    agree(f, x)


def test_comprehensions_and_unpacking():
    def f(ts, d):
        first, *middle, last = ts
        nested = [[a + b for a in ts] for b in ts if b is not first]
        return {k: v * 2 for k, v in d.items()}, {len(k) for k in d}, middle, nested, [*ts, *middle], {**d, "z": last}, (a := last) + a

    agree(f, [x, y, x + 1], {"a": x, "bb": y})


def test_f_strings_and_formatting():
    def f(t, n):
        return f"{n!r:>5}|{n:03d}|{t.shape}|{t.dtype}", "%s-%d" % ("a", n), "{:.2f}".format(1.5), str(n), t + n

    agree(f, x, 7)


def test_loops():
    def f(t, n):
        for i in range(n):
            if i == 1:
                continue
            if i == 4:
                break
            t = t + i
        else:
            t = t * 100
        while n > 0:
            n -= 2
            t = t - n
        else:
            t = t + 0.5
        return t

    agree(f, x, 3)
    agree(f, x, 9)


def test_functools():
    @functools.wraps(add)
    def wrapped(*args, **kwargs):
        return add(*args, **kwargs)

    def f(t):
        p = functools.partial(add, t, key=3)
        return p(2), wrapped(t), functools.reduce(lambda a, b: a + b, [t, t, t]), p.keywords

    agree(f, x)


def test_identity():
    def f(a, b, c):
        return a is b, a is c, c is None, a if a is c else b, [a, a]

    t = torch.ones(2)
    agree(f, t, t, None)
    agree(f, t, t.clone(), t)


def test_cycles():
    def f(t):
        a = [t]
        a.append(a)
        d = {"a": a}
        d["d"] = d
        a.append(d)
        return a

    agree(f, x)


def test_returned_closure_runs():
    def f(t):
        n = 3

        def g(u):
            return u * n + t

        return g

    import framejit

    g = framejit.compile(f, backend="eager", fullgraph=True)(x)
    assert torch.equal(g(y), y * 3 + x)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_recursion(n):
    def fact(k, t):
        return t if k == 0 else fact(k - 1, t * k)

    agree(lambda t: fact(n, t), x)


def identities_of_tuples(t, empty, one):
    made, nothing = (1, t), ()
    return [
        nothing is empty,
        tuple([]) is nothing,
        one[1:] is empty,
        one * 0 is nothing,
        nothing + () is empty,
        (lambda *rest: rest)() is nothing,
        tuple(item for item in []) is nothing,
        one[:] is one,
        tuple(one) is one,
        1 * one is one,
        one + () is one,
        nothing + one is one,
        one + one[1:] is one,
        one[::-1] is one,
        made[:] is made,
        made[::2] is made,
        made[:1] is one,
        made * 2 is made,
        nothing is made,
        one is empty,
        identities_of_tuples.__type_params__ is nothing if hasattr(identities_of_tuples, "__type_params__") else None,
    ]


def test_identity_of_tuples():
    agree(identities_of_tuples, x, (), (1,))


def test_updated_wrapper():
    def f(t):
        def g():
            "doc"

        @functools.wraps(g)
        def wrapper():
            pass

        return [getattr(wrapper, name) is getattr(g, name) for name in functools.WRAPPER_ASSIGNMENTS], t

    agree(f, x)
