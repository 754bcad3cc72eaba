"""Generated calls of every function that framejit has a model of, or a stand-in for, or calls on constants while tracing."""

from __future__ import annotations

import collections
import itertools
import random
import re
import types
from collections.abc import Callable, Iterator
from typing import Any

from framejit.compiler import compile
from framejit.objects.core import registry

assert compile  # which fills the registry

MODULES = (
    "_collections", "_functools", "_heapq", "_operator", "builtins", "collections", "functools", "itertools", "math", "math.integer", "cmath", "operator",
    "typing", "types", "re",
)  # fmt: skip
"""The modules whose functions are called: those that need no tensors."""

OUTSIDE = {"input", "breakpoint", "print", "open", "exec", "eval", "locals", "globals", "vars", "dir", "super", "__import__", "hash", "__hash__", "id"}
"""Functions that depend on the frame that they are called in, or on the outside world."""


class Int(int):
    pass


class Str(str):
    pass


class List(list):
    pass


class Dict(dict):
    pass


class Index:
    def __index__(self) -> int:
        return 1


class Plain:
    kind = 1

    def method(self, a: Any = 1) -> Any:
        return a


def function(*args: Any) -> Any:
    return args


def key(value: Any) -> Any:
    return value


def fails(*args: Any) -> Any:
    raise LookupError("fails")


def generator() -> Iterator[int]:
    yield 1
    yield 2


VALUES: list[Callable[[], Any]] = [
    lambda: None, lambda: True, lambda: False, lambda: 0, lambda: 1, lambda: -1, lambda: 3, lambda: 1 << 70, lambda: 0.0, lambda: 2.5, lambda: float("nan"),
    lambda: float("inf"), lambda: 1j, lambda: "", lambda: "a", lambda: "ab", lambda: "12", lambda: "é{}%s", lambda: b"", lambda: b"ab", lambda: (),
    lambda: (1,), lambda: (2, 1), lambda: ("a", "b"), lambda: [], lambda: [3, 1, 2], lambda: [(1, 2), (3, 4)], lambda: ["a", "b"], lambda: {},
    lambda: {"a": 1, "b": 2}, lambda: {1: "x"}, lambda: set(), lambda: {1, 2}, lambda: frozenset({1}), lambda: range(3), lambda: range(0), lambda: Int(2),
    lambda: Str("a"), lambda: List([1, 2]), lambda: Dict(a=1), lambda: Index(), lambda: Plain(), lambda: slice(1, None), lambda: ..., lambda: NotImplemented,
    lambda: function, lambda: key, lambda: fails, lambda: len, lambda: int, lambda: str, lambda: list, lambda: Plain, lambda: iter([1, 2]), lambda: iter(()),
    lambda: generator(), lambda: collections.deque([1, 2]), lambda: collections.OrderedDict(a=1), lambda: collections.defaultdict(list),
    lambda: ValueError("v"), lambda: itertools.count(1), lambda: map(key, [1, 2]), lambda: bytearray(b"ab"), lambda: object(),
]  # fmt: skip
"""Makers of arguments: each makes a value of a different kind, to which functions respond differently."""

BIG = 7
ENDLESS = {i for i, make in enumerate(VALUES) if type(make()) is itertools.count}
WORDS = ("key", "default", "reverse", "start", "initial", "r", "n", "repeat", "maxlen", "func", "strict", "nonsense", "end", "sep", "fillvalue", "base", "mod")


def receivers(owner: type) -> list[Callable[[], Any]]:
    """Return the makers of values that are instances of this class, whose methods they can receive."""
    return [make for make in VALUES if isinstance(make(), owner)]


def module_of(real: Any) -> str:
    owner = owner_of(real)
    found = getattr(owner, "__module__", None) if owner is not None else getattr(real, "__module__", None)
    return found or type(getattr(real, "__self__", None)).__module__


def owner_of(real: Any) -> type | None:
    """Return the class that a method belongs to; None for a function."""
    found = getattr(real, "__objclass__", None)
    if found is None and isinstance(getattr(real, "__self__", None), type):
        found = real.__self__
    return found


