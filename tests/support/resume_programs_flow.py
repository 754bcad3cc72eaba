"""Programs with graph breaks inside `with` and `try`, for test_resume.py."""

from __future__ import annotations

import contextlib
import io
import sys
from typing import Any

import torch
from resume_programs import case, deep1, helper

# with.


class Manager:
    def __init__(self, name: str, swallow: bool = False) -> None:
        self.name = name
        self.swallow = swallow

    def __enter__(self) -> Manager:
        print("enter", self.name)
        return self

    def __exit__(self, cls: Any, exc: Any, tb: Any) -> bool:
        print("exit", self.name, cls, exc, tb is not None)
        return self.swallow


class Quiet:
    depth = 0

    def __init__(self, swallow: bool = False) -> None:
        self.swallow = swallow

    def __enter__(self) -> Quiet:
        self.entered = True
        return self

    def __exit__(self, cls: Any, exc: Any, tb: Any) -> bool:
        self.left = cls
        return self.swallow


@case()
def in_with(x):
    with Manager("a"), Quiet() as q:
        y = x * 2
        print("in")
        y = y + 1
    return y, q.entered, q.left


@case()
def with_raises_natively(x):
    q = Quiet()
    try:
        with q:
            y = x * 2
            int("zz")
            y = y + 1
    except ValueError as e:
        return y, e.args, q.left
    return None


@case()
def with_swallows(x):
    with Quiet(True) as q:
        x = x * 2
        print("before")
        int("zz")
    with Manager("m", True):
        x = x + 1
        raise KeyError("traced")
    return x, q.left


@case()
def with_exit_prints_exception(x):
    with Manager("m"):
        y = x * 2
        print(1 / 0)
    return y


@case()
def with_in_loop(x):
    for i in range(3):
        with Quiet() as q:
            x = helper(x)
            if i == 1:
                continue
            print("go on")
        x = x + (q.left is None)
    return x


@case()
def return_from_with(x):
    with Manager("r"):
        for i in range(3):
            with Manager(str(i)):
                print("inside")
                if i == 1:
                    return helper(x)
    return None


@case()
def grad_modes(x):
    with torch.no_grad():
        y = x * 2
        print(torch.is_grad_enabled())
        with torch.enable_grad():
            z = y + 1
            print(torch.is_grad_enabled())
        print(torch.is_grad_enabled())
    print(torch.is_grad_enabled())
    return z


@case()
def grad_mode_raises(x):
    try:
        with torch.no_grad():
            y = x * 2
            int("q")
    except ValueError:
        y = y + torch.is_grad_enabled()
    return y


@contextlib.contextmanager
def managed(x):
    print("setup")
    y = x + 1
    try:
        yield y
    finally:
        print("teardown")


@contextlib.contextmanager
def managed_quietly(log):
    log.append("setup")
    try:
        yield log
    except ValueError as e:
        log.append(str(e))
    finally:
        log.append("teardown")


@case()
def contextlib_manager(x):
    with managed(x) as y:
        y = y * 2
        print("body")
        y = y + 1
    return y


@case()
def contextlib_manager_quiet(x):
    log = []
    with managed_quietly(log):
        y = x * 2
        print("body")
        y = y + 1
    return y, log


@case()
def contextlib_manager_swallows(x):
    log = []
    with managed_quietly(log):
        y = x * 2
        int("body")
    return y, log


@case()
def contextlib_manager_passes(x):
    log = []
    try:
        with managed_quietly(log):
            y = x * 2
            print({}["k"])
    except KeyError as e:
        return y, log, e.args
    return None


@case()
def suppress_and_redirect(x):
    out = io.StringIO()
    with contextlib.suppress(ValueError), contextlib.redirect_stdout(out):
        print("captured")
        x = x + 1
        int("zz")
    with contextlib.ExitStack() as stack:
        stack.callback(print, "callback")
        stack.enter_context(Manager("stack"))
        x = helper(x)
    return x, out.getvalue()


# try.


@case()
def in_try(x):
    try:
        x = helper(x)
        print("no error")
    except ValueError:
        x = x * 0
    else:
        x = helper(x)
    finally:
        x = x + 1
    return x


@case()
def native_exception(x):
    y = x + 1
    try:
        y = y * 2
        n = int("zz")
    except (KeyError, ValueError) as e:
        y = y * 3
        message = str(e)
    return y, message


