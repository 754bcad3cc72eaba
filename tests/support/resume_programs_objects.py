"""Programs with graph breaks inside functions that other code calls: `__init__`, properties, operators, `with`; for test_resume.py."""

from __future__ import annotations

import dataclasses
import functools
import operator
import sys
import traceback
from typing import Any

from resume_programs import case
from torch import nn

import framejit


@framejit.disable
def stack_of():
    """Return the names and current lines of the frames on the stack that run code of this file."""
    frames, frame = [], sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == __file__:
            frames.append((frame.f_code.co_name.partition(" (resumed")[0], frame.f_lineno))
        frame = frame.f_back
    return frames


# __init__.


class Plain:
    def __init__(self, x, scale=2):
        self.a = x + 1
        print("made", type(self).__name__, stack_of())
        self.b = self.a * scale


@case()
def init(x):
    made = Plain(x, scale=3)
    return made, made.a + made.b


class Tree(Plain):
    def __init__(self, x, depth):
        super().__init__(x, scale=depth)
        self.children = [Tree(x * 2, depth - 1) for _ in range(depth)]
        print("tree", depth)
        self.total = self.b + sum(child.total for child in self.children)


@case()
def init_recursive(x):
    return Tree(x, 2).total * 2


@case()
def init_inside_an_expression(x):
    return [x + Plain(x).b, *(Plain(x, scale=i).b for i in ())], {"key": Plain(x).a * Plain(x, 5).b}


class Slots:
    __slots__ = ("x", "y")

    def __init__(self, x):
        self.x = x * 2
        print("slots")
        self.y = self.x + 1


@case()
def init_slots(x):
    made = Slots(x)
    return made.x, made.y


@dataclasses.dataclass
class Config:
    size: Any
    names: list[str] = dataclasses.field(default_factory=list)
    derived: Any = None

    def __post_init__(self):
        self.derived = self.size * 2
        print("post", self.names)
        self.names.append("made")


@case()
def init_of_a_dataclass(x):
    config = Config(x, ["given"])
    return config, config.derived + 1


class WithNew:
    def __new__(cls, x):
        made = super().__new__(cls)
        print("new")
        made.x = x + 1
        return made

    def __init__(self, x):
        print("init", x.shape)
        self.x = self.x * x


@case()
def init_with_new(x):
    return WithNew(x).x * 2


class Meta(type):
    def __call__(cls, *args, **kwargs):
        print("meta")
        made = super().__call__(*args, **kwargs)
        print("meta done")
        return made


class OfMeta(metaclass=Meta):
    def __init__(self, x):
        print("of meta")
        self.x = x * 2


@case()
def init_with_a_metaclass(x):
    return OfMeta(x).x + 1


class Returns:
    def __init__(self, x):
        self.x = x + 1
        print("returns")
        return len(x)  # noqa: PLE0101


@case()
def init_returns_something(x):
    try:
        Returns(x)
    except TypeError as error:
        return str(error), x * 2


@case()
def init_returns_something_to_the_caller(x):
    y = x * 2
    return Returns(y)


class Fails:
    def __init__(self, x):
        self.x = x + 1
        print("fails")
        raise ValueError(int(self.x.sum()))


@case()
def init_fails(x):
    try:
        Fails(x)
    except ValueError as error:
        names = [entry.name.partition(" (resumed")[0] for entry in traceback.extract_tb(error.__traceback__)]
        return error.args, names, x * 2


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        print("layer", width)
        self.scale = width * 0.5

    def forward(self, x):
        return x * self.scale


@case()
def init_of_a_module(x):
    layer = Layer(3)
    return layer(x) + layer.width


@case()
def init_in_a_loop(x):
    made = []
    for i in range(5):
        made.append(Plain(x, scale=i))
        if i % 2:
            made[-1].b = made[-1].b + made[0].a
    return [one.b for one in made]


