"""Random programs with graph breaks agree with eager: results, exceptions with their lines, mutations, order of what is printed."""

from __future__ import annotations

import contextlib
import gc
import io
import itertools
import linecache
import os
import re
import signal
import sys
import traceback
import types
import unittest.mock
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from agreement import ATOMS, Comparison
from differential.basics import PRELUDE
from differential.programs import programs
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

import framejit

numbers = itertools.count()
examples = int(os.environ.get("FRAMEJIT_FUZZ", "0"))
"""How many programs the nightly target runs, half of them with each backend, other ones each time; 0 in the suite, which runs the same ones each time."""


def profile(count: int) -> settings:
    return settings(
        max_examples=(examples + 1) // 2 or count,
        derandomize=not examples,
        database=None,
        deadline=None,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )


values = st.tuples(
    st.sampled_from([0.0, 1.0, -1.0, 3.0]), st.integers(0, 4), st.booleans(), st.booleans(), st.integers(0, 3), st.sampled_from([3, 3, 4, 5, 2, 1])
)


def module(source: str, path: Path) -> types.ModuleType:
    """The program as a module of its own, with its text where tracebacks look for it."""
    made = types.ModuleType("program")
    made.__file__ = str(path)
    exec(compile(source, str(path), "exec"), vars(made))
    return made


def arguments(program: types.ModuleType, offset: float, n: int, alias: bool, loud: bool, size: int = 3) -> tuple[Any, ...]:
    """One call's arguments for `main`, with tensors of this size."""
    x = torch.tensor([0.5, -1.0, 2.0, 0.25, -3.0])[:size] + offset
    y = torch.tensor([1.0, 0.25, -0.5, 4.0, -1.5])[:size].clone()
    xs = [x, y] if alias else [x + 1, y * 2, y]
    return x, y, n, xs, {"a": y if alias else x * 2}, (program.Loud if loud else program.Thing)(x if alias else y - 1, 1)


def places(error: BaseException, path: str) -> list[tuple[str, int | None]]:
    """The functions and lines of the program that the exception went through."""
    return [(frame.name.partition(" (resumed at")[0], frame.lineno) for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]


def without_addresses(text: str) -> str:
    return re.sub(r"0x[0-9a-f]{6,}", "0x", text)


def chain(error: BaseException | None, path: str) -> list[Any]:
    """The exception and what stands behind it."""
    found: list[Any] = []
    while error is not None and len(found) < 8:
        said = without_addresses(repr([type(error).__name__, error.args, getattr(error, "name", None), getattr(error, "__notes__", None)]))
        cause = error.__cause__
        found.append((said, type(cause).__name__, cause is error.__context__, error.__suppress_context__, places(error, path)))
        error = error.__context__
    return found


def in_context(handled: int, function: Any, args: tuple[Any, ...]) -> Any:
    """Call the function: from a handler if `handled` is 2, from a `finally` block that an exception passes if it is 3."""
    if handled == 2:
        try:
            raise KeyError("of the caller")
        except KeyError:
            return function(*args)
    if handled == 3:
        with contextlib.suppress(LookupError):
            try:
                raise LookupError("of the caller")
            finally:
                return function(*args)
    return function(*args)


def run(program: types.ModuleType, function: Any, args: tuple[Any, ...], handled: int = 0) -> tuple[list[Any], Any]:
    """Return all that can be seen of a call: first text, exceptions and mode, then the value, arguments, globals and gradients."""
    printed = io.StringIO()
    value, raised, unraisable = None, None, []
    with contextlib.redirect_stdout(printed), unittest.mock.patch("sys.unraisablehook", lambda seen: unraisable.append(repr(seen.exc_value))):
        try:
            value = in_context(handled, function, args)
        except (Exception, GeneratorExit, SystemExit) as error:
            raised = chain(error, str(program.__file__))
        gc.collect()  # what holds itself ends here, in both runs
        backward, gradients = trained(program, value)
    mode = torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    state = {name: getattr(program, name, None) for name in ("LOG", "COUNT", "SCALE", "KEPT", "W", "BUFFER", "STEP")}
    return [without_addresses(printed.getvalue()), raised, backward, mode, unraisable], (value, list(args), state, gradients)


