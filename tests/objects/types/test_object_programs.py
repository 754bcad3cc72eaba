"""Programs that mix containers, classes and iterators, as model code does: arguments of every kind, subclasses, cycles, closures."""

from __future__ import annotations

import abc
import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import itertools
import math
import operator
import types
import typing

import pytest
import torch
from agreement import agree

import framejit

x = torch.ones(3)
CALLS = 0


class Opt(enum.Enum):
    A = "a"
    B = "b"


class Empty:
    pass


class Odd(list):
    """Overrides what C code does not ask for, and what it does."""

    def __iter__(self):
        return iter([9, *super().__iter__()])

    def __len__(self):
        return 42

    def __getitem__(self, i):
        return "got"


class Tagged(tuple):
    def __new__(cls, *items):
        made = super().__new__(cls, items)
        made.tag = "t"
        return made


class Last(collections.OrderedDict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        self.last = key


class Groups(collections.defaultdict):
    pass


class Queue(collections.deque):
    def push(self, item):
        self.append(item)
        return self


@dataclasses.dataclass
class Output(collections.OrderedDict):
    """The outputs of transformers' models."""

    a: typing.Any = None
    b: typing.Any = None

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None:
                self[field.name] = value

    def __getitem__(self, key):
        if isinstance(key, str):
            return dict(self.items())[key]
        return tuple(self[k] for k in self.keys())[key]

    def __setattr__(self, name, value):
        if name in self.keys() and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)


class Slots:
    __slots__ = ("a", "items")

    def __init__(self):
        self.a = 1
        self.items = []


class Partial:
    def base(self, a, b):
        return a + b

    five = functools.partialmethod(base, 5)


class Generated:
    def __iter__(self):
        yield 1
        yield from [2, 3]


class Told(abc.ABC):
    """An object whose operators return the operator's name and the class on which it has run."""

    def __lt__(self, other):
        return "lt", type(self).__name__

    def __gt__(self, other):
        return "gt", type(self).__name__

    def __eq__(self, other):
        return "eq", type(self).__name__

    def __add__(self, other):
        return "add", type(self).__name__

    def __radd__(self, other):
        return "radd", type(self).__name__


class ToldChild(Told):
    """Overrides nothing."""


class ToldOtherwise(Told):
    def __gt__(self, other):
        return "other gt"

    def __radd__(self, other):
        return "other radd"


@Told.register
class ToldAlike:
    """No subclass of Told, but for `issubclass`."""

    __lt__, __gt__, __eq__, __radd__ = Told.__lt__, ToldOtherwise.__gt__, ToldOtherwise.__eq__, ToldOtherwise.__radd__


def which_operand(t, a, b):
    return t, a < b, b < a, a > b, a == b, b == a, a != b, a + b


class Compared:
    def __init__(self, v):
        self.v = v

    def __eq__(self, other):
        return isinstance(other, Compared) and self.v == other.v

    def __hash__(self):
        return hash(self.v)


Pair = collections.namedtuple("Pair", "a b")


def enum_keys(t, d):
    return t * d[Opt.A] + len(d), [k.name for k in d]


def type_keys(t, d):
    return t * d[int] + (str in d), list(d)


def alias(t, a, b):
    a.append(1)
    return len(b), a is b


def count_calls(t):
    global CALLS
    CALLS += 1
    return t * 2


def shapes(t):
    b, *rest = t.shape
    return (
        t.shape[0],
        t.shape[-1:],
        list(t.shape),
        t.shape == (3,),
        t.shape + (1,),
        len(t.shape),
        t.view(*t.shape, 1).shape,
        (*t.shape, 2),
        t.size()[0],
        math.prod(t.shape),
        {t.shape: 1},
        f"{t.shape}|{t.dtype}|{tuple(t.shape)}",
        b,
        rest,
    )


def key_error(t, d):
    try:
        d["zz"]
    except KeyError as error:
        return t, error.args, str(error), repr(error)


def mutate_object(t, o):
    o.count += 1
    o.log.append(t)
    o.map["k"] = o.count
    return o


def object_with_state():
    o = Empty()
    o.count, o.log, o.map = 1, [], {}
    return o


def counter(t, c):
    c.update("ab")
    c["z"] += 1
    return c.most_common(1), c


def overridden(t, items):
    return list(items), len(items), items[0], [*items], tuple(items), bool(items), sorted(items)


def subclasses(t):
    last = Last(a=1)
    last["b"] = t
    last.update(c=2)
    last.move_to_end("a")
    groups = Groups(list)
    groups["a"].append(t)
    return Tagged(1, t), Tagged(1, 2).tag, last, last.last, groups, copy.copy(groups), groups | {"z": 1}, Queue([1], 2).push(t).push(3)


def outputs(t):
    return Output(a=t, b=1), Output(a=t)[0], Output(a=t)["a"], len(Output(a=t)), list(Output(a=1))


def output_argument(t, o):
    o.a = t
    return o[0]


def slots(t, s):
    s.a += 1
    s.items.append(t)
    return s


def generated(t):
    return (
        list(Generated()),
        max(Generated()),
        dict(enumerate(Generated())),
        [*zip(Generated(), Generated())],
        sum(Generated()),
        2 in Generated(),
        sorted(Generated(), reverse=True),
        ",".join(map(str, Generated())),
    )


def cycles(t, a):
    a["self"] = a
    b = [a]
    a["b"] = b
    b.append(b)
    return a


def return_value(t):
    def numbers():
        yield t
        return 5

    iterator = numbers()
    next(iterator)
    try:
        next(iterator)
    except StopIteration as stop:
        return stop.value