class Aware:
    instances: list[Any] = []

    def __init__(self, x):
        type(self).instances.append(self)
        print("aware", len(self.instances))
        self.x = x * len(self.instances)


@case()
def init_known_elsewhere(x):
    Aware.instances.clear()
    first, second = Aware(x), Aware(x)
    return first is Aware.instances[0], second is Aware.instances[1], first.x + second.x


# Attributes.


class Properties:
    count = 0

    def __init__(self, x):
        self.x = x

    @property
    def doubled(self):
        y = self.x * 2
        print("doubled", stack_of())
        return y + 1

    @doubled.setter
    def doubled(self, value):
        self.x = value / 2
        print("set", stack_of())
        self.x = self.x + 1

    @property
    def function(self):
        print("function")
        return lambda y: y + self.x

    @property
    def failing(self):
        print("failing")
        raise AttributeError("on purpose")

    @functools.cached_property
    def cached(self):
        print("cached")
        return self.x * 3


@case()
def property_get(x):
    made = Properties(x)
    return made.doubled + made.doubled * 2


@case()
def property_called(x):
    made = Properties(x)
    return made.function(x) + made.function(y=x * 2)


@case()
def property_set(x):
    made = Properties(x)
    made.doubled = x * 4
    made.doubled += 1
    return made.x, made.doubled


@case()
def property_fails(x):
    made = Properties(x)
    y = x + 1
    try:
        y = made.failing
    except AttributeError as error:
        return str(error), y * 2


@case()
def property_fails_to_the_caller(x):
    return Properties(x + 1).failing


@case()
def property_cached(x):
    made = Properties(x)
    return made.cached + made.cached


class Fallback:
    def __init__(self, x):
        self.x = x

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        print("getattr", name)
        return self.x * len(name)

    @property
    def missing(self):
        print("missing")
        raise AttributeError("missing")

    @property
    def there(self):
        print("there")
        return self.x


@case()
def getattr_hook(x):
    made = Fallback(x)
    return made.a + made.abc, made.missing, made.there, hasattr(made, "_no"), getattr(made, "yes")


class Intercepts:
    def __init__(self, x):
        object.__setattr__(self, "x", x)

    def __getattribute__(self, name):
        found = object.__getattribute__(self, name)
        if not name.startswith("__"):
            print("get", name)
        return found

    def __setattr__(self, name, value):
        print("set", name)
        object.__setattr__(self, name, value + 1)
        print("done")


@case()
def intercepted_attributes(x):
    made = Intercepts(x)
    made.x = made.x * 2
    made.y = made.x
    return made.x + made.y


class Descriptor:
    def __get__(self, obj, cls):
        print("descriptor", obj is None)
        return self if obj is None else obj.x + 1

    def __set__(self, obj, value):
        print("descriptor set")
        obj.x = value * 2


class Described:
    value = Descriptor()

    def __init__(self, x):
        self.x = x


@case()
def descriptors(x):
    made = Described(x)
    made.value = made.value * 2
    return made.x, made.value, Described.value is Described.__dict__["value"]


class Callable:
    """An object whose `__call__` is looked up by a descriptor of the program's."""

    class Finder:
        def __get__(self, obj, cls):
            print("finder")
            return lambda y: y * 2

    __call__ = Finder()


@case()
def call_found_by_a_descriptor(x):
    made = Callable()
    return made(x) + 1


# Items and operators.


class Items:
    def __init__(self, x):
        self.x = x
        self.items = {}

    def __getitem__(self, key):
        print("get", key, stack_of())
        return self.x * (key if isinstance(key, int) else 2)

    def __setitem__(self, key, value):
        print("set", key, stack_of())
        self.items[key] = value + 1

    def __delitem__(self, key):
        print("del", key)
        del self.items[key]

    def __len__(self):
        print("len")
        return 3

    def __contains__(self, item):
        print("contains", item)
        return item == 2

    def __bool__(self):
        print("bool")
        return bool(self.items)


