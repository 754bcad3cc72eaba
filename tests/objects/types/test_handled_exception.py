"""The exception that the caller of a compiled function handles: seen, guarded where looked at, context of what is raised. PYTEST_DONT_REWRITE."""

from __future__ import annotations

import contextlib
import logging
import sys
import traceback
from typing import Any

import pytest
import torch
from handled import caller_contexts, outcomes, portrait

import framejit

x = torch.ones(2)
programs: list[Any] = []


def program(function: Any) -> Any:
    programs.append(function)
    return function


@program
def exc_info(t):
    return t + 1, sys.exc_info()[0], repr(sys.exc_info()[1]), type(sys.exc_info()[2]), repr(sys.exception())


@program
def format_exc(t):
    return t + 1, traceback.format_exc()[-20:]


@program
def context_of_a_caught_one(t):
    try:
        raise KeyError(1)
    except KeyError as error:
        return t + 1, repr(error.__context__), error.__context__ is None


@program
def context_of_a_returned_one(t):
    try:
        raise KeyError(1)
    except KeyError as error:
        kept = error
    return t + 1, portrait(kept)


def raises_again():
    raise  # noqa: PLE0704


@program
def bare_raise_in_a_callee(t):
    if sys.exception() is not None:
        raises_again()
    return t * 2


@program
def bare_raise_caught(t):
    found = []
    try:
        raises_again()
    except Exception as error:
        found.append(portrait(error))
    try:
        raise TypeError("own")
    except TypeError:
        try:
            raises_again()
        except TypeError as error:
            found.append(portrait(error))
    return t + 1, found


@program
def in_finally_and_behind(t):
    found = []
    try:
        try:
            raise TypeError("t")
        finally:
            found.append(repr(sys.exception()))
    except TypeError:
        found.append(repr(sys.exception()))
    found.append(repr(sys.exception()))
    return t + 1, found


class Notes:
    """A context manager that notes what is being handled."""

    def __init__(self, found):
        self.found = found

    def __enter__(self):
        self.found.append(repr(sys.exception()))

    def __exit__(self, *exc):
        self.found.append((repr(sys.exception()), repr(exc[1])))
        return True


@program
def in_with(t):
    found = []
    with Notes(found):
        raise TypeError("t")
    with Notes(found):
        t = t + 1
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: found.append(repr(sys.exception())))
        stack.enter_context(Notes(found))
        raise ValueError(1)
    return t, found


@contextlib.contextmanager
def manager(found):
    try:
        yield
    except ValueError as error:
        found.append(portrait(error))
        raise KeyError(2) from error
    finally:
        found.append(repr(sys.exception()))


@program
def in_generator_managers(t):
    found = []
    try:
        with manager(found):
            raise ValueError(9)
    except KeyError as error:
        found.append(portrait(error))
    with manager(found):
        t = t + 1
    return t, found


def waits(found):
    found.append(repr(sys.exception()))
    try:
        yield 1
    except ValueError as error:
        found.append(portrait(error))
        yield 2
    found.append(repr(sys.exception()))
    try:
        raise KeyError(5)
    except KeyError as error:
        found.append(portrait(error))
        yield 3
        found.append(repr(sys.exception()))
    yield 4


@program
def in_generators(t):
    found = []
    generator = waits(found)
    next(generator)
    generator.throw(ValueError(1))
    next(generator)
    found.append(repr(sys.exception()))
    try:
        raise IndexError(7)
    except IndexError:
        next(generator)
    return t + 1, found


@program
def in_generators_over_breaks(t):
    found = []
    generator = waits(found)
    next(generator)
    print("break", repr(sys.exception()))
    generator.throw(ValueError(1))
    next(generator)
    try:
        raise IndexError(7)
    except IndexError:
        print("inside", repr(sys.exception()))
        next(generator)
        print("still inside", repr(sys.exception()))
    print("outside", repr(sys.exception()))
    return t + 1, found


def left_by(found, own):
    if own:
        try:
            raise KeyError("own")
        except KeyError:
            try:
                yield 1
            except BaseException as error:
                found.append(portrait(error))
                raise
    try:
        yield 1
    except BaseException as error:
        found.append(portrait(error))
        raise


