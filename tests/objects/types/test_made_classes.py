"""Classes that a compiled function makes: they are new in each call, and have the names, bases and contents that eager gives them."""

from __future__ import annotations

import abc
import collections
import collections.abc
import dataclasses
import enum
import functools
import gc
import sys
import typing
from collections.abc import Callable
from typing import Any

import pytest
import torch

import framejit

T = typing.TypeVar("T")


class Plain:
    def greet(self):
        return "hello"


class Told:
    names: list[str] = []

    def __init_subclass__(cls, size=0, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.size = size
        Told.names.append(cls.__name__)


class Named:
    def __set_name__(self, owner, name):
        self.owner, self.name = owner, name

    def __get__(self, instance, owner):
        return self.name, self.owner is owner


class Tagging(type):
    def __new__(meta, name, bases, namespace, tag=0):
        return super().__new__(meta, name, bases, {**namespace, "tag": tag})

    def __init__(cls, name, bases, namespace, tag=0):
        super().__init__(name, bases, namespace)

    def __call__(cls, *args):
        made = super().__call__(*args)
        made.called = True
        return made


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return framejit.compile(function, backend="eager", fullgraph=True)


def same(function: Callable[..., Any], *args: Any) -> None:
    """Two calls in one graph give what eager gives, and need one compilation."""
    framejit.reset()
    called = compiled(function)
    expected = function(*args)
    for _ in range(2):
        found = called(*args)
        assert torch.equal(found, expected) if isinstance(expected, torch.Tensor) else repr(found) == repr(expected)
    assert framejit.statistics()["recompiles"] == 0


def test_methods_properties_and_super_of_classes_with_bases():
    def program(x):
        class Scale:
            factor = 2

            def __init__(self, x):
                self.x = x

            def scaled(self):
                return self.x * self.factor

            @classmethod
            def of(cls, x):
                return cls(x)

            @staticmethod
            def plus_one(x):
                return x + 1

        class More(Scale):
            def scaled(self):
                return super().scaled() + 1

            @property
            def result(self):
                return self.plus_one(self.scaled())

            @result.setter
            def result(self, value):
                self.x = value

        more = More.of(x)
        more.result = x * 3
        return more.result

    same(program, torch.ones(2))


def test_names_bases_and_namespaces():
    def program():
        class Inner(Plain):
            "A docstring."
            number: int = 3

            def method(self): ...

        inner = Inner()
        return (
            Inner.__name__, Inner.__qualname__, Inner.__module__, Inner.__doc__, Inner.__bases__ == (Plain,), len(Inner.__mro__), Inner.__base__ is Plain,
            Inner.method.__qualname__, list(Inner.__dict__), type(inner) is Inner, inner.__class__ is Inner, inner.greet(), repr(Inner), Inner.__hash__ is None,
        )  # fmt: skip

    same(program)


def test_docstrings_of_properties():
    def program():
        class Made:
            def get(self):
                "Of the function."
                return 1

            plain = property(get)
            own = property(get, doc="Its own.")
            none = property()

            @own.setter
            def own(self, value): ...

        return Made.plain.__doc__, Made.own.__doc__, Made().own, Made.own.fset is not None, Made.none.fget

    same(program)


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="annotations are evaluated when they are asked for, which breaks the graph")
def test_dataclasses():
    def program():
        @dataclasses.dataclass(order=True)
        class Point:
            x: int
            y: int = 2

            def total(self):
                return self.x + self.y

        point = Point(1)
        return point.total(), point == Point(1, 2), point < Point(1, 3), repr(point), dataclasses.replace(point, y=5), Point.__doc__, dataclasses.astuple(point)

    same(program)


def test_named_tuples():
    def program():
        pair = collections.namedtuple("Pair", "a b", module="made")
        made = pair(1, 2)
        return made, made.b, made._asdict(), made._replace(a=3), sum(made), pair.__module__, pair._fields, [*map(type, made)]

    same(program)


def test_fields_of_named_tuples_have_texts_of_their_own():
    def program():
        made = collections.namedtuple("Made", "x y", module="made")
        before = made.x is made.x
        framejit.graph_break()
        found = before, made.x.__doc__, made(1, 2).x
        made.x.__doc__ = "changed"
        return found, made.x.__doc__, made.y.__doc__

    function = framejit.compile(program, backend="eager")
    assert [function(), function()] == [program()] * 2


