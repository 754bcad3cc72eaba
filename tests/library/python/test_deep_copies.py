"""copy.deepcopy of settings: what it looks up by the addresses of what it copies."""

from __future__ import annotations

import collections
import copy
import dataclasses
import weakref
from typing import Any

import pytest
import torch
from agreement import Comparison

import framejit

x = torch.ones(2)


class Config:
    """Settings as models of transformers have them: among them sets, whose end a weak reference could see."""

    def __init__(self, **given: Any) -> None:
        self.rate = 2
        self.ignored = {"a", "b", 3}
        self.__dict__.update(given)


def shared() -> Config:
    layer = {"sizes": [1, 2], "kinds": {"x"}}
    return Config(first=layer, second=layer)


def apart() -> Config:
    return Config(first={"sizes": [1, 2], "kinds": {"x"}}, second={"sizes": [1, 2], "kinds": {"x"}})


def circular() -> Config:
    inner: dict[str, Any] = {"kinds": {"x"}}
    inner["self"] = inner
    return Config(first=inner, second=[inner])


def copied(t: torch.Tensor, config: Config) -> Any:
    found = copy.deepcopy(config)
    found.rate += 1
    return t * found.rate, found


@pytest.mark.parametrize("make", [Config, shared, apart, circular])
def test_settings_with_sets(make: Any) -> None:
    config = make()
    compiled = framejit.compile(copied, backend="eager", fullgraph=True)
    for _ in range(2):
        Comparison().same(copied(x, config), compiled(x, config))
    assert config.rate == 2


def test_what_is_shared_is_shared_in_the_copy() -> None:
    framejit.reset()
    compiled = framejit.compile(copied, backend="eager", fullgraph=True)
    for make in (apart, shared, apart, shared):
        Comparison().same(copied(x, config := make()), compiled(x, config))


def test_one_dict_in_two_arguments() -> None:
    """Two dicts that are told apart by their addresses may be one in another call."""

    def numbered(t: torch.Tensor, first: dict[str, Any], second: dict[str, Any]) -> Any:
        return t + 1, len({id(first): 1, id(second): 2}), id(first) == id(second)

    ends, silent = {"kinds": {"x"}}, {"sizes": 3}
    compiled = framejit.compile(numbered, backend="eager")
    for pair in ((ends, dict(ends)), (ends, silent), (silent, ends), (silent, silent), (ends, ends), (silent, dict(silent)), (ends, dict(ends))):
        assert compiled(x, *pair)[1:] == numbered(x, *pair)[1:], pair


def test_what_is_copied_isnt_kept_alive() -> None:
    class Values(set):
        """A set that a weak reference can be made to."""

    config = Config(first={"kinds": (values := Values("ab"))})
    ended = weakref.ref(values)
    compiled = framejit.compile(lambda t, config: (t + 1, copy.deepcopy(config.first)["kinds"] == {"a", "b"}), backend="eager")
    assert compiled(x, config)[1]
    del config, values
    assert ended() is None


@pytest.mark.parametrize("value", [{3, 1, 2}, frozenset("abc"), set(), [{"a"}, {"a"}], {"k": frozenset({1})}])
def test_sets(value: Any) -> None:
    def function(t: torch.Tensor) -> Any:
        found = copy.deepcopy(value)
        return t + 1, found, list(found), found is value

    Comparison().same(function(x), framejit.compile(function, backend="eager", fullgraph=True)(x))


GROUPS = collections.defaultdict(list, {"a": [1.0]})


def group_from_outside(t):
    made = copy.deepcopy(GROUPS)
    made["b"].append(2.0)
    return made.default_factory is list, made["a"] == [1.0], t * made["b"][0]


def group_with_a_new_factory(t):
    made = collections.defaultdict(set)
    made.default_factory = list
    return copy.deepcopy(made).default_factory is list, t + 1


@pytest.mark.parametrize("program", [group_from_outside, group_with_a_new_factory])
def test_a_copied_defaultdict_keeps_its_factory(program):
    t = torch.ones(2)
    first, *rest = framejit.compile(program, backend="eager")(t)
    assert first is True and torch.equal(rest[-1], program(t)[-1])


class Mapped:
    """Its attributes have other names too, which a look-up of its own finds, as in configurations of transformers."""

    names: dict[str, str] = {"size": "hidden_size"}

    def __init__(self, **given: Any) -> None:
        self.hidden_size = 3
        self.__dict__.update(given)

    def __getattribute__(self, name: str) -> Any:
        names = super().__getattribute__("names")
        return super().__getattribute__(names.get(name, name))


