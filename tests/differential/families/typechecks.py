"""isinstance and issubclass: abstract classes with registries and hooks, `__instancecheck__`, protocols, tuples and unions, what is no class."""

from __future__ import annotations

from differential.family import Family

PRELUDE = '''
import abc
import collections.abc
import numbers
import typing


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self):
        ...

    @property
    @abc.abstractmethod
    def side(self):
        ...


class Open(abc.ABC):
    def both(self):
        return LOG.append("both")


class Hooked(abc.ABC):
    @classmethod
    def __subclasshook__(cls, other):
        LOG.append(("hook", other.__name__))
        if cls is Hooked and any("step" in base.__dict__ for base in other.__mro__):
            return True
        return NotImplemented


class Opaquely(abc.ABCMeta):
    def __instancecheck__(cls, instance):
        return opaque(2) if isinstance(instance, Thing) else super().__instancecheck__(instance)


class ByOpaque(metaclass=Opaquely):
    pass


class Asking(type):
    def __instancecheck__(cls, instance):
        LOG.append(("asked", cls.__name__))
        return hasattr(instance, "a")

    def __subclasscheck__(cls, other):
        print("asked", getattr(other, "__name__", other))
        return "yes" if other is not int else []


class Asked(metaclass=Asking):
    pass


class Square(Shape):
    def __init__(self, a, n):
        self.a, self.n = a, n

    def area(self):
        return self.n * self.n

    @property
    def side(self):
        return self.n


class Registered:
    def step(self, t, k=1):
        return t


Open.register(Registered)


@Open.register
class Later(Thing):
    pass


@typing.runtime_checkable
class HasStep(typing.Protocol):
    def step(self, t, k=1):
        ...


@typing.runtime_checkable
class HasA(typing.Protocol):
    a: torch.Tensor


class WithBases:
    def __init__(self, *bases):
        self.bases = bases

    @property
    def __bases__(self):
        LOG.append("bases")
        return self.bases


class FakeClass:
    @property
    def __class__(self):
        LOG.append("class")
        return Thing


class Broken:
    @property
    def __bases__(self):
        raise ValueError("no bases")

    @property
    def __class__(self):
        return opaque(1)


abstract = WithBases(WithBases(), WithBases(WithBases()))
'''

CLASS = (
    "{int;str;Thing;Loud;Shape;Square;Open;Hooked;ByOpaque;Asked;Registered;Later;HasStep;HasA;torch.Tensor;collections.abc.Sized;collections.abc.Iterable;"
    "collections.abc.Mapping;collections.abc.Callable;collections.abc.Hashable;numbers.Number;numbers.Integral;type;object;bool;list;"
    "tuple;WithBases;FakeClass;Pair}"
)

