"""Decides whether a call of an operator is compiled, and has it compiled on a thread of its own."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch._guards import CompileContext, TracingContext
from torch._ops import OpOverload

from framejit import logs
from framejit.backends.ecosystem import compile_lock, holds_compile_lock
from framejit.process import underway
from framejit.process.one_at_a_time import ONE_AT_A_TIME
from framejit.process.warning_filters import version_kept
from framejit.process.when_needed import is_being_imported, when_needed

compiled_call = when_needed("framejit.backends.eager_kernels.compiled_call")
symbolic_call = when_needed("framejit.graph.symbolic_call")
native = when_needed("framejit._operators")

MOST_KERNELS = 16
"""The number of kernels that an operator may have. Each takes seconds to compile, and calls look through those that are alike but for sizes."""
MOST_REFUSED = 16
"""The number of combinations of dtypes, ranks, layouts and values that may be tried in vain for an operator."""
IMPORTED = ("torch", "sympy", "framejit")
"""The packages that compiling imports from."""


class KernelMaker:
    """Answers the native part about calls of one operator for which it has no kernel.

    Attributes:
        kernels: the number of kernels that were compiled.
        refusals: why calls are left to torch's kernel, each reason once.
    """

    def __init__(self, operator: OpOverload) -> None:
        self.operator = operator
        self.kernels = 0
        self.refusals: list[str] = []
        self._refused = 0

    @property
    def wrapped(self) -> type[Any]:
        """The class of arguments that are numbers and became tensors."""
        return symbolic_call.WrappedNumber  # type: ignore[no-any-return]

    def is_ready(self) -> bool:
        """Return whether this thread may wait for a compilation now: not while it traces, compiles or imports something itself."""
        return not (
            underway.current() is not None
            or TracingContext.try_get() is not None
            or CompileContext.try_get() is not None
            or torch.fx._symbolic_trace.is_fx_symbolic_tracing()
            or torch.compiler.is_compiling()
            or ONE_AT_A_TIME._is_owned()  # type: ignore[attr-defined]
            or holds_compile_lock()
            or any(name.partition(".")[0] in IMPORTED and is_being_imported(name) for name in list(sys.modules))
        )

    def compile(self, arguments: Sequence[Any], expected: Sequence[torch.Tensor]) -> Any:
        """The kernel for calls like this one; None if they are left to torch's, and NotImplemented if all further calls are that need another kernel. See
        `SymbolicCall` for the arguments."""
        if self.kernels >= MOST_KERNELS or self._refused >= MOST_REFUSED:
            self._refuse(f"it has {self.kernels} kernels, and {self._refused} calls were refused: too many dtypes, ranks, layouts and values are in use")
            return NotImplemented
        work = CompilingThread(self.operator, arguments, expected)
        try:
            work.start()
            work.join()
        except RuntimeError as error:  # the interpreter is ending
            work.refusal = str(error)
        if work.kernel is None:
            self._refuse(work.refusal)
            return NotImplemented if work.is_hopeless else None
        self.kernels += 1
        logs.info("operators", f"{self.operator}: a kernel is compiled", described(arguments))
        return work.kernel

    def _refuse(self, why: str) -> None:
        self._refused += 1
        if why not in self.refusals:
            self.refusals.append(why)
        logs.info("operators", f"{self.operator}: calls are left to torch's kernel", why)

    def forget(self) -> None:
        """Forget what was compiled and refused: part of `reset()`."""
        self.kernels = 0
        self.refusals = []
        self._refused = 0


def described(arguments: Sequence[Any]) -> str:
    """The arguments of a call in one line, without the data of tensors."""
    return ", ".join(map(describe, arguments))


def describe(argument: Any) -> str:
    if isinstance(argument, torch.Tensor):
        return f"{str(argument.dtype).removeprefix('torch.')}{list(argument.shape)}"
    if isinstance(argument, list):
        return f"[{described(argument)}]"
    return "a number" if isinstance(argument, symbolic_call.WrappedNumber) else repr(argument)


class CompilingThread(threading.Thread):
    """Compiles one call. On a new thread none of torch's modes are in force that the program has set for its own, and autograd is not left out, as it is in an
    operator's kernel. After it has ended, `kernel` is the result, or `refusal` says why there is none; `is_hopeless`: nor for any other call.
    """

    def __init__(self, operator: OpOverload, arguments: Sequence[Any], expected: Sequence[torch.Tensor]) -> None:
        super().__init__(name="framejit-operator", daemon=True)
        self._work: tuple[OpOverload, Sequence[Any], Sequence[torch.Tensor]] | None = (operator, arguments, expected)
        self._threads = torch.get_num_threads()  # of the thread that the kernel is for: each has its own number
        self.kernel: Any = None
        self.refusal = ""
        self.is_hopeless = False

    def run(self) -> None:
        assert self._work is not None
        operator, arguments, expected = self._work
        self._work = None
        native.use_torchs_kernels()
        with ExitStack() as stack:
            for context in (ONE_AT_A_TIME, compile_lock(), version_kept()):
                stack.enter_context(context)
            try:
                self.kernel = compiled_call.compile_call(symbolic_call.SymbolicCall(operator, arguments), expected, self._threads)
            except symbolic_call.NotCompiled as error:
                self.refusal = str(error)
                self.is_hopeless = isinstance(error, compiled_call.NeverCompiled)
            except Exception as error:
                self.refusal = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
