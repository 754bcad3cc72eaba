"""torch's operators that take functions, called outside of compiled code: framejit compiles the functions there, if the program asks for it."""

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
"""The name of torch's function that compiles the call of an operator, and makes it. All of them call it by this name."""
ENTRIES = 1_000_000
"""So many calls of operators may be compiled: all that a program makes share one compiled function."""


class compile_operators:
    """`compile_operators()`: from then on framejit compiles the functions of `torch.cond`, `while_loop`, `map`, `scan`, `associative_scan` and
    `strict_mode` that are called outside of compiled code. `with compile_operators():` does so for a block. Both hold for all threads.

    Without it, torch compiles them with torch.compile; so it does with what framejit can't have in one graph, and under modes that must see each operator.

    Args:
        backend: as `compile` has it; "eager" is what torch uses.

    Raises:
        UnknownBackend: a name that does not exist, with a suggestion.
        FramejitError: this torch has no place where others can compile them.
    """

    def __init__(self, backend: str | BackendFn = "eager") -> None:
        if not hasattr(utils, PLACE):
            raise FramejitError(f"compile_operators() needs torch 2.13 or newer; this is torch {torch.__version__}")
        self._before = getattr(utils, PLACE)
        setattr(utils, PLACE, compiling(lookup(backend, mode=None, options=None), self._before))

    def __enter__(self) -> None:
        """The block begins; it has been in force since it was made."""

    def __exit__(self, *exc: object) -> None:
        setattr(utils, PLACE, self._before)


def compiling(backend: Any, by_torch: Callable[..., Any]) -> Callable[..., Any]:
    """What stands for torch's function that compiles the call of an operator, and makes it."""
    current = dataclasses.replace(config.current(), recompile_limit=ENTRIES, accumulated_recompile_limit=ENTRIES, cause_limit=ENTRIES)
    settings = Options(backend, True, current, False, None, DeclaredShapes())

    def run(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The operator takes the functions as graphs; as they are, it would give them no gradients of what they close over."""
        return function(*args, **kwargs) if is_compiling() else by_torch(function, args, kwargs)

    compiled = compile_target(run, settings)

    def compile_and_call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> Any:
        try:
            return compiled(function, args, kwargs or {})
        except Unsupported:
            return by_torch(function, args, kwargs)

    return compile_and_call
