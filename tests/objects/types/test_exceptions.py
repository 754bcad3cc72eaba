"""Exceptions made, raised, caught and looked at in compiled code: fields that C sets, constructors, except*, tracebacks. PYTEST_DONT_REWRITE."""

from __future__ import annotations

import operator
import sys
import warnings
from typing import Any

import pytest
import torch
from handled import outcomes, portrait

import framejit

programs: list[Any] = []


def program(function: Any) -> Any:
    programs.append(function)
    return function


class Plain:
    pass


class Hooked:
    def __getattr__(self, name):
        raise AttributeError("mine")

    @property
    def broken(self):
        raise AttributeError


@program
def names_and_objects_of_attribute_errors(t):
    plain, hooked, found = Plain(), Hooked(), []
    for owner, name in ((plain, "a"), (Plain, "a"), (sys, "a"), (5, "a"), (t, "nothing"), (hooked, "a"), (hooked, "broken"), ([], "a")):
        try:
            getattr(owner, name)
        except AttributeError as error:
            found.append((error.name, error.obj is owner, error.args))
    try:
        plain.a
    except AttributeError as error:
        found.append((error.name, error.obj is plain))
    try:
        plain.a()
    except AttributeError as error:
        found.append((error.name, error.obj is plain))
    try:
        object.__getattribute__(plain, "a")
    except AttributeError as error:
        found.append((error.name, error.obj is plain))
    try:
        del plain.a
    except AttributeError as error:
        found.append((error.name, error.obj is plain))
    try:
        (5).a = 1
    except AttributeError as error:
        found.append((error.name, error.obj))
    for owner in (5, plain, names_of_name_errors, sys):
        try:
            delattr(owner, "nothing")
        except AttributeError as error:
            found.append((error.name, error.obj is owner, str(error)))
    return t + 1, found


@program
def names_of_name_errors(t):
    found = []
    try:
        not_defined_anywhere
    except NameError as error:
        found.append((error.name, error.args))
    try:
        later  # noqa: F821
        later = 1
    except UnboundLocalError as error:
        found.append((error.name, error.args))

    def free():
        return kept  # noqa: F821

    kept = 1
    del kept
    try:
        free()
    except NameError as error:
        found.append((type(error), error.name, error.args))
    return t + 1, found


@program
def a_caught_one_is_returned(t):
    try:
        Plain().gone
    except AttributeError as error:
        kept = error
    print("break")
    return t + 1, kept.name, type(kept.obj), kept


@program
def fields(t):
    made = [
        AttributeError("m", name="a", obj=5), AttributeError("m"), NameError("m", name="q"), ImportError("m", name="q", path="p"), ImportError(),
        ModuleNotFoundError("m", name="q"), StopIteration(4, 5), StopIteration(), SystemExit(3), SystemExit(), SystemExit(1, 2), KeyError("a"),
        KeyError("a", "b"), UnicodeDecodeError("utf8", b"abc", 1, 2, "bad"), UnicodeEncodeError("utf8", "abc", 1, 2, "bad"),
        OSError(2, "no such", "file"), OSError(2, "no such"), OSError("x"), FileNotFoundError("x"), BlockingIOError(11, "again"),
        OSError(2, "a", "b", None, "c"), SyntaxError("m", ("f", 1, 2, "text", 1, 5)), SyntaxError("m"), ExceptionGroup("g", [ValueError(1)]),
        BaseExceptionGroup("g", [ValueError(1)]), BaseExceptionGroup("g", (KeyboardInterrupt(),)),
    ]  # fmt: skip
    names = ("name", "obj", "path", "msg", "value", "code", "encoding", "object", "start", "end", "reason", "errno", "strerror", "filename",
             "filename2", "lineno", "offset", "text", "end_lineno", "message", "exceptions")  # fmt: skip
    found = [[repr(getattr(error, name, "none")) for name in names] for error in made]
    return t + 1, found, [(type(error), str(error), repr(error), error.args) for error in made], made


@program
def fields_that_change(t):
    found = []
    error = UnicodeEncodeError("utf8", "xxxxx", 1, 5, "foo")
    found.append(str(error))
    error.end, error.reason = 2, 0x345
    found.append(str(error))
    found.append(str(UnicodeEncodeError.__new__(UnicodeEncodeError)))
    for cls, keywords in ((ImportError, {"path": "z"}), (AttributeError, {"obj": 3}), (NameError, {})):
        again = cls("t", name="n")
        again.__init__("u", **keywords)
        found.append((again.name, getattr(again, "path", 0), getattr(again, "obj", 0), again.args))
    gone = AttributeError("m", name="k")
    del gone.name
    stopped, left, file = StopIteration(3), SystemExit(4), OSError(2, "a", "f")
    stopped.value, left.code, file.errno, file.filename = 9, 7, 5, "q"
    return t + 1, found, error, gone.name, stopped.value, stopped, left.code, left.args, str(file), file.errno, file


