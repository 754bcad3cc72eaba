"""set_stance, framejit's and torch's: as a function, a decorator and a context manager, on threads, and in compiled code."""

from __future__ import annotations

import gc
import logging
import threading

import pytest
import torch
from torch import nn

import framejit
from framejit.said import stance

x = torch.arange(3.0)


@pytest.fixture(autouse=True)
def default_afterwards():
    framejit.reset()
    yield
    framejit.set_stance("default")
    torch.compiler.set_stance("default")
    assert stance.current() == "default" and not stance._thread.stances


def program():
    """A function compiled, and how its last call ran."""
    compiling = []

    def f(t, n=1):
        compiling.append(framejit.is_compiling())
        return t * n

    fast = framejit.compile(f, backend="eager")

    def ran(*args):
        compiling.clear()
        assert torch.equal(fast(*args), args[0] * (args[1] if len(args) > 1 else 1))
        return "compiled" if compiling == [True] else "eager"

    return fast, ran


# ---- what each means ----


def test_force_eager():
    fast, ran = program()
    with framejit.set_stance("force_eager"):
        assert ran(x) == "eager" and not fast.entries
    assert ran(x) == "compiled"
    with framejit.set_stance("force_eager"):
        assert ran(x) == "eager" and fast.entries[0].hits == 1
        with framejit.set_stance("default"):
            assert ran(x) == "compiled"
        assert ran(x) == "eager"
    assert ran(x) == "compiled"


def test_eager_on_recompile():
    fast, ran = program()
    with framejit.set_stance("eager_on_recompile"):
        assert ran(x) == "eager" and not fast.entries
    assert ran(x) == "compiled"
    with framejit.set_stance("eager_on_recompile"):
        assert ran(x) == "compiled" and ran(x, 2) == "eager" and ran(x) == "compiled"
    assert ran(x, 2) == "compiled" and len(fast.entries) == 2


def test_fail_on_recompile():
    fast, ran = program()
    with framejit.set_stance("fail_on_recompile"), pytest.raises(framejit.RecompileError, match="nothing has been compiled for it yet"):
        fast(x)
    assert ran(x) == "compiled"
    with framejit.set_stance("fail_on_recompile"):
        assert ran(x) == "compiled"
        with pytest.raises(framejit.RecompileError, match=r"the stance is fail_on_recompile\nentry 0: n: expected that it == 1; found 2") as caught:
            fast(x, 2)
    assert "return t * n" in str(caught.value) and isinstance(caught.value, framejit.FramejitError)
    [failure] = caught.value.failures
    assert failure.source == "n" and failure.line.lineno and failure.hint
    assert ran(x, 2) == "compiled"


def test_eager_then_compile():
    fast, ran = program()
    with framejit.set_stance("eager_then_compile"):
        assert [ran(x), ran(x), ran(x), ran(x, 2)] == ["eager", "compiled", "compiled", "compiled"]
    framejit.reset()
    with framejit.set_stance("eager_then_compile"):
        assert [ran(x), ran(x)] == ["eager", "compiled"]


def test_eager_then_compile_learns_what_varies():
    def f(t, n, rest):
        return (t * n + len(rest)) * rest["scale"], rest["tensors"][0].sum()

    with framejit.set_stance("eager_then_compile"):
        fast = framejit.compile(f, backend="eager", fullgraph=True)
        for rows, n in ((3, 2), (4, 5), (6, 7), (7, 9)):
            args = torch.ones(rows, 2), n, {"scale": n / 4, "tensors": [torch.ones(2, rows)]}
            result, expected = fast(*args), f(*args)
            assert torch.equal(result[0], expected[0]) and torch.equal(result[1], expected[1])
        assert framejit.statistics()["graphs"] == len(fast.entries) == 1
        fast(torch.ones(8, 3), 9, args[2])  # this size hadn't varied
        assert framejit.statistics()["graphs"] == 2


def test_eager_then_compile_with_nothing_symbolic():
    with framejit.set_stance("eager_then_compile"):
        fast = framejit.compile(lambda t: t + 1, backend="eager", dynamic=False)
        for rows in (3, 4, 5):
            fast(torch.ones(rows))
        assert len(fast.entries) == 2
        fast = framejit.compile(lambda t: t.sin(), backend="eager")
        fast(torch.ones(3)), fast(torch.ones(3, 3)), fast(torch.ones(4, 3))
        assert framejit.statistics()["graphs"] == 4


