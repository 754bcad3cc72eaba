"""Entries that serve more than one compiled function or module: who shares, who must not, and when they go."""

from __future__ import annotations

import copy
import gc
import threading
import types
import weakref

import numpy
import pytest
import torch
from torch import nn

import framejit
from framejit import config
from framejit.backends.registry import Backend
from framejit.driver import compiled_module, sharing

x = torch.arange(6.0).reshape(2, 3)


class Counting:
    """The eager backend, counting the graphs that it was given."""

    def __init__(self):
        self.graphs = 0

    def __call__(self, gm, example_inputs):
        self.graphs += 1
        return gm


@pytest.fixture
def backend():
    return Counting()


class Block(nn.Module):
    def __init__(self, width=3, index=0):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.scale = nn.Parameter(torch.rand(width))
        self.register_buffer("offset", torch.rand(width))
        self.index = index
        self.calls = 0

    def forward(self, t):
        self.calls += 1
        return torch.relu(self.linear(t)) * self.scale + self.offset


class Stack(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, t):
        for block in self.blocks:
            t = block(t)
        return t


def same(a, b):
    return torch.equal(a, b)


def entries(module):
    return type(module).__call__.entries


# ---- modules ----


@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
def test_identical_blocks_compiled_one_by_one_compile_once(backend, train):
    plain = Stack(Block() for _ in range(12))
    model = copy.deepcopy(plain)
    for i, block in enumerate(model.blocks):
        model.blocks[i] = framejit.compile(block, backend=backend)
    with torch.set_grad_enabled(train):
        for _ in range(3):
            result, expected = model(x), plain(x)
            assert same(result, expected)
            if train:
                result.sum().backward()
                expected.sum().backward()
    assert backend.graphs == len(entries(model.blocks[0])) == 1 + train  # the first block's input needs no gradient, the others' do
    assert [block.calls for block in model.blocks] == [3] * 12
    for mine, theirs in zip(model.parameters(), plain.parameters()):
        assert (mine.grad is None) == (theirs.grad is None) and (mine.grad is None or same(mine.grad, theirs.grad))


def test_bound_methods_of_identical_modules_compile_once(backend):
    blocks = [Block() for _ in range(12)]
    compiled = [framejit.compile(block.forward, backend=backend) for block in blocks]
    for block, fast in zip(blocks, compiled):
        plain = copy.deepcopy(block)
        assert same(fast(x), plain(x)) and same(fast(x), plain(x)) and block.calls == 2
    assert backend.graphs == 1 and all(len(fast.__func__.entries) == 1 for fast in compiled)


def test_modules_that_call_a_compiled_implementation(backend):
    blocks = [Block() for _ in range(4)]
    for block in blocks:
        block._compiled_call_impl = framejit.compile(block._call_impl, backend=backend)
        assert same(block(x), copy.deepcopy(block).forward(x))
    assert backend.graphs == 1


def test_closures_made_in_a_loop_compile_once(backend):
    def make(weight, bias=None):
        def f(t):
            return t @ weight if bias is None else t @ weight + bias

        return f

    functions = [make(torch.rand(3, 3)) for _ in range(10)]
    compiled = [framejit.compile(f, backend=backend) for f in functions]
    for _ in range(2):
        for f, fast in zip(functions, compiled):
            assert same(fast(x), f(x))
    assert backend.graphs == 1
    assert len({fast.entries[0].spec.replacement.graph for fast in compiled}) == 1 and all(fast.entries[0].hits == 2 for fast in compiled)
    other = make(torch.rand(3, 3), torch.rand(3))
    assert same(framejit.compile(other, backend=backend)(x), other(x)) and backend.graphs == 2


def test_what_the_trace_looked_at_is_part_of_the_call(backend):
    """Closure cells, defaults and keyword defaults of another function of the same code are looked at, not taken for the first one's."""

    def make(n, m, k):
        def f(t, a=m, *, b=k):
            return t * n + a * b

        return f

    for values in [(1, 2, 3), (1, 2, 3), (2, 2, 3), (1, 5, 3), (1, 2, 7), (2, 2, 3)]:
        f = make(*values)
        assert same(framejit.compile(f, backend=backend)(x), f(x)), values


def test_names_and_attributes_of_another_function():
    def make(tag):
        def f(t):
            return t + 1, f.tag, f.__name__

        f.tag = tag
        f.__name__ = f"f{tag}"
        return f

    for tag in (1, 2, 1):
        f = make(tag)
        found, expected = framejit.compile(f, backend="eager")(x), f(x)
        assert same(found[0], expected[0]) and found[1:] == expected[1:] == (tag, f"f{tag}")


