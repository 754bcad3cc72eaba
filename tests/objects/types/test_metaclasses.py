"""Tracing runs no code of a metaclass: what a class is, is read past it. Every hook call is recorded, and calls come as often as they do in eager."""

from __future__ import annotations

import abc
import collections
import copy
import dataclasses
import operator
import sys
import typing
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import agree_in_text, tried

import framejit

CALLS: list[str] = []
ANSWERS: dict[str, Any] = {
    "__bool__": True, "__len__": 3, "__getitem__": 5, "__contains__": True, "__iter__": (), "__or__": NotImplemented, "__ror__": NotImplemented,
    "__lt__": NotImplemented, "__gt__": NotImplemented, "__add__": NotImplemented, "__radd__": NotImplemented,
}  # fmt: skip
"""What hooks answer that `type` doesn't have."""
LOOKS = (
    "__getattribute__", "__getattr__", "__eq__", "__ne__", "__repr__", "__str__", "__format__", "__dir__", "__instancecheck__", "__subclasscheck__",
    "__call__", "mro", "__subclasses__", "__hash__",
)  # fmt: skip
COMPARED = ("__hash__", "__eq__")
MADE_WHEN_NEEDED = sys.version_info >= (3, 14)
"""True if annotations of a class are made when they are first asked for, which splits the graph for a class that the trace makes."""


def hook(name: str) -> Callable[..., Any]:
    """A method of a metaclass that records its call and then does what `type` does."""
    own = getattr(type, name, None)

    def recorded(cls: type, *args: Any, **kwargs: Any) -> Any:
        CALLS.append(name)
        if name == "__getattr__":
            raise AttributeError(args[0])
        if own is None or name in ANSWERS:
            return iter(()) if name == "__iter__" else ANSWERS[name]
        return own(cls, *args, **kwargs)

    return recorded


def class_with(*hooks: str) -> type:
    """A class whose metaclass has these hooks."""
    meta = type("Meta", (type,), {name: hook(name) for name in hooks})
    return meta("Made", (), {"number": 2, "method": lambda self: self.number})


class Holder:
    pass


class Pair(typing.NamedTuple):
    first: Any
    second: Any


def message(call: Callable[[], Any]) -> str:
    try:
        call()
    except (TypeError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def matched(value: Any) -> int:
    match value:
        case int():
            return 1
        case Holder():
            return 2
        case _:
            return 3


def after_break(x: Any, value: Any) -> Any:
    y = x + 1
    framejit.graph_break()
    return y, value is None


def with_attribute(x: Any, cls: Any) -> Any:
    made = cls()
    made.y = x + cls.number
    return made.y


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "make": lambda x, cls: (cls(), x + 1)[1],
    "method": lambda x, cls: x + cls().method(),
    "attribute": lambda x, cls: x + cls.number,
    "store": with_attribute,
    "no attribute": lambda x, cls: message(lambda: cls.nothing),
    "no attribute of an instance": lambda x, cls: message(lambda: cls().nothing),
    "default": lambda x, cls: getattr(cls, "nothing", 3),
    "isinstance": lambda x, cls: (isinstance(x, cls), isinstance(cls(), cls), isinstance(3, (cls, int))),
    "issubclass": lambda x, cls: (issubclass(int, cls), issubclass(cls, cls), issubclass(cls, (int, str))),
    "is a type": lambda x, cls: (isinstance(cls, type), callable(cls), type(cls()) is cls),
    "abstract classes": lambda x, cls: (isinstance(cls(), collections.abc.Sized), issubclass(cls, collections.abc.Iterable)),
    "union": lambda x, cls: (isinstance(3, cls | int), isinstance("", int | cls)),
    "generic": lambda x, cls: (list[cls] == list[int], (list[cls] | list[int], 1)[1]),
    "typing": lambda x, cls: (typing.Optional[cls] is None, typing.Union[cls, int] == typing.Union[int, cls]),
    "equal": lambda x, cls: (cls == int, cls != int, cls == cls),
    "truth": lambda x, cls: 1 if cls else 2,
    "in": lambda x, cls: (cls in (int, str), cls in [int, cls], cls in {int: 1}, int in [cls]),
    "key": lambda x, cls: {cls: 1}[cls],
    "set": lambda x, cls: len({cls, int}) + len(frozenset([cls])),
    "containers": lambda x, cls: ((cls, 1) == (int, 1), [cls, 1] == [cls, 2], {1: cls} == {1: int}),
    "search": lambda x, cls: ([cls, int].count(int), [int, cls].index(cls), (int, cls).index(cls)),
    "text": lambda x, cls: (repr([cls]) != "", f"{cls}" != "", "%s" % (cls,) != "", repr(list[cls]) != ""),
    "name": lambda x, cls: (cls.__name__, cls.__module__, type(cls()).__qualname__),
    "operator error": lambda x, cls: message(lambda: cls() + 1),
    "call error": lambda x, cls: message(lambda: cls()()),
    "argument error": lambda x, cls: message(lambda: cls(1)),
    "length error": lambda x, cls: message(lambda: len(cls())),
    "raised": lambda x, cls: message(lambda: operator.index(cls())),
    "match": lambda x, cls: matched(cls()),
    "super": lambda x, cls: super(cls, cls()).__init__(),
    "instances": lambda x, cls: (cls() == cls(), bool(cls()), hash(cls()) == 0),
    "graph break": lambda x, cls: after_break(x, cls),
    "graph break with an instance": lambda x, cls: after_break(x, cls()),
    "torch": lambda x, cls: torch.cat([x + cls.number, x]),
    "named tuple": lambda x, cls: (Pair(cls, 1).first is cls, Pair(cls, 1) == Pair(int, 1)),
    "deepcopy": lambda x, cls: copy.deepcopy({"cls": cls})["cls"] is cls,
    "default factory": lambda x, cls: type(collections.defaultdict(cls)[3]) is cls,
    "result": lambda x, cls: (x + 1, cls, [cls]),
}  # fmt: skip


