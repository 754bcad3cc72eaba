"""Operators of numbers, text, and classes of the program's: reflected operands, NotImplemented, conversions, integers of any size."""

from __future__ import annotations

from differential.family import Family

PRELUDE = '''
import enum
import operator


class Evasive(int):
    def __eq__(self, other):
        return NotImplemented

    def __lt__(self, other):
        return NotImplemented

    def __add__(self, other):
        return NotImplemented

    def __rmul__(self, other):
        LOG.append("rmul")
        return "rmul"

    def __mod__(self, other):
        return NotImplemented

    __hash__ = int.__hash__


class Whole(int):
    def __index__(self):
        return 3

    def __bool__(self):
        LOG.append("bool")
        return False

    def __radd__(self, other):
        return "radd", int(self)

    def __hash__(self):
        print("hash")
        return int.__hash__(self)

    def __neg__(self):
        return Whole(int(self) + 1)


class Real(float):
    def __lt__(self, other):
        return NotImplemented

    def __eq__(self, other):
        return opaque(1) == 1

    def __hash__(self):
        return hash(1.5)

    def __rsub__(self, other):
        return "rsub"

    def __round__(self, digits=None):
        return "round", digits


class Text(str):
    def __eq__(self, other):
        return NotImplemented

    def __hash__(self):
        return str.__hash__(self)

    def __add__(self, other):
        return NotImplemented

    def __radd__(self, other):
        return "text"

    def __contains__(self, item):
        LOG.append("contains")
        return True

    def __mod__(self, other):
        return ["mod", other]

    def __len__(self):
        return 7


class Row(list):
    def __radd__(self, other):
        return ["radd"]

    def __eq__(self, other):
        return NotImplemented

    def __lt__(self, other):
        return NotImplemented

    def __iadd__(self, other):
        LOG.append("iadd")
        return self


class Operand:
    def __init__(self, k):
        self.k = k

    def __repr__(self):
        return f"{type(self).__name__}({self.k})"

    def __eq__(self, other):
        if isinstance(other, str):
            return NotImplemented
        LOG.append(("eq", self.k))
        return opaque(self.k) > 1

    def __hash__(self):
        return hash(self.k)

    def __lt__(self, other):
        return NotImplemented if other is None else self.k < 2

    def __ge__(self, other):
        print("ge")
        return self

    def __add__(self, other):
        return NotImplemented if isinstance(other, int) else Operand(self.k + 1)

    def __radd__(self, other):
        if isinstance(other, torch.Tensor):
            return other * self.k
        LOG.append(("radd", self.k))
        return self

    def __iadd__(self, other):
        self.k += 1
        return self

    def __matmul__(self, other):
        return NotImplemented

    def __rmatmul__(self, other):
        return "rmatmul"

    def __mul__(self, other):
        return opaque(self.k)

    def __pow__(self, other, modulus=None):
        return other, modulus

    def __index__(self):
        return opaque(self.k) % 3

    def __bool__(self):
        print("bool")
        return self.k > 1

    def __invert__(self):
        return SCALE * self.k

    def __divmod__(self, other):
        return NotImplemented

    def __rdivmod__(self, other):
        return self.k, other

    def __format__(self, spec):
        return f"<{spec}>"

    def __contains__(self, item):
        return None

    def __getitem__(self, item):
        if isinstance(item, int) and item > 3:
            raise IndexError(item)
        return item


class Special(Operand):
    def __radd__(self, other):
        return "special"

    def __gt__(self, other):
        LOG.append("gt")
        return NotImplemented

    def __rmul__(self, other):
        return other

    def __index__(self):
        return True

    def __float__(self):
        return 0.5

    def __len__(self):
        return self.k


class Bad:
    def __index__(self):
        return "bad"

    def __bool__(self):
        return 1

    def __len__(self):
        return -1

    def __hash__(self):
        return "hash"

    def __float__(self):
        return 1

    def __iter__(self):
        return 3

    def __str__(self):
        return 3

    def __add__(self, other):
        raise KeyError("bad")


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Named(str, enum.Enum):
    AB = "ab"


class Plain:
    def __repr__(self):
        return "Plain()"


def hashed(value):
    return "by its address" if isinstance(value, torch.Tensor) else hash(value)
'''

