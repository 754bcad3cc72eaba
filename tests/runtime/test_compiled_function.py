"""runtime_c, CompiledFunction as an object: its attributes, binding, switches, threads, and other tools' hooks."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import threading
import time
import weakref

import pytest
import torch
from handmade import compiled, entry
from together import together

from framejit import _runtime
from framejit._runtime import CompiledFunction
from framejit.driver import torch_stance

# ---- as a function ----


@compiled("return 'compiled', captures", captures=(0,))
def at_module_level(x):
    """Documented."""
    return "eager"


def test_it_passes_for_the_function():
    f = at_module_level
    assert f.__name__ == "at_module_level" and f.__qualname__ == "at_module_level" and f.__module__ == __name__
    assert f.__doc__ == "Documented." and f.__wrapped__ is f.function and f.__code__ is f.function.__code__
    assert str(inspect.signature(f)) == "(x)" and inspect.getdoc(f) == "Documented."
    assert inspect.unwrap(f) is f.function
    assert pickle.loads(pickle.dumps(f)) is f and copy.deepcopy(f) is f and copy.copy(f) is f
    assert callable(f) and "at_module_level" in repr(f) and weakref.ref(f)() is f
    with pytest.raises(AttributeError):
        f.no_such_attribute
    with pytest.raises(AttributeError):
        f.function = None


def test_attributes_are_its_own_or_the_functions():
    def f(a, b=1):
        return a, b

    f.label = "on the function"
    g = CompiledFunction(f, lambda function, arguments: None)
    assert g.label == "on the function"
    g.mark = 3
    assert g.mark == 3 and g.__dict__ == {"mark": 3} and not hasattr(f, "mark")
    g.__defaults__ = (7,)
    assert f.__defaults__ == (7,) and g(1) == (1, 7)
    g.__name__ = "renamed"
    assert f.__name__ == "renamed"
    del g.mark
    assert not hasattr(g, "mark")


def test_methods():
    class Base:
        @compiled("return 'compiled', captures", captures=(0, 1))
        def method(self, x):
            return "eager"

        @classmethod
        @compiled("return 'compiled', captures", captures=(0, 1))
        def of_class(cls, x):
            return "eager"

        @staticmethod
        @compiled("return 'compiled', captures", captures=(0,))
        def static(x):
            return "eager"

        @property
        @compiled("return 'compiled', captures", captures=(0,))
        def value(self):
            return "eager"

        @compiled("return 'called', captures", captures=(0, 1))
        def __call__(self, x):
            return "eager"

    class Derived(Base):
        pass

    item = Derived()
    bound = item.method
    for _ in range(2):
        assert item.method(1) == bound(1) == Base.method(item, 1) == ("compiled", (item, 1))
        assert item.of_class(2) == Derived.of_class(2) == ("compiled", (Derived, 2))
        assert item.static(3) == Base.static(3) == ("compiled", (3,))
        assert item.value == ("compiled", (item,))
        assert item(4) == ("called", (item, 4))
    assert bound.__self__ is item and inspect.signature(bound).parameters.keys() == {"x"}


def test_outermost_calls_are_announced():
    calls = []

    def announce():
        calls.append("outermost")
        if len(calls) == 2:
            raise ValueError("not now")

    f = _runtime.CompiledFunction(lambda n: n and f(n - 1), lambda function, arguments: None, outermost_callback=announce)
    assert f(3) == 0 and len(calls) == 1
    with pytest.raises(ValueError, match="not now"):
        f(3)
    assert f(3) == 0 and len(calls) == 3
    assert f.outermost_callback is announce
    with pytest.raises(TypeError, match="a callback must be callable"):
        _runtime.CompiledFunction(test_methods, lambda function, arguments: None, outermost_callback=1)


# ---- switches, threads and other hooks ----


def test_switches():
    @compiled("return 'compiled'")
    def f():
        return "eager"

    switches = [_runtime.set_thread_disabled, _runtime.set_thread_compiling]
    for switch in switches:
        assert switch(True) is False
        assert f() == "eager" and not f.entries
        assert switch(False) is True
    f.enabled = False
    assert f() == "eager" and not f.entries
    f.enabled = True
    assert f() == "compiled"
    _runtime.set_thread_disabled(True)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(f()))
    thread.start()
    thread.join()
    _runtime.set_thread_disabled(False)
    assert seen == ["compiled"]


def test_switches_of_the_process_and_of_a_thread():
    @compiled("return 'compiled'")
    def f():
        return "eager"

    on_threads: list[str] = []

    def everywhere():
        thread = threading.Thread(target=lambda: on_threads.append(f()))
        thread.start()
        thread.join()
        return f(), on_threads.pop()

    try:
        assert _runtime.set_globally_eager(True) is False
        assert everywhere() == ("eager", "eager")
        _runtime.set_thread_eager(False)
        assert everywhere() == ("compiled", "eager")
        assert _runtime.set_globally_eager(False) is True
        _runtime.set_thread_eager(True)
        assert everywhere() == ("eager", "compiled")
        _runtime.set_thread_eager(None)
        assert everywhere() == ("compiled", "compiled")
    finally:
        _runtime.set_globally_eager(False)
        _runtime.set_thread_eager(None)


def test_watched_dicts():
    @compiled("return 'compiled'")
    def f():
        return "eager"

    seen: list[int] = []
    first: dict[str, int] = {}
    second = {"eager": 0}

    def look():
        seen.append(len(first))
        _runtime.set_watched_eager(second["eager"])

    try:
        _runtime.watch(look, first, second)
        assert f() == "compiled" and not seen
        first["a"] = 1
        assert f() == f() == "compiled" and seen == [1]
        second["eager"] = 1
        assert f() == f() == "eager" and seen == [1, 1]
        second["eager"] = 0
        assert f() == f() == "compiled" and seen == [1, 1, 1]
        _runtime.watch(lambda: 1 / 0, first)
        first.clear()
        with pytest.raises(ZeroDivisionError):
            f()
        assert f() == "compiled"
    finally:
        torch_stance.look()  # watches what it watched before


def test_checkers():
    @compiled("return 'compiled'")
    def f(a, *, b=3):
        return "eager"

    calls: list[tuple] = []

    def check(function, args, kwargs):
        calls.append((function, args, kwargs))
        _runtime.set_thread_checking(True)
        try:
            return "checked " + function(*args, **kwargs)
        finally:
            _runtime.set_thread_checking(False)

    try:
        _runtime.set_call_checker(check)
        assert f(1, b=2) == "checked compiled" and calls == [(f, (1,), {"b": 2})]
        _runtime.set_thread_eager(True)
        assert f(1) == "eager" and len(calls) == 1
        _runtime.set_thread_eager(None)
        _runtime.set_call_checker(None)
        _runtime.set_guard_checker(lambda *call: calls.append(call))
        assert f(4) == "compiled" and calls[1:] == [(f, (4, 3), f.function)]
        _runtime.set_guard_checker(lambda *call: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            f(4)
    finally:
        _runtime.set_call_checker(None)
        _runtime.set_guard_checker(None)


def test_each_first_argument_finds_its_entry():
    """Entries of many modules in one list: the search begins where the first argument was found last."""

    def g(a):
        raise AssertionError("not compiled")

    classes = [type("Key", (), {}) for _ in range(30)]
    keys = [cls() for cls in classes]
    f = CompiledFunction(g, lambda function, arguments: entry(g, f"return {keys.index(arguments[0])}", (type(arguments[0]),)))
    for _ in range(3):
        assert [f(key) for key in keys] == list(range(30))
    assert len(f.entries) == 30 and all(found.hits == 3 for found in f.entries)
    assert f.entries[0].tree.match((keys[29],), g) == [] and f(keys[7]) == 7 and f.entries[0].tree.match((keys[7],), g) == []
    assert f.remove(f.entries[3])
    assert [f(key) for key in reversed(keys)] == list(reversed(range(30))) and len(f.entries) == 30
    f.clear()
    assert [f(key) for key in keys] == list(range(30))


def test_nothing_is_compiled_while_compiling():
    @compiled("return 'compiled'")
    def other():
        return "eager"

    seen = []

    @lambda function: CompiledFunction(function, lambda g, arguments: seen.append(other()))
    def f():
        return other()

    assert f() == "compiled"
    assert seen == ["eager"]


def test_frames_below_the_call_run_without_the_hook():
    seen = []

    def helper():
        seen.append(_runtime.hook_installed())

    @compiled("captures[0]()", captures=(0,))
    def f(call):
        pass

    f(helper)
    CompiledFunction(lambda: helper(), lambda function, arguments: None)()
    assert seen == [False, False]


def test_threads_share_a_function():
    compilations = []

    def callback(function, arguments):
        compilations.append(type(arguments[0]))
        time.sleep(0.001)
        name = type(arguments[0]).__name__
        return entry(function, f"return {name!r}, inputs.pop()", (type(arguments[0]),), (0,), 1)

    @lambda function: CompiledFunction(function, callback)
    def f(x):
        return "eager"

    values = [1, "a", 2.5, (1,), [2], {3: 4}, None, b"x"]

    def work(shift):
        for i in range(2000):
            value = values[(i + shift) % len(values)]
            assert f(value) == (type(value).__name__, value)
            if i % 500 == 0 and shift == 0:
                f.clear()

    together(*(functools.partial(work, shift) for shift in range(4)), interval=1e-5)
    assert set(compilations) == {type(value) for value in values}


def test_torchs_hook_stays_where_it_was():
    @compiled("return captures[0] + 1", (int,), (0,))
    def f(x):
        return "eager"

    set_eval_frame = torch._C._dynamo.eval_frame.set_eval_frame
    before = set_eval_frame(False)  # torch's hook, looking for compiled code only
    try:
        assert [f(1), f(2)] == [2, 3]
        assert f.function(1) == "eager"
        assert not _runtime.hook_installed()
        inside = set_eval_frame(False)
        assert inside is False
    finally:
        set_eval_frame(before)
    assert f(3) == 4

    body = "set_eval_frame = inputs.pop()\nbefore = set_eval_frame(False)\nset_eval_frame(before)\nreturn captures[0]()"

    @compiled(body, captures=(0, 1), n_inputs=1)
    def g(switch, call):
        pass

    assert g(set_eval_frame, lambda: f(5)) == 6


def test_a_hook_installed_over_ours_that_puts_ours_back():
    set_eval_frame = torch._C._dynamo.eval_frame.set_eval_frame
    before = []

    class Name(str):
        def __hash__(self):
            return str.__hash__(self)

        def __eq__(self, other):
            if not before:
                before.append(set_eval_frame(False))
            return str.__eq__(self, other)

    @compiled("return captures", captures=(0, 1))
    def f(a, b):
        pass

    assert f(**{"b": 2, Name("a"): 1}) == (1, 2)
    assert f(1, 2) == (1, 2)
    assert before == [None]
    set_eval_frame(before[0])
    assert f(3, 4) == (3, 4)
    (lambda: None)()
    assert not _runtime.hook_installed()


def test_under_torch_compile():
    @compiled("return captures[0] + 1", captures=(0,))
    def f(x):
        return "eager"

    plain = torch.compile(lambda x: x * 2, backend="eager")
    x = torch.ones(2)
    assert torch.equal(plain(x), x * 2)
    assert torch.equal(f(x), x + 1)
    around = CompiledFunction(lambda x: plain(x), lambda function, arguments: None)
    assert torch.equal(around(x), x * 2)
    assert torch.equal(plain(f(x)), (x + 1) * 2)


# ---- preferred entries ----


def two_entries():
    """A function with entries that say which of them has run: one for ints, one for anything."""

    def f(x):
        raise AssertionError("not compiled")

    function = CompiledFunction(f, lambda function, arguments: None)
    of_int, of_any = entry(f, "return 'int'", (int,)), entry(f, "return 'any'")
    return function, of_int, of_any


def test_the_entry_that_was_used_last_is_tried_first():
    f, of_int, of_any = two_entries()
    f.add(of_any)
    f.add(of_int)
    assert [f(1), f("a"), f(1), f(1)] == ["int", "any", "any", "any"] and f.entries == (of_any, of_int)


def test_a_preferred_entry_is_tried_first_whatever_was_used():
    f, of_int, of_any = two_entries()
    f.add(of_int)
    assert f.prefer(of_int) and f.prefer(of_int) and f.n_preferred == 1
    f.add(of_any)
    assert f.entries == (of_int, of_any)
    assert [f(1), f("a"), f(1), f("a"), f("b"), f(2)] == ["int", "any", "int", "any", "any", "int"] and f.entries == (of_int, of_any)


def test_preferred_entries_and_those_that_come_and_go():
    f, of_int, of_any = two_entries()
    assert not f.prefer(of_int)
    of_str = entry(f.function, "return 'str'", (str,))
    for added in (of_int, of_str, of_any):
        f.add(added)
    assert f.prefer(of_int) and f.prefer(of_str) and f.entries == (of_int, of_str, of_any) and f.n_preferred == 2
    assert [f(1), f(1.0), f("a"), f(None)] == ["int", "any", "str", "any"] and f.entries == (of_str, of_int, of_any)
    assert f.remove(of_int) and f.n_preferred == 1 and f(1) == "any"
    assert f.remove(of_any) and f.n_preferred == 1
    f.clear()
    assert f.n_preferred == 0 and f.entries == ()


def test_hints_leave_preferred_entries_in_front():
    """Preferred entries are tried first; after them, the search begins with the entry that last served the same first argument."""
    f, of_int, of_any = two_entries()
    others = [entry(f.function, "return 'other'", (cls,)) for cls in (str, bytes, list)]
    for added in (*others, of_any, of_int):
        f.add(added)
    x, text = 1, "a"
    assert f(text) == "any" and f(x) == "any"
    f.prefer(of_int)
    assert [f(x), f(text), f(x), f(text)] == ["int", "any", "int", "any"] and f.entries[0] is of_int