def test_entries_of_the_namespace_that_are_slots_or_numbers_of_a_subclass():
    def program():
        class Number(int):
            pass

        class Made:
            __slots__ = ("__qualname__",)
            number = Number(3)

        made = Made()
        missing = not hasattr(made, "__qualname__")
        made.__qualname__ = "q"
        return missing, made.__qualname__, Made.__qualname__.rpartition(".")[2], made.number + 1, type(vars(Made)["__qualname__"]).__name__

    same(program)


def test_special_methods_are_found_on_the_class():
    def program():
        class Number:
            __slots__ = ("value",)

            def __init__(self, value):
                self.value = value

            def __eq__(self, other):
                return isinstance(other, Number) and self.value == other.value

            def __lt__(self, other):
                return self.value < other.value

            def __len__(self):
                return self.value

            def __getattr__(self, name):
                return name

        one, two = Number(1), Number(2)
        return one == Number(1), one != two, max(one, two).value, len(two), two.missing, Number.__hash__, bool(Number(0)), hasattr(one, "__dict__")

    same(program)


def test_each_call_makes_another_class():
    @compiled
    def program():
        class Made(Plain):
            def me(self):
                return __class__

        return Made, Made()

    first, instance = program()
    second, _ = program()
    assert first is not second and type(instance) is first and instance.me() is first
    assert first.__qualname__ == "test_each_call_makes_another_class.<locals>.program.<locals>.Made"
    assert first().greet() == "hello" and first.me.__code__ is second.me.__code__


def test_iterations_make_classes_of_their_own():
    def program():
        made = []
        for i in range(3):

            class Made:
                number = i

            made.append(Made)
        return [each.number for each in made], len(set(made)), made[0] is made[1], {made[0]: 1}[made[0]]

    same(program)


def test_bases_know_the_classes_of_calls_and_no_others():
    @compiled
    def program():
        class Made(Plain):
            pass

        return Made.__name__

    gc.collect()
    before = len(Plain.__subclasses__())
    program(), program()
    assert [cls.__module__ for cls in Plain.__subclasses__()[before:]] == [__name__] * 2


def test_subclasses_are_there_at_a_break():
    def program():
        class First(Plain):
            pass

        class Second(Plain):
            pass

        return [cls.__name__ for cls in Plain.__subclasses__()[-2:]]

    assert framejit.compile(program, backend="eager")() == program() == ["First", "Second"]


def test_a_class_that_cannot_be_made_without_telling_its_bases_is_made_once():
    class Base(typing.Generic[T]):
        x = 1

    def program():
        before = Base.__subclasses__()

        class Made(Base):
            pass

        return before, [cls.__name__ for cls in Base.__subclasses__()], Made.x

    gc.disable()
    try:
        assert framejit.compile(program, backend="eager")() == ([], ["Made"], 1)
    finally:
        gc.enable()


def test_a_class_in_use_at_a_break_is_the_same_after_it():
    def program(x):
        class Made:
            count = 0

            def __enter__(self):
                return self

            def __exit__(self, *exc):
                Made.count += 1
                return True

        with Made() as made:
            framejit.graph_break()
            raise ValueError
        return Made.count, type(made) is Made, x + made.count

    called = framejit.compile(program, backend="eager")
    assert called(1) == program(1) and called(2) == program(2)


def test_attributes_set_after_the_statement():
    def program(escapes):
        class Made:
            number = 1
            gone = 2

        Made.number = 5
        Made.method = lambda self: self.number
        Made.instance = Made()
        del Made.gone
        if escapes:
            return Made
        return Made().method(), type(Made.instance) is Made, hasattr(Made, "gone"), list(vars(Made))

    same(program, False)
    made = compiled(program)(True)
    assert list(vars(made)) == list(vars(program(True))) and type(made.instance) is made and made().method() == 5


def test_exceptions_of_classes_made_here():
    def program(inner):
        class Failure(ValueError):
            def __init__(self, text):
                super().__init__(text, "more")

        if inner:
            try:
                raise Failure("a") from KeyError("b")
            except Failure as error:
                return error.args, repr(error.__cause__)
        raise Failure("b")

    same(program, True)
    called = framejit.compile(program, backend="eager")
    for _ in range(2):
        with pytest.raises(ValueError) as caught:
            called(False)
        assert caught.value.args == ("b", "more") and type(caught.value).__name__ == "Failure"


def test_subclasses_of_builtin_types():
    def program():
        class Number(int):
            pass

        class Text(str):
            def loud(self):
                return self.upper()

        class Pair(tuple):
            def __new__(cls, a, b):
                return super().__new__(cls, (a, b))

        class Default(dict):
            def __missing__(self, key):
                return key * 2

        return Number(3) + 1, Text("a").loud(), sum(Pair(1, 2)), Default(a=1)["b"], type(Number(1)).__name__, [type(Pair(1, 2)) is Pair]

    same(program)