@case()
def native_exception_not_caught(x):
    y = x + 1
    try:
        n = int("zz" * len(y))
    except KeyError:
        return None
    return y * n


@case()
def print_in_except(x):
    try:
        x = x + 1
        raise ValueError("traced")
    except ValueError as e:
        x = x * 2
        print("caught", e)
        x = x * 3
    return x


@case()
def print_in_except_after_native(x):
    try:
        x = x + 1
        int("zz")
    except ValueError as e:
        x = x * 2
        print("caught", e, sys.exc_info()[0], sys.exc_info()[1] is e)
        x = x * 3
    print("after", sys.exc_info())
    return x


@case()
def bare_raise(x):
    try:
        try:
            int("zz")
        except ValueError:
            x = helper(x)
            raise
    except ValueError as e:
        print("outer", e, e.__context__, e.__traceback__.tb_lineno is not None)
        return x * 2
    return None


@case()
def bare_raise_to_the_caller(x):
    try:
        y = x + 1
        int("zz")
    except ValueError:
        y = helper(y)
        raise


@case()
def traced_raise_to_the_caller(x):
    try:
        y = x + 1
        raise ValueError("traced")
    except ValueError:
        y = helper(y)
        raise


@case()
def context_of_exception(x):
    try:
        try:
            int("zz")
        except ValueError:
            x = helper(x)
            {}["key"]
    except KeyError as e:
        print(repr(e.__context__))
        return x, type(e.__context__), e.__suppress_context__
    return None


@case()
def context_to_the_caller(x):
    try:
        int("zz")
    except ValueError:
        x = helper(x)
        raise RuntimeError("second", 2)


@case()
def raise_from(x):
    try:
        int("zz")
    except ValueError as e:
        x = helper(x)
        raise RuntimeError("second") from e


@case()
def nested_handlers(x):
    try:
        int("zz")
    except ValueError as first:
        print("first", first)
        try:
            x = helper(x)
            {}["key"]
        except KeyError as second:
            print("second", second, repr(second.__context__))
            x = x + 1
            try:
                print(1 / len([]))
            except ZeroDivisionError:
                print("third", sys.exc_info()[0])
                x = x * 2
            print("second again", sys.exc_info()[0])
        print("first again", sys.exc_info()[0])
        x = helper(x)
    print("out", sys.exc_info()[0])
    return x


@case()
def finally_normally(x):
    try:
        x = x + 1
    finally:
        print("finally")
        x = x * 2
    return x


@case()
def finally_with_exception(x):
    try:
        try:
            x = x + 1
            int("zz")
        finally:
            x = x * 2
            print("finally", sys.exc_info()[0])
            x = x + 1
    except ValueError as e:
        print("outer", e)
        x = x - 1
    return x


@case()
def finally_to_the_caller(x):
    try:
        x = x + 1
        int("zz")
    finally:
        x = helper(x)
        print("finally")


@case()
def return_in_finally(x):
    for i in range(3):
        try:
            x = helper(x)
            if i == 1:
                return x
        finally:
            print("finally", i)
            x = x + 1


@case()
def return_swallows(x):
    try:
        int("zz")
    finally:
        print("finally")
        return helper(x)


@case()
def loop_with_try(x):
    for i in range(4):
        try:
            x = x + 1
            print(1 / (i % 2))
        except ZeroDivisionError as e:
            print("zero", i, e)
            continue
        finally:
            print("finally", i)
            x = x * 2
    return x


@case()
def except_in_loop_breaks(x):
    for i in range(5):
        try:
            raise IndexError(i)
        except IndexError as e:
            print("index", e)
            x = x + e.args[0]
            if i == 2:
                break
    return x


@case()
def exception_variable(x):
    e = 1
    try:
        int("zz")
    except ValueError as e:
        x = helper(x)
        kept = e
    try:
        print(e)
    except NameError as error:
        print(type(error), error)
    return x, type(kept), kept.args


@case()
def calls_in_handler(x):
    try:
        int("zz")
    except ValueError:
        x = deep1(x)
        print(sys.exc_info()[0])
    return x


def raising_helper(x):
    y = x * 2
    print("about to raise")
    raise KeyError("boo", len(y))


def reraising_helper(x):
    try:
        return raising_helper(x)
    except KeyError:
        print("passing on", sys.exc_info()[0])
        raise


