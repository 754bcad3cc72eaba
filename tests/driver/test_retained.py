"""Compiled code outlives the compiled object: it lives as long as the function's code or the module, and no longer."""

from __future__ import annotations

import copy
import functools
import gc
import pickle
import sys
import threading
import types
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import framejit
from framejit.driver import compiled_module, retained

x = torch.ones(2, 3)
w = torch.full((3,), 2.0)


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    framejit.reset()
    gc.collect()
    yield
    framejit.reset()


def graphs() -> int:
    return framejit.statistics()["graphs"]


def again(make: Any, *args: Any, times: int = 4, **options: Any) -> int:
    """The graphs of a program that compiles what `make` gives anew for each call."""
    for _ in range(times):
        expected = make()(*args)
        assert torch.equal(framejit.compile(make(), **{"backend": "eager", **options})(*args), expected)
    return graphs()


def plain(t):
    return t * 3


def broken(t):
    t = t * 3
    framejit.graph_break()
    return t + 1


def closure():
    def inner(t):
        return t * w

    return inner


def closure_over(value):
    return lambda t: t * value


def closure_with_break(value):
    def inner(t):
        t = t * value
        framejit.graph_break()
        return t + value

    return inner


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, t):
        return self.linear(t)

    def doubled(self, t):
        return self.linear(t) * 2


NET = Net()


class BrokenNet(Net):
    def forward(self, t):
        t = self.linear(t)
        framejit.graph_break()
        return t + 1


class Callable:
    def __call__(self, t):
        return t * 2


class Wrapping:
    """A decorator of the program's."""

    def __new__(cls, function):
        @functools.wraps(function)
        def wrapper(*args):
            return function(*args) + 1

        return wrapper


@Wrapping
def decorated(t):
    return t * 5


ONCE = {
    "function": lambda: plain, "lambda": lambda: lambda t: t + 4, "closure": closure, "closure over a tensor": lambda: closure_over(w.clone()),
    "closure over a number": lambda: closure_over(2.0), "method": lambda: NET.doubled, "callable": Callable,
    "partial": lambda: functools.partial(torch.mul, other=2), "decorated": lambda: decorated
}  # fmt: skip


@pytest.mark.parametrize("options", [{}, {"fullgraph": True}, {"backend": "aot_eager"}], ids=str)
@pytest.mark.parametrize("make", ONCE.values(), ids=ONCE)
def test_compiled_once_for_each_call(make, options):
    assert again(make, x, **options) == 1


def test_modules_are_compiled_once():
    net = Net()
    assert again(lambda: net, x) == 1
    result = framejit.compile(net, backend="eager")(x)
    result.sum().backward()
    assert net.linear.weight.grad is not None and graphs() == 1
    assert again(lambda: NET.doubled, x) == 2 and again(lambda: net.doubled, x) == 2


@pytest.mark.parametrize("make", [lambda: nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2)), lambda: Net()], ids=["of torch's", "of the program's"])
def test_models_that_follow_one_another_are_compiled_once(make):
    gone = []
    for _ in range(4):
        net = make()
        fast = framejit.compile(net, backend="aot_eager")
        found = fast(x)
        assert torch.equal(found, net(x))
        found.sum().backward()
        gone += [weakref.ref(net), weakref.ref(next(net.parameters()))]
        del net, fast, found
    assert graphs() == 1
    assert not any(reference() is not None for reference in gone)


def test_models_of_a_class_that_is_defined_again():
    def cell():
        exec("class Cell(torch.nn.Module):\n    def forward(self, t):\n        return t * 2\n", globals())
        return globals()["Cell"]

    first = weakref.ref(cell())
    assert torch.equal(framejit.compile(globals()["Cell"](), backend="eager")(x), x * 2) and first() is not None
    cell()
    assert torch.equal(framejit.compile(globals()["Cell"](), backend="eager")(x), x * 2)
    del globals()["Cell"]
    gc.collect()
    assert first() is None and graphs() == 2


def test_what_goes_on_behind_a_break():
    assert again(lambda: broken, x) == 2
    assert again(lambda: closure_with_break(w), x) == 4
    net = BrokenNet()
    assert again(lambda: net, x) == 6
    assert framejit.statistics()["graph_breaks"] == 3


def test_in_a_forward():
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()

        def forward(self, t):
            def block(u):
                return self.net(u) + 1

            return framejit.compile(block, backend="eager")(framejit.compile(self.net, backend="eager")(t))

    outer = Outer()
    expected = outer.net(outer.net(x)) + 1
    assert all(torch.equal(outer(x), expected) for _ in range(4)) and graphs() == 2


def test_inside_compiled_code():
    outer = framejit.compile(lambda t: framejit.compile(plain, backend="eager")(t) + 1, backend="eager")
    assert all(torch.equal(outer(x), x * 3 + 1) for _ in range(3)) and graphs() == 1


