"""Classes and modules made by a program take part in CPython's protocols, in compiled functions."""

from __future__ import annotations

import sys
import types

import pytest
from agreement import agree_in_text, tried

import framejit

PROGRAMS = []


def program(function):
    PROGRAMS.append(function)
    return function


class Desc:
    def __set_name__(s, o, n):
        s.n = n

    def __get__(s, o, t=None):
        return (s.n, o is None, t.__name__)

    def __set__(s, o, v):
        o.__dict__[s.n] = v


class NonData:
    def __get__(s, o, t=None):
        return "nd"


class HasD:
    d = Desc()
    n = NonData()


@program
def o8():
    h = HasD()
    r = [h.d, HasD.d, h.n]
    h.d = 3
    h.n = 4
    r += [h.d, h.n, vars(h)]
    return r, tried(lambda: delattr(h, "d"))


class New:
    def __new__(cls, x):
        return x if type(x) is int else super().__new__(cls)

    def __init__(s, x):
        s.x = x


@program
def o13():
    return New(3), New("a").x, tried(New)


class Sub(int):
    def __new__(cls, v, e=0):
        o = super().__new__(cls, v)
        o.e = e
        return o


@program
def o14():
    return Sub(3, 4).e, Sub(3) + 1, type(Sub(3) + 1).__name__, Sub(3) == 3


class NI:
    def __new__(cls, *a):
        return object.__new__(cls)


class II:
    def __init__(s, *a):
        pass


class Plain:
    pass


@program
def o15():
    return (
        tried(Plain, 1),
        type(NI(1)).__name__,
        type(II(1)).__name__,
        tried(lambda: object(1)),
        tried(lambda: object.__new__(Plain, 1)),
        tried(lambda: object.__new__(3)),
        tried(lambda: object.__init__(Plain(), 1)),
        tried(lambda: object.__new__()),
        tried(lambda: object.__new__(int)),
        tried(lambda: int.__new__(str)),
        tried(lambda: object.__init__(II(), 1)),
    )


class Base:
    def method(self):
        return "b"


class Derived1(Base):
    pass


@program
def supers1():
    class mysuper(super):
        def __init__(self, *args):
            super(mysuper, self).__init__(*args)

    class A:
        def meth(self, a):
            return "A(%r)" % a

    class E(A):
        def meth(self, a):
            return "E(%r)" % a + mysuper(E, self).meth(a)

    return E().meth(5)


@program
def meta1():
    class T(type):
        def __new__(m, n, b, d):
            return super(T, m).__new__(m, n, b, d)

        def __getattribute__(c, n):
            return ("g", n) if n == "zz" else super().__getattribute__(n)

    class C(metaclass=T):
        x = 1

    return C.zz, C.x


@program
def super2():
    d = Derived1()
    s = super(Derived1, d)
    framejit.graph_break()
    return s.method(), s.__self__ is d, s.__thisclass__.__name__, tried(lambda: s.nope)


class Unb:
    def meth(self, a):
        return "U%s" % a


class Unb2(Unb):
    def meth(self, a):
        return "V" + self._s.meth(a)


Unb2._s = super(Unb2)


@program
def super3():
    return Unb2().meth(3)


@program
def hack():
    return (
        tried(object.__setattr__, str, "foo", 42),
        tried(object.__delattr__, Base, "method"),
        tried(object.__getattribute__, Base, "method"),
        tried(type.__setattr__, str, "foo", 1),
    )


@program
def noncallable():
    m = classmethod(1).__get__(1)
    return tried(m)


@program
def mod():
    m = types.ModuleType("mm", "dd")
    r = [
        m.__class__ is types.ModuleType,
        m.__name__,
        m.__doc__,
        m.__dict__["__name__"],
        tried(lambda: m.zz),
        tried(setattr, m, "__dict__", {}),
        m.__repr__(),
        tried(delattr, m, "q"),
        m.__dir__is if 0 else 0,
        hasattr(m, "__annotations__"),
    ]
    m.a = 3
    r.append(m.a)
    del m.a
    r.append(tried(lambda: m.a))
    return r


class MSub(types.ModuleType):
    log = []

    def __getattribute__(s, n):
        if n == "qq":
            return "hooked"
        return super().__getattribute__(n)

    def __setattr__(s, n, v):
        super().__setattr__(n, ("set", v))

    p = property(lambda s: 5)


@program
def mod2():
    m = MSub("x")
    m.foo = 1
    return m.qq, m.foo, m.p, tried(setattr, m, "p", 3), m.__name__


@program
def mod3():
    return (
        sys.__class__.__name__,
        types.__name__,
        sys.__dict__ is vars(sys),
        sys.__repr__()[:12],
        tried(lambda: types.nope),
        types.__class__ is type(sys),
        sys.__eq__(sys),
        sys.__hash__() == hash(sys),
    )


class CN:
    @classmethod
    def __new__(*a):
        return a


@program
def clsnew():
    return [x if type(x) is int else x.__name__ for x in CN(1, 2)]


class MixS(dict):
    __setattr__ = dict.__setitem__
    __neg__ = dict.copy
    __getattribute__ = dict.__getitem__


@program
def mixs():
    x = MixS()
    x.y = 42
    return x["y"], x == -x, x.y


class LH:
    def __init__(s):
        s.out = []

    def __iter__(s):
        return iter([1])

    @property
    def __length_hint__(s):
        s.out.append("lh")
        return lambda: 3


@program
def lh():
    l = LH()
    return list(l), l.out


class RE:
    def __init__(s):
        s.a = 1


class RES:
    __slotnames__ = ["spam"]
    spam = 4


@program
def red():
    return RE().__reduce_ex__(2)[1:], tried(RE().__reduce_ex__, None), RES().__reduce_ex__(2)[2], tried(RE().__reduce_ex__)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_protocols(program):
    agree_in_text(program)
