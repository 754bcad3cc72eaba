"""runtime_c/direct.c, arguments.c and program.c: calls without a frame: how arguments are bound, what the graph is given, what is built."""

from __future__ import annotations

import abc
import contextlib
import dis
import functools
import gc
import inspect
import sys
import traceback
import weakref
from collections import OrderedDict
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest
from handmade import Token, guard_tree, n_slots, never, replacement, run_python
from hypothesis import given, settings
from hypothesis import strategies as st
from together import together

from framejit import _runtime
from framejit._runtime import CompiledFunction, Entry

Operations = tuple[tuple[str, int], ...]


def direct_entry(
    function: FunctionType,
    operations: Operations,
    graph: Callable[..., Any] | None = None,
    boxed: bool = True,
    n_outputs: int = 0,
    constants: tuple[Any, ...] = (),
    captures: tuple[int, ...] = (),
    n_inputs: int = 0,
    types: tuple[type, ...] = (),
    body: str = "return 'by a frame'",
    calls: tuple[int, ...] | None = None,
) -> Entry:
    n_calls = (graph is not None) + sum(name == "call" for name, _ in operations)
    described = (graph, None, boxed, n_outputs, (0,) * n_calls if calls is None else calls, operations, None, constants)
    return Entry(replacement(function, body), guard_tree(types, captures), n_inputs, direct=described)


def direct(operations: Operations, *args: Any, **options: Any) -> Callable[[FunctionType], CompiledFunction]:
    """A decorator: the function has one entry, which needs no frame."""

    def decorate(function: FunctionType) -> CompiledFunction:
        made = CompiledFunction(function, never)
        made.add(direct_entry(function, operations, *args, **options))
        return made

    return decorate


def all_slots(function: FunctionType) -> CompiledFunction:
    """Returns what is in the function's argument slots."""
    slots = tuple(range(n_slots(function.__code__)))
    operations = (*(("capture", slot) for slot in slots), ("tuple", len(slots)))
    return direct(operations, captures=slots, body="return captures")(function)


def outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except TypeError as error:
        return str(error)


# ---- arguments ----

KINDS = [inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY]


@st.composite
def functions(draw: st.DrawFn) -> FunctionType:
    """A function with any parameters that returns its argument slots."""
    numbers = [draw(st.integers(0, 2)) for _ in KINDS]
    star, more = draw(st.booleans()), draw(st.booleans())
    parameters, names, default = [], [], False
    for kind, number in zip(KINDS, numbers, strict=True):
        if kind is inspect.Parameter.KEYWORD_ONLY and (number or star):
            parameters.append("*rest" if star else "*")
        for _ in range(number):
            name = f"p{len(names)}"
            optional = draw(st.booleans())
            default = optional or (default and kind is not inspect.Parameter.KEYWORD_ONLY)
            parameters.append(f"{name}={-len(names)}" if default or optional else name)
            default = default and kind is not inspect.Parameter.KEYWORD_ONLY
            names.append(name)
        if kind is inspect.Parameter.POSITIONAL_ONLY and number:
            parameters.append("/")
    slots = [*names, *(["rest"] if star else []), *(["more"] if more else [])]
    if more:
        parameters.append("**more")
    closed = draw(st.sampled_from(["", "\n    def inner(): return " + ", ".join(slots)])) if slots else ""
    namespace: dict[str, Any] = {}
    exec(f"def f({', '.join(parameters)}):{closed}\n    return ({''.join(slot + ', ' for slot in slots)})", namespace)
    return namespace["f"]


calls = st.tuples(
    st.lists(st.integers(1, 9), max_size=5), st.dictionaries(st.sampled_from(["p0", "p1", "p2", "p3", "p4", "rest", "q"]), st.integers(10, 19))
)


@settings(max_examples=600, deadline=None)
@given(functions(), st.lists(calls, min_size=1, max_size=6))
def test_arguments_are_bound_as_by_a_frame(function, several):
    ours = all_slots(function)
    fits = 0
    for args, kwargs in several:
        expected = outcome(lambda: function(*args, **kwargs))
        assert outcome(lambda: ours(*args, **kwargs)) == expected
        fits += isinstance(expected, tuple)
    assert ours.entries[0].direct_hits == ours.entries[0].hits == fits


