"""Recompile policy: what happens when no entry of a function matches a call, and when that is too often."""

from __future__ import annotations

import copy
import functools
import importlib
import itertools
import logging
import threading
import types
import weakref
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torch import nn

from framejit import breaks, compiled_module, config, directives, interrupts, logs, recompiles, retained, stacks, stance, torch_stance
from framejit._runtime import CompiledFunction, Entry, Unset
from framejit.backends.registry import Backend
from framejit.errors import FramejitError, InternalError, ResumeError, Unsupported, UserFrame
from framejit.guards.source import MISSING, Call
from framejit.natives import Natives, Record
from framejit.observers import observer
from framejit.recompiles import Cause
from framejit.report import STATISTICS, BreakNote, place
from framejit.sharing import Pool, pool_of

if TYPE_CHECKING:
    from framejit.predictions import Prediction

FEW = 2
"""Entries that are enough to tell that a value changes, in a family where one has been found to."""
LESSONS = 4
FAMILY_LESSONS = 16
"""How often a resume function, and all of a family, may learn that values change: then calls over the limit run as written."""

_functions: weakref.WeakSet[Any] = weakref.WeakSet()
_functions_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Options:
    """What `compile()` was asked for. `isolated`: share entries with no other compiled function."""

    backend: Backend
    fullgraph: bool
    config: config.Config
    isolated: bool = False

    @property
    def shareable(self) -> bool:
        """Whether entries may serve other functions and modules. CUDA graphs are recorded for the addresses of one module's parameters."""
        return not self.isolated and not self.backend.cudagraphs()

    def same_as(self, other: Options) -> bool:
        """Whether an entry made for one would be made alike for the other."""
        ours, theirs = self.backend, other.backend
        return (
            self.fullgraph == other.fullgraph
            and self.config == other.config
            and type(ours) is type(theirs)
            and retained.function_of(ours) is retained.function_of(theirs)
            and all(getattr(ours, field) == getattr(theirs, field) for field in ("name", "inputs", "trusted", "needs_contexts", "one_autograd_node"))
            and are_alike(ours.kwargs, theirs.kwargs)
        )


def are_alike(ours: Any, theirs: Any) -> bool:
    """Whether two options of a backend mean the same: plain values that are equal, or the same object."""
    if type(ours) is not type(theirs):
        return False
    if isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(are_alike(value, theirs[key]) for key, value in ours.items())
    if isinstance(ours, (list, tuple)):
        return len(ours) == len(theirs) and all(map(are_alike, ours, theirs))
    return ours is theirs or (isinstance(ours, (str, int, float)) and ours == theirs)


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
    """What a compiled function and its resume functions have in common; one for each module, where the first argument is a module."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.number = next(_family_numbers)
        self.resumes: Any = None
        self.compiled: dict[types.FunctionType, Any] = {}
        self.refuted: dict[Any, breaks.Break] = {}
        """What traces have said the program raises, and it doesn't, by Prediction.key: the reason to give in its place."""
        self.lessons = 0
        """How often one of its functions has learnt that values change from call to call."""