def trained(program: types.ModuleType, value: Any) -> tuple[Any, list[Any]]:
    """The error of a backward pass from what `main` has returned, and the gradients and buffers of the program's weights after it."""
    raised = None
    if isinstance(value, torch.Tensor) and value.requires_grad:
        try:
            value.sum().backward()
        except Exception as error:
            raised = type(error).__name__, re.sub(r"version \d+", "version", without_addresses(str(error)))  # counted otherwise by AOTAutograd
    layers = [layer for layer in vars(program).values() if isinstance(layer, torch.nn.Module)]
    weights = [getattr(program, "W", None), *(weight for layer in layers for weight in layer.parameters())]
    gradients = [weight.grad.clone() if weight is not None and weight.grad is not None else None for weight in weights]
    return raised, [*gradients, *(buffer.clone() for layer in layers for buffer in layer.buffers())]


class Close(Comparison):
    """Equal but for the last bits: AOTAutograd's graphs compute some gradients in another order."""

    def same_tensor(self, a: torch.Tensor, b: torch.Tensor, path: str) -> None:
        for name in ("dtype", "shape", "requires_grad", "is_leaf"):
            assert getattr(a, name) == getattr(b, name), f"{path}.{name}: {getattr(a, name)} and {getattr(b, name)}"
        torch.testing.assert_close(a.detach(), b.detach(), rtol=1e-5, atol=1e-6, equal_nan=True, msg=lambda text: f"{path}: {text}")


class TooLong(BaseException):
    """A program doesn't end: it calls itself, and handles the RecursionError of each call."""


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise TooLong in what runs longer, again and again, as the program may handle it."""

    def stop(*args: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def ends(source: str, calls: list[tuple[Any, ...]], path: Path) -> bool:
    """Return whether a program comes to an end without framejit, in time and without filling the stack."""
    path.write_text(source)
    linecache.checkcache(str(path))
    program = module(source, path)
    try:
        with limited(20.0):
            seen = [run(program, program.main, arguments(program, *call[:4], *call[5:]), *call[4:5])[0] for call in calls]
    except TooLong:
        return False
    return "RecursionError" not in repr(seen)


def check(source: str, calls: list[tuple[Any, ...]], path: Path, backend: str = "eager") -> dict[str, Any]:
    """Assert that `main` of the program does the same compiled as it does eagerly, call after call; return the statistics."""
    framejit.reset()
    gc.collect()  # generators that earlier programs have left inside `no_grad` end here, and not in one of the two runs
    path.write_text(source)
    linecache.checkcache(str(path))
    eager, traced = module(source, path), module(source, path)
    compiled = framejit.compile(traced.main, backend=backend)
    for number, call in enumerate(calls):
        expected, left = run(eager, eager.main, arguments(eager, *call[:4], *call[5:]), *call[4:5])
        got, right = run(traced, compiled, arguments(traced, *call[:4], *call[5:]), *call[4:5])
        for what, a, b in zip(("printed text", "exception", "error of the backward pass", "grad mode", "unraisable"), expected, got, strict=True):
            assert a == b, f"call {number}, {what}:\n  eager    {a}\n  compiled {b}"
        (Comparison if backend == "eager" else Close)().same(portable(left), portable(right), f"call {number}")
    statistics = framejit.statistics()
    framejit.reset()  # entries hold what they compare with and can't be referenced weakly
    gc.collect()
    assert sorted(traced.ENDED) == sorted(eager.ENDED), "finalizers, which may run later than in eager, but none twice and none never"
    return statistics


def portable(value: Any, seen: dict[int, Any] | None = None) -> Any:
    """The value with instances of the program's classes, which differ from module to module, as lists of class, contents and attributes.

    What is shared in the value, or holds itself, does so in the answer.
    """
    seen = {} if seen is None else seen
    if id(value) in seen:
        return seen[id(value)][0]
    ours = type(value).__module__ == "program"
    if not ours and type(value) not in (dict, list, tuple):
        return without_addresses(value) if type(value) is str else value
    if type(value) is tuple and all(isinstance(item, ATOMS) for item in value):
        return tuple(portable(item) for item in value)  # it may be a constant of the program's: which of two equal ones, is an accident
    made: Any = {} if type(value) is dict else []
    seen[id(value)] = made, value
    if isinstance(value, dict):
        items: Any = {without_addresses(repr(key)) if type(key).__module__ == "program" else key: portable(item, seen) for key, item in value.items()}
        made.update(items) if type(value) is dict else made.append(items)
    elif isinstance(value, (list, tuple)):
        made.extend(portable(item, seen) for item in value)
    elif isinstance(value, (int, float, str, BaseException)):
        made.append(next(base for base in (int, float, str, BaseException) if isinstance(value, base)).__repr__(value))
    if ours:
        slots = {slot for base in type(value).__mro__ for slot in vars(base).get("__slots__", ()) if slot != "__weakref__"}
        made += [type(value).__name__, portable(getattr(value, "__dict__", {}), seen)]
        made += [portable(object.__getattribute__(value, slot), seen) for slot in sorted(slots) if slot in dir(value)]
    return made


@profile(100)
@given(programs(), st.lists(values, min_size=2, max_size=3))
def test_random_programs_agree_with_eager(tmp_path_factory: Any, source: str, calls: list[tuple[Any, ...]]) -> None:
    assert_agrees(tmp_path_factory, source, calls, "eager")


@profile(40)
@given(programs(), st.lists(values, min_size=2, max_size=3))
def test_random_programs_agree_with_aot_eager(tmp_path_factory: Any, source: str, calls: list[tuple[Any, ...]]) -> None:
    assert_agrees(tmp_path_factory, source, calls, "aot_eager")


def assert_agrees(tmp_path_factory: Any, source: str, calls: list[tuple[Any, ...]], backend: str) -> None:
    """Assert that a random program does the same compiled with this backend as it does eagerly."""
    note(source.removeprefix(PRELUDE))
    path = Path(tmp_path_factory.getbasetemp()) / f"program{next(numbers)}.py"
    limit = sys.getrecursionlimit()
    gc.collect()
    gc.freeze()  # this program's garbage is collected after each call: what hypothesis remembers of thousands before it isn't looked at
    try:
        assume(ends(source, calls, path))
        check(source, calls, path, backend)
    finally:
        path.unlink(missing_ok=True)
        linecache.cache.pop(str(path), None)
        framejit.reset()
    assert sys.getrecursionlimit() == limit


APPEND = """
def main(x, y, n, xs, d, o):
    LOG.append([opaque(n)])
    xs.append(x.clone().add_(opaque(n)))
    return x + d.setdefault(opaque(1), y)
