"""Programs with graph breaks in every construct and place, for test_resume.py. `CASES`: name -> (function, arguments)."""

from __future__ import annotations

import io
import math
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

CASES: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {}


def vector() -> torch.Tensor:
    return torch.arange(1.0, 4.0)


def case(*make: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that registers a program. `make`: functions that make its arguments, or the arguments; by default it has one tensor."""

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        def arguments() -> tuple[Any, ...]:
            return tuple(one() if callable(one) else one for one in make) if make else (vector(),)

        CASES[fn.__name__] = fn, arguments
        return fn

    return register


class Opaque:
    """An object whose attributes, items and operators can't be traced, because they print."""

    def __init__(self) -> None:
        self.log: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        print("get", name)
        return 3

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "log":
            print("set", name)
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        print("delete", name)
        object.__delattr__(self, name)

    def __getitem__(self, key: Any) -> Any:
        print("item", key)
        if key == "missing":
            raise KeyError(key)
        return 5

    def __setitem__(self, key: Any, value: Any) -> None:
        print("store", key)
        self.log.append(key)

    def __delitem__(self, key: Any) -> None:
        print("remove", key)

    def __add__(self, other: Any) -> Any:
        print("add")
        return other * 2

    def __radd__(self, other: Any) -> Any:
        print("radd")
        return other * 3

    def __iadd__(self, other: Any) -> Any:
        print("iadd")
        self.log.append("iadd")
        return self

    def __lt__(self, other: Any) -> Any:
        print("lt")
        return True

    def __eq__(self, other: Any) -> Any:
        print("eq")
        return True

    __hash__ = None  # type: ignore[assignment]

    def __contains__(self, item: Any) -> bool:
        print("contains")
        return True

    def __bool__(self) -> bool:
        print("bool")
        return True

    def __neg__(self) -> Any:
        print("neg")
        return 7

    def __len__(self) -> int:
        print("len")
        return 2

    def __call__(self, x: Any) -> Any:
        y = x + 1
        print("call")
        return y * 2

    def __iter__(self) -> Iterator[Any]:
        print("iter")
        return iter([1, 2])


def helper(x: torch.Tensor, scale: float = 2.0, *, shift: float = 0.0) -> torch.Tensor:
    y = x + 1
    print("mid")
    return y * scale + shift


def deep3(x, n=2):
    y = x * n
    print("deep")
    return y + n


def deep2(x):
    return deep3(x + 1, n=3) * 2


def deep1(x):
    a = deep2(x)
    return a - deep2(x * 2)


# Instructions.


@case()
def item(x):
    n = (x * 2).sum().item()
    return x * n + 1


@case()
def tolist(x):
    values = (x + 1).tolist()
    return x * len(values) + values[1]


@case()
def nonzero(x):
    places = (x > 1).nonzero()
    return places + 1, x[x > 1] * 2


@case()
def data_dependent_if(x):
    y = x * 2
    if y.sum() > 3:
        y = y + 1
    else:
        y = y - 1
    return y * 2


@case()
def data_dependent_elif(x):
    y = x * 2
    if y.sum() < 3:
        y = y + 1
    elif y.max() > 100:
        y = y - 1
    elif y.min() >= 2:
        y = y * 5
    return y * 2


@case()
def data_dependent_while(x):
    n = 0
    while x.sum() < 50:
        x = x * 2
        n += 1
    else:
        x = x - n
    return x, n


@case()
def data_dependent_assert(x):
    y = x + 1
    assert (y > 0).all(), "positive"
    return y * 2


@case()
def failing_assert(x):
    y = x + 1
    assert (y < 0).all(), f"negative {y.shape[0]}"
    return y * 2


@case()
def and_or(x):
    a = x.sum() > 0 and x.max()
    b = x.sum() < 0 or x.min()
    c = x.sum() < 0 and x.max() or x.mean()
    return a + b + c


@case()
def ternary_and_not(x):
    y = x + 1 if not x.sum() < 0 else x - 1
    z = not x.max() > 2
    return y, z


@case()
def comparison_chain(x):
    inside = 0 < x.sum() < 100
    outside = 10 < x.sum() < 100
    return inside, outside, (1 if 0 < x.min() <= x.max() < 3 else 2) * x


@case(Opaque, vector)
def attribute(o, x):
    return x * o.one + o.two


@case(Opaque, vector)
def method_lookup(o, x):
    try:
        return x * o.three(4)
    except TypeError as e:
        return x * 2, str(e)


@case(Opaque, vector)
def subscript(o, x):
    return [x * o["a"], x + o["b"], o[1:2]]


@case(Opaque, vector)
def subscript_raises(o, x):
    y = x + 1
    try:
        y = y * 2
        z = o["missing"]
    except KeyError as e:
        return y, e.args
    return z


@case(Opaque, vector)
def binary(o, x):
    a = o + x
    b = 4 + o
    o += x
    return a, b, o.log


@case(Opaque, vector)
def comparisons(o, x):
    return o < 1, o == 2, 3 in o, 3 not in o, -o, len(o), x * 2


@case(Opaque, vector)
def truth(o, x):
    y = x * 2
    if o:
        y = y + 1
    while not o:
        y = y * 2
    return (y and None) if not o else y * 3, o and x, o or x


@case(Opaque, vector)
def stores(o, x):
    y = x + 1
    o.a = y
    y = y * 2
    o["b"] = y
    del o["c"]
    y = y * 2
    del o.a
    return y, o.log


@case(Opaque, vector)
def call_object(o, x):
    return o(x) + o(x * 2)


@case(Opaque, vector)
def iterate_opaque(o, x):
    for i in o:
        x = x * i
    a, b = o
    first, *rest = o
    return x, a, b, first, rest, [*o, x], {*o}


@case()
def c_function(x):
    n = math.floor(x.sum().item()) + sys.getsizeof(1) * 0
    s = io.StringIO()
    s.write("abc")
    s.write(str(n))
    return x * n, s.getvalue()


@case()
def f_string(x):
    y = x + 1
    text = f"sum {y.sum().item():.1f} max {y.max().item()!r:>6}"
    return y, text


@case()
def random_numbers(x):
    random.seed(3)
    a = random.random()
    y = x * a
    b = random.choice([1, 2, 3])
    return y * b


@case()
def warns(x):
    y = x + 1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("careful", stacklevel=1)
        y = y * 2
    return y, [(str(w.message), w.lineno) for w in caught]


@case()
def imports_something_new(x):
    sys.modules.pop("this_is_imported", None)
    y = x + 1
    import colorsys
    import xml.dom.minidom as dom
    from wave import Error

    return y * len(dom.__name__), colorsys.__name__, Error.__name__


@case()
def print_with_keywords(x):
    y = x * 2
    print("a", len(y), sep="-", end="|\n", file=sys.stdout)
    print(*[1, 2], **{"sep": "+"})
    return y + 1


# Values on the stack, NULLs, calls.


@case()
def values_on_the_stack(x):
    return [x + 1, helper(x), (x, helper(x * 2), {"k": helper(x * 3)})]


@case()
def call_arguments(x):
    return max(helper(x).sum().item(), helper(x, shift=1.0).sum().item(), 3) + helper(helper(x), scale=3.0, shift=helper(x)[0].item())


@case()
def star_calls(x):
    args, kwargs = (x,), {"scale": 3.0, "shift": 1.0}
    return helper(*args, **kwargs) + helper(*args) + helper(x, **kwargs)


@case()
def method_of_result(x):
    return helper(x).add(helper(x).mul(2)).sum() + x.add(helper(x))


@case()
def under_construction(x):
    a = [x, *(helper(x),), 3]
    d = {"a": 1, **{"b": helper(x)}, "c": helper(x * 2)}
    s = {1, len(helper(x)), 7}
    return a, d, s


@case()
def slices(x):
    l = [1, 2, 3, 4, 5]
    l[len(helper(x)) - 2 : 4] = [9, print("in slice"), 8]
    y = x.clone()
    y[int(x[0].item()) :] = 5
    return l, y, l[int(x[0].item()) : int(x[2].item())]


@case()
def unpacking(x):
    a, (b, *c) = helper(x), (print("tuple"), 2, helper(x))
    return a, b, c


@case()
def walrus(x):
    if (n := int(x.sum().item())) > 3 and (m := n * 2):
        return x * n + m
    return x


@case()
def many_breaks(x):
    for i in range(3):
        x = x + 1
        print(i)
        x = x * 2
        print(i)
        x = x - 1
    return x


# Loops.


@case()
def in_for(x):
    for i in range(20):
        x = x + i
        print("at", i)
        if i == 15:
            break
        if i % 2:
            continue
        x = x * 0.5
    else:
        x = x * 0
    return x


@case()
def for_else(x):
    for v in [1, 2]:
        x = helper(x) * v
    else:
        print("else")
        x = x + 1
    return x


@case()
def nested_loops(x):
    total = []
    for i in range(3):
        for j, name in enumerate("ab"):
            for k in zip([1, 2], (3, 4)):
                x = x + i * j
                if k[0] == 2:
                    print(i, j, name, k)
            total.append(x)
        while len(total) < i * 3:
            total.append(helper(x))
    return total


@case()
def dict_loop(x):
    d = {"a": 1, "b": 2, "c": 3}
    out = {}
    for key, value in d.items():
        out[key] = helper(x) * value
    for key in reversed(d):
        print(key)
        out[key] = out[key] + 1
    return out


@case()
def generator_expression(x):
    return sum(helper(x).sum() * i for i in range(3))


@case()
def map_and_filter(x):
    return list(map(helper, [x, x * 2])), sorted([3, 1, 2], key=lambda v: print("key", v) or -v)


@case()
def comprehensions(x):
    a = [helper(x) * i for i in range(3) if i != 1]
    b = {i: helper(x + i) for i in range(2)}
    c = {len(helper(x)) + i for i in range(2)}
    d = [[helper(x) for _ in range(2)] for _ in range(2)]
    return a, b, c, d, x


@case()
def comprehension_with_closure(x):
    k = 3
    fs = [lambda v, i=i: helper(v) * i * k for i in range(2)]
    k = 4
    return [f(x) for f in fs]


@case()
def loop_returns(x):
    for i in range(5):
        for j in range(5):
            x = helper(x)
            if x.sum() > 40:
                return x, i, j
    return None
