"""The prelude of every random program, and the statements and expressions that all random programs are made of."""

from __future__ import annotations

from differential.family import Family

PRELUDE = '''\
import contextlib
import functools
import sys
import zlib
from collections import namedtuple

import framejit
import torch

LOG = []
ENDED = []
COUNT = 0
SCALE = torch.tensor([0.5, 1.0, 2.0])


class Thing:
    def __init__(self, a, n):
        self.a = a
        self.n = n

    def step(self, t, k=1):
        self.n = (self.n + k) % 7
        return t + self.n


class Loud(Thing):
    def step(self, t, k=2):
        print("step", k)
        result = super().step(t, k)
        LOG.append(("step", self.n))
        return result


class Manager:
    def __init__(self, tag, quiet=True, hides=()):
        self.tag, self.quiet, self.hides = tag, quiet, hides

    def say(self, what):
        LOG.append((what, self.tag))
        if not self.quiet:
            print(what, self.tag)

    def __enter__(self):
        self.say("enter")
        return self.tag

    def __exit__(self, kind, value, traceback):
        self.say("exit" if kind is None else kind.__name__)
        return kind is not None and issubclass(kind, self.hides)


@contextlib.contextmanager
def managed(tag, quiet=True):
    LOG.append(("in", tag))
    if not quiet:
        print("in", tag)
    try:
        yield tag + 1
    except KeyError:
        LOG.append(("caught", tag))
        raise
    finally:
        LOG.append(("out", tag))
        if not quiet:
            print("out", tag)


@framejit.disable
def opaque(k):
    LOG.append(("opaque", k))
    return (k * 3 + 1) % 5


@framejit.disable
def refuse(k):
    if k % 2:
        raise ValueError("refused", k)
    return k


def tried(function, *args, **kwargs):
    try:
        return function(*args, **kwargs)
    except (framejit.InternalError, RecursionError):
        raise
    except Exception as error:
        return type(error).__name__, str(error).partition(" at 0x")[0]


def shown(value):
    return type(value).__name__, repr(value).partition(" at 0x")[0]


def again(k):
    if k % 3 == 0:
        raise
    LOG.append(repr(sys.exception()))
    return k


class Box:
    def __init__(self, items):
        self.items = items

    def __len__(self):
        print("len")
        return len(self.items)

    def __iter__(self):
        for item in self.items:
            LOG.append("item")
            yield item

    def __getitem__(self, index):
        LOG.append(("getitem", opaque(1)))
        return self.items[index]

    def __add__(self, other):
        print("add")
        return self.items[0] + other

    def __contains__(self, item):
        return opaque(item) > 1

    def __bool__(self):
        return self.items[0].sum() > 0

    @property
    def first(self):
        print("first")
        return self.items[0]

    def __getattr__(self, name):
        if name == "lazy":
            return self.items[0] * opaque(1)
        raise AttributeError(name)


class Steps:
    def __init__(self, last):
        self.i, self.last = 0, last

    def __iter__(self):
        return self

    def __next__(self):
        self.i += 1
        if self.i > self.last:
            print("stop")
            raise StopIteration
        return opaque(self.i)


class Ending:
    def __init__(self, k):
        self.k = k

    def __del__(self):
        ENDED.append(f"ending {self.k}")


Pair = namedtuple("Pair", "left right")


def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        LOG.append(function.__name__)
        try:
            return function(*args, **kwargs)
        finally:
            print("left", function.__name__)

    return wrapper


@logged
def decorated(t, k=1):
    return t + opaque(k)


def recurse(t, k):
    if k <= 0:
        return t
    print("depth", k)
    return recurse(t + 1, k - 1) * 2 + k


layer = torch.nn.Linear(3, 3)
with torch.no_grad():
    layer.weight.copy_(torch.arange(9.0).reshape(3, 3) / 8 - 0.5)
    layer.bias.zero_()
layer.register_forward_hook(lambda module, args, output: print("hook", output.shape))


def produce(t, k):
    for i in range(k % 4):
        yield t + i


def stirred(t, k):
    for i in range(k % 4):
        yield t
        t.add_(1)
        LOG.append(("stirred", i))


def produce_loudly(t, k):
    try:
        for i in range(k % 4):
            print("produce", i)
            yield t * i
    finally:
        LOG.append(("produced", k))
'''
VARIABLES = {
    "y": "y = x * 0.5",
    "m": "m = 1",
    "it": "it = iter([1, 2, 3])",
    "xs": "xs = [x, x + 1]",
    "d": "d = {'a': x}",
    "o": "o = Thing(x, 1)",
    "n": "n = 2",
}
"""How a helper starts the variables that it uses and that are not its parameters."""

