"""Programs for the interpreter's tests: exceptions, `with` and generators."""

# ruff: noqa: F821, PLE0704, PLE0643

import contextlib
import itertools

from ceval_programs import program


@program
def try_finally():
    log = []

    def f(how):
        for i in range(3):
            try:
                try:
                    if how == "return":
                        return log.append("r") or "returned"
                    if how == "break":
                        break
                    if how == "continue":
                        continue
                    if how == "raise":
                        raise ValueError(how)
                    log.append("body")
                except ValueError as error:
                    log.append(str(error))
                    if i == 2:
                        raise KeyError("again") from error
                else:
                    log.append("else")
                finally:
                    log.append(("finally", i))
            except KeyError as error:
                log.append((type(error.__cause__).__name__, error.__context__ is error.__cause__))
        return how

    return [f(how) for how in ("return", "break", "continue", "raise", "none")], log


@program
def finally_swallows():
    def f():
        try:
            raise ValueError
        finally:
            return "swallowed"

    return f()


@program
def exception_chaining():
    try:
        try:
            1 / 0
        except ZeroDivisionError:
            [].missing
    except AttributeError as error:
        return type(error.__context__).__name__, error.__cause__, error.__suppress_context__


@program
def raise_from():
    try:
        {}["k"]
    except KeyError as error:
        raise ValueError("bad") from error


@program
def raise_from_none():
    try:
        {}["k"]
    except KeyError:
        raise ValueError("bad") from None


@program
def raise_in_callee_of_handler():
    def inner():
        raise TypeError("inner")

    try:
        raise ValueError("outer")
    except ValueError:
        inner()


@program
def bare_raise():
    def again():
        raise

    try:
        try:
            int("x")
        except ValueError:
            again()
    except ValueError as error:
        saved = error
    try:
        again()
    except RuntimeError as error:
        return str(saved), str(error), error.__context__


@program
def reraise_to_the_top():
    def deep(n):
        if n == 0:
            raise LookupError("deep")
        try:
            deep(n - 1)
        except KeyError:
            return "not this"
        finally:
            n = None

    deep(3)


@program
def exception_types():
    out = []
    for function in (lambda: 1 / 0, lambda: [][1], lambda: {}[1], lambda: None + 1, lambda: int("z"), lambda: next(iter([]))):
        try:
            function()
        except (ZeroDivisionError, IndexError) as error:
            out.append(("first", str(error)))
        except LookupError as error:
            out.append(("second", repr(error)))
        except Exception as error:
            out.append(("third", type(error).__name__, str(error)))
    return out


@program
def exception_variable_is_deleted():
    try:
        raise ValueError
    except ValueError as e:
        pass
    try:
        e
    except UnboundLocalError as error:
        return str(error)


@program
def raise_nonsense():
    raise 3


@program
def assertions():
    assert 1 + 1 == 2
    x = 3
    assert x > 5, f"x is {x}"


class Manager:
    def __init__(self, log, swallow=False):
        self.log, self.swallow = log, swallow

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, cls, exc, tb):
        self.log.append(("exit", cls and cls.__name__, str(exc)))
        return self.swallow


@program
def with_statements():
    log = []

    def f(how):
        for i in range(2):
            with Manager(log, swallow=True) as m, Manager(log) as n:
                assert m is not n
                if how == "return":
                    return how
                if how == "continue":
                    continue
                if how == "raise":
                    raise ValueError(how)
        return "end"

    return [f(how) for how in ("return", "continue", "raise", "")], log


@program
def with_that_passes_on():
    log = []
    with Manager(log):
        with Manager(log):
            raise OSError("out")


@program
def with_on_nonsense():
    with 3:
        pass


@program
def with_without_exit():
    class Half:
        def __enter__(self):
            return 1

    with Half():
        pass


@program
def context_manager_functions():
    log = []

    @contextlib.contextmanager
    def managed(name):
        log.append(f"in {name}")
        try:
            yield name.upper()
        except ValueError as error:
            log.append(f"caught {error}")
        finally:
            log.append(f"out {name}")

    with managed("a") as a, managed("b") as b:
        log.append(a + b)
        raise ValueError("v")
    return log


@program
def generators():
    def count(n):
        i = 0
        while i < n:
            got = yield i
            i += got or 1
        return "done"

    def outer():
        result = yield from count(3)
        yield result
        return (yield from [7, 8])

    def drive(g):
        out = []
        try:
            while True:
                out.append(next(g))
        except StopIteration as stop:
            out.append(("returned", stop.value))
        return out

    g = count(10)
    return drive(outer()), [next(g), g.send(4), g.send(3), list(g)], sum(x * x for x in count(4)), list(itertools.islice(count(99), 3))


@program
def generator_throw():
    log = []

    def inner():
        try:
            while True:
                try:
                    yield "value"
                except KeyError as error:
                    log.append(repr(error))
                    yield "recovered"
        finally:
            log.append("inner closed")

    def outer():
        try:
            yield from inner()
        except ValueError as error:
            log.append(("outer", str(error), error.__context__))
            yield "outer recovered"

    g = outer()
    out = [next(g), g.throw(KeyError("k")), next(g), g.throw(ValueError("v"))]
    g.close()
    h = outer()
    next(h)
    h.close()
    return out, log


@program
def generator_throw_ends_the_delegation():
    def inner():
        try:
            yield 1
        except KeyError:
            return "returned"

    def outer():
        got = yield from inner()
        yield got, "after"

    g = outer()
    return next(g), g.throw(KeyError()), list(g)


@program
def throw_into_a_new_generator():
    def g():
        yield 1

    g().throw(ValueError("early"))


@program
def generator_return_in_finally():
    def g():
        try:
            yield 1
            yield 2
        finally:
            yield "cleanup"

    it = g()
    out = [next(it)]
    try:
        out.append(it.throw(ValueError("x")))
        next(it)
    except ValueError as error:
        out.append(str(error))
    return out


@program
def stop_iteration_inside_a_generator():
    def g():
        yield next(iter([]))

    list(g())


@program
def generator_handles_while_suspended():
    def g():
        try:
            raise KeyError("inside")
        except KeyError:
            yield 1
            try:
                raise ValueError("second")
            except ValueError as error:
                yield repr(error.__context__)

    try:
        raise OSError("outside")
    except OSError:
        it = g()
        out = [next(it), next(it)]
        try:
            raise TypeError
        except TypeError as error:
            out.append(repr(error.__context__))
    return out


@program
def running_generator():
    def g():
        yield next(it)

    it = g()
    next(it)


@program
def matches():
    class Point:
        __match_args__ = ("a", "b")

        def __init__(self, a, b):
            self.a, self.b = a, b

    def kind(subject):
        match subject:
            case None | True:
                return "constant"
            case int(n) if n > 3:
                return "big", n
            case Point(0, b=b):
                return "on axis", b
            case Point(a, b) | {"a": a, "b": b}:
                return "point", a, b
            case {"kind": kind, **rest}:
                return kind, rest
            case [] | [_]:
                return "short"
            case [first, [*inner], *rest, last]:
                return first, inner, rest, last
            case str() as text:
                return text
            case _:
                return "other"

    return [
        kind(subject)
        for subject in (
            None, 2, 5, Point(0, 1), Point(1, 2), {"a": 1, "b": 2, "c": 3}, {"kind": "k", "x": 1}, {}, [], (1,), [1, (2, 3), 4],
            [1, [2], 3, 4, 5], "text", 2.5,
        )
    ]  # fmt: skip
