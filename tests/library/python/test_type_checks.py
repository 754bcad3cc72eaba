"""isinstance and issubclass in compiled functions: what passes for a class, abstract base classes, unions; parametrised generics."""

from __future__ import annotations

import abc
import collections.abc as cabc
import numbers
import types
import typing

import pytest
import torch
from agreement import agree_in_text, tried

import framejit

PROGRAMS = []


def program(function):
    PROGRAMS.append(function)
    return function


class A:
    pass


class B(A):
    pass


class Pretend:
    @property
    def __class__(self):
        return B


class Pretend2:
    def __getattribute__(self, n):
        if n == "__class__":
            return B
        return object.__getattribute__(self, n)


class PretendBad:
    @property
    def __class__(self):
        raise AttributeError


class PretendBad2:
    @property
    def __class__(self):
        raise RuntimeError("x")


class Abs:
    def __init__(self, *b):
        self.b = b

    __bases__ = property(lambda s: s.b)


class AbsI:
    def __init__(self, c):
        self.c = c

    __class__ = property(lambda s: s.c)


class Reg(abc.ABC):
    pass


class Reg2(Reg):
    pass


Reg.register(int)
Reg2.register(str)


class Hook(abc.ABC):
    @classmethod
    def __subclasshook__(cls, c):
        return True if "zz" in c.__dict__ else NotImplemented


class HZ:
    zz = 1


class Meta(type):
    def __instancecheck__(s, i):
        return getattr(i, "ok", False)

    def __subclasscheck__(s, c):
        return getattr(c, "ok", False)


class MC(metaclass=Meta):
    pass


class OK:
    ok = True


class MetaABC(abc.ABCMeta):
    def __subclasscheck__(s, c):
        return c is int or super().__subclasscheck__(c)


class MA(metaclass=MetaABC):
    pass


@program
def i1():
    return (
        isinstance(Pretend(), B),
        isinstance(Pretend(), A),
        isinstance(Pretend(), Pretend),
        isinstance(Pretend2(), A),
        isinstance(PretendBad(), A),
        tried(isinstance, PretendBad2(), A),
        isinstance(Pretend(), Reg),
        isinstance(Pretend(), (int, A)),
        type(Pretend()).__name__,
    )


@program
def i2():
    a = Abs()
    b = Abs(a)
    i = AbsI(b)
    return (
        isinstance(i, a),
        isinstance(i, b),
        isinstance(i, (int, a)),
        issubclass(b, a),
        issubclass(a, b),
        issubclass(b, (a,)),
        tried(issubclass, b, int),
        tried(isinstance, 1, a),
        issubclass(a, a),
    )


@program
def i3():
    return (
        tried(isinstance, 1, 2),
        tried(issubclass, 1, int),
        tried(issubclass, int, 1),
        tried(isinstance, 1, (int, 2)),
        tried(isinstance, 1, (str, 2)),
        tried(issubclass, int, (str, 2)),
        tried(isinstance, 1, [int]),
        tried(isinstance, 1, None),
        tried(isinstance, None, None),
    )


@program
def i4():
    return (
        isinstance(1, Reg),
        isinstance("", Reg),
        isinstance(1.0, Reg),
        issubclass(bool, Reg),
        issubclass(str, Reg2),
        issubclass(int, Reg2),
        isinstance(True, Reg),
    )


@program
def i5():
    return isinstance(HZ(), Hook), issubclass(HZ, Hook), isinstance(A(), Hook), issubclass(int, Hook)


@program
def i6():
    return (
        isinstance(OK(), MC),
        isinstance(A(), MC),
        issubclass(OK, MC),
        issubclass(int, MC),
        isinstance(MC(), MC),
        issubclass(MC, MC),
        isinstance(OK(), (int, MC)),
    )


@program
def i7():
    return isinstance(1, MA), isinstance("", MA), issubclass(int, MA), isinstance(MA(), MA)


