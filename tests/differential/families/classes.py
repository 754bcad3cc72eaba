"""Classes: descriptors, properties, class and static methods, `super()`, `__slots__`, attribute hooks, metaclasses, classes with random bodies."""

from __future__ import annotations

from differential.family import Family

PRELUDE = '''
class Data:
    def __init__(self, start=None):
        self.start = start

    def __set_name__(self, owner, name):
        LOG.append(("named", owner.__name__, name))
        self.name = "_" + name

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        return instance.__dict__.get(self.name, self.start)

    def __set__(self, instance, value):
        LOG.append(("set", self.name))
        instance.__dict__[self.name] = value

    def __delete__(self, instance):
        print("delete", self.name)
        del instance.__dict__[self.name]


class Computed:
    def __init__(self, function):
        self.function = function
        self.__doc__ = function.__doc__

    def __get__(self, instance, owner):
        if instance is None:
            return owner.__name__
        return self.function(instance)


class ReadOnly(Computed):
    def __set__(self, instance, value):
        raise AttributeError(f"read only in {type(instance).__name__}")


class Held(Thing):
    b = Data()
    limit = Data(3)

    def __init__(self, a, n):
        super().__init__(a, n)
        self.b = a

    @Computed
    def total(self):
        return self.n + opaque(self.n)

    @ReadOnly
    def fixed(self):
        "what is fixed"
        return self.n * 2

    @property
    def half(self):
        "a half"
        return self.a * 0.5

    @half.setter
    def half(self, value):
        if value is None:
            raise ValueError("no half")
        self.a = value * 2

    @half.deleter
    def half(self):
        print("half deleted")
        self.a = SCALE

    @classmethod
    def make(cls, t, n=1):
        LOG.append(cls.__name__)
        return cls(t, n)

    @staticmethod
    def twice(t, k=2):
        return t * k

    wrapped = classmethod(classmethod(lambda cls: cls.__name__))
    plain = staticmethod(len)
    documented = property(lambda self: self.n, doc="given")


class Late(Thing):
    def __getattr__(self, name):
        if name.startswith("_") or name == "gone":
            raise AttributeError(f"no {name}", name=name, obj=self)
        LOG.append(("late", name))
        return len(name)


class Early(Thing):
    def __getattribute__(self, name):
        if name == "half":
            return opaque(2)
        return super().__getattribute__(name)

    def __setattr__(self, name, value):
        if name == "fixed":
            raise TypeError("fixed")
        object.__setattr__(self, name, value)

    def __delattr__(self, name):
        LOG.append(("delattr", name))
        super().__delattr__(name)


class Slotted(Thing):
    __slots__ = ("s", "half")


class Bare:
    __slots__ = ("a", "n", "__weakref__")
    limit = 2

    def __init__(self, a, n):
        self.a, self.n = a, n

    def step(self, t, k=1):
        self.n = (self.n + k) % 5
        return t * self.n


class Left(Thing):
    def step(self, t, k=1):
        return super().step(t * 2, k) + 1


class Right(Thing):
    def step(self, t, k=1):
        LOG.append("right")
        return super(Right, self).step(t, k=opaque(k))


class Both(Left, Right):
    def step(self, t, k=1):
        return super().step(t, k) - super(Left, self).step(t)


class Meta(type):
    def __call__(cls, *args):
        LOG.append(("called", cls.__name__))
        return super().__call__(*args)

    def __len__(cls):
        return 3

    def __getattr__(cls, name):
        if name == "gone":
            raise AttributeError(name)
        return name

    @property
    def half(cls):
        return opaque(3)


class OfMeta(Thing, metaclass=Meta):
    def __init_subclass__(cls, scale=1, **kwargs):
        super().__init_subclass__(**kwargs)
        LOG.append(("subclass", cls.__name__, scale))
        cls.limit = scale

    def __class_getitem__(cls, item):
        return cls.__name__, item


class Once:
    made = {}

    def __new__(cls, a, n):
        if n not in cls.made:
            cls.made[n] = super().__new__(cls)
        return cls.made[n]

    def __init__(self, a, n):
        self.a, self.n = a, n

    def step(self, t, k=1):
        return t + self.n * k


class Cached(Thing):
    @functools.cached_property
    def half(self):
        print("cached")
        return self.a * opaque(self.n)

    @functools.singledispatchmethod
    def limit(self, value):
        return "any"

    @limit.register
    def _(self, value: int):
        return value + self.n

    total = functools.partialmethod(Thing.step, k=3)
'''

