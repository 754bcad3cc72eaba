"""Whatever traced code reads of an object that can change, or of a setting, is guarded or refused: the reads are found, not listed.

For objects of many kinds: each attribute that their type computes, and each function that framejit calls while tracing, models or replaces
(objects/core/registry.py), is read in a compiled function. Then the object is changed in each way that makes eager's answer another one.
"""

from __future__ import annotations

import abc
import collections
import dataclasses
import enum
import functools
import re
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import framejit
from framejit.objects.core import registry

x = torch.arange(6.0)


@pytest.fixture(autouse=True)
def the_compiler_is_loaded() -> None:
    framejit.compile(lambda t: t + 1, backend="eager")(x)


def told(value: Any, ids: bool, depth: int = 0) -> Any:
    """A value as it is now, comparable later. `ids`: which classes and functions it holds, rather than their names."""
    if type(value) in weakref.ProxyTypes:
        return "proxy", type(value).__name__  # which is made again each time, and says that it is of its object's class
    if isinstance(value, (int, float, complex, bytes, type(None))):
        return type(value).__name__, repr(value)
    if isinstance(value, str):
        return re.sub(r"0x[0-9a-f]+", "0x", value)
    if isinstance(value, types.BuiltinFunctionType):
        return "builtin", value.__name__  # a method is made again each time
    if isinstance(value, (type, types.FunctionType, types.ModuleType, types.CodeType)):
        return "identity", id(value) if ids else getattr(value, "__qualname__", type(value).__name__)
    if isinstance(value, torch.Tensor):
        return "tensor", value.tolist()
    if depth < 3 and isinstance(value, (dict, types.MappingProxyType)):
        return type(value).__name__, [(told(k, ids, depth + 1), told(v, ids, depth + 1)) for k, v in value.items()]
    if depth < 3 and isinstance(value, (list, tuple)):
        return type(value).__name__, [told(item, ids, depth + 1) for item in value]
    if depth < 3 and isinstance(value, (set, frozenset)):
        return type(value).__name__, sorted(map(str, (told(item, ids, depth + 1) for item in value)))
    return "a", type(value).__name__


def answer(read: Callable[..., Any], *args: Any, ids: bool = True) -> Any:
    """Return the value of a read in comparable form, or the type and text of the exception that it raises."""
    try:
        return told(read(*args), ids)
    except Exception as error:
        return type(error).__name__, re.sub(r"0x[0-9a-f]+", "0x", str(error))


# Objects.


def classes() -> tuple[Any, Any]:
    class Base1:
        """First."""

        z = 1

    class Base2:
        """Second."""

        y = 2

    class A(Base1):
        """Documented."""

        a: int = 1
        b = 2

        def method(self):
            return self.b

    class Other(Base2):
        a: str = ""
        c: int = 3

    return A, Other


def abstract_classes() -> tuple[Any, Any]:
    class Ab(abc.ABC):
        @abc.abstractmethod
        def m(self): ...

    class Cd(abc.ABC):
        b: int = 1

    return Ab, Cd


def functions() -> tuple[Any, Any]:
    def f(a, b=1, *, c=2):
        """Documented."""
        return (a, b, c)

    def g(a: int, b=5, *, c=7, d=8) -> str:
        return (c, b, a)

    f.extra = g.extra = 1
    return f, g


def lambdas_with_cells() -> tuple[Any, Any]:
    one, two = 1, 2
    return (lambda: one), (lambda: two)


def methods() -> tuple[Any, Any]:
    A, Other = classes()
    a, b = A(), A()
    b.b = 5
    return a.method, b.method


def instances() -> tuple[Any, Any]:
    A, Other = classes()
    a, b = A(), Other()
    a.own, b.own = 1, 2
    return a, b


def exceptions() -> tuple[Any, Any]:
    class Error(ValueError):
        code = 1

    class Worse(ValueError):
        code = 2

    e, w = Error(1, "two"), Worse("three")
    e.extra = w.extra = 1
    return e, w


def modules() -> tuple[Any, Any]:
    one, two = types.ModuleType("one", "First."), types.ModuleType("two", "Second.")
    one.value, two.value = 1, 2
    return one, two


def dataclasses_() -> tuple[Any, Any]:
    @dataclasses.dataclass
    class Point:
        a: int = 1
        b: list = dataclasses.field(default_factory=list)

    @dataclasses.dataclass
    class Wide:
        a: int = 2
        b: str = ""

    return Point(), Wide()


def named_tuples() -> tuple[Any, Any]:
    P, Q = collections.namedtuple("P", "a b"), collections.namedtuple("Q", "a c")
    return P, Q


def named_tuple_instances() -> tuple[Any, Any]:
    P, Q = named_tuples()
    return P(1, 2), Q(3, 4)


def members() -> tuple[Any, Any]:
    class Color(enum.Enum):
        RED = 1
        BLUE = 2

    return Color.RED, Color.BLUE