INTS = (
    "n", "m", "1", "3", "n + 1", "m - n", "n * m % 7", "len(xs)", "len(d)", "o.n", "COUNT", "n // 2", "-m", "n % 3",
    "sum(i for i in range(m % 4))", "max(n, m)", "len([v for v in xs if v is not x])", "abs(m - 3) % 5", "min(len(xs), n)", "int(n > m)",
    "again({i})", "len(repr(sys.exception())) % 5",
)  # fmt: skip
BREAKING_INTS = (
    "opaque({i})", "zlib.crc32(b'%d' % ({i})) % 5", "int(x.sum().item()) % 5", "int({t}.max()) % 3", "refuse({i})",
    "(n if {t}.sum() > {i} else m)", "len(str(x.tolist())) % 7", "(y.sum() > 1 and {i} or 2)", "sum(opaque(i) for i in range(2))",
    "[opaque(v) for v in (n, m)][-1]", "len(Box(xs))", "sum(Steps({i} % 4))",
    "functools.reduce(lambda a, b: a + opaque(b), range({i} % 4), 1)", "functools.partial(opaque, {i})()", "next(Steps({i}), 5)",
    "sum({{opaque(v) for v in (n, m)}})", "max(range(1, 4), key=lambda v: opaque(v + n))", "int({i} in Box(xs))",
    "sum(a * opaque(b) for a, b in zip((1, 2), (n, m)))", "len([a for a in range(3) for b in range(a) if opaque(a + b) > {i}])",
    "Pair(opaque(n), {i}).left", "sys._getframe().f_lineno % 5", "len(sys._getframe().f_code.co_varnames[:2])",
    "(n < opaque(n) < 4) + 1", "(lambda k: opaque(k) + 1)({i})", "len(repr(y)) % 5", "(m := opaque({i}))", "int({c})",
)  # fmt: skip
TENSORS = (
    "x", "y", "x + y", "x * n", "y - 1", "torch.sin(x)", "xs[-1]", "xs[n % 2]", "d['a']", "d.get('b', y)", "o.a", "SCALE * y", "x.relu()",
    "torch.where(x > 0, x, y)", "torch.stack(xs).sum(0)", "sum([v * 2 for v in xs], x)", "-x", "x.clamp(-2, {i})", "x.clone()",
    "(x, y)[n % 2]",
    "torch.stack([v + i for i, v in enumerate(xs)]).mean(0)", "o.step(x)", "o.step({t}, k={i})", "({t} + {t})", "({t} * {i})", "x[:1] + y",
    "{{k: v * 2 for k, v in d.items()}}['a']", "max([x, y], key=lambda v: n)", "getattr(o, 'a')", "torch.cat([x, y])[:3]",
    "sum(stirred(x, {i}), y)", "sum(stirred({t}.clone(), 3), {t})", "functools.reduce(lambda a, b: a + b * 2, stirred(y, 3), x)",
    "max(stirred(x, 2), key=lambda v: LOG.append('key') or n, default=y)", "[*stirred(x, 2), y][0]",
)  # fmt: skip
BREAKING_TENSORS = (
    "({t} if {t}.sum() > {i} else {t})", "x * x.sum().item()", "y + opaque({i})", "torch.tensor(x.tolist())", "(x + opaque({i}) * y)",
    "torch.stack([v * opaque(1) for v in xs]).sum(0)", "{t}.clone().add_(opaque(n))", "sum((v for v in produce_loudly(x, {i})), y)",
    "list(produce(x, 3))[opaque({i}) % 2]", "torch.stack([x, {t} + opaque(2)])[opaque(1) % 2]", "x[x > 0].sum() * y", "Box([{t}]) + y",
    "Box(xs)[n % 2]", "Box([{t}]).first", "Box(xs).lazy", "({t} if Box([{t}]) else y)",
    "decorated({t}, k={i})", "recurse({t}, {i} % 3)", "layer(x).detach()", "torch.stack([*Box(xs)]).sum(0)",
    "sum(map(decorated, xs[:2]), y)",
    "sum((v * opaque(i) for i, v in enumerate(Box(xs))), x)", "sum([a * b for a, b in zip(xs, Steps(2))], y)",
    "Pair(x, {t}).right * opaque(1)",
    "functools.reduce(lambda a, b: decorated(a) + b, xs[:3])", "(lambda *a, **k: a[0] * k['k'])({t}, k=opaque(n))",
    "next(iter([v for v in xs if v.sum() > 0]), y)", "o.step(x * opaque(n), k=opaque(m))", "{{'k': {t}, 'o': opaque(n)}}['k']",
)  # fmt: skip
CONDITIONS = (
    "n > m", "n % 2 == 0", "len(xs) > 2", "m", "isinstance(o, Loud)", "'b' in d", "0 <= n < 3", "n > 1 and m < 3", "not (m > 2)",
    "x is y", "xs",
)  # fmt: skip
BREAKING_CONDITIONS = (
    "{t}.sum() > {i}", "x.max() > y.max()", "{t}.sum() > 0 and n > 1", "n > 1 or {t}.sum() < 1", "not ({t}.min() < 0)", "opaque({i}) > 1",
    "bool((x > 0).all())", "x.sum() > 0 and y.sum() > 0 or m > 1", "any(v.sum() > 2 for v in xs)", "0 < y.sum() < 4",
)  # fmt: skip
ERRORS = ("ValueError('v', {i})", "KeyError({i})", "RuntimeError(f'r{{n}}')", "IndexError")
HANDLERS = ("ValueError", "KeyError", "(ValueError, KeyError)", "Exception", "LookupError", "RuntimeError")
SEEN = (
    "LOG.append(error.args)", "print(type(error).__name__)", "n += len(error.args)", "LOG.append(repr(error.__context__))", "LOG.append(error)",
    "LOG.append((repr(error.__cause__), error.__suppress_context__))", "error.add_note('seen')", "LOG.append(error is sys.exception())",
)  # fmt: skip
"""What a handler does with the exception that it names."""
SEEN_OF_GROUPS = (
    "LOG.append((repr(error), repr(sys.exception())))", "print(repr(error.__context__))", "raise", "raise IndexError(n) from error", "n = again(n)",
    "LOG.append([repr(each) for each in error.exceptions])",
)  # fmt: skip
MANAGERS = (
    "Manager({i})", "Manager(1, quiet=False)", "managed(n)", "managed(2, quiet=False)", "torch.no_grad()",
    "Manager(3, hides=(ValueError, KeyError))",
    "Manager(4, False, ValueError)", "contextlib.nullcontext({i})", "contextlib.suppress(KeyError)", "torch.enable_grad()",
    "contextlib.ExitStack()", "Manager(opaque(n))",
)  # fmt: skip
LOOPS = (
    "for i in range({i} % 4):", "for v in xs[:3]:", "for i, v in enumerate(xs[:3]):", "for v, i in zip(xs[:2], (n, m)):",
    "for v in produce(x, {i}):",
    "for v in produce_loudly(y, 2):", "for k, v in list(d.items()):", "for i in x.tolist():", "for i in (n, m, opaque(n)):", "for v in x:",
    "for i in reversed(range(3)):", "for i in [opaque(1), opaque(n)]:", "for v in map(torch.sin, xs[:2]):",
    "for i in sorted((n, m, 2)):", "for i in Steps({i} % 4):",
    "for v in Box(xs[:3]):", "for i, v in zip(Steps(2), xs):", "for i in it:", "for i in (opaque(v) for v in range(2)):",
    "for v in [decorated(v) for v in xs[:2]]:",
)  # fmt: skip
SIMPLE = (
    "n = {i}", "m = {i}", "x = {t}", "y = {t}", "n += 1", "m = (m + {i}) % 9", "x = x + {t}", "y *= 0.5", "xs.append({t})", "xs[0] = {t}",
    "d['b'] = {t}", "d[{i}] = x", "o.a = {t}", "o.n = {i}", "o.extra = n", "COUNT = (COUNT + {i}) % 11", "LOG.append({i})", "x, y = y, {t}",
    "x.add_(1)", "o.a.mul_(0.5)", "xs = [v * 2 for v in xs[:4]]", "d = {{k: v + 1 for k, v in d.items()}}", "d.pop('b', None)", "xs.pop()",
    "LOG.append(f'{{n}} {{m:>3}} {{len(xs)}}')", "n, *_ = [m, n, 3]", "y = torch.stack([v for v in xs if n > 0] or [x]).sum(0)",
    "del xs[0]",
    "LOG.append(repr(sys.exception()))", "LOG.append([repr(each) for each in sys.exc_info()[:2]])", "n = again({i})",
    "x[0] = {i}", "m = n = {i}", "(lambda z: LOG.append(z))({i})", "import math; n = math.gcd({i}, 6)", "xs += [y]", "o.a += x", "del o.a",
)  # fmt: skip
BREAKING = (
    "print('p', n)", "opaque({i})", "n = {bi}", "x = {bt}", "y = {bt}", "print({i}, {i}, sep='-')", "xs.append({bt})", "d['c'] = {bt}",
    "print('t', {t}.sum().item())", "xs[{bi} % 2] = {t}", "o.n = {bi}", "o.a = {bt}", "x = x + {bt}", "n += {bi}",
    "x[opaque(n) % 3] = {t}[0]",
    "print(f'{{x.sum().item():.3f}} {{n}}')", "assert {bc}, 'a'", "print(*[v.sum().item() for v in xs[:2]])", "x, y = {bt}, {t}",
    "refuse({i})",
    "it = iter(xs)", "it = produce(x, 3)", "it = enumerate(xs)", "it = zip(xs, Steps(3))", "x = x + sum([1 for _ in it])",
    "n = len(str(next(it, None) is None))",
    "LOG.append(str(type(next(it, 3)).__name__))", "it = produce_loudly(x, 3)", "LOG.append(repr(sys.exc_info()[1]))",
    "raise_late = lambda k: refuse(k)", "it = None", "it = next(it, None)", "it = map(torch.sin, produce_loudly(x, 3))",
    "it = enumerate(produce_loudly(y, {i} % 4))", "it = iter([produce_loudly(x, 2), n, Ending({i})])", "it = iter((Ending(n), xs))",
    "it = Ending({i})", "print(str(type(next(next(it, it), 3)).__name__))",
    "LOG.append((n, {bi}, m))", "COUNT = {bi}", "LOG.append([x.mean().item(), *[opaque(i) for i in range(2)]])",
    "xs = [v * {bi} for v in xs[:3]]",
    "d = {{k: v * {bi} for k, v in d.items()}}", "print(n, end=f'{{m}};')", "del xs[opaque(n) % 2]",
    "LOG.append(sorted(xs, key=lambda v: v.sum().item())[0])",
)  # fmt: skip

BASICS = Family(
    prelude=PRELUDE,
    variables=VARIABLES,
    expressions={"i": INTS, "t": TENSORS, "c": CONDITIONS, "e": ERRORS},
    breaking={"i": BREAKING_INTS, "t": BREAKING_TENSORS, "c": BREAKING_CONDITIONS},
    statements=SIMPLE,
    breaking_statements=BREAKING,
    loops=LOOPS,
    managers=MANAGERS,
    handlers=HANDLERS,
    seen=SEEN,
)
