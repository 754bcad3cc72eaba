"""Compares the results of two runs of a model, and times two callables side by side."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, TypeVar

import numpy
import torch


class Mismatch(Exception):
    """Two results differ in something other than a floating-point error."""


def seed_everything(seed: int = 1) -> None:
    """Seed the random generators of Python, NumPy and torch."""
    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf of a result with its path: nested containers, dataclasses and objects such as a model's cache are opened.

    The type of each container is yielded as a leaf of its own, so that comparing leaves compares structure too.
    """
    if isinstance(value, (torch.Tensor, str, bytes, int, float, complex, bool, type(None), type, torch.dtype, torch.device)):
        yield path, value
        return
    yield path + ":type", type(value)
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from leaves(item, f"{path}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from leaves(item, f"{path}[{index}]")
    elif hasattr(value, "__dict__") and not callable(value):
        for name, item in vars(value).items():
            yield from leaves(item, f"{path}.{name}")


def largest_error(expected: Any, actual: Any) -> float:
    """The largest difference between two results, relative to the tensor in which it is found.

    A tensor's size is its largest absolute value, but not less than a thousandth of that of the largest tensor of the
    result: a gradient that is zero but for rounding has no size of its own.

    Raises:
        Mismatch: structure, a shape, a dtype, a value that isn't a float, or the places of infinities and NaNs differ.
    """
    left, right = list(leaves(expected)), list(leaves(actual))
    if [path for path, _ in left] != [path for path, _ in right]:
        odd = {path for path, _ in left} ^ {path for path, _ in right}
        raise Mismatch(f"the results differ in structure: {', '.join(sorted(odd)[:3]) or 'in order'}")
    differences: list[tuple[float, float]] = []
    for (path, a), (_, b) in zip(left, right, strict=True):
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            differences.append(_difference(path, a, b))
        elif isinstance(a, float) and isinstance(b, float):
            differences.append((abs(a - b) if a != b else 0.0, abs(a)))
        elif isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor) or a != b:
            raise Mismatch(f"{path or 'the result'}: {_short(a)} became {_short(b)}")
    floor = max((size for _, size in differences), default=0.0) / 1000
    return max((error / max(size, floor) if error else 0.0 for error, size in differences), default=0.0)


def _short(leaf: Any) -> str:
    return "a tensor" if isinstance(leaf, torch.Tensor) else repr(leaf)


def _difference(path: str, a: torch.Tensor, b: torch.Tensor) -> tuple[float, float]:
    """The largest absolute difference of two tensors, and the largest absolute value of the first."""
    for what in ("shape", "dtype", "device", "requires_grad"):
        if getattr(a, what) != getattr(b, what):
            raise Mismatch(f"{path or 'the result'}: {what} {getattr(a, what)} became {getattr(b, what)}")
    a, b = a.detach(), b.detach()
    if not a.dtype.is_floating_point and not a.dtype.is_complex:
        if not torch.equal(a, b):
            raise Mismatch(f"{path or 'the result'}: values of dtype {a.dtype} differ")
        return 0.0, 0.0
    if a.numel() == 0:
        return 0.0, 0.0
    a, b = a.double(), b.double()
    finite = torch.isfinite(a)
    if not torch.equal(finite, torch.isfinite(b)) or not torch.equal(a[~finite].nan_to_num(), b[~finite].nan_to_num()):
        raise Mismatch(f"{path or 'the result'}: infinities or NaNs differ")
    if not bool(finite.any()):
        return 0.0, 0.0
    error = float((a[finite] - b[finite]).abs().max())
    return (error if math.isfinite(error) else math.inf), float(a[finite].abs().max())


def elapsed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that one call takes, with a GPU's queued work finished before and after, and its result."""
    synchronize()
    start = time.perf_counter()
    result = function()
    synchronize()
    return time.perf_counter() - start, result


def synchronize() -> None:
    """Waits for the GPU, if one is in use."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


Key = TypeVar("Key", bound=Hashable)


def alternate(functions: Mapping[Key, Callable[[], Any]], seconds: float = 1.0, batch_seconds: float = 2e-3) -> dict[Key, float]:
    """Seconds per call of each function: the best of batches that take turns.

    Since they take turns, a slow minute of the machine hits all; the best leaves out the batches that another process disturbed.

    Args:
        functions: what to time, by name. Each is called twice first, to warm up.
        seconds: about how long the whole comparison may take.
        batch_seconds: calls shorter than this are timed in batches that take about this long.
    """
    calls: dict[Key, int] = {}
    for name, function in functions.items():
        function()
        single, _ = elapsed(function)
        calls[name] = max(1, round(batch_seconds / max(single, 1e-7)))
    times: dict[Key, list[float]] = {name: [] for name in functions}
    order = list(functions.items())
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline or len(times[order[0][0]]) < 5:
        for name, function in order:
            count = calls[name]

            def batch(function: Callable[[], Any] = function, count: int = count) -> None:
                for _ in range(count):
                    function()

            total, _ = elapsed(batch)
            times[name].append(total / count)
        order.reverse()
    return {name: min(found) for name, found in times.items()}


def differences(pairs: Mapping[Key, tuple[Callable[[], Any], Callable[[], Any]]], seconds: float = 1.0, batch_seconds: float = 3e-4) -> dict[Key, float]:
    """Seconds by which a call of the second function of each pair takes longer than one of the first.

    It is the median over rounds, in each of which every pair has its turn: a short batch of the first function, two of the second, one of the first.
    What slows the machine for longer than a round hits all of them; so a difference far smaller than a call can be told from noise, where the
    difference of two best times can't.

    Args:
        pairs: what to time, by name. Each function is called first, to warm up.
        seconds: about how long the whole comparison may take.
        batch_seconds: about how long a batch takes.
    """
    calls: dict[Key, range] = {}
    for name, (first, second) in pairs.items():
        first()
        second()
        single, _ = elapsed(second)
        calls[name] = range(max(1, round(batch_seconds / max(single, 1e-7))))

    def batch(name: Key, which: int) -> float:
        function, turns = pairs[name][which], calls[name]
        start = time.perf_counter()
        for _ in turns:
            function()
        return (time.perf_counter() - start) / len(turns)

    found: dict[Key, list[float]] = {name: [] for name in pairs}
    deadline = time.perf_counter() + seconds
    rounds = 0
    while rounds < 5 or time.perf_counter() < deadline:
        rounds += 1
        for name, times in found.items():
            before, once, again, after = (batch(name, which) for which in (0, 1, 1, 0))
            times.append((once + again - before - after) / 2)
    return {name: statistics.median(times) for name, times in found.items()}
