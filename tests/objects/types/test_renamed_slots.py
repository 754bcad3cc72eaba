"""Slots whose descriptors lie under other names than they were made with: which slot is read, written and guarded is the descriptor's to say."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from agreement import tried

import framejit

Program = tuple[Callable[[torch.Tensor], Any], list[Callable[[], Any]], Any]
"""What is compiled, what changes between its calls, and the object whose slots are compared after each."""


def swapped() -> Program:
    class A:
        __slots__ = ("k", "j")

    A.k, A.j = A.j, A.k
    a = A()
    a.k, a.j = 2, 5
    return lambda x: ((x * a.k).tolist(), a.j), [lambda: setattr(a, "k", 3), lambda: setattr(a, "j", 7)], a


def swapped_and_written() -> Program:
    class A:
        __slots__ = ("k", "j")

    A.k, A.j = A.j, A.k
    a = A()
    a.k, a.j = 2, 5

    def function(x: torch.Tensor) -> Any:
        a.k = a.j + 1
        kept = a.k
        del a.j
        gone = tried(getattr, a, "j")
        a.j = kept * 2
        return x * a.k, gone, a.j

    return function, [lambda: setattr(a, "j", 3)], a


def swapped_in_a_new_object() -> Program:
    class A:
        __slots__ = ("k", "j")

    A.k, A.j = A.j, A.k

    def function(x: torch.Tensor) -> Any:
        a = A()
        a.k = 3
        return x * a.k, A.k.__get__(a), a.k

    return function, [], None


def overwritten() -> Program:
    class A:
        __slots__ = ("k",)
        z: Any

    A.z = A.k
    A.k = 100  # type: ignore[assignment]
    a = A()
    a.z = 2
    return lambda x: x * a.z + a.k, [lambda: setattr(a, "z", 3), lambda: setattr(A, "k", 7), lambda: setattr(A, "k", A.__dict__["z"])], a


def lost_by_its_class() -> Program:
    class A:
        __slots__ = ("k",)

    class B(A):
        __slots__ = ()
        z = A.__dict__["k"]

    del A.k
    b = B()
    b.z = 4

    def function(x: torch.Tensor) -> Any:
        b.z += 1
        return x * b.z, hasattr(b, "k")

    return function, [lambda: setattr(b, "z", 30)], b


def aliased() -> Program:
    class A:
        __slots__ = ("k",)
        z: Any

    A.z = A.k
    a = A()
    a.z = 2

    def function(x: torch.Tensor) -> Any:
        a.k = a.z + 1
        return x * a.z, a.k

    return function, [lambda: setattr(a, "z", 9)], a


def of_another_class() -> Program:
    class A:
        __slots__ = ("k",)

    class B:
        __slots__ = ("j",)
        k = A.__dict__["k"]

    b = B()
    b.j = 1
    return lambda x: (tried(lambda: b.k), tried(setattr, b, "k", 3), tried(delattr, b, "k"), x * b.j), [lambda: setattr(b, "j", 3)], b


def behind_a_property() -> Program:
    class A:
        __slots__ = ("_k",)
        _k: Any

        @property
        def k(self) -> Any:
            return self._k * 10

    A.k, A._k = A._k, A.k  # type: ignore[method-assign]
    a = A()
    a.k = 3  # type: ignore[misc]
    return lambda x: x * a.k, [lambda: setattr(a, "k", 4)], a


def in_a_derived_class() -> Program:
    class A:
        __slots__ = ("k",)
        k: Any

    class B(A):
        __slots__ = ("k", "__dict__")

    b = B()
    b.k = 1
    A.k.__set__(b, 5)
    b.__dict__["k"] = 50

    def function(x: torch.Tensor) -> Any:
        b.k += 1
        return x * b.k, super(B, b).k, b.__dict__["k"]

    return function, [lambda: setattr(b, "k", 3), lambda: A.k.__set__(b, 8)], b


def moved_while_compiled() -> Program:
    class A:
        __slots__ = ("k", "j")

    k, j = A.__dict__["k"], A.__dict__["j"]
    a = A()
    a.k, a.j = 1, 2
    return lambda x: x * a.k, [lambda: setattr(A, "k", j), lambda: setattr(a, "k", 5), lambda: setattr(A, "k", k), lambda: setattr(a, "k", 6)], None


def of_a_partial() -> Program:
    class P(functools.partial):  # type: ignore[type-arg]
        __slots__ = ("func", "x")

    p = P(max, 1)
    p.x = 5
    p.func = 7  # type: ignore[misc,assignment]
    return lambda x: (x * p.x, p.args, p.func), [lambda: setattr(p, "x", 6), lambda: setattr(p, "func", 8)], None


def of_an_exception() -> Program:
    class E(StopIteration):
        __slots__ = ("value", "other")

    def function(x: torch.Tensor) -> Any:
        e = E(3)
        unset = tried(lambda: e.value)
        e.value = 9
        return x + 1, unset, e.value, StopIteration.value.__get__(e)  # type: ignore[attr-defined]

    return function, [], None


PROGRAMS = [swapped, swapped_and_written, swapped_in_a_new_object, overwritten, lost_by_its_class, aliased, of_another_class, behind_a_property,
            in_a_derived_class, moved_while_compiled, of_a_partial, of_an_exception]  # fmt: skip
BREAK = {swapped_in_a_new_object, of_an_exception}


def slots(owner: Any) -> Any:
    found = [(cls.__name__, name, member) for cls in type(owner).__mro__ for name, member in vars(cls).items()]
    return [(cls, name, tried(member.__get__, owner)) for cls, name, member in found if isinstance(member, types.MemberDescriptorType)]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_descriptor_says_which_slot(program: Callable[[], Program], backend: str) -> None:
    def seen(wrap: Callable[..., Any]) -> list[str]:
        function, changes, owner = program()
        compiled = wrap(function)
        results = []
        for change in [lambda: None, *changes]:
            change()
            results.append(repr((compiled(torch.ones(2)), slots(owner))))
        return results

    framejit.reset()
    expected = seen(lambda f: f)
    assert seen(lambda f: framejit.compile(f, backend=backend, fullgraph=program not in BREAK)) == expected