def test_a_function_that_refers_to_itself_or_to_another_of_its_code():
    """The first function calls itself; a function of the same code may call another one instead, and must not get the first one's entry."""

    def make(n, peer=None):
        def g(t, depth):
            return t * n if depth == 0 else other(t, depth - 1) + n

        other = g if peer is None else peer
        return g

    itself, far = make(1), make(5)
    for f in (itself, make(1), make(1, far), make(1, make(1, far)), make(1)):
        fast = framejit.compile(f, backend="eager")
        for depth in (0, 1, 2):
            assert same(fast(x, depth), f(x, depth)), depth


def test_a_function_that_returns_itself_or_its_parts():
    def make(values):
        def g(t, more=values):
            return t + 1, g, values, more, g.__defaults__[0], g.__closure__

        return g

    for values in ([1], [1], (2,)):
        g = make(values)
        fast = framejit.compile(g, backend="eager")
        for _ in range(2):
            ours, theirs = fast(x), g(x)
            assert all(mine is its for mine, its in zip(ours[1:-1], theirs[1:-1])) and ours[-1] == theirs[-1]


def test_functions_made_in_the_shared_code_have_their_own_cells():
    def make(n):
        def g(t):
            def add(amount):
                nonlocal n
                n += amount
                return n

            return t * 2, add, lambda: n

        return g

    made = [framejit.compile(make(n), backend="eager")(x)[1:] for n in (10, 10, 20)]
    assert [add(1) for add, _ in made] == [11, 11, 21] and made[0][0](5) == 16
    assert [read() for _, read in made] == [16, 11, 21]


def test_super_and_class_cells():
    class A:
        def f(self, t):
            return t + 1

    def make():
        class B(A):
            def f(self, t):
                return super().f(t) * 2, __class__

        return B

    for cls in (make(), make()):
        value, found = framejit.compile(cls.f, backend="eager")(cls(), x)
        assert same(value, (x + 1) * 2) and found is cls


def test_functions_of_other_globals_do_not_share(backend):
    f = lambda t: t * FACTOR  # noqa: F821
    alike = [types.FunctionType(f.__code__, {"FACTOR": factor, "__builtins__": __builtins__}) for factor in (2, 3, 2)]
    compiled = [framejit.compile(g, backend=backend) for g in alike]
    for fast, factor in zip(compiled, (2, 3, 2)):
        assert same(fast(x), x * factor)
    assert backend.graphs == 3


def test_other_builtins_do_not_share():
    code = (lambda t: t * len((1, 2))).__code__
    for length in (2, 5):
        g = types.FunctionType(code, {"__builtins__": {"len": lambda value, length=length: length}})
        assert same(framejit.compile(g, backend="eager")(x), x * length)


@pytest.mark.parametrize(
    "other",
    [
        {"fullgraph": True}, {"recompile_limit": 3}, {"isolate_recompiles": True}, {"backend": "eager"},
    ],
    ids=lambda other: next(iter(other)),
)  # fmt: skip
def test_other_options_do_not_share(backend, other):
    f = lambda t: t + 1
    first, second = framejit.compile(f, backend=backend), framejit.compile(f, **{"backend": backend, **other})
    assert same(first(x), second(x)) and first.entries != second.entries
    block = Block()
    first, second = framejit.compile(block, backend=backend), framejit.compile(block, **{"backend": backend, **other})
    assert type(first) is not type(second)
    third = framejit.compile(block, backend=backend)
    assert type(first) is type(third)


