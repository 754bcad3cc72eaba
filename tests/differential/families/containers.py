"""Containers that change while something goes over them: iteration, sort with keys that change things, deques, slices, arguments that are refused."""

from __future__ import annotations

from differential.family import Family

PRELUDE = '''
import bisect
import heapq
from collections import deque


class Rows(list):
    def __getitem__(self, index):
        LOG.append(("row", repr(index)))
        return super().__getitem__(index)

    def append(self, item):
        super().append(item)
        LOG.append(len(self))

    def __len__(self):
        return list.__len__(self) + 0


class Sequence:
    def __init__(self, items):
        self.items = items

    def __getitem__(self, index):
        if index > 5:
            raise IndexError
        return self.items[index]

    def __length_hint__(self):
        LOG.append("hint")
        return opaque(1)


class Orderly:
    def __init__(self, k, rows=None):
        self.k, self.rows = k, rows

    def __lt__(self, other):
        if self.rows is not None:
            self.rows.append(self.k)
        return self.k < other.k

    def __repr__(self):
        return f"Orderly({self.k})"


def changing(rows, value):
    if len(rows) < 8:
        rows.append(value)
    return -value


def shrinking(rows, value):
    if rows:
        rows.pop()
    return opaque(value)


class Shared:
    rows = [1, 2, 3]
'''

