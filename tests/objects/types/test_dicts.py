"""Dicts, their subclasses and views in compiled functions: order, laziness, mutation, exceptions."""

from __future__ import annotations

import functools
import types
from collections import ChainMap, Counter, OrderedDict, defaultdict

import pytest
import torch
from agreement import agree, raising

import framejit

x = torch.arange(6.0).reshape(2, 3)


class Config(dict):
    """A user's dict with attribute access."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name, value):
        self[name] = value


class Logged(dict):
    """A user's dict that overrides item access and has a `__missing__`."""

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        self.last = key

    def __missing__(self, key):
        return f"no {key}"


class Groups(defaultdict):
    """A user's defaultdict."""


class Node:
    pass


NODE, OTHER = Node(), Node()


def lookups(t, d):
    return d["a"], d.get("b"), d.get("zz", 5), "a" in d, "zz" not in d, len(d), d.setdefault("a", 1), d.setdefault("new", t)


def stores(t, d):
    d["a"] = t + 1
    d["new"] = t
    d["b"] = d["new"]
    del d["c"]
    d["c"] = 9
    return list(d), d


def blind_store(t, d):
    d["k"] = t + 1


def order(t, d):
    d.pop("a")
    d["a"] = 1
    d.update(z=1, b=t)
    d |= {"y": 2}
    d.update([("p", 1), ("q", 2)])
    return list(d.items()), list(reversed(d)), d.popitem(), d.pop("none", 3)


def clear_and_fill(t, d):
    d.clear()
    d["z"] = t
    d["a"] = 2
    return len(d)


def iterate(t, d):
    total = t
    for key in d:
        total = total + len(key)
    for key, value in d.items():
        total = total + (value if isinstance(value, int) else 0)
    return total, list(d.values()), {v: k for k, v in enumerate(d)}, {**d, "more": 1}, dict(d), sorted(d)


def iterate_and_update(t, d):
    for key in d:
        d[key] = t + 1
    return d


def swap_ahead(t):
    d = {1: 1, 2: 2, 3: 3}
    seen = []
    for key in d:
        seen.append(key)
        if key == 1:
            del d[3]
            d[4] = 4
    return seen, t + 1


def errors(t, d):
    def grow():
        for key in d:
            d[key + "x"] = 1

    def swap():
        e = {1: 1, 2: 2}
        for key in e:
            del e[key]
            e[key + 10] = 1

    return [
        raising(lambda: d["zz"]),
        raising(lambda: d.pop("zz")),
        raising(lambda: {}.popitem()),
        raising(grow),
        raising(swap),
        raising(lambda: d[[]]),
        raising(lambda: dict([1])),
        raising(lambda: dict([(1, 2, 3)])),
        raising(lambda: {**5}),
        raising(lambda: {} < {}),
        raising(lambda: {}.__delitem__(3)),
        raising(lambda: d | 3),
        raising(lambda: hash(d)),
    ]


def views(t, d):
    keys, items, values = d.keys(), d.items(), d.values()
    d["late"] = 4
    return (
        list(keys),
        len(values),
        ("a", 1) in items,
        "a" in keys,
        keys & {"a", "zz"},
        keys - {"a"},
        keys | ["w"],
        keys == {"a", "b", "c", "late"},
        keys.isdisjoint(["q"]),
        {"a"} <= keys,
        list(reversed(values)),
        4 in values,
        sorted(keys ^ {"a", "n"}),
    )


def return_views(t, d):
    return d.keys(), d.values(), d.items(), iter(d)


def views_repr(t):
    d = {"a": 1}
    return (
        repr(d.keys()),
        repr(d.items()),
        str(d.values()),
        repr(OrderedDict(a=1)),
        repr(defaultdict(int, a=1)),
        repr(Counter("aab")),
        f"{d}",
    )


def comparisons(t):
    return (
        {1: 2} == {1: 2},
        {1: 2, 3: 4} == {3: 4, 1: 2},
        {1: 2} != {1: 3},
        {} == [],
        {1: t} == {1: t},
        OrderedDict([(1, 2), (3, 4)]) == OrderedDict([(3, 4), (1, 2)]),
    )