def test_names_that_are_equal_without_being_the_same_object():
    @all_slots
    def f(first, *, second=2, **more):
        pass

    assert f(**{"".join(["fir", "st"]): 1, "".join(["se", "cond"]): 5, "".join(["th", "ird"]): 6}) == (1, 5, {"third": 6})
    assert f.entries[0].direct_hits == 1


def test_a_subclass_of_str_as_a_name_is_left_to_cpython():
    class Name(str):
        pass

    @all_slots
    def f(a, b):
        pass

    assert f(**{"b": 2, Name("a"): 1}) == (1, 2)
    assert f.entries[0].direct_hits == 0 and f.entries[0].hits == 1


def test_defaults_are_read_at_each_call():
    @all_slots
    def f(a, b=2, *, c=3):
        pass

    assert f(1) == (1, 2, 3)
    f.__defaults__ = (5, 6)
    assert f() == (5, 6, 3)
    f.__kwdefaults__ = {"c": 7}
    assert f(0) == (0, 6, 7)
    f.__kwdefaults__["c"] = 8
    assert f(0) == (0, 6, 8)
    f.__kwdefaults__ = f.__defaults__ = None
    with pytest.raises(TypeError, match="missing 2 required positional arguments: 'a' and 'b'"):
        f(c=1)
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'c'"):
        f(1, 2)
    assert f(1, 2, c=3) == (1, 2, 3)
    assert f.entries[0].direct_hits == 5


def test_another_code_object_is_seen():
    compiled = []

    def f(x):
        return "old"

    g = CompiledFunction(f, lambda function, arguments: compiled.append(function.__code__))
    g.add(direct_entry(f, (("constant", 0),), constants=("compiled",)))
    assert g(1) == "compiled"
    f.__code__ = (lambda x: "new").__code__
    assert g(1) == "new" and compiled == [f.__code__] and g.entries == ()
    f.__code__ = (lambda x: (yield x)).__code__
    assert list(g(1)) == [1]


def test_more_parameters_than_are_bound_here():
    names = [f"a{i}" for i in range(100)]
    namespace: dict[str, Any] = {}
    exec(f"def f({', '.join(names)}): pass", namespace)
    f = all_slots(namespace["f"])
    assert f(*range(100)) == tuple(range(100))
    assert f.entries[0].direct_hits == 0 and f.entries[0].hits == 1


def test_methods_and_their_arguments():
    class Item:
        @all_slots
        def method(self, x, *, key=1):
            pass

    item = Item()
    assert item.method(1) == Item.method(item, 1) == (item, 1, 1)
    assert item.method(x=2, key=3) == (item, 2, 3)
    assert Item.__dict__["method"].entries[0].direct_hits == 3


# ---- look-up ----


def test_entries_with_and_without_a_frame_on_one_function():
    def f(x):
        return "eager"

    g = CompiledFunction(f, lambda function, arguments: None)
    of_int = direct_entry(f, (("constant", 0),), constants=("int",), types=(int,))
    of_str = Entry(replacement(f, "return 'str', inputs, captures"), guard_tree((str,), (0,)), 0)
    as_written = Entry(None, guard_tree((float,)), 0)
    g.add(of_str), g.add(as_written), g.add(of_int)
    for _ in range(3):
        assert [g(1), g("a"), g(1.5), g(2), g(b"")] == ["int", ("str", [], ("a",)), "eager", "int", "eager"]
    assert (of_int.hits, of_str.hits, as_written.hits) == (6, 3, 3)
    assert (of_int.direct_hits, of_str.direct_hits, as_written.direct_hits) == (6, 0, 0)
    g.remove(of_int)
    assert g(1) == "eager"


def test_a_call_without_entry_is_compiled_once():
    calls = []

    @lambda function: CompiledFunction(function, lambda f, arguments: calls.append(arguments))
    def f(x):
        return "eager"

    f.add(direct_entry(f.function, (("constant", 0),), constants=("int",), types=(int,)))
    assert f("a") == "eager" and calls == [("a",)]


