"""AttributeErrors that leave a look-up have the right `name` and `obj`, whether the code looked up has a graph break or raises at once."""

from __future__ import annotations

import functools
import sys
import traceback
from typing import Any

import pytest
import torch

import framejit
from framejit import explain, graph_break


class OfAClass(AttributeError):
    name = "of the class"


class ByProperty(AttributeError):
    @property
    def name(self):
        return "by a property"


class Getters:
    value = 1

    @property
    def at_once(self):
        raise AttributeError("at once")

    @property
    def split(self):
        graph_break()
        raise AttributeError("split")

    @property
    def with_operations(self):
        x = torch.ones(2)
        print(end="")
        if x.sum() > 1:
            raise AttributeError("operations")
        return x

    @property
    def nested(self):
        graph_break()
        return self.split

    @property
    def nested_in_method(self):
        graph_break()
        return self.method().split

    @property
    def missing(self):
        graph_break()
        return self.nowhere

    @property
    def at_the_break(self):
        return getattr(self, "at" + str(print(end="")))

    @property
    def in_a_loop(self):
        for i in range(4):
            x = torch.ones(1) + i
            graph_break()
            if i == 2:
                raise AttributeError(f"round {i} of {x.item()}")

    @property
    def handled_first(self):
        try:
            graph_break()
            raise AttributeError("handled")
        except AttributeError:
            graph_break()
            raise

    @property
    def with_finally(self):
        try:
            graph_break()
            raise AttributeError("finally")
        finally:
            print(end="")

    @property
    def named(self):
        graph_break()
        raise AttributeError("named", name="by hand", obj=5)

    @property
    def named_none(self):
        graph_break()
        raise AttributeError("none", name=None)

    @property
    def named_before(self):
        error = AttributeError("before")
        error.name = "before"
        graph_break()
        raise error

    @property
    def of_a_class(self):
        graph_break()
        raise OfAClass("class")

    @property
    def of_a_class_at_once(self):
        raise OfAClass("class")

    @property
    def by_property(self):
        graph_break()
        raise ByProperty("property")

    @property
    def no_attribute_error(self):
        graph_break()
        raise KeyError("key")

    @functools.cached_property
    def cached(self):
        graph_break()
        raise AttributeError("cached")

    def method(self):
        graph_break()
        return self


class Descriptor:
    def __get__(self, instance, owner):
        graph_break()
        raise AttributeError("descriptor")


class Described:
    found = Descriptor()


class Hooked:
    @property
    def at_once(self):
        raise AttributeError("at once")

    @property
    def split(self):
        graph_break()
        raise AttributeError("split")

    def __getattr__(self, name):
        graph_break()
        raise AttributeError(f"hook for {name}")


class Intercepted(Getters):
    def __getattribute__(self, name):
        if name == "refused":
            graph_break()
            raise AttributeError("refused")
        return object.__getattribute__(self, name)


class Lazy:
    def __getattr__(self, name):
        print(end="")
        try:
            return {"known": 1}[name]
        except KeyError:
            raise AttributeError(name) from None


class Derived(Getters):
    @property
    def split(self):
        graph_break()
        return super().split


class WithSlot:
    __slots__ = ("slot",)


class Meta(type):
    @property
    def split(cls):
        graph_break()
        raise AttributeError("of the class")


class OfMeta(metaclass=Meta):
    pass


class Net(torch.nn.Module):
    @property
    def split(self):
        graph_break()
        raise AttributeError("of the module")


GETTERS = [name for name in vars(Getters) if not name.startswith("__") and name not in ("value", "method")]
LOOKUPS: list[tuple[Any, str]] = [
    *((Getters(), name) for name in GETTERS), (Described(), "found"), (Hooked(), "at_once"), (Hooked(), "split"), (Hooked(), "other"),
    (Intercepted(), "refused"), (Intercepted(), "split"), (Intercepted(), "at_once"), (Lazy(), "unknown"), (Lazy(), "known"), (Derived(), "split"),
    (WithSlot(), "slot"), (OfMeta, "split"), (Net(), "split"), (Net(), "other"),
]  # fmt: skip

NAMES_OWNER = sys.version_info < (3, 12)
"""Later Pythons run getters without a call of PyObject_GetAttr, which names the owner, once they have run the instruction a few times."""