FAMILY = Family(
    prelude=PRELUDE,
    variables={"s": "s = Thing(x, 1)"},
    expressions={
        "s": (
            "s", "o", "n", "x", "True", "'a'", "xs", "d", "Square(x, {i})", "Registered()", "Later(x, 1)", "Loud({t}, 1)", "FakeClass()",
            "Broken()", "Pair(x, n)", "int", "Shape", "abstract", "None", "len", "iter(xs)", "1.5", "layer", "ValueError(n)", CLASS,
        ),
        "j": (
            "int", CLASS, CLASS, CLASS, "({j}, {j})", "(int, ({j}, str))", "{j} | {j}", "int | None", "(int | str, {j})", "list[int]",
            "typing.List", "typing.Union[int, {j}]", "typing.Optional[{j}]", "(int, 3)", "3", "abstract", "abstract.bases[0]", "Broken()",
            "()", "None", "typing.Any", "typing.Callable", "(int, list[int])", "int | list[int]", "type(s)", "(Open, Hooked)",
        ),
        "i": (
            "1", "isinstance({s}, " + CLASS + ") + 1", "issubclass(" + CLASS + ", " + CLASS + ") + 1", "len(type(s).__mro__)",
            "len(getattr(type(s), '__abstractmethods__', ''))",
        ),
        "t": (
            "x", "(x if isinstance({s}, " + CLASS + ") else {t})", "Square({t}, {i}).a", "Later({t}, 1).step({t})",
            "[{t} for each in ({s}, {s}) if isinstance(each, " + CLASS + ")][-1]",
        ),
        "c": (
            "n > m", "isinstance({s}, {j})", "isinstance({s}, " + CLASS + ")", "issubclass(type({s}), " + CLASS + ")",
            "isinstance(s, (" + CLASS + ", int))", "callable({s})",
        ),
    },
    breaking={
        "i": ("isinstance(Thing(x, {bi}), ByOpaque) + 1", "isinstance({bi}, {j}) + 1"),
        "c": ("isinstance(o, ByOpaque)", "isinstance({bt}, {j})"),
    },
    statements=(
        "s = {s}", "LOG.append(tried(isinstance, {s}, {j}))", "LOG.append(tried(issubclass, type({s}), {j}))",
        "LOG.append(tried(lambda: issubclass({j}, {j})))", "LOG.append(tried(lambda: issubclass({s}, {j})))",
        "LOG.append(tried(lambda: isinstance({s}, {j})))",
        "LOG.append(tried(lambda: shown({Open;Hooked;HasStep;Shape}.register({Thing;Loud;int;Registered;Square;3}))))",
        "LOG.append(tried({Shape;Square;Open;HasStep}))", "LOG.append(tried(lambda: shown({j} | {j})))",
        "LOG.append(tried(lambda: {j} == {j}))", "LOG.append(sorted(getattr(type({s}), '__abstractmethods__', ())))",
        "LOG.append(tried(issubclass, {j}, {j}))", "LOG.append(isinstance(o, Hooked) or n)",
        "LOG.append(tried(lambda: shown(s.__class__)))", "LOG.append(tried(lambda: type({s}).__name__))",
        "LOG.append(tried(lambda: Shape.__subclasscheck__({j})))", "LOG.append(tried(lambda: ({j}).__instancecheck__({s})))",
        "abstract.bases = (*abstract.bases[:3], WithBases())", "LOG.append(issubclass(abstract.bases[0], abstract))",
        "LOG.append(tried(issubclass, Thing, Broken()))", "LOG.append(tried(lambda: type(int | str).__name__))",
        "LOG.append(tried(lambda: typing.get_args({j})))", "LOG.append(tried(lambda: shown(typing.get_origin({j}))))",
        "LOG.append(tried(lambda: hash(int | {j}) == hash({j} | int)))",
    ),
    breaking_statements=(
        "LOG.append((opaque({i}), tried(isinstance, {s}, {j})))", "print(tried(isinstance, {s}, {j}))", "s = Later({bt}, {bi})",
        "print(tried(issubclass, type({s}), {j}), opaque(n))", "LOG.append(tried(lambda: isinstance(Thing(x, opaque(n)), {j})))",
    ),
    blocks=(
        "if isinstance({s}, {j}):\n    BLOCK\nelse:\n    BLOCK",
        "class NEW({Thing;Square;Loud;Shape;abc.ABC, Thing}):\n    @{abc.abstractmethod;classmethod;staticmethod;property}\n"
            "    def extra(self=None):\n        nonlocal n, x\n        BLOCK\n        return n\n"
            "LOG.append(tried(lambda: shown(NEW(x, n))))\nLOG.append(tried(lambda: {Open;Shape;Hooked}.register(NEW) is NEW))\n"
            "LOG.append([isinstance(o, NEW), issubclass(NEW, Open), issubclass(NEW, {j})])",
        "class NEW(abc.ABC):\n    @classmethod\n    def __subclasshook__(cls, other):\n        nonlocal n, x\n        BLOCK\n"
            "        return {True;False;NotImplemented;opaque(n) > 1}\n"
            "LOG.append(tried(lambda: (isinstance({s}, NEW), isinstance({s}, NEW), issubclass({j}, NEW))))",
        "class NEW(type):\n    def __instancecheck__(cls, each):\n        nonlocal n, x\n        BLOCK\n"
            "        return {True;False;n > 1;opaque(n);[];type(each) is Thing}\nNEW = NEW('Made', (), {{}})\n"
            "LOG.append(tried(lambda: (isinstance({s}, NEW), isinstance({s}, (int, NEW)), isinstance({s}, NEW | None))))",
        "match {s}:\n    case {Shape();Open();Hooked();Asked();ByOpaque();HasStep();Thing(a=q);collections.abc.Sized()}:\n"
            "        BLOCK\n    case {Square();int();object(a=q)}:\n        BLOCK\n    case _:\n        BLOCK",
        "@functools.singledispatch\ndef NEW(q):\n    return 'any'\n@NEW.register\n"
            "def _(q: {Thing;int;Open;Shape;collections.abc.Sized}):\n    nonlocal n, x\n    BLOCK\n    return 'one'\n"
            "LOG.append(tried(NEW, {s}))",
        "try:\n    raise {ValueError(n);KeyError(m);{e}}\nexcept {j} as error:\n    LOG.append(repr(error))\n    BLOCK",
    ),
    handlers=("TypeError",),
)  # fmt: skip
