"""Calls that run uncompiled because their trace saw the program raise: each must raise, and what happens where one doesn't."""

from __future__ import annotations

import functools
import gc
import math
import operator
import signal
import threading
import traceback
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from agreement import Comparison
from torch import nn

import framejit
from framejit import config
from framejit.objects.core import registry

x = torch.arange(3.0)
eager = functools.partial(framejit.compile, backend="eager")
calls: list[str] = []


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    framejit.reset()
    calls.clear()
    yield


@pytest.fixture(autouse=True)
def wrong_model(monkeypatch):
    """framejit takes math.isqrt for a function that raises TypeError, and doesn't compare models with the real functions."""

    def model(vm, *args):
        vm.raise_(TypeError, "wrong")

    monkeypatch.setattr(registry.meaning_to_fill(math.isqrt), "model", model)
    monkeypatch.setattr(threading, "active_count", lambda: 1)  # libraries' threads of earlier tests may be about
    with config.replace(check="guards"):
        yield


def same(a: Any, b: Any) -> bool:
    Comparison().same(a, b)
    return True


# ---- programs in which the model is believed ----


def plain(a):
    calls.append("plain")
    return a * math.isqrt(16)


def in_a_callee(a):
    return plain(a + 1) * 2


def behind_a_break(a):
    a = a + 1
    framejit.graph_break()
    return a * math.isqrt(16)


def behind_a_break_in_a_callee(a):
    return behind_a_break(a) + behind_a_break(a * 2)


def in_a_generator(a):
    return sum(a * math.isqrt(n) for n in (16, 25))


def in_a_loop_that_breaks(a):
    for n in (16, 25):
        framejit.graph_break()
        a = a * math.isqrt(n)
    return a


def under_modes(a):
    with torch.no_grad(), torch.inference_mode():
        return a * math.isqrt(16)


def with_keywords(a, *rest, scale=2, **others):
    return a * math.isqrt(16) * scale


class Scaled(nn.Module):
    def forward(self, a):
        return a * math.isqrt(16)


class Key:
    def __init__(self, tensor):
        self.tensor = tensor

    def __lt__(self, other):
        return bool((self.tensor < other.tensor * math.isqrt(1)).all())


def called_natively(a):
    framejit.graph_break()
    return [key.tensor for key in sorted(map(Key, (a + 1, a)))]


PROGRAMS = [
    plain, in_a_callee, behind_a_break, behind_a_break_in_a_callee, in_a_generator, in_a_loop_that_breaks, under_modes, with_keywords, Scaled(),
    called_natively,
]  # fmt: skip
named = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: getattr(program, "__name__", "module"))


@named
def test_a_call_that_does_not_raise_is_an_internal_error(program):
    with pytest.raises(framejit.InternalError, match=r"would raise TypeError at .*test_predictions.py:\d+; it returned") as caught:
        eager(program)(x)
    assert caught.value.__cause__ is None and framejit.statistics()["internal_errors"] == 1


@named
def test_without_strict_there_is_one_warning_and_the_claim_is_gone(program, lenient, warnings_logged):
    compiled = eager(program)
    for factor in (1, 2, 3):
        assert same(compiled(x * factor), program(x * factor))
    warnings = warnings_logged()
    assert len(warnings) == len({warning.partition("(")[0] for warning in warnings}) == framejit.statistics()["internal_errors"]
    assert all("would raise TypeError" in warning and "FRAMEJIT_STRICT=1" in warning for warning in warnings)
    assert all(entry.code is not None or entry.outcome is None for entry in getattr(compiled, "entries", ()))


def test_one_piece_is_never_eager_in_silence(lenient):
    compiled = eager(plain, fullgraph=True)
    for _ in range(3):
        with pytest.raises(framejit.Unsupported, match="FJ031 framejit was wrong about what the program raises: .*TypeError"):
            compiled(x)
    assert calls == ["plain"]  # from the second call on it is refused beforehand


def in_a_region(a):
    with framejit.error_on_graph_break(True):
        return plain(a)


@framejit.error_on_graph_break(True)
def decorated(a):
    return plain(a)


def in_a_region_behind_a_break(a):
    framejit.graph_break()
    return decorated(a)


def breaks_allowed(a):
    with framejit.error_on_graph_break(False):
        return plain(a)


