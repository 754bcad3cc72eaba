"""Globals and builtins of functions: subclasses of dict with methods of their own, and builtins that aren't the usual ones."""

from __future__ import annotations

import collections
from typing import Any

import pytest
from agreement import tried

import framejit


class Missing(dict):
    def __missing__(self, key: str) -> Any:
        return len(key)


class Raises(dict):
    def __missing__(self, key: str) -> Any:
        raise ValueError(key)


class Refuses(dict):
    def __missing__(self, key: str) -> Any:
        raise KeyError(key)


class Gives(dict):
    def __getitem__(self, key: str) -> Any:
        return "given" if key == "x" else dict.__getitem__(self, key)


class Upper(dict):
    def __missing__(self, key: str) -> Any:
        return key.upper()


OWN_BUILTINS = {"len": lambda x: 42}
NAMESPACES = {
    "missing": lambda: Missing(x=1),
    "raises": lambda: Raises(x=1, len=len),
    "refuses": lambda: Refuses(x=1),
    "gives": lambda: Gives(x=1),
    "ordered": lambda: collections.OrderedDict(x=1),
    "own builtins": lambda: {"x": 1, "__builtins__": OWN_BUILTINS},
    "builtins with __missing__": lambda: {"x": 1, "__builtins__": Upper(len=len)},
    "missing and builtins": lambda: Missing(x=1, __builtins__=OWN_BUILTINS),
}
PROGRAMS = (
    "lambda: x",
    "lambda: (x, abcd)",
    "lambda: len([])",
    "lambda: abs(-3)",
    "lambda: (lambda: (x, len([])))()",
    "lambda: (lambda: abs(-3))()",
    "lambda: [len([]) for _ in (x,)]",
    "lambda: next(len([]) for _ in (x,))",
)


@pytest.mark.parametrize("name", NAMESPACES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_names_are_looked_up_as_by_the_namespace(program, name):
    function = eval(program, NAMESPACES[name]())
    expected = tried(function)
    compiled = framejit.compile(function, backend="eager")
    assert tried(compiled) == expected
    assert tried(compiled) == expected


def test_globals_is_the_namespace_itself():
    function = eval("lambda: (type(globals()), globals())", Missing(globals=globals, type=type))
    cls, namespace = framejit.compile(function, backend="eager")()
    assert cls is Missing and namespace is function.__globals__


def test_what_missing_reads_is_guarded():
    class Counts(dict):
        base = 1

        def __missing__(self, key: str) -> int:
            return self.base + len(key)

    function = eval("lambda: ab + abc", Counts())
    compiled = framejit.compile(function, backend="eager")
    assert compiled() == 7
    Counts.base = 10
    assert compiled() == 25
    function.__globals__["ab"] = 100
    assert compiled() == 113


def test_globals_are_stored_and_deleted_past_the_methods_of_the_class():
    class Watched(dict):
        def __setitem__(self, key: str, value: Any) -> None:
            raise AssertionError(key)

        __delitem__ = __setitem__  # type: ignore[assignment]

    namespace = Watched(q=1, __builtins__=__builtins__)
    local: dict[str, Any] = {}
    exec("def f():\n    global q, r\n    r = q + 1\n    del q\n    return r\n", namespace, local)
    assert framejit.compile(local["f"], backend="eager")() == 2
    assert dict.__contains__(namespace, "r") and not dict.__contains__(namespace, "q")