def test_eager_then_compile_over_a_graph_break():
    fast = framejit.compile(lambda t: (framejit.graph_break(), t + 1)[1] * 2, backend="eager")
    with framejit.set_stance("eager_then_compile"):
        assert torch.equal(fast(x), (x + 1) * 2) and not fast.entries
        assert torch.equal(fast(x), (x + 1) * 2) and len(fast.entries) == 1 and framejit.statistics()["graphs"] == 1


def test_stances_hold_for_resume_functions():
    def f(t, n):
        t = t + 1
        framejit.graph_break()
        return t * n

    fast = framejit.compile(f, backend="eager")
    assert torch.equal(fast(x, 1), x + 1)
    with framejit.set_stance("eager_on_recompile"):
        assert torch.equal(fast(x, 2), (x + 1) * 2) and framejit.statistics()["recompiles"] == 0
    with framejit.set_stance("fail_on_recompile"):
        assert torch.equal(fast(x, 1), x + 1)
        with pytest.raises(framejit.RecompileError, match="expected that it == 1; found 2"):
            fast(x, 2)
    assert torch.equal(fast(x, 2), (x + 1) * 2)


def test_a_failing_stance_leaves_blocks_of_the_call_in_order():
    seen = []

    def f(t, n):
        try:
            framejit.graph_break()
            return t * n
        finally:
            seen.append(n)

    fast = framejit.compile(f, backend="eager")
    fast(x, 1)
    with framejit.set_stance("fail_on_recompile"), pytest.raises(framejit.RecompileError):
        fast(x, 2)
    assert seen == [1, 2]


# ---- forms ----


def test_as_a_function_it_holds_for_the_process():
    fast, ran = program()
    on_thread = []

    def everywhere():
        thread = threading.Thread(target=lambda: on_thread.append(ran(x)))
        thread.start()
        thread.join()
        return ran(x), on_thread.pop()

    framejit.set_stance("force_eager")
    gc.collect()
    assert everywhere() == ("eager", "eager")
    framejit.set_stance("default")
    assert everywhere() == ("compiled", "compiled")
    with framejit.set_stance("force_eager"):
        assert everywhere() == ("eager", "compiled")
    framejit.set_stance("force_eager")
    with framejit.set_stance("default"):
        assert everywhere() == ("compiled", "eager")
    assert everywhere() == ("eager", "eager")


def test_as_a_decorator():
    fast, ran = program()

    @framejit.set_stance("force_eager")
    def careful(t):
        """Documented."""
        return ran(t), stance.current()

    assert stance.current() == "default" and careful.__name__ == "careful" and careful.__doc__ == "Documented."
    assert careful(x) == ("eager", "force_eager") and ran(x) == "compiled"
    with pytest.raises(ZeroDivisionError):
        framejit.set_stance("force_eager")(lambda: 1 / 0)()
    assert stance.current() == "default"
    assert framejit.set_stance("force_eager")(fast)(x) is not None and fast.entries[0].hits == 1


def test_as_a_context_manager_nested_and_entered_again():
    off = framejit.set_stance("force_eager")
    assert stance.current() == "force_eager"  # announced until it turns out to be a block's
    with off:
        assert stance.current() == "force_eager"
        with framejit.set_stance("eager_on_recompile"), off:
            assert stance.current() == "force_eager"
        assert stance.current() == "force_eager"
    assert stance.current() == "default"
    with pytest.raises(ZeroDivisionError), off:
        raise ZeroDivisionError
    assert stance.current() == "default"


def test_as_a_function_inside_a_block_it_ends_with_the_block():
    with framejit.set_stance("force_eager"):
        framejit.set_stance("eager_on_recompile")
        assert stance.current() == "eager_on_recompile"
        with framejit.set_stance("default"):
            assert stance.current() == "default"
        assert stance.current() == "eager_on_recompile"
    assert stance.current() == "default"


def test_blocks_of_several_threads_do_not_mix():
    names = list(stance.STANCES)
    wrong: list[str] = []
    gate = threading.Barrier(4)

    def work(n):
        gate.wait()
        for i in range(300):
            name = names[(n + i) % len(names)]
            with framejit.set_stance(name):
                if stance.current() != name:
                    wrong.append(name)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and stance.current() == "default" and len(stance._process) <= 5


def test_many_announcements_take_no_memory():
    for n in range(1000):
        framejit.set_stance("default" if n % 2 else "force_eager")
    assert len(stance._process) <= 2 and stance.current() == "default"