@program
def constructors_that_refuse(t):
    found = []
    for cls, args, kwargs in (
        (ValueError, (), {"a": 1}), (UnicodeDecodeError, (1,), {}), (AttributeError, (1,), {"foo": 2}), (ImportError, (), {"bad": 1}),
        (StopIteration, (), {"value": 1}), (ExceptionGroup, (1, 2), {}), (ExceptionGroup, ("m", []), {}), (ExceptionGroup, ("m", [1]), {}),
        (ExceptionGroup, ("m", [KeyboardInterrupt()]), {}), (ExceptionGroup, ("m", [ValueError]), {}), (SyntaxError, ("m", 1), {}),
        (OSError, (1, 2, 3, 4, 5, 6), {}), (OSError, (1,), {"z": 1}), (BaseException, (1,), {"z": 1}), (KeyError, (), {"a": 2}),
    ):  # fmt: skip
        try:
            found.append(repr(cls(*args, **kwargs)))
        except Exception as error:
            found.append((type(error), error.args))
    return t + 1, found


class Counted(Exception):
    def __new__(cls, *args, **kwargs):
        made = super().__new__(cls, *args, **kwargs)
        made.count = len(args)
        return made

    def __init__(self, a, b=2, *, c=3):
        super().__init__(a)
        self.b, self.c = b, c

    def __str__(self):
        return f"Counted<{self.b},{self.c},{self.args}>"


class Silent(ValueError):
    def __init__(self, a):
        self.a = a


class Shown(KeyError):
    def __repr__(self):
        return "shown"


class Named(AttributeError):
    name = "of the class"

    def __init__(self, *args):
        super().__init__(*args, obj=7)


class File(OSError):
    def __init__(self, code, extra):
        super().__init__(code, "text", extra)


class NoException(Exception):
    def __new__(cls):
        return 5


@program
def classes_of_the_program(t):
    found, made = [], [Counted(1), Counted(1, 5, c=7), Silent(4), Shown(5), Named("q"), File(2, "name")]
    for error in made:
        try:
            raise error
        except Exception as raised:
            found.append((str(raised), repr(raised), raised.args, dict(raised.__dict__), f"{raised}", getattr(raised, "name", None)))
    return t + 1, found, made


@program
def what_cannot_be_raised(t):
    found = []
    for raised, cause in ((Silent, None), (Plain, None), (Plain(), None), (NoException, None), (ValueError, 5), (ValueError, Plain)):
        try:
            if cause is None:
                raise raised
            raise raised from cause
        except TypeError as error:
            found.append((error.args, portrait(error)))
    return t + 1, found


@program
def fields_that_are_set(t):
    found, error = [], ValueError()
    for name in ("__traceback__", "__cause__", "__context__", "__suppress_context__", "args"):
        for value in (5, None, Plain(), False, True, "delete"):
            try:
                if value == "delete":
                    delattr(error, name)
                else:
                    setattr(error, name, value)
            except TypeError as refused:
                found.append(refused.args)
            else:
                found.append(repr(getattr(error, name)))
    error.args = [1, 2]
    try:
        error.with_traceback(5)
    except TypeError as refused:
        found.append(refused.args)
    return t + 1, found, error.args, portrait(error)


@program
def what_cannot_be_caught(t):
    found = []
    for kinds in (42, (ValueError, 42), (42, ValueError), (KeyError, (ValueError, OSError)), (ValueError, int), Plain, ()):
        try:
            try:
                raise ValueError(1)
            except kinds:
                found.append("caught")
        except (TypeError, ValueError) as error:
            found.append(portrait(error))
    return t + 1, found


class Contrary(type):
    def __subclasscheck__(cls, other):
        raise LookupError("asked for subclasses")

    def __instancecheck__(cls, value):
        raise LookupError("asked for instances")


class Denying(type):
    def __subclasscheck__(cls, other):
        return False

    __instancecheck__ = __subclasscheck__


class ContraryError(Exception, metaclass=Contrary):
    pass


class ContraryKeyError(KeyError, metaclass=Contrary):
    pass


class Denied(metaclass=Denying):
    def __init__(self):
        self.made = True


@program
def handlers_ask_no_metaclass(t):
    found = []
    for kinds in (ContraryError, (ContraryError, KeyError), ContraryKeyError):
        try:
            {}["a"]
        except kinds:
            found.append(kinds)
        except KeyError as error:
            found.append(portrait(error))
    return t + 1, found, Denied().made, isinstance(Denied(), Denied)


def waits():
    yield


@program
def raising_asks_the_metaclass(t):
    found, one = [], ContraryError(1)
    for action in (lambda: raises(ContraryError), lambda: raises(one), lambda: raises(ContraryKeyError(2)), lambda: waits().throw(ContraryError)):
        try:
            action()
        except Exception as error:
            found.append(portrait(error))
    return t + 1, found