@pytest.mark.parametrize("hooks", [LOOKS, COMPARED, tuple(ANSWERS), ("__getattribute__",)], ids=["looks", "compared", "operators", "getattribute"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_hooks_run_as_in_eager(name: str, hooks: tuple[str, ...]) -> None:
    if name == "abstract classes" and "__hash__" in hooks:
        hooks = ("__getattribute__",)  # how often a set of abc's compares depends on the addresses
    program = PROGRAMS[name]
    x = torch.ones(2)

    def calls_of(function: Callable[..., Any], cls: type) -> tuple[Any, list[str]]:
        CALLS.clear()
        result = function(x, cls)
        calls = list(CALLS)
        CALLS.clear()
        return len(repr(result)), calls

    compiled = framejit.compile(program, backend="eager")
    for_eager, for_compiled = class_with(*hooks), class_with(*hooks)  # caches of abc and typing know a class that they have seen
    for _ in range(3):
        assert calls_of(compiled, for_compiled) == calls_of(program, for_eager)


def test_unhashable_classes() -> None:
    """A metaclass with `__eq__` and no `__hash__` makes classes that no dict takes as keys: framejit's own don't, either."""
    class Meta(type):
        def __eq__(cls, other: Any) -> Any:
            CALLS.append("__eq__")
            return NotImplemented

    class Unhashable(metaclass=Meta):
        number = 3

        def method(self, x: Any) -> Any:
            return x * self.number

    @framejit.compile(backend="eager")
    def f(x: Any, made: Any) -> Any:
        fresh = Unhashable()
        return made.method(x) + fresh.method(x) + Unhashable.number, isinstance(made, Unhashable)

    CALLS.clear()
    for _ in range(2):
        assert f(torch.ones(2), Unhashable())[0].tolist() == [9.0, 9.0]
    assert CALLS == []


class Recorded(tuple):
    """A tuple that C code may ask for a number."""

    def __float__(self) -> float:
        CALLS.append("__float__")
        return 4.0


def test_conversions_of_containers() -> None:
    """A tuple that converts to a number by Python code is no constant to give to a C function while tracing."""
    CALLS.clear()
    f = framejit.compile(lambda x, pair: x + operator.truediv(float(pair), 2), backend="eager")
    for _ in range(2):
        assert f(torch.ones(1), Recorded((1, 2))).tolist() == [3.0]
    assert CALLS == ["__float__"] * 2


class Number(int):
    """An int that sees all that is read of it."""

    def __getattribute__(self, name: str) -> Any:
        CALLS.append(name)
        return super().__getattribute__(name)


class Table(dict):
    def __getattribute__(self, name: str) -> Any:
        CALLS.append(name)
        return super().__getattribute__(name)


class Viewed(torch.Tensor):
    def __getattribute__(self, name: str) -> Any:
        CALLS.append(name)
        return super().__getattribute__(name)


@pytest.mark.parametrize("value", [Number(3), Table(a=1), torch.ones(2).as_subclass(Viewed)], ids=["int", "dict", "tensor"])
def test_instances_are_not_asked_for_their_class(value: Any) -> None:
    """`isinstance` would ask a value for its `__class__`, which its `__getattribute__` sees."""

    def f(x: Any, value: Any) -> Any:
        y = x + 1
        return y, value is None, [value]

    compiled = framejit.compile(f, backend="eager")
    for _ in range(2):
        CALLS.clear()
        compiled(torch.ones(2), value)
        compiled(torch.ones(3), value)
        assert CALLS == []


class Noting(dict[str, Any]):
    """A namespace that notes what is asked for and stored, in upper case."""

    def __setitem__(self, name: str, value: Any) -> None:
        self.__dict__.setdefault("noted", []).append(name)
        super().__setitem__(name.upper() if not name.startswith("_") else name, value)

    def __missing__(self, name: str) -> Any:
        if name.startswith("made"):
            return name
        raise KeyError(name)


class Prepared(type):
    """The body of its classes runs in such a namespace, and stores on them are checked."""

    @classmethod
    def __prepare__(meta, name: str, bases: tuple[type, ...], **kwargs: Any) -> Any:
        return Noting()

    def __new__(meta, name: str, bases: tuple[type, ...], namespace: Any) -> Any:
        cls = super().__new__(meta, name, bases, dict(namespace))
        cls.noted = namespace.noted
        return cls

    def __setattr__(cls, name: str, value: Any) -> None:
        if name == "closed":
            raise AttributeError(name)
        super().__setattr__(name, (value, "set") if name == "open" else value)

    def __delattr__(cls, name: str) -> None:
        super().__delattr__(name.upper())


def test_a_namespace_that_the_metaclass_makes_sees_the_stores() -> None:
    def made(x: torch.Tensor) -> Any:
        class Held(metaclass=Prepared):
            size: int = 3
            other = made_here + str(len("ab"))  # noqa: F821
            def method(self): return self.SIZE

        def missing():
            class Bad(metaclass=Prepared):
                size = absent  # noqa: F821

        Held.open = 1
        del Held.other
        return x + Held().METHOD(), vars(Held).keys(), Held.noted, Held.open, tried(setattr, Held, "closed", 1), tried(delattr, Held, "lost"), tried(missing)

    framejit.reset()
    agree_in_text(made, torch.ones(2))
    assert framejit.statistics()["graph_breaks"] == 0


def test_attributes_that_are_deleted_and_set_again_come_last() -> None:
    def made(x: torch.Tensor) -> Any:
        class Held:
            a, b, c = 1, 2, 3

        Held.d = 4
        del Held.a, Held.d
        Held.e = 5
        Held.a, Held.d = 6, 7
        del Held.e
        before = [name for name in vars(Held) if len(name) == 1]
        return x, before, Held

    framejit.reset()
    compiled = framejit.compile(made, backend="eager", fullgraph=True)
    for run in (made, compiled, compiled):
        _, before, cls = run(torch.ones(2))
        assert before == [name for name in vars(cls) if len(name) == 1] == ["b", "c", "a", "d"]
        assert (cls.a, cls.b, cls.c, cls.d) == (6, 2, 3, 7) and not hasattr(cls, "e")


def test_deleting_a_name_from_such_a_namespace_gives_the_result_of_eager() -> None:
    def made(x: torch.Tensor) -> Any:
        class Held(metaclass=Prepared):
            _size = 3
            del _size

        return x + 1, vars(Held).keys()

    framejit.reset()
    compiled = framejit.compile(made, backend="eager")
    assert list(compiled(torch.ones(2))[1]) == list(made(torch.ones(2))[1])


def test_an_error_of_telling_an_attribute_its_name_is_that_of_eager() -> None:
    class Refusing:
        def __set_name__(self, owner: type, name: str) -> None:
            raise KeyError(name)

    def made(x: torch.Tensor) -> Any:
        try:
            class Held:
                a = Refusing()
        except Exception as error:
            notes = getattr(error, "__notes__", None)
            return x, repr(error), repr(error.__cause__), repr(error.__context__), error.__suppress_context__, notes

    framejit.reset()
    agree_in_text(made, torch.ones(2))
    assert framejit.statistics()["graph_breaks"] == 0


def test_annotations_and_names_of_a_class_that_is_made_are_set() -> None:
    def made(x: torch.Tensor) -> Any:
        class Held:
            pass

        class Noted:
            size: int

        same = Held.__annotations__ is Held.__annotations__
        Held.__annotations__["other"] = float
        Noted.__annotations__ = {"kind": str}
        Noted.__qualname__, Noted.__name__ = "Outer.Changed", "Changed"
        return x, same, Held.__annotations__, Noted.__annotations__, list(vars(Noted)), Noted.__qualname__, repr(Noted), Held, Noted

    framejit.reset()
    compiled = framejit.compile(made, backend="eager", fullgraph=not MADE_WHEN_NEEDED)
    for run in (compiled, compiled):
        expected, found = made(torch.ones(2)), run(torch.ones(2))
        assert repr(found) == repr(expected)
        for cls, like in zip(found[-2:], expected[-2:], strict=True):
            assert cls.__annotations__ == like.__annotations__ and cls.__name__ == like.__name__ and list(vars(cls)) == list(vars(like))


def test_a_dataclass_with_slots_is_made() -> None:
    def made(x: torch.Tensor) -> Any:
        @dataclasses.dataclass(slots=True)
        class Point:
            x: int
            y: int = 3

        return x, Point(2), Point.__slots__, Point.__qualname__, Point(1) == Point(1, 3)

    framejit.reset()
    agree_in_text(made, torch.ones(2))
    assert framejit.statistics()["graph_breaks"] == 0 or MADE_WHEN_NEEDED


class Settled(abc.ABC):
    """Its subclasses get attributes before their abstract methods are found."""

    def __init_subclass__(cls) -> None:
        cls.extra, cls.found = 5, lambda self: 6  # type: ignore[attr-defined]

    @abc.abstractmethod
    def go(self) -> int: ...

    def found(self) -> int:
        return 0


class Filled(abc.ABC):
    def __init_subclass__(cls) -> None:
        cls.go = lambda self: 7  # type: ignore[method-assign]

    @abc.abstractmethod
    def go(self) -> int: ...


def test_abstract_methods_of_classes_that_are_changed_before_they_are_found() -> None:
    def made(x: torch.Tensor) -> Any:
        class Open(Settled): ...
        class Closed(Settled):
            def go(self) -> int: return 1
        class Full(Filled): ...
        return x, tried(Open), Closed().go(), Closed().found(), Closed.extra, Full().go(), sorted(Open.__abstractmethods__), Full.__abstractmethods__

    framejit.reset()
    agree_in_text(made, torch.ones(2))


def test_a_protocol_that_is_made() -> None:
    def made(x: torch.Tensor) -> Any:
        class Sized(typing.Protocol):
            size: int
            def grow(self) -> int: ...

        class Box(Sized):
            size = 3

        return x, Box().size, tried(Sized), sorted(Sized.__abstractmethods__)

    framejit.reset()
    agree_in_text(made, torch.ones(2))


def test_deleting_a_slot_of_a_class_that_is_made() -> None:
    def made(x: torch.Tensor) -> Any:
        class Held:
            __slots__ = ("first", "second")

        del Held.first
        return x, hasattr(Held, "first"), list(vars(Held)), Held

    framejit.reset()
    compiled = framejit.compile(made, backend="eager", fullgraph=True)
    expected, found = made(torch.ones(2)), compiled(torch.ones(2))
    assert found[1:3] == expected[1:3] and list(vars(found[3])) == list(vars(expected[3]))


def test_names_that_a_class_refuses() -> None:
    def made(x: torch.Tensor) -> Any:
        class Held: ...
        return x, [tried(setattr, Held, "__name__", name) for name in ("a\0", "\udcdc", "a.b")], Held.__name__, Held.__qualname__

    framejit.reset()
    agree_in_text(made, torch.ones(2))
    assert framejit.statistics()["graph_breaks"] == 0
