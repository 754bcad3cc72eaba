"""compile_operators(): framejit compiles the functions that `torch.cond` and the like take, also when they are called outside of compiled code."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._higher_order_ops import utils

from framejit import config
from framejit.backends.registry import BackendFn, lookup
from framejit.driver.declared import DeclaredShapes
from framejit.driver.options import Options
from framejit.errors import FramejitError, Unsupported
from framejit.user.api import compile_target, is_compiling

PLACE = "_hop_compile_and_call"
"""The name of the function in torch that compiles the call of an operator, and makes the call. All these operators call it by this name."""
ENTRIES = 1_000_000
"""The limit of entries. It is high, since all calls of operators in a program share one compiled function."""


class compile_operators:
    """After `compile_operators()`, framejit compiles the functions that `torch.cond`, `while_loop`, `map`, `scan`, `associative_scan` and `strict_mode` take,
    also when these operators are called outside of compiled code. `with compile_operators():` does so for a block. Both hold for all threads.

    Otherwise torch compiles these functions with torch.compile. It still does so if a function doesn't fit into one graph, and under modes that must see each
    operator.

    Args:
        backend: a backend as in `compile`. torch itself uses "eager".

    Raises:
        UnknownBackend: a name does not exist; the message suggests one.
        FramejitError: this version of torch doesn't let others compile these functions.
    """

    def __init__(self, backend: str | BackendFn = "eager") -> None:
        if not hasattr(utils, PLACE):
            raise FramejitError(f"compile_operators() needs torch 2.13 or newer; this is torch {torch.__version__}")
        self._before = getattr(utils, PLACE)
        setattr(utils, PLACE, compiling(lookup(backend, mode=None, options=None), self._before))

    def __enter__(self) -> None:
        """Begin a `with` block. There is nothing to do, since the object has been in force since it was made."""

    def __exit__(self, *exc: object) -> None:
        setattr(utils, PLACE, self._before)


def compiling(backend: Any, by_torch: Callable[..., Any]) -> Callable[..., Any]:
    """A replacement for `by_torch`, which is torch's function that compiles the call of an operator and makes it."""
    current = dataclasses.replace(config.current(), recompile_limit=ENTRIES, accumulated_recompile_limit=ENTRIES, cause_limit=ENTRIES)
    settings = Options(backend, True, current, False, None, DeclaredShapes())

    def run(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Call the operator, which is compiled: with plain functions, it would compute no gradients for the tensors in their closures."""
        return function(*args, **kwargs) if is_compiling() else by_torch(function, args, kwargs)

    compiled = compile_target(run, settings)

    def compile_and_call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> Any:
        try:
            return compiled(function, args, kwargs or {})
        except Unsupported:
            return by_torch(function, args, kwargs)

    return compile_and_call
