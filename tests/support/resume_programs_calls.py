"""Programs with graph breaks inside functions, methods, closures and generators, and among mutations, for test_resume.py."""

from __future__ import annotations

import functools
import sys
from typing import Any

import torch
from resume_programs import case, deep1, helper, vector
from torch import nn

# Functions.


@case()
def deep(x):
    return deep1(x) + deep1(x + 1)


@case()
def recursion(x, n=4):
    if n == 0:
        return x
    print(n)
    y = recursion(x + n, n - 1)
    print("back", n)
    return y * 2


@case()
def closures(x):
    count = 0

    def inner(z):
        nonlocal count, x
        count += 1
        x = x + z
        print("count", count)
        count += 1
        return x * count

    a = inner(x) + inner(x)
    return a, count, inner(a)


@case()
def only_free_variables(x):
    def show():
        print("x has", len(x))

    def both():
        show()
        print("both")
        return x * 2

    return both() + both()


@case()
def closure_returned(x):
    total = [x]

    def add(y):
        total.append(y)
        print(len(total))
        return total[-1] + k

    k = 2
    add(x)
    k = 3
    return add(x * 2), total


@case()
def deleted_variables(x):
    a = x + 1
    b = x + 2
    del a
    print("deleted")
    try:
        return a  # noqa: F821
    except UnboundLocalError as e:
        return b, str(e)


@case()
def lambdas(x):
    f = lambda z: helper(z)
    g = lambda: (print("g"), x * 2)[1]
    return f(x) + f(x) + g()


