"""Writes random Python programs: typed expressions and statements in nested blocks, with graph breaks at random places."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

PRELUDE = '''\
import contextlib
import functools
import sys
import zlib
from collections import namedtuple

import framejit
import torch

LOG = []
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
        LOG.append(("ended", self.k))


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
"""What every program starts with."""

LOCALS = {
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


@dataclass
class Writer:
    """One program being written: `number`, an integer between two, both included, decides; `lines` is the text so far."""

    number: Callable[[int, int], int]
    lines: list[str] = field(default_factory=list)
    helpers: list[str] = field(default_factory=list)
    """Templates of expressions that call the functions defined before."""
    closures: list[str] = field(default_factory=list)
    left: int = 0
    """Statements that may still be written."""

    def pick(self, choices: Any) -> Any:
        return choices[self.number(0, len(choices) - 1)]

    def chance(self, times: int, of: int) -> bool:
        return self.number(0, of - 1) >= of - times

    def expression(self, kind: str, depth: int = 0) -> str:
        """An expression of a kind: i (a number), t (a tensor of three), c (a condition); a letter b in front makes it one with a break."""
        if kind == "t" and self.helpers and self.chance(1, 4 if depth == 0 else 8):
            template = self.pick(self.helpers)
        else:
            breaking = kind[0] == "b" or (depth == 0 and self.chance(1, 8))
            table = {
                "i": BREAKING_INTS if breaking else INTS,
                "t": BREAKING_TENSORS if breaking else TENSORS,
                "c": BREAKING_CONDITIONS if breaking else CONDITIONS,
            }[kind[-1]]
            template = self.pick(table)
        return self.fill(template, depth + 1)

    def fill(self, template: str, depth: int = 0) -> str:
        """The template with an expression in each of its places."""
        simplest = {"i": "n", "t": "x", "c": "n > m"}
        template = template.replace("{{", "\0").replace("}}", "\1")

        def filled(match: re.Match[str]) -> str:
            text = simplest[match[1][-1]] if depth > 2 else self.expression(match[1], depth)
            tight = re.match(r"[.\[]| [*%]", template[match.end() :]) or template[: match.start()].endswith("* ")
            return f"({text})" if tight and re.search(r"^-| (?![^(]*\)$)", text) else text

        return re.sub(r"\{(b?[itc])\}", filled, template).translate({0: "{", 1: "}"})

    def put(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def block(self, indent: int, loop: bool, depth: int, most: int = 3, inside: str = "function") -> None:
        """One or more statements; a block of one statement at least."""
        for _ in range(self.number(1, most)):
            self.statement(indent, loop, depth, inside)

    def statement(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        self.left -= 1
        compound = depth < 3 and self.left > 0
        kinds = ["simple", "simple", "break", "break"]
        kinds += ["if", "for", "with", "try", "while", "def", "class", "match", "for", "with", "try", "group"] if compound else []
        kinds += ["leave"] if loop else []
        kinds += ["return", "raise"] if depth else []
        kinds += ["yield"] if inside == "generator" else []
        kinds += ["closure"] if self.closures else []
        getattr(self, f"write_{self.pick(kinds)}")(indent, loop, depth, inside)

    def write_simple(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        self.put(indent, self.fill(self.pick(SIMPLE)))

    def write_break(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        self.put(indent, self.fill(self.pick(BREAKING)))

    def write_leave(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        self.put(indent, f"if {self.expression('c')}:")
        self.put(indent + 1, self.pick(("break", "continue")))

    def write_return(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        self.put(indent, "return" if inside == "generator" else f"return {self.expression('t')}")

    def write_raise(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        self.put(indent, f"raise {self.fill(self.pick(ERRORS))}" + self.pick(("", "", "", " from None", " from TypeError(n)")))

    def write_yield(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        self.put(indent, f"yield {self.expression('t')}")

    def write_closure(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        self.put(indent, f"{self.pick(('x', 'y'))} = {self.pick(self.closures)}({self.expression('t')})")

    def write_if(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        self.put(indent, f"if {self.expression('c')}:")
        self.block(indent + 1, loop, depth + 1, inside=inside)
        if self.chance(1, 2):
            self.put(indent, "else:")
            self.block(indent + 1, loop, depth + 1, inside=inside)

    def write_for(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        head = self.fill(self.pick(LOOPS))
        self.put(indent, head)
        if re.search(r"\bv\b", head.split(" in ")[0]) and self.chance(1, 2):
            self.put(indent + 1, "y = y + v")
        self.block(indent + 1, True, depth + 1, inside=inside)
        if self.chance(1, 4):
            self.put(indent, "else:")
            self.block(indent + 1, loop, depth + 1, 1, inside=inside)

    def write_while(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        counter = f"w{len(self.lines)}"
        self.put(indent, f"{counter} = 0")
        self.put(indent, f"while {counter} < 3 and ({self.expression('c')}):")
        self.put(indent + 1, f"{counter} += 1")
        self.block(indent + 1, True, depth + 1, inside=inside)
        if self.chance(1, 4):
            self.put(indent, "else:")
            self.block(indent + 1, loop, depth + 1, 1, inside=inside)

    def write_with(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        manager = self.fill(self.pick(MANAGERS))
        if self.chance(1, 5):
            manager += f", {self.fill(self.pick(MANAGERS))}"
        elif "torch" not in manager and self.chance(1, 3):
            manager += " as got"
        self.put(indent, f"with {manager}:")
        self.block(indent + 1, loop, depth + 1, inside=inside)

    def write_try(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        self.put(indent, "try:")
        self.block(indent + 1, loop, depth + 1, inside=inside)
        handlers = self.number(0, 2)
        for handler in [self.pick(HANDLERS) for _ in range(handlers)]:
            named = self.chance(1, 2)
            self.put(indent, f"except {handler}{' as error' if named else ''}:")
            if named:
                self.put(indent + 1, self.pick(SEEN))
            self.block(indent + 1, loop, depth + 1, 2, inside=inside)
            if self.chance(1, 4):
                self.put(indent + 1, "raise")
        if handlers and self.chance(1, 4):
            self.put(indent, "else:")
            self.block(indent + 1, loop, depth + 1, 1, inside=inside)
        if not handlers or self.chance(1, 3):
            self.put(indent, "finally:")
            self.block(indent + 1, False, depth + 1, 2, inside=inside)

    def write_group(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        self.put(indent, "try:")
        if self.chance(2, 3):
            self.put(indent + 1, self.fill("raise ExceptionGroup('g', [ValueError({i}), ExceptionGroup('h', [KeyError(n), ValueError(m)])])"))
        else:
            self.block(indent + 1, loop, depth + 1, inside=inside)
        for handler in ("ValueError", "LookupError", "Exception")[self.number(0, 1) : self.number(2, 3)]:
            self.put(indent, f"except* {handler} as error:")
            self.put(indent + 1, self.pick(SEEN_OF_GROUPS))

    def write_class(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        name = f"Local{len(self.lines)}"
        self.put(indent, f"class {name}(Thing):")
        self.put(indent + 1, f"made = {self.expression('i')}")
        self.put(indent + 1, "def step(self, t, k=1):")
        self.put(indent + 2, self.pick(("print('local', k)", "k += opaque(k)", "LOG.append(k)")))
        self.put(indent + 2, f"return super().step(t, {self.pick(('k', 'n', 'self.made'))})")
        self.put(indent, f"x = {name}({self.expression('t')}, {self.expression('i')}).step(x)")

    def write_match(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        self.put(indent, f"match {self.pick(('n', '(n, m)', 'opaque(n)', 'o', 'd', 'Pair(x, n)'))}:")
        for pattern in ("1 | 2", "(1, m)", "Loud(n=n)", "{'b': y}", "Pair(y, n) if n > opaque(n)"):
            if self.chance(1, 2):
                self.put(indent + 1, f"case {pattern}:")
                self.block(indent + 2, loop, depth + 1, 1, inside=inside)
        self.put(indent + 1, "case _:")
        self.block(indent + 2, loop, depth + 1, 1, inside=inside)

    def write_def(self, indent: int, loop: bool, depth: int, inside: str) -> None:
        name = f"inner{len(self.lines)}"
        self.put(indent, f"def {name}(z, k={self.expression('i', 2)}):")
        self.put(indent + 1, "nonlocal n, x")
        outer, self.closures = self.closures, []
        self.put(indent + 1, self.pick(("n = n + 1", "x = x + z", "print('inner', n)", "LOG.append(n)")))
        self.block(indent + 1, False, 3, 2)
        self.put(indent + 1, self.pick(("return z * n", "return z + x", "return z + k")))
        self.closures = outer
        self.put(indent, f"{self.pick(('x', 'y'))} = {name}({self.expression('t')})")
        if depth == 0:
            self.closures.append(name)

    def function(self, name: str, parameters: str, size: int, generator: bool = False) -> None:
        """A function with a body; starts with what the body uses and the parameters do not bring."""
        self.put(0, "")
        self.put(0, "")
        self.put(0, f"def {name}({parameters}):")
        start = len(self.lines)
        self.closures = []
        self.left = size
        for _ in range(self.number(1, size)):
            self.statement(1, False, 0, "generator" if generator else "function")
            if self.left <= 0:
                break
        self.put(1, "yield x" if generator else self.pick(("return x", "return x + y", "return x * n", "return x + m")))
        body = "\n".join(self.lines[start:])
        given = re.findall(r"\w+", re.sub(r"=\s*[^,]+", "", parameters))
        used = [text for local, text in LOCALS.items() if local not in given and re.search(rf"\b{local}\b", body)]
        if "nonlocal n" in body and "n" not in given and LOCALS["n"] not in used:
            used.append(LOCALS["n"])
        head = [f"    {text}" for text in used]
        if re.search(r"\bCOUNT = ", body):
            head.insert(0, "    global COUNT")
        for at in range(start, len(self.lines)):
            if self.lines[at].endswith("nonlocal n, x"):
                scope = _scope(self.lines, at)
                extra = "".join(f", {local}" for local in ("y", "m", "xs", "d", "o", "it") if any(_binds(line, local) for line in scope))
                self.lines[at] += extra
                if any("COUNT = " in line for line in scope):
                    self.lines[at] = self.lines[at] + "\n" + self.lines[at].split("nonlocal")[0] + "global COUNT"
        self.lines[start:start] = head


def _scope(lines: list[str], at: int) -> list[str]:
    """The lines of the inner function whose `nonlocal` stands at `at`."""
    indent = len(lines[at]) - len(lines[at].lstrip())
    scope = []
    for line in lines[at + 1 :]:
        if len(line) - len(line.lstrip()) < indent:
            break
        scope.append(line)
    return scope


def _binds(line: str, name: str) -> bool:
    """Whether the line assigns to the name as a variable of the function."""
    text = line.strip()
    return bool(
        re.match(rf"(\w+, )*{name}(, \*?\w+)* (=|\+=|\*=|-=) |{name} = |(\w+ = )+{name} = ", text)
        or re.search(rf"\({name} := ", text)
        or re.match(rf"for (\w+, )*{name}\b", text)
    )


SIGNATURES = (
    ("x", "{f}({t})"),
    ("x, n=1", "{f}({t}, {i})"),
    ("x, n=1, *, y=None", "{f}({t}, n={i}, y={t})"),
    ("x, *rest, n=2", "{f}({t}, {i}, x, n={i})"),
    ("x, n, **more", "{f}(n={i}, x={t}, other=y)"),
    ("x, y, n, xs", "{f}(*[x, {t}], **{{'n': {i}, 'xs': xs}})"),
    ("o, x, d", "{f}(o, {t}, d)"),
)


def program(number: Callable[[int, int], int], size: int = 5) -> str:
    """The source text of a module whose function `main(x, y, n, xs, d, o)` is to be compiled."""
    writer = Writer(number)
    for helper in range(number(0, 3)):
        parameters, template = writer.pick(SIGNATURES)
        generator = writer.chance(1, 7)
        name = f"{'generate' if generator else 'helper'}{helper}"
        writer.function(name, parameters, max(2, size - 2), generator)
        call = template.replace("{f}", name)
        writer.helpers.append(f"sum({call}, y)" if generator else call)
    writer.function("main", "x, y, n, xs, d, o", size)
    return PRELUDE + "\n".join(writer.lines).replace("y=None):", "y=SCALE):") + "\n"


@st.composite
def programs(draw: Callable[[Any], Any], size: int = 5) -> str:
    """Programs that shrink to small ones."""
    return program(lambda low, high: draw(st.integers(low, high)), size)