def test_abstract_classes():
    def program():
        class Base(abc.ABC):
            @abc.abstractmethod
            def method(self): ...

        class Made(Base):
            def method(self):
                return 3

        try:
            Base()
        except TypeError as error:
            return str(error), Made().method(), isinstance(Made(), Base), isinstance(3, Base), sorted(Base.__abstractmethods__)

    same(program)


def test_a_descriptor_of_the_library_that_holds_an_abstract_method_makes_its_class_abstract():
    def program():
        class Base(abc.ABC):
            @functools.singledispatchmethod
            @abc.abstractmethod
            def method(self, x): ...

        try:
            return Base()
        except TypeError as error:
            return str(error), sorted(Base.__abstractmethods__)

    assert framejit.compile(program, backend="eager")() == program()


def test_errors_about_arguments_name_a_renamed_function():
    def program(message):
        @dataclasses.dataclass
        class Point:
            x: int
            y: int = 0

        def renamed(a, *, b): ...

        renamed.__qualname__ = message
        found = []
        calls = (lambda: Point(), lambda: Point(1, 2, 3), lambda: Point(z=1), lambda: Point(1, x=2), lambda: renamed(1), lambda: renamed(1, 2, b=3))
        for call in calls:
            try:
                call()
            except TypeError as error:
                found.append(str(error))
        return found

    assert framejit.compile(program, backend="eager")("other") == program("other")


def test_errors_about_arguments_name_a_function_from_outside_as_it_is_called_now():
    def outside(a): ...

    def program():
        try:
            outside()
        except TypeError as error:
            return str(error)

    same(program)
    function = compiled(program)
    first = function()
    outside.__qualname__ = "renamed"
    assert function() == program() != first


@pytest.mark.skipif(hasattr(sys, "_getframemodulename"), reason="newer Pythons ask C code for the module of the caller")
def test_named_tuples_and_type_variables_are_of_the_module_that_makes_them():
    def program():
        made = collections.namedtuple("Made", "x y", defaults=[3])
        other = collections.namedtuple("Other", "x", module="somewhere")
        variable, new = typing.TypeVar("V"), typing.NewType("New", int)
        shown = repr(made(1)), made(1)._asdict(), made(1)._replace(y=5), made.__qualname__, made.__doc__, made.__new__.__defaults__
        try:
            made()
        except TypeError as error:
            message = str(error)
        return made.__module__, other.__module__, variable.__module__, new.__module__, new(3), shown, message

    same(program)

    def leaving():
        return collections.namedtuple("Made", "x y")

    function = compiled(leaving)
    first, second = function(), function()
    assert first is not second and first.__module__ == __name__ and first(1, 2) == (1, 2)


def test_defaults_of_a_function_that_is_made():
    def program():
        def function(a, b=1): return a, b

        found = [function(0), function.__defaults__]
        for defaults in ((5, 6), (), None, (7,)):
            function.__defaults__ = defaults
            try:
                found += [function.__defaults__, function(1), function()]
            except TypeError as error:
                found.append(str(error))
        function.__defaults__ = (function, found)
        return found, function()[0] is function

    same(program)

    def leaving():
        def function(a, b=1): return a, b

        function.__defaults__ = (function, 4)
        return function

    made = compiled(leaving)()
    assert made.__defaults__ == (made, 4) and made() == (made, 4)


@dataclasses.dataclass
class Outside:
    x: int
    items: list = dataclasses.field(default_factory=list)


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="annotations are evaluated when they are asked for, which breaks the graph")
def test_dataclasses_with_factories():
    def program():
        @dataclasses.dataclass
        class Made:
            x: int
            items: list = dataclasses.field(default_factory=list)
            names: dict[str, int] = dataclasses.field(default_factory=dict, repr=False)
            more: tuple[int, ...] | None = None

        a, b, outside = Made(1), Made(1, [1]), Outside(2)
        a.items.append(5)
        outside.items.append(3)
        return repr(a), b.items, a == b, Made(1).items is Made(1).items, outside, dataclasses.asdict(b), Made.__init__.__defaults__[-1]

    same(program)

    def documented():
        @dataclasses.dataclass
        class Made:
            items: list[dict[str, int]] = dataclasses.field(default_factory=list)
            show: typing.Callable[[int], str] = repr
            other: typing.Optional[typing.List[int]] = None

        return Made.__doc__

    same(documented)


