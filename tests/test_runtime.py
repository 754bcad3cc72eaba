"""runtime_c: hand-made entries under the hook, the cache and CompiledFunction, without tracing."""

from __future__ import annotations

import copy
import gc
import inspect
import os
import pickle
import subprocess
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

import pytest
import torch

from framejit import _runtime
from framejit._runtime import CompiledFunction, Entry


def n_slots(code: CodeType) -> int:
    variable = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_argcount + code.co_kwonlyargcount + variable


def replacement(function: FunctionType, body: str) -> CodeType:
    """Code with the argument slots of `function`, followed by `inputs` and `captures`, that runs `body`."""
    code = function.__code__
    names = [*code.co_varnames[: n_slots(code)], "inputs", "captures"]
    lines = [f"def compiled({', '.join(names)}):", *("    " + line for line in body.splitlines())]
    namespace: dict[str, Any] = {}
    exec(compile("\n".join(lines), "<replacement>", "exec"), namespace)
    made = namespace["compiled"].__code__
    variable = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
    return made.replace(
        co_name=code.co_name,
        co_argcount=code.co_argcount,
        co_posonlyargcount=code.co_posonlyargcount,
        co_kwonlyargcount=code.co_kwonlyargcount,
        co_flags=made.co_flags & ~variable | code.co_flags & variable,
    )


def guard_tree(types: tuple[type, ...] = (), captures: tuple[int, ...] = ()) -> Any:
    """A tree that wants exactly these types in the first slots and captures the slots named."""
    return _runtime.GuardTree(types, captures)


def entry(
    function: FunctionType, body: str, types: tuple[type, ...] = (), captures: tuple[int, ...] = (), n_inputs: int = 0, keep: object = None
) -> Entry:
    return Entry(replacement(function, body), guard_tree(types, captures), n_inputs, keep)


def compiled(
    body: str, types: tuple[type, ...] = (), captures: tuple[int, ...] = (), n_inputs: int = 0
) -> Callable[[FunctionType], CompiledFunction]:
    """A decorator: the function's calls run `body`."""
    return lambda function: CompiledFunction(function, lambda f, arguments: entry(f, body, types, captures, n_inputs))


def never(function: FunctionType, arguments: tuple[Any, ...]) -> Entry | None:
    raise AssertionError("no compilation expected")


@pytest.fixture(autouse=True)
def hook_is_down_afterwards() -> Iterator[None]:
    yield
    assert not _runtime.hook_installed()
    assert not _runtime.is_thread_compiling()


class Token:
    """Something that can be weakly referenced."""


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


def test_guards_that_reject_their_own_frame(monkeypatch):
    @compiled("return 'compiled'", types=(str,))
    def f(x):
        return "eager"

    with pytest.raises(RuntimeError, match="guards of a new entry reject the frame they were made for"):
        f(1)
    monkeypatch.setenv("FRAMEJIT_STRICT", "0")
    assert f(1) == "eager"
    assert f.entries == ()


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


def recursive_compiled(locals_needed: int = 0) -> CompiledFunction:
    """A function that finds itself in its default argument; its compiled code uses that many more local variables."""

    def f(n, self=[]):
        raise AssertionError("not compiled")

    more = "; ".join(f"v{i} = n" for i in range(locals_needed)) or "pass"
    body = f"self = inputs.pop()\nn = captures[0]\n{more}\nreturn 0 if n == 0 else 1 + self[0](n - 1)"
    ours = compiled(body, (int, list), (1, 0), 1)(f)
    f.__defaults__[0].append(ours)
    return ours


@pytest.mark.parametrize("locals_needed", [0, 7, 40, 500])
def test_frames_that_end_a_chunk_of_the_data_stack(locals_needed):
    f = recursive_compiled(locals_needed)
    for n in (1, 300, 700, 900):
        assert f(n) == n


def test_a_huge_recursion_limit_does_not_crash():
    program = f"""
import sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
from test_runtime import recursive_compiled
sys.setrecursionlimit(10**7)
try:
    recursive_compiled()(10**6)
except RecursionError as error:
    print(error)
"""
    done = run_python(program)
    assert "C stack" in done.stdout


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
    sys.settrace(lambda frame, event, arg: events.append((event, frame.f_code.co_name)))
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


# ---- switches, threads and other hooks ----


def test_switches():
    @compiled("return 'compiled'")
    def f():
        return "eager"

    switches = [_runtime.set_thread_disabled, _runtime.set_thread_compiling, _runtime.set_globally_disabled]
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

    wrong = []
    values = [1, "a", 2.5, (1,), [2], {3: 4}, None, b"x"]

    def work(shift):
        for i in range(2000):
            value = values[(i + shift) % len(values)]
            if f(value) != (type(value).__name__, value):
                wrong.append(value)
            if i % 500 == 0 and shift == 0:
                f.clear()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(shift,)) for shift in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []
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


# ---- memory debugging ----


def run_python(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **environment}
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=200)


def test_under_the_debugging_allocator():
    program = "import pytest, sys; sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', %r, '-k', %r]))"
    chosen = "(parameters or entries or exceptions or callback or recursion or methods or die or leak or chunk) and not (debugging or huge)"
    done = run_python(program % (__file__, chosen), PYTHONMALLOC="debug")
    assert " passed" in done.stdout
