"""Generators: send, throw, close, delegation, cycles, what they hold over a break, `finally` blocks; their attributes; iterators of `itertools`."""

from __future__ import annotations

from differential.family import Family

PRELUDE = '''
import itertools


def talk(t, k):
    got = yield t
    for i in range(k % 5):
        LOG.append(("got", str(got)[:5]))
        got = yield t + i
    return k


def guarded(t, k):
    try:
        while k < 6:
            k += 1
            try:
                t = (yield t * k) or t
            except ValueError as error:
                LOG.append(("guarded", repr(error), repr(error.__context__)))
                t = t - 1
            else:
                t = t + 1
    except GeneratorExit:
        LOG.append("exit")
        raise
    except KeyError:
        return "key"
    finally:
        LOG.append(("finally", k))


def loudly(t, k):
    with Manager(k, quiet=False):
        yield t
        yield opaque(k)
    yield t.sum().item()


def outer(t, k):
    try:
        result = yield from guarded(t, k)
        LOG.append(("result", result))
        yield from talk(t, 2)
        yield from Steps(2)
    except LookupError as error:
        print("outer", error)
        yield t
    return t


def cyclic(t, k):
    me = yield
    for i in range(k % 4):
        yield t + i if me is not None else t
    LOG.append("cyclic ends")


def stubborn(t, k):
    for i in range(3):
        try:
            yield t
        except GeneratorExit:
            print("stubborn")
            if k % 2:
                yield t
            raise


def stops(t, k):
    yield t
    if k % 2:
        raise StopIteration(k)
    raise ValueError(k)


def tree(t, k):
    if k > 0:
        yield from tree(t + 1, k - 1)
        yield t
        yield from tree(t * 2, k - 2)


class Delegate:
    def __init__(self, t, k):
        self.t, self.k = t, k

    def __iter__(self):
        return self

    def __next__(self):
        self.k -= 1
        if self.k < 0:
            raise StopIteration("delegate")
        return self.t

    def send(self, value):
        LOG.append("delegate send")
        return self.__next__()

    def throw(self, *what):
        LOG.append(("delegate throw", repr(what[0])))
        raise IndexError("thrown") from (what[0] if isinstance(what[0], BaseException) else None)

    def close(self):
        print("delegate close")


def delegating(t, k):
    try:
        result = yield from Delegate(t, k)
    except IndexError as error:
        LOG.append((repr(error), repr(error.__cause__), repr(error.__context__)))
        result = None
    yield t
    return result


@contextlib.contextmanager
def scope(t, k):
    LOG.append("scope")
    try:
        yield t + opaque(k)
    except ValueError:
        LOG.append("scope swallowed")
    finally:
        t.add_(1)
'''

MADE = "{talk;guarded;loudly;outer;stubborn;stops;tree;delegating;cyclic;produce;produce_loudly}"
ARGUMENT = "{n;;None;1, 2;-1;'a';x;n, m;xs}"

