"""Guards, Python's own state: what classes, functions, modules and objects can have changed about them, each with what is beside it."""

from __future__ import annotations

import abc
import collections
import copyreg
import dataclasses
import enum
import functools
import operator
import types
from typing import Any, Protocol, runtime_checkable

import torch
from change_kinds import Kind
from neighbours import Beside
from scenarios import BACK, EITHER, NEW, NEW_UNSEEN, OTHER, SAME, Table, each, play, start, start_any

table = Table()
scenario = table.scenario
x = torch.arange(6.0).reshape(2, 3)


# ---- classes ----


@scenario(Kind.CLASS_NAME)
def a_name_of_a_class():
    class Item:
        pass

    yield start(lambda t: t * len(Item.__name__), x)
    Item.other = 1
    yield SAME
    Item.__name__ = "Renamed"
    yield NEW
    Item.__name__ = "Item"
    yield BACK


@scenario(Kind.CLASS_NAME)
def a_name_of_the_class_of_an_argument():
    class Item:
        pass

    item = Item()
    yield start(lambda t, item: (t + 1, type(item).__qualname__, type(item).__module__), x, item)
    Item.__qualname__ = "Renamed"
    yield EITHER
    Item.__module__ = "elsewhere"
    yield OTHER


@scenario(Kind.CLASS_NAME)
def documentation_of_a_class():
    class Item:
        """One."""

    yield start_any(lambda t: t * len(Item.__doc__), x)
    Item.__doc__ = "Another."
    yield EITHER


@scenario(Kind.PROPERTY)
def what_a_descriptor_holds():
    class Descriptor:
        value = 2

        def __get__(self, obj, cls):
            return self.value

        def __set__(self, obj, value):
            raise AttributeError

    class Item:
        field = Descriptor()
        beside = Descriptor()

    item = Item()
    yield start(lambda t: t * item.field, x)
    vars(Item)["beside"].value = 9
    yield SAME
    vars(Item)["field"].value = 3
    yield NEW
    Item.field = 7
    yield NEW


@scenario(Kind.PROPERTY)
def a_descriptor_that_becomes_a_data_descriptor():
    class Descriptor:
        def __get__(self, obj, cls):
            return 5

    class Item:
        field = Descriptor()

    item = Item()
    item.__dict__["field"] = 2
    yield start(lambda t: t * item.field, x)
    Descriptor.unrelated = 1
    yield SAME
    Descriptor.__set__ = lambda self, obj, value: None
    yield NEW
    del Descriptor.__set__
    yield EITHER


@scenario(Kind.CONSTRUCTION)
def a_class_whose_instances_are_made():
    class Item:
        def __init__(self, value):
            self.value = value

    yield start(lambda t: t * Item(3).value, x)
    Item.unrelated = 1
    yield SAME
    Item.__init__ = lambda self, value: setattr(self, "value", value + 1)
    yield NEW
    Item.__new__ = lambda cls, value: types.SimpleNamespace(value=50)
    yield NEW


@scenario(Kind.METACLASS)
def a_metaclass_that_changes_calls():
    class Meta(type):
        pass

    class Item(metaclass=Meta):
        value = 1

    yield start(lambda t: t * Item().value, x)
    Meta.unrelated = 1
    yield SAME
    Meta.__call__ = lambda cls: types.SimpleNamespace(value=9)
    yield NEW


@scenario(Kind.SPECIAL_METHOD)
def containers_by_protocol():
    class Items:
        def __init__(self):
            self.values = [1, 2]

        def __len__(self):
            return len(self.values)

        def __getitem__(self, i):
            return self.values[i]

        def __iter__(self):
            return iter(self.values)

        def __contains__(self, v):
            return v in self.values

    items = Items()
    yield start(lambda t: (t * len(items) * items[0], [t + v for v in items], 2 in items), x)
    items.other = 1
    yield SAME
    Items.__len__ = lambda self: 7
    yield NEW
    Items.__getitem__ = lambda self, i: 8
    yield NEW
    Items.__iter__ = lambda self: iter([9])
    yield NEW
    Items.__contains__ = lambda self, v: False
    yield NEW
    items.values.append(4)
    yield SAME


@scenario(Kind.SPECIAL_METHOD)
def comparison_and_hash():
    class Key:
        def __init__(self, v):
            self.v = v

        def __eq__(self, other):
            return self.v == other.v

        def __hash__(self):
            return hash(self.v)

    a, b = Key(1), Key(1)
    yield start_any(lambda t: t + 1 if a == b else t, x)
    b.v = 2
    yield NEW
    Key.__eq__ = lambda self, other: True
    yield NEW


