"""Finds out how builtins behave in the running Python, where its supported versions differ. Each fact is tried once, when this module is imported."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections import defaultdict
from collections.abc import Generator, Hashable, Iterator
from types import CodeType, MappingProxyType
from typing import Any


class Counted:
    """An iterable without items that notes whether it is asked for its length."""

    asked = False

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __length_hint__(self) -> int:
        Counted.asked = True
        return 0


class Doubled(list[int]):
    """A list with an `__iter__` of its own."""

    def __iter__(self) -> Iterator[int]:
        return iter([2 * item for item in list.__iter__(self)])


class Hidden(set[int]):
    """A set with an `__iter__` of its own."""

    def __iter__(self) -> Iterator[int]:
        return iter(())


class Unreadable:
    """A class whose `__iter__` can't be looked up."""

    @property
    def __iter__(self) -> Any:
        raise ValueError


def lookup_errors_pass() -> bool:
    """Return whether iter() raises the error of looking up the `__iter__` of such an object, and not one of its own."""
    try:
        iter(Unreadable())
    except ValueError:
        return True
    except TypeError:
        return False
    raise AssertionError("no error")


def extended_with_itself() -> list[int]:
    """Return the stored items of a Doubled that had the item 1 and was extended with itself."""
    target = Doubled([1])
    target.extend(target)
    return target[:]


def answers_close() -> Generator[None, None, int]:
    """A generator that returns a value when it is closed."""
    with contextlib.suppress(GeneratorExit):
        yield
    return 1


def has_name(owner: Any) -> bool:
    """Return whether the error of deleting an attribute that isn't there has the attribute's name."""
    try:
        del owner.missing
    except AttributeError as error:
        return error.name is not None
    raise AssertionError("no error")


class Deaf(defaultdict[int, int]):
    """A defaultdict that doesn't store what is assigned."""

    def __setitem__(self, key: int, value: int) -> None:
        pass


def stores_missing() -> bool:
    """Return whether a Deaf stores a value that its factory makes."""
    deaf = Deaf(int)
    deaf[1]
    return 1 in deaf


class Ending:
    """An object that notes its end."""

    def __init__(self, ended: list[Any]) -> None:
        self.ended = ended

    def __del__(self) -> None:
        self.ended.append(self)


def ends() -> list[int]:
    """Return the order in which a function lets go of its two variables when it returns: [1, 2] or [2, 1]."""
    ended: list[Any] = []

    def with_variables() -> list[int]:
        first, second = Ending(ended), Ending(ended)
        return [id(first), id(second)]

    order = with_variables()
    return [order.index(id(ending)) + 1 for ending in ended]


class Failing:
    """A mapping of one name, whose value can't be had."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def keys(self) -> list[str]:
        return ["name"]

    def __getitem__(self, key: str) -> Any:
        raise self.error


def merge_errors_pass() -> bool:
    """Return whether a call with a Failing raises the Failing's own errors."""
    errors = AttributeError(), KeyError("name")
    for error in errors:
        try:
            dict(**Failing(error))
        except Exception as raised:
            if raised is not error:
                return False
    return True


def delegated() -> Any:
    """Return the object that a generator delegates to in `yield from` a tuple: the tuple, or an iterator over it."""

    def delegating() -> Generator[int, None, None]:
        yield from (1, 2)

    generator: Any = delegating()
    next(generator)
    return generator.gi_yieldfrom


def left_by_issubset() -> list[int]:
    """Return the items that `issubset` has not taken from an iterator whose first item is enough."""
    items = iter((1, 2))
    {1}.issubset(items)
    return list(items)


class ComparesToOther:
    """Comparing with an instance returns the other object."""

    def __eq__(self, other: object) -> Any:
        return other


def proxy_is_copied() -> bool:
    """Return whether a mapping proxy compares a copy of its dict."""
    mapping: dict[Any, Any] = {}
    return (MappingProxyType(mapping) == ComparesToOther()) is not mapping  # type: ignore[comparison-overlap]


def closed() -> Any:
    """Return the result of `close()` on a generator that returns 1 when it is closed."""
    generator: Any = answers_close()
    next(generator)
    return generator.close()


def caught_in_part() -> list[BaseException]:
    """Return what an `except*` gives to its clause for a plain exception."""
    caught: list[BaseException] = []
    try:
        raise ValueError
    except* ValueError as group:
        caught.append(group)
    return caught


def raised_in_part() -> BaseException:
    """Return what leaves an `except*` of which one clause raises a KeyError."""
    try:
        try:
            raise ExceptionGroup("", [ValueError()])
        except* ValueError:
            raise KeyError from None
    except BaseException as error:
        return error


def said_of_condition() -> str:
    """Return the message for a condition by which a group can't be split."""
    try:
        ExceptionGroup("", [ValueError()]).split(5)  # type: ignore[call-overload]
    except TypeError as error:
        return str(error)
    return ""