FAMILY = Family(
    prelude=PRELUDE,
    variables={"g": "g = talk(x, 2)", "h": "h = guarded(x, 1)"},
    expressions={
        "g": (
            "g", "h", "g", "talk({t}, {i})", "guarded({t}, {i})", "loudly({t}, {i})", "outer({t}, {i})", "stubborn({t}, {i})",
            "stops({t}, {i})", "tree({t}, {i} % 4)", "delegating({t}, {i})", "cyclic({t}, {i})", "(v + {i} for v in xs)",
            "(v for v in {g} if v is not None)", "iter(xs)", "itertools.chain(xs, {g})", "itertools.islice({g}, 2)", "zip({g}, xs)",
            "map(type, {g})", "enumerate({g})", "itertools.tee({g})[0]", "itertools.count({i})", "itertools.accumulate(xs)", "reversed(xs)",
            "itertools.repeat(x, 2)", "itertools.cycle(xs[:1])", "filter(None, [n, x, m] if m else xs)",
            "itertools.chain.from_iterable([[x], {g}])", "itertools.zip_longest({g}, [n])", "itertools.takewhile(lambda v: n, {g})",
            "itertools.starmap(talk, [(x, n)])", "itertools.pairwise([n, m, n])",
        ),
        "i": (
            "1", "len(list(itertools.islice({g}, 3)))", "sum(1 for _ in itertools.islice({g}, 4))", "len([*tree(x, {i} % 4)])",
            "int(next({g}, None) is None)", "len([*itertools.permutations(xs[:3], {0;1;2})])",
            "len([*itertools.product(xs[:2], repeat={i} % 3)])", "(g.gi_frame is None) + 1", "len([*itertools.groupby([n, n, m])])",
            "next(itertools.count({i}))", "sum([*itertools.compress([1, n, m], [n, 0, 1])])", "len(list(outer(x, {i})))",
        ),
        "t": (
            "x", "next(talk({t}, {i}))", "sum(tree({t}, {i} % 3), y)", "next(guarded({t}, {i}))", "[*talk({t}, {i})][-1]",
            "next(stops({t}, 1))", "sum(itertools.accumulate(xs[:3]), y)", "next(v for v in xs)",
        ),
        "c": ("n > m", "next({g}, None) is not None", "any(v is x for v in itertools.islice({g}, 3))", "x is next({g}, None)"),
    },
    breaking={
        "i": ("sum(opaque(i) for i, _ in zip(range(3), {g}))", "len([opaque(1) for _ in itertools.islice({g}, 3)])"),
        "t": ("next(loudly({t}, {i}))", "next(talk({bt}, {i}))", "sum((v * opaque(1) for v in tree(x, 2)), y)"),
        "g": (
            "talk({bt}, {i})", "loudly({t}, {bi})", "outer({bt}, {i})", "(v + opaque(1) for v in {g})",
            "itertools.chain([opaque({i})], {g})", "map(decorated, {g})",
        ),
    },
    statements=(
        "g = {g}", "h = {g}", "g, h = h, g", "LOG.append(tried(lambda: shown(next({g;g;h}))[0]))",
        "LOG.append(tried(lambda: next({g;h}, n)))", "LOG.append(tried(lambda: g.send({None;n;x;g;h})))",
        "LOG.append(tried(lambda: g.throw({ValueError(n);KeyError(m);ValueError;GeneratorExit;StopIteration(n);TypeError('t');"
            "RuntimeError})))",
        "LOG.append(tried(lambda: {g;h}.close()))", "LOG.append(tried(lambda: len(list(itertools.islice(g, 5)))))",
        "LOG.append(tried(lambda: (g.gi_running, g.gi_frame is None, g.gi_code.co_name, g.gi_yieldfrom is None)))",
        "xs[1:2] = itertools.islice({g}, 1)", "LOG.append(tried(lambda: g.__next__()))", "o.g = g", "g = getattr(o, 'g', g)",
        "d['g'] = {g}", "g = d.pop('g', g)", "g = cyclic(x, {i}); next(g); tried(g.send, g)",
        "g = cyclic(x, 2); next(g); LOG.append(tried(g.send, [g, h]) is x)", "del g", "del h", "g = None",
        "xs.extend([v for v in itertools.islice({g}, 2) if isinstance(v, torch.Tensor)])",
        "LOG.append(tried(lambda: shown(itertools.{count;permutations;compress;islice;repeat;cycle;combinations;product;tee;chain;"
            "zip_longest;groupby;accumulate;starmap;takewhile;pairwise}(" + ARGUMENT + "))[0]))",
        "LOG.append(tried(lambda: shown(list(itertools.islice(itertools.{permutations;combinations;product;repeat;zip_longest;"
            "accumulate;combinations_with_replacement;count}([n, m, 3][:{2;3}], {n;2;m;-1;None;'a'}), 4)))))",
        "LOG.append(tried(lambda: shown({zip(xs, [n], strict=True);enumerate(xs, start='a');map(len);filter(3, xs);reversed({{n}});"
            "iter(n, 1);iter(len, 1);zip(n);next(xs);enumerate();range(1, 2, 0);slice();range(1.0)})[0]))",
        "LOG.append([*itertools.islice((n for _ in {g}), 3)])", "g = (lambda q: (v + q for v in xs))({i})",
        "first, *rest = itertools.islice({g}, 1, 4) if n else (1, 2)", "LOG.append(tried(lambda: g is iter(g)))",
        "LOG.append([*map(lambda a, b: a, [n, m], itertools.count())])",
        "x = sum([v for v in itertools.islice({g}, 3) if isinstance(v, torch.Tensor)], x)", "it = {g}",
        "LOG.append(tried(lambda: sum(g, x) is x))",
    ),
    breaking_statements=(
        "g = {bg}", "LOG.append(tried(lambda: (opaque(n), next(g) is None)))", "print(tried(lambda: type(next({g;h})).__name__))",
        "print(tried(lambda: type({g;h}.send({None;n})).__name__))", "print(tried(g.close))", "h = [opaque({i}), g][1]",
        "print(tried(lambda: type(g.throw({ValueError(n);KeyError(m)})).__name__))", "g = cyclic({bt}, {i}); next(g); tried(g.send, g)",
        "LOG.append((opaque(1), [type(v).__name__ for v in itertools.islice(g, {i} % 3)]))", "refuse(len([*itertools.islice(g, 2)]))",
        "x = x + next(g, {bi}) if isinstance(x, torch.Tensor) else x",
    ),
    blocks=(
        "def NEW(t, k):\n    nonlocal n, x\n    try:\n        BLOCK\n        got = yield t\n        BLOCK\n        yield t * k\n"
            "    {finally;except ValueError}:\n        BLOCK\ng = NEW({t}, {i})\nLOG.append(tried(lambda: type(next(g)).__name__))",
        "def NEW(t, k):\n    with {managed(k);Manager(k);Manager(k, False, ValueError);torch.no_grad();"
            "contextlib.suppress(KeyError)}:\n        for v in {g}:\n            got = yield v\n            LOG.append(str(got)[:4])\n"
            "    return k\ng = NEW({t}, {i})",
        "def NEW(t):\n    got = yield from {g}\n    LOG.append(str(got)[:4])\n    yield t\nh = NEW({t})\n"
            "LOG.append(tried(lambda: type(next(h)).__name__))",
        "for v in itertools.islice({g}, {i} % 4):\n    BLOCK\n    if n > 3:\n        break\nelse:\n    BLOCK",
        "try:\n    next({g;h})\n    BLOCK\nexcept StopIteration as error:\n    LOG.append(shown(error.value)[0])\n    BLOCK",
        "with contextlib.closing({g;h;loudly(x, n)}) as q:\n    BLOCK",
        "while next({g;h}, None) is not None and n < 5:\n    n += 1\n    BLOCK",
    ),
    loops=(
        "for v in {tree(x, {i} % 4);talk(x, {i});[*outer(y, {i})]}:", "for i, v in zip(range(3), {g}):",
        "for v in itertools.islice({g}, 3):", "for i in itertools.islice(itertools.count({i}), 3):",
    ),
    managers=("scope(x, {i})", "contextlib.closing({g})", "scope({t}, 2)"),
    handlers=("StopIteration", "(StopIteration, RuntimeError)", "TypeError"),
    seen=("LOG.append(repr(getattr(error, 'value', None))[:9])",),
)  # fmt: skip