@scenario(Kind.SPECIAL_METHOD)
def arithmetic_of_instances():
    class Number:
        def __init__(self, v):
            self.v = v

        def __mul__(self, other):
            return other * self.v

        def __rmul__(self, other):
            return other * self.v * 10

    n = Number(2)
    yield start(lambda t: (n * t, 3 * n), x)
    n.note = 1
    yield SAME
    n.v = 3
    yield NEW
    Number.__rmul__ = lambda self, other: 0
    yield NEW


@scenario(Kind.SPECIAL_METHOD)
def context_managers():
    class Manager:
        def __enter__(self):
            return 2

        def __exit__(self, *error):
            return None

    m = Manager()

    def f(t):
        with m as n:
            return t * n

    yield start(f, x)
    Manager.other = 1
    yield SAME
    Manager.__enter__ = lambda self: 3
    yield NEW


@scenario(Kind.SPECIAL_METHOD)
def an_iterator_class():
    class Count:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            return self

        def __next__(self):
            if not self.n:
                raise StopIteration
            self.n -= 1
            return self.n

    yield start(lambda t: [t + i for i in Count(3)], x)
    Count.note = 1
    yield SAME
    original = Count.__next__
    Count.__next__ = lambda self: original(self) * 2
    yield NEW


@scenario(Kind.SPECIAL_METHOD)
def a_format():
    class Item:
        def __str__(self):
            return "one"

        def __format__(self, spec):
            return "three" + spec

        def __repr__(self):
            return "repr"

    item = Item()
    yield start_any(lambda t: t * len(str(item)) + len(f"{item:>3}") + len(repr(item)), x)
    Item.__str__ = lambda self: "other"
    yield EITHER
    Item.__format__ = lambda self, spec: ""
    yield EITHER
    Item.__repr__ = lambda self: ""
    yield EITHER


@scenario(Kind.LIBRARY_STATE)
def registered_with_an_abstract_class():
    class Base(abc.ABC):
        pass

    class Item:
        pass

    class Beside(Base):
        pass

    item = Item()
    yield start(lambda t: t + 1 if isinstance(item, Base) else t, x)
    isinstance(3, Beside)  # the answer is kept beside those of Base
    Base.other = 1
    yield SAME
    Base.register(Item)
    yield NEW
    Beside.register(int)
    yield EITHER  # abc counts all registrations of the process as one


@scenario(Kind.METACLASS)
def an_instance_check():
    class Meta(type):
        def __instancecheck__(cls, obj):
            return cls.answer

    class Item(metaclass=Meta):
        answer = False

    yield start(lambda t: t + 1 if isinstance(3, Item) else t, x)
    Item.other = True
    yield SAME
    Item.answer = True
    yield NEW
    Meta.__instancecheck__ = lambda cls, obj: False
    yield NEW


@scenario(Kind.METACLASS)
def a_protocol():
    @runtime_checkable
    class HasSize(Protocol):
        def size(self) -> int: ...

    class Item:
        pass

    item = Item()
    yield start_any(lambda t: t + 1 if isinstance(item, HasSize) else t, x)
    Item.size = lambda self: 1
    yield EITHER


@scenario(Kind.SPECIAL_METHOD)
def match_arguments():
    class Point:
        __match_args__ = ("a", "b")

        def __init__(self):
            self.a, self.b = 1, 2

    p = Point()

    def f(t):
        match p:
            case Point(first, second):
                return t * first + second
        return t

    yield start_any(f, x)
    p.c = 1
    yield SAME
    Point.__match_args__ = ("b", "a")
    yield EITHER


@scenario(Kind.SLOT)
def a_class_that_gets_slots_patched():
    class Item:
        __slots__ = ("a", "b")

    item = Item()
    item.a, item.b = 2, 3
    yield start(lambda t: t * item.a, x)
    item.b = 9
    yield SAME
    Item.a = property(lambda self: self.b)
    yield NEW


@scenario(Kind.BASES)
def bases_far_up():
    class A:
        value = 2

    class B(A):
        pass

    class C(B):
        pass

    class Other:
        value = 3

    class Beside(A):
        pass

    c = C()
    yield start(lambda t: t * c.value, x)
    Beside.value = 7
    yield SAME
    B.__bases__ = (Other,)
    yield NEW
    Other.value = 4
    yield NEW
    B.__bases__ = (A,)
    yield BACK
    B.value = 9
    yield NEW


