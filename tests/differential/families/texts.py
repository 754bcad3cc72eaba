"""Text: formats and conversions, classes with `__format__` and `__str__`, `%`, `format_map`, methods of str and bytes, numbers as text."""

from __future__ import annotations

from differential.family import Family

PRELUDE = '''
import string


class Formatted:
    def __init__(self, k):
        self.k = k

    def __format__(self, spec):
        LOG.append(("format", spec))
        return f"<{spec or self.k}>"

    def __str__(self):
        return f"str {opaque(self.k)}"

    def __repr__(self):
        return f"Formatted({self.k})"

    def __getitem__(self, key):
        return key

    def __ascii__(self):
        return "never"


class Word(str):
    def __str__(self):
        print("str of a word")
        return "word"

    def __format__(self, spec):
        return super().__format__(spec) + "!"

    def __getitem__(self, index):
        return Word(super().__getitem__(index))


class NoText:
    def __str__(self):
        return 3

    def __repr__(self):
        return None

    def __format__(self, spec):
        return 1


class Number(int):
    def __str__(self):
        return "number"

    __repr__ = object.__repr__ if False else lambda self: "N"


class Mapping:
    def __getitem__(self, key):
        if key == "gone":
            raise KeyError(key)
        return f"[{key}]"


class Defaults(dict):
    def __missing__(self, key):
        return "{" + str(key) + "}"


class Fields(string.Formatter):
    def get_value(self, key, args, kwargs):
        return kwargs.get(key, opaque(1)) if isinstance(key, str) else super().get_value(key, args, kwargs)
'''

SPEC = "{;>6;<6;^7;05;+;x;#x;b;.2f;.3;e;g;%;,;_;s;d;n;c;*^9;=+5;06.1f;q;.;10.4s;-8;!}"

