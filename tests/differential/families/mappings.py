"""Mappings and sequences with methods of their own: which of them C code asks when it copies, merges, unpacks, compares and iterates."""

from __future__ import annotations

from differential.family import Family

PRELUDE = '''
import copy
from collections import ChainMap, Counter, OrderedDict, UserDict, defaultdict
from types import MappingProxyType, SimpleNamespace


def said(name, value):
    LOG.append(name)
    return value


class Getting(dict):
    def __getitem__(self, key):
        return said("getitem", super().__getitem__(key))


class Keyed(dict):
    def keys(self):
        return said("keys", ["a"])


class Iterating(dict):
    def __iter__(self):
        LOG.append("iter")
        return iter(sorted(dict.keys(self), reverse=True))

    def __getitem__(self, key):
        return said("getitem", dict.__getitem__(self, key) + 1)


class Storing(dict):
    def __setitem__(self, key, value):
        super().__setitem__(key, said("setitem", value))

    def __delitem__(self, key):
        LOG.append("delitem")
        super().__delitem__(key)


class Cast(OrderedDict):
    def __getitem__(self, key):
        return said("cast", super().__getitem__(key))


class Checked(OrderedDict):
    def __setitem__(self, key, value):
        super().__setitem__(key, said("checked", value))

    def __delitem__(self, key):
        LOG.append("delitem")
        super().__delitem__(key)


class Viewed(OrderedDict):
    def items(self):
        return said("items", [("v", 7)])

    def keys(self):
        return said("keys", ["a"])

    def __iter__(self):
        LOG.append("iter")
        yield from list(super().keys())[:1]


class Tallied(Counter):
    def __setitem__(self, key, value):
        super().__setitem__(key, said("tally", value))


class Filled(defaultdict):
    def __missing__(self, key):
        return said("missing", 9)

    def __getitem__(self, key):
        return said("filled", super().__getitem__(key))


class Held(UserDict):
    def __getitem__(self, key):
        return said("held", super().__getitem__(key))


class Protocol:
    def keys(self):
        return said("keys", iter(["a", "w"]))

    def __getitem__(self, key):
        return said(key, len(key) + opaque(1) * 0)


class Listed(list):
    def __iter__(self):
        LOG.append("listed")
        return (v + 1 for v in list.__iter__(self))

    def __len__(self):
        return said("len", list.__len__(self))


class Indexed(list):
    def __getitem__(self, index):
        return said("index", super().__getitem__(index))


class Tupled(tuple):
    def __iter__(self):
        LOG.append("tupled")
        return iter([1, 2])


class Members(set):
    def __iter__(self):
        LOG.append("members")
        return iter([5])

    def __contains__(self, item):
        return said("contains", True)


def merged(**kw):
    return kw


def first(*args):
    return args


def changed(left, right):
    left |= right
    return left


def updated(left, *args, **kw):
    left.update(*args, **kw)
    return left


def flat(value):
    if isinstance(value, dict):
        return type(value).__name__, [(repr(k), repr(dict.__getitem__(value, k))) for k in dict.keys(value)]
    return type(value).__name__, repr(value).partition(" at 0x")[0]


def rest_of(value):
    match value:
        case {"a": got, **rest}:
            return got, rest
    return None
'''

