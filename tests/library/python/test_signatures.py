"""inspect.signature in compiled functions: it is looked at anew where what it depends on has changed, and what has none raises for real."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys

import pytest
import torch
from agreement import agree_in_text, agree_over_calls, tried

import framejit


def fresh():
    def function(a, b: int = 2, *, c=3):
        return a

    return function


class Annotated:
    """An annotation without a type that framejit knows."""


def other_code(function):
    function.__code__ = (lambda x, y: x).__code__


def other_default(function):
    function.__defaults__ = (7,)


def other_annotations(function):
    function.__annotations__ = {"a": str}


def one_annotation_more(function):
    function.__annotations__["a"] = Annotated()


def another_annotation(function):
    function.__annotations__["b"] = Annotated


def text_signature(function):
    function.__text_signature__ = "($self, a, /, *rest)"


def signature_of_its_own(function):
    function.__signature__ = inspect.Signature([inspect.Parameter("z", inspect.Parameter.POSITIONAL_OR_KEYWORD)])


def wraps_another(function):
    functools.update_wrapper(function, lambda p, q: p, assigned=())


CHANGES = (other_code, other_default, other_annotations, one_annotation_more, another_annotation, text_signature, signature_of_its_own, wraps_another)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("bound", [False, True])
def test_signatures_of_functions_that_change(change, bound):
    function = fresh()
    target = function.__get__(object()) if bound else function

    def run():
        return str(inspect.signature(target))

    compiled = framejit.compile(run, backend="eager")
    assert compiled() == run() and compiled() == run()
    change(function)
    assert compiled() == run()


def test_signatures_of_classes_that_change():
    class Meta(type):
        pass

    class A(metaclass=Meta):
        def __init__(self, a, b):
            pass

    def run():
        return str(inspect.signature(A))

    compiled = framejit.compile(run, backend="eager")
    assert compiled() == run() == "(a, b)"
    A.__init__ = lambda self, c: None
    assert compiled() == run() == "(c)"
    Meta.__call__ = lambda cls, *rest: None
    assert compiled() == run() == "(*rest)"


class Loop:
    def __init__(self):
        self.__wrapped__ = self

    def __call__(self):
        pass


LOOP = fresh()
LOOP.__wrapped__ = LOOP


TARGETS = {
    "class in C": str, "no callable": 3, "loop of objects": Loop(), "loop of functions": LOOP, "plain class": type("Plain", (), {}),
    "method in C": dict.fromkeys, "partial": functools.partial(fresh(), 1),
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_signatures_that_there_are_or_are_not(target):
    agree_in_text(lambda: str(tried(inspect.signature, target)))


def test_a_signature_that_changes():
    def program(compile):
        def target(a, b=1):
            return a

        def f(t):
            return t + inspect.signature(target).parameters["b"].default, list(inspect.signature(target).parameters)

        compiled = compile(f)
        results = [compiled(torch.ones(2))]
        target.__defaults__ = (5,)
        results.append(compiled(torch.ones(2)))
        target.__code__ = (lambda c, b: c).__code__
        return [*results, compiled(torch.ones(2))]

    agree_over_calls(program)


@dataclasses.dataclass
class Settings:
    size: int
    names: list = dataclasses.field(default_factory=list)


class Layer(torch.nn.Module):
    def __init__(self, width, *, bias: bool = True):
        super().__init__()


def test_signatures_of_classes_partials_and_functions_that_the_call_makes():
    def program(x, scale):
        def local(a, b=scale, *, c: int = 3):
            return a

        class Local:
            def __init__(self, d=4):
                pass

        made = functools.partial(local, 1, b=7), functools.partial(Settings.__init__, None), lambda e, *rest: e
        targets = (Settings, Layer, Local, local, *made)
        return x + len(inspect.signature(Layer).parameters), [str(inspect.signature(each)) for each in targets]

    framejit.reset()
    evaluates_later = sys.version_info >= (3, 14)  # `c: int` of a function that the trace makes splits the graph there
    compiled = framejit.compile(program, backend="eager", fullgraph=not evaluates_later)
    for scale in ("a", "a", "b"):
        expected, found = program(torch.ones(2), scale), compiled(torch.ones(2), scale)
        assert torch.equal(found[0], expected[0]) and found[1] == expected[1]
    Layer.__init__ = lambda self, other: None
    assert compiled(torch.ones(2), "a")[1] == program(torch.ones(2), "a")[1]


def test_dataclasses_that_the_call_makes_have_their_signatures_as_docstrings():
    def program(x):
        class Kind:
            pass

        @dataclasses.dataclass
        class Local:
            kind: Kind
            scale: dataclasses.InitVar[int] = 3
            names: list = dataclasses.field(default_factory=list)
            fallback: type = Kind

        class Positional:
            def __new__(cls, a, /, *args, **kwargs):
                return object.__new__(cls)

        class Called:
            def __call__(self, first, *, second=None):
                return first

        kinds = inspect.signature(Positional, follow_wrapped=False), inspect.signature(Called()), inspect.signature(Called().__call__)
        return x + 1, Local.__doc__, list(inspect.signature(Local).parameters), *map(str, kinds)

    framejit.reset()
    evaluates_later = sys.version_info >= (3, 14)
    compiled = framejit.compile(program, backend="eager", fullgraph=not evaluates_later)
    expected, found = program(torch.ones(2)), compiled(torch.ones(2))
    assert torch.equal(found[0], expected[0]) and found[1:] == expected[1:]


def test_the_signature_of_what_has_none_raises():
    def program(x, target):
        try:
            return inspect.signature(target)
        except (TypeError, ValueError) as error:
            return x + 1, type(error), str(error)

    framejit.reset()
    compiled = framejit.compile(program, backend="eager", fullgraph=True)
    for target in (5, "text", [1]):
        assert repr(compiled(torch.ones(2), target)) == repr(program(torch.ones(2), target))


def test_signatures_of_classes_that_the_call_makes_without_a_constructor():
    def program(x):
        class Empty:
            pass

        class Documented:
            """Documented(a, /, b=1)\n--\n\nThe first line of the docstring is the signature."""

        @dataclasses.dataclass(init=False)
        class Bare:
            size: int = 3

        texts = [cls.__text_signature__ for cls in (Empty, Documented)]
        return x + 1, texts, str(inspect.signature(Empty)), Bare.__doc__

    framejit.reset()
    evaluates_later = sys.version_info >= (3, 14)
    compiled = framejit.compile(program, backend="eager", fullgraph=not evaluates_later)
    assert repr(compiled(torch.ones(2))) == repr(program(torch.ones(2)))
