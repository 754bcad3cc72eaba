"""Instances of subclasses of int, float, str and bytes, made in compiled functions and from outside: their methods in C, attributes, identity, texts."""

from __future__ import annotations

import enum
import math
import operator

import pytest
import torch
from agreement import agree

import framejit

x = torch.arange(4.0)


class Steps(int):
    """A count with a unit."""

    unit = "steps"

    def doubled(self):
        return Steps(self * 2)


class Inches(float):
    def __new__(cls, value, label=None):
        made = super().__new__(cls, value * 2)
        made.label = label
        return made


class Name(str):
    __slots__ = ()

    def shout(self):
        return Name(self.upper() + "!")


class Loud(str):
    def __str__(self):
        return "LOUD"

    def __format__(self, spec):
        return "FORMATTED"


class Odd(int):
    def __add__(self, other):
        return "added"

    __radd__ = __add__

    def __eq__(self, other):
        return True

    __hash__ = None


def arithmetic(t):
    a, b = Steps(5), Steps("7")
    return [t * a, a + b, 1 + a, a < b, -a, a / 2, divmod(b, 2), a == 5, hash(a) == hash(5), type(a + b) is int, isinstance(a, int),
            b.bit_length(), bool(Steps())]


def instances(t):
    a, b, c = Steps(5), Inches(1.5, "long"), Name("abc")
    a.extra = t
    return a, b, c, c.shout(), a.doubled(), type(a.doubled()) is Steps, vars(b), a.unit, [a], {"k": b}, (c, a), a is a, Steps(5) is a


def texts(t):
    a, b, c, loud = Steps(5), Inches(1.5), Name("abc"), Loud("%s!")
    return f"{a} {b:.2f} {c!r} {c:>5}", str(a), repr(b), c + "d", "d" + c, c[0], len(c), "b" in c, c.split("b"), c == "abc", type(str(c)) is str, \
        loud % 2, "%s" % loud, "{}".format(loud), f"{loud}", "-".join([c, loud]), loud + loud


def templates(t):
    plain, fields, empty, escaped = Name("a b"), Name("a{}b"), Name(""), Name("a{{b")
    formatted = [each.format(t.ndim) for each in (plain, fields, empty, escaped)] + [plain.format_map({}), escaped.format_map({"k": 1})]
    return formatted, [type(each).__name__ for each in formatted], formatted[0] is plain, formatted[4] is plain, plain.format(key=t) is plain, \
        [type(part).__name__ for part in (*plain.partition("-"), *plain.rpartition("-"), *plain.partition(" "), plain % {}, plain % (), Name("%%") % ())], \
        plain.partition(Name("c"))[0] is plain, plain % {"a": t} is plain


def as_keys(t):
    table = {Steps(5): t, Name("abc"): t + 1, 2.0: t * 2}
    return table[5], table["abc"], table[Inches(1.0)], Steps(2) in table, [type(key).__name__ for key in table]


def overridden(t):
    a = Odd(3)
    return a + 1, 1 + a, a == 7, t * a, type(a).__name__


@pytest.mark.parametrize("program", [arithmetic, instances, texts, templates, as_keys, overridden])
def test_instances_made_in_compiled_functions(program):
    framejit.reset()
    agree(program, x, fullgraph=False)


@pytest.mark.parametrize("program", [arithmetic, overridden, lambda t: t * Inches(1.5, "l") + len(Name("abc")) + Steps(t.shape[0])])
def test_they_split_no_graph(program):
    framejit.reset()
    framejit.compile(program, backend="eager", fullgraph=True)(x)


def error_of(program, t):
    try:
        return program(t)
    except (TypeError, ValueError, LookupError) as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize("program", [
    lambda t: Steps("no"), lambda t: Steps(None), lambda t: Inches([1]), lambda t: int.__new__(), lambda t: float.__new__(3), lambda t: int.__new__(str, 3),
    lambda t: Steps(1, 2), lambda t: Name(b"x", "no such encoding"), lambda t: {Odd(1): 2},
    lambda t: "abc"[Name("b")], lambda t: Name("abc") + Steps(1), lambda t: Steps(1) + Name("a"), lambda t: Steps(1) in Name("abc"),
    lambda t: "a".center(Name("b")), lambda t: float.__gt__(Steps(1), 2.0), lambda t: Name("a").startswith(Steps(1)), lambda t: Steps(1) / Steps(0),
    lambda t: Name("abc")[Steps(7)],
])  # fmt: skip
def test_errors(program):
    agree(lambda t: error_of(program, t), x, fullgraph=False)


def test_instances_from_outside_are_read_by_guards():
    f = lambda t, steps, inches: t * steps + inches + (steps + 1)
    compiled = framejit.compile(f, backend="eager", fullgraph=True)
    for steps, inches in ((2, 0.0), (3, 1.5), (2, -0.0), (2, math.inf), (2, 0.0)):
        steps, inches = Steps(steps), Inches(inches)
        result, expected = compiled(x, steps, inches), f(x, steps, inches)
        assert torch.equal(result, expected) and torch.equal(result.signbit(), expected.signbit())
    g = framejit.compile(lambda t, steps: (steps, t + 1), backend="eager", fullgraph=True)
    given = Steps(9)
    assert g(x, given)[0] is given and g(x, Steps(10))[0] == 10
    assert framejit.statistics()["internal_errors"] == 0


def test_class_that_changes_is_noticed():
    class Changing(int):
        pass

    f = lambda t, n: t * (Changing(2) + 1) + (n + 1)
    compiled = framejit.compile(f, backend="eager")
    assert torch.equal(compiled(x, Changing(3)), f(x, Changing(3)))
    Changing.__add__ = lambda self, other: 10
    assert torch.equal(compiled(x, Changing(3)), f(x, Changing(3)))
    Changing.real = property(lambda self: 7)
    assert torch.equal(compiled(x, Changing(3)), f(x, Changing(3)))