@case()
def items(x):
    made = Items(x)
    made["a"] = made[2] + made["k"]
    made["b"] = x
    made["b"] += made.items["b"]
    del made["b"]
    return made.items, len(made), 2 in made, 3 in made, bool(made), not made, [1, 2, 3][1:][0]


@case()
def items_by_a_getter(x):
    return operator.itemgetter(1, 2)(Items(x)), operator.attrgetter("doubled", "x")(Properties(x))


class Number:
    def __init__(self, value):
        self.value = value

    def __add__(self, other):
        print("add")
        return self.value + other.value if isinstance(other, Number) else NotImplemented

    def __radd__(self, other):
        print("radd")
        return self.value - other

    def __neg__(self):
        print("neg")
        return Number(-self.value)

    def __eq__(self, other):
        print("eq")
        return self.value.sum() == other if isinstance(other, int) else NotImplemented

    __hash__ = None

    def __lt__(self, other):
        print("lt")
        return True

    def __iter__(self):
        print("iter")
        return iter([self.value, 2])

    def __call__(self, y):
        print("call", stack_of())
        return self.value * y


@case()
def operators(x):
    a, b = Number(x), Number(x * 2)
    try:
        a + "text"
    except TypeError as error:
        print(error)
    first, second = a
    return a + b, 3 + a, (-a).value, a == b, a < b, a > b, first + second, a(x), a != 3


# with.


class Manager:
    def __init__(self, x, swallows=False):
        self.x = x
        self.swallows = swallows

    def __enter__(self):
        self.x = self.x + 1
        print("enter", stack_of())
        return self.x * 2

    def __exit__(self, cls, error, tb):
        self.x = self.x * 3
        print("exit", cls and cls.__name__, stack_of(), sys.exc_info()[0])
        self.x = self.x + 1
        return self.swallows


@case()
def with_breaks_in_the_manager(x):
    manager = Manager(x)
    with manager as entered:
        y = entered + x
    with manager, Manager(x) as inner:
        y = y * inner
    return y, manager.x


@case()
def with_an_exception_swallowed_by_the_manager(x):
    manager = Manager(x, swallows=True)
    y = x
    with manager:
        y = x * 2
        raise ValueError("swallowed")
    return y, manager.x, sys.exc_info()


@case()
def with_an_exception_through_managers(x):
    first, second = Manager(x), Manager(x)
    try:
        with first, second:
            y = x * 2
            print("inside")
            raise ValueError("passed on")
    except ValueError as error:
        return y, first.x, second.x, str(error)


class FailsToEnter(Manager):
    def __enter__(self):
        print("fails to enter")
        raise KeyError("enter")


@case()
def with_a_manager_that_fails_to_enter(x):
    outer = Manager(x)
    try:
        with outer, FailsToEnter(x):
            x = x + 1
    except KeyError as error:
        return x, outer.x, error.args


# Calls of instances, whatever their classes derive from.


class CallableDict(dict):
    def __call__(self, x, delivery):
        y = x + self["a"]
        print("called", stack_of())
        return y * delivery


class CallableList(list):
    def __call__(self, x, *, scale=1):
        y = x * scale
        print("called", stack_of())
        return self.append(y) or y


class CallablePartial(functools.partial):
    def __call__(self, x):
        y = x + 1
        print("called", stack_of())
        return super().__call__(y)


class Metaclass(type):
    def __call__(cls, x):
        print("called", cls.__name__, stack_of())
        return super().__call__(x * 2)


class OfMetaclass(Plain, metaclass=Metaclass):
    pass


@case()
def calls_of_instances_of_containers(x):
    numbers = CallableList([1])
    scaled = numbers(x, scale=3)
    return CallableDict(a=2)(x, delivery=x), scaled, len(numbers), CallablePartial(operator.mul, 2)(x), OfMetaclass(x).b
