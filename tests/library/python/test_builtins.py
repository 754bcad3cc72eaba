"""Builtin functions in compiled functions."""

from __future__ import annotations

import abc
import collections.abc
import enum
import inspect
import numbers
import typing

import pytest
import torch
from agreement import agree, agree_over_calls, raising

import framejit

x = torch.arange(6.0).reshape(2, 3)


class Shade(enum.Enum):
    DARK = 1
    LIGHT = "l"

    def describe(self):
        return f"{self.name}={self.value}"

    @property
    def twice(self):
        return str(self.value) * 2

    @classmethod
    def default(cls):
        return cls.DARK


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Mode(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


class Kind(str, enum.Enum):
    A = "a"
    B = "b"


class Size(tuple, enum.Enum):
    SMALL = 1, 2
    LARGE = 3, 4


class Money:
    """Numeric protocols."""

    def __init__(self, n):
        self.n = n

    def __abs__(self):
        return "abs"

    def __round__(self, digits=None):
        return ("round", digits)

    def __divmod__(self, other):
        return ("divmod", other)

    def __int__(self):
        return self.n

    def __float__(self):
        return self.n / 2

    def __index__(self):
        return self.n

    def __len__(self):
        return self.n

    def __hash__(self):
        return 42

    def __eq__(self, other):
        return isinstance(other, Money) and self.n == other.n

    def __lt__(self, other):
        return self.n < other.n

    def __format__(self, spec):
        return f"<{self.n}:{spec}>"

    def __repr__(self):
        return f"Money({self.n})"

    def __ceil__(self):
        return self.n + 1


class Meta(type):
    def __instancecheck__(cls, obj):
        return obj == 5

    def __subclasscheck__(cls, sub):
        return sub is int


class Odd(metaclass=Meta):
    pass


class Abstract(abc.ABC):
    @abc.abstractmethod
    def f(self): ...


class Concrete(Abstract):
    def f(self):
        return 1


class Slots:
    __slots__ = ("a", "b")


class Dynamic:
    def __getattr__(self, name):
        if name.startswith("dyn_"):
            return name[4:]
        raise AttributeError(name)


def numbers_and_text(t, n, f):
    return (
        abs(-3),
        abs(-2.5),
        round(2.567, 1),
        round(2.5),
        round(7, -1),
        divmod(7, 2),
        divmod(-7.5, 2),
        pow(2, 10),
        pow(2, -1),
        pow(3, 4, 5),
        n // 2,
        n % 3,
        f / 2,
        int("12"),
        int(3.9),
        int("ff", 16),
        float("1.5"),
        float(3),
        str(12),
        str(None),
        bool([]),
        bool("a"),
        complex(1, 2),
        chr(97),
        ord("a"),
        hex(255),
        bin(5),
        oct(8),
        int(),
        float(),
        str(),
        bool(),
        bytes([1, 2]),
        str(b"ab", "ascii"),
        -n,
        +f,
        ~n,
        n << 2,
        n**2,
        f**2,
        n & 1,
        -(-f),
        n - f,
    )


def number_errors(t):
    return [
        raising(lambda: 1 / 0),
        raising(lambda: 1 // 0),
        raising(lambda: int("x")),
        raising(lambda: float("x")),
        raising(lambda: chr(-1)),
        raising(lambda: 1 + "a"),
        raising(lambda: abs("a")),
        raising(lambda: round("a")),
        raising(lambda: divmod(1, "a")),
        raising(lambda: int([])),
        raising(lambda: len(5)),
        raising(lambda: -"a"),
        raising(lambda: [] < 1),
        raising(lambda: sum(["a"])),
        raising(lambda: max([])),
        raising(lambda: min()),
        raising(lambda: sum(["a"], "")),
        raising(lambda: ord("ab")),
        raising(lambda: float([])),
        raising(lambda: 5()),
        raising(lambda: 5[0]),
        raising(lambda: iter(5)),
        raising(lambda: next([])),
        raising(lambda: 10.0**1000),
        raising(lambda: hash([])),
        raising(lambda: isinstance(1, 5)),
        raising(lambda: issubclass(1, int)),
        raising(lambda: getattr(1, 5)),
    ]


def deferred(t, n, f):
    total = n
    for _ in range(5):
        total += 1
    return total, n * 2 - 1, -n, f * 2.0 + 1, -f, f - 2, n * n, [n + 1], {"n": n - 1}, t


def deferred_observed(t, n):
    m = n + 1
    return t * m if m > 2 else t - m


def protocols(t):
    m = Money(4)
    template = "{:q} {!r}"
    return (
        abs(m),
        round(m),
        round(m, 2),
        divmod(m, 3),
        int(m),
        float(m),
        len(m),
        hash(m),
        hex(m),
        bool(Money(0)),
        [0, 1, 2, 3, 4][m],
        range(m),
        sorted([Money(2), Money(1)])[0].n,
        max(Money(1), Money(3)).n,
        min([Money(2), Money(1)], key=lambda q: -q.n).n,
        f"{m:x}",
        f"{m}",
        f"{m!r:>10}",
        str(m),
        format(m, "z"),
        template.format(m, m),
    )


def sums(t):
    return (
        sum([1, 2.5, True]),
        sum([], 5),
        sum([[1], [2]], []),
        sum([t, t + 1]),
        sum(i for i in range(4)),
        sum([0.1] * 10),
        max(1, 3, 2),
        min("b", "a"),
        max([1], default=3),
        max([], default=3),
        max("aa", "b", key=len),
        min({3: 1, 2: 5}),
        any([0, [], 1]),
        all([1, "", 2]),
        any(()),
        all(()),
        max(1, 2.0, 2),
    )


def lazy_any(t):
    seen = []

    def note(i):
        seen.append(i)
        return i > 1

    return any(note(i) for i in range(5)), all(note(i) for i in range(5)), seen


def isinstances(t):
    return (
        isinstance(1, int),
        isinstance(True, int),
        isinstance("a", (int, (str, float))),
        isinstance(1, int | str),
        isinstance(None, type(None)),
        isinstance(1.0, int | None),
        isinstance([], collections.abc.Sequence),
        isinstance({}, collections.abc.Mapping),
        isinstance(1, numbers.Number),
        isinstance(Concrete(), Abstract),
        isinstance(t, torch.Tensor),
        isinstance(t, torch.nn.Parameter),
        isinstance(5, Odd),
        isinstance(6, Odd),
        issubclass(bool, int),
        issubclass(Concrete, Abstract),
        issubclass(int, Odd),
        issubclass(str, Odd),
        issubclass(int, (str, int)),
        isinstance(int, type),
        isinstance(len, collections.abc.Callable),
        isinstance((1,), tuple),
        isinstance(1, typing.Union[int, str]),
        isinstance(lambda: 1, collections.abc.Callable),
        isinstance(range(3), collections.abc.Iterable),
        type(1) is int,
        type(t) is torch.Tensor,
        type([]) == list,
        type(type(1)),
    )


def attributes(t):
    s, d = Slots(), Dynamic()
    s.a = t
    setattr(s, "b", 2)
    delattr(s, "b")
    d.real = 3
    return (
        hasattr(s, "a"),
        hasattr(s, "b"),
        getattr(s, "b", "none"),
        getattr(s, "a") is t,
        d.dyn_x,
        hasattr(d, "other"),
        d.real,
        vars(d),
        d.__dict__,
        d.__class__ is Dynamic,
        raising(lambda: s.b),
        raising(lambda: d.other),
        raising(lambda: setattr(s, "zz", 1)),
        raising(lambda: (1).real.zz),
        callable(len),
        callable(d),
        callable(Dynamic),
        callable(lambda: 1),
        Dynamic.__name__,
        raising(lambda: Dynamic.nothing),
        raising(lambda: None.x),
    )


def enums(t):
    return (
        Shade.DARK,
        Shade.DARK.value,
        Shade.LIGHT.name,
        Shade("l"),
        Shade["DARK"],
        [m.name for m in Shade],
        len(Shade),
        Shade.DARK is Shade(1),
        Shade.DARK == Shade.LIGHT,
        Shade.DARK.describe(),
        Shade.LIGHT.twice,
        Shade.default(),
        Shade.DARK in Shade,
        isinstance(Shade.DARK, Shade),
        {Shade.DARK: t}[Shade.DARK],
        str(Shade.DARK),
        repr(Shade.LIGHT),
        f"{Shade.DARK}",
        raising(lambda: Shade(99)),
        raising(lambda: Shade.NONE),
        Level.HIGH + 1,
        Level.LOW < Level.HIGH,
        Level.HIGH > 3,
        [10, 20][Level.LOW],
        int(Level.HIGH),
        Level(5),
        Size((1, 2)) is Size.SMALL,
        Size((3, 4)).name,
        Mode.READ | Mode.WRITE,
        Mode.READ in (Mode.READ | Mode.WRITE),
        bool(Mode.READ & Mode.WRITE),
        ~Mode.READ,
        Kind.A == "a",
        Kind("b"),
        Kind.A.upper(),
        "a" in {Kind.A: 1},
        Shade.DARK != 1,
        t * Level.HIGH,
    )


def enum_argument(t, m):
    if m is Shade.DARK:
        return t + 1
    if m == Shade.LIGHT:
        return t - 1, m.value
    return m


def texts(t, s):
    return (
        s.upper(),
        s.split(","),
        ",".join(["a", s]),
        ",".join(str(i) for i in range(3)),
        s.replace("a", "z"),
        s[0],
        s[::-1],
        "b" in s,
        s + "x",
        s * 2,
        s.startswith(("a", "q")),
        f"{s:>8}|{1.5:.3f}|{3!r}",
        "%s-%d" % (s, 3),
        "%(k)s" % {"k": 1},
        "{} {x}".format(s, x=1),
        "{0[1]} {1.real}".format([1, 2], 3),
        s.encode().decode(),
        len(s),
        [c for c in s],
        s < "b",
        s == "a,b",
        s.join("xy"),
        "a\tb".expandtabs(),
        b"ab"[0],
        b"a" + b"b",
        s.partition(","),
        "x".isalpha(),
        str.lower("ABC"),
        max(s),
        sorted(s),
        s.find("b"),
        s.count(","),
        raising(lambda: s.index("q")),
        raising(lambda: ",".join([1])),
        raising(lambda: "%d" % s),
        raising(lambda: (s + "{}").format()),
        raising(lambda: s[50]),
        "abc".translate(str.maketrans("a", "b")),
        format(3.14159, ".2f"),
        format(255, "x"),
        repr("it's"),
        ascii("é"),
    )


def identities(t):
    a = [1]
    return (
        a is a,
        a != [1],
        None is None,
        type(None),
        id(None) == id(None),
        (lambda: a)() is a,
        t is t,
        Ellipsis is ...,
        hash("a") == hash("a"),
        hash((1, 2)) == hash((1, 2)),
    )


ALONE = [number_errors, protocols, sums, lazy_any, isinstances, attributes, enums, identities]


@pytest.mark.parametrize("program", ALONE, ids=lambda program: program.__name__)
def test_builtins_agree_with_eager(program):
    agree(program, x)


@pytest.mark.parametrize("args", [(7, 2.5), (-3, -0.0), (0, float("inf"))])
def test_numbers(args):
    agree(numbers_and_text, x, *args)
    agree(deferred, x, *args)


def test_texts():
    agree(texts, x, "a,b")


@pytest.mark.parametrize("member", [Shade.DARK, Shade.LIGHT, Level.LOW])
def test_enum_argument(member):
    compiled = agree(enum_argument, x, member)
    assert str(compiled(x, Shade.LIGHT)) == str(enum_argument(x, Shade.LIGHT))


def test_enum_of_the_standard_library_with_a_text_of_its_own():
    kinds = [parameter.kind for parameter in inspect.signature(test_enum_argument).parameters.values()]

    def program(t):
        special = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
        return t + 1 if any(kind == inspect.Parameter.VAR_KEYWORD or kind in special for kind in kinds) else t + kinds[0]

    agree(program, x)


def test_arithmetic_alone_guards_no_value():
    compiled = agree(deferred, x, 3, 1.5)
    before = framejit.statistics()["recompiles"]
    for n, f in ((5, 2.5), (-1, 0.0), (10**30, -0.0)):
        assert str(compiled(x, n, f)) == str(deferred(x, n, f))
    assert framejit.statistics()["recompiles"] == before


def test_observed_arithmetic_guards_the_value():
    compiled = agree(deferred_observed, x, 3)
    assert torch.equal(compiled(x, 0), deferred_observed(x, 0))
    assert torch.equal(compiled(x, 4), deferred_observed(x, 4))


def test_print_is_a_break():
    def speak(t):
        print("hello")
        return t

    with pytest.raises(framejit.Unsupported):
        framejit.compile(speak, backend="eager", fullgraph=True)(x)


def test_sums_that_overflow():
    def f(t):
        try:
            return sum([2**2000, 1.0])
        except OverflowError as error:
            return t + 1, str(error)

    agree_over_calls(lambda compile: [compile(f)(x)])