def test_totally_ordered_classes():
    def program():
        @functools.total_ordering
        class Made:
            def __init__(self, x):
                self.x = x

            def __lt__(self, other):
                return self.x < other.x

            def __eq__(self, other):
                return self.x == other.x

        a, b = Made(1), Made(2)
        return a < b, a <= b, a > b, a >= b, Made.__gt__.__name__, sorted([b, a])[0] is a

    program()  # the first use renames functions of functools
    same(program)


def test_a_function_from_outside_is_given_the_name_that_it_has():
    def outside(): ...

    def program(name):
        outside.__name__ = name
        return outside.__name__

    function = framejit.compile(program, backend="eager")
    for name in ("outside", "outside", "other", "other", "outside"):
        assert function(name) == name == outside.__name__
    outside.__name__ = "third"
    assert function("outside") == "outside" == outside.__name__


def test_a_call_of_enum_makes_a_new_class_each_time():
    def program(base):
        made = base("Month", "june july")
        return made, [member.name for member in made], made.june in made, made["july"].value

    function = framejit.compile(program, backend="eager")
    for base in (enum.Enum, enum.Flag):
        (first, *rest), (second, *_), (_, *expected) = function(base), function(base), program(base)
        assert rest == expected and first is not second and issubclass(first, base)


def test_abstract_classes_of_the_library():
    def program():
        class Iterates:
            def __iter__(self):
                return iter(())

        class Sizes(collections.abc.Sized):
            def __len__(self):
                return 2

        class Own(abc.ABC):
            pass

        return isinstance(Iterates(), collections.abc.Iterable), isinstance(Iterates(), collections.abc.Sized), issubclass(Sizes, Own), issubclass(int, Own)

    same(program)


def test_a_base_that_is_registered_later():
    class Abstract(abc.ABC):
        pass

    class Base:
        pass

    @compiled
    def program():
        class Made(Base):
            pass

        return isinstance(Made(), Abstract)

    assert [program(), program()] == [False, False]
    Abstract.register(Base)
    assert program() is True


def test_patterns():
    def program():
        class Items(collections.abc.Sequence):
            __match_args__ = ("a", "b")
            a, b = 1, 2

            def __len__(self):
                return 2

            def __getitem__(self, index):
                return (5, 6)[index]

        found = []
        match Items():
            case [x, y]:
                found += [x, y]
        match Items():
            case Items(1, y):
                found.append(y)
        return found

    same(program)


def test_an_abstract_class_that_leaves_is_abstract():
    @compiled
    def program():
        class Base(abc.ABC):
            @abc.abstractmethod
            def method(self): ...

        return Base

    with pytest.raises(TypeError, match="abstract"):
        program()()


def test_metaclasses_in_python_are_traced():
    def program():
        class Made(metaclass=Tagging, tag=4):
            pass

        made = Made()
        other = Tagging("Other", (Made,), {"x": 1})
        return made.tag, made.called, type(Made) is Tagging, other.tag, other.x, other.__module__

    same(program)


def test_calls_of_type_make_classes():
    def program(x):
        made = type("Made", (Plain,), {"x": x, "method": lambda self: self.x * 2})
        return made().method(), made().greet(), made.__module__, made.__qualname__

    same(program, torch.ones(2))


def test_values_are_told_their_names_once():
    def program():
        class Made:
            entry = Named()

        return Made, Made.entry, Made().entry

    framejit.reset()
    made, *found = compiled(program)()
    assert found == [("entry", True), ("entry", True)]
    assert made.entry == ("entry", True) and vars(made)["entry"].owner is made


def test_errors_of_class_statements_are_the_interpreters():
    def message(name, bases, namespace, **kwargs):
        try:
            type(name, bases, namespace, **kwargs)
        except (TypeError, ValueError) as error:
            return type(error).__name__, str(error)

    def program():
        return (
            message("A", (int, str), {}), message("A", (bool,), {}), message("A", (), {"__slots__": ("a",), "a": 1}), message("A", (Plain, Plain), {}),
            message("A", (), {}, word=1), message("A", (object, Plain), {}),
        )  # fmt: skip

    same(program)


def test_branches_on_data_see_what_each_way_sets():
    def program(x):
        class Made:
            if x.sum() > 0:
                number = 1
            else:
                number = 2

        if x.sum() > 5:
            Made.other = 1
        else:
            Made.other = 2
        return Made.number, Made.other

    called = framejit.compile(program, backend="eager")
    for x in (torch.ones(2), -torch.ones(2), torch.ones(9)):
        assert called(x) == program(x)