def partials() -> tuple[Any, Any]:
    f, g = functions()
    return functools.partial(f, 1), functools.partial(g, 2, b=3)


def container(kind: type, *args: Any) -> Callable[[], tuple[Any, Any]]:
    def make() -> tuple[Any, Any]:
        sub = type("Sub", (kind,), {"k": 1})
        return sub(*args), sub(*args)

    make.__name__ = f"a {kind.__name__} of a class of its own"
    return make


def plain(kind: type, *args: Any) -> Callable[[], tuple[Any, Any]]:
    def make() -> tuple[Any, Any]:
        return kind(*args), kind()

    make.__name__ = f"a {kind.__name__}"
    return make


def with_slots() -> tuple[Any, Any]:
    class Slotted:
        __slots__ = ("a", "b")

    one, two = Slotted(), Slotted()
    one.a, two.a, two.b = 1, 2, 3
    return one, two


def metaclasses() -> tuple[Any, Any]:
    class Meta(type):
        m = 1

        @property
        def shown(cls):
            return cls.__name__ + str(cls.m)

    class WithMeta(metaclass=Meta):
        pass

    class OtherMeta(metaclass=Meta):
        """Other."""

        q: int = 1

    return WithMeta, OtherMeta


def generic_aliases() -> tuple[Any, Any]:
    A, Other = classes()
    return list[A], dict[str, Other]


SUBJECTS = [
    classes, abstract_classes, metaclasses, functions, lambdas_with_cells, methods, instances, with_slots, exceptions, modules, dataclasses_, named_tuples,
    named_tuple_instances, members, partials, generic_aliases, plain(list, [1, 2]), plain(dict, {"a": 1}), plain(set, {1, 2}),
    plain(collections.deque, [1, 2], 5), plain(collections.OrderedDict, {"a": 1}), plain(collections.defaultdict, list, {"a": [1]}),
    container(list, [1, 2]), container(dict, {"a": 1}), container(set, {1, 2}), container(frozenset, {1, 2}), container(tuple, (1, 2)),
    container(collections.deque, [1, 2], 5), container(collections.OrderedDict, {"a": 1}), container(collections.defaultdict, list, {"a": [1]}),
    container(int, 3), container(str, "text"), container(float, 1.5), container(bytes, b"b"),
]  # fmt: skip


def text_of(thing: Any) -> str:
    return f"{thing} {thing!r} {thing!a}"


def class_chain(thing: Any) -> Any:
    cls = thing if isinstance(thing, type) else type(thing)
    return [*cls.__mro__, *cls.mro(), cls.__base__, cls.__bases__, cls.__name__, cls.__qualname__, cls.__module__, cls.__doc__]


def what_it_is_of(thing: Any) -> Any:
    cls = thing if isinstance(thing, type) else type(thing)
    return str(cls), repr(cls), cls.__dict__.get("a"), getattr(cls, "__annotations__", None), hasattr(cls, "y"), hasattr(cls, "z")


def names_on_the_way(thing: Any) -> Any:
    return thing.__class__.__name__, type(thing).__qualname__, [k for k in vars(thing)]


def calls(thing: Any) -> Any:
    return thing(1) if not isinstance(thing, type) else thing()


def is_abstract(thing: Any) -> Any:
    return bool(getattr(thing, "__abstractmethods__", None)), bool(thing.__flags__ & (1 << 20))


def in_an_error(thing: Any) -> Any:
    try:
        return thing.nothing_of_the_kind
    except AttributeError as error:
        return error.args


OWN_READS = [text_of, class_chain, what_it_is_of, names_on_the_way, calls, is_abstract, len, list, dict, bool, vars, dir]


def registered() -> list[Any]:
    """Every function that framejit calls while tracing, models or replaces, if it takes one argument."""
    found = [meaning.callable for meaning in registry.MEANINGS.values() if meaning.setter is None and meaning.rule is None]
    harmless = []
    for function in found:
        name = getattr(function, "__qualname__", getattr(function, "__name__", ""))
        module = getattr(function, "__module__", "") or ""
        if module.startswith(("torch", "framejit")) or "framejit" in name:
            continue  # they take tensors, or switch modes
        if re.search(r"__(set|del|i(?!nst|nt|ndex|nvert|ter)[a-z]+)__|__(enter|exit|init|new|setstate|setattr|delattr|setitem|delitem|set_name)", name):
            continue
        if name.rpartition(".")[2] in NOT_READS:
            continue
        harmless.append(function)
    return harmless


NOT_READS = frozenset({
    "clear", "pop", "popitem", "popleft", "sort", "reverse", "__next__", "next", "print", "input", "breakpoint", "exit", "exec", "eval", "open", "help",
    "super", "locals", "globals", "getrandbits",
})  # fmt: skip