OPERATOR = "{+;-;*;/;//;%;**;@;<<;>>;&;|;^;==;!=;<;<=;>;>=;in;not in;is;and;or}"
COMPARISON = "{==;!=;<;<=;>;>=}"
UNARY = "{-;+;~;not ;abs;int;float;str;repr;bool;hashed;len;complex;operator.index;round;list;tuple;bin;chr;iter;bytes;sum;range;type;next}"
SAFE = "{3;2;0;-1;1;n}"

FAMILY = Family(
    prelude=PRELUDE,
    variables={"v": "v = 1", "w": "w = True"},
    expressions={
        "v": (
            "n", "v", "w", "v", "w", "True", "1.0", "Evasive({i})", "Whole({i})", "Real(1.5)", "Text('ab')", "Operand({i})", "Special({i})",
            "Bad()", "'ab'", "None", "[1]", "(1, 2)", "Row([1, n])", "1j", "Level.LOW", "Level.HIGH", "Named.AB", "{i}", "-0.0",
            "float('nan')", "10 ** 30", "2 ** 63", "b'a'", "{{1: 2}}", "{{n}}", "Plain()", "range(n)", "x", "o", "NotImplemented", "int",
            "...", "slice(1)", "complex(-0.0, 0.0)", "1e308", "float('inf')", "bytearray(b'a')", "frozenset([1])", "'1'", "' 7 '", "'%s'",
        ),
        "i": (
            "1", "operator.index({Evasive;Whole;Special}({i}))", "int(Whole({i}))", "len([0, 1, 2, 3, 4][Whole({i}):])",
            "len(range(Whole({i})))", "len(Special(n))", "hash(Evasive({i})) % 7", "-Whole({i})", "bool(Whole({i})) + 1",
            "(10 ** 30 + {i}) % 7", "(1 << {i} % 5) % 9", "pow({i}, 3, 7)", "divmod({i}, 3)[1]", "int('12', {8;10;3})",
            "len(str(10 ** 20 * {i}))", "(2 ** 64 - {i}) // 2 ** 62", "(n).bit_length()", "round({i} * 1.5)", "int(-7 // 2 + {i}) % 5",
            "[1, True, 1.0].count({i})", "len({{1: 0, True: 1, 1.0: 2, n: 3}})", "Level(n % 2 + 1)", "Level.HIGH - {i}",
        ),
        "t": (
            "x", "x + Operand({i})", "x * Whole({i})", "x[Special(1)] + y", "~Operand({i})", "sum([x, Operand({i})], y)", "x * Level.HIGH",
            "x * Evasive({i})", "x + Real(1.5)", "operator.add({t}, {t})", "x ** Level.LOW", "({t}).__mul__({i})", "Level.HIGH * {t}",
            "Evasive(2) - {t}",
        ),
        "c": (
            "n > m", "Whole({i})", "Operand({i}) == n", "Level.LOW == {i}", "Evasive({i}) == {i}", "Text('ab') == 'ab'", "n == 1.0",
            "not Operand({i})",
        ),
    },
    breaking={
        "v": ("opaque({i})", "Operand(opaque({i}))", "x.sum().item()", "x.max()", "Whole(opaque({i}))", "Special({bi})"),
        "i": ("operator.index(Operand({i}))", "[3, 2, 1][Operand({i})]", "(Operand({i}) == 1) + 1", "hash(Whole({i})) % 5"),
    },
    statements=(
        "v = {v}", "w = {v}", "LOG.append(tried(lambda: shown(({v}) " + OPERATOR + " ({v}))))",
        "LOG.append(tried(lambda: shown(v " + OPERATOR + " w)))", "LOG.append(tried(lambda: shown(" + UNARY + "({v}))))",
        "LOG.append(tried(lambda: shown(" + UNARY + "(v))))", "LOG.append(tried(lambda: shown(v " + OPERATOR + " {v})))",
        "LOG.append(tried(lambda: shown({v} " + COMPARISON + " {v} " + COMPARISON + " {v})))",
        "LOG.append(tried(lambda: shown(divmod({v}, {v}))))", "LOG.append(tried(lambda: shown(pow({v}, " + SAFE + ", {v}))))",
        "LOG.append(tried(lambda: shown({max;min}({v}, {v}))))", "LOG.append(tried(lambda: shown(sorted([{v}, {v}, v]))))",
        "LOG.append(tried(lambda: shown([{v}, {v}].index({v}))))", "LOG.append(tried(lambda: shown({{{v}: 1, {v}: 2}})))",
        "LOG.append(tried(lambda: shown(len({{{v}, {v}, v}}))))", "LOG.append(tried(lambda: shown({v} in ({v}, v, w))))",
        "LOG.append(tried(lambda: shown([0, 1, 2, 3, 4][{v}])))", "LOG.append(tried(lambda: shown('abcde'[{v}:{v}])))",
        "LOG.append(tried(lambda: shown('ab' * {v})))", "LOG.append(tried(lambda: shown(sum([{v}, {v}], {v}))))",
        "LOG.append(tried(lambda: shown((v, {v}) " + COMPARISON + " (w, {v}))))",
        "LOG.append(tried(lambda: shown([v, {v}] " + COMPARISON + " [v, w])))",
        "LOG.append(tried(lambda: shown(operator.{add;concat;contains;countOf;indexOf;iadd;imul;is_;truth;not_}(v, {v}))))",
        "LOG.append(tried(lambda: shown({v;w}.{__eq__;__add__;__lt__;__radd__;__mul__;__rmul__;__sub__;__rsub__;__and__;__mod__;"
            "__getitem__;__contains__}({v}))))",
        "LOG.append(tried(lambda: shown({int;float;str;bool;list;complex;Evasive;Whole;Real;Text;Level;Named;bytes}({v}))))",
        "LOG.append(tried(lambda: shown(int({v}, {v}))))",
        "LOG.append(tried(lambda: shown(isinstance({v}, {int;str;float;Operand;(int, str);int | None})))) ",
        "LOG.append(tried(lambda: shown(round({v}, {v}))))", "LOG.append(tried(str, 10 ** {10;4299;4300;5000}) == 0)",
        "LOG.append(len(str(tried(int, '1' * {10;4300;4301}))))", "LOG.append(tried(len, range(2 ** {62;63;64})))",
        "LOG.append(tried(lambda: range(2 ** 64)[{-1;n;2 ** 64;2 ** 63}]))", "LOG.append(tried(lambda: 1 << {v}))",
        "LOG.append(tried(lambda: f'{{10 ** {n;4299;4300}}}')[-5:])", "LOG.append(hash({2 ** 61 - 1;-1;2 ** 61;1.5;-2;True;n}))",
        "LOG.append(tried(lambda: (2 ** 70).{bit_length;to_bytes;bit_count;conjugate}({;8;9, 'big'})))",
        "LOG.append(tried(lambda: shown(2 ** 70 {*;/;%;//;-} {v})))", "LOG.append(tried(lambda: shown(float(2 ** {1023;1024;n}))))",
        "LOG.append(2 ** 62 * n)", "LOG.append((v is w, v is v, {v} is None))", "LOG.append(tried(lambda: shown(x {+;*;-;==;/} {v})[0]))",
        "LOG.append(tried(lambda: shown({v} {+;*;-;<;@} x)[0]))",
    ),
    breaking_statements=(
        "v = {bv}", "w = {bv}", "LOG.append(tried(lambda: shown({bv} " + OPERATOR + " {v})))",
        "LOG.append(tried(lambda: shown({v} " + OPERATOR + " {bv})))", "print(tried(lambda: shown(v " + OPERATOR + " {bv})))",
        "LOG.append(tried(lambda: shown(" + UNARY + "({bv}))))", "print(tried(lambda: shown(v " + COMPARISON + " w)))",
    ),
    blocks=(
        "try:\n    v {+=;-=;*=;|=;%=;//=;@=;**=} {v}\n    BLOCK\nexcept {TypeError;(TypeError, ValueError);Exception} as error:\n"
            "    LOG.append(str(error))\n    BLOCK",
        "if ({v}) " + COMPARISON + " ({v}):\n    BLOCK\nelse:\n    BLOCK", "if {v}:\n    BLOCK", "while {v}:\n    BLOCK\n    break",
        "match {v}:\n    case {1;True;1.0;'ab';None;Level.LOW}:\n        BLOCK\n    case {int();str();Operand(k=1);[1, *_]}:\n"
            "        BLOCK\n    case _:\n        BLOCK",
    ),
    handlers=("TypeError", "(TypeError, ZeroDivisionError)", "ArithmeticError", "OverflowError"),
    seen=("LOG.append(str(error))",),
)  # fmt: skip
