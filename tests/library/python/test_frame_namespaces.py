"""globals(), locals() and dir() in compiled code."""

from __future__ import annotations

import math
import types

import pytest
import torch
from agreement import agree

import framejit

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


def handed_back(x):
    def inner(a, *rest, b=2, **more):
        more = {**more, "z": a}
        return locals()

    return inner(x, 1, c=x), (lambda y, z=3: locals())(x)


def read_globals(x):
    return x * globals()["FACTOR"], "nothing" in globals(), globals().get("nothing", 4)


PROGRAMS = [an_item, a_look, sorted_names, a_copy, merged, formatted, in_a_called_function, handed_back, read_globals, held, iterated]


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


class Named:
    shared = 1

    def __init__(self):
        self.own = 2


class NamedWithSlots(Named):
    __slots__ = ("slot",)


class Meta(type):
    def __dir__(cls):
        return ["m", "a"]


class NamedByMeta(metaclass=Meta):
    pass


class NamedByMethod:
    def __dir__(self):
        return ["b", "c", "a"]


class NamedByNothing:
    def __dir__(self):
        return 7


class OtherDict:
    @property
    def __dict__(self):
        return {"z": 1}


NAMED = [Named(), NamedWithSlots(), NamedByMeta, NamedByMeta(), NamedByMethod(), NamedByNothing(), Named, type, 3, None, [], math, torch.nn.Linear(2, 3)]


@pytest.mark.parametrize("obj", NAMED, ids=lambda obj: type(obj).__name__)
def test_names_of_an_object(obj):
    def f():
        try:
            return dir(obj), obj.__dir__() if not isinstance(obj, type) else type.__dir__(obj)
        except TypeError as error:
            return str(error)

    assert framejit.compile(f, backend="eager", fullgraph=True)() == f()


def test_names_of_an_object_whose_dict_is_an_attribute():
    compiled = framejit.compile(lambda obj: dir(obj), backend="eager")
    assert compiled(OtherDict()) == dir(OtherDict())


def test_names_that_change():
    compiled = framejit.compile(lambda obj: dir(obj), backend="eager", fullgraph=True)
    obj = Named()
    changes = [lambda: setattr(obj, "added", 1), lambda: setattr(Named, "later", 1), lambda: delattr(Named, "later"), lambda: delattr(obj, "added")]
    for change in (lambda: None, *changes):
        change()
        assert compiled(obj) == dir(obj)


def test_names_of_what_the_trace_makes():
    def f():
        class Made(Named):
            z = 1

        made = Made()
        made.w = 1
        return dir(Made), dir(made), made.__dir__()

    assert framejit.compile(f, backend="eager", fullgraph=True)() == f()


def test_names_of_a_module_that_changes():
    module = types.ModuleType("module")
    compiled = framejit.compile(lambda: dir(module), backend="eager", fullgraph=True)
    for change in (lambda: None, lambda: setattr(module, "a", 1), lambda: setattr(module, "__dir__", lambda: ["q", "p"]), lambda: delattr(module, "__dir__")):
        change()
        assert compiled() == dir(module)


def test_names_of_odd_modules_and_classes():
    class Module(types.ModuleType):
        __dict__ = property(lambda self: "no dict")

    class Wrapper:
        def __init__(self, obj):
            self.obj = obj

        def __len__(self):
            return len(self.obj)

        def __getitem__(self, key):
            return Wrapper(self.obj[key])

        def __getattr__(self, name):
            return Wrapper(getattr(self.obj, name))

    class Wrapped:
        __class__ = property(lambda self: Wrapper(type(self)))

    def program(obj):
        try:
            return dir(obj)
        except TypeError as error:
            return str(error)

    for obj in (Module("m"), Wrapped(), Wrapper(3)):
        assert framejit.compile(program, backend="eager")(obj) == program(obj)