class Families:
    """The families of the modules that a function was compiled for."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[nn.Module], Family]] = {}

    def of(self, module: nn.Module, options: Options) -> Family:
        """The family of a module, which goes with it."""
        known = self._known.get(id(module))
        if known is None:
            reference = weakref.ref(module, lambda gone, key=id(module): self._known.pop(key, None))  # type: ignore[misc]
            known = self._known[id(module)] = (reference, Family(options))
        return known[1]

    def clear(self) -> None:
        self._known.clear()


class Compiler:
    """The compile callback of one CompiledFunction: called in C's stead of an entry when none matches.

    `pooled`: entries may come from, and go to, other functions of the same code object. `natives`: those of the compiled function that
    this belongs to. `called_natively`: of a function that native code calls. `held_backend`: what the options hold weakly (`retained.weakly`).
    """

    compilations = 0
    """How many there have been in this process."""

    def __init__(
        self,
        options: Options,
        family: Family | None = None,
        pooled: bool = False,
        natives: Natives | None = None,
        called_natively: Record | None = None,
        held_backend: Any = None,
    ) -> None:
        self.options = options
        self.held_backend = held_backend
        self.family = Family(options) if family is None else family
        self.natives = Natives(functools.partial(compiled_natively, replace(options, fullgraph=False))) if natives is None else natives
        self.called_natively = called_natively
        self.families = Families()
        self.compiles = 0
        self.behind: BreakNote | None = None
        """The first graph break that led here, for reports; of a resume function."""
        self.surveyed: tuple[int, int | None] | None = None
        """What retained.py has found out: as of which number of compilations, and with what the entries go."""
        self._owner: weakref.ref[Any] | None = None
        self._pooled = pooled and options.shareable
        self._pool: Pool | None = None
        self._called = False
        self._calls_checked = 0
        self._limits_reported: set[Any] = set()
        self._observed_by: set[breaks.Observed] = set()
        self.changing: frozenset[str] = frozenset()
        self.names: dict[str, str] = {}  # of what a resumed frame's state holds, for reports
        """Paths of values that were different in so many calls that the next entries don't rest on what they are."""
        self._lessons = 0
        self._learnt_at = 0
        """The number of the first entry made since the last lesson."""
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
            compiler = Compiler(self.options, self.family, natives=self.natives, called_natively=self.called_natively)
            compiler.behind = behind
            compiled = self.family.compiled[function] = compiler.attach(function)
        return compiled

    def attach(self, function: types.FunctionType, entries: Iterable[Entry] = ()) -> Any:
        """The CompiledFunction of a function with this as its callback, and with these entries, the latest first."""
        compiled = CompiledFunction(function, self, self.rejected, self._ended if self._pooled and self.called_natively is None else None)
        for entry in reversed(list(entries)):
            compiled.add(entry)
        compiled.natives = self.natives
        self._owner = weakref.ref(compiled)
        with _functions_lock:
            _functions.add(compiled)
        if self.options.config.checks():
            importlib.import_module("framejit.check").install(self.options.config)
        return compiled

    def hold_backend(self) -> None:
        """It is in use again, and needs the backend."""
        if isinstance(self.options.backend.call, retained.WeakBackend):
            self.held_backend = self.options.backend.call.function()

    def _ended(self, function: types.FunctionType, entries: tuple[Entry, ...]) -> None:
        retained.keep(self, function, entries)

    def goes_on_for(self, function: types.FunctionType, options: Options) -> bool:
        """Whether what was compiled may serve a new compiled function of this function or of its code."""
        return self._pool is not None and self._pool.serves(function, options)

    def __call__(self, function: types.FunctionType, args: tuple[Any, ...]) -> Any:
        """An Entry, None to run the call as written, or NotImplemented to look for an entry once more."""
        if config.current().disable:
            return None
        if self.called_natively is not None and self.called_natively.is_idle() and self.behind is None:
            self._enable(False)
            return None
        if self.behind is None:
            return self._entry_for(call_of(function, args))
        try:
            return self._entry_for(call_of(function, args))
        except BaseException as error:
            try:
                return pipeline().leave(function, args, error)
            finally:
                directives.CURRENT.set(directives.around(directives.CURRENT.get(), self.family.number))

    def rejected(self, function: types.FunctionType, args: tuple[Any, ...], entry: Entry) -> None:
        """None of a few entries made for a call has accepted it. Where other threads can have changed what is guarded, the call runs as
        written; otherwise framejit is to blame.

        Raises Unsupported where running as written is not wanted, InternalError in strict mode where framejit is to blame.
        """
        call = call_of(function, args)
        number = entry.tree.failing(call.locals, function)
        guard: Any = entry.keep.guards[number] if number is not None and number >= 0 else None
        holds = hasattr(guard, "check") and guard.check(guard.source.fetch(call), call) and entry.tree.failing(call.locals, function) == number
        if holds or threading.active_count() == 1:
            error = InternalError(f"guards of a new entry reject the call that they were made for: {guard}")
            self._internal_error(function, error)
            return
        failure = None if guard is None else recompiles.failure_of(entry, call)
        changing = "something that has changed back" if failure is None else failure.difference
        name = recompiles.name_of(function, compiled_module.module_in(args[0]) if args else None)
        reason = breaks.ChangesMeanwhile(name, changing)
        self._report(call, reason)

    def refuted(self, prediction: Prediction, compiled: Any, error: BaseException | None, entry: Entry) -> None:
        """A call that was to raise has returned, or raised something else. Traces are not to be believed in this again.

        Raises Unsupported where the call should have been compiled in one piece, InternalError in strict mode where framejit is to blame.
        """
        function = compiled.function
        against = prediction.against(error)
        reason = breaks.DidNotRaise(against) if prediction.certain else prediction.reason
        module = None if entry.keep.made_for is None else entry.keep.made_for()
        family = self.family if module is None or self.behind is not None else self.families.of(module, self.options)
        family.refuted[prediction.key] = reason
        compiled.remove(entry)
        if prediction.certain:
            STATISTICS.add("internal_errors")
            alone = threading.active_count() == 1  # else another thread may have changed what the trace rested on
            if alone and (self.options.config.strict or config.current().strict):
                raise InternalError(f"framejit failed on {function.__qualname__}: {against}") from error
            logs.internal_error(function.__code__, InternalError(against))
        if error is None and prediction.whole:
            raise Unsupported(reason, prediction.stack)

    def _entry_for(self, call: Call) -> Any:
        """The policy: an entry made for another function, a new one, or none: then the call runs as written."""
        function = call.function
        if call.locals and compiled_module.catch_up(call.locals[0]):
            return None  # from the next call on it is the new class's `__call__` that runs
        entries = self._entries()
        pool = self._pool_for(function)
        found = pool.find(function, call.locals, entries) if pool is not None else None
        if found is not None and pool is not None:
            adopted = pipeline().with_own_tree(found)
            pool.add(adopted)
            return adopted
        seen_by = observer()
        if seen_by is not None:
            if self.options.fullgraph or seen_by not in self._observed_by:
                self._observed_by.add(seen_by)
                self._report(call, seen_by)
            return None
        module = compiled_module.module_in(call.locals[0]) if call.locals else None
        family = self.family if module is None or self.behind is not None else self.families.of(module, self.options)
        before = entries if module is None else tuple(entry for entry in entries if entry.keep.made_for is None or entry.keep.made_for() is module)
        name = recompiles.name_of(function, module)
        if not self._may_compile(name, before, call):
            return None
        if pipeline().waited():
            return NotImplemented
        cause = None
        if before:
            cause, limit = self._cause(before, call)
            if cause is None:
                self._over_limit(name, limit, before, call)
                return None
        if len(entries) >= self.options.config.accumulated_recompile_limit:
            self._over_limit(name, limit_text("accumulated_recompile_limit", self.options.config), entries, call)
            return None
        with self._lock:
            number = self.compiles
            self.compiles += 1
        if cause is not None:
            STATISTICS.add("recompiles")
            recompiles.log(name, number, before, call)
        elif entries:
            recompiles.log_other(name, number, entries, call, detail=False)
        elif pool is not None:
            recompiles.log_other(name, number, tuple(pool.entries()), call, detail=True)
        entry = self._compile(call, family, number)
        if entry is not None and isinstance(entry.keep, pipeline().Keep):
            entry.keep.number = number
            entry.keep.cause = cause
            entry.keep.made_for = None if module is None else weakref.ref(module)
            if pool is not None and entry.keep.shared:
                pool.add(entry)
        return entry

    def _may_compile(self, name: str, before: tuple[Entry, ...], call: Call) -> bool:
        """What the stance and `fail_on_recompile` say. Raises RecompileError."""
        here = stance.current()
        if here == "default":
            here = torch_stance.current()
        if here == "eager_on_recompile":
            return False
        if here == "eager_then_compile" and self.behind is None and not self._called:
            self._called = True
            return False
        if here == "fail_on_recompile":
            raise recompiles.error(name, "the stance is fail_on_recompile", before, call)
        if before and (self.options.config.fail_on_recompile or config.current().fail_on_recompile):
            raise recompiles.error(name, "the option fail_on_recompile is set", before, call)
        return True

    def _cause(self, before: tuple[Entry, ...], call: Call) -> tuple[Cause | None, str]:
        """What a new entry is put down to; None where a limit forbids one: the limit as text."""
        settings = self.options.config
        recent = [entry for entry in before if entry.keep.number >= self._learnt_at]
        if self.family.lessons and len(recent) >= FEW and self._learn(recent, call):
            return recompiles.cause_of(recent[0], call), ""
        if len(recent) < settings.recompile_limit:
            for entry in recent or before:
                cause = recompiles.cause_of(entry, call)
                if sum(made.keep.cause == cause for made in before) < settings.cause_limit - 1:
                    return cause, ""
        if self._learn(recent, call):
            return recompiles.cause_of(recent[0], call), ""
        return None, limit_text("recompile_limit" if len(recent) >= settings.recompile_limit else "cause_limit", settings)

    def _learn(self, entries: Sequence[Entry], call: Call) -> bool:
        """Note what keeps most of the entries from serving the call, so that the next entry serves all values of that; False where the
        function has to be given up. Only what changes while one call runs is learnt, in a loop: a function called with sizes of many
        kinds would be broken up at each operation.
        """
        if self.behind is None or self.options.fullgraph or self._lessons == LESSONS or self.family.lessons == FAMILY_LESSONS:
            return False
        counts = Counter(path for entry in entries for path in recompiles.explain().changed_contents(entry.keep.guards, call))
        found = {path for path, count in counts.items() if 2 * count > len(entries)} - self.changing
        if not found:
            return False
        self.changing |= found
        self._learnt_at = self.compiles
        self._lessons += 1
        self.family.lessons += 1
        return True

    def inherit(self, changing: frozenset[str], found: Iterable[tuple[str, str]]) -> None:
        """What changes from call to call in the function that this one goes on after does so here. `found`: (path here, path there)."""
        if changing:
            self.changing |= {
                here + path[len(there) :] for here, there in found for path in changing if path == there or path.startswith(f"{there}[")
            }

    def _pool_for(self, function: types.FunctionType) -> Pool | None:
        if self._pooled and (self._pool is None or not self._pool.serves(function, self.options)):
            self._pool = pool_of(function, self.options)
        return self._pool

    def _compile(self, call: Call, family: Family, number: int) -> Entry | None:
        function = call.function
        compiler = self
        if family is not self.family:
            compiler = copy.copy(self)
            compiler.family = family
        Compiler.compilations += 1
        try:
            return pipeline().compile_frame(function, call.locals, compiler, number)
        except interrupts.Interrupted as interrupted:
            raised = interrupted.error
        except RecursionError:
            # The stack had no room for the compiler: this call runs as written, and a later one with more room may compile.
            self._report(call, breaks.TooDeep(function.__qualname__))
            return None
        except Exception as error:
            if isinstance(error, ResumeError) or (isinstance(error, FramejitError) and not isinstance(error, InternalError)):
                raise
            return self._internal_error(function, error)
        try:
            raise raised
        finally:
            del raised  # its traceback leads to this frame

    def _enable(self, setting: bool) -> None:
        owner = self._owner() if self._owner is not None else None
        if owner is not None:
            owner.enabled = setting

    def _entries(self) -> tuple[Entry, ...]:
        """The entries that may still match something."""
        owner = self._owner() if self._owner is not None else None
        if owner is None:
            return ()
        for entry in owner.entries:
            if not entry.tree.alive:
                owner.remove(entry)
        return owner.entries

    def _over_limit(self, name: str, limit: str, before: tuple[Entry, ...], call: Call) -> None:
        if self.options.config.fail_on_recompile_limit or config.current().fail_on_recompile_limit:
            raise recompiles.error(name, f"{limit} is reached", before, call)
        if self.options.fullgraph or (name, limit) not in self._limits_reported:
            self._limits_reported.add((name, limit))
            reason, stack = recompiles.over_limit(name, limit, before[0], call, call.function)
            self._report(call, reason, stack)

    def _report(self, call: Call, reason: breaks.Break, stack: Sequence[UserFrame] = ()) -> None:
        code = stacks.home(call.function, call.locals[0] if call.locals else None)
        stack = stacks.shown(stack) or [UserFrame.of(code, None)]
        if self.options.fullgraph:
            raise Unsupported(reason, stack)
        STATISTICS.add("fallbacks")
        STATISTICS.reason(f"{reason} at {place(stack)}")
        logs.fallback(code, reason, stack)

    def is_sampled(self) -> bool:
        """Whether this call is one of those that run eagerly too (`check="results"`): the first, and every `check_every`th from there."""
        number = self._calls_checked
        self._calls_checked += 1
        return number % self.options.config.check_every == 0

    def forget(self) -> None:
        """Begin anew: part of `reset()`."""
        self._limits_reported.clear()
        self._observed_by.clear()
        self._called = False
        self.families.clear()
        if self.called_natively is not None:
            self.called_natively.forget()
            self._enable(True)
        self.changing, self._lessons, self._learnt_at, self.family.lessons = frozenset(), 0, 0, 0

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
    retained.clear()
    compiled_module.forget()
    with _functions_lock:
        functions = list(_functions)
    for compiled in functions:
        compiled.clear()
        compiled.compile_callback.forget()
    logs.forget()
    if _loaded.is_set():
        pipeline().forget()


def compiled_natively(options: Options, function: types.FunctionType, natives: Natives) -> Any:
    """The CompiledFunction of a function that native code has called at a break."""
    return Compiler(options, pooled=True, natives=natives, called_natively=Record()).attach(function)


def call_of(function: types.FunctionType, args: tuple[Any, ...]) -> Call:
    """A call as guards see it, from the argument slots that the runtime hands over."""
    return Call(tuple(MISSING if arg is Unset else arg for arg in args), function)


def limit_text(name: str, settings: config.Config) -> str:
    """An option that limits recompilation, with its value."""
    return f"{name} ({getattr(settings, name)})"
