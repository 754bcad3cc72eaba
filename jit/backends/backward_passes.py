"""Backward passes of a graph that is compiled in pieces. The program needs all of them or none, so they are compiled when it needs the first one.

Inductor compiles the backward pass of each graph separately, when that runs for the first time. For a graph in pieces that would start the C++ compiler
once for each kind of piece; together, their kernels are in one or two translation units (see translation_units.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import torch
from torch._guards import CompileContext, TracingContext, compile_context, tracing

from framejit.backends.ecosystem import compile_lock
from framejit.backends.translation_units import several_together
from framejit.process import underway


class BackwardPass:
    """The backward pass of one piece: a boxed callable, which compiles those of all pieces in its first call, unless one of them has done so before."""

    def __init__(self, together: BackwardPasses, compile_one: Callable[[], Any], note: Callable[[Any], None]) -> None:
        self._together: BackwardPasses | None = together
        self._compile_one: Callable[[], Any] | None = compile_one
        self._note = note
        self._context, self._compile_context = TracingContext.try_get(), CompileContext.try_get()
        self._code: Any = None
        self._boxed_call = True  # for AOTAutograd, which leaves the only references to the arguments to such a callable; torch copies attributes of instances

    def __call__(self, args: list[Any]) -> Any:
        if self._together is not None:
            self._together.compile()
        return self._code(args)

    def compile(self) -> None:
        """Compile the pass as it would have been compiled together with the forward pass. Its kernels may be compiled later."""
        if self._compile_one is not None:
            with tracing(self._context), compile_context(self._compile_context), torch.no_grad(), torch._C._DisableAutocast():
                self._code = self._compile_one()
            self._compile_one = self._context = self._compile_context = None

    def finish(self) -> None:
        """Let go of the other passes, and tell that this one has been compiled."""
        self._together = None
        self._note(self._code)


class BackwardPasses:
    """The backward passes of a graph's pieces that haven't been compiled yet. Several threads may need them at once."""

    def __init__(self) -> None:
        self._waiting: list[BackwardPass] = []
        self._compilation = underway.current()

    def postpone(self, compile_one: Callable[[], Any], note: Callable[[Any], None]) -> BackwardPass:
        """The backward pass that `compile_one` compiles. `note` is called with the code, once all passes have been compiled."""
        self._waiting.append(made := BackwardPass(self, compile_one, note))
        return made

    def compile(self) -> None:
        """Compile all passes. After an error or an interrupt, the next call goes on with those that are left. Raises what Inductor raises."""
        with compile_lock():
            if not self._waiting:
                return
            with underway.continued(self._compilation), several_together():
                for each in self._waiting:
                    each.compile()
            compiled, self._waiting = self._waiting, []
            for each in compiled:
                each.finish()


POSTPONED: ContextVar[BackwardPasses | None] = ContextVar("POSTPONED", default=None)
"""The backward passes that belong to the pieces which are being compiled on this thread; None for a graph that stays whole."""


@contextlib.contextmanager
def postponed() -> Iterator[None]:
    """Inside the block, the pieces of one graph are compiled, but not their backward passes."""
    token = POSTPONED.set(BackwardPasses())
    try:
        yield
    finally:
        POSTPONED.reset(token)
