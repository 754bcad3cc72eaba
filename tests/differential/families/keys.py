"""Keys of dicts and sets that equal one another without being of one type, with `__eq__` and `__hash__` of their own, and what is missing."""

from __future__ import annotations

from differential.family import Family

PRELUDE = '''
import enum
from collections import ChainMap, Counter, OrderedDict, UserDict, defaultdict

import numpy as np


class Grade(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Kin(int):
    pass


class KinText(str):
    pass


class Key:
    def __init__(self, k, loud=False):
        self.k, self.loud = k, loud

    def __repr__(self):
        return f"Key({self.k})"

    def __eq__(self, other):
        if self.loud:
            print("eq", self.k)
        if isinstance(other, Key):
            return self.k == other.k
        return NotImplemented if self.loud else self.k == other

    def __hash__(self):
        LOG.append(("hash", self.k))
        return hash(self.k)


class Clash(Key):
    def __hash__(self):
        return 1

    def __eq__(self, other):
        if self.k == 3:
            raise ValueError("clash")
        return opaque(self.k) == 1


class Spot:
    """Its methods only compute, so that they are traced."""

    def __init__(self, k):
        self.k = k

    def __repr__(self):
        return f"Spot({self.k})"

    def __eq__(self, other):
        return self.k == other.k if isinstance(other, Spot) else NotImplemented

    def __hash__(self):
        return hash(("spot", self.k))


class Even(Spot):
    def __eq__(self, other):
        return self.k % 2 == (other.k if isinstance(other, Spot) else other) % 2 if isinstance(other, (Spot, int)) else False

    def __hash__(self):
        return self.k % 2


class Kept(Spot):
    kept = None

    def __hash__(self):
        if self.kept is None:
            self.kept = hash(self.k)
        return self.kept

    __eq__ = Spot.__eq__


SPOTS = {Spot(1): "one", Spot(2): "two", Kept(1): "kept"}


class Missing(dict):
    def __missing__(self, key):
        LOG.append(("missing", key))
        return opaque(len(self))


class Filling(dict):
    def __missing__(self, key):
        self[key] = value = len(self)
        return value


class Refusing(dict):
    def __missing__(self, key):
        raise KeyError("refused", key)

    def __getitem__(self, key):
        return super().__getitem__(key) if key != 2 else 5

    def __contains__(self, key):
        print("contains")
        return True

    def get(self, key, default=None):
        return default


class User(UserDict):
    def __missing__(self, key):
        return "user"


FIXED = {1: "one", "a": "letter", 2.5: "half", None: "none", (1, "a"): "pair"}
'''

OF_DICTS = "{d;e;e;e;FIXED}"

