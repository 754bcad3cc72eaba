"""Type parameters, `type` statements and nested f-strings: syntax of Python 3.12, so the programs are text; older Pythons skip them."""

from __future__ import annotations

import linecache
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from agreement import agree_in_text, tried

PROGRAMS = {
    "function": """
        def f[T](x: T = 3, *args: T, y: T = 4, **rest) -> T:
            return x, args, y, rest, T
        return f(), f(1, 2, y=3, z=4), f.__type_params__, f.__defaults__, f.__kwdefaults__, sorted(f.__annotations__)
    """,
    "several kinds": """
        def f[T, *Ts, **P](x):
            return T.__name__, Ts.__name__, P.__name__, P.args, P.kwargs
        return f(1), f.__type_params__
    """,
    "bound": """
        evaluated = []
        def bound():
            evaluated.append("bound")
            return int
        def f[T: (bound()), U: (int, str)](x):
            return evaluated[:], T.__bound__, U.__constraints__, T.__bound__, T.__name__, T.__covariant__
        return f(1), evaluated
    """,
    "bound that is missing": """
        def f[T: missing](x):
            return tried(lambda: T.__bound__), tried(lambda: T.other)
        return f(1)
    """,
    "class": """
        class C[T]:
            x: T
            def m[U](self, a: T, b: U) -> tuple[T, U]:
                return a, b
        class D(C[int]):
            pass
        return C[int]().m(1, 2), C.__parameters__, len(D.__mro__), D().m(3, 4), C[int].__args__, C.m.__type_params__, C.__annotations__
    """,
    "scopes": """
        T = 5
        class A:
            T = 3
            def f[T](self):
                return T
            def g(self):
                return A.T, T
        def outer[B](b: B):
            def inner[C](c: C) -> tuple[B, C]:
                return B, C, b, c
            return inner(2)
        return A().f(), A().g(), outer(1), [T for T in range(2)], T
    """,
    "decorator": """
        def pair(function):
            return function, function.__type_params__
        @pair
        def f[T](x):
            return x
        return f[0](2), f[1]
    """,
    "type statement": """
        type X[T] = list[T]
        type Missing = missing
        return X[int].__value__, X[int].__args__, X[int].__origin__ is X, repr(X), tried(lambda: Missing.__value__), Missing.__type_params__
    """,
    "f-strings": """
        names = {"a": 1.5}
        return f"{names["a"]}", f"{'\\n'.join(['x', 'y'])}", f"{f"{f"{1 + 1}"}"}", f"{names["a"]:{".2f"}}", f"{names!r:>{14}}", f"{names["a"]=}"
    """,
}


def made(name: str) -> Callable[[], Any]:
    text = "def program():\n" + textwrap.indent(textwrap.dedent(PROGRAMS[name]), "    ")
    filename = f"<{name}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    namespace: dict[str, Any] = {"__name__": __name__, "tried": tried}
    exec(compile(text, filename, "exec"), namespace)
    return namespace["program"]  # type: ignore[no-any-return]


def is_known() -> bool:
    try:
        compile("type X = int", "", "exec")
    except SyntaxError:
        return False
    return True


@pytest.mark.skipif(not is_known(), reason="syntax of a newer Python")
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    agree_in_text(made(name))


def test_own_attributes_of_a_type_variable():
    """They have no `__dict__` that a guard could look at in Python 3.12."""
    agree_in_text(reads_own_attribute)


def reads_own_attribute():
    STATE.append(len(STATE))
    VARIABLE.attribute = len(STATE) % 2
    return VARIABLE.attribute


VARIABLE = TypeVar("VARIABLE")
STATE: list[int] = []
