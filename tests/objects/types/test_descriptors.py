"""Properties, static and class methods, bound methods and functions as objects in compiled functions: attributes, calls, errors."""

from __future__ import annotations

import abc
import types

import pytest
from agreement import agree_in_text, tried

PROGRAMS = []


def program(function):
    PROGRAMS.append(function)
    return function


# properties
class P:
    "P doc"

    @property
    def a(self):
        "doc of a"
        return 1

    b = property(doc="b doc")

    @property
    def c(self):
        return self._c

    @c.setter
    def c(self, v):
        self._c = v

    @c.deleter
    def c(self):
        del self._c


@program
def prop1():
    return P.a.__doc__, P.b.__doc__, P.c.__doc__, P.a.fget.__name__, P.b.fget, P.a.fset, P.c.fset.__name__


@program
def prop2():
    p = property(doc="hello")
    return p.__doc__, p.fget, p.fset, p.fdel


@program
def prop3():
    def g(self):
        "gdoc"
        return 3

    p = property(g)
    q = p.setter(lambda s, v: None)
    return p.__doc__, q.__doc__, q.fget is g, q.fset is not None, p is not q


@program
def prop4():
    def g(self):
        "gdoc"
        return 3

    p = property(g, doc="mine")
    q = p.getter(lambda s: 4)
    return p.__doc__, q.__doc__


@program
def prop5():
    def g(self):
        "gdoc"
        return 3

    p = property(g)
    p.__doc__ = "other"
    return p.__doc__


@program
def prop6():
    return tried(lambda: P().b), tried(lambda: setattr(P(), "a", 1)), tried(lambda: delattr(P(), "a")), tried(lambda: P().c)


@program
def prop7():
    return tried(lambda: property(1, 2, 3, 4, 5)), tried(lambda: property(foo=1)), tried(lambda: property(fget=1).fget)


@program
def prop8():
    p = property(lambda s: 1)
    return type(p).__name__, isinstance(p, property), callable(p), hasattr(p, "__isabstractmethod__"), p.__isabstractmethod__


class SubP(property):
    def __init__(self, *a, **k):
        super().__init__(*a, **k)
        self.x = 5

    def __get__(self, o, c=None):
        if o is None:
            return self
        return ("sub", super().__get__(o, c))


class Q:
    @SubP
    def z(self):
        "zdoc"
        return 8

    @z.setter
    def z(self, v):
        self.zz = v


@program
def prop9():
    q = Q()
    q.z = 3
    return q.z, q.zz, Q.z.x, Q.z.__doc__, type(Q.z).__name__


@program
def prop10():
    p = SubP(lambda s: 3, doc="dd")
    return p.__doc__, p.x, p.fget(1)


@program
def prop11():
    p = property(lambda s: 3)
    return tried(lambda: setattr(p, "fget", 3)), tried(lambda: p.foo), tried(lambda: setattr(p, "foo", 3)), tried(lambda: p(1))


@program
def prop12():
    p = property(lambda s: 3)
    return p.__get__(P()), p.__get__(None, P) is p, tried(lambda: p.__set__(P(), 1)), tried(lambda: p.__delete__(P()))


@program
def prop13():
    p = P.c
    return p.getter(None).fget, p.setter(None).fset, p.deleter(None).fdel


@program
def prop14():
    P.c.__doc__ = "q"
    return P.c.__doc__


@program
def prop15():
    class A(abc.ABC):
        @property
        @abc.abstractmethod
        def f(self): ...

    return A.f.__isabstractmethod__, tried(A)


# static/class methods
class S:
    @staticmethod
    def s(a, b=2):
        "sdoc"
        return a + b

    @classmethod
    def c(cls, a):
        "cdoc"
        return cls.__name__, a

    cp = classmethod(property(lambda cls: cls.__name__))
    cc = classmethod(classmethod(lambda cls: cls.__name__))
    cs = classmethod(staticmethod(lambda *a: len(a)))


@program
def sm1():
    s = S.__dict__["s"]
    c = S.__dict__["c"]
    return (
        s.__func__ is S.s,
        s.__wrapped__ is S.s,
        s.__name__,
        s.__doc__,
        s.__qualname__,
        s.__module__,
        s.__isabstractmethod__,
        c.__name__,
        c.__doc__,
        c.__wrapped__.__name__,
        c.__isabstractmethod__,
        s(1, 2),
    )


@program
def sm2():
    def f(x):
        "fd"
        return x

    s = staticmethod(f)
    c = classmethod(f)
    return (
        s.__func__ is f,
        s.__wrapped__ is f,
        s.__name__,
        s.__doc__,
        s.__qualname__,
        s.__module__,
        s.__isabstractmethod__,
        c.__name__,
        c.__doc__,
        c.__wrapped__ is f,
        s(3),
        tried(lambda: c(3)),
        s.__annotations__,
        s.__dict__ == {"a": 1},
    )