FAMILY = Family(
    prelude=PRELUDE,
    variables={"w": "w = 'a b'"},
    expressions={
        "w": (
            "w", "'a,b'", "'{{}} {{}}'", "''", "f'{{n}}'", "str({i})", "w.upper()", "'ab' * 2", "Word('wo rd')", "' '.join(['a', w])",
            "f'{{w!r}}'", "repr(w)", "'%s' % n", "chr(97 + {i} % 5)", "w[::-1]", "w + 'x'", "'é\\n'", "format({i}, '03')", "str(o.n)",
            "w[:2]", "'1'", "'{{a}}'", "'%(a)s'", "type(o).__name__", "ascii('é')", "str(b'a', 'ascii')", "'{{0[a]}} {{1.n}}'", "'$a $b'",
        ),
        "v": (
            "n", "w", "{i}", "1.5", "-0.0", "1e20", "True", "None", "Formatted({i})", "Word('ab')", "NoText()", "Number({i})", "[w, n]",
            "(w,)", "(n, m)", "{{'a': n}}", "Mapping()", "Defaults(b=n)", "1j", "10 ** 20", "b'ab'", "float('nan')", "x.shape", "{{w}}",
            "o.n", "torch.float32", "range(n)", "'é'", "()", "x.dtype", "int", "slice(n)", "...", "float('inf')", "-{i}",
            "complex(n, -0.0)", "0.1 + 0.2", "1 / 3", "123456789.0", "bytearray(b'q')", "x.tolist()", "frozenset([n])", "torch.Size([n])",
            "len(w)",
        ),
        "i": (
            "1", "len({w})", "(lambda each: len(f'{{each}}'))({i})", "w.count('a')", "w.find('b') + 2", "len(w.split())",
            "int('0' + str({i}))", "ord('a') % 7", "len(str({v}) if not isinstance({v}, NoText) else '')", "hash(w) == hash(w)",
            "len(format({i}, '>5'))",
        ),
        "t": (
            "x", "x * len({w})", "({{'a': x, 'b': y}}[w[0] if w[:1] in ('a', 'b') else 'a'])", "getattr(torch, 'r' + 'elu')({t})",
            "x.__getattribute__('a' + 'bs')()", "x + int('1{;0;_0}')",
        ),
        "c": (
            "n > m", "{w} == {w}", "{w} in {w}", "w.startswith({w})", "{w} < {w}", "w.isalpha()", "not {w}", "w is {w}",
            "w.endswith(('b', {w}))",
        ),
    },
    breaking={
        "w": ("str(opaque({i}))", "(lambda each: f'{{opaque(each)}} {{n}}')({i})", "str(Formatted(n))", "repr(x.sum().item())"),
        "v": ("opaque({i})", "x.sum().item()", "Formatted({bi})", "x[0]"),
        "i": ("(lambda each: len(f'{{each!s}}'))(Formatted({i}))", "len(str(x))"),
    },
    statements=(
        "w = {w}", "LOG.append(tried(lambda: format({v}, '" + SPEC + "')))",
        "LOG.append(tried(lambda each: f'{{each:" + SPEC + "}}', {v}))", "LOG.append(tried(lambda each: f'{{each!{r;s;a}}}', {v}))",
        "LOG.append(tried(lambda each: f'{{each!{r;s}:{>9;^9;}}}', {v}))",
        "LOG.append(tried(lambda: f'{{n:{{m}}}} {{w:>{{n}}}} {{1.5:{{n}}.{{m}}f}}'))",
        "LOG.append(tried(lambda: {w}.format({v}, {v}, a={v})))",
        "LOG.append(tried(lambda: {w}.format_map({Mapping();Defaults(q=n);{{'a': n}};d;n})))",
        "LOG.append(tried(lambda: '{{a}} {{gone}} {{b[0]}} {{c.q}}'.format_map({Mapping();Defaults(a=n);{{'a': n}}})))",
        "LOG.append(tried(lambda: {w} % {v}))",
        "LOG.append(tried(lambda: '{%s;%d;%r;%x;%5.2f;%c;%%;%(a)s;%s %s;%*d;%i;%e;%g;%q;%;%a;%+d;%-5s|;%05d;%o}' % {v}))",
        "LOG.append(tried(lambda: {str;repr;ascii}({v})))",
        "LOG.append(tried(lambda: shown({w}.{split;rsplit;partition;find;index;count;strip;replace;join;startswith;removeprefix;"
            "center;zfill;encode;translate;rpartition;ljust;expandtabs;endswith;rindex}({w}))))",
        "LOG.append(tried(lambda: shown({w}.{split;rsplit;upper;title;swapcase;isdigit;isspace;splitlines;strip;casefold;capitalize;"
            "encode;isidentifier;isnumeric;lower}())))",
        "LOG.append(tried(lambda: {w}.{split;replace;center;ljust;find;join;zfill;startswith;count}({v}{;, n;, {w}})))",
        "LOG.append(tried(lambda: w[{n;-1;9;:2;n:;::-1;1.5;None}]))", "LOG.append(tried(lambda: {w}.join({v})))",
        "LOG.append(tried(lambda: shown({int;float;complex;bytes;list;tuple;set;bool;ord;len}({w}))))",
        "LOG.append(tried(lambda: {w} {+;*;==;<;in;%} {v}))",
        "LOG.append(tried(lambda: 'abc'.translate({ {{97: 'q', 98: None}};{{97: n}};Defaults()})))",
        "LOG.append(tried(lambda: str.maketrans({'ab', 'cd';'ab', 'c';w, w;n})))",
        "LOG.append(tried(lambda: string.Template({w}).{substitute;safe_substitute}(a=n)))",
        "LOG.append(tried(lambda: Fields().format('{{0}} {{a}} {{q}}', {v}, a=n)))",
        "LOG.append(tried(lambda: {w}.encode({'utf8';'ascii';'ascii', 'replace';'q'})))",
        "LOG.append(tried(lambda: b'%s %d' % (b'a', {i})))",
        "LOG.append(tried(lambda: b'ab'.{decode;hex;split;find;join;replace}({;b'a';n;'a'})))",
        "LOG.append(tried(lambda: shown(({i}).__format__('" + SPEC + "'))))",
        "LOG.append(tried(lambda: (1.5 * {i}).{hex;is_integer;as_integer_ratio;__repr__;__str__}()))",
        "LOG.append(tried(lambda: ({i}).to_bytes({1;2;n}, {'big';'little';'q'})))", "LOG.append(tried(lambda: int({w}, {n;16;2;0;36;1})))",
        "LOG.append(tried(lambda: float({w})))", "LOG.append(f'{{n=}} {{w=!s}} {{m = :>4}}')",
        "LOG.append(tried(lambda: shown({bin;hex;oct;chr}({v}))))",
        "LOG.append(tried(lambda: w.{format;join;split;splitlines;expandtabs}(*[{v}], **{{{w}: n}})))",
        "LOG.append(tried(lambda: str({v}, {v})))", "LOG.append(tried(lambda: str(object=n)))",
        "LOG.append(tried(lambda: sorted([w, 'a', 'B', {w}], key=str.lower)))", "LOG.append(tried(lambda: max({w}, {w})))", "w += {w}",
        "setattr(o, 'q' + w[:1], n)",
    ),
    breaking_statements=(
        "w = {bw}", "print(tried(lambda a, b: f'{{a:" + SPEC + "}} {{b!r}}', {v}, {bv}))", "print(f'{{w:>5}}', {i}, sep=w)",
        "LOG.append(tried(lambda: {w}.format({bv}, {v}, a=n)))", "LOG.append(tried(lambda: '%s %r' % ({bv}, {v})))",
        "LOG.append(tried(lambda: format({bv}, '" + SPEC + "')))", "LOG.append((opaque(1), tried(lambda: str({v}))))",
        "print({w}, end={w})", "LOG.append(f'{{x.sum():.2f}} {{x[0].item():{{n}}}}')", "LOG.append(str(x * {i}))",
    ),
    blocks=(
        "class NEW({str;Formatted;Word;object}):\n    def __{str;repr;format}__(self, *spec):\n        nonlocal n, x\n        BLOCK\n"
            "        return {'new';w;str(n);n;super().__repr__()[:3];spec[0]}\n"
            "LOG.append(tried(lambda: {f'{{NEW(n):>4}}';str(NEW(n));repr(NEW(n));'%s %r' % (NEW(n), 1);'{{}}'.format(NEW(n))}))",
        "match {w}:\n    case {'a';'a b';'1' | 'ab';str(q)}:\n        BLOCK\n    case _:\n        BLOCK",
        "for q in {w}:\n    BLOCK\n    break", "if {w}:\n    BLOCK",
    ),
    handlers=("TypeError", "(ValueError, TypeError)"),
)  # fmt: skip