@pytest.mark.parametrize(
    ("mine", "others", "shares"),
    [
        ({"a": [1, "b"], "c": {"d": 0.5}}, {"c": {"d": 0.5}, "a": [1, "b"]}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": numpy.zeros(5000)}, {"a": numpy.eye(1, 5000, 2500)[0]}, False),  # whose repr leaves out all but a few items
    ],
    ids=["equal", "types", "arrays"],
)
def test_options_of_a_backend(mine, others, shares):
    graphs = []

    def backend(gm, example_inputs, options):
        graphs.append(gm)
        return gm

    def end(t):
        return t + 1

    first, second = (framejit.compile(end, backend=backend, options=options) for options in (mine, others))
    assert same(first(x), second(x)) and len(graphs) == (1 if shares else 2)


def test_other_configurations_do_not_share(backend):
    f = lambda t: t + 1
    first = framejit.compile(f, backend=backend)
    with config.replace(unroll_limit=7):
        second = framejit.compile(f, backend=backend)
    first(x), second(x)
    assert backend.graphs == 2


def test_backends_that_record_addresses_do_not_share():
    class Recording(Backend):
        def cudagraphs(self):
            return True

    graphs = []
    backend = Recording("recording", lambda gm, example_inputs: graphs.append(gm) or gm)
    blocks = [framejit.compile(Block(), backend=backend) for _ in range(3)]
    methods = [framejit.compile(Block().forward, backend=backend) for _ in range(3)]
    for f in [*blocks, *methods]:
        f(x)
    assert len(graphs) == 6 and len({type(block) for block in blocks}) == 3


@pytest.mark.parametrize("freezing", [False, True])
def test_inductor_and_frozen_parameters(freezing):
    """A frozen parameter is a constant of the graph: the entry is guarded by its identity, so it serves no other module."""
    blocks = [Block().eval() for _ in range(3)]
    plain = copy.deepcopy(blocks)
    compiled = [framejit.compile(block, backend="inductor", options={"freezing": freezing}) for block in blocks]
    framejit.reset()
    with torch.no_grad():
        for _ in range(2):
            for fast, block in zip(compiled, plain):
                torch.testing.assert_close(fast(x), block(x))
    assert len(entries(compiled[0])) == framejit.statistics()["graphs"] == (3 if freezing else 1)
    if freezing:
        with torch.no_grad():
            blocks[0].scale.copy_(torch.rand(3))  # a new parameter is noticed
            blocks[0].scale = nn.Parameter(torch.rand(3))
            plain[0].scale = nn.Parameter(blocks[0].scale.detach().clone())
            torch.testing.assert_close(compiled[0](x), plain[0](x))


def test_blocks_that_differ_have_entries_of_their_own(backend):
    class Indexed(Block):
        def forward(self, t):
            return super().forward(t) * self.index

    blocks = [framejit.compile(Indexed(index=i), backend=backend) for i in range(20)]
    for _ in range(3):
        for block in blocks:
            assert same(block(x), copy.deepcopy(block)(x))
    assert backend.graphs == 20 and framejit.statistics()["fallbacks"] == 0
    assert len(entries(blocks[0])) == 20 and all(entry.hits >= 3 for entry in entries(blocks[0]))


def test_an_index_that_is_only_passed_on_is_no_difference(backend):
    """layer_idx as transformers uses it: stored with, or handed to, what comes out. As a key of a dict it is looked at."""

    class Indexed(Block):
        def forward(self, t, seen, cache):
            t = super().forward(t)
            seen.append(self.index)
            if cache is not None:
                cache[self.index] = t
            return t, self.index

    blocks = [framejit.compile(Indexed(index=i), backend=backend) for i in range(5)]
    for block in blocks:
        seen: list[int] = []
        t, index = block(x, seen, None)
        assert (seen, index) == ([block.index], block.index) and same(t, Block.forward(copy.deepcopy(block), x))
    assert backend.graphs == 1
    for block in blocks:
        cache: dict[int, torch.Tensor] = {}
        block(x, [], cache)
        assert list(cache) == [block.index]


def test_counters_and_steps_do_not_compile_again(backend):
    class Step(nn.Module):
        def __init__(self):
            super().__init__()
            self.step, self.seen, self.total = 0, 0.0, 0

        def forward(self, t, number):
            self.step += 1
            self.seen = self.seen + 0.5
            self.total += number
            return t * 2, self.step, number + 1

    plain, fast = Step(), framejit.compile(Step(), backend=backend)
    for number in range(5):
        ours, theirs = fast(x, number), plain(x, number)
        assert ours[1:] == theirs[1:] and same(ours[0], theirs[0])
        assert (fast.step, fast.seen, fast.total) == (plain.step, plain.seen, plain.total)
    assert backend.graphs == 1


def test_hooks_and_state_of_one_of_them(backend):
    blocks = [Block() for _ in range(3)]
    compiled = [framejit.compile(block, backend=backend) for block in blocks]
    expected = [copy.deepcopy(block)(x) for block in blocks]
    assert all(same(fast(x), plain) for fast, plain in zip(compiled, expected))
    handle = compiled[1].register_forward_hook(lambda module, args, output: output * 10)
    for n, fast in enumerate(compiled):
        assert same(fast(x), expected[n] * (10 if n == 1 else 1))
    handle.remove()
    compiled[2].eval(), compiled[0].half()
    for n, fast in enumerate(compiled[1:], 1):
        assert same(fast(x), expected[n])
    assert same(compiled[0](x.half()), copy.deepcopy(compiled[0])(x.half()))
    blocks[1].linear.weight = nn.Parameter(torch.zeros(3, 3))
    assert same(compiled[1](x), copy.deepcopy(blocks[1])(x)) and same(compiled[2](x), expected[2])


def test_graph_breaks_in_shared_entries(backend, capsys):
    class Talking(Block):
        def forward(self, t):
            t = super().forward(t)
            print(type(self).__name__, self.index)
            return t * 2

    blocks = [framejit.compile(Talking(index=i), backend=backend) for i in range(4)]
    for block in blocks:
        assert same(block(x), Block.forward(copy.deepcopy(block), x) * 2)
    assert capsys.readouterr().out == "".join(f"Talking {i}\n" for i in range(4))
    assert backend.graphs == 2 + (len(entries(blocks[0])) - 1) * 2


def test_a_class_patched_later(backend):
    class Local(Block):
        pass

    first = framejit.compile(Local(), backend=backend)
    expected = copy.deepcopy(first)(x)
    assert same(first(x), expected)
    Local.forward = lambda self, t: t * 3  # type: ignore[method-assign]
    assert same(first(x), x * 3)
    del Local.forward
    assert same(first(x), expected)
    Local.__call__ = lambda self, t: t * 7  # type: ignore[method-assign]
    second = framejit.compile(Local(), backend=backend)
    assert type(second) is not type(first) and same(second(x), x * 7)


# ---- lifetime ----


def test_entries_of_modules_outlive_the_last_one(backend):
    blocks = [framejit.compile(Block(), backend=backend) for _ in range(3)]
    for block in blocks:
        block(x)
    [entry] = entries(blocks[0])
    entry_gone, class_gone = weakref.ref(entry), weakref.ref(type(blocks[0]))
    del entry, block
    del blocks[0], blocks[0]
    gc.collect()
    assert entry_gone() is not None and same(blocks[0](x), copy.deepcopy(blocks[0])(x)) and backend.graphs == 1
    weight_gone = weakref.ref(next(blocks[0].parameters()))
    blocks.clear()
    gc.collect()
    assert weight_gone() is None and entry_gone() is not None  # for another module of the class
    framejit.reset()
    gc.collect()
    assert entry_gone() is None and class_gone() is None and not compiled_module._fronts


def test_entries_of_functions_outlive_the_last_one(backend):
    def make(weight):
        return framejit.compile(lambda t: t @ weight, backend=backend)

    compiled = [make(torch.rand(3, 3)) for _ in range(3)]
    for fast in compiled:
        fast(x)
    graph = weakref.ref(compiled[0].entries[0].spec.replacement.graph)
    del fast, compiled[0]
    gc.collect()
    assert same(make(weight := torch.rand(3, 3))(x), x @ weight) and backend.graphs == 1
    compiled.clear()
    gc.collect()
    assert same(make(weight)(x), x @ weight) and backend.graphs == 1
    framejit.reset()
    gc.collect()
    assert graph() is None and not sharing._pools


def test_reset_forgets_shared_entries(backend):
    blocks = [framejit.compile(Block(), backend=backend) for _ in range(2)]
    functions = [framejit.compile(lambda t: t + 1, backend=backend) for _ in range(2)]
    for f in [*blocks, *functions]:
        f(x)
    assert backend.graphs == 2
    framejit.reset()
    assert not entries(blocks[0]) and not any(f.entries for f in functions)
    for f in [*blocks, *functions]:
        f(x)
    assert backend.graphs == 4


@pytest.mark.slow
def test_entries_that_can_never_match_again_make_room(backend):
    fast = framejit.compile(lambda t, key: t + 1 if key.__name__ == "Key" else t - 1, backend=backend)
    for _ in range(20):

        class Key:
            pass

        assert same(fast(x, Key), x + 1)
        del Key
        gc.collect()
    assert len(fast.entries) <= config.current().recompile_limit and framejit.statistics()["fallbacks"] == 0


def test_many_functions_made_and_dropped_leave_nothing(backend):
    def make(n):
        return framejit.compile(lambda t: t * n, backend="eager")

    for n in range(300):
        make(n % 3)
    gc.collect()
    assert not sharing._pools and not compiled_module._fronts


def test_first_calls_from_many_threads(backend):
    blocks = [Block() for _ in range(8)]
    expected = [copy.deepcopy(block)(x) for block in blocks]
    found: dict[int, torch.Tensor] = {}
    gate = threading.Barrier(8)

    def run(n):
        gate.wait()
        found[n] = framejit.compile(blocks[n], backend=backend)(x)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(same(found[n], expected[n]) for n in range(8)) and backend.graphs <= 8


# ---- copies and pickles ----


def test_copies_are_ordinary_modules():
    first, second = framejit.compile(Block(), backend="eager"), framejit.compile(Block(), backend="eager")
    assert type(first) is type(second) and isinstance(first, Block)
    assert type(copy.copy(first)) is type(copy.deepcopy(second)) is Block