@pytest.mark.only_eager("another backend than eager is one of the differences")
def test_what_is_different_is_compiled_by_itself():
    numbers = [framejit.compile(closure_over(n), backend="eager")(x) for n in (2, 3, 2, 3)]
    assert [t[0, 0].item() for t in numbers] == [2, 3, 2, 3] and graphs() == 2
    framejit.reset()
    for options in ({}, {"fullgraph": True}, {"recompile_limit": 3}, {"backend": "aot_eager"}) * 2:
        framejit.compile(plain, **{"backend": "eager", **options})(x)
    assert graphs() == 4
    framejit.reset()
    assert again(lambda: plain, x, isolate_recompiles=True) == 4, "shares with nobody"


def test_options_of_a_backend_are_compared_by_value():
    seen: list[Any] = []

    def backend(gm, example_inputs, *, mode=None, options=None):
        seen.append((mode, options))
        return gm

    for _ in range(3):
        framejit.compile(plain, backend=backend, options={"a": [1, 2]})(x)
        framejit.compile(plain, backend=backend, options={"a": [1, 3]})(x)
        framejit.compile(plain, backend=backend, mode="fast")(x)
    assert seen == [(None, {"a": [1, 2]}), (None, {"a": [1, 3]}), ("fast", None)]


def test_recompile_limits_count_on(caplog):
    for n in range(1, 12):
        t = torch.ones(n)
        assert torch.equal(framejit.compile(plain, backend="eager", recompile_limit=3, dynamic=False)(t), t * 3)
    told = framejit.statistics()
    assert (told["graphs"], told["recompiles"], told["fallbacks"]) == (3, 2, 1)
    assert caplog.text.count("FJ019") == 1


def test_limits_of_one_module():
    net = Net()
    for n in range(1, 7):
        framejit.compile(net, backend="eager", recompile_limit=3, dynamic=False)(torch.ones(n, 3))
    assert graphs() == 3 and framejit.statistics()["fallbacks"] == 1


def test_stances():
    with framejit.set_stance("eager_then_compile"):
        for _ in range(3):
            framejit.compile(plain, backend="eager")(x)
    framejit.reset()
    framejit.compile(plain, backend="eager")(x)
    with framejit.set_stance("fail_on_recompile"):
        framejit.compile(plain, backend="eager")(x)
        with pytest.raises(framejit.RecompileError, match="again"):
            framejit.compile(plain, backend="eager")(torch.ones(5))
    with framejit.set_stance("force_eager"):
        framejit.compile(plain, backend="eager")(torch.ones(6))
    assert graphs() == 1


def test_a_change_is_still_seen():
    namespace = module_of("scale = 2.0\ndef f(t):\n    return t * scale\n")
    for scale in (2.0, 3.0, 2.0):
        namespace.scale = scale
        assert torch.equal(framejit.compile(namespace.f, backend="eager")(x), x * scale)
    assert graphs() == 2


def test_copies_and_pickles_of_compiled_modules():
    net = Net()
    for _ in range(2):
        fast = framejit.compile(net, backend="eager")
        expected = fast(x)
        for other in (copy.deepcopy(fast), copy.copy(fast), pickle.loads(pickle.dumps(fast))):
            assert type(other) is Net and torch.equal(other(x), expected)
        del fast
    assert graphs() == 1


def test_threads():
    expected = plain(x)
    results: list[bool] = []

    def work() -> None:
        for _ in range(20):
            results.append(torch.equal(framejit.compile(plain, backend="eager")(x), expected))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 120 and all(results) and graphs() <= 6


# ---- and no longer ----


def module_of(source: str, name: str = "retained_program") -> Any:
    """A loaded module with this code."""
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(compile("import framejit\n" + source, name + ".py", "exec"), module.__dict__)
    return module


@pytest.fixture
def unload() -> Iterator[None]:
    yield
    sys.modules.pop("retained_program", None)


def entry_of(target: Any, *args: Any, **options: Any) -> weakref.ref[Any]:
    """Compile, call and drop; give the entry."""
    compiled = framejit.compile(target, **{"backend": "eager", **options})
    compiled(*args)
    [entry] = (type(compiled).__call__ if isinstance(compiled, nn.Module) else compiled).entries
    return weakref.ref(entry)


def is_gone(reference: weakref.ref[Any]) -> bool:
    gc.collect()
    return reference() is None


@pytest.mark.parametrize("body", ["return t * 2", "framejit.graph_break(); return t * 2"], ids=["whole", "split"])
def test_entries_go_with_the_code(unload, body):
    module = module_of(f"def f(t):\n    {body}\n")
    entry, code = entry_of(module.f, x), weakref.ref(module.f.__code__)
    assert not is_gone(entry)
    del module.f
    assert is_gone(entry) and is_gone(code) and not retained._records