@pytest.mark.parametrize("when", range(8))
def test_a_collection_during_the_search_may_change_anything(when):
    """The function gets other code, with another number of parameters, at each point where a garbage collection can run."""

    def f(x, *rest):
        return "old"

    def other(x, y=1, *rest):
        return "new"

    g = CompiledFunction(f, lambda function, arguments: None)
    g.add(direct_entry(f, (("constant", 0),), constants=("int",), types=(int,)))
    many = 40  # small tuples come from a list of free ones, without a collection
    g.add(Entry(replacement(f, "return 'str', len(inputs), len(captures)"), guard_tree((str,), (0,) * many), many // 2))
    left = when

    def change(phase, info):
        nonlocal left
        if phase == "start":
            left -= 1
            if left < 0:
                f.__code__ = other.__code__
                f.__defaults__ = other.__defaults__

    thresholds = gc.get_threshold()
    gc.callbacks.append(change)
    gc.set_threshold(1)
    try:
        result = g("a", *"b" * many)
    finally:
        gc.callbacks.remove(change)
        gc.set_threshold(*thresholds)
    assert result in (("str", many // 2, many // 2), "new", "old")  # old: the frame was there already


# ---- what runs ----


def test_a_boxed_graph_gets_a_list_that_it_may_empty():
    seen = []

    def graph(inputs):
        seen.append((type(inputs), list(inputs)))
        inputs.clear()
        return (7,)

    @direct((("output", 0),), graph, True, 1, captures=(1, 0, 2), n_inputs=2)
    def f(a, b, c):
        pass

    assert f(1, 2, 3) == 7
    assert seen == [(list, [2, 1])]


@pytest.mark.parametrize("n", [0, 1, 5, 100])
def test_other_graphs_get_arguments(n):
    names = [f"a{i}" for i in range(min(n, 30))]
    namespace: dict[str, Any] = {}
    exec(f"def f({', '.join(names)}): pass", namespace)
    slots = tuple(i % max(len(names), 1) for i in range(n))

    class Graph:
        def method(self, *inputs):
            return [inputs]

    for graph in (lambda *inputs: [inputs], Graph().method):
        f = direct((("output", 0),), graph, False, 1, captures=slots, n_inputs=n)(namespace["f"])
        assert f(*range(len(names))) == slots


def test_what_the_graph_may_return():
    returned: list[Any] = []

    @direct((("output", 1), ("output", 0), ("tuple", 2)), lambda inputs: returned[0], True, 2)
    def f():
        pass

    class Pair(tuple):
        pass

    for value in ((1, 2), [1, 2], Pair((1, 2)), {1: 0, 2: 0}, iter((1, 2))):
        returned[:] = [value]
        assert f() == (2, 1)
    for value, text in [((1,), "not enough values to unpack (expected 2, got 1)"), ((1, 2, 3), "too many values to unpack (expected 2)")]:
        returned[:] = [value]
        with pytest.raises(ValueError, match="unpack") as error:
            f()
        assert str(error.value) == text
    returned[:] = [3]
    with pytest.raises(TypeError, match="not iterable"):
        f()
    assert direct((("constant", 0),), lambda inputs: "ignored", constants=(None,))(lambda: 1)() is None


def test_what_is_refused():
    returned: list[Any] = []
    refused = []

    def break_graph(result):
        refused.append(result)
        if result is not None:
            raise KeyError("refused")

    def f():
        pass

    class Pair(tuple):
        pass

    for operations, n in [((("output", 1), ("output", 0), ("tuple", 2)), 2), ((("constant", 0),), 0)]:
        g = CompiledFunction(f, never)
        g.add(Entry(replacement(f, "pass"), guard_tree(), 0, direct=(lambda inputs: returned[0], break_graph, True, n, (0,), operations, None, ("c",))))
        for right in ((1, 2)[:n], [1, 2][:n], Pair((1, 2)[:n])):
            returned[:] = [right]
            assert g() == ((2, 1) if n else "c")
        for wrong in ((1,), iter((1, 2)), {1: 2, 3: 4}, "ab"):
            returned[:] = [wrong]
            with pytest.raises(KeyError, match="refused"):
                g()
            assert refused.pop() is wrong
        returned[:] = [None]
        with pytest.raises(SystemError, match="not refused"):
            g()


def test_what_can_be_built():
    operations = (
        *(("output", 0), ("tuple", 1), ("copy", 0), ("store", 0), ("capture", 0), ("load", 0), ("list", 3)),
        *(("constant", 0), ("load", 0), ("constant", 1), ("list", 0), ("output", 1), ("append", 0), ("list_to_tuple", 0), ("dict", 2)),
        *(("constant", 2), ("constant", 3), ("insert", 0), ("tuple", 2)),
    )

    @direct(operations, lambda inputs: ("o0", "o1"), True, 2, constants=("k0", "k1", "k2", 4), captures=(0,))
    def f(x):
        pass

    value: list[Any] = []
    built, table = f(value)
    assert built == [("o0",), [], ("o0",)] and built[0] is built[2] is table["k0"] and built[1] is value
    assert table == {"k0": ("o0",), "k1": ("o1",), "k2": 4} and list(table) == ["k0", "k1", "k2"]
    assert f(value)[0] is not built


def test_calls_of_c_functions():
    operations = (
        *(("constant", 0), ("call", 0), ("store", 0), ("constant", 1), ("load", 0), ("capture", 0), ("call", 2), ("pop", 0)),
        *(("constant", 2), ("call", 0), ("store", 1), ("capture", 0), ("load", 1), ("constant", 3), ("set_item", 0), ("load", 0), ("load", 1), ("tuple", 2)),
    )

    @direct(operations, constants=(list, list.extend, dict, "key"), captures=(0,))
    def f(x):
        pass

    for _ in range(2):
        assert f((1, 2)) == ([1, 2], {"key": (1, 2)})


def test_items_put_under_constant_keys():
    """Into dicts that variables hold, in an order of their own; a subclass's method is called, and may raise."""

    class Refuses(dict):
        def __setitem__(self, key, value):
            if value is None:
                raise KeyError(key)
            super().__setitem__(key, [value])

    @direct(
        (
            *(("constant", 0), ("call", 0), ("store", 0), ("constant", 1), ("call", 0), ("store", 1)),
            *(("capture", 0), ("load", 1), ("constant", 2), ("set_item", 0), ("constant", 3), ("load", 0), ("constant", 2), ("set_item", 0)),
            *(("load", 0), ("load", 1), ("tuple", 2)),
        ),
        constants=(dict, Refuses, "key", 4),
        captures=(0,),
    )
    def f(x):
        pass

    value = object()
    held = sys.getrefcount(value)
    assert f(value) == ({"key": 4}, {"key": [value]})
    with pytest.raises(KeyError, match="key"):
        f(None)
    assert sys.getrefcount(value) == held


def test_an_error_of_a_call_is_at_its_place():
    def f(x):
        pass

    code = replacement(f, "list()\nlist.extend(\n    [], captures[0])")
    offsets = tuple(i.offset for i in dis.get_instructions(code) if i.opname == "CALL")
    operations = (("constant", 0), ("call", 0), ("pop", 0), ("constant", 1), ("list", 0), ("capture", 0), ("call", 2))
    g = CompiledFunction(f, never)
    g.add(Entry(code, guard_tree((), (0,)), 0, direct=(None, None, True, 0, offsets, operations, None, (list, list.extend))))
    assert g([1]) is None
    with pytest.raises(TypeError, match="not iterable") as caught:
        g(1)
    assert [entry.lineno for entry in traceback.extract_tb(caught.value.__traceback__)][-1] == 3 and g.entries[0].direct_hits == 2


def test_an_entry_that_splits_the_call():
    def f(x):
        return "eager"

    rest = direct((("capture", 0), ("constant", 0), ("tuple", 2)), captures=(0,), constants=("rest",))(lambda state: None)
    described = (lambda inputs: (inputs[0] + 1,), None, True, 1, (0,), (("output", 0),), None, ())
    split = Entry(replacement(f, "return 0"), guard_tree((int,), (0,)), 1, None, lambda value: (0, [value]), (rest,), described)
    g = CompiledFunction(f, never)
    g.add(split)
    assert g(1) == ([2], "rest")
    assert split.direct_hits == rest.entries[0].direct_hits == 1


class Plain:
    pass


class Counted:
    """A class with methods of its own for all that programs call."""

    made = 0

    def __new__(cls):
        cls.made += 1
        return super().__new__(cls)

    def __setattr__(self, name, value):
        raise AssertionError(name)

    def __getattribute__(self, name):
        return "by its class" if name in ("first", "__dict__") else super().__getattribute__(name)


class Abstract(abc.ABC):
    @abc.abstractmethod
    def method(self):
        """Must be given."""


class Slotted:
    __slots__ = ("first",)


class Described:
    @property
    def first(self):
        raise LookupError

    @first.setter
    def first(self, value):
        raise LookupError


class Ordered(OrderedDict):
    def __setitem__(self, key, value):
        raise AssertionError(key)


MADE = (Plain, Counted, Slotted, Described, Ordered, OrderedDict, dict, int, lambda: Plain)
CALLS: list[tuple[Any, Callable[[], Any], tuple[Any, ...]]] = [
    *[(object.__new__, lambda cls=cls: cls, ()) for cls in (Plain, Counted, Abstract, Slotted, OrderedDict, int, type, 3)],
    *[(object.__getattribute__, make, (name,)) for make in MADE for name in ("__dict__", "first", "__class__", 3)],
    *[(object.__setattr__, make, (name, 1)) for make in MADE for name in ("first", "other", 3)],
    *[(OrderedDict.__setitem__, make, (key, 1)) for make in MADE for key in ("first", [])],
]  # fmt: skip


def does(call, make, others):
    """Return a call's result or exception, and the content of its first argument afterwards."""
    first = make()
    try:
        given = call(first, *others)
    except Exception as error:
        given = type(error), str(error)
    kept = [getattr(first, name, None) for name in ("first", "other")] if type(first) in (Plain, Slotted, OrderedDict) else None
    return given if isinstance(given, (tuple, dict, type, type(None))) else type(given), kept, dict(first) if isinstance(first, dict) else None


@pytest.mark.parametrize("function, make, others", CALLS)
def test_calls_that_make_objects_do_what_the_functions_do(function, make, others):
    n = 1 + len(others)
    operations = (("constant", 0), *(("capture", i) for i in range(n)), ("call", n))
    called = direct(operations, constants=(function,), captures=tuple(range(n)))((lambda a: None, lambda a, b: None, lambda a, b, c: None)[n - 1])
    assert does(called, make, others) == does(function, make, others)
    assert called.entries[0].direct_hits == 1


def test_malformed_programs_are_refused():
    def f(a):
        pass

    def entry(operations, graph=None, n_outputs=0, calls=(), code=True, recovery=None):
        made_of = (graph, None, True, n_outputs, calls, operations, recovery, ("c",))
        return Entry(replacement(f, "return 1") if code else None, guard_tree((), (0,)), 0, direct=made_of)

    wrong: list[Operations] = [
        *((), (("constant", 1),), (("constant", -1),), (("capture", 1),), (("output", 0),), (("nonsense", 0),), (("load", 0), ("tuple", 1))),
        *((("constant", 0), ("constant", 0)), (("constant", 0), ("tuple", 2)), (("constant", 0), ("store", 1), ("load", 1)), (("copy", 0),)),
        *((("constant", 0), ("dict", 1)), (("constant", 0), ("append", 0)), (("constant", 0), ("insert", 0)), (("tuple", -1),)),
        *((("constant", 0), ("dict", 2**62)), (("constant", 0), ("call", 1)), (("constant", 0), ("set_item", 0)), (("pop", 0),)),
    ]
    for operations in wrong:
        with pytest.raises(ValueError, match="direct program"):
            entry(operations)
    right = (("constant", 0),)
    for options in ({"n_outputs": 1}, {"graph": print, "n_outputs": -1}, {"code": False}, {"graph": 3}):
        with pytest.raises(ValueError, match="direct goes with code"):
            entry(right, **options)
    for calls in ((), (0, 0), (10**6,), (-2,)):
        with pytest.raises(ValueError, match="the place in the code of each call"):
            entry(right, print, calls=calls)
    with pytest.raises(TypeError):
        entry(right, print, calls=("0",))
    with pytest.raises(TypeError, match="must be a tuple"):
        Entry(replacement(f, "return 1"), guard_tree(), 0, direct=[])
    for recovery in ((3, (0,), print), (print, (0,), 3), (print, (1,), print), (print, (-1,), print)):
        with pytest.raises(ValueError, match="names two callables and captures"):
            entry(right, print, calls=(0, 0, 0), recovery=recovery)
    for recovery in (print, (print, (0,)), (print, 0, print), (print, ("0",), print)):
        with pytest.raises(TypeError):
            entry(right, print, calls=(0, 0, 0), recovery=recovery)
    with pytest.raises(ValueError, match="the place in the code of each call"):
        entry(right, print, calls=(0,), recovery=(print, (0,), print))
    assert entry(right, print, calls=(0, 0, 0), recovery=(print, (0,), print)).direct
    with pytest.raises(TypeError):
        entry(("constant",))
    assert entry(right).direct and not Entry(None, guard_tree(), 0).direct


def test_containers_of_the_wrong_kind_raise():
    for operations in ((("constant", 0), ("constant", 0), ("append", 0)), (("constant", 0), ("list_to_tuple", 0))):
        with pytest.raises(SystemError):
            direct(operations, constants=(3,))(lambda: None)()


# ---- who watches frames sees them ----


def watched(by: str, call: Callable[[], object]) -> list[str]:
    seen: list[str] = []

    def note(frame, event, arg):
        if event == "call":
            seen.append(frame.f_code.co_name)

    switch = {"trace": sys.settrace, "profile": sys.setprofile}[by]
    switch(note)
    try:
        call()
    finally:
        switch(None)
    return seen


@pytest.mark.parametrize("by", ["trace", "profile"])
def test_tracers_and_profilers_see_the_frame(by):
    @direct((("constant", 0),), constants=(1,), body="return 1")
    def watched_function():
        pass

    assert watched_function() == 1
    assert "watched_function" in watched(by, watched_function)
    assert (watched_function.entries[0].hits, watched_function.entries[0].direct_hits) == (2, 1)
    watched_function()
    assert watched_function.entries[0].direct_hits == 2


def test_monitoring_tools_see_the_frame():
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is None:
        return  # a Python without sys.monitoring

    @direct((("constant", 0),), constants=(1,), body="return 1")
    def watched_function():
        pass

    seen = []
    monitoring.use_tool_id(3, "test")
    try:
        monitoring.register_callback(3, monitoring.events.PY_START, lambda code, offset: seen.append(code.co_name))
        monitoring.set_events(3, monitoring.events.PY_START)
        watched_function()
    finally:
        monitoring.set_events(3, 0)
        monitoring.free_tool_id(3)
    assert "watched_function" in seen and watched_function.entries[0].direct_hits == 0
    watched_function()
    assert watched_function.entries[0].direct_hits == 1


def test_the_hook_stays_down():
    @direct((("output", 0),), lambda inputs: (_runtime.hook_installed(),), True, 1)
    def f():
        pass

    assert f() is False


# ---- exceptions ----


def raising_graph(inputs):
    raise KeyError("from the graph")


def called_by(call: Callable[[], object]) -> traceback.StackSummary:
    with pytest.raises(KeyError, match="from the graph") as caught:
        call()
    return traceback.extract_tb(caught.value.__traceback__)


def offset_of_call(code: Any) -> int:
    return next(instruction.offset for instruction in dis.get_instructions(code) if instruction.opname == "CALL")


def test_an_error_of_the_graph_has_the_frame_that_the_code_would_have_had():
    def f(x):
        pass

    body = "inputs[0]\nreturn [\n    captures[0](inputs),\n]"
    by_frame = CompiledFunction(f, never)
    code = replacement(f, body)
    by_frame.add(Entry(code, guard_tree((), (0, 0)), 1))
    without = CompiledFunction(f, never)
    without.add(Entry(code, guard_tree((), (0, 0)), 1, direct=(raising_graph, None, True, 1, (offset_of_call(code),), (("output", 0),), None, ())))
    expected, found = called_by(lambda: by_frame(raising_graph)), called_by(lambda: without(raising_graph))
    assert [frame.name for frame in found][-2:] == ["f", "raising_graph"]
    for ours, theirs in zip(found[-2:], expected[-2:], strict=True):
        assert (ours.name, ours.filename, ours.lineno, ours.end_lineno, ours.colno, ours.end_colno) == (
            *(theirs.name, theirs.filename, theirs.lineno),
            *(theirs.end_lineno, theirs.colno, theirs.end_colno),
        )
    assert found[-2].lineno == 4 and found[-2].colno is not None
    assert without.entries[0].direct_hits == 1 and by_frame.entries[0].direct_hits == 0


def test_the_frame_of_an_error_is_a_frame():
    @direct((("output", 0),), raising_graph, True, 1)
    def f(x):
        pass

    with pytest.raises(KeyError) as caught:
        f(1)
    entry = caught.value.__traceback__.tb_next
    frame = entry.tb_frame
    assert frame.f_code.co_name == "f" and frame.f_globals is globals() and frame.f_back.f_code.co_name == sys._getframe().f_code.co_name
    assert not set(frame.f_locals.values()) and entry.tb_lineno == entry.tb_frame.f_lineno
    frame.clear()
    traceback.clear_frames(caught.value.__traceback__)
    assert "from the graph" in "".join(traceback.format_exception(caught.value))


def test_context_and_cause_are_those_of_the_graph():
    def graph(inputs):
        try:
            raise ValueError("inner")
        except ValueError:
            raise KeyError("from the graph") from None

    @direct((("output", 0),), graph, True, 1)
    def f():
        pass

    with pytest.raises(KeyError) as caught:
        try:
            raise IndexError("outer")
        except IndexError:
            f()
    assert isinstance(caught.value.__context__, ValueError) and isinstance(caught.value.__context__.__context__, IndexError)
    assert caught.value.__suppress_context__


def test_an_interrupt_reaches_calls_that_run_no_python():
    program = """
import collections, itertools, signal, sys
from test_runtime_direct import direct

@direct((("constant", 0),), constants=(1,))
def f(x):
    pass

signal.signal(signal.SIGALRM, signal.default_int_handler)
signal.setitimer(signal.ITIMER_REAL, 0.3)  # no other thread would get the GIL to send one
try:
    collections.deque(map(f, itertools.repeat(1, 10**9)), 0)
except KeyboardInterrupt as error:
    print("interrupted in", error.__traceback__.tb_next.tb_frame.f_code.co_name, f.entries[0].direct_hits > 1000)
"""
    assert run_python(program).strip() == "interrupted in f True"


def deepest_call(call: Callable[[int], object], deepest: list[int]) -> int:
    with contextlib.suppress(RecursionError):
        call(0)
    return deepest.pop()


@pytest.mark.usefixtures("own_evaluator")
@pytest.mark.parametrize("limit", [1000, 4000])
def test_recursion_is_as_deep_as_with_frames(limit):
    def graph(inputs):
        deepest[:] = [inputs[0]]
        return (again[0](inputs[0] + 1),)

    def f(n):
        pass

    again: list[Any] = []
    deepest: list[int] = []
    code = replacement(f, "return captures[0].graph(inputs)[0]")
    f.graph = graph
    found = []
    before = sys.getrecursionlimit()
    for form in (None, (graph, None, True, 1, (0,), (("output", 0),), None, ())):
        tree = _runtime.GuardTree([(_runtime.ACCESSORS[a], 0, x) for a, x in (("root", None), ("local", 0), ("frame_function", None))], [], [], [1, 2])
        again[:] = [CompiledFunction(f, never)]
        again[0].add(Entry(code, tree, 1, direct=form))
        sys.setrecursionlimit(limit)
        try:
            found.append(deepest_call(again[0], deepest))
        finally:
            sys.setrecursionlimit(before)
    assert abs(found[0] - found[1]) <= 1 and found[0] > limit // 3


# ---- lifetime ----


def test_arguments_are_released_before_the_graph_runs():
    """An object that only the call has held, here in the state that a split call hands over, is gone when the graph runs."""
    alive = []

    def graph(inputs):
        inputs.clear()
        gc.collect()
        alive.append(gone() is not None)
        return (1,)

    rest = direct((("output", 0),), graph, True, 1, captures=(0,), n_inputs=1)(lambda state: None)

    def f():
        return "eager"

    def step(value):
        nonlocal gone
        token = Token()
        gone = weakref.ref(token)
        return 0, token

    gone: Any = None
    g = CompiledFunction(f, never)
    g.add(Entry(replacement(f, "return 0"), guard_tree(), 0, None, step, (rest,)))
    assert g() == 1 and alive == [False]


def test_a_large_input_is_freed_by_a_graph_that_empties_its_list():
    class Holder:
        pass

    seen = []

    def graph(inputs):
        inputs.clear()
        seen.append(gone() is None)
        return (0,)

    def f(holder):
        pass

    tree = _runtime.GuardTree(
        [(_runtime.ACCESSORS["root"], 0, None), (_runtime.ACCESSORS["local"], 0, 0), (_runtime.ACCESSORS["index"], 1, 0)], [], [], [2]
    )
    g = CompiledFunction(f, never)
    g.add(Entry(replacement(f, "return 0"), tree, 1, direct=(lambda inputs: (held.clear(), graph(inputs))[1], None, True, 1, (0,), (("output", 0),), None, ())))
    held = [Holder()]
    gone = weakref.ref(held[0])
    assert g(held) == 0 and seen == [True]


def test_calls_keep_nothing():
    token = Token()
    boxed = direct((("output", 0), ("capture", 0), ("tuple", 2)), lambda inputs: [inputs.pop()], True, 1, captures=(0, 1), n_inputs=1)(
        lambda a, b=None, *rest, **more: None
    )
    unboxed = direct((("output", 0), ("capture", 0), ("list", 2)), lambda x: (x,), False, 1, captures=(0, 1), n_inputs=1)(
        lambda a, b=None, *rest, **more: None
    )
    failing = direct((("output", 0),), raising_graph, True, 1, captures=(0,), n_inputs=1)(lambda a: None)
    short = direct((("output", 0), ("output", 1), ("tuple", 2)), lambda x: (x,), True, 2, captures=(0,), n_inputs=1)(lambda a: None)

    def call() -> None:
        assert boxed(token, token, token, x=token) == (token, token)
        assert unboxed(token, b=token) == [token, token]
        with contextlib.suppress(KeyError):
            failing(token)
        with contextlib.suppress(ValueError):
            short(token)
        with contextlib.suppress(TypeError):
            short(token, token)

    for _ in range(100):
        call()
    gc.collect()
    count, blocks = sys.getrefcount(token), sys.getallocatedblocks()
    gc.disable()
    try:
        for _ in range(25_000):
            call()
    finally:
        gc.enable()
    assert sys.getrefcount(token) == count
    assert sys.getallocatedblocks() - blocks < 100
    assert boxed.entries[0].direct_hits == boxed.entries[0].hits == 25_100


def test_everything_may_die_while_the_graph_runs():
    holder: list[Any] = []

    def graph(inputs):
        holder[0].clear()
        del holder[:]
        gc.collect()
        return ("ran", 1)

    def f():
        return "eager"

    holder.append(CompiledFunction(f, never))
    holder[0].add(direct_entry(f, (("output", 0), ("output", 1), ("tuple", 2)), graph, True, 2))
    del f
    assert holder[0]() == ("ran", 1) and holder == []


def test_an_entry_and_its_graph_are_collected_together():
    def f():
        return "eager"

    def make():
        def graph(inputs):
            return (compiled,)

        compiled = direct((("output", 0),), graph, True, 1)(f)
        assert compiled() is compiled
        return weakref.ref(compiled), weakref.ref(compiled.entries[0]), weakref.ref(graph)

    references = make()
    gc.collect()
    assert [reference() for reference in references] == [None, None, None]


def test_threads_share_entries():
    def graph(inputs):
        return (inputs.pop() + 1,)

    @direct((("output", 0), ("capture", 0), ("tuple", 2)), graph, True, 1, captures=(0, 1), n_inputs=1, types=(int, int))
    def f(a, b):
        pass

    def work(shift):
        for i in range(5000):
            assert f(i, b=shift) == (i + 1, shift)

    together(*(functools.partial(work, shift) for shift in range(4)), interval=1e-5)
    assert f.entries[0].direct_hits == 20_000


@pytest.mark.slow
def test_under_the_debugging_allocator():
    program = "import pytest, sys; sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', %r, '-k', %r]))"
    assert " passed" in run_python(program % (__file__, "not (debugging or interrupt or keep)"), PYTHONMALLOC="debug")