@scenario(Kind.BASES)
def bases_that_are_asked_for():
    class A:
        pass

    class B:
        pass

    class Beside(A):
        pass

    class Item(A):
        pass

    item = Item()
    yield start(lambda t: t + 1 if isinstance(item, A) else t, x)
    Beside.__bases__ = (B,)
    yield SAME
    Item.__bases__ = (B,)
    yield NEW
    Item.__bases__ = (A,)
    yield BACK


@scenario(Kind.BASES)
def bases_of_a_class_that_are_asked_for():
    class A:
        pass

    class B:
        pass

    class Item(A):
        pass

    yield start(lambda t: t + 1 if issubclass(Item, A) else t, x)
    Item.note = 1
    yield SAME
    Item.__bases__ = (B,)
    yield NEW


@scenario(Kind.BASES)
def a_mixin_that_is_inserted():
    class Base:
        def go(self, t):
            return t + 1

    class Mixin:
        def go(self, t):
            return super().go(t) * 2

    class Item(Base):
        def go(self, t):
            return super().go(t)

    item = Item()
    yield start(lambda t: item.go(t), x)
    Mixin.other = 1
    yield SAME
    Item.__bases__ = (Mixin, Base)
    yield NEW
    Item.__bases__ = (Base,)
    yield BACK


@scenario(Kind.PROPERTY)
def cached_properties():
    class Item:
        size = 2

        @functools.cached_property
        def double(self):
            return self.size * 2

    item = Item()
    item.double
    yield start(lambda t: t * item.double, x)
    item.size = 5
    yield SAME
    item.__dict__["double"] = 6
    yield NEW
    del item.double
    yield NEW


@scenario(Kind.CLASS_ATTRIBUTE, looks_at={Beside.KEY: "it asks for the length"})
def an_attribute_of_a_type_read_through_type():
    class Item:
        registry = {"a": 1}

    item = Item()
    yield start(lambda t, item: t * type(item).registry["a"] + len(item.registry), x, item)
    Item.unrelated = {}
    yield SAME
    Item.registry["a"] = 5
    yield NEW
    Item.registry["b"] = 5
    yield NEW
    Item.registry = {"a": 1}
    yield NEW


@scenario(Kind.BASES)
def subclasses_that_appear():
    class Base:
        pass

    yield start_any(lambda t: t * len(Base.__subclasses__()), x)

    class Sub(Base):
        pass

    yield EITHER
    del Sub


# ---- functions ----


@scenario(Kind.CELL)
def contents_of_the_cell_of_a_called_function():
    def make(v, unused):
        def scaled(t):
            return t * v if t.ndim == 2 else t * unused

        return scaled

    g = make(2, 3)
    yield start(lambda t: g(t), x)
    g.__closure__[0].cell_contents = 9
    yield SAME
    g.__closure__[1].cell_contents = 5
    yield NEW
    g.__closure__[1].cell_contents = 2
    yield BACK


@scenario(Kind.CELL)
def contents_of_the_cell_of_the_function_itself():
    v = w = 2

    def f(t):
        return t * v if t.ndim == 2 else t * w

    cell, beside = f.__closure__
    yield start(f, x)
    beside.cell_contents = 3
    yield SAME
    cell.cell_contents = 3
    yield NEW
    cell.cell_contents = torch.ones(3)
    yield NEW
    cell.cell_contents = torch.full((3,), 2.0)
    yield OTHER
    beside.cell_contents = torch.ones(3)
    yield SAME


@scenario(Kind.FUNCTION_ATTRIBUTE)
def names_of_a_function():
    def g(t):
        """Text."""
        return t

    yield start_any(lambda t: (g(t) + 1, g.__name__, g.__qualname__, g.__doc__, g.__module__), x)
    g.__name__ = "other"
    yield EITHER
    g.__qualname__ = "other.name"
    yield EITHER
    g.__doc__ = "Other."
    yield EITHER
    g.__module__ = "elsewhere"
    yield EITHER


@scenario(Kind.FUNCTION_ATTRIBUTE)
def annotations_of_a_function():
    def g(t: int) -> int:
        return t

    yield start_any(lambda t: t * len(g.__annotations__), x)
    g.__annotations__["more"] = int
    yield EITHER
    g.__annotations__ = {}
    yield EITHER