USES = {
    "loaded": "found = o.NAME",
    "loaded in an expression": "found = [t, (t, o.NAME)]",
    "called": "found = o.NAME(t)",
    "by getattr": "found = getattr(o, 'NAME')",
    "with a default": "found = getattr(o, 'NAME', 7)",
    "by hasattr": "found = hasattr(o, 'NAME')",
    "under a handler": """
try:
    raise ValueError
except ValueError:
    found = o.NAME""",
    "in blocks": """
with torch.no_grad():
    try:
        found = o.NAME
    finally:
        t = t * 2""",
    "with a break behind": """
try:
    found = o.NAME
finally:
    graph_break()""",
    "in a generator": "found = list(each.NAME for each in [o])",
    "in rounds": """
found = []
for _ in range(2):
    try:
        found.append(o.NAME)
    except AttributeError as error:
        found.append(told(error, o))""",
}


if not NAMES_OWNER:
    del USES["in rounds"]


def function(use: str, name: str, caught: bool) -> Any:
    """A function that uses the attribute, and either tells what it has caught or lets that out."""
    lines = USES[use].replace("NAME", name).strip().splitlines()
    body = ["t = t + 1", "try:", *("    " + line for line in lines), "except AttributeError as error:"]
    body += ["    t = t * 3", "    return t, told(error, o)"] if caught else ["    raise"]
    namespace = dict(globals())
    exec("\n    ".join(["def use(o, t):", *body, "return t, repr(found)"]), namespace)
    return namespace["use"]


def told(error, owner):
    context = error.__context__
    obj = getattr(error, "obj", None)
    looked_up = (getattr(error, "name", None), type(obj).__name__, obj is owner) if NAMES_OWNER else ()
    return type(error).__name__, error.args, *looked_up, type(context).__name__


def outcome(use: Any, owner: Any) -> Any:
    try:
        return "returned", use(owner, torch.ones(2))
    except Exception as error:
        entries = traceback.extract_tb(error.__traceback__)[1:]
        own = [(entry.name.partition(" ")[0], entry.lineno) for entry in entries if entry.filename in (__file__, "<string>")]
        return told(error, owner), own


@pytest.mark.parametrize("caught", [True, False], ids=["caught", "let out"])
@pytest.mark.parametrize("use", USES)
def test_what_is_said_of_the_look_up(use, caught):
    for owner, name in LOOKUPS:
        as_written = function(use, name, caught)
        expected = outcome(as_written, owner)
        compiled = framejit.compile(as_written, backend="eager")
        for _ in range(2):
            assert repr(outcome(compiled, owner)) == repr(expected), (type(owner).__name__, name)
        framejit.reset()


class Found:
    @property
    def doubled(self):
        x = torch.ones(2) * 2
        graph_break()
        return x + 1

    @property
    def negate(self):
        graph_break()
        return negative


def negative(t):
    return -t


class Ends:
    def __del__(self):
        ends.append("end")

    @property
    def doubled(self):
        ends.append("begins")
        graph_break()
        ends.append("returns")
        return torch.ones(2) * 2

    @property
    def refused(self):
        graph_break()
        raise AttributeError("refused")


ends: list[str] = []


def test_a_getter_that_returns_is_split_with_its_caller():
    def look_up(found, t):
        return found.negate(found.doubled * t) + Found().doubled

    expected = look_up(Found(), torch.ones(2))
    found = explain(look_up)(Found(), torch.ones(2))
    assert (found.operations, len(found.breaks)) == ([2, 5, 2], 3)
    assert torch.equal(framejit.compile(look_up, backend="eager")(Found(), torch.ones(2)), expected)


def test_an_owner_ends_once():
    def look_up(t):
        found = Ends().doubled
        ends.append("looked up")
        try:
            Ends().refused
        except AttributeError as error:
            assert type(error.obj) is Ends or not NAMES_OWNER
            ends.append(error.args[0])
        ends.append("handled")
        return found + t

    ends.clear()
    look_up(torch.ones(2))
    expected = list(ends)
    assert expected == ["begins", "returns", "end", "looked up", "refused", "end", "handled"]
    compiled = framejit.compile(look_up, backend="eager")
    for _ in range(2):
        ends.clear()
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 3.0))
        assert sorted(ends) == sorted(expected)  # at the next break at the latest, not behind the look-up