CLASSES = "{Held;Late;Early;Slotted;Bare;Left;Right;Both;OfMeta;Once;Cached;Thing;Loud}"
NAMES = "{half;b;limit;total;fixed;a;n;s;gone;_a;documented;wrapped;plain;__doc__;__slots__;made;step;twice;early;value}"

FAMILY = Family(
    prelude=PRELUDE,
    expressions={
        "i": (
            "1", "Held(x, {i}).total", "Held(x, {i}).fixed", "Held.limit.start", "len(Held.wrapped())", "Held.plain(xs)",
            "Late(x, {i}).value", "len(Held.total)", "len(OfMeta)", "Both.__mro__.index(Right)", "Bare(x, {i}).n", "len(type(o).__name__)",
            "Held(x, {i}).documented", "Cached(x, {i}).limit({i})", "hasattr(o, '" + NAMES + "') + 1",
            "(super(Both, Both(x, {i})).__thisclass__.limit if False else {i})", "vars(o).get('_limit', {i})", "len(dir(Bare(x, 1))) % 7",
            "Held.make(x, {i}).n", "Held(x, 1).make(y, n={i}).n", "callable(o) + 1",
            "(type(o).__mro__.index(Thing) if isinstance(o, Thing) else 0)",
        ),
        "t": (
            "x", "Held(x, {i}).half", "Held({t}, {i}).b", "Held.make({t}).a", "Held.twice({t}, {i})", "Both({t}, {i}).step({t})",
            "Left({t}, 1).step({t}, {i})", "super(Both, Both(x, {i})).step({t})", "super(Left, Both(x, 1)).step({t})",
            "Bare({t}, {i}).step({t})", "Once({t}, {i}).a", "Slotted({t}, {i}).step(x)", "Early({t}, {i}).step({t})", "OfMeta({t}, {i}).a",
            "Cached({t}, {i}).total({t})", "Held.half.fget(Held({t}, 1))", "Thing.step(Both(x, {i}), {t}, {i})",
        ),
        "c": ("n > m", "isinstance(o, " + CLASSES + ")", "hasattr(o, 'half')", "type(o) is Held", "issubclass(type(o), (Left, Bare))"),
    },
    breaking={
        "i": ("Early(x, {i}).half", "OfMeta.half", "Held({bt}, {i}).total"),
        "t": ("Cached({t}, {i}).half", "Right({t}, {i}).step({t})", "Held({bt}, {i}).half", "Both({bt}, {i}).step(y)"),
    },
    statements=(
        "o = " + CLASSES + "({t}, {i})", "LOG.append(tried(getattr, o, '" + NAMES + "', {i}))",
        "LOG.append(tried(lambda: shown(o." + NAMES + ")))", "LOG.append(tried(setattr, o, '" + NAMES + "', {i}))",
        "LOG.append(tried(delattr, o, '" + NAMES + "'))", "tried(setattr, o, '" + NAMES + "', {t})",
        "LOG.append(tried(lambda: shown(type(o)." + NAMES + ")))", "LOG.append(tried(lambda: shown(super(type(o), o)." + NAMES + ")))",
        "LOG.append(sorted(vars(o)) if hasattr(o, '__dict__') else None)",
        "LOG.append(shown({Held;Bare;OfMeta;Cached}." + NAMES + ") if hasattr({Held;Bare;OfMeta}, '" + NAMES + "') else 0)",
        "LOG.append(tried(lambda: super({;Left;Left, Both(x, 1);Left, x;o, Left;Both, Both}).step))",
        "LOG.append((Held.half.__doc__, Held.documented.__doc__, Held.fixed, Held.make.__doc__))",
        "LOG.append(Held.__dict__['{make;twice;wrapped;plain}'].__func__.__name__)", "LOG.append(OfMeta[n])",
        "LOG.append(tried(lambda: Held[n]))", "o.__dict__['{half;b;a;total;fixed;limit}'] = {i}", "Held.limit = {i}", "Left.limit = {i}",
        "o.half = {t}", "o.b = {t}", "del o.half", "LOG.append(tried(object.__getattribute__, o, '" + NAMES + "'))",
        "LOG.append(tried(setattr, o, '__class__', {Left;Right;Bare;Thing}))", "LOG.append([k.__name__ for k in type(o).__mro__])",
        "LOG.append(o.step.__func__ is type(o).step)", "x = o.step({t}, k={i})",
        "LOG.append(tried(lambda: type(o).__dict__['half'].__get__(o, type(o))))", "LOG.append(tried(o.step, x, {i}, {i}))",
        "LOG.append(tried(o.missing))", "LOG.append(shown(property(lambda self: 1, doc='d').__doc__))",
        "LOG.append(tried(Thing, {x;x, n;x, n, m;a=1, n=2;x, a=1}))", "LOG.append([k for k in dir(o) if not k.startswith('_')])",
        "LOG.append(tried(object.__new__, Thing, 1))", "LOG.append((lambda *a, **k: type('Made', (Thing,), {{'q': n, **k}})(x, 1).q)({i}))",
    ),
    breaking_statements=(
        "o = Right({t}, {bi})", "o = Held({bt}, {i})", "LOG.append(tried(lambda: shown(o." + NAMES + ") + (opaque({i}),)))",
        "print(tried(getattr, o, '" + NAMES + "', {bi}) is o)", "o.half = {bt}", "o.b = {bt}", "o.n = {bi}", "Held.limit = {bi}",
        "LOG.append(tried(setattr, o, '" + NAMES + "', {bi}))", "print(Held(x, {i}).fixed, Held(y, 1).total)",
    ),
    blocks=(
        "class NEW({Held;Left;Both;OfMeta;Bare;Cached;Late;Once}):\n    tag = {i}\n    def step(self, t, k=1):\n"
            "        nonlocal n, x\n        BLOCK\n"
            "        return {super();super(NEW, self);super(__class__, self);Thing}.step({t;self, t}, k)\no = NEW({t}, {i})\n"
            "x = o.step(x)",
        "class NEW(OfMeta, scale={i}):\n    {pass;__slots__ = ();b = Data();n = Data()}\no = NEW({t}, {i})\nLOG.append(NEW.limit)",
        "class NEW(Thing):\n    @{property;classmethod;staticmethod;Computed;ReadOnly;functools.cached_property}\n"
            "    def value(self=None):\n"
            "        nonlocal n, x\n        BLOCK\n        return {n;m;x;self}\n    a = {Data();Computed(len);n;NotImplemented}\n"
            "LOG.append(tried(lambda: shown(NEW({t}, n).value)))\nLOG.append(tried(lambda: shown(NEW({t}, n).value())))",
    ),
    methods=(
        ("", "step(self, x, k=1)", "n = k"),
        ("@property", "half(self)", "x = self.a"),
        ("@functools.cached_property", "total(self)", "x = self.a"),
        ("@Computed", "total(self)", "x = self.a\nn = self.n"),
        ("@ReadOnly", "fixed(self)", "x = self.a"),
        ("@classmethod", "make(cls, x, n=1)", "o = cls(x, n)"),
        ("@staticmethod", "twice(x, n=2)", "m = n"),
        ("@logged", "step(self, x, k=1)", "n = self.n"),
        ("", "__getattr__(self, name)", "if name.startswith('_'):\n    raise AttributeError(name)\nx = SCALE"),
        ("", "__call__(self, x, n=1)", "o = self"),
        ("", "__iter__(self)", "x = self.a\nyield x"),
        ("", "__init__(self, x, n)", "super().__init__(x, n)\no = self"),
        ("", "__setattr__(self, name, value)", "super().__setattr__(name, value)\nx = SCALE"),
    ),
    members=(
        "made = COUNT + {1;2;3}", "b = Data()", "n = Data({1;2;3})",
        "limit = property(lambda self: COUNT + 1, lambda self, v: LOG.append(('limit', v)), doc='d')", "__slots__ = {();('another',)}",
        "step = {Thing.step;functools.partialmethod(Thing.step, k=2);logged(Thing.step)}", "early = staticmethod(lambda *a: len(a))",
        "early = classmethod(lambda cls, *a: cls.__name__)", "half = ReadOnly(lambda self: self.n)",
        "def __init_subclass__(cls, **more):\n    LOG.append(more)",
        "def __new__(cls, *args):\n    LOG.append('new')\n    return super().__new__(cls)",
    ),
    bases=(
        "Thing", "Held", "Left", "Both", "Late", "Early", "Loud", "Slotted", "OfMeta", "Left, Right", "Held, Late", "Cached", "Right, Held",
    ),
)  # fmt: skip