@program
def sm3():
    return S.cp, S().cp, S.cc, S().cc, S.cs(), S().cs(1)


@program
def sm4():
    return (
        tried(staticmethod),
        tried(classmethod),
        tried(staticmethod, 1, 2),
        tried(lambda: staticmethod(f=1)),
        tried(lambda: classmethod(1).__func__),
        tried(lambda: staticmethod(1)(2)),
    )


@program
def sm5():
    s = staticmethod(len)
    return s([1]), s.__name__, s.__get__(None, int)([1, 2]), s.__get__(3)([1])


@program
def sm6():
    c = classmethod(len)
    return tried(lambda: c.__get__(None, int)()), tried(lambda: c.__get__(3).__self__), repr(classmethod(3))[:12]


@program
def sm7():
    s = staticmethod(len)
    s.foo = 3
    return s.foo, s.__dict__.get("foo"), vars(s)["foo"]


@program
def sm8():
    class A:
        pass

    def f(self):
        return 7

    A.f = classmethod(f)
    A.g = staticmethod(f)
    A.h = property(f)
    return A.f(), A.g(1), A().h


@program
def cmeth():
    m = S.c
    n = S().c
    return m == n, m is n, hash(m) == hash(n), m.__self__ is S, m.__func__ is n.__func__, m.__name__, m.__doc__


class M:
    def f(self, a=1):
        "mdoc"
        return a

    def __eq__(self, o):
        return True

    __hash__ = None


class N:
    def f(self, a=1):
        "mdoc"
        return a


@program
def meth1():
    a = M()
    b = M()
    return (
        a.f == b.f,
        a.f == a.f,
        tried(lambda: hash(a.f) == hash(a.f)),
        a.f.__self__ is a,
        a.f.__func__ is M.f,
        a.f.__name__,
        a.f.__doc__,
        a.f.__defaults__,
        a.f.__qualname__,
    )


@program
def meth2():
    a = N()
    b = N()
    return (
        a.f == b.f,
        a.f == a.f,
        hash(a.f) == hash(a.f),
        a.f != b.f,
        {a.f: 1}[a.f],
        tried(lambda: setattr(a.f, "x", 1)),
        tried(lambda: a.f.x),
        tried(lambda: delattr(a.f, "x")),
    )


@program
def meth3():
    a = N()
    m = types.MethodType(lambda s, x: (s, x), 3)
    return (
        m(4),
        m.__self__,
        tried(types.MethodType, 1, 2),
        tried(types.MethodType, len, None),
        tried(types.MethodType, len),
        types.MethodType(len, [1, 2])(),
    )


@program
def meth4():
    N.f.tag = 5
    a = N()
    return a.f.tag, a.f.__dict__


@program
def meth5():
    a = N()
    return a.f.__get__(N()) == a.f, a.f.__class__.__name__, tried(lambda: a.f < a.f), a.f == 3, a.f != 3, a.f == N.f


@program
def meth6():
    l = []
    m = l.append
    n = [].append
    return (
        m == n,
        m == l.append,
        m.__name__,
        m.__self__ is l,
        m.__qualname__,
        m.__doc__ == list.append.__doc__,
        hash(m) == hash(l.append),
        type(m).__name__,
        m.__module__,
    )


# functions
def fn(a, b=2, *, c=3, **k):
    "fd"
    return a, b, c, k


@program
def fn1():
    return (
        fn.__defaults__,
        fn.__kwdefaults__,
        fn.__name__,
        fn.__qualname__,
        fn.__doc__,
        fn.__module__,
        fn.__dict__,
        fn.__closure__,
        fn.__code__.co_argcount,
        fn.__annotations__,
    )


@program
def fn2():
    def g(a, b=1):
        return a, b

    g.__defaults__ = (5, 6)
    r = g()
    g.__defaults__ = None
    return r, tried(g, 1), g.__defaults__


@program
def fn3():
    def g(a, *, b=1):
        return a, b

    g.__kwdefaults__ = {"b": 9}
    r = g(1)
    g.__kwdefaults__ = None
    return r, tried(g, 1), g.__kwdefaults__


@program
def fn4():
    def g():
        return 1

    def h():
        return 2

    g.__code__ = h.__code__
    return g(), g.__name__, g.__code__ is h.__code__


@program
def fn5():
    def g():
        return 1

    g.x = 3
    g.__dict__["y"] = 4
    r = (g.x, g.y, vars(g))
    del g.x
    return r, tried(lambda: g.x), g.__dict__


@program
def fn6():
    x = 1

    def g():
        return x

    c = g.__closure__[0]
    r = c.cell_contents
    c.cell_contents = 5
    return r, g(), x, g.__code__.co_freevars