def reads_of(thing: Any) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    for name in sorted({*dir(type(thing)), *dir(thing)} - {"__dict__", "__weakref__", "__flags__"}):
        yield f".{name}", lambda o, name=name: getattr(o, name)
    for function in (*OWN_READS, *(f for f in registered() if not raised(str(answer(f, thing))))):
        yield str(getattr(function, "__qualname__", function)), lambda o, function=function: function(o)


def changes_of(make: Callable[[], tuple[Any, Any]]) -> Iterator[tuple[str, Callable[[Any, Any], None]]]:
    """Ways to change an object, by what its sibling has; each gets an object and its sibling anew."""

    def put(owner: Callable[[Any], Any], name: str) -> Callable[[Any, Any], None]:
        return lambda thing, other: setattr(owner(thing), name, getattr(owner(other), name))

    def text(owner: Callable[[Any], Any], name: str) -> Callable[[Any, Any], None]:
        return lambda thing, other: setattr(owner(thing), name, "Changed")

    def inside(owner: Callable[[Any], Any], name: str) -> Callable[[Any, Any], None]:
        def change(thing: Any, other: Any) -> None:
            value = getattr(owner(thing), name)
            if isinstance(value, dict):
                value["added"] = 1
            elif isinstance(value, (list, collections.deque)):
                value.append(1)
            elif isinstance(value, set):
                value.add("added")
            else:
                raise TypeError

        return change

    def drop(owner: Callable[[Any], Any], name: str) -> Callable[[Any, Any], None]:
        return lambda thing, other: delattr(owner(thing), name)

    def grow(thing: Any, other: Any) -> None:
        for method, args in (("append", (9,)), ("add", (9,)), ("update", ({"new": 9},))):
            if hasattr(thing, method) and not isinstance(thing, type):
                getattr(thing, method)(*args)
                return
        raise TypeError

    owners: dict[str, Callable[[Any], Any]] = {"": lambda thing: thing, "type().": type, "func.": lambda thing: thing.func}
    yield "grow", grow
    thing, _ = make()
    for prefix, owner in owners.items():
        owned = owner(thing) if prefix != "func." or hasattr(thing, "func") else None
        if owned is None or (isinstance(owned, type) and owned.__module__ != __name__):
            continue  # nothing that others use
        for name in sorted({*dir(owned), *dir(type(owned))} - {"__class__"}):
            if name in LEFT_ALONE:
                continue
            for how, change in (("=", put), ("= text", text), ("inside", inside), ("del", drop)):
                if change is not text or name in TEXTS:
                    yield f"{prefix}{name} {how}", change(owner, name)


def differing(make: Callable[[], tuple[Any, Any]]) -> Iterator[tuple[str, str, Callable[[Any], Any], Callable[[Any, Any], None]]]:
    """(read, change) for which eager's answer is another one after the change. A few changes for each read."""
    reads = dict(reads_of(make()[0]))
    found: dict[str, set[str]] = collections.defaultdict(set)
    for name, change in changes_of(make):
        thing, other = make()
        try:
            change(thing, other)
        except Exception:
            continue
        thing, other = make()
        before = {label: answer(read, thing, ids=False) for label, read in reads.items()}
        before = {label: first for label, first in before.items() if answer(reads[label], thing, ids=False) == first}
        change(thing, other)
        for label, first in before.items():
            after = str(answer(reads[label], thing, ids=False))
            if raised(after) and raised(str(first)):
                continue  # messages
            if after != str(first) and after not in found[label] and len(found[label]) < MOST_CHANGES:
                found[label].add(after)
                yield label, name, reads[label], change


def raised(told: str) -> bool:
    return "Error'" in told[:40]


MOST_CHANGES = 2
TEXTS = ("__name__", "__qualname__", "__module__", "__doc__")
LEFT_ALONE = ("__getattribute__", "__setattr__", "__delattr__", "__new__", "__init__", "__dir__", "__iter__", "__reversed__", "keys")
"""What no program survives; an OrderedDict's own `keys`, which C code asks the instance for; the iterators of enum classes, which are of another type."""


@pytest.mark.parametrize("make", SUBJECTS, ids=lambda make: make.__name__)
def test_what_is_read_of_an_object_is_read_again(make):
    wrong, pairs = [], 0
    for label, name, read, change in differing(make):
        thing, other = make()

        def program(t, thing=thing, read=read):
            return t + 1, read(thing)

        def result(fn):
            return answer(lambda: fn(x)[1])

        pairs += 1
        framejit.reset()
        compiled = framejit.compile(program, backend="eager", isolate_recompiles=True)
        answers = [(result(program), result(compiled))]
        change(thing, other)
        answers += [(result(program), result(compiled)), (result(program), result(compiled))]
        if any(eager != ours for eager, ours in answers):
            wrong.append(f"{label} after {name}: {answers}")
    assert not wrong, "\n".join(wrong)
    assert pairs or make.__name__ in NOTHING_TO_CHANGE


NOTHING_TO_CHANGE = {"methods", "generic_aliases", "a list"}