@program
def i8():
    return (
        isinstance(1, int | str),
        isinstance(None, int | None),
        isinstance(1.0, int | str),
        issubclass(int, int | str),
        issubclass(bool, typing.Union[int, str]),
        isinstance(1, typing.Optional[int]),
        tried(isinstance, 1, list[int]),
        tried(isinstance, 1, int | list[int]),
        tried(isinstance, [], typing.List[int]),
        isinstance([], typing.List),
        tried(isinstance, 1, typing.Any),
    )


@program
def i9():
    return (
        type.__instancecheck__(type, int),
        type.__instancecheck__(int, 1),
        type.__subclasscheck__(int, bool),
        type.__subclasscheck__(type, int),
        abc.ABCMeta.__instancecheck__(Reg, 1),
        Reg.__instancecheck__("a"),
        Reg.__subclasscheck__(int),
        int.__instancecheck__(1),
        int.__subclasscheck__(bool),
    )


@program
def i10():
    return (
        isinstance([], cabc.Sequence),
        isinstance({}, cabc.Mapping),
        isinstance((), cabc.Hashable),
        isinstance([], cabc.Hashable),
        isinstance(1, numbers.Number),
        isinstance(1.0, numbers.Integral),
        isinstance(A(), cabc.Callable),
        isinstance(len, cabc.Callable),
        isinstance((x for x in ()), cabc.Generator),
        isinstance(range(3), cabc.Sequence),
        isinstance(torch.ones(1), cabc.Iterable),
        isinstance(torch.ones(1), torch.Tensor),
    )


@typing.runtime_checkable
class Pr(typing.Protocol):
    def meth(self): ...


class HasM:
    def meth(self):
        pass


@program
def i11():
    return isinstance(HasM(), Pr), isinstance(A(), Pr), issubclass(HasM, Pr), issubclass(A, Pr)


@program
def i12():
    class L(abc.ABC):
        @abc.abstractmethod
        def f(self): ...

    class K:
        pass

    r = [isinstance(K(), L)]
    L.register(K)
    r.append(isinstance(K(), L))
    r.append(issubclass(K, L))
    r.append(tried(L))
    return r, sorted(L.__abstractmethods__)


@program
def i13():
    t = int
    for i in range(300):
        t = (t,)
    return isinstance(1, t), isinstance("", t)


@program
def i14():
    try:
        raise KeyError(1)
    except (ValueError, (KeyError,)) as e:
        return "a"
    except LookupError:
        return "b"


@program
def i15():
    return (
        isinstance(A, type),
        isinstance(A, object),
        issubclass(A, object),
        isinstance(Meta, type),
        isinstance(MC, Meta),
        issubclass(Meta, type),
        isinstance(type, type),
        isinstance(abc.ABC, abc.ABCMeta),
    )


# aliases
class GA:
    def __init__(self, x=0):
        self.x = x

    __class_getitem__ = classmethod(types.GenericAlias)

    def cm(cls):
        return 3

    y = 3


T = typing.TypeVar("T")


class TG(typing.Generic[T]):
    def __init__(self, x=0):
        self.x = x


class SL:
    __slots__ = ("x",)
    __class_getitem__ = classmethod(types.GenericAlias)


class CG:
    def __class_getitem__(cls, i):
        return (cls.__name__, i)


@program
def alias1():
    return (
        GA[int](3).__orig_class__,
        GA[int](3).x,
        GA[int].y,
        GA[int].__origin__ is GA,
        GA[int].__args__,
        tried(lambda: GA[int].zz),
        SL[int]().__class__.__name__,
        list[int]([1]),
        dict[str, int](a=1),
        list[int] == list[int],
        repr(list[int]),
        hash(list[int]) == hash(list[int]),
    )


@program
def alias2():
    return (
        TG[int](3).__orig_class__,
        TG[int](3).x,
        CG[3],
        CG[1, 2],
        tried(lambda: A[1]),
        tried(lambda: int[1]),
        tried(lambda: A()[1]),
        tried(lambda: (int | str)()),
        (int | str).__args__,
        isinstance(list[int], type),
        list[int].append is list.append,
        list[int].__name__,
        list[T][int],
        (list[T] | int)[str],
    )