ONE_PIECE = [(in_a_region, {}), (decorated, {}), (in_a_region_behind_a_break, {}), (breaks_allowed, {"fullgraph": True})]


@pytest.mark.parametrize(("program", "options"), ONE_PIECE)
def test_a_region_without_breaks_is_never_eager_in_silence(program, options, lenient):
    compiled = eager(program, **options)
    for _ in range(3):
        with pytest.raises(framejit.Unsupported, match="FJ031 framejit was wrong about what the program raises: .*TypeError"):
            compiled(x)
    assert calls == ["plain"]


def behind_a_region(a):
    with framejit.error_on_graph_break(True):
        a = a + 1
    return plain(a)


def test_a_region_says_nothing_of_what_follows_it(lenient, warnings_logged):
    for program in (behind_a_region, breaks_allowed):
        assert same(eager(program)(x), program(x))
    assert len(warnings_logged()) == 2


def test_what_raises_in_a_region_raises():
    def program(a):
        with framejit.error_on_graph_break(True):
            raise LookupError(str(a.shape))

    for options in ({}, {"fullgraph": True}):
        for _ in range(2):
            with pytest.raises(LookupError, match="3"):
                eager(program, **options)(x)


def other(a):
    math.isqrt(16)
    raise LookupError("mine")


def test_another_exception_comes(lenient, warnings_logged):
    for options in ({}, {"fullgraph": True}):
        compiled = eager(other, **options)
        with pytest.raises(LookupError, match="mine"):
            compiled(x)
        framejit.reset()
    assert len(warnings_logged()) == 2 and "it raised LookupError: mine" in warnings_logged()[0]


def test_another_exception_is_an_internal_error():
    with pytest.raises(framejit.InternalError, match="would raise TypeError .*it raised LookupError: mine") as caught:
        eager(other)(x)
    assert isinstance(caught.value.__cause__, LookupError)


