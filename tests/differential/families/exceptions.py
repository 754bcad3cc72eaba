"""Exceptions: their attributes, causes and contexts, classes of their own, groups, names that are missing, what handlers and `finally` blocks do."""

from __future__ import annotations

from differential.family import Family

PRELUDE = '''
import traceback


class Coded(ValueError):
    code = 3

    def __init__(self, message, code=None):
        super().__init__(message)
        if code is not None:
            self.code = code

    def __str__(self):
        LOG.append("str")
        return f"{self.args[0]}/{self.code}"


class Rooted(KeyError):
    def __reduce__(self):
        return type(self), ()

    @property
    def first(self):
        return self.args[0]


class WithNew(Exception):
    def __new__(cls, *args, extra=0):
        self = super().__new__(cls, *args)
        self.extra = opaque(extra)
        return self

    def __init__(self, *args, **kwargs):
        LOG.append(("init", args))


class Slots(LookupError):
    __slots__ = ("where",)


class Group(ExceptionGroup):
    def derive(self, found):
        LOG.append(("derive", len(found)))
        return Group(self.message, found)


class Selective(type):
    def __subclasscheck__(cls, other):
        return True


class Never(Exception, metaclass=Selective):
    pass


def refuse_twice(k):
    try:
        refuse(k)
    except ValueError as error:
        raise KeyError("twice") from error


def in_finally(k):
    try:
        return refuse(k)
    finally:
        LOG.append(repr(sys.exception()))
        if k == 3:
            raise RuntimeError("instead")


def swallowed(k):
    for i in range(2):
        try:
            refuse(k)
        finally:
            if k > 2:
                continue
            if k == 1:
                break
    return i


def chained(k):
    try:
        try:
            raise Coded("inner", k)
        except Coded:
            raise LookupError("middle")
    except LookupError as error:
        error.add_note("noted")
        raise TypeError("outer") from None


def bare(k):
    raise


def noted(error):
    found = []
    while error is not None and len(found) < 5:
        found.append((type(error).__name__, str(error), error.__suppress_context__, getattr(error, "__notes__", None)))
        error = error.__cause__ or error.__context__
    return found


def lines(error):
    found, entry = [], error.__traceback__
    while entry is not None:
        found.append((entry.tb_frame.f_code.co_name.partition(" ")[0], entry.tb_lineno))
        entry = entry.tb_next
    return found


ERROR = ValueError("kept")
'''

