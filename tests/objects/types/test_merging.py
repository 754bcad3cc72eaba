"""Mappings with methods of their own: what asks these methods, and what takes what is stored, as in CPython, and in its order."""

from __future__ import annotations

import collections
import copy
import functools
import operator
import types
from collections import ChainMap, Counter, OrderedDict, UserDict, defaultdict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import outcome, tried

import framejit

LOG: list[Any] = []
METHODS = (
    "__iter__", "__getitem__", "__setitem__", "__delitem__", "__contains__", "__len__", "__or__", "__ror__", "__ior__", "__reversed__",
    "keys", "values", "items", "get", "update", "copy", "pop", "popitem", "setdefault", "clear", "move_to_end",
)  # fmt: skip


def logged(base: type, name: str) -> Any:
    """The base's method, noted whenever somebody asks for it."""
    real = getattr(base, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        LOG.append((name, args[:1] if name.startswith("__") and "or" not in name else None))
        return real(self, *args, **kwargs)

    return method


def other_getitem(base: Any) -> dict[str, Any]:
    def __getitem__(self: Any, key: Any) -> Any:
        LOG.append(("get", key))
        return base.__getitem__(self, key) * 10

    return {"__getitem__": __getitem__}


def other_keys(base: Any) -> dict[str, Any]:
    def keys(self: Any) -> Any:
        LOG.append("keys")
        return list(base.keys(self))[::-1]

    return {"keys": keys}


def other_iter(base: Any) -> dict[str, Any]:
    def __iter__(self: Any) -> Any:
        LOG.append("iter")
        for key in list(base.keys(self))[::-1]:
            LOG.append(("step", key))
            yield key

    return {"__iter__": __iter__}


def other_setitem(base: Any) -> dict[str, Any]:
    def __setitem__(self: Any, key: Any, value: Any) -> None:
        LOG.append(("set", key))
        base.__setitem__(self, key, value)

    return {"__setitem__": __setitem__}


def made_keys(base: Any) -> dict[str, Any]:
    def keys(self: Any) -> Any:
        for key in ("a", "b"):
            LOG.append(("key", key))
            yield key

    return {"keys": keys, **other_getitem(base)}


def kinds(base: Any) -> list[Any]:
    """The base, and subclasses that differ in what they override."""
    parts = [other_getitem(base), other_keys(base), other_iter(base), other_setitem(base), other_iter(base) | other_getitem(base), made_keys(base)]
    parts.append({name: logged(base, name) for name in METHODS if hasattr(base, name)})
    parts.append({"__iter__": dict.__iter__} if base is dict else {})
    return [base, *[type(f"{base.__name__}{number}", (base,), part) for number, part in enumerate(parts)]]


KINDS = [kind for base in (dict, OrderedDict, defaultdict) for kind in kinds(base)]


def make(kind: Any) -> Any:
    """An instance that holds a: 1, b: 2, stored past the methods of its own."""
    made = kind(int) if issubclass(kind, defaultdict) else kind()
    setitem = OrderedDict.__setitem__ if issubclass(kind, OrderedDict) else dict.__setitem__
    setitem(made, "a", 1)
    setitem(made, "b", 2)
    return made


def shown(value: Any) -> Any:
    """A value with the types all through it, past the methods of its own."""
    if isinstance(value, tuple):
        return "tuple", [shown(item) for item in value]
    if isinstance(value, OrderedDict):
        return type(value).__name__, list(OrderedDict.items(value))
    if isinstance(value, dict):
        return type(value).__name__, list(dict.items(value))
    return value


def named(**given: Any) -> Any:
    return given


def named_a(a: Any = 0, **rest: Any) -> Any:
    return a, rest


def updated(target: Any, *args: Any, **kwargs: Any) -> Any:
    target.update(*args, **kwargs)
    return target


def rest_of(mapping: Any) -> Any:
    match mapping:
        case {"a": a, **rest}:
            return a, rest
    return None


def two_of(mapping: Any) -> Any:
    match mapping:
        case {"a": a, "b": b}:
            return a, b
    return None


def first_and_rest(mapping: Any) -> Any:
    first, *rest = mapping
    return first, rest


def both(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that gives a call's result together with the mapping, which the call may have changed."""
    return lambda m: (call(m), m)


def only(cls: type, call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda m: call(m) if isinstance(m, cls) else None


OPERATIONS: dict[str, Callable[[Any], Any]] = {
    # What makes a dict of a mapping.
    "dict(m)": lambda m: dict(m),
    "dict(m, c=3)": lambda m: dict(m, c=3),
    "dict(**m)": lambda m: dict(**m),
    "{**m}": lambda m: {"z": 0, **m, "y": 1},
    "f(**m)": lambda m: (named(**m), named_a(**m), named(x=1, **m)),
    "f(a=1, **m)": lambda m: tried(lambda: named(a=1, **m)),
    "**rest": rest_of,
    "partial(**m)": lambda m: functools.partial(named, **m)(z=1),
    "SimpleNamespace(**m)": lambda m: vars(types.SimpleNamespace(**m)),
    "format(**m)": lambda m: "{a} {b}".format(**m),
    "OrderedDict(m)": lambda m: (OrderedDict(m), OrderedDict(m, c=3)),
    "defaultdict(int, m)": lambda m: defaultdict(int, m),
    "Counter(m)": lambda m: (Counter(m), Counter(a=1) + Counter(m), updated(Counter(a=1), m)),
    "type(m)(m)": lambda m: type(m)(int, m) if isinstance(m, defaultdict) else type(m)(m, c=3),
    "dict.copy(m)": lambda m: dict.copy(m),
    "m.copy()": lambda m: m.copy(),
    "ChainMap": lambda m: (lambda c: (c["a"], list(c), dict(c), c.get("z", 1)))(ChainMap({"q": 1}, m)),
    "UserDict": lambda m: (lambda u: (u["a"], list(u), dict(u), updated(u, m).data))(UserDict(m)),
    "proxy": lambda m: (lambda p: (p["a"], list(p), len(p), "a" in p, p.get("a"), dict(p), list(p.items())))(types.MappingProxyType(m)),
    "proxy.copy()": lambda m: types.MappingProxyType(m).copy(),
    "proxy | d": lambda m: (types.MappingProxyType(m) | {"q": 1}, {"q": 1} | types.MappingProxyType(m)),
    # What takes a mapping's items into another one.
    "d | m": lambda m: {"q": 1} | m,
    "m | d": lambda m: m | {"b": 5, "q": 1},
    "m | m": lambda m: m | m,
    "dict.__or__": lambda m: dict.__or__(m, {"q": 1}),
    "od | m": lambda m: OrderedDict(q=1) | m,
    "m | od": lambda m: m | OrderedDict(q=1),
    "dd | m": lambda m: defaultdict(int, q=1) | m,
    "m | dd": lambda m: m | defaultdict(int, q=1),
    "d |= m": lambda m: operator.ior({"q": 1}, m),
    "od |= m": lambda m: operator.ior(OrderedDict(q=1), m),
    "m |= d": lambda m: operator.ior(m, {"b": 5, "q": 1}),
    "m |= pairs": lambda m: operator.ior(m, [("b", 5)]),
    "m |= m": lambda m: operator.ior(m, m),
    "d.update(m)": lambda m: updated({"q": 1}, m),
    "od.update(m)": lambda m: updated(OrderedDict(q=1), m),
    "m.update(d)": lambda m: updated(m, {"b": 5, "q": 1}),
    "m.update(b=5)": lambda m: updated(m, b=5, q=1),
    "m.update(pairs)": lambda m: updated(m, [("b", 5)]),
    "m.update(m)": lambda m: updated(m, m),
    "vars.update(m)": lambda m: (lambda o: (o.__dict__.update(m), sorted(vars(o)))[1])(types.SimpleNamespace()),
    # Methods that may ask other ones.
    "setdefault": both(lambda m: (m.setdefault("a", 9), m.setdefault("n", 9), m.setdefault("o"))),
    "pop": both(lambda m: (m.pop("a"), m.pop("z", 5), tried(m.pop, "z"))),
    "popitem": both(lambda m: m.popitem()),
    "popitem(last=False)": only(OrderedDict, both(lambda m: m.popitem(last=False))),
    "move_to_end": only(OrderedDict, both(lambda m: (m.move_to_end("a"), tried(m.move_to_end, "z")))),
    "clear": both(lambda m: m.clear()),
    "fromkeys": lambda m: (type(m).fromkeys(["x", "y"], 1), dict.fromkeys(m), OrderedDict.fromkeys(m)),
    "missing": both(lambda m: tried(lambda: m["z"])),
    "get": lambda m: (m.get("a"), m.get("z", 3), "a" in m, "z" in m, len(m), bool(m)),
    "==": lambda m: (m == {"a": 1, "b": 2}, {"a": 1, "b": 2} == m, m != m, m == OrderedDict(b=2, a=1)),
    "repr": lambda m: (repr(m), str(m)),
    "views": lambda m: (list(m.values()), list(m.items()), first_and_rest(m), two_of(m)),
    "%": lambda m: "%(a)s %(b)s" % m,
    # What goes through a mapping.
    "items": lambda m: (list(m), tuple(m), sorted(m), [*m], sorted(set(m)), sorted(frozenset(m)), sorted({"q"}.union(m)), ",".join(m)),
    "sets": lambda m: ({"q"}.isdisjoint(m), {"a"}.issubset(m), {"a", "b"}.issuperset(m), sorted({"a", "q"} - set(m)), sorted({"a", "q"}.difference(m))),
    "functions": lambda m: (min(m), max(m, key=m.get), list(zip(m, m)), list(enumerate(m)), list(map(str, m)), list(collections.deque(m)), any(m)),
    "reversed": lambda m: list(reversed(m)),
    "Counter(list)": lambda m: dict(Counter(list(m))),
    "copy.copy": lambda m: copy.copy(m) if type(m) in (dict, OrderedDict, defaultdict) else None,
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_each_operation_asks_the_methods_that_c_code_asks(name: str) -> None:
    operation = OPERATIONS[name]

    def program(x: torch.Tensor) -> Any:
        LOG.clear()
        return [(kind.__name__, shown(operation(make(kind))), LOG.append(kind.__name__)) for kind in KINDS], list(LOG), x + 1

    framejit.reset()
    expected = program(torch.ones(1))[:2]
    got = framejit.compile(program, backend="eager", fullgraph=True)(torch.ones(1))[:2]
    for kind, left, right in zip(KINDS, expected[0], got[0]):
        assert left == right, kind
    assert got[1] == expected[1]


@pytest.mark.parametrize("name", ["dict(m)", "{**m}", "f(**m)", "**rest", "OrderedDict(m)", "d.update(m)", "m.copy()", "m |= d", "setdefault", "m | d"])
def test_mappings_from_outside_are_asked_as_well(name: str) -> None:
    operation = OPERATIONS[name]

    def seen(wrap: Callable[..., Any]) -> Any:
        given = [make(kind) for kind in KINDS]
        LOG.clear()

        def program(x: torch.Tensor, given: list[Any]) -> Any:
            return [shown(operation(mapping)) for mapping in given], x + 1

        return wrap(program)(torch.ones(1), given)[0], list(LOG), [shown(mapping) for mapping in given]

    framejit.reset()
    assert seen(lambda f: framejit.compile(f, backend="eager", fullgraph=True)) == seen(lambda f: f)


class Fails(dict[str, Any]):
    """Raises at its second key."""

    error: type[Exception] = ValueError

    def __iter__(self) -> Any:
        return iter("abc")

    def keys(self) -> Any:
        return list("abc")

    def __getitem__(self, key: str) -> Any:
        LOG.append(key)
        if key == "b":
            raise self.error(key)
        return 1


class FailsByAttribute(Fails):
    error = AttributeError


class FailsByKey(Fails):
    error = KeyError


class KeysAsProperty:
    @property
    def keys(self) -> Any:
        LOG.append("keys")
        return lambda: ["a", "b"]

    def __getitem__(self, key: str) -> str:
        LOG.append(key)
        return key


class KeysByHook:
    def __getattr__(self, name: str) -> Any:
        LOG.append(name)
        if name == "keys":
            return lambda: ["a", "b"]
        raise AttributeError(name)

    def __getitem__(self, key: str) -> str:
        return key


class KeysOfNothing:
    def keys(self) -> int:
        return 3

    def __getitem__(self, key: str) -> str:
        return key


class ItemsOnly:
    def items(self) -> Any:
        LOG.append("items")
        return [("a", 1), ("b", 2)]

    def __iter__(self) -> Any:
        LOG.append("iter")
        return iter([("z", 1)])


class Stateful(OrderedDict[str, Any]):
    """The last one that was asked for goes to the end, as in a cache."""

    def __getitem__(self, key: str) -> Any:
        LOG.append(key)
        self.move_to_end(key)
        return super().__getitem__(key)


class KeysNone(OrderedDict[str, Any]):
    keys = None  # type: ignore[assignment]


def with_own_keys() -> Any:
    made = OrderedDict(a=1, b=2)
    made.keys = lambda: ["b"]  # type: ignore[method-assign]
    return made


ODD: list[Callable[[], Any]] = [
    lambda: Fails(a=1), lambda: FailsByAttribute(a=1), lambda: FailsByKey(a=1), KeysAsProperty, KeysByHook, KeysOfNothing, ItemsOnly,
    lambda: Stateful(a=1, b=2), lambda: KeysNone(a=1), with_own_keys, lambda: [("a", 1), "bc"], lambda: [(1, 2, 3)], lambda: [()], lambda: [(1,)],
    lambda: [("a", 1), 3], lambda: 3, lambda: None, lambda: "abc", lambda: types.MappingProxyType(OrderedDict(a=1)), lambda: UserDict(a=1),
]  # fmt: skip


def into(target: Any, merge: Callable[[Any, Any], Any], source: Any) -> Any:
    """Return the type and text of a merge's exception (None without one), and the target, which shows how much was taken from the source."""
    result = tried(merge, target, source)
    return result if isinstance(result, tuple) else None, target


TAKEN: dict[str, Callable[[Any], Any]] = {
    "dict": lambda m: tried(dict, m),
    "OrderedDict": lambda m: tried(OrderedDict, m),
    "**": lambda m: tried(lambda: named(**m)),
    "b=1, **": lambda m: tried(lambda: named(b=1, **m)),
    "{**}": lambda m: tried(lambda: {"z": 1, **m}),
    "dict.update": lambda m: into({"q": 1}, lambda d, m: d.update(m), m),
    "OrderedDict.update": lambda m: into(OrderedDict(q=1), lambda d, m: d.update(m), m),
    "dict |=": lambda m: into({"q": 1}, operator.ior, m),
    "OrderedDict |=": lambda m: into(OrderedDict(q=1), operator.ior, m),
    "OrderedDict |": lambda m: tried(operator.or_, OrderedDict(z=1), m),
    "| OrderedDict": lambda m: tried(operator.or_, m, OrderedDict(z=1)),
    "repr": lambda m: tried(repr, m) if isinstance(m, dict) else None,
    "copy": lambda m: tried(lambda: m.copy()) if isinstance(m, dict) else None,
}


@pytest.mark.parametrize("name", TAKEN)
def test_sources_that_raise_or_are_no_mappings(name: str) -> None:
    operation = TAKEN[name]

    def seen(wrap: Callable[..., Any], maker: Callable[[], Any]) -> Any:
        LOG.clear()
        kind, value = outcome(wrap(lambda x: (shown(operation(maker())), x + 1)), (torch.ones(1),), {})
        return kind, value[0] if kind == "returned" else repr(value), list(LOG)

    for number, maker in enumerate(ODD):
        framejit.reset()
        assert seen(lambda f: framejit.compile(f, backend="eager"), maker) == seen(lambda f: f, maker), number


class Output(OrderedDict[str, Any]):
    """As transformers' ModelOutput: items by name or by number, attributes kept beside the items, and no other way to change it."""

    def __init__(self, **fields: Any) -> None:
        super().__init__()
        for name, value in fields.items():
            if value is not None:
                self[name] = value

    def __getitem__(self, key: Any) -> Any:
        return dict(self.items())[key] if isinstance(key, str) else self.to_tuple()[key]

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.keys() and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def update(self, *args: Any, **kwargs: Any) -> None:
        raise Exception("no update")

    def to_tuple(self) -> tuple[Any, ...]:
        return tuple(self[key] for key in self.keys())


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_model_output_is_one_graph_with_its_gradient(backend: str) -> None:
    def program(x: torch.Tensor) -> Any:
        out = Output(logits=x * 2, loss=(x * x).sum(), past=None)
        scaled = {**out, "scale": 3}
        copied = Output(**dict(out))
        copied.loss = copied["loss"] * scaled["scale"]
        return named(**out)["logits"] + copied[1], copied, [name for name in out], len(out)

    framejit.reset()
    compiled = framejit.compile(program, backend=backend, fullgraph=True)
    x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    expected, got = program(x), compiled(y)
    assert torch.equal(expected[0], got[0]) and list(got[1]) == list(expected[1]) and got[2:] == expected[2:]
    assert torch.equal(got[1].loss, expected[1].loss) and got[1].loss is got[1]["loss"]
    expected[0].sum().backward()
    got[0].sum().backward()
    assert x.grad is not None and y.grad is not None and torch.equal(x.grad, y.grad)
    assert framejit.statistics()["graphs"] == 1
