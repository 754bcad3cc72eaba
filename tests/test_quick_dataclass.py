"""Classes made by `framejit.quick_dataclass.dataclass`, beside the same classes made by the standard library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any, ClassVar

import pytest

from framejit import quick_dataclass
from framejit.quick_dataclass import dataclass


def make(decorator: Any) -> dict[str, Any]:
    """Classes of several forms, by their names."""

    @decorator(frozen=True, slots=True)
    class Point:
        """Two numbers."""

        x: int
        y: int = 2
        of_class: ClassVar[int] = 3

    @decorator(frozen=True)
    class One:
        """One value."""

        only: Any

    @decorator(slots=True)
    class Documented:
        """Fields that have defaults, made and given."""

        first: int
        items: list[int] = dataclasses.field(default_factory=list)
        second: int = 7

    @decorator
    class Changing:
        items: list[int] = dataclasses.field(default_factory=list)
        hidden: int = dataclasses.field(default=0, repr=False, compare=False)

    @decorator(frozen=True)
    class Hashed:
        a: int
        b: list[int] = dataclasses.field(default_factory=list, hash=False)

    @decorator(frozen=True, eq=False)
    class ByIdentity:
        a: int

    @decorator(frozen=True)
    class Inheriting(One):
        more: int = 4

    @decorator(frozen=True)
    class Nothing:
        pass

    @decorator(frozen=True)
    class WithOwn:
        a: int

        def __eq__(self, other: object) -> bool:
            return True

        def __repr__(self) -> str:
            return "own text"

    @decorator(frozen=True)
    class WithHash:
        a: int

        def __hash__(self) -> int:
            return 7

    @decorator(frozen=True, repr=False)
    class Plain:
        a: int

    return {name: value for name, value in locals().items() if isinstance(value, type)}


QUICK, STANDARD = make(dataclass), make(dataclasses.dataclass)
GIVEN: dict[str, list[tuple[Any, ...]]] = {
    "Point": [(1,), (1, 2), (True, 2), (3, 4)], "One": [(1,), (float("nan"),), ((1, 2),), ([1],)], "Changing": [(), ([1],), ([1], 5)],
    "Documented": [(1,), (1, [2]), (1, [], 8)], "Hashed": [(1,), (1, [2]), (2,)],
    "ByIdentity": [(1,), (1,)], "Inheriting": [(1,), (1, 4), (1, 5)], "Nothing": [(), ()], "WithOwn": [(1,), (2,)],
    "WithHash": [(1,), (1,), (2,)], "Plain": [(1,), (1,)],
}  # fmt: skip


def told(value: Any) -> Any:
    """The result of a call, or the type of its error."""
    try:
        return value()
    except TypeError as error:
        return type(error)


@pytest.mark.parametrize("name", GIVEN)
def test_classes_do_what_those_of_the_standard_library_do(name):
    facts = []
    for classes in (QUICK, STANDARD):
        cls = classes[name]
        made = [cls(*args) for args in GIVEN[name]]
        equal = [[one == other for other in made] for one in made]
        known = told(lambda: [[hash(one) == hash(other) for other in made] for one in made])
        texts = ["a text with an address" if " object at 0x" in repr(one) else repr(one) for one in made]
        fields = [(field.name, field.type, field.compare) for field in dataclasses.fields(cls)]
        data = [dataclasses.asdict(one) for one in made]
        facts.append(repr((equal, known, texts, fields, data, cls.__match_args__, "__slots__" in vars(cls), cls.__doc__, made[0] == 1)))
    assert facts[0] == facts[1]


def test_wrong_arguments_are_refused():
    for args in ((), (1, 2, 3)):
        with pytest.raises(TypeError, match=r"Point.__init__\(\)"):
            QUICK["Point"](*args)


def test_a_constructor_is_compiled_by_the_first_instance():
    cls = make(dataclass)["Documented"]
    before = cls.__init__
    one, two = cls(1), cls(first=2, second=3)
    assert cls.__init__ is not before and cls.__init__.__code__.co_varnames == ("__self__", "first", "items", "second")
    assert (one.items, one.second, two.first, two.second) == ([], 7, 2, 3) and one.items is not two.items
    before(two, 5)
    assert two.first == 5


def test_constructors_of_as_many_fields_are_compiled_once():
    @dataclass
    class Other:
        """A class with three fields, the second of which has a default factory. So has `Documented`."""

        name: str
        made: dict[str, int] = dataclasses.field(default_factory=dict)
        number: int = 1

    make(dataclass)["Documented"](1)
    before = quick_dataclass.init_code.cache_info()
    one, two = Other("a"), Other("b", number=2)
    assert quick_dataclass.init_code.cache_info().misses == before.misses and one.__init__.__qualname__.endswith("Other.__init__")
    assert (one.name, one.made, one.number, two.name, two.made, two.number) == ("a", {}, 1, "b", {}, 2) and one.made is not two.made


def test_a_constructor_that_the_class_has_been_given_stays():
    cls = make(dataclass)["Documented"]
    before = cls.__init__
    cls.__init__ = given = lambda self, *args: before(self, *args)
    assert cls(1).first == cls(1).first == 1 and cls.__init__ is given


def test_a_text_that_contains_itself_ends():
    made = QUICK["Changing"]()
    made.items.append(made)
    assert repr(made).endswith("Changing(items=[...])")


@dataclass(frozen=True, slots=True)
class Portable:
    a: int
    b: str = "b"


def test_instances_are_copied_pickled_and_replaced():
    one = Portable(1)
    assert copy.deepcopy(one) == one == pickle.loads(pickle.dumps(one))
    assert dataclasses.replace(one, b="c") == Portable(1, "c")
    with pytest.raises(AttributeError):
        one.other = 1  # type: ignore[attr-defined]
