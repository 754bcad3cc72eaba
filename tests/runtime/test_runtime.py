"""runtime_c, the way of a call: parameters, look-up, recursion, exceptions, lifetime; with hand-made entries and no tracing."""

from __future__ import annotations

import gc
import sys
import traceback
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from handmade import Token, compiled, entry, guard_tree, n_slots, never, recursive_compiled, run_python

from framejit import _runtime
from framejit._runtime import CompiledFunction, Entry

# ---- parameters ----


def all_kinds(a, /, b, c=3, *rest, d, e=5, **more):
    return a, b, c, d, e, rest, more


def with_cells(a, b=2, *rest):
    def inner():
        return a, rest

    return a, b, inner()[1]


@pytest.mark.parametrize(
    ("function", "args", "kwargs"),
    [
        (lambda: (), (), {}),
        (lambda a: (a,), (1,), {}),
        (lambda a, b=2: (a, b), (1,), {}),
        (lambda a, b=2: (a, b), (), {"b": 5, "a": 4}),
        (lambda *args: (args,), (1, 2, 3), {}),
        (lambda **kwargs: (kwargs,), (), {"x": 1, "y": 2}),
        (lambda *, key=1: (key,), (), {"key": 7}),
        (all_kinds, (1, 2), {"d": 4}),
        (all_kinds, (1, 2, 9, 10, 11), {"d": 4, "e": 6, "z": 7}),
        (with_cells, (1, 2, 3), {}),
    ],
)
def test_parameters_arrive_as_the_function_would_see_them(function, args, kwargs):
    slots = tuple(range(n_slots(function.__code__)))
    for n_inputs in (0, len(slots) // 2, len(slots)):
        f = CompiledFunction(function, lambda g, arguments: entry(g, "return tuple(inputs) + captures", (), slots, n_inputs))
        assert f(*args, **kwargs) == function(*args, **kwargs)
        assert f(*args, **kwargs) == function(*args, **kwargs)
        assert f.entries[0].hits == 2


def test_inputs_are_a_list_and_other_captures_a_tuple():
    @compiled("return type(inputs), type(captures), inputs, captures", captures=(2, 0, 1), n_inputs=1)
    def f(a, b, c):
        pass

    assert f(1, 2, 3) == (list, tuple, [3], (1, 2))


def test_more_captures_than_fit_on_the_stack():
    names = [f"a{i}" for i in range(200)]
    namespace: dict[str, Any] = {}
    exec(f"def f({', '.join(names)}): pass", namespace)
    f = compiled("return inputs, captures", captures=tuple(range(200)), n_inputs=150)(namespace["f"])
    assert f(*range(200)) == (list(range(150)), tuple(range(150, 200)))


def test_callback_gets_the_function_and_the_raw_slots():
    seen = []

    def callback(function, arguments):
        seen.append((function, arguments, _runtime.is_thread_compiling(), _runtime.hook_installed()))

    f = CompiledFunction(all_kinds, callback)
    assert f(1, 2, d=3, z=4) == all_kinds(1, 2, d=3, z=4)
    assert seen == [(all_kinds, (1, 2, 3, 3, 5, (), {"z": 4}), True, False)]


def test_wrong_arguments_raise_what_the_function_raises():
    f = CompiledFunction(all_kinds, never)
    for args, kwargs in [((), {}), ((1, 2), {}), ((1, 2, 3), {"d": 1, "c": 2})]:
        with pytest.raises(TypeError) as ours:
            f(*args, **kwargs)
        with pytest.raises(TypeError) as eager:
            all_kinds(*args, **kwargs)
        assert str(ours.value) == str(eager.value)
        assert not _runtime.hook_installed()


def test_python_code_run_by_argument_binding_passes_the_waiting_hook():
    @compiled("return 'inner'")
    def inner():
        return "eager"

    seen = []

    class Name(str):
        def __hash__(self):
            return str.__hash__(self)

        def __eq__(self, other):
            seen.append(inner())
            return str.__eq__(self, other)

    @compiled("return captures", captures=(0, 1))
    def f(a, b):
        pass

    assert f(**{"b": 2, Name("a"): 1}) == (1, 2)
    assert set(seen) == {"inner"}


# ---- look-up ----


def test_entries_are_tried_most_recently_used_first():
    made = []

    def callback(function, arguments):
        made.append(entry(function, f"return {type(arguments[0]).__name__!r}", (type(arguments[0]),)))
        return made[-1]

    @lambda function: CompiledFunction(function, callback)
    def f(x):
        return "eager"

    assert [f(1), f("a"), f(1.5), f(1), f(2)] == ["int", "str", "float", "int", "int"]
    of_int, of_str, of_float = made
    assert f.entries == (of_int, of_float, of_str)
    assert [e.hits for e in made] == [3, 1, 1]
    f("b")
    assert f.entries == (of_str, of_int, of_float)


def test_add_remove_and_clear():
    def f(x):
        return "eager"

    g = CompiledFunction(f, lambda function, arguments: None)
    first, second = entry(f, "return 1", (int,)), entry(f, "return 2", (int,))
    g.add(first)
    g.add(second)
    assert g.entries == (second, first) and g(0) == 2
    assert g.remove(second) and not g.remove(second)
    assert g(0) == 1
    g.clear()
    assert g.entries == () and g(0) == "eager"


def test_an_entry_without_code_runs_the_frame_as_written():
    @lambda function: CompiledFunction(function, lambda f, arguments: Entry(None, guard_tree((int,)), 0))
    def f(x):
        return x + 1

    assert [f(1), f(2)] == [2, 3]
    assert f.entries[0].hits == 2


def test_a_new_code_object_drops_the_entries():
    @compiled("return 'compiled'")
    def f(x):
        return "old"

    assert f(1) == "compiled"
    f.function.__code__ = (lambda x: "new").__code__
    f.add(entry(f.function, "return 'again'", (str,)))
    assert len(f.entries) == 1
    f.function.__code__ = (lambda x: "newer").__code__
    assert f(1) == "compiled" and len(f.entries) == 1


def test_guards_that_reject_their_own_frame():
    made, told = [], []

    def callback(function, arguments):
        made.append(entry(function, "return 'compiled'", (str,)))
        return made[-1]

    def rejected(function, arguments, last):
        told.append((function, arguments, last, _runtime.is_thread_compiling()))

    def f(x):
        return "eager"

    with pytest.raises(RuntimeError, match="guards of a new entry reject the frame they were made for"):
        CompiledFunction(f, callback)(1)
    assert len(made) == 3
    g = CompiledFunction(f, callback, rejected)
    assert g(1) == "eager" and len(made) == 6
    assert told == [(f, (1,), made[-1], True)]
    assert g.entries == ()
    with pytest.raises(TypeError, match="a callback must be callable, not int"):
        CompiledFunction(f, callback, 3)


def test_an_entry_that_accepts_at_the_second_attempt():
    tries = iter([(str,), (int,)])

    @lambda function: CompiledFunction(function, lambda f, arguments: entry(f, "return 'compiled'", next(tries)))
    def f(x):
        return "eager"

    assert f(1) == "compiled" and len(f.entries) == 1


def test_an_entry_that_another_call_made_meanwhile():
    def callback(function, arguments):
        f.add(entry(function, "return 'theirs'", (int,)))
        return NotImplemented

    @lambda function: CompiledFunction(function, callback)
    def f(x):
        return "eager"

    assert f(1) == "theirs" and f.entries[0].hits == 1


def test_malformed_entries_are_refused():
    def f(a, b):
        pass

    tree = guard_tree((), (0,))
    with pytest.raises(ValueError, match="n_inputs is 2, but the guard tree has 1"):
        Entry(None, tree, 2)
    with pytest.raises(TypeError, match="code object or None"):
        Entry("code", tree, 0)
    with pytest.raises(TypeError):
        Entry(None, "tree", 0)
    g = CompiledFunction(f, lambda function, arguments: 3)
    with pytest.raises(ValueError, match="needs 2 and at least two more locals"):
        g.add(Entry(f.__code__, tree, 0))
    with pytest.raises(TypeError, match="must return an Entry or None, not int"):
        g(1, 2)
    with pytest.raises(TypeError):
        g.add(3)
    with pytest.raises(TypeError):
        CompiledFunction(len, never)
    with pytest.raises(TypeError, match="must be callable"):
        CompiledFunction(f, 3)
    with pytest.raises(AttributeError):
        Entry(None, tree, 0).hits = 3


def test_generators_and_coroutines_are_left_alone():
    def generator(n):
        yield from range(n)

    async def coroutine():
        return 3

    assert list(CompiledFunction(generator, never)(3)) == [0, 1, 2]
    with pytest.raises(StopIteration) as stop:
        CompiledFunction(coroutine, never)().send(None)
    assert stop.value.value == 3


# ---- recursion ----


def depth_reached(function: Callable[[int], int]) -> int:
    """The deepest n for which function(n), which calls itself n times, succeeds."""
    low, high = 1, sys.getrecursionlimit() + 10
    while high - low > 1:
        middle = (low + high) // 2
        try:
            assert function(middle) == middle
            low = middle
        except RecursionError:
            high = middle
    return low


@pytest.mark.usefixtures("own_evaluator")
@pytest.mark.parametrize("limit", [1000, 5000])
@pytest.mark.parametrize("mode", ["compiled", "as written", "disabled"])
def test_recursion_is_as_deep_as_without_the_hook(limit, mode):
    def eager(n):
        return 0 if n == 0 else 1 + eager(n - 1)

    def f(n):
        return 0 if n == 0 else 1 + ours(n - 1)

    ours = recursive_compiled() if mode == "compiled" else CompiledFunction(f, lambda function, arguments: None)
    ours.enabled = mode != "disabled"
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(limit)
    try:
        assert abs(depth_reached(ours) - depth_reached(eager)) <= 1
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.usefixtures("own_evaluator")
def test_the_callback_has_room_at_the_recursion_limit():
    """A call that fits is made, though looking for its entry takes more frames than are left; and the program's own room is what it was."""

    def needs_frames(n):
        return needs_frames(n - 1) if n else None

    function = CompiledFunction(lambda: "called", lambda function, arguments: needs_frames(100))

    def deep(n):
        return deep(n - 1) if n else function()

    def eager(n):
        return eager(n - 1) if n else (lambda: "called")()

    def deepest(program):
        return max(n for n in range(sys.getrecursionlimit()) if succeeds(program, n))

    assert abs(deepest(deep) - deepest(eager)) <= 1


def succeeds(program, n):
    try:
        return program(n) == "called"
    except RecursionError:
        return False


@pytest.mark.parametrize("locals_needed", [0, 7, 40, 500])
def test_frames_that_end_a_chunk_of_the_data_stack(locals_needed):
    f = recursive_compiled(locals_needed)
    for n in (1, 300, 700, 900):
        assert f(n) == n


def test_a_huge_recursion_limit_does_not_crash():
    program = """
import sys
from handmade import recursive_compiled
sys.setrecursionlimit(10**7)
try:
    recursive_compiled()(10**6)
except RecursionError as error:
    print(error)
"""
    assert "C stack" in run_python(program)


def test_c_code_that_recurses_below_a_deep_recursion_does_not_crash():
    """Both are within their limits, but the C stack has no room for both: one of them raises RecursionError."""
    program = """
import sys
from framejit._runtime import CompiledFunction
from handmade import entry
sys.setrecursionlimit(20_000)
nested = []
for _ in range(9_900):
    nested = [nested]
def f(n, self=[], bottom=lambda: repr(nested)):
    raise AssertionError("not compiled")
body = "self, n, bottom = inputs[0], *captures\\nreturn bottom() if n == 0 else self[0](n - 1)"
f.__defaults__[0].append(CompiledFunction(f, lambda function, arguments: entry(function, body, (int, list), (1, 0, 2), 1)))
for n in (10, 4_000, 5_500, 6_500):
    try:
        assert len(f.__defaults__[0][0](n)) == 19_802
    except RecursionError as error:
        pass
print("ended")
"""
    assert run_python(program) == "ended\n"


def test_cpythons_own_jit_compiler_meets_loops_of_replacement_code():
    """It is there from Python 3.13 on, if it was built in, and looks at the function of a frame as well as at its code."""
    program = """
from handmade import compiled
@compiled("out = []\\nfor x in captures[0]:\\n    out.append(x * 2)\\nreturn sum(out)", captures=(0,))
def f(xs):
    return None
xs = list(range(3_000))
assert {f(xs) for _ in range(300)} == {sum(xs) * 2}
print("ended")
"""
    assert run_python(program, PYTHON_JIT="1") == "ended\n"


# ---- exceptions ----


def test_exceptions_keep_function_name_and_lines():
    @compiled("x = captures[0]\n\nreturn 1 // x", captures=(0,))
    def f(x):
        pass

    for _ in range(2):
        with pytest.raises(ZeroDivisionError) as caught:
            f(0)
        frames = traceback.extract_tb(caught.value.__traceback__)
        assert [(frame.name, frame.lineno) for frame in frames][-1] == ("f", 4)
        assert len(frames) == 2


def test_an_error_of_the_callback_propagates_and_releases_the_arguments():
    def callback(function, arguments):
        raise KeyError("from the callback")

    @lambda function: CompiledFunction(function, callback)
    def f(x, *rest, **more):
        pass

    events = []
    token = Token()
    gone = weakref.ref(token)
    for _ in range(3):
        with pytest.raises(KeyError, match="from the callback"):
            f(token, token, y=token)
        assert not _runtime.hook_installed() and not _runtime.is_thread_compiling()
    sys.settrace(lambda frame, event, arg: events.append((event, frame.f_code.co_name)) if frame.f_code.co_filename == __file__ else None)
    try:
        f(1)
    except KeyError:
        pass
    finally:
        sys.settrace(None)
    assert events == [("call", "callback")]
    del token
    gc.collect()
    assert gone() is None


def test_an_error_inside_a_handler_keeps_its_context():
    @compiled("raise ValueError('inner')")
    def f():
        pass

    with pytest.raises(ValueError) as caught:
        try:
            raise KeyError("outer")
        except KeyError:
            f()
    assert isinstance(caught.value.__context__, KeyError)


def test_tracers_see_the_frame_once():
    @compiled("return captures[0]", captures=(0,))
    def f(x):
        return x

    f(1)
    events = []

    def tracer(frame, event, arg):
        if frame.f_code.co_filename == "<replacement>":  # not what checks the guards
            events.append((event, frame.f_code.co_name))
        return tracer

    sys.settrace(tracer)
    try:
        f(2)
    finally:
        sys.settrace(None)
    assert [event for event in events if event[0] != "line"] == [("call", "f"), ("return", "f")]


# ---- lifetime ----


def blocks_used(call: Callable[[], object], n: int = 2000) -> int:
    for _ in range(200):
        call()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(n):
        call()
    gc.collect()
    return sys.getallocatedblocks() - before


@pytest.mark.slow
def test_calls_do_not_leak():
    token = Token()
    f = compiled("return inputs, captures", captures=(0, 1, 2), n_inputs=1)(lambda a, *b, **c: None)
    count = sys.getrefcount(token)
    assert blocks_used(lambda: f(token, token, x=token)) < 100
    assert sys.getrefcount(token) == count

    def fail(function, arguments):
        raise KeyError

    failing = CompiledFunction(lambda a, *b, **c: None, fail)

    def call_failing():
        try:
            failing(token, token, x=token)
        except KeyError:
            pass

    assert blocks_used(call_failing) < 100
    assert sys.getrefcount(token) == count
    deep = recursive_compiled(50)
    assert blocks_used(lambda: deep(400), 50) < 100


def test_entries_and_what_they_keep_are_freed():
    def f(x):
        return x

    keep = Token()
    gone = weakref.ref(keep)
    g = CompiledFunction(f, never)
    g.add(entry(f, "return 1", (int,), keep=keep))
    entry_gone = weakref.ref(g.entries[0])
    keep.function = g  # a cycle through the entry
    function_gone = weakref.ref(g)
    del keep
    assert g(1) == 1
    del g
    gc.collect()
    assert gone() is None and entry_gone() is None and function_gone() is None


def test_everything_may_die_during_the_call():
    holder = []

    def callback(function, arguments):
        holder[0].clear()
        holder[0].function.__code__ = (lambda x: "replaced").__code__
        return None

    def f(x):
        return "as called"

    holder.append(CompiledFunction(f, callback))
    assert holder[0](1) == "as called"

    def g(x):
        return "eager"

    holder[:] = [CompiledFunction(g, never)]
    body = "import gc\nholder = inputs.pop()\nholder[0].clear()\ndel holder[:]\ngc.collect()\nreturn 'ran'"
    holder[0].add(entry(g, body, (list,), (0,), 1))
    del g
    assert holder[0](holder) == "ran"
    assert holder == []


# ---- memory debugging ----


@pytest.mark.slow
def test_under_the_debugging_allocator():
    program = "import pytest, sys; sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', %r, '-k', %r]))"
    chosen = "(parameters or entries or exceptions or callback or recursion or methods or die or leak or chunk) and not (debugging or huge)"
    assert " passed" in run_python(program % (__file__, chosen), PYTHONMALLOC="debug")