@scenario(Kind.FUNCTION_ATTRIBUTE)
def attributes_of_a_function():
    def g(t):
        return t

    g.scale = 2
    yield start(lambda t: g(t) * g.scale, x)
    g.other = 3
    yield SAME
    g.scale = 5
    yield NEW
    g.__dict__ = {"scale": 2}
    yield BACK


@scenario(Kind.PARTIAL)
def arguments_of_a_partial():
    p = functools.partial(lambda t, a=1, b=2: t * a, a=2)
    yield start(lambda t: p(t), x)
    p.note = 1
    yield SAME
    p.keywords["a"] = 7
    yield NEW
    p.__setstate__((p.func, (), {"a": 9}, {}))
    yield NEW


@scenario(Kind.DICT)
def a_function_in_a_container():
    table = {"f": lambda t: t + 1, "g": lambda t: t}
    yield start(lambda t: table["f"](t), x)
    table["g"] = len
    yield SAME
    table["f"] = lambda t: t + 2
    yield NEW


@scenario(Kind.FUNCTION_ATTRIBUTE)
def a_wrapped_function():
    def inner(t):
        return t + 1

    @functools.wraps(inner)
    def outer(t):
        return outer.__wrapped__(t) * 2

    yield start(lambda t: outer(t), x)
    outer.note = 2
    yield SAME
    outer.__wrapped__ = lambda t: t - 1
    yield NEW


@scenario(Kind.BOUND_METHOD)
def a_method_made_by_hand():
    class Item:
        value = 2

    def scaled(self, t):
        return t * self.value

    item = Item()
    method = types.MethodType(scaled, item)
    yield start(lambda t: method(t), x)
    item.note = 1
    yield SAME
    item.value = 3
    yield NEW
    scaled.__code__ = (lambda self, t: t - self.value).__code__
    yield NEW


@scenario(Kind.CLOSURE)
def a_generator_function_that_is_called():
    limit = [2, 2]

    def numbers():
        yield from range(limit[0])

    g = numbers
    yield start(lambda t: [t + n for n in g()], x)
    limit[1] = 9
    yield SAME
    limit[0] = 3
    yield NEW


@scenario(Kind.CELL)
def a_recursive_function():
    depth, beside = 3, 4

    def fold(t, n):
        return t if n == 0 else fold(t + 1, n - 1) if n < 10 else fold(t, beside)

    yield start(lambda t: fold(t, depth), x)
    beside = 5
    yield SAME
    depth = 4
    yield NEW
    depth = 3
    yield BACK


# ---- globals and modules ----


@scenario(Kind.GLOBAL_OF_ANOTHER_MODULE)
def a_global_of_another_module():
    namespace: dict[str, Any] = {"__name__": "made_up", "SCALE": 2, "BESIDE": 1}
    exec("def scaled(t): return t * SCALE", namespace)
    scaled = namespace["scaled"]
    yield start(lambda t: scaled(t), x)
    namespace["BESIDE"] = 2
    yield SAME
    namespace["SCALE"] = 3
    yield NEW
    namespace["SCALE"] = 2
    yield BACK
    del namespace["SCALE"]
    yield NEW  # it raises


@scenario(Kind.GLOBAL_OF_ANOTHER_MODULE)
def functions_of_one_code_and_other_globals():
    one: dict[str, Any] = {"__name__": "one", "SCALE": 2}
    other: dict[str, Any] = {"__name__": "other", "SCALE": 3}
    exec("def scaled(t): return t * SCALE", one)
    code = one["scaled"].__code__
    first, second = types.FunctionType(code, one), types.FunctionType(code, other)
    yield start(lambda t, f: f(t), x, first)
    yield NEW.of(x, second)
    yield BACK.of(x, first)
    one["SCALE"] = 5
    yield NEW.of(x, first)


@scenario(Kind.PYTHON_MODULE)
def a_module_whose_class_changes():
    made: Any = types.ModuleType("made_up")
    made.value = 2

    class Special(types.ModuleType):
        @property
        def value(self):
            return 7

    yield start(lambda t: t * made.value, x)
    made.beside = 1
    yield SAME
    made.__class__ = Special
    yield NEW


class Zero:
    def factor(self):
        return 0


class Seven(Zero):
    def factor(self):
        return 7


@scenario(Kind.INSTANCE_CLASS)
def the_class_of_a_class_attribute():
    class Holder:
        held = Zero()

    yield start(lambda t: t * Holder.held.factor(), x)
    Holder.held.beside = 1
    yield SAME
    Holder.held.__class__ = Seven
    yield NEW
    Holder.held.__class__ = Zero
    yield BACK


