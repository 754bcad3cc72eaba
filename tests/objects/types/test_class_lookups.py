"""Classes whose keys run the program's code where they are looked at, that become abstract, or that have had constructors of their own."""

from __future__ import annotations

import sys

import pytest
from agreement import agree_in_text, tried

import framejit

SEEN = []


class Key:
    """Equal to no string, but of the hash of one, and it notes the file of the code that compares it."""

    def __hash__(self):
        return hash("number")

    def __eq__(self, other):
        SEEN.append(sys._getframe(1).f_code.co_filename)
        return False


Odd = type("Odd", (), {Key(): 1, "number": 5})
OddBelow = type("OddBelow", (Odd,), {})


@pytest.mark.parametrize("kind", [Odd, OddBelow], ids=lambda cls: cls.__name__)
def test_keys_of_a_class_that_compare_by_code_of_the_program(kind):
    SEEN.clear()
    agree_in_text(lambda: (kind.number, kind().number, getattr(kind, "other", None)))
    assert set(SEEN) == {__file__}


def test_a_key_that_changes_the_bases_of_the_class_that_is_looked_at():
    def run():
        class Changes:
            def __hash__(self):
                return hash("first")

            def __eq__(self, other):
                Cls.__bases__ = (Base2,)

        class Base:
            first = second = "Base"

        class Base2:
            first = second = "Base2"

        Cls = type("Cls", (Base,), {Changes(): 5})
        return Cls.first, Cls.second

    agree_in_text(run)


def test_a_class_that_becomes_abstract():
    class C:
        pass

    def run():
        return C().__class__ is C

    compiled = framejit.compile(run, backend="eager")
    for names in ((), ("m",), ()):
        C.__abstractmethods__ = frozenset(names)
        expected = tried(run)
        assert tried(compiled) == expected and (expected[0] == "TypeError" if names else expected is True)


def test_object_new_of_a_class_that_has_had_a_constructor_of_its_own():
    class A:
        def __new__(cls, *args):
            raise AssertionError

    class B(A):
        __new__ = object.__new__

        def __init__(self, number):
            self.number = number

    class C(A):
        def __init__(self, number):
            self.number = number

    del A.__new__

    def run():
        return tried(lambda: B(3).number), tried(lambda: C(3).number), tried(lambda: object.__new__(B, 3).__class__), tried(B), tried(C)

    agree_in_text(run)


class ComparesNames(type):
    """Its classes are equal where their names are."""

    def __eq__(cls, other):
        return cls.__name__ == other.__name__

    def __hash__(cls):
        return hash(cls.__name__)


def test_two_classes_that_are_equal():
    kinds = [ComparesNames("Named", (), {"number": number, "more": lambda self: self.number + 1}) for number in (1, 5)]

    def run():
        return [(kind.number, kind().number, kind().more()) for kind in kinds]

    agree_in_text(run)
