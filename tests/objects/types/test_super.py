"""super() in compiled functions: arguments, what it finds, errors."""

from __future__ import annotations

import pytest
import torch
from agreement import agree_in_text, tried

import framejit

PROGRAMS = []


def program(function):
    PROGRAMS.append(function)
    return function


# super
class S1:
    def f(self, *a):
        return ("S1", a)

    x = 5

    @classmethod
    def c(cls):
        return ("S1c", cls.__name__)

    @staticmethod
    def s():
        return "S1s"

    @property
    def p(self):
        return "S1p"

    def __getattr__(self, n):
        return "ga" + n


class S2(S1):
    def f(self, *a):
        return ("S2", super().f(*a))

    @classmethod
    def c(cls):
        return super().c()

    @staticmethod
    def s():
        return super(S2, S2).s()

    @property
    def p(self):
        return super().p

    def two(self):
        return super(S2, self).f(4)

    def a1(self):
        return super(1, 2)

    def a2(self):
        return super(S2, self, 3)

    def a3(self):
        return super(S2, 5)

    def a4(self):
        return super(S2, int)

    def a6(self):
        return super(S2, self).nope

    def a7(self):
        return super().__self__ is self, super().__thisclass__, super().__self_class__

    def a8(self):
        return [super(S2, self).f() for _ in range(2)]

    def a9(self):
        return [super().f() for _ in range(2)]

    def a10(self):
        def g():
            return super().f()

        return g()

    def a11(self):
        def g(s):
            return super().f()

        return g(self)

    def a12(self):
        del self
        return super().f()

    def a13(self):
        super().y = 3
        return

    def a14(self):
        super().__setattr__("y", 3)
        return self.y

    def a15(self):
        return super().__class__.__name__, super().__doc__[:5], type(super()).__name__, isinstance(super(), S1)

    def a16(self):
        return super(type=1)

    def a17(self):
        s = super()
        return s

    def a18(self):
        return super(S2).f

    def a19(self):
        return super().__init__(), super().__repr__()[:3], super().__eq__(self), super().__hash__() == hash(self)

    def a20(self):
        return super(S1, self).__class__.__name__, super().x

    def a21(self):
        f = super
        return f()

    def a22(self):
        return super(*[S2, self]).f(1)

    def a23(self):
        return super().__init_subclass__(), super().__new__(S2).x, super().__dir__() != []

    def a24(self):
        return super().__getattribute__("x"), super().__getattr__("qq"), super().__dict__

    def a25(self):
        return super(object, self).__self__

    def __eq__(self, o):
        return True

    __hash__ = object.__hash__


@program
def super0():
    return (
        S2().f(1),
        S2.c(),
        S2().c(),
        S2.s(),
        S2().p,
        super(S2, S2).c(),
        super(S2, S2()).f(3),
        super(S2, S2).f(S2(), 4),
        tried(lambda: super()),
        tried(lambda: super(S2)),
        tried(super, int, "a"),
        tried(super, int, 3)[0] if 0 else 1,
    )


@pytest.mark.parametrize("name", [name for name in vars(S2) if name.startswith("a")])
def test_method(name):
    def calling():
        found = tried(getattr(S2(), name))
        return found if type(found) is not super else (type(found).__name__, found.f(1))

    agree_in_text(calling)


class OfNone(S1):
    def explicit(self):
        return super(OfNone, None).__self__

    def called(self):
        return super(OfNone, None).f(1)

    def implied(self):
        return super().f(1)


@pytest.mark.parametrize("name", ["explicit", "called", "implied"])
def test_super_of_none(name):
    """Python 3.12 has two answers: the second one comes once it has specialised the instruction, so that has happened before the comparison."""

    def calling():
        return tried(getattr(OfNone, name), None)

    for _ in range(20):
        calling()
    agree_in_text(calling)


def test_super_of_none_splits_its_caller():
    def calling(x):
        return tried(OfNone.explicit, None), x + 1

    x = torch.ones(2)
    expected = [calling(x)[0] for _ in range(20)][-1]
    framejit.reset()
    compiled = framejit.compile(calling, backend="eager")
    assert compiled(x)[0] == compiled(x)[0] == expected
    assert framejit.statistics()["fallbacks"] == 0


@pytest.fixture
def other_super(monkeypatch):
    """This module has a `super` of its own. It has no assignment to the name: Python 3.12 compiles calls of `super` otherwise where there is one."""
    monkeypatch.setitem(globals(), "super", lambda *args: S1() if args else Replacement())


class Replacement:
    p = "replaced"

    def f(self, *args):
        return "replaced", args


def test_super_replaced(other_super):
    def calling():
        return S2().p, S2().f(2), [S2().two() for _ in range(2)]

    agree_in_text(calling)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_super(program):
    agree_in_text(program)