@pytest.mark.parametrize(
    ("name", "told"),
    [("force_eagre", "did you mean 'force_eager'"), ("fail_on_recompiles", "fail_on_recompile"), ("x", "known: default"), (3, "no stance 3")],
)
def test_a_wrong_name(name, told):
    with pytest.raises(framejit.BadArgument, match=told):
        framejit.set_stance(name)
    assert stance.current() == "default"


def test_what_can_not_be_decorated():
    def generator():
        yield 1

    async def coroutine(): ...

    for function in (generator, coroutine, 3):
        with pytest.raises(framejit.BadArgument, match="set_stance"):
            framejit.set_stance("force_eager")(function)
    assert stance.current() == "default"


def test_modules_and_disable():
    m = framejit.compile(nn.Linear(3, 3), backend="eager")
    with framejit.set_stance("force_eager"):
        m(x)
        assert not type(m).__call__.entries
    fast, ran = program()
    with framejit.disable(), framejit.set_stance("default"):
        assert ran(x) == "eager"


# ---- in compiled code ----


@pytest.mark.parametrize("set_stance", [framejit.set_stance, torch.compiler.set_stance], ids=["framejit", "torch"])
def test_in_compiled_code_it_splits_the_graph(set_stance):
    seen = []

    @framejit.disable(recursive=False)
    def look():
        seen.append((framejit.is_compiling(), stance.current(), framejit.driver.torch_stance.current()))

    def f(t):
        t = t + 1
        with set_stance("force_eager"):
            look()
            t = t * 2
        look()
        return t - 1

    fast = framejit.compile(f, backend="eager")
    ours = set_stance is framejit.set_stance
    for _ in range(2):
        assert torch.equal(fast(x), (x + 1) * 2 - 1)
    expected = [(False, "force_eager", "default") if ours else (False, "default", "force_eager"), (False, "default", "default")]
    assert seen == expected * 2
    assert any("set_stance() in compiled code" in reason for reason in framejit.statistics()["reasons"])
    with pytest.raises(framejit.Unsupported, match=r"set_stance\(\) in compiled code"):
        framejit.compile(f, backend="eager", fullgraph=True)(x)


def test_as_a_function_and_as_a_decorator_in_compiled_code():
    @framejit.set_stance("force_eager")
    def careful(t):
        return t * 2 if not framejit.is_compiling() else t * 0

    def f(t):
        t = careful(t) + 1
        framejit.set_stance("eager_on_recompile")
        return t

    fast = framejit.compile(f, backend="eager")
    assert torch.equal(fast(x), x * 2 + 1) and stance.current() == "eager_on_recompile"
    framejit.set_stance("default")
    assert torch.equal(fast(x), x * 2 + 1) and stance.current() == "eager_on_recompile"


# ---- torch's own ----


def test_torch_set_stance_is_honoured():
    fast, ran = program()
    with torch.compiler.set_stance("force_eager"):
        assert ran(x) == "eager" and not fast.entries
    assert ran(x) == "compiled"
    torch.compiler.set_stance("force_eager")
    assert ran(x) == "eager"
    torch.compiler.set_stance("eager_on_recompile")
    assert ran(x) == "compiled" and ran(x, 2) == "eager"
    torch.compiler.set_stance("fail_on_recompile")
    with pytest.raises(framejit.RecompileError):
        fast(x, 2)
    torch.compiler.set_stance("default")
    assert ran(x, 2) == "compiled"

    @torch.compiler.set_stance("force_eager")
    def careful():
        return ran(x)

    assert careful() == "eager" and ran(x) == "compiled"
    framejit.reset()
    with torch.compiler.set_stance("aot_eager_then_compile"):
        fast, ran = program()
        assert [ran(x), ran(x)] == ["eager", "compiled"]
    with torch.compiler.set_stance("force_eager"), framejit.set_stance("default"):
        assert ran(x) == "eager"


def test_what_of_torch_is_not_honoured_is_said(caplog):
    fast, ran = program()
    ran(x)
    with caplog.at_level(logging.WARNING, "framejit"):
        with torch.compiler.set_stance("default", skip_guard_eval_unsafe=True):
            assert ran(x) == "compiled" and ran(x, 3) == "compiled"
        with torch.compiler.set_stance("default", force_backend="eager"):
            ran(x)
        with torch.compiler.set_stance("default", skip_guard_eval_unsafe=True):
            ran(x)
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2 and "skip_guard_eval_unsafe" in messages[0] and "force_backend" in messages[1]
