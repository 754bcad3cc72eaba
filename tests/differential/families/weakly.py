"""Weak references and finalizers of what the program's functions make: sets, functions, classes, instances, tensors; what a break may keep alive."""

from __future__ import annotations

from differential.family import Family

PRELUDE = '''
import io
import weakref


class Node:
    def __init__(self, value=None):
        self.value = value

    def method(self):
        return self.value


class Hashed(Node):
    def __eq__(self, other):
        return isinstance(other, Hashed) and other.value == self.value

    def __hash__(self):
        return hash(self.value)


class Final(Node):
    def __del__(self):
        ENDED.append("final " + type(self.value).__name__)


class Loudly(Node):
    def __del__(self):
        with contextlib.redirect_stdout(io.StringIO()):
            print("gone", type(self.value).__name__)
        ENDED.append("loudly " + type(self.value).__name__)


class Slots:
    __slots__ = ("value", "__weakref__")

    def __init__(self, value=None):
        self.value = value


class NoWeak:
    __slots__ = ()


class Rows(list):
    pass


class Text(str):
    pass


def called(ref):
    """When weak references call back isn't compared."""


@framejit.disable
def living():
    """What is left in containers that hold weakly; asked natively, before which everything has ended that nothing holds."""
    return len(SEEN), sorted(KEPT, key=repr)


def held(value):
    ref = weakref.ref(value)
    opaque(1)
    return ref() is not None


def local_set(k):
    made = {k}
    ref = weakref.ref(made)
    opaque(k)
    alive = ref() is not None
    del made
    return alive, ref() is None


def local_function(k):
    def inner():
        return k

    ref = weakref.ref(inner)
    print("local function")
    result = inner()
    inner = None
    return result, ref() is None


KEPT = weakref.WeakValueDictionary()
SEEN = weakref.WeakSet()
'''

VALUE = (
    "{Node({i});Hashed({i});Final({i});Loudly({i});Slots({i});NoWeak();Rows([n]);Text('a');{{n}};frozenset([n]);(lambda: n);x;x + 1;"
    "n;o;type('Made', (), {{}});xs;Node(Node({i}));o.step;len;iter(xs);produce(x, n);Node}"
)

FAMILY = Family(
    prelude=PRELUDE,
    variables={"s": "s = Node(1)", "r": "r = None"},
    expressions={
        "s": ("s", "s", VALUE, VALUE, VALUE),
        "i": (
            "1", "living()[0]", "len(living()[1])", "weakref.getweakrefcount(s)", "held({s}) + 1", "(r is not None and r() is None) + 1",
            "local_set({i})[0] + 1", "local_function({i})[0]", "(weakref.ref(s)().value or n if type(s) is Node else n)",
        ),
        "t": (
            "x", "weakref.ref(x)() + {t}", "(weakref.proxy(Thing(x, 1)).a if n > 9 else x)", "weakref.ref(o)().a",
            "(lambda f: f(x))(weakref.ref(layer)()).detach()",
        ),
        "c": (
            "n > m", "r is not None and r() is None", "weakref.ref(s) == weakref.ref(s)", "weakref.ref(s) is weakref.ref(s)", "s in SEEN",
            "r == weakref.ref(s)", "r() is s",
        ),
    },
    breaking={
        "s": ("Node({bi})", "Final({bi})", "Rows([opaque(n)])", "Node({bt})", "Loudly({bi})"),
        "i": ("held({bs})",),
    },
    statements=(
        "s = {s}", "s = {s}", "r = weakref.ref(s)", "r = weakref.ref(s, called)", "LOG.append(tried(lambda: r() is None))",
        "LOG.append(tried(lambda: weakref.ref({s})() is None))", "del s", "s = None", "r = None", "s.value = s", "s.value = {s}",
        "LOG.append(tried(lambda: weakref.finalize(s, ENDED.append, 'finalize').alive))", "LOG.append(local_set({i}))",
        "LOG.append(local_function({i}))", "KEPT[{i}] = s", "KEPT[{i}] = {s}", "LOG.append(living())", "SEEN.add(s)",
        "SEEN.add({s})", "LOG.append(living()[0])", "LOG.append(tried(lambda: weakref.proxy(s).value))",
        "r = weakref.WeakMethod(s.method) if isinstance(s, Node) else r", "LOG.append(tried(lambda: hash(weakref.ref(s)) == hash(s)))",
        "r = weakref.ref(r()) if r and r() is not None else r", "xs.append({Final;Loudly}({i}))", "xs.pop()", "o.node = s", "o.node = {s}",
        "d['s'] = s", "d.pop('s', None)", "s = [s, {Final;Node}({i})]", "LOG.append(tried(lambda: weakref.getweakrefcount(s)))",
        "LOG.append(tried(lambda: weakref.WeakKeyDictionary({{s: n}}).get(s)))", "Final({i})", "Loudly({i})", "_ = Final({i})",
        "LOG.append([Final(each) and each for each in (n, m)])", "n = (lambda f: f.value)({Final;Loudly}({i}))",
        "s, r = {Final;Node}(n), weakref.ref(s) if r else None", "it = iter([{Final;Loudly}({i}), n])", "r = weakref.ref((lambda: x))",
        "LOG.append(tried(r))",
    ),
    breaking_statements=(
        "s = {bs}", "print(tried(lambda: r() is None))", "opaque({i}); LOG.append(tried(lambda: r() is None))",
        "r = weakref.ref(s); opaque(n)", "del s; opaque(1)", "s = None; print(n)", "LOG.append((opaque(n), held({s})))", "s.value = {bi}",
        "KEPT[{bi}] = s", "LOG.append((opaque(n), living()))", "x = x + held({bs})",
        "s = Final(opaque(n)); r = weakref.ref(s, called)",
    ),
    blocks=(
        "def NEW(k={s}):\n    nonlocal n, x\n    BLOCK\n    return {k;r;s;NEW;n}\nr = weakref.ref(NEW{;, called})\n"
            "LOG.append(shown(tried(NEW))[0])\n{opaque(n);print(n);n += 1}\nLOG.append(r() is {None;NEW})",
        "class NEW({Node;Final;Thing;object}):\n    def method(self, k={s}):\n        nonlocal n, x\n        BLOCK\n"
            "        return k\nr = weakref.ref(NEW{;, called})\n{opaque(n);print(n);n += 1}\nLOG.append(r() is NEW)",
        "for v in [{s}, {s}]:\n    r = tried(weakref.ref, v)\n    BLOCK\n    r = None",
        "try:\n    s = {s}\n    r = weakref.ref(s)\n    BLOCK\n    raise {e}\nexcept Exception as error:\n"
            "    LOG.append(tried(lambda: r() is None))\n    BLOCK",
        "with contextlib.closing(produce_loudly({t}, {i})) as q:\n    s = {s}\n    BLOCK",
    ),
    handlers=("(TypeError, ReferenceError)", "ReferenceError", "AttributeError"),
)  # fmt: skip
