"""The compilations that are under way, and who is told of them: callbacks of the program, torch's own callbacks, and the line of progress."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from types import CodeType

from framejit import config, logs
from framejit.errors import program_name
from framejit.process import progress
from framejit.report import FrameNote, Stopwatch
from framejit.torch_state import torch_callbacks

Callback = Callable[["Compilation"], object]

WORDS: Mapping[str, str] = {"trace": "tracing", "plan": "planning", "backend": "compiling", "emit": "writing code", "guards": "building guards"}
"""For each stage, the words that the line of progress has for it."""

_current: ContextVar[Compilation | None] = ContextVar("framejit_compilation", default=None)


class Compilation:
    """One compilation of one function. Callbacks of `framejit.on_compile` get it, once when it starts and once when it ends.

    Attributes:
        function: the qualified name of the function; for a module, of its `forward`.
        filename, lineno: where the function is defined.
        why: "first call", "recompile", "graph break" where a call continues after one, or "backward pass" if that is compiled when it first runs.
        beside: whether it runs on a thread beside the program (stance "eager_while_compiling").
        error: what the compilation raised, while `end` is called; otherwise None, for its traceback would hold the program's values.
    """

    def __init__(self, code: CodeType, why: str, backend: str, beside: bool = False) -> None:
        self.code = code
        self.function = program_name(code.co_qualname)
        self.filename, self.lineno = code.co_filename, code.co_firstlineno
        self.why = why
        self.backend = backend
        self.beside = beside
        self.error: BaseException | None = None
        self.stopwatch = Stopwatch()
        self.note: FrameNote | None = None
        self.where: Callable[[], str] = str
        self._began = time.perf_counter()
        self._ended: float | None = None

    @property
    def seconds(self) -> float:
        """The seconds that it took, or has taken so far."""
        return (time.perf_counter() if self._ended is None else self._ended) - self._began

    @property
    def stage(self) -> str:
        """The stage that it is in: "trace", "plan", "backend", "emit" or "guards"."""
        return self.stopwatch.stage

    @property
    def stages(self) -> dict[str, float]:
        """The seconds that each stage has taken."""
        return dict(self.stopwatch.seconds)

    @property
    def layer(self) -> str:
        """The path of the module that is being traced, such as `encoder.layer.3`; empty outside modules, and once the trace has ended."""
        return self.where() if self.stage == "trace" else ""

    @property
    def operations(self) -> int | None:
        """The number of operations in the graph; None while it isn't known, or if there is no graph."""
        return None if self.note is None else self.note.operations

    @property
    def uncompiled(self) -> str:
        """The reason why the function runs uncompiled; empty if it doesn't."""
        reason = None if self.note is None else self.note.fallback
        return "" if reason is None else str(reason)

    @property
    def is_under_way(self) -> bool:
        """Return whether it has not ended."""
        return self._ended is None

    def end(self) -> None:
        """Note that it has ended."""
        self._ended = time.perf_counter()
        self.where = str

    def forget_error(self) -> None:
        """Let go of the error, whose traceback leads to values of the program."""
        self.error = None

    def __repr__(self) -> str:
        state = "under way" if self.is_under_way else f"{self.seconds:.2f} s"
        return f"<compilation of {self.function} ({self.filename}:{self.lineno}), {self.why}, {state}>"

    def text(self) -> str:
        """Return a line that says what is being done."""
        doing = WORDS[self.stage]
        detail = f" with {self.backend}" if self.stage == "backend" else f" {self.layer}" if self.layer else ""
        return f"{self.function}: {doing}{detail}"


class Callbacks:
    """The callbacks of the program. Several threads may use it at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[object, tuple[Callback | None, Callback | None]] = {}

    def add(self, key: object, start: Callback | None, end: Callback | None) -> None:
        with self._lock:
            self._calls[key] = start, end

    def remove(self, key: object) -> None:
        with self._lock:
            self._calls.pop(key, None)

    def call(self, place: int, compilation: Compilation) -> None:
        """Call all that are for the start (place 0), or for the end (1). What one raises is logged, and keeps nothing from going on."""
        for calls in list(self._calls.values()):
            callback = calls[place]
            if callback is None:
                continue
            try:
                callback(compilation)
            except Exception as error:
                name = getattr(callback, "__qualname__", repr(callback))
                logs.warn(f"on_compile: the callback {name} raised {type(error).__name__}: {error}")


CALLBACKS = Callbacks()


@contextlib.contextmanager
def underway(compilation: Compilation) -> Iterator[Compilation]:
    """A `with` block in which a compilation runs. Callbacks are called at its start and at its end."""
    token = _current.set(compilation)
    with contextlib.ExitStack() as stack:
        stack.callback(_current.reset, token)
        stack.callback(compilation.forget_error)
        stack.enter_context(torch_callbacks.told())
        CALLBACKS.call(0, compilation)
        try:
            with progress.shown(compilation.text) if config.current().progress else contextlib.nullcontext():
                yield compilation
        except BaseException as error:
            compilation.error = error
            raise
        finally:
            compilation.end()
            CALLBACKS.call(1, compilation)


def current() -> Compilation | None:
    """The compilation that is under way on this thread."""
    return _current.get()


class NotBeside(Exception):
    """Signal: a call can't be compiled on a thread beside the program. It needs modes that only the calling thread can have, or has to do with settings of the
    whole process that are changed while it is compiled."""


def is_beside() -> bool:
    """Return whether this thread compiles beside the program."""
    compilation = current()
    return compilation is not None and compilation.beside


def changes_process() -> None:
    """Called before a compilation changes a setting of the whole process. Raises NotBeside on a thread beside the program."""
    if is_beside():
        raise NotBeside


@contextlib.contextmanager
def continued(earlier: Compilation | None) -> Iterator[None]:
    """A `with` block in which a backend compiles a backward pass, perhaps long after the compilation that this belongs to has ended."""
    if earlier is None or earlier.is_under_way:
        yield
        return
    compilation = Compilation(earlier.code, "backward pass", earlier.backend)
    compilation.stopwatch.stage = "backend"
    with underway(compilation):
        yield
        compilation.stopwatch.lap("backend")