@program
def fn7():
    def g():
        "d"

    g.__name__ = "zz"
    g.__qualname__ = "qq"
    g.__doc__ = None
    g.__module__ = "mm"
    return g.__name__, g.__qualname__, g.__doc__, g.__module__


@program
def fn8():
    def g():
        "d"

    def bad(n, v):
        setattr(g, n, v)

    return [
        tried(bad, n, v)
        for n, v in [
            ("__name__", 3),
            ("__qualname__", 3),
            ("__code__", 3),
            ("__defaults__", 3),
            ("__kwdefaults__", 3),
            ("__dict__", 3),
            ("__annotations__", 3),
            ("__closure__", ()),
            ("__globals__", {}),
            ("__builtins__", 1),
        ]
    ]


@program
def fn9():
    def g(a: int, b: str = "x") -> float:
        "d"

    r = dict(g.__annotations__)
    g.__annotations__["a"] = 5
    r2 = dict(g.__annotations__)
    g.__annotations__ = None
    return r, r2, g.__annotations__


@program
def fn10():
    def g():
        pass

    del g.__defaults__
    del g.__kwdefaults__
    del g.__doc__
    return (
        g.__defaults__,
        g.__doc__,
        tried(lambda: delattr(g, "__name__")),
        tried(lambda: delattr(g, "__code__")),
        tried(lambda: delattr(g, "__dict__")),
        tried(lambda: delattr(g, "nope")),
    )


@program
def fn11():
    g = types.FunctionType(fn.__code__, globals(), "nm", (7,))
    return tried(g, 1), tried(g), g.__name__, g.__defaults__


@program
def fn12():
    def g(a, /, b, *, c):
        return a, b, c

    return [
        tried(lambda: g()),
        tried(lambda: g(1)),
        tried(lambda: g(1, 2)),
        tried(lambda: g(1, 2, 3)),
        tried(lambda: g(1, 2, 3, 4)),
        tried(lambda: g(a=1, b=2, c=3)),
        tried(lambda: g(1, 2, c=3, d=4)),
        tried(lambda: g(1, b=2, c=3, a=4)),
        tried(lambda: g(1, 2, b=3, c=2)),
        tried(lambda: g(1, 2, 3, c=4)),
    ]


@program
def fn13():
    def g(a, b, /):
        return a, b

    def h(*, x, y, z):
        pass

    def i(a, b, c, d):
        pass

    def j():
        pass

    def k(a=1):
        pass

    return [
        tried(lambda: g(a=1, b=2)),
        tried(lambda: g(1, b=2)),
        tried(lambda: h()),
        tried(lambda: h(x=1)),
        tried(lambda: i()),
        tried(lambda: i(1)),
        tried(lambda: i(1, 2)),
        tried(lambda: j(1)),
        tried(lambda: j(1, 2)),
        tried(lambda: k(1, 2)),
        tried(lambda: j(a=1)),
        tried(lambda: j(**{"a b": 1})),
        tried(lambda: h(1, x=1, y=2, z=3)),
        tried(lambda: h(1)),
        tried(lambda: k(1, 2, z=3)),
        tried(lambda: i(1, 2, 3, 4, 5, 6, e=1)),
    ]


@program
def fn14():
    def g(a, b, c):
        return a, b, c

    return (
        tried(lambda: g(*1)),
        tried(lambda: g(**1)),
        tried(lambda: g(*[1], **{1: 2})),
        tried(lambda: g(1, *[2], b=3)),
        tried(lambda: g(**{"a": 1}, **{"a": 2})),  # noqa: PLE1132
        tried(lambda: g(*None)),
        tried(lambda: g(**None)),
        tried(lambda: len(**{1: 2})),
        tried(lambda: g(a=1, **{"a": 2})),  # noqa: PLE1132
        tried(lambda: dict(a=1, **{"a": 2})),  # noqa: PLE1132
        tried(lambda: dict(**[1])),
        tried(lambda: len(*3)),
        tried(lambda: (*3,)),
        tried(lambda: [*3]),
        tried(lambda: {*3}),
        tried(lambda: {**3}),
    )


@program
def fn15():
    return (
        fn == fn,
        fn != fn,
        hash(fn) == hash(fn),
        callable(fn),
        fn.__get__(3)(4) if False else None,
        fn.__get__(None, int) is fn,
        type(fn.__get__(3)).__name__,
        tried(lambda: fn.__get__(None)),
        tried(lambda: fn.__get__(None, None)),
    )


@program
def attributes_that_methods_in_c_lack():
    bound = [].append, "x".join, (1).__add__, None.__bool__
    return [[getattr(method, name, "none") for name in ("__code__", "func", "__wrapped__", "__dict__")] for method in bound], tried(lambda: [].append.func)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_descriptors_and_functions(program):
    agree_in_text(program)