def test_sizes_inside():
    f = lambda t: t * Steps(t.shape[0]) + Steps(t.shape[0] + 1)
    compiled = framejit.compile(f, backend="eager", dynamic=True, fullgraph=True)
    for size in (3, 4, 5):
        assert torch.equal(compiled(torch.ones(size)), f(torch.ones(size)))


def test_keywords_of_the_subclass():
    def f(t):
        class Named(float):
            def __init__(self, value, name=None):
                self.name = name

        made = Named(2.5, name="half")
        return t * made, made.name, Steps.from_bytes(b"\x03", "big"), Inches.fromhex("0x1.8p0")

    result, expected = framejit.compile(f, backend="eager", fullgraph=True)(x), f(x)
    assert torch.equal(result[0], expected[0]) and result[1:] == expected[1:] and list(map(type, result[2:])) == [Steps, Inches]


def test_class_methods_make_a_new_instance_in_each_call():
    class Counted(int):
        made = 0

        def __init__(self, value):
            Counted.made += 1

    compiled = framejit.compile(lambda: (Counted.from_bytes(b"\x01", "big"), Counted.made), backend="eager")
    (first, count), (second, later) = compiled(), compiled()
    assert first is not second and type(first) is Counted and (count, later) == (1, 2)


def test_methods_of_a_class_that_is_no_base():
    class Mixed(int):
        __eq__, __lt__, __add__ = str.__eq__, float.__lt__, str.__add__
        __hash__ = int.__hash__

    def f():
        number, found = Mixed(3), []
        for operation in (operator.eq, operator.lt, operator.add):
            for other in (number, 3, "3"):
                try:
                    found.append(operation(number, other))
                except TypeError as error:
                    found.append(str(error))
        return found

    assert framejit.compile(f, backend="eager")() == f()


class Packet(bytes):
    def twice(self):
        return Packet(self * 2)


class Counted(bytes):
    def __repr__(self):
        return "counted"

    def __len__(self):
        return 99


OUTER = Packet(b"outer")


def bytes_made_in_the_call(t):
    made, counted, zeros, text = Packet(b"hello"), Counted(b"rr"), Packet(3), Packet("text", "utf-8")
    whole = made.strip(), made[:], made.center(2), made.replace(b"z", b""), made.split(b"z")[0], made.translate(None, b""), made * 1, made + b"", made % ()
    parts = made[1], made[1:3], made.partition(b"l"), list(made), max(made), 101 in made, b"ell" in made, made.find(b"l"), made.hex(), made.decode()
    compared = made == b"hello", b"hello" == made, made != Packet(b"h"), made < b"z", {made: 1}[b"hello"], {b"hello": 2}[made], hash(made) == hash(b"hello")
    shown = repr(made), str(made), f"{made!r:>12}", repr(counted), len(counted), zeros, text, bool(Packet()), Packet.fromhex("6162"), made.__getnewargs__()
    made.label = "kept"
    return t + 1, whole, [type(each) for each in whole], parts, compared, shown, made, made.twice(), type(made.twice()), made.label, OUTER is OUTER


def bytes_in_other_calls(t):
    made = Packet(b"hello")
    parted = made.partition(b"zz"), Packet(b"a").partition(bytearray(b"z")), b"x" + Packet(b"y"), bytes(Packet(b"z")), b"".join([Packet(b"w")])
    return t + 1, parted, [type(each) for each in parted[0]], [type(each) for each in parted[1]], [type(each) for each in parted[2:]]


def bytes_from_outside(t):
    return t + 1, OUTER.upper(), OUTER == b"outer", OUTER[0], len(OUTER), OUTER.twice(), bytes(OUTER), OUTER.partition(b"zz")[0] is OUTER, {OUTER: 1}


def test_bytes_of_a_class_of_their_own():
    agree(bytes_made_in_the_call, x)


@pytest.mark.parametrize("program", [bytes_in_other_calls, bytes_from_outside])
def test_bytes_of_a_class_of_their_own_that_run_natively(program):
    agree(program, x, fullgraph=False)


class Shown(str, enum.Enum):
    """A base of the program's enums, whose members are shown as their values."""

    def __str__(self):
        return self.value


class Mode(Shown):
    MEAN = "mean"
    SUM = "sum"


class Level(int, enum.Enum):
    LOW = 1
    HIGH = 2

    def __repr__(self):
        return f"level {self.value}"


@pytest.mark.parametrize("program", [
    lambda t, mode, level: (t + 1 if mode == Mode.SUM else t - 1, mode == "sum", "mean" == mode, mode != "sum", mode == 3, mode < "n", mode in ("sum", "mean")),
    lambda t, mode, level: (t * level, level + 1, 2 - level, level == 2, level == "sum", level < 2, -level, bool(level), level.bit_length()),
    lambda t, mode, level: (t, mode.strip().upper(), mode + "s", "a" + mode, len(mode), mode[0], "m" in mode, {"sum": 1}.get(mode), mode.startswith("s")),
    lambda t, mode, level: (t, str(mode), f"{mode}", "%s" % mode, repr(level), mode.format() is mode, mode.join("ab"), [1, "sum"].count(mode)),
])  # fmt: skip
def test_members_of_enums_that_show_themselves(program):
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for mode in Mode:
        for level in Level:
            result, expected = compiled(x, mode, level), program(x, mode, level)
            assert torch.equal(result[0], expected[0])
            assert list(map(repr, result[1:])) == list(map(repr, expected[1:]))


def test_a_member_that_is_a_template_without_conversions_is_the_result():
    agree(lambda t, mode: (t, mode % (), mode.partition("?")), x, Mode.SUM, fullgraph=False)
