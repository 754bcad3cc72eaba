"""Attributes of classes that compiled code sets: counters and caches, through the class, its instances and its subclasses."""

from __future__ import annotations

import abc
import enum
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import framejit

X = torch.arange(3.0)


def family() -> tuple[Any, Any]:
    class Base(abc.ABC):
        count = 0
        cache: Any = None
        __slots__ = ("slot",)

        def bump(self) -> int:
            type(self).count += 1
            return self.count

        @classmethod
        def looked_up(cls, key: str) -> Any:
            if cls.cache is None:
                cls.cache = {}
            return cls.cache.setdefault(key, len(cls.cache))

        @property
        def computed(self) -> int:
            return 1

    class Derived(Base):
        pass

    return Base, Derived


def counted(x: torch.Tensor, base: Any, derived: Any) -> Any:
    base.count += 2
    return x + base.count, derived.count, derived().bump(), base.count, derived().count, getattr(derived, "count")


def cached(x: torch.Tensor, base: Any, derived: Any) -> Any:
    return x, [derived.looked_up(key) for key in "aba"], base.cache, base.looked_up("c"), derived.cache


def with_tensors(x: torch.Tensor, base: Any, derived: Any) -> Any:
    seen = hasattr(derived, "last")
    base.last = x * 2
    base.last = (base.last + 1, x)
    return seen, derived.last[0], derived().last[1] is x


def around_a_break(x: torch.Tensor, base: Any, derived: Any) -> Any:
    base.count += 1
    framejit.graph_break("here")
    derived.count += base.count
    framejit.graph_break("and here")
    return x + derived.count, base.count


def and_raises(x: torch.Tensor, base: Any, derived: Any) -> Any:
    derived.count = 5
    raise ValueError(str(derived.count))


def in_a_super_call(x: torch.Tensor, base: Any, derived: Any) -> Any:
    base.count = 3
    return super(derived, derived).count + x


PROGRAMS = (counted, cached, with_tensors, around_a_break, and_raises, in_a_super_call)


def outcome(function: Callable[..., Any]) -> Any:
    """Return the results of five calls with the same classes, and the attributes of the classes after each."""
    base, derived = family()
    rows = []
    for _ in range(5):
        try:
            rows.append(repr(function(X, base, derived)))
        except ValueError as error:
            rows.append(repr(error))
        rows.append(repr([(name, vars(cls).get(name)) for cls in (base, derived) for name in ("count", "cache", "last")]))
    return rows


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs(program: Callable[..., Any]) -> None:
    framejit.reset()
    assert outcome(framejit.compile(program, backend="eager")) == outcome(program)
    if program in (counted, cached, with_tensors):
        assert framejit.statistics()["graph_breaks"] == framejit.statistics()["fallbacks"] == 0


def test_a_counter_on_a_module_class_varies() -> None:
    class Counting(nn.Module):
        calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            Counting.calls += 1
            return x * self.calls

    framejit.reset()
    compiled = framejit.compile(Counting(), backend="eager", fullgraph=True)
    for number in range(1, 8):
        assert torch.equal(compiled(X), X * number)
    assert Counting.calls == 7 and framejit.statistics()["recompiles"] == 0
    Counting.calls = 20
    assert torch.equal(compiled(X), X * 21)


def sets_then_reads(x: torch.Tensor, base: Any, derived: Any) -> Any:
    base.count = 2
    return x + derived.count


def counts_then_reads(x: torch.Tensor, base: Any, derived: Any) -> Any:
    base.count += 1
    return x + derived().count


def reads_around(x: torch.Tensor, base: Any, derived: Any) -> Any:
    before = derived.count
    base.count += 1
    return x + before, derived.count


def reads_of_a_subclass(x: torch.Tensor, base: Any, derived: Any) -> Any:
    base.count += 1
    return x + derived().bump(), derived.count


SETS_AND_READS = (sets_then_reads, counts_then_reads, reads_around, reads_of_a_subclass)


@pytest.mark.parametrize("program", SETS_AND_READS, ids=lambda program: program.__name__)
def test_an_attribute_comes_and_goes_between_the_class_that_is_set_and_the_one_that_is_read(program: Callable[..., Any]) -> None:
    def rows(function: Callable[..., Any]) -> list[str]:
        base, between = family()

        class Other(base):  # type: ignore[misc]
            count = 70

        class Derived(between):  # type: ignore[misc]
            pass

        found = []

        def call(times: int = 2) -> None:
            found.extend(repr((function(X, base, Derived), vars(base)["count"], vars(between).get("count"))) for _ in range(times))

        call(3)
        between.count = 10
        call()
        Derived.count = 20
        call()
        del Derived.count
        call()
        del between.count
        call()
        Derived.__bases__ = (Other, between)
        call()
        return found

    framejit.reset()
    assert rows(framejit.compile(program, backend="eager")) == rows(program)
    assert framejit.statistics()["fallbacks"] == 0


def test_many_changes_are_noticed() -> None:
    class Counter:
        calls = 0

    def counts(x: torch.Tensor) -> int:
        Counter.calls += 1
        return Counter.calls

    compiled = framejit.compile(counts, backend="eager")
    assert [compiled(X) for _ in range(3000)] == list(range(1, 3001))


class Level(enum.Enum):
    LOW = 1


class Watched(type):
    def __setattr__(cls, name: str, value: Any) -> None:
        super().__setattr__(name, value * 2)

    def __delattr__(cls, name: str) -> None:
        raise AttributeError(f"{name} stays")


@pytest.mark.parametrize("name, value", [("slot", 3), ("computed", 4), ("__len__", 5), ("described", property(lambda self: 3))])
def test_what_does_more_than_set_an_attribute_splits_the_graph(name: str, value: Any) -> None:
    def changes(x: torch.Tensor, base: Any) -> torch.Tensor:
        setattr(base, name, value)
        return x + 1

    framejit.reset()
    base, derived = family()
    assert torch.equal(framejit.compile(changes, backend="eager")(X, base), X + 1)
    assert vars(base)[name] is value and framejit.statistics()["graph_breaks"] > 0


def test_code_of_metaclasses_runs() -> None:
    class Doubled(metaclass=Watched):
        pass

    def changes(x: torch.Tensor) -> Any:
        Doubled.size = 3  # type: ignore[attr-defined]
        try:
            Level.LOW = 3  # type: ignore[misc]
        except AttributeError as error:
            return Doubled.size, str(error), x  # type: ignore[attr-defined]

    def deletes(x: torch.Tensor) -> Any:
        try:
            del Doubled.size  # type: ignore[attr-defined]
        except AttributeError as error:
            try:
                del Level.LOW  # type: ignore[misc]
            except AttributeError as other:
                return str(error), str(other), x

    for program in (changes, deletes):
        expected = program(X)
        found = framejit.compile(program, backend="eager", fullgraph=True)(X)
        assert expected[:2] == found[:2]
    assert vars(Doubled)["size"] == 6


def test_attributes_of_enums_are_set_natively() -> None:
    class Local(enum.Enum):
        ONE = 1

    def changes(x: torch.Tensor) -> Any:
        Local.extra = 3  # type: ignore[attr-defined]
        return x + 1, Local.extra, list(Local)  # type: ignore[attr-defined]

    framejit.reset()
    assert repr(framejit.compile(changes, backend="eager")(X)) == repr(changes(X))
    assert framejit.statistics()["graph_breaks"] > 0