@scenario(Kind.INSTANCE_CLASS)
def the_class_of_a_descriptor_that_an_instance_hides():
    class Hidden:
        def __get__(self, owner, cls=None):
            return 7

    class Wins(Hidden):
        def __set__(self, owner, value):
            pass

    class Holder:
        value = Hidden()

    holder = Holder()
    holder.value = 2
    descriptor = vars(Holder)["value"]
    yield start(lambda t: t * holder.value, x)
    descriptor.__class__ = Wins
    yield NEW
    descriptor.__class__ = Hidden
    yield BACK


class Meta(type):
    SCALE = 2


class OtherMeta(Meta):
    SCALE = 7


@scenario(Kind.METACLASS)
def the_metaclass_of_a_class():
    class Made(metaclass=Meta):
        pass

    made = Made()
    yield start(lambda t: t * Made.SCALE + type(made).SCALE, x)
    Made.__class__ = OtherMeta
    yield NEW
    Made.__class__ = Meta
    yield BACK


@scenario(Kind.BUILTIN)
def a_name_that_shadows_a_builtin_in_a_helper():
    namespace: dict[str, Any] = {"__name__": "made_up"}
    exec("def longest(t, items): return t * max(items)", namespace)
    longest = namespace["longest"]
    yield start(lambda t: longest(t, [1, 2]), x)
    namespace["min"] = None
    yield SAME
    namespace["max"] = lambda items: 50
    yield NEW
    del namespace["max"]
    yield BACK


# ---- values ----


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Bits(enum.Flag):
    A = enum.auto()
    B = enum.auto()


@scenario(Kind.ENUM)
def enums_of_numbers():
    yield start(lambda t, level: t * level if level > 1 else t, x, Level.LOW)
    yield NEW.of(x, Level.HIGH)
    yield BACK.of(x, Level.LOW)
    yield NEW_UNSEEN.of(x, 1)


@scenario(Kind.ENUM)
def flags():
    yield start_any(lambda t, bits: t + 1 if Bits.A in bits else t, x, Bits.A)
    yield NEW.of(x, Bits.B)
    yield NEW.of(x, Bits.A | Bits.B)


@scenario(Kind.ENUM)
def an_attribute_of_an_enum_member():
    class Colour(enum.Enum):
        RED = 2
        BLUE = 3

        def __init__(self, number):
            self.scale = number

    yield start(lambda t: t * Colour.RED.scale, x)
    Colour.BLUE.scale = 9
    yield SAME
    Colour.RED.scale = 5
    yield NEW


@dataclasses.dataclass(frozen=True)
class Frozen:
    scale: float = 2.0
    name: str = "plain"


@scenario(Kind.DATACLASS)
def a_frozen_dataclass():
    yield start(lambda t, s: t * s.scale, x, Frozen())
    yield SAME.of(x, Frozen(name="other"))
    yield NEW.of(x, Frozen(scale=3.0))
    yield BACK.of(x, dataclasses.replace(Frozen(), name="third"))


@scenario(Kind.CONSTRUCTION, looks_at={Beside.KEY: "it goes through all fields, which are a dict of the class"})
def a_dataclass_that_is_made():
    @dataclasses.dataclass
    class Made:
        a: int
        b: int = 2

    yield start(lambda t: t * dataclasses.replace(Made(1), a=4).b, x)
    Made.note = 1
    yield SAME
    Made.__init__ = lambda self, a, b=7: (setattr(self, "a", a), setattr(self, "b", b))[0]
    yield EITHER
    Made.__post_init__ = lambda self: None
    yield EITHER


@scenario(Kind.DATACLASS, looks_at={Beside.KEY: "it goes through all fields, which are a dict of the class"})
def fields_of_a_dataclass():
    @dataclasses.dataclass
    class Made:
        a: int = 1
        b: int = 2

    made = Made()
    yield start_any(lambda t: t * sum(getattr(made, field.name) for field in dataclasses.fields(made)), x)
    made.c = 9
    yield SAME
    made.b = 5
    yield NEW


@scenario(Kind.LIST_OR_TUPLE)
def a_deque():
    d = collections.deque([1, 2], maxlen=3)
    yield start(lambda t: t * d[0] + len(d), x)
    d[1] = 7
    yield SAME
    d.append(5)
    yield NEW
    d.append(6)
    yield NEW
    d.clear()
    yield NEW