def prints_calls(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        print("calling", fn.__name__)
        result = fn(*args, **kwargs)
        print("called")
        return result

    return wrapper


@prints_calls
def decorated_helper(x, *, k=1):
    print("in it")
    return x * k


@case()
@prints_calls
def decorated(x):
    return decorated_helper(x, k=3) + decorated_helper(x)


@case()
def partial(x):
    f = functools.partial(helper, scale=3.0)
    return f(x) + f(x, shift=1.0)


class Base:
    def __init__(self, v: Any) -> None:
        self.v = v

    def method(self, x: Any) -> Any:
        print("base", self.v)
        self.v += 1
        return x * self.v

    @classmethod
    def make(cls, v: Any) -> Any:
        print("make", cls.__name__)
        return cls(v)

    @staticmethod
    def static(x: Any) -> Any:
        print("static")
        return x + 1


class Derived(Base):
    def __init__(self, v: Any) -> None:
        print("init")
        super().__init__(v * 2)
        self.w = v
        print("done")

    def method(self, x: Any) -> Any:
        r = super().method(x)
        print("derived")
        return r + super().method(x) + self.static(x)

    @property
    def size(self) -> Any:
        self.w += 1
        print("size", self.w)
        return self.w * 2

    @size.setter
    def size(self, value: Any) -> None:
        print("set size", value)
        self.w = value

    def __add__(self, other: Any) -> Any:
        y = other + self.v
        print("add")
        self.v += 1
        return y * 2

    def __getitem__(self, key: Any) -> Any:
        print("getitem", key)
        return self.v * key

    def __eq__(self, other: Any) -> Any:
        print("eq")
        return NotImplemented

    __hash__ = object.__hash__

    def __len__(self) -> int:
        print("len")
        return 4

    def __bool__(self) -> bool:
        print("truth")
        return self.v > 100


@case(lambda: Derived(3), vector)
def methods(d, x):
    return d.method(x) + d.method(x * 2), d.v


@case(lambda: Derived(3), vector)
def classmethods(d, x):
    e = type(d).make(4)
    return Base.make(2).method(x) + e.method(x) + d.static(x)


@case()
def construct(x):
    d = Derived(2)
    y = x * d.v
    e = Derived(d.v + 1)
    return y + e.v, d.w, e.w


@case(lambda: Derived(3), vector)
def properties(d, x):
    d.v = 1
    y = x * d.size
    d.size = 10
    y = y + d.size
    d.size += 1
    return y, d.w


@case(lambda: Derived(3), vector)
def dunders(d, x):
    d.v = 7
    y = d + x
    z = d + y
    return y, z, d[2], d == 3, d != 4, len(d), bool(d), (1 if d else 2), d.v


@case()
def local_state_seen_natively(x):
    seen = []

    def look():
        seen.append(len(state))
        print("state", state)

    state = [1]
    state.append(2)
    look()
    state.append(3)
    d = Derived(1)
    d.extra = state
    d.size = 5
    state.append(4)
    look()
    return seen, d.extra is state, d.w, x * len(state)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.inner = Inner()
        nn.init.constant_(self.a.weight, 0.5)
        nn.init.constant_(self.a.bias, 0.25)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.a(x)
        print("forward")
        self.calls += 1
        return self.inner(y) + self.inner(y * 2)


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total += 1
        print("inner")
        return x.relu() + self.total


@case(Model, vector)
def module(m, x):
    y = m(x)
    print("between")
    return m(y).detach(), m.calls, m.inner.total


def numbers(x):
    for i in range(3):
        print("generate", i)
        yield x * i
    print("end")


def quiet_numbers(x):
    for i in range(3):
        yield x * i


@case()
def generator_summed(x):
    return sum(numbers(x))


@case()
def generator_looped(x):
    out = []
    for y in numbers(x):
        out.append(y + 1)
    return out


@case()
def generator_listed(x):
    return list(numbers(x)), [*numbers(x)], max(v.sum() for v in numbers(x))


@case()
def generator_unpacked(x):
    a, b, c = numbers(x)
    return a, b, c


@case()
def break_beside_generator(x):
    out = []
    for y in quiet_numbers(x):
        print("loop")
        out.append(y + 1)
    return out


@case()
def generator_before_break(x):
    g = quiet_numbers(x)
    print("made")
    return list(g)


@case()
def generator_half_consumed(x):
    g = quiet_numbers(x)
    a = next(g)
    print("one")
    return a, list(g)


def delegating(x):
    r = yield from numbers(x)
    yield r


@case()
def generator_delegates(x):
    return list(delegating(x))


def returns_from_a_loop_over_a_generator(o, x):
    def items(t, k):
        try:
            for i in range(k):
                print("produce", i)
                yield t * i
        finally:
            print("closed")

    y = x * 0.5
    x = x[x > 0].sum() * y
    for _ in items(y, 2):
        return x


@case()
def break_in_a_frame_that_cannot_be_split(x):
    return returns_from_a_loop_over_a_generator(1, x + 1)


@case()
def class_body(x):
    print("before")

    class Local:
        print("inside")
        size = 3

        def method(self, y):
            print("method")
            return y * self.size

    return Local().method(x)


# Mutations.


@case()
def in_place(x):
    x.add_(1)
    print(x.sum().item())
    x.mul_(2)
    y = x.view(-1)
    y[0] = int(x.max().item())
    return x


@case(lambda: {"a": vector(), "l": [1]}, vector)
def containers(d, x):
    d["b"] = helper(d["a"])
    l = d["l"]
    l.append(x)
    print(sorted(d))
    l[0] = d
    del d["a"]
    print(len(l), len(d))
    l.append(l)
    return l is d["l"], l[0] is d


COUNTER = 0


@case()
def global_variable(x):
    global COUNTER
    COUNTER = 0
    print(COUNTER)
    COUNTER += 1
    print(COUNTER)
    x = x * (COUNTER + 1)
    COUNTER = COUNTER + int(x.sum().item())
    return x, COUNTER


@case()
def inspect_stack(x):
    y = x + 1
    name = sys._getframe().f_code.co_name.partition(" ")[0]
    return y, name, stack_names()


def stack_names():
    frame = sys._getframe(1)
    return frame.f_code.co_name.partition(" ")[0], frame.f_lineno - frame.f_code.co_firstlineno


@case()
def locals_and_eval(x):
    a = 1
    y = x + a
    names = sorted(locals())
    return y, names, eval("a + 1")


@case()
def mutable_default(x, seen=[]):
    seen.append(len(seen))
    print(len(seen) > 0)
    seen.clear()
    return x * 2


@case()
def eval_among_cells(x):
    factor = 3

    def inner(z):
        shift = 5

        def get():
            return shift

        z = z * factor + get()  # the free variable is not needed any more
        print(eval("shift + 1"))
        z = z - eval("get()")
        return z * get()

    return inner(x) + factor