def keys_of_kinds(t):
    d = {
        1: "int",
        "1": "str",
        (1, "a"): "tuple",
        None: "none",
        2.5: "float",
        frozenset([1]): "frozenset",
        int: "type",
        len: "function",
        NODE: "node",
    }
    d[True] = "bool"
    d[1.0] = "again"
    return [d[1], d["1"], d[1, "a"], d[None], d[2.5], d[frozenset([1])], d[int], d[len], d[NODE], len(d), type(list(d)[0])]


def objects_as_keys(t, d):
    return d[NODE] + t, OTHER in d, list(d.values())


def tensors_as_keys(t):
    d = {t: 1}
    u = t + 1
    d[u] = 2
    return d[t], d[u], u in d, len(d)


def tuples_as_keys(t, d):
    d["x", 1] = t
    return d["x", 0], ("x", 1) in d, (0, 0) in d


def ordered(t, d):
    o = OrderedDict([("a", 1), ("b", t), ("c", 3)])
    o.move_to_end("a")
    o.move_to_end("c", last=False)
    d.move_to_end("a")
    d["n"] = t
    first = d.popitem(last=False)
    return o, list(reversed(o)), o.popitem(), list(o.items()), first, d, OrderedDict(o, z=1) | {"y": 2}, o.copy()


def ordered_front(t, d):
    d.move_to_end("b", last=False)
    return list(d)


def defaults(t, d):
    groups = defaultdict(list)
    for i in range(5):
        groups[i % 2].append(t + i)
    d["new"] += 1
    d["a"] += 1
    return groups, groups.default_factory, groups.get(7), d, defaultdict(lambda: 3)["k"], raising(lambda: defaultdict()["k"]), d.copy()


def counters(t):
    c = Counter("mississippi")
    c.update("miss")
    c["z"] -= 1
    return (
        c,
        c.most_common(2),
        c["none"],
        c.total(),
        Counter(a=2) + Counter(a=1, b=1),
        Counter(a=2) - Counter(a=1),
        list(c.elements())[:3],
        +c,
    )


def chain_maps(t):
    m = ChainMap({"a": 1}, {"a": 2, "b": t})
    child = m.new_child({"c": 3})
    child["a"] = 10
    return m["a"], m["b"], child["a"], child.maps[0], len(child), sorted(child), raising(lambda: m["zz"])


def config(t):
    c = Config(width=2, depth=t)
    c.name = "n"
    c["width"] += 1
    return c, c.width, c.name, hasattr(c, "zz"), {**c}, len(c), c.get("width"), raising(lambda: c.nothing)


def config_argument(t, c):
    c.extra = t
    return c.width * t, list(c)


def logged(t):
    d = Logged(a=1)
    d["b"] = t
    d.update(c=3)
    return d, d.last, d["missing"], d.get("missing"), "missing" in d, d.pop("a"), d.setdefault("q", 1)


def logged_argument(t, d):
    d["b"] = t
    return d["zz"], d.last


def proxies(t):
    d = {"a": t}
    p = types.MappingProxyType(d)
    d["b"] = 2
    return p["b"], len(p), list(p), "a" in p, p.get("zz"), dict(p)


def fromkeys(t):
    return dict.fromkeys("abc"), dict.fromkeys([1, 2], t), OrderedDict.fromkeys("ba", 0)


def nested(t, d):
    d["inner"]["list"].append(t)
    d["inner"]["n"] = d["inner"]["n"] + 1
    d["self"] = d
    return d["inner"]


def factories(t, d):
    d["seen"] += 1
    d.default_factory = None
    made = defaultdict()
    made.default_factory = lambda: t
    made["new"]
    found = made.default_factory
    del made.default_factory
    return raising(lambda: d["missing"]), d.default_factory, found(), made, raising(lambda: made[0])


def merging(t, d):
    return {"z": 0} | d, d | {"a": t}, {**d, **{"a": 2}}


def keyword_call(t, d):
    def target(*, a, b=2, **rest):
        return a, b, sorted(rest)

    return target(**d), raising(lambda: target(a=1, **d)), raising(lambda: target(**{1: 2}))