"""


def test_methods_of_builtins_are_not_broken_at_twice(tmp_path: Path) -> None:
    """A bound method that waits on the stack while its argument breaks the graph is the same method afterwards."""
    reasons = check(PRELUDE + APPEND, [(0.0, 1, False, False), (1.0, 2, False, False)], tmp_path / "append.py")["reasons"]
    assert reasons and all("opaque" in str(reason) for reason in reasons)


ENTERING = """
def helper(t, k, *, j):
    y = t * 0.5
    t = t[t > 0].sum() * y
    for v in produce_loudly(y, k):
        return t + v

def main(x, y, n, xs, d, o):
    try:
        return helper(x + 1, n, j=y)
    finally:
        print("left")
"""


def test_break_where_the_resumed_inner_frame_cannot_be_split(tmp_path: Path) -> None:
    """The outer frame breaks at the call in its prologue, which has other operands than the call that it stands for."""
    check(PRELUDE + ENTERING, [(0.0, 2, False, False), (1.0, 3, False, False)], tmp_path / "entering.py")


SHARED = """
KEPT = torch.tensor([0.5, 2.0, -1.0])

def main(x, y, n, xs, d, o):
    f = 1.5
    a = KEPT.numpy()
    print(f)
    KEPT[0] = abs(f + 1)
    o.k = float(a[0])
    for f in x.tolist():
        def inner(k=f ** 2):
            nonlocal n, x
            if x.tolist()[-1] > f:
                print(x[0].item() + f)
                KEPT[0] = x.max().item()
            else:
                x.lerp_(y, 0.5)
            return k
        f = inner()
        x.add_(opaque(int(min(f, 5.0)) % 5) + f)
    return x + 1
"""


def test_break_beside_a_change_that_cannot_be_replayed(tmp_path: Path) -> None:
    """A graph that is closed when its break is found to be impossible isn't taken back any more: the frame runs uncompiled."""
    reasons = check(PRELUDE + SHARED, [(3.0, 3, False, False), (-1.0, 1, True, True), (0.0, 1, False, False)], tmp_path / "shared.py")["reasons"]
    assert any("shares memory with another one" in str(reason) for reason in reasons)


MODULES = """
class Block(torch.nn.Module):
    def forward(self, t):
        y = t + 1
        print("block")
        return y * 2

block = torch.nn.Sequential(Block(), torch.nn.ReLU(), Block())

def main(x, y, n, xs, d, o):
    return block(x) + layer(y).detach()
"""


def test_break_inside_a_module(tmp_path: Path) -> None:
    """Calls that lie between the program's call of a module and its `forward` don't keep the frames inside from being split."""
    assert check(PRELUDE + MODULES, [(0.0, 2, False, False), (1.0, 3, False, False)], tmp_path / "modules.py")["graphs"] >= 3