FAMILY = Family(
    prelude=PRELUDE,
    variables={"r": "r = [3, 1, 2]", "q": "q = deque([1, 2, 3], 4)", "s": "s = {1, 2, 3}", "u": "u = {3: 'c', 1: 'a'}"},
    expressions={
        "r": (
            "r", "[n, m, 3]", "[*r, {i}]", "list(q)", "sorted(s)", "r[::-1]", "Rows([n, 2, m])", "[3, 1, n, 2, m]", "r[:]", "Shared.rows",
            "list(u)", "[each for each in r]", "q", "(n, m, 2)", "r + [n]", "r * 2", "range({i} % 5)", "s", "u", "''.join(map(str, r))",
            "deque(r, 3)", "[]", "Sequence([n, m, 1, 2, 3, 4])", "[1.5, n, True]", "['b', 'a']", "[[n], [m, 1], [n]]", "reversed(r)",
            "iter(r)", "u.values()", "u.items()", "frozenset(r)",
        ),
        "z": (
            "1", "{i}", "-1", "n", "{n;m;}:{;n;2;-1}", "::{2;-1;n;0}", "True", "None", "99", "slice(n, None)", "-99:99", "1.5", "'a'",
            "...",
        ),
        "i": (
            "1", "len(list({r}))", "sum(r[:3])", "max(r, default={i})", "len({r;q;s;u})", "r[{n;0;-1}]", "q[{0;-1;n}]", "sorted(r)[0]",
            "min([n, *r])", "sum(1 for _ in {r})", "r.count({i})", "len(s | {{{i}}})", "bisect.bisect(sorted(r), {i})", "len(u)",
        ),
        "t": (
            "x", "sum([x * i for i in r[:3]], y)", "[x, y][r[0] % 2] if r else x", "torch.tensor(sorted([1.0, n, 2.0])) + x",
            "x[{0;-1;:2}].sum() * y", "torch.stack([x, y])[:, {0;1;-1}].sum() + y", "sorted([y, x], key=lambda v: n)[0]",
        ),
        "c": (
            "n > m", "{i} in r", "{i} in q", "{i} in s", "r == list(q)", "r is Shared.rows", "s <= {{1, 2, 3, n}}", "sorted(r) == [*s]",
            "r < [n]", "q == deque(r)",
        ),
    },
    breaking={
        "r": ("[opaque({i}), 2, n]", "[opaque(v) for v in r[:3]]", "deque([opaque(1)])", "Sequence([opaque(1)] * 6)"),
        "i": ("max(r, key=lambda v: shrinking([1], v), default=n)", "sum(opaque(v) for v in r[:4])"),
    },
    statements=(
        "r = list({r})", "r = {r}", "r = [3, n, 1, m, 2]", "q = deque({r}, {4;None;n;2})", "s = set(r)", "u = dict.fromkeys(r, n)",
        "LOG.append(tried(lambda: shown(r[{z}])))", "LOG.append(tried(lambda: shown({r}[{z}])))",
        "LOG.append(tried(lambda: shown(list({r}))))", "LOG.append(shown(r))", "LOG.append(shown(q))", "LOG.append(sorted(s, key=repr))",
        "LOG.append([*u.items()])",
        "LOG.append(tried(lambda: r.sort(key=lambda v: {changing(r, v);shrinking(r, v);r.clear() or 1;len(r);-v;LOG.append(list(r)) "
            "or v;n / 0})))",
        "LOG.append(tried(lambda: sorted({r}, key={None;repr;lambda v: changing(Shared.rows, n);len;3})))",
        "LOG.append(tried(lambda: shown(sorted([Orderly(n, r), Orderly(m, r), Orderly(2, r)], reverse={n > 1;True;False}))))",
        "LOG.append(tried(lambda: r.sort(reverse={n;True;'a';None})))", "LOG.append(tried(lambda: r.sort()))", "r[:] = {r}", "r[{z}] = [n]",
        "del r[{z}]", "LOG.append(tried(lambda: r.__setitem__(slice({n;0;None}, {2;n;None}, {1;2;-1;None}), {r})))",
        "LOG.append(tried(lambda: r.{append;extend;remove;index;count;insert;pop}({i})))",
        "LOG.append(tried(lambda: r.insert({-1;n;99}, {i})))", "LOG.append(tried(lambda: r.{pop;clear;reverse;copy}()))",
        "LOG.append(tried(lambda: q.{append;appendleft;extend;extendleft;rotate;remove;index;count}({i})))",
        "LOG.append(tried(lambda: q.{pop;popleft;clear;reverse;copy}()))", "q.extendleft([n, m, 5])", "q.extend([n, m, 5])",
        "LOG.append(tried(lambda: s.{add;remove;discard}({i})))",
        "LOG.append(tried(lambda: s.{update;difference_update;symmetric_difference_update;intersection_update}({r})))",
        "LOG.append(tried(lambda: u.{pop;get;setdefault}({i}, n)))", "LOG.append(tried(lambda: [r.append(v) for v in r if len(r) < 6]))",
        "LOG.append(tried(lambda: [u.update({{v + 7: n}}) for v in u]))", "LOG.append(tried(lambda: [u.pop(v) for v in u]))",
        "LOG.append(tried(lambda: [s.add(v + 10) for v in s]))", "LOG.append(tried(lambda: [s.discard(v) for v in s]))",
        "LOG.append(tried(lambda: [q.append(v) for v in q]))", "LOG.append(tried(lambda: [r.pop() for v in r]))",
        "LOG.append(tried(lambda: [u.__setitem__(v, n) for v in u]))",
        "LOG.append(tried(lambda: [(u.pop(v), u.setdefault(v, m)) for v in [*u][:2]]))",
        "LOG.append(tried(lambda: r.extend(v for v in r if len(r) < 5 and not r.append(1))))",
        "it = iter({r[:];q;s;u;reversed(r);u.items()})", "LOG.append(tried(lambda: (next(it), r.append(n), next(it))))",
        "LOG.append(tried(lambda: it.__length_hint__()))", "r.append(r); LOG.append(repr(r)); r.pop()",
        "q.append(q); LOG.append(repr(q)); q.pop()",
        "LOG.append(tried(lambda: {slice(1, 2, 3, 4);slice(n).indices(5);slice(n, None, 0).indices(3);slice('a').indices(2);"
            "slice(1).indices(-1);slice(n) == slice(n);hash(slice(1))}))",
        "LOG.append(tried(lambda: heapq.{heappush;heappushpop;heapreplace}(r, {i})))", "LOG.append(tried(heapq.heapify, r))",
        "LOG.append(tried(lambda: bisect.{insort;bisect_left}(r, {i}{;, key=lambda v: -v;, n})))", "xs[:1] = [{t}]", "xs[n % 3:] = [x, y]",
        "xs.sort(key=lambda v: n)", "xs.reverse()", "xs.insert(0, xs.pop())",
        "LOG.append(tried(lambda: xs.sort(key=lambda v: xs.append(v) or n)))", "o.rows = r", "r = getattr(o, 'rows', r)", "Shared.rows = r",
        "a, *b = {r}; LOG.append((a, len(b)))", "[a, b] = {r}",
        # A list that is extended by an iterator over itself takes all the memory there is, in eager too: what `{r}` gives is copied or bounded here.
        "LOG.append(tried(lambda: r.__iadd__({r;u;q;[*{r}];(v for v in {r} if len(r) < 9)}) is r))", "r += {r;u;q;[*{r}];(v for v in {r} if len(r) < 9)}",
        "r *= {2;0;n;-1}", "s |= {{n}}", "s -= {{n}}", "u |= {{n: m}}", "u |= [(n, m)]", "q += [n]",
    ),
    breaking_statements=(
        "r = {br}", "r.append({bi})", "LOG.append(tried(lambda: r.sort(key=opaque)))",
        "LOG.append(tried(lambda: r.sort(key=lambda v: shrinking(r, v))))", "print(tried(lambda: sorted({r}, key=opaque)))",
        "q.append({bi})", "s.add({bi})", "u[{bi}] = n", "r[opaque(n):] = {r}", "LOG.append((opaque(1), shown(r), shown(q)))",
        "it = iter(q); q.append({bi})", "print(tried(lambda: [opaque(v) or r.pop() for v in r]))", "r.extend(opaque(v) for v in r[:3])",
        "LOG.append(tried(lambda: [u.pop(opaque(v), 0) for v in u]))", "xs.sort(key=lambda v: v.sum().item())",
        "print(tried(lambda: max(r, key=lambda v: changing(r, opaque(v)))))",
    ),
    blocks=(
        "for v in {r;u;s;q;u.items();reversed(r);enumerate(r);zip(r, r);u.values();list(r)}:\n    {LOG.append(v);n += 1;print(v)}\n"
            "    {r.append(n) if len(r) < 6 else 0;r.pop() if r else 0;u.pop(n, 0);u.update({{n: m}});s.add(n);s.discard(n);q.append(n);"
            "q.rotate();r.clear();r.insert(0, n) if len(r) < 6 else 0;r.sort();u.clear();r[:] = [];del r[:1]}\n    if len(r) > 20:\n"
            "        break\n    BLOCK",
        "try:\n    for v in {u;s;q;u.items();u.keys()}:\n        BLOCK\n"
            "        {u[v] = n;u[n + 8] = 1;s.add(m + 9);q.append(1);del u[v];s.discard(v);q.popleft();u.popitem()}\n"
            "except {RuntimeError;(RuntimeError, KeyError, TypeError);Exception} as error:\n    LOG.append(str(error))\n    BLOCK",
        "def NEW(v):\n    nonlocal n, x\n    BLOCK\n"
            "    {r.append(1) if len(r) < 7 else 0;r.clear();return n;return opaque(n);xs.append(x);u.clear()}\n"
            "    return {0;n;str(v);-n}\nLOG.append(tried(lambda: {sorted(r, key=NEW);r.sort(key=NEW);[*map(NEW, r)];[*filter(NEW, r)];"
            "max(r, key=NEW);functools.reduce(lambda a, b: NEW(a), r, 1);xs.sort(key=NEW) or n;min(u, key=NEW)}))",
    ),
    loops=("for i in r[:3]:", "for i in q:", "for i in sorted(s):", "for i in u:", "for i, v in enumerate(xs):", "for v in xs:"),
    handlers=("RuntimeError", "(IndexError, RuntimeError)", "TypeError"),
)  # fmt: skip