@scenario(Kind.DICT)
def a_counter_and_a_chain_of_dicts():
    c = collections.Counter("aab")
    chain = collections.ChainMap({"k": 1}, {"k": 2, "z": 3})
    yield start_any(lambda t: t * c["a"] + c["zzz"] + chain["k"] + chain["z"], x)
    c["b"] = 40
    yield SAME
    chain.maps[0]["beside"] = chain.maps[1]["beside"] = 4
    yield SAME
    c["a"] = 5
    yield NEW
    chain.maps[0]["k"] = 7
    yield NEW
    del chain.maps[0]["k"]
    yield NEW


@scenario(Kind.CONTAINER_SUBCLASS)
def subclasses_of_containers():
    class List(list):
        pass

    class Dict(dict):
        def __missing__(self, key):
            return 3

    items, table = List([1, 2]), Dict(a=1)
    yield start(lambda t: t * items[0] + len(items) + table["zz"], x)
    items.note = 1
    yield SAME
    items[0] = 5
    yield NEW
    List.__getitem__ = lambda self, i: 9
    yield NEW
    Dict.__missing__ = lambda self, key: 11
    yield NEW
    table["zz"] = 12
    yield NEW


@scenario(Kind.INSTANCE_ATTRIBUTE)
def a_simple_namespace():
    n = types.SimpleNamespace(a=1, b=2)
    yield start(lambda t: t * n.a, x)
    n.b = 3
    yield SAME
    n.c = 3
    yield SAME
    n.a = 3
    yield NEW
    del n.a
    yield NEW


@scenario(Kind.DICT)
def a_mapping_proxy():
    d = {"a": 1, "b": 2}
    proxy = types.MappingProxyType(d)
    yield start_any(lambda t: t * proxy["a"], x)
    d["b"] = 7
    yield SAME
    d["a"] = 5
    yield NEW


@scenario(Kind.LIST_OR_TUPLE)
def memory_of_bytes():
    b = bytearray(b"ab")
    yield start_any(lambda t: t * b[0], x)
    b[1] = 7
    yield SAME
    b[0] = 7
    yield NEW


@scenario(Kind.INSTANCE_ATTRIBUTE)
def an_object_with_its_own_truth_and_length():
    class Item:
        def __init__(self):
            self.values = [1]

        def __bool__(self):
            return bool(self.values)

    item = Item()
    yield start(lambda t: t + 1 if item else t, x)
    item.other = 1
    yield SAME
    item.values.append(2)
    yield SAME
    item.values.clear()
    yield NEW


@scenario(Kind.PARTIAL)
def getters_of_the_operator_module():
    class Item:
        a, b = 2, 3

    item = Item()
    read = operator.attrgetter("a")
    yield start(lambda t: t * read(item) + operator.itemgetter(0)([1]), x)
    Item.b = 7
    yield SAME
    Item.a = 7
    yield NEW


@scenario(Kind.PROPERTY)
def a_property_with_a_setter():
    class Item:
        def __init__(self):
            self._v = 2

        @property
        def v(self):
            return self._v

        @v.setter
        def v(self, value):
            self._v = value * self.factor

        factor = 1

    item = Item()

    def f(t):
        was = item._v
        item.v = 3
        result = t * item.v
        item._v = was
        return result

    yield start(f, x)
    item.note = 1
    yield SAME
    Item.factor = 5
    yield NEW


@scenario(Kind.LIBRARY_STATE)
def how_types_are_copied():
    """The program doesn't depend on functions that are registered with copyreg for other types."""
    yield start(lambda t: t + 1, x)
    copyreg.pickle(complex, lambda c: (complex, (c.real, c.imag)))
    yield SAME


@scenario(Kind.VALUE_OF_AN_ARGUMENT)
def identity_of_small_numbers_and_text():
    a = "text" * 3
    yield start_any(lambda t, s: t + 1 if s is a else t, x, a)
    yield EITHER.of(x, "".join(["text"] * 3))


@scenario(Kind.CALL_SHAPE)
def many_arguments_one_changes():
    yield start(lambda t, *numbers, **named: t * numbers[3] + named["d"], x, 1, 2, 3, 4, a=1, d=2)
    yield SAME.of(x, 9, 9, 9, 4, a=9, d=2)
    yield NEW.of(x, 1, 2, 3, 5, a=1, d=2)
    yield NEW.of(x, 1, 2, 3, 4, a=1, d=3)
    yield BACK.of(x, 0, 0, 0, 4, a=0, d=2)


@each(table.scenarios)
def test_change(row):
    play(row)