@pytest.mark.parametrize("body", ["return t * 2", "framejit.graph_break(); return t * 2"], ids=["whole", "split"])
def test_entries_of_closures_go_with_the_code_around(unload, body):
    module = module_of(f"def make():\n    def inner(t):\n        {body}\n    return inner\n")
    entry = entry_of(module.make(), x)
    assert not is_gone(entry)
    del module.make
    assert is_gone(entry) and not retained._records


@pytest.mark.parametrize("body", ["return t * 2", "framejit.graph_break(); return t * 2"], ids=["whole", "split"])
def test_a_namespace_that_is_no_module_is_not_kept(body):
    class Mark:
        pass

    namespace: dict[str, Any] = {"mark": Mark()}
    exec(f"import framejit\ndef f(t):\n    {body}\n", namespace)
    entry, mark = entry_of(namespace["f"], x), weakref.ref(namespace["mark"])
    del namespace
    assert is_gone(mark) and is_gone(entry)


@pytest.mark.parametrize("cls", [Net, BrokenNet])
def test_entries_of_a_module_outlive_it_for_others_of_its_class(cls):
    net = cls()
    entry, weight, gone = entry_of(net, x), weakref.ref(net.linear.weight), weakref.ref(net)
    assert not is_gone(entry)
    del net
    assert is_gone(gone) and is_gone(weight) and not is_gone(entry)
    before = graphs()
    other = cls()
    assert torch.equal(framejit.compile(other, backend="eager")(x), other(x)) and graphs() == before
    framejit.reset()
    assert is_gone(entry) and not compiled_module._fronts


def test_a_local_class_is_not_kept():
    def make():
        class Local(Net):
            def forward(self, t):
                return super().forward(t) + 1

        return Local

    Local = make()
    net = Local()
    entry, cls = entry_of(net, x), weakref.ref(Local)
    assert not is_gone(entry)
    del net, Local
    assert is_gone(entry) and is_gone(cls)


def test_a_class_that_leads_to_its_module():
    class Local(Net):
        instances: list[Any] = []

    net = Local()
    Local.instances.append(net)
    entry, gone, cls = entry_of(net, x), weakref.ref(net), weakref.ref(Local)
    del net, Local
    assert is_gone(gone) and is_gone(entry) and is_gone(cls)


def test_what_the_code_makes_is_not_kept():
    def build():
        class Local:
            def __init__(self, value):
                self.value = value

        return Local, lambda t: Local(t * 2)

    Local, function = build()
    compiled = framejit.compile(function, backend="eager")
    assert torch.equal(compiled(x).value, x * 2)
    cls = weakref.ref(Local)
    del Local, function, compiled
    assert is_gone(cls)


@pytest.mark.slow
def test_a_backend_is_not_kept():
    class Mark:
        pass

    def make():
        mark = Mark()

        def backend(gm, example_inputs):
            return gm if mark else None

        return backend, weakref.ref(mark)

    backend, mark = make()
    net = Net()
    entries = [entry_of(target, x, backend=backend) for target in (plain, broken, net)]
    assert not any(map(is_gone, entries)) and again(lambda: plain, x, backend=backend) == 4
    del backend
    assert is_gone(mark) and all(map(is_gone, entries))


def test_what_guards_compare_with():
    key = type("Key", (), {})
    compiled = framejit.compile(lambda t, key: t + (1 if key.__name__ == "Key" else 2), backend="eager")
    compiled(x, key)
    entry = weakref.ref(compiled.entries[0])
    del compiled
    assert not is_gone(entry)
    del key
    assert is_gone(entry) and not retained._records


@pytest.mark.slow
def test_a_model_that_compiles_itself():
    class Selfish(Net):
        def __init__(self) -> None:
            super().__init__()
            self.fast = framejit.compile(self.doubled, backend="eager")

    references = []
    for _ in range(3):
        net = Selfish()
        net.fast(x)
        references.append(weakref.ref(net))
        del net
        gc.collect()
    assert all(map(is_gone, references)) and graphs() <= 3


def test_what_the_garbage_collector_takes_is_compiled_again():
    """It clears weak references that are garbage too, without a word to their callbacks: guards would not notice that an object is gone."""

    def look():
        return iter

    for _ in range(3):
        compiled = framejit.compile(lambda t, function=look: (t + 1, function() is iter), backend="eager")
        compiled.itself = compiled
        assert compiled(x)[1]
        del compiled
        gc.collect()
        assert not retained._records
    assert graphs() == 3


def test_reset_drops_what_waits():
    net = Net()
    entries = [entry_of(plain, x), entry_of(net, x)]
    framejit.reset()
    assert all(map(is_gone, entries)) and not retained._records and not compiled_module._fronts


def test_there_is_a_bound():
    for n in range(100):
        framejit.compile(closure_over(n % 90), backend="eager")(x)
    assert sum(map(len, retained._records.values())) <= retained.MOST