def raises(what):
    raise what


@program
def notes(t):
    found, error = [], ValueError(1)
    for note in ("a", 5, "b"):
        try:
            error.add_note(note)
        except TypeError as refused:
            found.append(refused.args)
    found.append(list(error.__notes__))
    error.__notes__ = 5
    try:
        error.add_note("c")
    except TypeError as refused:
        found.append(refused.args)
    return t + 1, found


@program
def contexts_in_a_circle(t):
    own, first, second = ValueError(1), KeyError(2), TypeError(3)
    own.__context__ = own
    first.__context__, second.__context__ = second, first
    found = []
    for circle in (own, first):
        try:
            try:
                raise circle
            except Exception:
                raise IndexError(4)
        except IndexError as error:
            found.append((error.__context__ is circle, portrait(error)))
    return t + 1, found


@program
def causes(t):
    found = []
    try:
        try:
            raise KeyError(1)
        except KeyError as error:
            raise ValueError(2) from error
    except ValueError as error:
        found.append(portrait(error))
    own = ValueError(3)
    try:
        raise own from own
    except ValueError as error:
        found.append((error.__cause__ is error, portrait(error)))
    try:
        raise KeyError from None
    except KeyError as error:
        found.append(portrait(error))
    return t + 1, found


def raises_again():
    raise  # noqa: PLE0704


@program
def groups_handled_in_parts(t):
    found = []
    try:
        try:
            raise ExceptionGroup("g", [ValueError(1), KeyError(2), ExceptionGroup("h", [ValueError(3), TypeError(3)])])
        except* ValueError as error:
            found.append((portrait(error), portrait(sys.exception())))
            raise IndexError(5)
        except* KeyError as error:
            found.append((portrait(error), portrait(sys.exception())))
            raise
    except BaseException as error:
        found.append((portrait(error), [portrait(inner) for inner in error.exceptions]))
    found.append(portrait(sys.exception()))
    return t + 1, found


@program
def a_plain_exception_as_a_group(t):
    found = []
    try:
        raise ValueError(4)
    except* ValueError as error:
        found.append((portrait(error), portrait(sys.exception())))
    finally:
        found.append(portrait(sys.exception()))
    try:
        try:
            raise ValueError(4)
        except* KeyError:
            found.append("no")
    except ValueError as error:
        found.append(portrait(error))
    try:
        t = t + 1
    except* KeyError:
        pass
    else:
        found.append("else")
    return t, found


@program
def a_part_raised_again_in_a_callee(t):
    found = []
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
    except* ValueError as error:
        try:
            raises_again()
        except BaseException as again:
            found.append((portrait(again), again is error))
    except* KeyError as error:
        print("break", portrait(error), portrait(sys.exception()))
    return t + 1, found


class Trunc:
    def __trunc__(self):
        return 5


class Bools:
    def __int__(self):
        return True

    def __index__(self):
        return True  # noqa: PLE0305

    def __float__(self):
        return Float(2.0)


class Float(float):
    pass


OPERATIONS = {
    "trunc": lambda: int(Trunc()), "int": lambda: int(Bools()), "index": lambda: operator.index(Bools()), "float": lambda: float(Bools()),
    "truth": lambda: bool(NotImplemented), "branch": lambda: 1 if NotImplemented else 2, "invert": lambda: ~True,
    "warn": lambda: warnings.warn("deprecated", DeprecationWarning, stacklevel=1),
}  # fmt: skip


@pytest.mark.parametrize("filters", ["always", "ignore", "error", "default"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_warnings_of_operations(name: str, filters: str) -> None:
    operation = OPERATIONS[name]

    def program(t):
        try:
            return t + 1, operation()
        except (Warning, TypeError) as error:  # from Python 3.14 on, some are errors
            return t + 1, error

    def given(function):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter(filters)
            results = [repr(function(torch.ones(1))) for _ in range(3)]
        return results, [(str(each.message), each.category, each.filename, each.lineno) for each in found]

    compiled = framejit.compile(program, backend="eager")
    expected = given(program)
    assert given(compiled) == expected
    assert given(compiled) == expected


@pytest.mark.parametrize("function", programs, ids=lambda function: function.__name__)
def test_programs_in_all_contexts(function: Any) -> None:
    assert outcomes(framejit.compile(function, backend="eager"), torch.ones(2)) == outcomes(function, torch.ones(2))


def test_a_class_is_not_made_anew_for_the_result() -> None:
    def returns(t):
        return t + 1, Counted(1, 5)

    made = framejit.compile(returns, backend="eager", fullgraph=True)(torch.ones(1))[1]
    assert (made.count, made.b, made.args) == (2, 5, (1,))