@program
def alias3():
    return [
        list[int].__class__.__name__,
        type(list[int]).__name__,
        list[int].__parameters__,
        list[T].__parameters__,
        list[int].__mro_entries__(()),
        issubclass(list[int].__origin__, list),
        callable(list[int]),
        tuple[int, ...].__args__,
        list[int].__doc__[:4],
        tried(lambda: list[int].__bases__),
    ]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_type_checks(program):
    agree_in_text(program)


class Claiming:
    """Counts how often it is asked for its class."""

    def __init__(self):
        self.asked = 0

    @property
    def __class__(self):
        self.asked += 1
        return int


def test_an_object_in_the_place_of_a_class_is_asked_for_its_class_as_often_as_in_eager():
    def function(x, claiming):
        return (
            x.item(), tried(isinstance, 1, claiming), tried(issubclass, int, claiming), tried(isinstance, 1, (str, claiming)),
            tried(lambda: type(claiming | typing.Union[int, str]).__name__), claiming.asked,
        )  # fmt: skip

    compiled = framejit.compile(function, backend="eager")
    for _ in range(2):
        assert compiled(torch.ones(()), Claiming()) == function(torch.ones(()), Claiming())


def test_a_class_made_of_an_object_in_its_place_asks_that_as_often_as_in_eager():
    def function(x):
        claiming = Claiming()
        return tried(isinstance, x, (str, typing.Union[int, claiming])), claiming.asked

    compiled = framejit.compile(function, backend="eager")
    expected = function(torch.ones(()))
    assert [compiled(torch.ones(())) for _ in range(2)] == [expected, expected]


class Suspicious(type):
    def __subclasscheck__(cls, other):
        ASKED.append(other.__name__)
        return cls.answer


class Refused(Exception, metaclass=Suspicious):
    answer = False


class Welcome(Exception, metaclass=Suspicious):
    answer = True


ASKED = []


@pytest.mark.parametrize("kind", [Refused, Welcome])
def test_making_instances_and_matching_handlers_asks_no_subclass_hook(kind):
    def function(x):
        made = kind(1)
        try:
            raise KeyError(2)
        except kind:
            found = "matched"
        except LookupError:
            found = "not matched"
        return x.shape, type(made).__name__, made.args, found

    ASKED.clear()
    expected = function(torch.ones(1))
    assert ASKED == []
    assert framejit.compile(function, backend="eager", fullgraph=True)(torch.ones(1)) == expected
    assert ASKED == []


class NoClass:
    """Passes for nothing: who asks it for its `__bases__` or its `__class__` gets another error than TypeError."""

    @property
    def __bases__(self):
        raise ValueError("no bases")

    @property
    def __class__(self):
        raise ValueError("no class")


class OwnHook(abc.ABC):
    @classmethod
    def __subclasshook__(cls, other):
        return True


@pytest.mark.parametrize("kind", [int, cabc.Sized, OwnHook, (int, OwnHook), numbers.Number | None], ids=str)
def test_an_abstract_class_asks_what_is_no_class_for_nothing(kind):
    agree_in_text(lambda: (tried(issubclass, NoClass(), kind), tried(isinstance, NoClass(), kind)))


def test_a_hook_that_an_abstract_base_gets_later():
    """A class that is registered itself is asked about in each call: `ABCMeta` keeps no answer for it."""

    class Shape(abc.ABC):
        pass

    class Square:
        pass

    Shape.register(Square)

    def function(x):
        return x + 1 if issubclass(Square, Shape) else x - 1

    compiled = framejit.compile(function, backend="eager")
    x = torch.ones(2)
    assert compiled(x).equal(x + 1)
    Shape.__subclasshook__ = classmethod(lambda cls, sub: False)  # type: ignore[assignment]
    assert function(x).equal(x - 1) and compiled(x).equal(x - 1)