FAMILY = Family(
    prelude=PRELUDE,
    variables={"h": "h = Getting(a=1, w=2)"},
    expressions={
        "h": (
            "h", "Getting(a={i}, w=2)", "Keyed(a=1, w={i})", "Iterating(a=n, w={i})", "Storing(a=1)", "Cast(a={i}, w=1)", "Checked(a=n)", "Viewed(a=1, w={i})",
            "Tallied('aab')", "Filled(None, a={i})", "Filled(int)", "Held(a=1, w=n)", "Protocol()", "OrderedDict(a=1, w=n)", "{{'a': 1, 'w': {i}}}",
            "defaultdict(int, a=n)", "Counter(a=1)", "ChainMap({h}, {{'z': 1}})", "MappingProxyType({h})", "dict({h})", "OrderedDict({h})", "{h} | {h}",
            "{h}.copy()", "copy.copy({h})", "{{**{h}, 'q': 1}}", "updated({h}, {h})", "changed({h}, {h})", "merged(**{h})", "copy.deepcopy({h})",
            "type({h})({h})", "Cast({h})", "Checked({h})", "Storing({h})", "Tallied({h})", "Viewed.fromkeys('ab', 3)", "Checked.fromkeys('ab')",
            "updated({h}, a=5)", "updated({h}, [('p', n)])", "vars(SimpleNamespace(**{h}))", "defaultdict(int, {h})", "Held({h})",
        ),
        "l": (
            "Listed([1, 2])", "Listed([1, {i}])", "Indexed([n, 2])", "Tupled((3, n))", "Members([1, 2])", "[n, 1]", "(1, n)", "{h}",
            "iter({l})", "list({l})", "tuple({l})",
        ),
        "i": (
            "1", "len({h})", "len([*{h}])", "{h}.get('a', 3)", "{h}['a']", "{h}.setdefault('w', 4)", "{h}.pop('a', 2)", "len(list({l}))", "sum({l})",
            "len({h}.keys())", "max({l})", "len(first(*{l}))", "len({{*{l}}})", "len([*{l}, *{l}])", "('a' in {h}) + 1", "len(sorted({l}, key=str))",
        ),
        "c": ("n > m", "{h} == {h}", "'a' in {h}", "{l} == {l}", "1 in {l}", "{h}"),
    },
    breaking={"h": ("Protocol()", "Getting(a=opaque(n))", "updated({h}, w=opaque(1))")},
    statements=(
        "h = {h}", "LOG.append(tried(lambda: flat({h})))", "LOG.append(tried(lambda: flat({h})))", "LOG.append(tried(lambda: flat(dict({h}))))",
        "LOG.append(tried(lambda: merged(**{h})))", "LOG.append(tried(lambda: {{**{h}}}))", "LOG.append(tried(rest_of, {h}))",
        "LOG.append(tried(lambda: list({h}.{keys;items;values}())))", "h['p'] = {i}", "LOG.append(tried(lambda: flat({h} | {h})))",
        "LOG.append(tried(lambda: {h}.popitem()))", "h.update({h})", "LOG.append(tried(lambda: h.setdefault('new', {i})))", "h |= {h}",
        "LOG.append(tried(lambda: first(*{l})))", "LOG.append(tried(lambda: [*{l}]))", "LOG.append(tried(lambda: sorted({l}, key=str)))",
        "LOG.append(tried(lambda: list(zip({l}, {l}))))", "LOG.append(tried(lambda: '%(a)s' % {h}))", "LOG.append(tried(lambda: '{{a}}'.format_map({h})))",
        "LOG.append(tried(lambda: list(reversed({h}))))", "LOG.append(tried(lambda: {h} == {h}))", "LOG.append(tried(lambda: list(enumerate({l}))))",
        "LOG.append(tried(lambda: (lambda p, q: (p, q))(*{l})))", "LOG.append(tried(lambda: set({l})))", "LOG.append(tried(lambda: [0].__iadd__({l})))",
        "LOG.append(tried(lambda: h.move_to_end('a')))", "LOG.append(tried(lambda: flat({h}.copy())))",
    ),
    breaking_statements=("h = {bh}", "print(tried(lambda: flat({h})))", "print(tried(lambda: sorted(map(str, {l}))))"),
    blocks=(
        "for k in {h}:\n    LOG.append(str(k))\n    BLOCK\n    break", "for k, v in list({h}.items())[:2]:\n    BLOCK",
        "for k in {l}:\n    n += 1\n    BLOCK\n    {break;continue}",
        "class NEW({Getting;Cast;Checked;Storing;OrderedDict;dict}):\n    def {__getitem__;__missing__}(self, key):\n        LOG.append(key)\n"
            "        return {1;len(self);super().__getitem__(key)}\nh = NEW({h})\nLOG.append(tried(lambda: flat({dict(h);h.copy();NEW(h);h | {h}})))",
    ),
)  # fmt: skip
