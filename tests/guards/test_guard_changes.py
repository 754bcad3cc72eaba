"""Guards, Python's side: whatever of arguments, functions, classes and globals a result depends on, its change is noticed."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import math
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import torch
from change_kinds import Kind
from neighbours import Beside
from scenarios import AFRESH, BACK, EITHER, NEW, NEW_UNSEEN, OTHER, SAME, Table, each, play, start, start_as_written

import framejit

table = Table()
scenario = table.scenario
x = torch.arange(6.0).reshape(2, 3)
SCALE: Any = 2
UNRELATED: Any = 0
TABLE: Any = {"a": 1, "b": 2}
ITEMS: Any = [1, 2]


@pytest.fixture(autouse=True)
def globals_as_they_were() -> Iterator[None]:
    names = ("SCALE", "UNRELATED", "TABLE", "ITEMS", "helper", "math")
    before = {name: globals()[name] for name in names}
    TABLE.update(a=1, b=2)
    ITEMS[:] = [1, 2]
    yield
    globals().update(before)


# ---- arguments ----


@scenario(Kind.VALUE_OF_AN_ARGUMENT)
def value_of_an_int():
    f = lambda t, n: t + n if n > 2 else t - n
    yield start(f, x, 1)
    yield NEW.of(x, 3)
    yield BACK.of(x, 1)
    yield NEW_UNSEEN.of(x, True)
    yield NEW_UNSEEN.of(x, 1.0)


@scenario(Kind.VALUE_OF_AN_ARGUMENT)
def key_of_a_lookup():
    table = {"a": torch.ones(2, 3), "b": torch.zeros(2, 3), "c": torch.ones(1), "n": 2, True: torch.full((2, 3), 7.0)}
    yield start(lambda t, d, key: t + d[key], x, table, "a")
    yield OTHER.of(x, table, "b")
    yield NEW.of(x, table, "c")
    yield NEW.of(x, table, "n")
    yield BACK.of(x, table, "a")
    yield NEW.of(x, table, 1)
    table["a"], table["b"] = table["b"], table["a"]
    yield BACK.of(x, table, "a")


@scenario(Kind.VALUE_OF_AN_ARGUMENT)
def value_of_a_float():
    yield start(lambda t, v: t / v, x, 1.0)
    yield NEW.of(x, 2.0)
    yield NEW.of(x, -0.0)
    yield NEW.of(x, 0.0)
    yield BACK.of(x, -0.0)
    yield NEW.of(x, math.nan)
    yield BACK.of(x, math.nan)


@scenario(Kind.VALUE_OF_AN_ARGUMENT)
def value_of_a_string():
    yield start(lambda t, how: t + 1 if how == "up" else t - 1, x, "up")
    yield NEW.of(x, "down")
    yield BACK.of(x, "u" + "p")


@scenario(Kind.VALUE_OF_AN_ARGUMENT)
def value_of_a_bool():
    yield start(lambda t, flag: t + 1 if flag else t, x, True)
    yield NEW.of(x, False)
    yield BACK.of(x, True)


@scenario(Kind.VALUE_OF_AN_ARGUMENT)
def none_or_a_tensor():
    yield start(lambda t, other: t if other is None else t + other, x, None)
    yield NEW.of(x, x)
    yield BACK.of(x, None)


@scenario(Kind.PASSED_ON)
def an_argument_that_is_only_passed_on():
    yield start(lambda t, other: (t + 1, other), x, 1)
    yield OTHER.of(x, 2)
    yield OTHER.of(x, "text")
    yield OTHER.of(x, None)
    yield OTHER.of(x, [1])


@scenario(Kind.PASSED_ON)
def an_argument_that_is_not_used():
    yield start(lambda t, other: t + 1, x, 1)
    yield SAME.of(x, [3])
    yield SAME.of(x, None)


@scenario(Kind.LIST_OR_TUPLE)
def length_of_a_list():
    yield start(lambda items, beside: sum(items) + beside[0], [x, x + 2], [1])
    yield SAME.of([x, x + 2], [1, 2])
    yield NEW.of([x, x, x], [1])
    yield BACK.of([x + 1, x], [1])


@scenario(Kind.LIST_OR_TUPLE)
def type_of_an_item():
    yield start(lambda items: items[0] * 2, [x, x])
    yield SAME.of([x, 3])
    yield NEW.of([3, 3])
    yield NEW.of([2.5])


@scenario(Kind.LIST_OR_TUPLE)
def one_item_of_a_list():
    """Whatever comes behind it: the list grows with each call, too."""

    def f(t, items):
        before = items[1]
        items.append(t)
        return t * items[1], before is items[1]

    yield start(f, x, [1, 2])
    yield SAME.of(x, [5, 2])
    yield SAME.of(x, [1, 2, 3])
    yield NEW.of(x, [1, 3])
    yield NEW.of(x, [1])  # it raises
    yield BACK.of(x, [1, 2, "text"])


@scenario(Kind.LIST_OR_TUPLE)
def one_item_of_a_tuple():
    yield start(lambda t, items: t * items[1], x, (1, 2))
    yield SAME.of(x, (5, 2, 3))
    yield NEW.of(x, (1, 3))
    yield NEW.of(x, (1,))  # it raises
    yield BACK.of(x, (None, 2))


@scenario(Kind.LIST_OR_TUPLE)
def whether_a_list_or_a_tuple_is_empty():
    yield start(lambda t, items: t + 1 if items else t, x, [1])
    yield SAME.of(x, [2, 3])
    yield NEW.of(x, [])
    yield NEW_UNSEEN.of(x, ())
    yield NEW.of(x, (1,))
    yield SAME.of(x, (2, 3))
    yield BACK.of(x, [None])


@scenario(Kind.DICT)
def whether_a_dict_is_empty():
    d = {"a": 1}
    yield start(lambda t, d: t + 1 if d else t, x, d)
    d["b"] = d.pop("a")
    yield SAME
    d[(1, x)] = d
    del d["b"]
    yield SAME
    d.clear()
    yield NEW
    d["b"] = 3
    yield BACK


@scenario(Kind.LIST_OR_TUPLE)
def a_list_or_a_tuple():
    f = lambda items: (items[0] + 1, isinstance(items, list))
    yield start(f, [x])
    yield SAME.of([x, 3])
    yield NEW.of((x,))
    yield BACK.of([x])


@scenario(Kind.DICT, looks_at={Beside.KEY: "it goes through all keys"})
def keys_of_a_dict():
    f = lambda d, beside: [d[key] * i + beside["a"] for i, key in enumerate(d)]
    yield start(f, {"a": x, "b": x + 1}, {"a": 1})
    yield SAME.of({"a": x, "b": x + 1}, {"b": 2, "a": 1})
    yield NEW.of({"b": x + 1, "a": x}, {"a": 1})
    yield NEW.of({"a": x, "c": x + 1}, {"a": 1})
    yield BACK.of({"b": x + 1, "a": x}, {"a": 1})


@scenario(Kind.DICT)
def one_key_of_a_dict():
    f = lambda d: d["a"] + d.get("z", 0)
    yield start(f, {"a": x})
    yield SAME.of({"b": 1, "a": x})
    yield NEW.of({"a": x, "z": 4})
    yield BACK.of({"a": x})


@scenario(Kind.CALL_SHAPE)
def how_many_further_arguments():
    yield start(lambda *items: sum(items), x, x)
    yield NEW.of(x, x, x)
    yield NEW.of(x)
    yield BACK.of(x, x)


@scenario(Kind.CALL_SHAPE)
def names_of_further_keywords():
    yield start(lambda **named: sum(value * len(key) for key, value in named.items()), a=x, bb=x)
    yield NEW.of(a=x, bbb=x)
    yield NEW.of(a=x)
    yield BACK.of(a=x, bb=x)


@scenario(Kind.CALL_SHAPE)
def order_of_further_keywords():
    yield start(lambda **named: list(named), a=x, b=x)
    yield NEW.of(b=x, a=x)


@scenario(Kind.CALL_SHAPE)
def by_keyword_or_by_position():
    yield start(lambda t, scale=2: t * scale, x, 3)
    yield SAME.of(x, scale=3)
    yield SAME.of(t=x, scale=3)
    yield NEW.of(x)
    yield BACK.of(scale=3, t=x)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@scenario(Kind.ENUM)
def member_of_an_enum():
    yield start(lambda t, colour: t * colour.value if colour is Colour.RED else t, x, Colour.RED)
    yield NEW.of(x + 1, Colour.BLUE)
    yield BACK.of(x, Colour.RED)


@dataclasses.dataclass
class Settings:
    scale: float = 2.0
    name: str = "plain"


@scenario(Kind.DATACLASS)
def field_of_a_dataclass():
    settings = Settings()
    yield start(lambda t, s: t * s.scale, x, settings)
    settings.name = "other"
    yield SAME
    yield SAME.of(x, Settings())
    settings.scale = 3.0
    yield NEW.of(x, settings)


class Pair(NamedTuple):
    a: Any
    b: Any


@scenario(Kind.NAMED_TUPLE)
def a_named_tuple():
    yield start(lambda p: p.a * 2 + p.b, Pair(x, 1))
    yield OTHER.of(Pair(x + 1, 1))
    yield NEW.of(Pair(x, 2))


@scenario(Kind.NAMED_TUPLE)
def a_named_tuple_of_another_class():
    other = collections.namedtuple("other", "b a")
    yield start(lambda p: p.a, Pair(x, x + 1))
    yield NEW.of(other(x, x + 1))


@scenario(Kind.DICT, looks_at={Beside.KEY: "it goes through all keys"})
def order_of_an_ordered_dict():
    d = collections.OrderedDict(a=x, b=x)
    beside = collections.OrderedDict(a=1, b=2)
    yield start(lambda d, beside: [key for key in d] + [next(iter(d.values())) + beside["a"]], d, beside)
    beside.move_to_end("a")
    yield SAME
    d.move_to_end("a")
    yield NEW
    d.move_to_end("b")
    yield BACK


@scenario(Kind.SET)
def elements_of_a_set():
    yield start(lambda t, s, beside: t + 1 if 3 in s else t, x, {1, 3}, {1})
    yield SAME.of(x, {1, 3}, {2})
    yield NEW.of(x, {1}, {1})
    yield BACK.of(x, {3, 1}, {1})
    yield EITHER.of(x, {3, 7}, {1})  # a set that is looked into is guarded as a whole


class Numbered:
    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return isinstance(other, Numbered) and self.number == other.number

    def __hash__(self):
        return self.number


@scenario(Kind.SET)
def hashes_with_which_elements_were_put_in():
    one = Numbered(1)
    s = {one, Numbered(2)}
    yield start(lambda t, s, key: t + 1 if key in s else t, x, s, Numbered(1))
    one.other = 1
    yield SAME
    one.number = 5
    yield NEW_UNSEEN.of(x, s, Numbered(5))
    one.number = 1
    yield EITHER.of(x, s, Numbered(1))  # the entry that is split at the look-up fits any key


@scenario(Kind.DICT)
def a_default_dict_factory():
    d: Any = collections.defaultdict(int, a=x)

    def f(d):
        result = d["a"] + d["missing"]
        del d["missing"]
        return result

    yield start(f, d)
    d.default_factory = lambda: 7
    yield NEW
    d.default_factory = None
    yield NEW


@scenario(Kind.VALUE_OF_AN_ARGUMENT)
def a_dtype():
    yield start(lambda t, dtype: t.to(dtype), x, torch.float64)
    yield NEW.of(x, torch.float16)
    yield BACK.of(x, torch.float64)


@scenario(Kind.VALUE_OF_AN_ARGUMENT)
def a_class():
    yield start(lambda cls: cls(3.5) + x, int)
    yield NEW.of(float)
    yield BACK.of(int)


@scenario(Kind.VALUE_OF_AN_ARGUMENT)
def a_slice():
    yield start(lambda t, s: t[s], x, slice(0, 1))
    yield NEW.of(x, slice(0, 2))
    yield BACK.of(x, slice(0, 1))


@scenario(Kind.LIST_OR_TUPLE)
def a_range():
    yield start(lambda t, r: [t + i for i in r], x, range(2))
    yield SAME.of(x, range(0, 2, 1))
    yield NEW.of(x, range(1, 3))
    yield NEW.of(x, range(3))


# ---- functions ----


def helper(t):
    return t + 1


def other_helper(t):
    return t + 2


def with_defaults(t, scale=2, *, shift=1):
    return t * scale + shift


def fresh(function: Any) -> Any:
    """A function of the same code, to be changed."""
    made = types.FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__ and dict(function.__kwdefaults__)
    return made


@scenario(Kind.CODE)
def code_of_the_function_itself():
    f = fresh(helper)
    yield start(f, x)
    f.__code__ = other_helper.__code__
    yield AFRESH


@scenario(Kind.CODE)
def code_of_a_called_function():
    g = fresh(helper)
    yield start(lambda t: g(t) * 2, x)
    g.__code__ = other_helper.__code__
    yield NEW
    g.__code__ = helper.__code__
    yield BACK
    g.note = "nothing to do with it"
    yield SAME


@scenario(Kind.DEFAULTS)
def defaults_of_the_function_itself():
    f = fresh(with_defaults)
    yield start(f, x)
    f.__defaults__ = (3,)
    yield NEW
    f.__defaults__ = (2,)
    yield BACK


@scenario(Kind.KEYWORD_DEFAULTS)
def keyword_defaults_of_the_function_itself():
    f = fresh(with_defaults)
    yield start(f, x)
    f.__kwdefaults__ = {"shift": 5}
    yield NEW
    f.__kwdefaults__["shift"] = 1
    yield BACK


@scenario(Kind.DEFAULTS)
def defaults_of_a_called_function():
    g = fresh(with_defaults)
    yield start(lambda t: g(t), x)
    g.__defaults__ = (3,)
    yield NEW
    g.__kwdefaults__["shift"] = 7
    yield NEW
    g.__kwdefaults__["unused"] = 8
    yield SAME
    g.__kwdefaults__ = {"shift": 9}
    yield NEW
    g.__defaults__ = (2,)
    g.__kwdefaults__ = {"shift": 1}
    yield BACK


@scenario(Kind.DEFAULTS)
def defaults_that_are_not_used():
    g = fresh(with_defaults)
    yield start(lambda t: g(t, 1, shift=0), x)
    g.__defaults__ = (3,)
    g.__kwdefaults__ = {"shift": 4}
    yield SAME


@scenario(Kind.DEFAULTS)
def defaults_that_disappear():
    g = fresh(with_defaults)
    yield start(lambda t: g(t), x)
    g.__defaults__ = None
    yield NEW  # it raises


@scenario(Kind.CELL)
def content_of_a_cell():
    scale, beside = 2, 1

    def f(t):
        return t * (scale if t.ndim == 2 else beside)

    def change(value):
        nonlocal scale
        scale = value

    def change_beside(value):
        nonlocal beside
        beside = value

    yield start(f, x)
    change(3)
    yield NEW
    change_beside(5)
    yield SAME
    change(2)
    yield BACK
    change(2.0)
    yield NEW_UNSEEN
    change(None)
    yield NEW


@scenario(Kind.CELL)
def a_cell_that_is_emptied():
    value = beside = 2

    def f(t):
        return t * (value if t.ndim == 2 else beside)

    def drop():
        nonlocal value
        del value

    def drop_beside():
        nonlocal beside
        del beside

    yield start(f, x)
    drop_beside()
    yield SAME
    drop()
    yield NEW


@scenario(Kind.CLOSURE)
def cells_of_functions_with_the_same_code():
    def make(scale):
        return lambda t: t * scale

    yield start(lambda t, g: g(t), x, make(2))
    yield NEW.of(x, make(3))
    yield SAME.of(x, make(3))
    yield BACK.of(x, make(2))


@scenario(Kind.PARTIAL)
def a_partial():
    yield start(lambda t, p: p(t), x, functools.partial(with_defaults, scale=3))
    yield NEW.of(x, functools.partial(with_defaults, scale=4))
    yield NEW.of(x, functools.partial(helper))
    yield BACK.of(x, functools.partial(with_defaults, scale=3))


@scenario(Kind.BOUND_METHOD)
def a_bound_method():
    class Owner:
        def __init__(self, scale):
            self.scale = scale

        def up(self, t):
            return t * self.scale

        def down(self, t):
            return t / self.scale

    owner = Owner(2)
    yield start(lambda t, method: method(t), x, owner.up)
    yield NEW.of(x, owner.down)
    yield NEW.of(x, Owner(3).up)
    yield BACK.of(x, Owner(2).up)


# ---- globals ----


@scenario(Kind.GLOBAL)
def a_global_number():
    global SCALE, UNRELATED
    yield start(lambda t: t * SCALE, x)
    UNRELATED = 1
    yield SAME
    SCALE = 3
    yield NEW
    SCALE = 2
    yield BACK


@scenario(Kind.GLOBAL)
def a_global_number_that_becomes_a_tensor():
    global SCALE
    yield start(lambda t: t * SCALE, x)
    SCALE = torch.tensor(5.0)
    yield NEW
    SCALE = torch.tensor(6.0)
    yield OTHER
    SCALE = None
    yield NEW


@scenario(Kind.GLOBAL)
def a_global_function():
    global helper
    yield start(lambda t: helper(t), x)
    helper = other_helper
    yield NEW


@scenario(Kind.GLOBAL)
def a_global_module():
    global math
    yield start(lambda t: t * math.floor(2.5), x)
    math = types.SimpleNamespace(floor=lambda v: 100)  # type: ignore[assignment]
    yield NEW


@scenario(Kind.PYTHON_MODULE)
def a_function_of_a_module():
    module = types.ModuleType("made_up")
    module.scale = lambda t: t * 2  # type: ignore[attr-defined]
    yield start(lambda t: module.scale(t), x)
    module.unrelated = 1  # type: ignore[attr-defined]
    yield SAME
    module.scale = lambda t: t * 3  # type: ignore[attr-defined]
    yield NEW


@scenario(Kind.LIBRARY_FUNCTION)
def a_function_of_torch():
    original = torch.relu
    yield start(lambda t: torch.relu(t - 2), x)
    try:
        torch.relu = lambda t: t * 0  # type: ignore[assignment]
        yield NEW
    finally:
        torch.relu = original
    yield BACK


@scenario(Kind.BUILTIN)
def a_builtin_that_is_shadowed():
    yield start(lambda t: t * len([1, 2]), x)
    globals()["len"] = lambda items: 50
    try:
        yield NEW
    finally:
        del globals()["len"]
    yield BACK


@scenario(Kind.GLOBAL_CONTAINER)
def an_item_of_a_global_dict():
    global TABLE
    yield start(lambda t: t * TABLE["a"], x)
    TABLE["b"] = 9
    yield SAME
    TABLE["new"] = 9
    yield SAME
    TABLE["a"] = 9
    yield NEW
    TABLE = {"a": 1}
    yield BACK
    del TABLE["a"]
    yield NEW


@scenario(Kind.GLOBAL_CONTAINER)
def an_item_of_a_global_list():
    yield start(lambda t: t * ITEMS[0], x)
    ITEMS[1] = 5
    yield SAME
    ITEMS[0] = 7
    yield NEW


@scenario(Kind.GLOBAL_CONTAINER)
def the_length_of_a_global_list():
    yield start(lambda t: [t * item for item in ITEMS], x)
    ITEMS.append(5)
    yield NEW
    ITEMS.pop()
    yield BACK
    ITEMS.insert(0, ITEMS.pop())
    yield NEW


@scenario(Kind.GLOBAL)
def a_global_that_appears():
    def f(t):
        try:
            return t * APPEARS  # type: ignore[name-defined]
        except NameError:
            return t

    yield start(f, x)
    globals()["APPEARS"] = 4
    try:
        yield NEW
    finally:
        del globals()["APPEARS"]
    yield BACK


# ---- objects and classes ----


class Thing:
    """A class to be patched."""

    factor: Any = 2

    def __init__(self, size=1):
        self.size = size

    def scaled(self, t):
        return t * self.factor * self.size

    @property
    def double(self):
        return self.size * 2

    @classmethod
    def of_class(cls, t):
        return t * cls.factor

    @staticmethod
    def static(t):
        return t + 1


class OtherThing(Thing):
    def scaled(self, t):
        return t * 1000


class Slotted:
    __slots__ = ("a", "b")


class FallsBack:
    def __getattr__(self, name):
        return len(name)


def thing() -> Any:
    """An instance of a class of its own."""
    return type("Thing", (Thing,), {})()


@scenario(Kind.INSTANCE_ATTRIBUTE)
def instance_attributes():
    item = thing()
    yield start(lambda t, item: t * item.size, x, item)
    item.unrelated = 1
    yield SAME
    item.size = 3
    yield NEW
    item.size = 1
    yield BACK
    del item.size
    yield NEW


@scenario(Kind.CLASS_ATTRIBUTE)
def a_class_attribute():
    item = thing()
    yield start(lambda t: item.scaled(t), x)
    type(item).unrelated = 3
    yield SAME
    type(item).factor = 3
    yield NEW
    type(item).factor = 2
    yield BACK
    item.factor = 5
    yield NEW
    del item.factor
    yield BACK
    type(item).factor = 2.0
    yield NEW_UNSEEN


@scenario(Kind.CLASS_ATTRIBUTE)
def a_class_attribute_of_a_base_class():
    item = thing()
    yield start(lambda t: item.scaled(t), x)
    try:
        Thing.factor = 10
        yield NEW
    finally:
        Thing.factor = 2
    yield BACK


@scenario(Kind.METHOD)
def a_method_that_is_patched():
    item = thing()
    yield start(lambda t: item.scaled(t), x)
    type(item).scaled = lambda self, t: t - self.size
    yield NEW
    del type(item).scaled
    yield BACK


@scenario(Kind.INSTANCE_ATTRIBUTE)
def an_instance_attribute_that_shadows_a_method():
    item = thing()
    yield start(lambda t: item.scaled(t), x)
    item.scaled = lambda t: t * 77
    yield NEW
    del item.scaled
    yield BACK


@scenario(Kind.PROPERTY)
def a_property_that_is_patched():
    item = thing()
    yield start(lambda t: t * item.double, x)
    type(item).double = property(lambda self: 9)
    yield NEW
    item.__dict__["double"] = 50
    yield SAME
    del type(item).double
    yield BACK


@scenario(Kind.METHOD)
def a_static_method_that_is_patched():
    item = thing()
    yield start(lambda t: item.static(t) + item.of_class(t), x)
    type(item).static = staticmethod(lambda t: t * 5)
    yield NEW
    type(item).of_class = classmethod(lambda cls, t: t * 6)
    yield NEW


@scenario(Kind.INSTANCE_CLASS)
def the_class_of_an_instance():
    item = Thing()
    yield start(lambda t, item: item.scaled(t), x, item)
    item.__class__ = OtherThing
    yield NEW
    item.__class__ = Thing
    yield BACK


@scenario(Kind.INSTANCE_DICT)
def the_dict_of_an_instance():
    item = thing()
    yield start(lambda t, item: item.scaled(t), x, item)
    item.__dict__ = {"size": 8}
    yield NEW
    item.__dict__ = {"size": 1, "more": 2}
    yield BACK


@scenario(Kind.BASES)
def the_bases_of_a_class():
    class Left:
        def go(self, t):
            return t + 1

    class Right:
        def go(self, t):
            return t - 1

    class Item(Left):
        pass

    item = Item()
    yield start(lambda t: item.go(t), x)
    Item.__bases__ = (Right,)
    yield NEW
    Item.__bases__ = (Left,)
    yield BACK


@scenario(Kind.SLOT)
def slots():
    item: Any = Slotted()
    item.a = 2
    yield start(lambda t, item: t * item.a, x, item)
    item.b = 3
    yield SAME
    item.a = 3
    yield NEW
    del item.a
    yield NEW


@scenario(Kind.ATTRIBUTE_HOOK)
def an_attribute_that_a_getattr_gave():
    item: Any = FallsBack()
    yield start(lambda t: t * item.four, x)
    item.other = 1
    yield SAME
    item.four = 9
    yield NEW
    del item.four
    yield BACK


@scenario(Kind.SPECIAL_METHOD)
def a_special_method_that_appears():
    class Item:
        def __add__(self, other):
            return other + 1

    item = Item()
    yield start(lambda t: item + t, x)
    Item.__add__ = lambda self, other: other + 2  # type: ignore[method-assign]
    yield NEW


@scenario(Kind.SPECIAL_METHOD)
def truth_that_appears():
    class Item:
        pass

    item = Item()
    yield start(lambda t: t + 1 if item else t, x)
    Item.__len__ = lambda self: 0  # type: ignore[attr-defined]
    yield NEW
    Item.__bool__ = lambda self: True  # type: ignore[attr-defined]
    yield NEW


@scenario(Kind.IDENTITY)
def which_object_it_is():
    first, second = Thing(), Thing()
    yield start(lambda t, a, b: t + 1 if a is b else t, x, first, first)
    yield NEW.of(x, first, second)
    yield BACK.of(x, second, second)


@scenario(Kind.IDENTITY)
def the_same_list_twice():
    def f(t, a, b):
        a.append(t)
        result = len(b), t + 1
        a.pop()
        return result

    one: list[Any] = []
    yield start(f, x, one, one)
    yield NEW.of(x, one, [])
    yield BACK.of(x, one, one)


@scenario(Kind.IDENTITY)
def lists_that_become_the_same():
    def f(t, items):
        items[0].append(t)
        result = len(items[1])
        items[0].pop()
        return result, t + 1

    items: Any = [[], []]
    yield start(f, x, items)
    items[1] = items[0]
    yield NEW
    items[1] = []
    yield BACK


@scenario(Kind.NUMBER_THAT_COUNTS)
def a_counter_does_not_compile():
    item = Thing(0)

    def f(t):
        item.size += 1
        return t * 2

    yield start(f, x)
    yield SAME
    yield SAME
    yield SAME


@scenario(Kind.VALUE_OF_AN_ARGUMENT)
def a_counter_that_decides():
    def f(t, n):
        n += 1
        return t * 2 if n > 2 else t

    yield start(f, x, 1)
    yield NEW.of(x, 2)


@scenario(Kind.PASSED_ON)
def a_counter_that_is_returned():
    yield start(lambda t, n: (t * 2, n + 1), x, 1)
    yield OTHER.of(x, 2)
    yield OTHER.of(x, 3)


@scenario(Kind.VALUE_OF_AN_ARGUMENT)
def what_a_fallback_rests_on():
    def f(t, flag):
        if flag:
            framejit.skip_frame()
            return t * t.sum().item()
        return t + 1

    yield start_as_written(f, x, True)
    yield NEW.of(x, False)
    yield BACK.of(x, True)


@each(table.scenarios)
def test_change(row):
    play(row)