def test_a_claim_about_one_module_is_none_about_another(lenient):
    class Root(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.n = n

        def forward(self, a):
            return a * (math.isqrt(16) if self.n else 1)

    wrong, right = eager(Root(1)), eager(Root(0))
    for _ in range(2):
        assert same(wrong(x), x * 4) and same(right(x), x)
    assert framejit.statistics()["graphs"] == 1


# ---- programs that do raise ----


class Mine(ValueError):
    pass


def raises(a, n):
    b = a + 1
    if n > 1:
        raise Mine("mine", n)
    return b


def raises_in_a_handler(a, n):
    try:
        return {}[n]
    except KeyError:
        raise Mine(n)


def raises_behind_a_break(a, n):
    framejit.graph_break()
    return raises(a, n + 1)


def raises_in_an_operator(a, n):
    return a @ torch.ones(n + 5)


@pytest.mark.parametrize("program", [raises, raises_in_a_handler, raises_behind_a_break, raises_in_an_operator])
@pytest.mark.parametrize("whole", [False, True])
def test_what_comes_is_eagers(program, whole):
    if whole and program is raises_behind_a_break:
        pytest.skip("has a graph break")
    compiled = eager(program, fullgraph=whole)
    with pytest.raises(Exception) as expected:
        program(x, 2)
    for _ in range(2):
        with pytest.raises(type(expected.value)) as caught:
            compiled(x, 2)
        assert caught.value.args == expected.value.args and type(caught.value.__context__) is type(expected.value.__context__)
        names = [[frame.name for frame in traceback.extract_tb(error.value.__traceback__)[1:]] for error in (expected, caught)]
        assert names[1] == names[0] or program is raises_behind_a_break
    assert framejit.statistics()["internal_errors"] == 0


def test_nothing_holds_what_was_raised():
    compiled = eager(raises)
    for _ in range(2):
        gc.disable()
        try:
            with pytest.raises(Mine) as caught:
                compiled(x, 2)
            held = weakref.ref(caught.value)
            del caught
            gc.collect()
            assert held() is None
        finally:
            gc.enable()


class TimeOut(Exception):
    pass


def alarmed(number, frame):
    raise TimeOut


def recurse(n):
    return recurse(n + 1)


STRIKES = {
    TimeOut: lambda: signal.raise_signal(signal.SIGUSR1),
    KeyboardInterrupt: lambda: signal.raise_signal(signal.SIGINT),
    MemoryError: lambda: bytearray(1 << 60),
    RecursionError: lambda: recurse(0),
}


class Strikes:
    """Does at its truth what the trace knows nothing of."""

    def __init__(self, what: type[BaseException]) -> None:
        self.what = what

    def __bool__(self) -> bool:
        STRIKES[self.what]()
        return True


@pytest.mark.parametrize("cls", STRIKES)
def test_what_any_instruction_may_raise_is_no_refutation(cls, monkeypatch):
    monkeypatch.setattr(registry.meaning_to_fill(operator.truth), "model", lambda vm, a: vm.const(True))

    def f(a, strikes):
        operator.truth(strikes)
        raise Mine

    before = signal.signal(signal.SIGUSR1, alarmed)
    before_interrupt = signal.signal(signal.SIGINT, signal.default_int_handler)  # pytest-xdist's workers ignore Ctrl-C
    try:
        compiled = eager(f)
        for _ in range(2):
            with pytest.raises(cls):
                compiled(x, Strikes(cls))
        assert framejit.statistics()["internal_errors"] == 0
    finally:
        signal.signal(signal.SIGUSR1, before)
        signal.signal(signal.SIGINT, before_interrupt)


# ---- errors of operators that the program handles ----


def handled(a, b):
    calls.append("handled")
    try:
        return a @ b
    except RuntimeError as error:
        return a * 2, str(error)


def handled_outside(a, b):
    try:
        return (a * 3, handled_not(a, b))
    except RuntimeError as error:
        return a * 2, type(error)
    finally:
        calls.append("left")


def handled_not(a, b):
    c = a + 1
    return c @ b


@pytest.mark.parametrize("program", [handled, handled_outside])
def test_an_operators_error_that_is_handled_breaks_the_graph(program):
    compiled = eager(program)
    for _ in range(2):
        assert same(compiled(x, torch.ones(4)), program(x, torch.ones(4)))
        assert same(compiled(x, torch.ones(3)), program(x, torch.ones(3)))
    assert framejit.statistics()["internal_errors"] == framejit.statistics()["fallbacks"] == 0
    assert len(calls) == 8


@pytest.mark.parametrize("program", [handled, handled_outside])
def test_an_operators_error_that_is_handled_is_not_eager_in_silence(program):
    compiled = eager(program, fullgraph=True)
    assert same(compiled(x, torch.ones(3)), program(x, torch.ones(3)))
    for _ in range(2):
        with pytest.raises(framejit.Unsupported, match="FJ006 tensor operator raises"):
            compiled(x, torch.ones(4))


def test_an_operators_error_under_torchs_own_blocks_is_eagers():
    def f(a, b):
        with torch.no_grad():
            return a @ b

    compiled = eager(f, fullgraph=True)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="inconsistent tensor size"):
            compiled(x, torch.ones(4))


def test_an_operator_on_other_data_raises_before() -> None:
    def picks(a, index):
        chosen = a[index]
        raise KeyError(chosen.shape)

    compiled = eager(picks)
    for number, error in ((1, KeyError), (1, KeyError), (7, IndexError), (1, KeyError)):
        with pytest.raises(error):
            compiled(x, torch.tensor([number]))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_is_only_computed_to_see_whether_it_raises_gives_no_gradient(backend: str) -> None:
    def loss(a, weight, matrix):
        try:
            torch.linalg.cholesky(matrix)
        except RuntimeError:
            weight = weight * 2
        return (a * weight).sum()

    compiled = framejit.compile(loss, backend=backend)
    for diagonal in (1.0, 0.0, 1.0):
        weight, matrix = torch.ones(3, requires_grad=True), (torch.eye(3) * diagonal).requires_grad_()
        compiled(x, weight, matrix).backward()
        assert matrix.grad is None and torch.equal(weight.grad, x if diagonal else x * 2)


def test_what_goes_another_way_because_it_is_compiled_is_no_error_of_framejits():
    def program(value):
        if torch.compiler.is_compiling():
            return value + torch.ones(7)
        return value + 1

    compiled = eager(program)
    assert all(torch.equal(compiled(x), x + 1) for _ in range(3))
    assert framejit.statistics()["internal_errors"] == 0