D = {"a": 1, "b": 2, "c": x}
GIVEN = [
    (lookups, D),
    (stores, D),
    (blind_store, {"k": 1}),
    (blind_store, {}),
    (order, D),
    (clear_and_fill, D),
    (iterate, {"a": 1, "bb": 2}),
    (iterate_and_update, {"a": 1, "b": 2}),
    (errors, D),
    (views, {"a": 1, "b": 2, "c": 3}),
    (return_views, D),
    (objects_as_keys, {NODE: 1, OTHER: 2}),
    (tuples_as_keys, {("x", 0): 1}),
    (ordered, OrderedDict(a=1, b=2)),
    (ordered_front, OrderedDict(a=1, b=2)),
    (defaults, defaultdict(int, a=1)),
    (factories, defaultdict(int, a=1)),
    (config_argument, Config(width=2)),
    (logged_argument, Logged(a=1)),
    (nested, {"inner": {"list": [], "n": 1}}),
    (merging, D),
    (keyword_call, D),
]
ALONE = [
    swap_ahead,
    views_repr,
    comparisons,
    keys_of_kinds,
    tensors_as_keys,
    counters,
    chain_maps,
    config,
    logged,
    proxies,
    fromkeys,
]


@pytest.mark.parametrize(("program", "given"), GIVEN, ids=[f"{p.__name__}-{i}" for i, (p, _) in enumerate(GIVEN)])
def test_with_argument(program, given):
    if program is objects_as_keys:
        compiled = framejit.compile(program, backend="eager", fullgraph=True)
        assert str(compiled(x, dict(given))) == str(program(x, dict(given)))
        return
    agree(program, x, given)


@pytest.mark.parametrize("program", ALONE, ids=lambda program: program.__name__)
def test_dicts_agree_with_eager(program):
    agree(program, x)


def test_a_factory_that_is_set_is_set_once_in_each_call():
    def freeze(t, d):
        before, d.default_factory = d.default_factory, None
        return before, t + 1

    compiled = framejit.compile(freeze, backend="eager", fullgraph=True)
    for kind in (defaultdict, Groups):
        for before in (list, None):
            groups = kind(before, a=1)
            assert compiled(x, groups)[0] is before
            assert groups.default_factory is None
            assert dict(groups) == {"a": 1}


def test_a_lookup_guards_only_its_key():
    def pick(t, d):
        return t + d["a"]

    compiled = agree(pick, x, {"a": 1, "b": 2})
    before = framejit.statistics()["recompiles"]
    compiled(x, {"zz": 0, "a": 1})
    assert framejit.statistics()["recompiles"] == before
    assert torch.equal(compiled(x, {"a": 7}), x + 7)


def test_a_missing_key_is_guarded():
    def pick(t, d):
        return t + d.get("a", 10)

    compiled = agree(pick, x, {})
    assert torch.equal(compiled(x, {"a": 1}), x + 1)


def test_key_order_is_guarded_where_it_is_seen():
    def first(t, d):
        return next(iter(d)), t

    compiled = agree(first, x, {"a": 1, "b": 2})
    assert compiled(x, {"b": 1, "a": 2})[0] == "b"


def test_a_store_observes_nothing():
    compiled = agree(blind_store, x, {"k": 1})
    before = framejit.statistics()["recompiles"]
    d = {"other": 1}
    compiled(x, d)
    assert framejit.statistics()["recompiles"] == before
    assert list(d) == ["other", "k"]


def test_truth_of_a_dict_that_is_changed():
    def f(t, d):
        before = bool(d)
        d["b"] = t
        full = bool(d)
        del d["b"]
        return before, full, bool(d), list(d)

    for d in ({"a": 1}, {}, {"b": 1}, {"b": 1, "a": 2}):
        agree(f, x, d)


def test_truth_is_guarded_as_far_as_it_is_seen():
    def f(t, d):
        return t + 1 if d else t - 1

    compiled = agree(f, x, {"a": 1})
    before = framejit.statistics()["recompiles"]
    assert torch.equal(compiled(x, {(1, x): 2, "b": 3}), x + 1)
    assert framejit.statistics()["recompiles"] == before
    assert torch.equal(compiled(x, {}), x - 1)


HASHED = []


class HashedLoudly:
    def __hash__(self):
        HASHED.append("hash")
        return 1

    def __eq__(self, other):
        HASHED.append("eq")
        return self is other


@functools.lru_cache
def cached(*args):
    return len(args)


def test_keys_of_a_cache_are_hashed_and_compared_as_in_eager():
    def function(x, key):
        return x + 1, cached(key), cached((key, 1)), cached(key, 2)

    compiled = framejit.compile(function, backend="eager")
    for run in (function, compiled, compiled):
        cached.cache_clear()
        HASHED.clear()
        run(torch.ones(1), HashedLoudly())
        assert HASHED == ["hash"] * 3
