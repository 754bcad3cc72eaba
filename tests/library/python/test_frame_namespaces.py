"""globals() and locals() in compiled code."""

from __future__ import annotations

import pytest
import torch
from agreement import agree

FACTOR = 3


def an_item(x):
    y = x * 2
    return locals()["y"] + 1


def a_look(x, name="y"):
    found = name in locals()
    y = x * 2
    return found, name in locals(), "z" in locals(), locals().get("y")


def sorted_names(x):
    y, z = x + 1, x * 2
    del y
    return sorted(locals())


def a_copy(x):
    def inner():
        return z

    y, z = x + 1, x * 2
    return dict(locals()), inner()


def merged(x):
    def take(x, y, **others):
        return x * y, sorted(others)

    y, more = 2, 3
    return take(**locals())


def formatted(x):
    y, more = 2, 3
    return x, "{y} {more}".format(**locals())


def copied_twice(x):
    y = x * 2
    first = list(locals())
    return first, list(locals())


def held(x):
    y = x + 1
    variables = locals()
    z = y * 2
    variables["new"] = z
    return variables, sorted(variables), "z" in variables


def iterated(x):
    y = x * 2
    return sum(value for name, value in locals().items() if name != "x")


def held_over_a_break(x):
    y = x + 1
    variables = locals()
    print(end="")
    y = y * 2
    return variables["y"], y, list(variables)


def in_a_called_function(x):
    def inner(a, *rest, b=2, **more):
        return {**locals()}

    return inner(x, 1, c=x)


def read_globals(x):
    return x * globals()["FACTOR"], "nothing" in globals(), globals().get("nothing", 4)


PROGRAMS = [an_item, a_look, sorted_names, a_copy, merged, formatted, in_a_called_function, read_globals, held, iterated]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_namespaces_that_are_asked_for_once_are_traced(program):
    agree(program, torch.ones(2))


def test_variables_are_held_over_a_break():
    agree(held_over_a_break, torch.ones(2), fullgraph=False)


def store_global(x):
    globals()["_stored"] = x * 2
    return globals().pop("_stored")


def test_globals_are_written():
    agree(store_global, torch.ones(2))
    assert "_stored" not in globals()


def kept(x):
    found = locals()
    y = x * 2
    locals()
    return sorted(found), y


@pytest.mark.parametrize("program", [kept, copied_twice], ids=lambda program: program.__name__)
def test_variables_that_are_looked_at_again_run_as_written(program):
    agree(program, torch.ones(2), fullgraph=False)