def delegates(found, own):
    yield from left_by(found, own)


@program
def thrown_and_closed(t):
    found = []
    for made in (left_by, delegates):
        for own in (True, False):
            generator = made(found, own)
            next(generator)
            try:
                raise IndexError(3)
            except IndexError:
                generator.close()
            generator = made(found, own)
            next(generator)
            try:
                try:
                    raise IndexError(3)
                except IndexError:
                    generator.throw(ValueError(8))
            except ValueError as error:
                found.append(portrait(error))
            try:
                generator.throw(ValueError(9))
            except ValueError as error:
                found.append(portrait(error))
    return t + 1, found


@program
def behind_breaks(t):
    t = t + 1
    print("break")
    try:
        raise KeyError(1)
    except KeyError as error:
        print(portrait(error), sys.exc_info()[0])
        try:
            raise IndexError(2)
        except IndexError as inner:
            print(portrait(inner))
        raise OSError(3) from None


@program
def in_natively_called_functions(t):
    found = []

    def note(value):
        found.append(repr(sys.exception()))
        return value

    max([1, 2], key=note)
    try:
        raise KeyError(1)
    except KeyError:
        sorted([1, 2], key=note)
        list(map(note, [1]))
    return t + 1, found


@program
def raised_once_more(t):
    try:
        raise KeyError(1)
    except KeyError as error:
        kept = error
    try:
        try:
            raise ValueError(2)
        except ValueError:
            raise kept
    except KeyError:
        pass
    try:
        raise kept
    except KeyError:
        return t + 1, portrait(kept)


@program
def raised_by_operators(t):
    found = []
    try:
        raise KeyError(1)
    except KeyError:
        try:
            t.view(3)
        except RuntimeError as error:
            found.append(portrait(error.__context__))
    try:
        t.view(5)
    except RuntimeError as error:
        found.append(portrait(error.__context__))
    return t + 1, found


@program
def raised_by_the_graph(t):
    try:
        raise KeyError(1)
    except KeyError:
        return t.index_select(0, torch.tensor([7]))


@program
def raised_by_the_graph_in_finally(t):
    try:
        return t.index_select(0, torch.tensor([7]))
    finally:
        print(portrait(sys.exception()))


@program
def stopiteration_in_a_generator(t):
    def generator():
        yield from ()
        raise StopIteration(1)

    try:
        list(generator())
    except RuntimeError as error:
        return t + 1, portrait(error)


@program
def logged(t):
    logger = logging.getLogger("test_handled_exception")
    logger.propagate = False
    logger.handlers[:] = [logging.StreamHandler(sys.stdout)]
    logger.exception("oops")
    return t + 1


@program
def escapes(t):
    try:
        raise KeyError(1)
    except KeyError:
        raise ValueError("escapes")


@pytest.mark.parametrize("function", programs, ids=lambda function: function.__name__)
def test_programs_in_all_contexts(function: Any) -> None:
    assert outcomes(framejit.compile(function, backend="eager"), x) == outcomes(function, x)


@pytest.mark.parametrize("first", [1, 6])
def test_the_first_call_is_in_a_handler(first: int) -> None:
    compiled = framejit.compile(exc_info, backend="eager", fullgraph=True)

    def call():
        assert repr(compiled(x)) == repr(exc_info(x))

    contexts = caller_contexts()
    for context in (contexts[first], *contexts):
        context(call)


def test_nothing_is_guarded_unless_it_is_looked_at() -> None:
    def handles(t):
        try:
            raise KeyError(1)
        except KeyError as error:
            return t + 1, error

    compiled = framejit.compile(handles, backend="eager", fullgraph=True)
    found = []
    for context in caller_contexts():
        context(lambda: found.append(repr(compiled(x)[1].__context__)))
    assert len(set(found)) > 4
    assert len(compiled.entries) == 1


def test_without_a_frame() -> None:
    def looks(t):
        return t + 1 if sys.exception() is None else t - 1

    compiled = framejit.compile(looks, backend="eager")
    for _ in range(3):
        for context in caller_contexts():
            context(lambda: torch.testing.assert_close(compiled(x), looks(x)))
    assert len(compiled.entries) > 4 and all(entry.direct and entry.direct_hits for entry in compiled.entries)