FAMILY = Family(
    prelude=PRELUDE,
    variables={"e": "e = {1: 'one', 'a': 2}", "k": "k = 1"},
    expressions={
        "k": (
            "k", "1", "True", "1.0", "n", "'a'", "'b'", "Grade.LOW", "Grade.HIGH", "Kin({i})", "Kin(1)", "KinText('a')", "np.int64(1)",
            "np.float64(1.0)", "np.str_('a')", "Key({i})", "Key(1)", "Key(1, True)", "Key('a')", "Clash({i})", "None", "(1, 'a')",
            "(True, KinText('a'))", "(Grade.LOW, 'a')", "2.5", "0", "False", "-0.0", "{i}", "frozenset([1])", "frozenset([Grade.LOW])",
            "Spot(1)", "Spot({i})", "Even({i})", "Even(2)", "Kept(1)", "Kept({i})", "(Spot(1), 'a')", "frozenset([Spot({i})])",
            "float('nan')", "int", "x", "[1]", "''.join(['a'])", "complex(1)", "b'a'", "Pair(1, 'a')",
        ),
        "h": (
            "e", "{{1: n, 'a': m}}", "{{True: n}}", "{{{k}: {i}, {k}: {i}}}", "Missing(a=n)", "Filling(e)", "Refusing({{1: n}})",
            "User({{1: n}})", "defaultdict(list, {{1: [n]}})", "OrderedDict([(1, n), ('a', m)])", "Counter([1, True, n, 'a'])",
            "ChainMap({{1: n}}, {{'a': m}})", "{{Grade.LOW: n, 2: m}}", "{{Key(1): n}}", "dict.fromkeys([1, 'a', n])", "{{np.int64(1): n}}",
            "{{Kin(1): n, KinText('a'): m}}", "dict(zip('ab', (n, m)))", "{{Clash(1): n, Key(2): m}}",
            "{{Spot({i}): n, Even({i}): m}}", "dict(SPOTS)", "dict.fromkeys({{Spot(1), Kept(2), 1}}, n)",
            "{{}}", "dict(FIXED)", "d",
        ),
        "i": (
            "1", "len(e)", "len({{{k}: 1, {k}: 2}})", "len({h})", "len({{{k}, {k}, {k}}})", "e.get({k}, {i}) or n", "(1 in {h}) + 1",
            "[*{h}].count(1)", "Filling(e)[{i}]", "Missing(e)['q']", "len(e | {{1: n}})", "{{1: n, Grade.LOW: m}}[True]",
            "list({h}).index(1)",
        ),
        "t": (
            "x", "{{1: x, 'a': y}}[Grade.LOW]", "{{1: x, 'a': y}}.get({k}, y)", "{{Kin(1): x}}[1]", "{{1: x, True: y}}[1]",
            "{{{k}: x}}.get({k}, y)", "Filling({{1: x}})[1]",
        ),
        "c": ("n > m", "{k} in e", "{k} in FIXED", "{k} in SPOTS",
              "{{{k}, Spot(1)}} >= {{Spot({i})}}", "{k} == {k}", "{h} == {h}", "e.keys() >= {{1}}", "{k} in {{1, 'a'}}"),
    },
    breaking={
        "k": ("Key(opaque({i}))", "Clash(opaque({i}))", "Kin({bi})", "opaque({i})", "x.sum().item()", "Key({bi}, True)"),
        "h": ("{{{bk}: n}}", "Missing({{opaque(1): n}})", "{{Key(opaque(1)): n, 1: m}}"),
        "i": ("Missing(e)[{bk}]", "len({{{bk}: 1, {k}: 2}})"),
    },
    statements=(
        "e = {h}", "k = {k}", "e[{k}] = {i}", "LOG.append(tried(lambda: shown(" + OF_DICTS + "[{k}])))",
        "LOG.append(tried(lambda: shown(e.{get;pop;setdefault;__getitem__}({k}))))",
        "LOG.append(tried(lambda: shown(e.{get;pop;setdefault}({k}, {i}))))", "LOG.append(tried(lambda: {k} in " + OF_DICTS + "))",
        "LOG.append(tried(e.{pop;__delitem__;__contains__}, {k}))", "LOG.append(tried(lambda: e.update({h})))",
        "LOG.append(tried(lambda: shown(list(({h} | {h}).items()))))", "LOG.append(tried(lambda: {h} == {h}))", "LOG.append(shown([*e]))",
        "LOG.append(tried(lambda: shown(e)))", "LOG.append(tried(lambda: shown(list(e.items()))))",
        "LOG.append(tried(lambda: [type(each).__name__ for each in e]))",
        "LOG.append(tried(lambda: sorted(map(repr, e.keys() {&;|;-;^} {{{k}, {k}}}))))",
        "LOG.append(tried(lambda: '{{a}} {{1}}'.format_map(e)))", "LOG.append(tried(lambda: '%(a)s %(q)s' % e))",
        "LOG.append(tried(lambda: '{{a}} {{q!r:>5}}'.format_map({Missing;Filling;Refusing;User}(e))))",
        "LOG.append(tried(lambda: 'ab'.translate({Missing;Filling}({{97: 'q'}}))))", "LOG.append(tried(lambda: shown({{**e, {k}: n}})))",
        "LOG.append(tried(e.popitem))", "LOG.append(tried(lambda: (lambda **q: q)(**e)))",
        "LOG.append(tried(lambda: dict(e, a=n, **{{'b': m}})))", "LOG.append(tried(lambda: (e | {{1: n}}, e.keys() == {{1, 'a'}})))",
        "LOG.append(tried(lambda: list(reversed(e.items()))))", "LOG.append(tried(lambda: [1, 'a', n, 2.5].index({k})))",
        "LOG.append(tried(lambda: (1, 'a', n).count({k})))", "LOG.append(tried(lambda: {k} {==;!=} {k}))",
        "LOG.append(tried(lambda: shown({{{k}, {k}}} {&;|;-;^;<=} {{{k}}})))", "LOG.append(tried(lambda: e.copy() == e))",
        "LOG.append(tried(lambda: next(iter(e.values()))))", "LOG.append(tried(e.{clear;copy;keys;move_to_end;most_common}))",
        "FIXED[{k}] = {i}", "LOG.append([each for each in FIXED if each == {k}])", "LOG.append(tried(lambda: setattr(o, {k}, n)))",
        "LOG.append(tried(lambda: getattr(o, {k}, n)))", "LOG.append(tried(vars(o).get, {k}))",
        "LOG.append(tried(lambda: shown(min(e, key=repr))))", "LOG.append(tried(lambda: e.__ior__({{{k}: n}}) is e))",
    ),
    breaking_statements=(
        "k = {bk}", "e = {bh}", "e[{bk}] = {i}", "e[{k}] = {bi}", "LOG.append(tried(lambda: shown(e[{bk}])))",
        "print(tried(lambda: {bk} in e))", "LOG.append((opaque({i}), tried(lambda: shown(e))))",
        "LOG.append(tried(lambda: e.setdefault({bk}, {t})))", "del e[{bk}]", "print(len(e), opaque(len(e)))",
    ),
    blocks=(
        "def NEW(q):\n    class Inner(Key):\n        def __{eq;hash}__(self, *other):\n            LOG.append(later)\n"
            "            return {n;1;True}\n" "    LOG.append(tried(lambda: {{Inner(1): 1, 1: 2}}))\n    later = q\n"
            "    return tried(lambda: shown({{Inner(1): 1, 1: 2}}))\nLOG.append(NEW({i}))",
        "if {k} in {h}:\n    BLOCK\nelse:\n    BLOCK",
        "match e:\n    case { {{1: q}};{{'a': q, **more}};{{True: q, 'a': 1}}}:\n        BLOCK\n    case _:\n        BLOCK",
        "try:\n    n = e[{k}]\n    BLOCK\nexcept {KeyError;(KeyError, TypeError);LookupError} as error:\n    LOG.append(error.args)\n"
            "    BLOCK",
    ),
    loops=("for k in {h}:", "for k in list(e):", "for k, i in {{1: n, True: m, 'a': 2}}.items():", "for k in e.keys() & {{1, n}}:"),
    handlers=("KeyError", "TypeError"),
)  # fmt: skip