def in_handlers(t, items):
    try:
        items.append(1)
        raise ValueError("x")
    except ValueError:
        items.append(2)
    finally:
        items.append(3)
    with contextlib.suppress(KeyError, IndexError):
        items[10]
    with contextlib.ExitStack() as stack:
        stack.callback(items.append, 5)
    return items


def closures(t):
    seen = [0]

    def note(a):
        seen[0] += 1
        return a + t

    return [f() for f in [lambda i=i: i * t for i in range(3)]], note(1), seen


def partials(t):
    return functools.partial(torch.add, t)(1), functools.partial(int, base=2)("101"), Partial().five(t)


def user_equality(t, a, b):
    return a == b, a != b, a in [b], [a].index(b), (a, 1) == (b, 1), [a].count(b)


def of_tensors(t, items):
    return (
        torch.stack(items),
        torch.cat([t, *items]),
        tuple(i * 2 for i in items),
        {"a": items},
        sum(i.sum() for i in items),
        functools.reduce(torch.add, items, t),
        sorted([("a", torch.ones(3)), ("b", torch.ones(2))], key=lambda p: p[1].shape[0]),
    )


def loops(t, items):
    for i, (a, b) in enumerate(zip(items, items[1:])):
        t = t + i * a * b
    else:
        t = t - 1
    while items:
        t = t + items.pop()
    tree = collections.defaultdict(lambda: collections.defaultdict(int))
    tree["a"]["b"] += 1
    return t, tree["a"]["b"], [y for i in range(4) if (y := i * 2) > 2], list(zip(*[(1, 2), (3, 4)])), [*itertools.chain(*[[1], [2]])]


def dunder_calls(t):
    return (
        (5).__add__(3),
        [1].__len__(),
        (1, 2).__getitem__(0),
        {1: 2}.__contains__(1),
        (3).__lt__("a") is NotImplemented,
        [].__class__,
        list.__mro__,
    )


def bytes_and_ints(t):
    return (
        b"abc".hex(),
        b"a,b".split(b","),
        int.from_bytes(b"\x01\x00", "big"),
        (258).to_bytes(2, "big"),
        (5).bit_length(),
        (2.0).is_integer(),
        float.fromhex("0x1p3"),
        1j * 2,
    )


def type_calls(t):
    return type("a")("b"), type([])((1, 2)), type({})(a=1), (int if t.dim() == 1 else str)("5")


def best(t, d):
    return max(d, key=d.get), max(d.items(), key=operator.itemgetter(1)), min(d.values()), next((k for k in d if d[k] > 1), None)


SHARED = [1]
CASES = [
    (enum_keys, {Opt.A: 2, Opt.B: 3}),
    (type_keys, {int: 2, str: 3}),
    (alias, SHARED, SHARED),
    (alias, [1], [1]),
    (count_calls,),
    (shapes,),
    (key_error, {}),
    (mutate_object, object_with_state()),
    (counter, collections.Counter("aab")),
    (overridden, Odd([1])),
    (subclasses,),
    (outputs,),
    (output_argument, Output(a=1, b=2)),
    (slots, Slots()),
    (generated,),
    (cycles, {}),
    (return_value,),
    (in_handlers, [1]),
    (closures,),
    (partials,),
    (user_equality, Compared(1), Compared(1)),
    *((which_operand, Told(), other) for other in (Told(), ToldChild(), ToldOtherwise(), ToldAlike())),
    (of_tensors, [x, x]),
    (loops, [1, 2, 3]),
    (dunder_calls,),
    (bytes_and_ints,),
    (type_calls,),
    (best, {"a": 1, "b": 2}),
    (lambda t, r: [t * i for i in r], range(3)),
    (lambda t, s: t[s], slice(0, 2)),
    (lambda t, s: (t, s), {1, 2}),
    (lambda t, s: t * (2 in s), frozenset({2})),
    (lambda t, p: (p._replace(a=t), p.a + t, p + (1,)), Pair(1, 2)),
    (lambda t, g: g([t, 1]), operator.itemgetter(0, 1)),
    (lambda t, n: t if n is None else n, None),
    (lambda t, n: (n + 1, n * n), True),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{case[0].__name__.strip('<>')}-{i}" for i, case in enumerate(CASES)])
def test_program(case):
    program, *args = case
    agree(program, x, *args)


def test_iterators_from_outside():
    """They are passed through, and stepped where their next item can be seen without stepping."""
    compiled = framejit.compile(lambda t, i: (t + 1, i), backend="eager", fullgraph=True)
    iterator = iter([1])
    assert compiled(x, iterator)[1] is iterator
    assert framejit.compile(lambda t, i: (t + 1, next(i)), backend="eager", fullgraph=True)(x, iterator)[1] == 1
    assert list(iterator) == []
    unordered = iter({1})
    with pytest.raises(framejit.Unsupported):
        framejit.compile(lambda t, i: (t + 1, next(i)), backend="eager", fullgraph=True)(x, unordered)
    assert list(unordered) == [1]


def test_a_mapping_proxy_made_by_the_trace():
    agree(lambda t, d: types.MappingProxyType(d)["a"] * t, x, {"a": 2})


@pytest.mark.parametrize("value", [2, 3])
def test_mapping_proxies_compare_as_their_mappings(value):
    a, b = types.MappingProxyType({1: 2}), types.MappingProxyType({1: value})

    def f(t):
        one, other = types.MappingProxyType({1: 2}), types.MappingProxyType({1: 2})
        made = one == other, one != other, one == {1: 2}, {1: 2} == one, one == 3
        return t + 1, made, a == b, a != b, a == a, a == {1: 2}, {1: 2} == b

    agree(f, x)