def test_bases_are_told_once_of_each_class():
    @compiled
    def program():
        class Made(Told):
            pass

        class Sized(Made, size=3):
            pass

        return Sized, Sized.size, Told.names[:]

    Told.names.clear()
    made, size, names = program()
    assert size == 3 and names == Told.names == ["Made", "Sized"]
    assert [cls.__name__ for cls in made.__mro__] == ["Sized", "Made", "Told", "object"] and made.__bases__[0].__bases__ == (Told,)
    program()
    assert Told.names == ["Made", "Sized"] * 2


def test_bases_with_slots_are_told():
    def program():
        class Base:
            __slots__ = ("a",)

            def __init_subclass__(cls):
                cls.told = cls.__name__

        class Made(Base):
            __slots__ = ("b",)

        made = Made()
        made.a, made.b = 1, 2
        return made.told, made.a + made.b, hasattr(made, "__dict__"), hasattr(Base, "told")

    same(program)


def test_generic_classes():
    def program(deep):
        class Box(typing.Generic[T]):
            def get(self) -> T:
                return 1

        if deep:

            class More(Box[int]):
                pass

            return More().get(), More.__mro__[1] is Box, len(More.__orig_bases__)
        return Box().get(), Box.__parameters__, Box.__orig_bases__

    called = framejit.compile(program, backend="eager")
    for deep in (False, True, False):
        assert called(deep) == program(deep)


def test_hashes_and_addresses_are_those_of_the_class_of_the_call():
    @framejit.compile(backend="eager")
    def program():
        class Made:
            pass

        return Made, hash(Made), hash((Made, 1)), id(Made)

    for _ in range(2):
        made, *numbers = program()
        assert numbers == [hash(made), hash((made, 1)), id(made)]


def test_a_change_of_a_base_is_seen():
    def program():
        class Made(Plain):
            pass

        return Made().greet()

    called = compiled(program)
    assert called() == "hello"
    own = Plain.greet
    Plain.greet = lambda self: "changed"
    try:
        assert called() == "changed"
    finally:
        Plain.greet = own
    assert called() == "hello"


def test_modules_defined_in_the_function():
    def program(x):
        class Twice(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.factor = torch.nn.Parameter(torch.full((2,), 2.0))

            def forward(self, x):
                return x * self.factor

        return Twice()(x).detach()

    same(program, torch.ones(2))


def test_what_patterns_take_the_instances_for():
    def f():
        class Records(collections.UserDict, collections.abc.Sequence):
            pass

        class Rows(list, Plain, collections.abc.Mapping):
            pass

        found = []
        for value in (Records(), Rows()):
            match value:
                case [*_]:
                    found.append("sequence")
                case {}:
                    found.append("mapping")
        return found

    assert framejit.compile(f, backend="eager", fullgraph=True)() == f() == ["mapping", "sequence"]


def test_alias_of_a_callable_class():
    def f():
        class Made(collections.abc.Callable):
            def __call__(self):
                return 1

        alias = Made[[int], T]
        return type(alias()) is Made, alias().__orig_class__ == alias, alias()()

    assert framejit.compile(f, backend="eager")() == f() == (True, True, 1)


@pytest.mark.parametrize("mark", [True, False, 1, []])
def test_marks_of_abstract_methods(mark):
    def f():
        class Base(abc.ABC):
            def method(self):
                return 1

            method.__isabstractmethod__ = mark
            field = property(method)

        try:
            return Base().method()
        except TypeError as error:
            return str(error)

    assert framejit.compile(f, backend="eager")() == f()


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self):
        pass

    @abc.abstractmethod
    def __eq__(self, other):
        pass


def test_abstract_methods_that_decorators_implement_or_add():
    def f():
        @dataclasses.dataclass
        class Square(Shape):
            side: int = 1

            def area(self):
                return self.side**2

        class Late(abc.ABC):
            @abc.abstractmethod
            def method(self):
                pass

        class Early(abc.ABC):
            pass

        early, said = Early(), []
        Late.method = lambda self: 5
        Early.method = abc.abstractmethod(lambda self: 6)
        for cls in (Late, Early, Late):
            try:
                cls()
            except TypeError as error:
                said.append(str(error))
            abc.update_abstractmethods(cls)
        late = Late()
        return Square(3), late, early, said, [sorted(cls.__abstractmethods__) for cls in (Square, Late, Early)]

    evaluates_later = sys.version_info >= (3, 14)  # annotations of classes that the trace makes
    for run in (f, framejit.compile(f, backend="eager", fullgraph=not evaluates_later)):
        square, late, early, said, methods = run()
        assert (square.area(), late.method(), methods) == (9, 5, [[], [], ["method"]])
        assert len(said) == 1 and "Late" in said[0]
        assert type(late)().method() == 5
        with pytest.raises(TypeError, match="Early"):
            type(early)()