FAMILY = Family(
    prelude=PRELUDE,
    variables={"f": "f = None"},
    expressions={
        "e": (
            "ValueError(n)", "Coded('c', {i})", "Rooted({i})", "Rooted", "WithNew({i}, extra=m)", "Slots('s')", "ERROR",
            "OSError(2, 'missing', 'file')", "StopIteration({i})", "UnicodeDecodeError('u8', b'a', 0, 1, 'why')",
            "ImportError('i', name='mod')", "AttributeError('a', name='n', obj=o)", "NameError('n', name='q')",
            "ExceptionGroup('g', [ValueError({i}), Coded('d')])", "Group('h', [KeyError(n), ERROR])", "SyntaxError('s', ('f', 1, 2, 't'))",
            "SystemError", "AssertionError", "Never(n)", "TypeError()", "ValueError", "NotImplementedError('x', {i})",
            "(ValueError(n) if n else KeyError)", "3", "int", "None", "ValueError(x)", "KeyError(o.n)", "Coded", "f",
        ),
        "q": (
            "opaque(undefined)", "undefined", "o.missing", "x.missing", "n.missing", "None.q", "d['none']", "xs[99]", "[][0]", "n / 0",
            "n % 0", "int('q')", "{{}}[n]", "(1).q", "torch.missing", "len(3)", "x + 'a'", "(lambda: unset)()", "next(iter(()))", "n()",
            "o(1)", "[*n]", "dict(n=1)[n]", "refuse(1)", "refuse(3)", "chained(n)", "refuse_twice({i})", "in_finally({i})",
            "swallowed({i})", "bare(n)", "Thing.q", "sys.q", "'a' + n", "'%d' % 'a'", "int(None)", "x @ torch.ones(2)", "x[7]",
            "float('a')", "{{[]}}", "next(o)", "iter(n)", "len(o)", "o[0]", "-o", "o < 1", "super().q", "getattr(o, n)", "open('/none')",
            "b'\\xff'.decode()", "chr(-1)", "[].pop()", "{{}}.popitem()", "().index(n)", "''.index('a')", "max(())", "import_module",
            "x.view(7)", "hash([])", "bytes([300])", "range(1, 2, 0)",
            "zip(xs, [n], strict=1).__next__() and list(zip([1], [], strict=True))", "int('1' * 5000)", "1 << -1", "2 ** 10000 * 1.0",
            "divmod(n, 0)", "complex('q')", "Thing(1)", "Thing(1, 2, 3)", "Thing(1, n=2, q=3)", "opaque(1, 2)", "recurse()", "len(xs, n)",
        ),
        "i": (
            "1", "len(noted({e}) if isinstance({e}, BaseException) else '')", "len(getattr(f, 'args', ()))", "swallowed({i})",
            "len(str(tried(lambda: {q})))", "tried(lambda: {q}) and {i}", "getattr(f, 'code', {i}) or n",
        ),
        "t": ("x", "[{t}, tried(lambda: {q})][0]", "(x if f is None else {t})"),
        "c": (
            "n > m", "f is None", "f is sys.exception()", "isinstance(f, (ValueError, TypeError))", "sys.exc_info()[0] is ValueError",
            "f is ERROR",
        ),
    },
    breaking={
        "q": ("refuse(opaque(1))", "opaque(n) / 0", "x.sum().item().q", "[opaque(1)][9]", "d[opaque({i})]", "refuse({bi})"),
        "i": ("traceback.format_exc().count('Error:')", "refuse({bi})", "swallowed({bi})"),
    },
    statements=(
        "f = {e}", "f = None", "{q}", "{q}", "n = {q}", "LOG.append(tried(lambda: {q}))", "LOG.append(tried(lambda: shown({e})))",
        "LOG.append(tried(lambda: noted(f)))", "f.q = n", "f.__context__ = {f;None;ValueError(n)}", "f.__cause__ = {f;None;KeyError(n)}",
        "f.__suppress_context__ = {True;False;1}", "f = f.with_traceback(None)", "LOG.append(tried(lambda: f.args))", "f.args = (n,)",
        "LOG.append(tried(lambda: (f.name, f.obj is o)))",
        "LOG.append(tried(lambda: f.{code;first;extra;errno;filename;value;start;msg;lineno;exceptions;message;where;__notes__;name}))",
        "LOG.append(tried(lambda: lines(f)))", "LOG.append(repr(sys.exception()))", "LOG.append(noted(sys.exception()))",
        "f = sys.exception()", "f = sys.exc_info()[1]", "LOG.append([f is sys.exception(), sys.exc_info()[2] is None])", "ERROR.seen = {i}",
        "LOG.append(traceback.format_exception_only({e}))",
        "LOG.append(tried(lambda: shown(f.{split;subgroup}({ValueError;(ValueError, KeyError);lambda e: n > 1;3}))))",
        "LOG.append(tried(lambda: str(f)))", "LOG.append(tried(lambda: shown(ExceptionGroup({'g', [];'g', [n];n, [ERROR];'g', [ERROR]}))))",
        "LOG.append(tried(lambda: f == f))", "del f", "LOG.append(tried(lambda: f.add_note({n;'note'})))",
        "LOG.append(tried(lambda: type(f)(*f.args).args))", "LOG.append(sys.exc_info() == (None, None, None))",
        "LOG.append(tried(lambda: hash(f) == hash(f)))",
    ),
    breaking_statements=(
        "f = Coded('b', {bi})", "LOG.append(tried(lambda: {bq}))", "{bq}", "LOG.append((opaque(1), repr(f), noted(sys.exception())))",
        "print(repr(sys.exception()), opaque(1))", "LOG.append(len(traceback.format_exc().splitlines()) > 2)", "f = WithNew(n, extra={bi})",
        "raise_late = {e}", "print(tried(lambda: noted(f)))", "LOG.append((opaque(n), tried(lambda: lines(f))))",
        "print(f is sys.exception())",
    ),
    blocks=(
        "try:\n    BLOCK\n    {q}\nexcept {Exception;(TypeError, AttributeError, NameError, ValueError);LookupError} as error:\n"
            "    f = error\n    LOG.append((error.args, getattr(error, 'name', 0), getattr(error, 'obj', 0) is {o;n;x}))\n    BLOCK",
        "try:\n    raise {e}\nexcept {Exception;(ValueError, KeyError);Coded;Never;Group} as error:\n    f = error\n    BLOCK\n"
            "    {raise;raise error;raise KeyError(n);raise {e} from error;f = None;raise f;error = None;del error;pass}",
        "try:\n    try:\n        {q}\n    except {Exception;LookupError;TypeError}:\n        BLOCK\n        {bq}\n    finally:\n"
            "        LOG.append(noted(sys.exception()))\n        BLOCK\nexcept Exception as error:\n    LOG.append(noted(error))\n"
            "    BLOCK",
        "try:\n    raise {e} from {e}\nexcept Exception as error:\n    LOG.append(noted(error))\n    BLOCK",
        "try:\n    raise ExceptionGroup('g', [ValueError(n), Coded('x'), KeyError(m), ExceptionGroup('h', [TypeError(n), ERROR])])\n"
            "except* {ValueError;KeyError;(ValueError, TypeError);Coded} as error:\n    f = error\n    LOG.append(noted(error))\n"
            "    n = tried(lambda: {q}) and {i}\n" "except* {TypeError;Exception;LookupError} as error:\n"
            "    LOG.append((repr(error), repr(error.__context__), repr(sys.exception())))\n"
            "    {raise;raise KeyError(n);raise {e};x = {bt};pass;n = 1 / 0}",
        "try:\n    raise {e}\nexcept* {Exception;ValueError;Never;LookupError} as error:\n    f = error.exceptions[0]\n"
            "    LOG.append(noted(error))\n    x = {bt}\nelse:\n    BLOCK\nfinally:\n    BLOCK",
        "for i in range(2):\n    try:\n        {q}\n    except {Exception;ValueError}:\n        BLOCK\n"
            "        {break;continue;raise;pass}\n    else:\n        BLOCK\n    finally:\n        LOG.append(i)",
        "def NEW(k):\n    nonlocal n, x\n    try:\n        BLOCK\n        return {q}\n    finally:\n        BLOCK\n"
            "        {return k;n = k;raise KeyError(k)}\nLOG.append(tried(NEW, {i}))",
        "try:\n    {q}\nexcept {KeyError;3;(ValueError, 3);None;int;f;();[ValueError];Thing}:\n    BLOCK",
    ),
    managers=(
        "Manager(5, hides=Exception)", "Manager(6, False, (LookupError, TypeError))", "contextlib.suppress(Exception)",
        "contextlib.suppress(TypeError, ValueError)", "contextlib.suppress({TypeError;KeyError;AttributeError})",
    ),
    handlers=(
        "Exception", "(AttributeError, TypeError)", "NameError", "Coded", "ArithmeticError", "Never", "ExceptionGroup", "BaseException",
        "UnboundLocalError",
    ),
    seen=(
        "LOG.append(noted(error))", "LOG.append((getattr(error, 'name', None), str(error)))", "f = error",
        "LOG.append(getattr(error, 'obj', n) is o)", "error.__context__ = None", "error.args = (n,)", "error.q = x", "raise error",
        "raise Coded('s', {i}) from error", "LOG.append(lines(error))",
        "LOG.append((error.__traceback__.tb_lineno, error.__traceback__.tb_next is None))",
        "print(traceback.format_exc().splitlines()[-1])", "error = None", "del error",
        "LOG.append(error.__traceback__ is sys.exc_info()[2])",
    ),
)  # fmt: skip
