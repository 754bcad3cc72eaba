"""eval(), exec() and compile() of texts that the trace knows: their code is traced, with the dicts of variables that they are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import framejit

FACTOR = 3


def same(function: Callable[..., Any], *args: Any, fullgraph: bool = True) -> None:
    framejit.reset()
    called = framejit.compile(function, backend="eager", fullgraph=fullgraph)
    expected = function(*args)
    for _ in range(2):
        assert repr(called(*args)) == repr(expected)
    assert framejit.statistics()["internal_errors"] == 0


def test_a_text_reads_the_variables_of_the_function_and_its_globals():
    def program(x):
        y = 2
        return eval("x * y + FACTOR"), eval(" [FACTOR + i for i in (1, 2)]"), eval("(lambda a: a + FACTOR)(1)")

    same(program, torch.ones(2))


def test_dicts_of_variables():
    def program():
        outer, inner = {"a": 1}, {"b": 3}
        return eval("a + b", outer, inner), sorted(outer), sorted(inner), eval("a", {"a": 5})

    same(program)


def test_functions_and_classes_that_a_text_defines():
    def program(x):
        names = {"__name__": "made", "k": 2}
        exec("def f(x):\n    return x * k\nclass A:\n    size = k + 1\n    def get(self): return self.size, k\n", names)
        names["k"] = 4
        return names["f"](x), names["A"]().get(), names["f"].__module__, names["A"].__module__, names["f"].__globals__ is names

    same(program, torch.ones(2))


def test_functions_of_a_text_that_leave_have_their_globals():
    @framejit.compile(backend="eager", fullgraph=True)
    def program():
        names = {"__name__": "made"}
        exec("def f():\n    return k\nk = 1", names)
        return names

    names = program()
    names["k"] = 7
    assert names["f"]() == 7 and names["f"].__module__ == "made" and names["f"].__globals__ is names and program()["f"]() == 1


def test_functions_of_a_text_that_break():
    def program(x):
        names = {"framejit": framejit}
        exec("def f(x):\n    y = x + 1\n    framejit.graph_break()\n    return y * k\ndef g():\n    yield 1\n    yield k\nk = 3", names)
        waiting = names["g"]()
        first = next(waiting)
        return names["f"](x), first, list(waiting)

    same(program, torch.ones(2), fullgraph=False)


def test_code_objects():
    def program():
        names = {"q": 4}
        exec(compile("z = 1\nw = z + q", "<text>", "exec"), names)
        return names["w"], eval(compile("q + 1", "<text>", "eval"), names), compile("1", "<text>", "eval").co_filename

    same(program)


def test_builtins_are_those_of_the_dict():
    def program():
        try:
            eval("len([1])", {"__builtins__": {}})
        except NameError as error:
            return str(error), eval("len([1])", {"__builtins__": {"len": len}}), "__builtins__" in {}

    same(program)


def test_class_statements_without_the_builtin():
    def program():
        try:
            exec("class A: pass", {"__builtins__": {}})
        except NameError as error:
            return str(error)

    same(program)


def test_names_in_the_body_of_a_class():
    def program():
        class Made:
            a = 1
            names = sorted(locals())
            b = eval("a + 1")
            exec("c = b + 1")

        return Made.names, Made.b, Made.c

    same(program)


def test_a_change_of_a_text_or_of_what_it_reads_is_seen():
    @framejit.compile(backend="eager")
    def program(text, names):
        return eval(text, names)

    assert program("a + 1", {"a": 1}) == 2
    assert program("a + 1", {"a": 5}) == 6
    assert program("a + 2", {"a": 5}) == 7


@pytest.mark.parametrize("text", ["1 +", "x =", "a b", "def f(:", "\0", "x = 1\n  y", "(", "f'{a b}'", "return"])
@pytest.mark.parametrize("evaluate", [eval, exec, lambda text: compile(text, "<of ours>", "eval"), lambda text: compile(text, "ours.py", "exec")])
def test_errors_in_a_text_are_the_compilers(text, evaluate):
    def program():
        try:
            evaluate(text)
        except SyntaxError as error:
            return type(error), error.args, error.msg, error.lineno, error.offset, error.text, error.filename, error.end_lineno
        except ValueError as error:
            return type(error), error.args

    same(program)


def test_texts_that_bind_variables_of_a_function_run_natively():
    def program():
        exec("made = 3")
        return "made" in locals()

    same(program, fullgraph=False)


def test_globals_that_a_text_sets():
    def program():
        exec("global set_by_text\nset_by_text = 5")
        return set_by_text  # noqa: F821

    same(program, fullgraph=False)


@pytest.mark.parametrize("text", ["def f(a):\n    global a", "f(", "return 1", "x = [(yield 1) for i in ()]", "del f()", "'abc"])
def test_places_of_errors_in_texts(text):
    def f():
        try:
            compile(text, "<text>", "exec")
        except SyntaxError as error:
            return error.args, error.msg, error.filename, error.lineno, error.offset, error.text, error.end_lineno, error.end_offset
        return None

    expected = f()
    assert expected is not None and framejit.compile(f, backend="eager", fullgraph=True)() == expected


def test_single_statements():
    def f():
        variables: dict[str, Any] = {}
        exec(compile("x = 1 + 1", "<text>", "single"), variables)
        try:
            compile("x\ny", "<text>", "single")
        except SyntaxError as error:
            return variables["x"], str(error)
        return None

    assert framejit.compile(f, backend="eager", fullgraph=True)() == f()


def test_shown_values_of_single_statements(capsys):
    f = lambda: exec(compile("1 + 1", "<text>", "single"))
    for call in (f, framejit.compile(f, backend="eager")):
        call()
        assert capsys.readouterr().out == "2\n"
