"""Names of arguments that models of C functions use themselves, and copies that a subclass's `__new__` makes of something else."""

from __future__ import annotations

import functools
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import pytest

import framejit


def outcome(call: Callable[[], Any]) -> str:
    try:
        return repr(call())
    except framejit.errors.InternalError:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def updated() -> Any:
    made: dict[str, int] = {}
    made.update(self=1, vm=2, args=3, kwargs=4, source=5)
    dict.update(made, self=6)
    return made


def ordered_updated() -> Any:
    made: OrderedDict[str, int] = OrderedDict()
    made.update(self=1, vm=2, args=3)
    return made


def formatted() -> Any:
    return "{self} {vm} {template} {function}".format(self=1, vm=2, template=3, function=4)


def partial_called() -> Any:
    return functools.partial(dict, self=1, function=2, vm=3)(cls=4), functools.partial(dict)(self=5, vm=6)


def counted() -> Any:
    counts = Counter(self=1, iterable=2)
    counts.update(self=1, vm=3)
    return counts


class Taking:
    def __init__(this, **kwargs: int) -> None:
        this.kwargs = kwargs


def made_with_names() -> Any:
    return Taking(self=1, vm=2, cls=3, args=4).kwargs


@pytest.mark.parametrize("program", [updated, ordered_updated, formatted, partial_called, counted, made_with_names])
def test_arguments_named_as_a_models_own(program: Callable[[], Any]) -> None:
    assert outcome(framejit.compile(program, backend="eager")) == outcome(program)


class Tagged(deque):  # type: ignore[type-arg]
    def __init__(self, items: Any = (), maxlen: int | None = None) -> None:
        deque.__init__(self, items, maxlen)
        self.tag = "made"


class Own(deque):  # type: ignore[type-arg]
    pass


class Other(Own):
    def __iter__(self) -> Any:
        return iter([7, 8])


def shown(value: Any) -> Any:
    return type(value).__name__, list(value), value.maxlen, vars(value)


@pytest.mark.parametrize("cls", [Tagged, Own, Other])
@pytest.mark.parametrize("maxlen", [None, 3])
def test_repeated_and_added_deques_keep_their_class(cls: type, maxlen: int | None) -> None:
    def program() -> Any:
        made = cls([1, 2], maxlen)
        made.mark = 1
        return [shown(value) for value in (made * 2, 2 * made, made * 0, made * -1, made + made, made + deque([9]), made.copy())]

    assert outcome(framejit.compile(program, backend="eager")) == outcome(program)


def bad_new(cls: type, *args: Any, **kwargs: Any) -> list[int]:
    return [42]


OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "times": lambda made: made * 42,
    "add": lambda made: made + made,
    "copy": lambda made: made.copy(),
    "or": lambda made: made | {2: 3},
    "ror": lambda made: {2: 3} | made,
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("base", [deque, OrderedDict, defaultdict, dict, list, set])
def test_a_new_that_makes_something_else(base: Any, operation: str) -> None:
    operate = OPERATIONS[operation]

    def program() -> Any:
        cls: Any = type("Odd", (base,), {})
        made = cls()
        cls.__new__ = bad_new
        return operate(made)

    assert outcome(framejit.compile(program, backend="eager")) == outcome(program)