TUPLES_ASK_LENGTHS = tuple(Counted()) == () and Counted.asked
"""True if a tuple made from an iterable asks it for its length first, as a list does."""
EXTENDS_FROM_STORED = extended_with_itself() == [1, 1]
"""True if a list that is extended with itself takes its stored items, even if its class has an `__iter__`."""
REPR_OF_STORED = "1" in repr(Hidden([1]))
"""True if the repr of a set has its stored elements, even if its class has an `__iter__`."""
SUBSETS_STOP_EARLY = left_by_issubset() == [2]
"""True if `issubset` of a set takes items of an iterable only until it has found each of its elements."""
LOOKUP_ERRORS_PASS = lookup_errors_pass()
"""True if comparisons and iter() ignore only AttributeErrors of looking up their methods; otherwise they ignore all exceptions."""
MISSING_IS_STORED = stores_missing()
"""True if a defaultdict stores what its factory makes as `dict.setdefault` does, even if its class has a `__setitem__`."""
CLASSMETHODS_CHAIN = classmethod(property(lambda cls: 1)).__get__(None, int) == 1  # type: ignore[arg-type,comparison-overlap]
"""True if a classmethod around a descriptor, such as a property, calls that descriptor's `__get__` with the class."""
MERGE_ERRORS_PASS = merge_errors_pass()
"""True if `**` of an object raises the errors that the object's methods raise; otherwise it takes an AttributeError as the sign of an object that is no
mapping, and a KeyError as that of a name that is given twice."""
DELEGATES_TO_SEQUENCES = type(delegated()) is tuple
"""True if a generator delegates to a list, tuple, str or bytes itself, and not to an iterator over it."""
LAST_VARIABLE_ENDS_FIRST = ends() == [2, 1]
"""True if a function that returns lets go of its variables from the last to the first."""
NAMED_WITHOUT_DICT = has_name(object())
"""True if the error of setting or deleting an attribute of an object without `__dict__` has the attribute's name and the object."""
NAMED_IN_DICT = has_name(has_name)
"""True if the error of deleting a missing attribute has the attribute's name, for an object whose C type has a `__dict__`: a function, a module."""
NAMED_IN_INSTANCE = has_name(Counted())
"""True if the error of deleting a missing attribute has the attribute's name, for an instance of a class defined in Python."""
COMPARES_COPIES = proxy_is_copied()
"""True if a mapping proxy of a dict compares a copy of it with an object of another class."""
CLOSE_RETURNS = closed() == 1
"""True if `close()` of a generator returns what the generator returns."""
WRAPPERS_HAVE_TRACEBACKS = caught_in_part()[0].__traceback__ is not None
"""True if the group that stands for a plain exception in a clause of `except*` has a traceback."""
WRAPS_SINGLE = type(raised_in_part()) is not KeyError
"""True if an exception that a clause of `except*` raises leaves the statement in a group, even if it is the only one."""
SAID_OF_CONDITION = said_of_condition()
"""The message for a condition by which a group of exceptions can't be split."""
GROUPS_CALL_OBJECTS = "callable" in SAID_OF_CONDITION
"""True if a group of exceptions is split by any callable object that is no class; otherwise by functions only."""


HAS_DOCSTRING = getattr(inspect, "CO_HAS_DOCSTRING", None)
"""The flag of a code object whose first constant is a docstring, if the running Python has one. In other Pythons, a first constant that is a string is one."""


def has_docstring(code: CodeType) -> bool:
    """Return whether a code object's first constant is a docstring if it is a string."""
    return HAS_DOCSTRING is None or bool(code.co_flags & HAS_DOCSTRING)


class Classless:
    """Instances have no attribute `__class__`."""

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":
            raise AttributeError(name)
        return super().__getattribute__(name)


def abc_accepts_no_class() -> bool:
    """Return whether an object without `__class__` may be compared with an abstract base class."""
    try:
        isinstance(Classless(), Hashable)
    except AttributeError:
        return False
    return True


ABC_ACCEPTS_NO_CLASS = abc_accepts_no_class()


def complex_warns() -> bool:
    """Return whether `complex` warns of parts that are complex themselves."""
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        complex(1j, 1)
    return bool(shown)


COMPLEX_WARNS = complex_warns()


class Nameless:
    """An attribute that raises when it is told its name."""

    def __set_name__(self, owner: type, name: str) -> None:
        raise KeyError(name)


def naming_errors_wrapped() -> bool:
    """Return whether a class statement raises another error for one that `__set_name__` raises."""
    try:
        type("Owner", (), {"attribute": Nameless()})
    except KeyError:
        return False
    except RuntimeError:
        return True
    raise AssertionError("no error")


NAMING_ERRORS_WRAPPED = naming_errors_wrapped()
"""True if a class statement raises a RuntimeError for an exception of a `__set_name__`; otherwise it raises that exception, with a note."""


def annotations_in_namespace() -> bool:
    """Return whether the annotations of a class without any are an entry of its namespace once they are read, and if they are set."""
    made, other = type("Made", (), {}), type("Other", (), {})
    other.__annotations__ = {}
    return made.__annotations__ == {} and all("__annotations__" in vars(cls) for cls in (made, other))


ANNOTATIONS_IN_NAMESPACE = annotations_in_namespace()