@case()
def caught_two_frames_out(x):
    try:
        return reraising_helper(x)
    except KeyError as e:
        print("got", e.args)
        return x * 9


@case()
def escapes_two_frames(x):
    return reraising_helper(x + 1)


@case()
def break_below_a_handler(x):
    try:
        raise ValueError("v")
    except ValueError:
        return reraising_helper(x)


@case()
def except_star(x):
    try:
        x = helper(x)
        raise ExceptionGroup("group", [ValueError(1), KeyError(2)])
    except* ValueError as group:
        print("values", group.exceptions)
        x = x + 1
    except* KeyError as group:
        print("keys", group.exceptions)
        x = x * 2
    return x


@case()
def except_star_native(x):
    try:
        x = x + 1
        int("zz")
    except* ValueError as group:
        x = helper(x)
        print("values", len(group.exceptions))
    return x


def entries_of(error):
    places = []
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        places.append((code.co_name.partition(" (resumed")[0], traceback.tb_lineno - code.co_firstlineno))
        traceback = traceback.tb_next
    print(type(error).__name__, places)


@case()
def traceback_in_handler(x):
    try:
        raising_helper(x)
    except KeyError as e:
        entries_of(e)
        x = x + 1
        entries_of(e)
    try:
        x = x * 2
        int("zz")
    except ValueError as e:
        entries_of(e)
        x = x * 2
        entries_of(e)
    return x


def raises_quietly(x):
    if len(x):
        raise LookupError("traced")


def passes_on(x):
    try:
        raises_quietly(x)
    finally:
        x.mul_(2)


@case()
def traceback_of_traced_exception(x):
    try:
        passes_on(x)
    except LookupError as e:
        entries_of(e)
        x = x + 1
        entries_of(e)
        try:
            raise e
        except LookupError as again:
            entries_of(again)
            print(again is e, again.__context__)
    return x


@case()
def traceback_of_passed_exception(x):
    try:
        try:
            reraising_helper(x)
        finally:
            x = x + 1
    except KeyError as e:
        x = x * 2
        entries_of(e)
        kept = e
    print(sys.exc_info())
    entries_of(kept)
    return x


@case()
def traceback_forgotten(x):
    try:
        raises_quietly(x)
    except LookupError as e:
        e = e.with_traceback(None)
        entries_of(e)
        kept = e
    try:
        raise kept
    except LookupError as e:
        entries_of(e)
        x = x + 1
    return x


@case()
def exception_kept_in_containers(x):
    errors = []
    for i in range(3):
        try:
            if i == 1:
                int("zz")
            raises_quietly(x)
        except (LookupError, ValueError) as e:
            errors.append(e)
            x = x + 1
    print([str(e) for e in errors])
    for e in errors:
        entries_of(e)
    return x, [e.args for e in errors]


@case()
def raise_from_outside(x):
    try:
        int("zz")
    except ValueError as e:
        kept = e
    print("caught")
    try:
        x = x + 1
        raise kept
    except ValueError as e:
        entries_of(e)
        x = x + 1
    try:
        raise RuntimeError("new") from kept
    except RuntimeError as e:
        entries_of(e)
        print(e.__cause__ is kept)
    return x


@case()
def break_in_the_test_of_a_handler(x):
    def classes():
        print("which")
        return ValueError, KeyError

    try:
        x = x + 1
        {}["k"]
    except classes() as e:
        x = x * 2
        print(repr(e))
    return x


@case()
def loop_inside_handler(x):
    try:
        raises_quietly(x)
    except LookupError as e:
        for i in range(4):
            try:
                if i == 2:
                    int(str(e))
                print("loop", i, sys.exc_info()[1] is e)
            except ValueError as inner:
                print("inner", inner.__context__ is e)
                continue
            finally:
                x = helper(x)
    return x


@case()
def generator_in_handler(x):
    def items():
        try:
            raise KeyError("k")
        except KeyError:
            yield x * 2
            print("in generator", sys.exc_info()[0])
            yield x * 3

    try:
        int("zz")
    except ValueError:
        values = []
        for value in items():
            print("outside", sys.exc_info()[0])
            values.append(value)
    return values


@case()
def dropped_generator_with_finally(x):
    def items():
        try:
            yield x * 2
            yield x * 3
        finally:
            print("closed")

    for value in items():
        break
    print("after")
    first = next(items())
    print("second")
    g = items()
    next(g)
    print("kept")
    g.close()
    return value, first