class Slotted:
    __slots__ = ("a",)


@pytest.mark.parametrize("made", [Mapped, lambda: Mapped(kinds={"x"}), lambda: Mapped(__getstate__=lambda: {"hidden_size": 9}), Config])
def test_state_that_a_look_up_of_the_classs_own_finds(made: Any) -> None:
    settings = made()

    def copied(x: torch.Tensor) -> Any:
        deep, shallow = copy.deepcopy(settings), copy.copy(settings)
        deep.rate = 7
        return x * deep.rate, vars(deep), vars(shallow), vars(settings), type(deep), deep is settings

    framejit.reset()
    compiled = framejit.compile(copied, backend="eager", fullgraph=True)
    for _ in range(2):
        Comparison().same(str(copied(x)), str(compiled(x)))
    assert framejit.statistics()["graphs"] == 1


def test_getstate_called_by_the_program() -> None:
    def states(x: torch.Tensor) -> Any:
        made = Config(of="trace")
        state = made.__getstate__()
        state["more"] = 1
        return x + 1, state, made.more, object().__getstate__(), Config.__getstate__(made) is vars(made), Mapped().__getstate__()

    def of_slots(x: torch.Tensor) -> Any:
        made = Slotted()
        made.a = 2
        return x + 1, made.__getstate__()

    Comparison().same(str(states(x)), str(framejit.compile(states, backend="eager")(x)))
    Comparison().same(str(of_slots(x)), str(framejit.compile(of_slots, backend="eager")(x)))


class Slots:
    __slots__ = ("a", "__hidden", "unset")

    def __init__(self, a: Any) -> None:
        self.a = a
        self.__hidden = [a]


class SlotsAndDict(Slots):
    def __init__(self, a: Any) -> None:
        super().__init__(a)
        self.b = a


@dataclasses.dataclass(slots=True)
class Record:
    a: int
    b: list[Any]


class Made:
    named: dict[str, int] = {"scale": 1}

    def __new__(cls, a: Any, *, scale: int = 1) -> Made:
        made = super().__new__(cls)
        made.parts = a, scale
        return made

    def __getnewargs_ex__(self) -> Any:
        return self.parts[:1], {"scale": self.parts[1]} if self.parts[1] > 1 else {}


def shown(value: Any) -> Any:
    return type(value).__name__, [getattr(value, name, None) for name in ("a", "_Slots__hidden", "unset", "b", "parts")]


def test_objects_with_slots_or_arguments_by_keyword_are_copied() -> None:
    def copied(x: torch.Tensor, outer: Any) -> Any:
        class Local:
            __slots__ = "only"

        local = Local()
        local.only = x
        values = Slots(1), SlotsAndDict(2), Record(3, [4]), Made(5), Made(6, scale=2), outer
        copies, deep = [copy.copy(value) for value in values], [copy.deepcopy(value) for value in values]
        deep[2].b.append(deep[0].a)
        state = Slots(1).__reduce_ex__(2)[1:], Slots(2).__getstate__()
        return x + 1, [shown(value) for value in (*values, *copies, *deep)], copy.copy(local).only, state

    framejit.reset()
    compiled = framejit.compile(copied, backend="eager", fullgraph=True)
    outers = Slots(7), SlotsAndDict(8), Slots(9), Record(1, [])
    expected = [repr(copied(x, outer)) for outer in outers]  # this puts a list of the slots into the classes
    assert [repr(compiled(x, outer)) for outer in outers] == expected
    assert framejit.statistics()["graphs"] == 3


def test_copies_follow_the_declared_slots() -> None:
    class Changing:
        __slots__ = ("a",)

        def __init__(self) -> None:
            self.a = 1

    def copied(x: torch.Tensor) -> Any:
        return x + 1, Changing().__getstate__()

    compiled = framejit.compile(copied, backend="eager")
    for change in (None, (), ("a",), ["a"]):
        if change is not None:
            Changing.__slots__ = change  # type: ignore[assignment]
        assert repr(compiled(x)) == repr(copied(x))
        if hasattr(Changing, "__slotnames__"):
            del Changing.__slotnames__


@pytest.mark.parametrize("protocol", [0, 1])
def test_old_protocols_refuse_slots(protocol: int) -> None:
    def reduced(x: torch.Tensor, value: Any) -> Any:
        try:
            return x + 1, len(value.__reduce_ex__(protocol))
        except TypeError as error:
            return x + 1, str(error)

    compiled = framejit.compile(reduced, backend="eager")
    for value in (Slots(1), SlotsAndDict(2)):
        assert repr(compiled(x, value)) == repr(reduced(x, value))