def name_of(real: Any) -> str:
    owner = owner_of(real)
    prefix = f"{owner.__module__}.{owner.__qualname__}" if owner is not None else module_of(real)
    return f"{prefix}.{getattr(real, '__name__', real)}"


def known_functions() -> dict[str, Any]:
    """Return all functions to call, by name."""
    found = [meaning.callable for meaning in registry.MEANINGS.values() if meaning.setter is None and meaning.rule is None]
    for cls in registry.PURE_TYPES:
        found += [each for each in vars(cls).values() if isinstance(each, (types.MethodDescriptorType, types.WrapperDescriptorType))]
    chosen = {}
    for real in found:
        if callable(real) and not isinstance(real, types.FunctionType) and module_of(real) in MODULES and getattr(real, "__name__", "") not in OUTSIDE:
            chosen[name_of(real)] = real
    return dict(sorted(chosen.items()))


def calls_of(real: Any, count: int, seed: int) -> list[tuple[list[Callable[[], Any]], dict[str, Callable[[], Any]]]]:
    """Return makers of random positional and keyword arguments for `count` calls of a function."""
    draw = random.Random(f"{seed} {name_of(real)}")
    owner = owner_of(real)
    own = receivers(owner) if isinstance(owner, type) and not isinstance(real, types.BuiltinFunctionType) else []
    name = getattr(real, "__name__", "")
    endless = name not in ("islice", "count", "type", "isinstance", "callable", "len", "getattr", "hasattr", "next", "iter")
    values = [make for i, make in enumerate(VALUES) if not (endless and i in ENDLESS) and not (i == BIG and "pow" in name)]
    made = []
    for number in range(count):
        args = [draw.choice(values) for _ in range(draw.choice((0, 1, 1, 1, 2, 2, 2, 3, 3, 4)) if number else 0)]
        if own and draw.random() < 0.95:
            args = [draw.choice(own), *args[: draw.choice((0, 1, 1, 2, 3))]]
        named = {}
        if draw.random() < 0.25:
            named = {draw.choice(WORDS): draw.choice(values)}
        made.append((args, named))
    return made


ADDRESS = re.compile(" at 0x[0-9a-f]+")


def portrait(value: Any, depth: int = 0) -> Any:
    """Return everything of a value that can be compared: types, text, and the next items of iterators."""
    cls = type(value)
    if cls in (list, tuple, List, collections.deque) and depth < 3:
        return cls.__qualname__, [portrait(item, depth + 1) for item in value]
    if isinstance(value, dict) and depth < 3:
        return cls.__qualname__, [(portrait(a, depth + 1), portrait(b, depth + 1)) for a, b in dict.items(value)]
    if isinstance(value, BaseException):
        return cls.__qualname__, value.args and portrait(value.args, depth + 1), ADDRESS.sub("", str(value))
    if hasattr(cls, "__next__"):
        items: list[Any] = []
        try:
            for item in itertools.islice(value, 6):
                items.append(portrait(item, depth + 1))
        except Exception as error:
            items.append(portrait(error))
        return cls.__qualname__, items
    if isinstance(value, (set, frozenset)):
        return cls.__qualname__, sorted(repr(portrait(item, depth + 1)) for item in value)
    text = object.__repr__(value) if isinstance(value, (Plain, Index)) else repr(value)
    return cls.__qualname__, ADDRESS.sub("", text)


def attempt(function: Any, args: Any, named: Any) -> Any:
    """Call a function. Return its result, the exception's type, text and arguments, or the first items if the result is an iterator."""
    try:
        result = function(*args, **named)
    except Exception as error:
        return type(error), str(error), error.args
    if not hasattr(type(result), "__next__"):
        return result
    items: list[Any] = [type(result)]
    try:
        for item in result:
            items.append(item)
            if len(items) > 4:
                break
    except Exception as error:
        items.append((type(error), str(error)))
    return items


def shown(args: Any, named: Any) -> str:
    """Return the arguments as text, for messages."""
    return ", ".join([f"{make()!r:.60}" for make in args] + [f"{name}={make()!r:.60}" for name, make in named.items()])
