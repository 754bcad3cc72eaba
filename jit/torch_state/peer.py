"""torch's own tracer while nothing has imported it: torch imports it in many places, where a trace here doesn't need it.

Importing `torch._dynamo` takes as long as all else that a first compile does. torch's kernels in Python for tensors without data, and the methods of modes, are
hidden from that tracer by a function around them, which imports the tracer at the first call, to ask it how:

    inner(...)  ->  import torch._dynamo; fn.__dynamo_disable = torch._dynamo.disable(fn)  ->  fn(...)

It asks once, and remembers the answer in that attribute. A tracer that isn't there traces nothing: inside `left_alone`, the answer is to call the function.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import torch
from torch import _compile
from torch._decomp import decomposition_table, meta_table
from torch.utils._python_dispatch import TorchDispatchMode

from framejit.process.when_needed import is_loaded, load

PEER = "torch._dynamo"
ANSWER = "__dynamo_disable"
"""The attribute of a hidden function that remembers how it is hidden."""
HIDING = _compile._disable_dynamo(lambda: None).__code__  # type: ignore[attr-defined]
"""The code of the functions that hide others."""


def is_there() -> bool:
    """Return whether something has imported torch's own tracer."""
    return is_loaded(PEER)


def bring() -> None:
    """Import torch's own tracer, for code of torch's that would import it by itself: in the middle of a trace."""
    load(PEER)


@contextlib.contextmanager
def left_alone() -> Iterator[None]:
    """Inside the block, hidden functions don't import torch's own tracer. Only one thread at a time may be inside."""
    if is_there() or not {ANSWER, "fn"} <= {*HIDING.co_consts, *HIDING.co_freevars}:
        yield
        return
    answers = [(function, calling(function)) for function in hidden_functions() if not hasattr(function, ANSWER)]
    for function, answer in answers:
        setattr(function, ANSWER, answer)
    try:
        yield
    finally:
        for function, answer in answers:
            if getattr(function, ANSWER, None) is answer:
                delattr(function, ANSWER)


def calling(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that calls another one: hidden from torch's own tracer, once that is there."""

    def call(*args: Any, **kwargs: Any) -> Any:
        hidden = torch._dynamo.disable(function, wrapping=False) if is_there() else function
        return hidden(*args, **kwargs)

    return call


def hidden_functions() -> list[FunctionType]:
    """The functions that are hidden among torch's kernels in Python and decompositions, and among the methods of modes."""
    methods = [vars(cls).get("__torch_dispatch__") for cls in modes(TorchDispatchMode)]
    return [*of_kernels(), *[hidden_by(method) for method in methods if hides(method)]]


@functools.cache
def of_kernels() -> tuple[FunctionType, ...]:
    """The hidden functions among torch's kernels in Python for tensors without data, and decompositions, and among what these are wrapped around."""
    found: list[FunctionType] = []
    seen: set[int] = set()
    waiting: list[Any] = [*meta_table.values(), *decomposition_table.values()]
    while waiting:
        function = waiting.pop()
        if isinstance(function, FunctionType) and id(function) not in seen:
            seen.add(id(function))
            if hides(function):
                found.append(hidden_by(function))
            waiting += closed_over(function).values()
    return tuple(found)


def hides(function: Any) -> bool:
    """Return whether a function hides another one."""
    return isinstance(function, FunctionType) and function.__code__ is HIDING


def hidden_by(function: Any) -> FunctionType:
    """The function that another one hides."""
    return closed_over(function)["fn"]  # type: ignore[no-any-return]


def closed_over(function: FunctionType) -> dict[str, Any]:
    """The free variables of a function, but those that have no value yet."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):
            found[name] = cell.cell_contents
    return found


def modes(base: Any) -> Iterator[Any]:
    """The classes that derive from a class of modes."""
    for cls in base.__subclasses__():
        yield cls
        yield from modes(cls)
