"""Recompile policy: what happens when no entry of a function matches a call, and when that is too often."""

from __future__ import annotations

import importlib
import itertools
import logging
import threading
import types
import weakref
from dataclasses import dataclass
from typing import Any

from framejit import breaks, config, directives, logs
from framejit._runtime import CompiledFunction, Entry, Unset
from framejit.backends.registry import Backend
from framejit.errors import FramejitError, InternalError, Unsupported, UserFrame
from framejit.guards.source import MISSING, Call
from framejit.report import STATISTICS, BreakNote

_functions: weakref.WeakSet[Any] = weakref.WeakSet()
_functions_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Options:
    """What `compile()` was asked for."""

    backend: Backend
    fullgraph: bool
    config: config.Config


def pipeline() -> Any:
    """The compiler proper, loaded when first needed: importing it takes most of a second, for sympy and torch's symbolic shapes.

    It is loaded on a thread of its own, which no Ctrl-C reaches: an import that is cut short leaves packages that can't be imported again.
    """
    if not _loaded.is_set():
        loader = threading.Thread(target=_load, name="framejit-loader", daemon=True)
        loader.start()
        loader.join()
    return importlib.import_module("framejit.pipeline")


_loaded = threading.Event()


def _load() -> None:
    try:
        importlib.import_module("framejit.pipeline")
        _loaded.set()
    except Exception:
        logging.getLogger("framejit").debug("the compiler could not be loaded", exc_info=True)  # the caller's own import says why


_family_numbers = itertools.count()


class Family:
    """What a compiled function and its resume functions have in common."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.number = next(_family_numbers)
        self.resumes: Any = None
        self.compiled: dict[types.FunctionType, Any] = {}


class Compiler:
    """The compile callback of one CompiledFunction: called in C's stead of an entry when none matches."""

    def __init__(self, options: Options, family: Family | None = None) -> None:
        self.options = options
        self.family = Family(options) if family is None else family
        self.compiles = 0
        self.behind: BreakNote | None = None
        """The first graph break that led here, for reports; of a resume function."""
        self._owner: weakref.ref[Any] | None = None
        self._limit_reported = False
        self._lock = threading.Lock()

    @property
    def resumes(self) -> Any:
        """The resume functions of this compiled function and of its own resume functions (codegen.resume.Resumes)."""
        if self.family.resumes is None:
            self.family.resumes = pipeline().Resumes()
        return self.family.resumes

    def resume_function(self, function: types.FunctionType, behind: BreakNote) -> Any:
        """The CompiledFunction of a resume function; one for each."""
        compiled = self.family.compiled.get(function)
        if compiled is None:
            compiler = Compiler(self.options, self.family)
            compiler.behind = behind
            compiled = self.family.compiled[function] = compiler.attach(function)
        return compiled

    def attach(self, function: types.FunctionType) -> Any:
        """The CompiledFunction of a function with this as its callback."""
        compiled = CompiledFunction(function, self)
        self._owner = weakref.ref(compiled)
        with _functions_lock:
            _functions.add(compiled)
        return compiled

    def __call__(self, function: types.FunctionType, args: tuple[Any, ...]) -> Entry | None:
        if config.current().disable:
            return None
        values = tuple(MISSING if arg is Unset else arg for arg in args)
        entries = self._entries()
        if entries:
            if len(entries) >= self.options.config.recompile_limit:
                self._over_limit(function)
                return None
            STATISTICS.add("recompiles")
            self._log_recompile(function, values, entries)
        with self._lock:
            number = self.compiles
            self.compiles += 1
        if self.behind is None:
            return self._compile(function, values, number)
        try:
            return self._compile(function, values, number)
        except BaseException as error:
            try:
                return pipeline().leave(function, values, error)
            finally:
                directives.CURRENT.set(directives.around(directives.CURRENT.get(), self.family.number))

    def _compile(self, function: types.FunctionType, values: tuple[Any, ...], number: int) -> Entry | None:
        try:
            return pipeline().compile_frame(function, values, self, number)
        except RecursionError:
            # The stack had no room for the compiler: this call runs as written, and a later one with more room may compile.
            self._report(function, breaks.TooDeep(function.__qualname__))
            return None
        except Exception as error:
            if isinstance(error, FramejitError) and not isinstance(error, InternalError):
                raise
            return self._internal_error(function, error)

    def _entries(self) -> tuple[Entry, ...]:
        owner = self._owner() if self._owner is not None else None
        return owner.entries if owner is not None else ()

    def _over_limit(self, function: types.FunctionType) -> None:
        if self.options.fullgraph or not self._limit_reported:
            self._limit_reported = True
            self._report(function, breaks.RecompileLimit(function.__qualname__))

    def _report(self, function: types.FunctionType, reason: breaks.Break) -> None:
        stack = [UserFrame.of(function.__code__, None)]
        if self.options.fullgraph:
            raise Unsupported(reason, stack)
        STATISTICS.add("fallbacks")
        STATISTICS.reason(str(reason))
        logs.fallback(function.__code__, reason, stack)

    def forget(self) -> None:
        """Report again what was reported before: part of `reset()`."""
        self._limit_reported = False

    def _log_recompile(self, function: types.FunctionType, values: tuple[Any, ...], entries: tuple[Entry, ...]) -> None:
        if not logs.enabled("recompiles"):
            return
        lines = []
        for entry in entries:
            failure = pipeline().explain_failure(entry.keep.guards, Call(values, function))
            lines.append(f"  {failure}" if failure is not None else "  an entry whose guards hold now")
        logs.info("recompiles", f"recompiling {function.__qualname__}: no entry matches", "\n".join(lines))

    def _internal_error(self, function: types.FunctionType, error: BaseException) -> Entry:
        STATISTICS.add("internal_errors")
        if self.options.config.strict or config.current().strict:
            raise InternalError(f"framejit failed on {function.__qualname__}: {type(error).__name__}: {error}") from error
        STATISTICS.add("fallbacks")
        STATISTICS.reason(f"internal error: {type(error).__name__}: {error}")
        logs.internal_error(function.__code__, error)
        return pipeline().entry_as_written([], None)


def reset() -> None:
    """Throw all entries away; functions compile again when they are next called."""
    with _functions_lock:
        functions = list(_functions)
    for compiled in functions:
        compiled.clear()
        compiled.compile_callback.forget()
    logs.forget()
