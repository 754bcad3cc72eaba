"""The compile callback of a CompiledFunction: what happens when no entry matches a call."""

from __future__ import annotations

import functools
import threading
import time
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from framejit import breaks, config, logs
from framejit._runtime import CompiledFunction, Entry, Unset
from framejit.backends.ecosystem import begin_cudagraph_step
from framejit.driver import beside, compiled_module, loader, profile, retained
from framejit.driver.declared import NOTHING, DeclaredShapes
from framejit.driver.frame_stack import with_room
from framejit.driver.history import Families, Family, History
from framejit.driver.observers import OF_THE_PROCESS, observer
from framejit.driver.options import Options, Precompiled
from framejit.driver.policy import Decision, Subject, decide, is_allowed, is_full, note_varying
from framejit.driver.prediction import Prediction
from framejit.driver.request import Carried, CompileRequest, Origin
from framejit.driver.sharing import Pool, pool_of
from framejit.driver.upcalls import Upcalls, UpcallUse
from framejit.errors import FramejitError, InternalError, ResumeError, Unsupported, UserFrame, place_noted
from framejit.guards import thread_locals
from framejit.guards.dynamic import FIXED, Dimensions, Dynamic, Size
from framejit.guards.kinds import Equals, Guard, KeyAbsent
from framejit.guards.source import MISSING, Call, Path
from framejit.process import exceptional, interrupts
from framejit.process.one_at_a_time import ONE_AT_A_TIME, wait
from framejit.process.underway import NotBeside
from framejit.process.when_needed import when_needed
from framejit.report import STATISTICS, BreakNote, FrameNote, record
from framejit.reporting import arguments, recompiles, stacks
from framejit.said import directives
from framejit.torch_state import torch_function_stack

check = when_needed("framejit.driver.check")
kept = when_needed("framejit.driver.kept")

FEW_BEYOND_LIMIT = 2
"""The limit of entries for a function that is called by one that has reached its limit: a value that changes that often there often changes here too."""
MOST_PREFERRED = 2
"""The most entries of one function that may be preferred, that is, tried before more general entries that serve the same calls."""
_functions: weakref.WeakSet[Any] = weakref.WeakSet()
_functions_lock = threading.Lock()


class Compiler:
    """The compile callback of one CompiledFunction. The C code calls it when no entry matches a call.

    `pooled`: entries are shared with other functions of the same code object. `upcalls`: decides about upcalls; all compilers that belong to one compiled
    function have the same. `upcall_use`: set if this function is called by native code. `held_backend`: the backend's function, which the options hold only
    weakly (`retained.weakly`). `resumed_after`: for a resume function, the first graph break that led to it; for reports.
    """

    compilations = 0
    """The number of compilations in this process so far."""

    def __init__(
        self,
        options: Options,
        family: Family | None = None,
        pooled: bool = False,
        upcalls: Upcalls | None = None,
        upcall_use: UpcallUse | None = None,
        held_backend: Any = None,
        resumed_after: BreakNote | None = None,
    ) -> None:
        self.options = options
        self.held_backend = held_backend
        self.families = Families(family)
        self.history = History()
        self.upcalls = upcalls_of(options) if upcalls is None else upcalls
        self.upcall_use = upcall_use
        self.resumed_after = resumed_after
        self.surveyed: tuple[int, int | None] | None = None
        """The number of compilations at the last survey, and its result: a candidate's number (retained.py) or 0 (compiled_module.py); None to keep nothing."""
        self._kept: Any = None
        self._cls: weakref.ref[type] | None = None
        """For a resume function: see `class_made_for`."""
        self.precompiled: Any = None
        """The precompiled entries for this function that no call has matched yet (driver.precompiled.PrecompiledEntries), once a call has asked for one."""
        self._owner: weakref.ref[Any] | None = None
        self._beyond_limit: Entry | None = None
        self._job: beside.Job | None = None
        """The call that was given last to the thread that compiles beside the program."""
        self._wasted = 0
        """The number of its calls in a row that were compiled without an entry that matched afterwards."""
        self._pooled = pooled and options.shareable
        self._pool: Pool | None = None

    def attach(self, function: types.FunctionType, entries: Iterable[Entry] = ()) -> CompiledFunction:
        """Make the CompiledFunction of a function, with this object as its callback and with these entries, the latest first."""
        ended = self._ended if self._pooled and self.upcall_use is None else None
        begins_steps = self.options.backend.cudagraphs() and self.upcall_use is None and self.resumed_after is None
        compiled = CompiledFunction(function, self, self.rejected, ended, begin_cudagraph_step if begins_steps else None)
        for entry in reversed(list(entries)):
            compiled.add(entry)
            if entry in self.history.preferred:
                compiled.prefer(entry)
        compiled.upcalls = self.upcalls
        self._owner = weakref.ref(compiled)
        with _functions_lock:
            _functions.add(compiled)
        if self.options.config.checks():
            check.install(self.options.config)
        return compiled

    def hold_backend(self) -> None:
        """Hold the backend strongly again, since a compiled function that was retained is back in use. The options hold it only weakly."""
        if isinstance(self.options.backend.call, retained.WeakBackend):
            self.held_backend = self.options.backend.call.function()

    def _ended(self, function: types.FunctionType, entries: tuple[Entry, ...]) -> None:
        retained.retain(self, function, entries)

    def may_serve(self, function: types.FunctionType, options: Options) -> bool:
        """Return whether the entries may serve a new compiled function of this function or of its code."""
        return self._pool is not None and self._pool.serves(function, options)

    # What the runtime calls.

    def __call__(self, function: types.FunctionType, args: tuple[Any, ...]) -> Any:
        """Return an entry for a call that none matched. None means that the call runs uncompiled, NotImplemented that the caller looks for an entry again."""
        if config.current().disable:
            return None
        if self.upcall_use is not None and self.upcall_use.is_idle() and self.resumed_after is None:
            self._enable(False)
            return None
        if self.resumed_after is None:
            return self._entry_for(call_of(function, args))
        try:
            return self._entry_for(call_of(function, args))
        except BaseException as error:
            try:
                return loader.compiler().leave(function, args, error)
            finally:
                directives.CURRENT.set(directives.around(directives.CURRENT.get(), self.families.of(None).number))

    def rejected(self, function: types.FunctionType, args: tuple[Any, ...], entry: Entry) -> None:
        """Called when several entries were made for a call and none has accepted it. If other threads can have changed a guarded value, the call runs
        uncompiled; otherwise framejit is to blame.

        Raises Unsupported if the call must not run uncompiled, and InternalError in strict mode if framejit is to blame.
        """
        call = call_of(function, args)
        number = entry.tree.failing(call.locals, function)
        guard: Any = entry.spec.guards[number] if number is not None and number >= 0 else None
        with torch_function_stack.set_aside():
            holds = hasattr(guard, "check") and guard.check(guard.source.fetch(call), call)
        holds = holds and entry.tree.failing(call.locals, function) == number
        if holds or threading.active_count() == 1:
            error = InternalError(f"guards of a new entry reject the call that they were made for: {guard}")
            self._internal_error(function, error)
            return
        failure = None if guard is None else recompiles.failure_of(entry, call)
        changing = "something that has changed back" if failure is None else failure.difference
        name = recompiles.name_of(function, compiled_module.module_in(args[0]) if args else None, self.history.resumed_at)
        self._report(call, breaks.ChangesMeanwhile(name, changing))

    def refuted(self, prediction: Prediction, compiled: Any, error: BaseException | None, entry: Entry) -> None:
        """Called when a call that was predicted to raise has returned, or raised something else. Later traces don't make this prediction again: if an
        operator accepts arguments that it has rejected on fakes, the next trace breaks there.

        Raises Unsupported if the call should have been compiled in one piece, and InternalError in strict mode if framejit is to blame.
        """
        function = compiled.function
        against = prediction.against(error)
        is_wrong = prediction.certain and prediction.cls is not None
        reason = breaks.DidNotRaise(against) if is_wrong else prediction.reason
        origin = entry.spec.origin
        self.families.of(None if origin.module is None else origin.module()).refuted[prediction.key] = reason
        compiled.remove(entry)
        if is_wrong:
            STATISTICS.add("internal_errors")
            alone = threading.active_count() == 1  # else another thread may have changed what the trace rested on
            if alone and self._is_strict():
                raise InternalError(f"framejit failed on {function.__qualname__}: {against}") from error
            logs.internal_error(function.__code__, InternalError(against), counted_already=True)
        if error is None and prediction.whole:
            raise Unsupported(reason, prediction.stack)

    def first_step_ran(self, compiled: Any, entry: Entry) -> None:
        """Note that a call with an optimizer's first step has run uncompiled."""
        if entry in self.history.first_steps:
            module = entry.spec.origin.module
            self.families.of(None if module is None else module()).takes_first_steps = True
            compiled.remove(entry)
        self.history.first_steps.add(entry)

    # A call that no entry matches.

    def _entry_for(self, call: Call) -> Any:
        """The entry for a call: one of another function, or a new one; None if the call runs uncompiled. The program's function modes don't see this work."""
        with torch_function_stack.set_aside():
            try:
                return self._found_or_made(call)
            except FramejitError as error:
                if not isinstance(error, InternalError) and not self._is_strict():
                    error.__traceback__ = None  # such an error is about the program: the compiler's frames would only bury its line
                raise

    def _found_or_made(self, call: Call) -> Any:
        if call.locals and compiled_module.catch_up(call.locals[0]):
            return None  # from the next call on it is the new class's `__call__` that runs
        if thread_locals.KNOWN and thread_locals.begin():
            return NotImplemented
        entries = self._entries()
        pool = self._pool_for(call.function)
        found = pool.find(call.function, call.locals, entries) if pool is not None else None
        if found is not None and pool is not None:
            adopted = loader.compiler().adopt(found)
            pool.add(adopted)
            return adopted
        precompiled = self.options.precompiled
        if precompiled is None and beside.is_wanted() and self._compiles_beside(call):
            return None
        seen_by = self._observer(call)
        if seen_by is not None:
            return NotImplemented if seen_by is NotImplemented else self._observed(call, seen_by)
        if precompiled is not None and (answer := self._precompiled(call, precompiled)) is not False:
            return answer
        module = compiled_module.module_in(call.locals[0]) if call.locals else None
        if not is_allowed(self._subject(call, module, entries)):
            return None
        if wait(lambda: self._serves(call)):
            return NotImplemented
        with ONE_AT_A_TIME:
            if threading.active_count() == 1:
                return self._made(call, module, pool)
            return NotImplemented if self._serves(call) else self._published(call, self._made(call, module, pool))

    def _precompiled(self, call: Call, precompiled: Precompiled) -> Any:
        """The precompiled entry for a call that no entry matches. The result is None if the call runs uncompiled, NotImplemented if the caller looks for an
        entry again, and False if the call may be compiled."""
        if wait(lambda: self._serves(call)):
            return NotImplemented
        with ONE_AT_A_TIME:
            if self._serves(call):
                return NotImplemented
            entry = precompiled.found_for(self, call)
            if entry is not None:
                return entry if threading.active_count() == 1 else self._published(call, entry)
        return False if precompiled.missed(self, call, self._entries()) else None

    def _made(self, call: Call, module: nn.Module | None, pool: Pool | None) -> Entry | None:
        """Make a new entry for a call. The result is None if the call runs uncompiled."""
        subject = self._subject(call, module, self._entries())
        if self._has_reported_limit(subject) and is_full(subject):
            return self._without_code(call)
        if self.options.learns_sizes:
            profile.apply(subject)
            if note_varying(subject):
                profile.note(subject)
        decision = decide(subject)
        if decision.limit:
            self._over_limit(subject, decision)
            return self._without_code(call)
        origin = Origin(self.history.next_number(), decision.cause, None if module is None else weakref.ref(module))
        log_compilation(subject, origin, pool)
        entry, begun = None, time.perf_counter()
        asked = None
        if self.options.config.cache:
            asked = kept.asked(self.kept_call(call, origin), self.options, subject.resumed)
        if asked is not None:
            self._kept = self._kept or kept.KeptEntries()
            entry = self._kept.find(asked)
        if entry is not None:
            if pool is not None:
                pool.add(entry)
            return entry
        entry = self._compile(subject, origin)
        if entry is not None and "cache" in self.options.config.checks():
            entry = kept.again(entry, self.kept_call(call, origin))
        if beside.is_disturbed():
            raise NotBeside
        if entry is not None and entry.spec is not None:
            self._note_fixed(entry.spec.guards, subject)
        if entry is not None and subject.own and not subject.resumed:  # a resume function learns from all its entries what changes in a loop
            self._let_superseded_go(entry, subject)
        if entry is not None and pool is not None and entry.spec is not None and entry.spec.shared:
            pool.add(entry)
        if entry is not None and asked is not None:
            self._kept.keep(asked, entry, time.perf_counter() - begun)
        if entry is not None and self.options.precompiled is not None:
            self.options.precompiled.made(self.kept_call(call, origin), entry)
        return entry

    def _note_fixed(self, guards: Sequence[Guard], subject: Subject) -> None:
        """Note the objects and numbers that a new entry is for, which later calls may differ in."""
        self.history.addresses.note(guards, subject.module)
        if subject.family.is_split:
            self.history.note_numbers(subject.family, numbers_fixed(guards))

    def _compiles_beside(self, call: Call) -> bool:
        """Have a call compiled on another thread, unless that already compiles one of this function. Returns False if the call must be compiled here."""
        job, self._job = self._job, None
        if job is not None and job.is_pending():
            self._job = job
            return True
        if (job is not None and job.failed) or self._wasted >= beside.ATTEMPTS or self.history.limits_reported:
            self._wasted = 0
            return False

        def run() -> None:
            drops = beside.BESIDE.drops
            made = self._entry_for(call)
            if isinstance(made, Entry):  # another function's
                made = self._published(call, made)
            self._wasted = 0 if made is NotImplemented else self._wasted + 1
            owner = self._owner() if self._owner is not None else None
            if owner is not None and drops != beside.BESIDE.drops:  # the program has called reset() meanwhile
                owner.clear()

        self._job = beside.ask(run)
        return True

    def _serves(self, call: Call) -> bool:
        """Return whether an entry now matches a call that no entry matched before. Another thread may have made the entry meanwhile, or its backend may have
        restored a setting that it had changed for the whole process.
        """
        with torch_function_stack.in_force():
            return any(entry.tree.match(call.locals, call.function) is not None for entry in self._entries())

    def _published(self, call: Call, entry: Entry | None) -> Any:
        """Add a new entry to the compiled function while this thread still holds the lock. Other threads may wait for it. If one of them compiled something
        else first, its backend could change a guarded setting of the whole process, and the new entry would seem to reject its call.
        """
        owner = self._owner() if self._owner is not None else None
        if entry is None or owner is None or entry.upcalls is not None:  # one for this call only isn't kept
            return entry
        with torch_function_stack.in_force():
            matches = entry.tree.match(call.locals, call.function) is not None
        if not matches:
            return entry
        owner.add(entry)
        return NotImplemented

    def _subject(self, call: Call, module: nn.Module | None, entries: tuple[Entry, ...]) -> Subject:
        entries = tuple(sorted(entries, key=lambda entry: -entry.spec.origin.number))  # a call moves the entry that serves it to the front
        return Subject(
            name=recompiles.name_of(call.function, module, self.history.resumed_at),
            call=call,
            options=self.options,
            history=self.history,
            family=self.families.of(module),
            module=module,
            resumed=self.resumed_after is not None,
            entries=entries,
            own=tuple(entry for entry in entries if entry not in self.history.preferred and entry.spec.origin.is_for(module)),
        )

    def _let_superseded_go(self, new: Entry, subject: Subject) -> None:
        """Drop entries whose calls the new entry serves too, or make them preferred if they may be faster."""
        owner = self._owner() if self._owner is not None else None
        if owner is None:
            return
        lines = []
        for entry in subject.own:
            fate = loader.compiler().fate(entry, new, self.options.backend)
            if fate == "is preferred" and len(self.history.preferred) < MOST_PREFERRED and owner.prefer(entry):
                self.history.preferred.add(entry)
            elif fate != "stays":
                fate = "goes"
                owner.remove(entry)
            if fate != "stays":
                lines.append(f"entry {entry.spec.origin.number} {fate}: entry {new.spec.origin.number} serves its calls too")
        if lines and logs.enabled("dynamic"):
            logs.info("dynamic", f"more general code for {subject.name}", "\n".join(lines))

    def _observer(self, call: Call) -> Any:
        """The program's mode or tracer that observes each operator now, so that the call runs uncompiled; None if there is none. NotImplemented means that the
        caller looks for an entry again."""
        runs_operators = not self.options.backend.takes.one_autograd_node
        seen_by = observer(runs_operators)
        if seen_by in OF_THE_PROCESS:  # it may be what the backend of another thread's compilation has set
            if wait(lambda: self._serves(call)):
                return NotImplemented
            with ONE_AT_A_TIME:
                seen_by = observer(runs_operators)
        return seen_by

    def _observed(self, call: Call, seen_by: breaks.Observed) -> None:
        """Report once that a call runs uncompiled because the program observes each operator. Raises Unsupported if the call must not run uncompiled."""
        if self.options.fullgraph or seen_by not in self.history.observed_by:
            self.history.observed_by.add(seen_by)
            self._report(call, seen_by)

    def _pool_for(self, function: types.FunctionType) -> Pool | None:
        if self._pooled and (self._pool is None or not self._pool.serves(function, self.options)):
            self._pool = pool_of(function, self.options)
        return self._pool

    def _compile(self, subject: Subject, origin: Origin) -> Entry | None:
        call, history = subject.call, self.history
        function = call.function
        names = history.names if subject.resumed else arguments.names(call, subject.module)
        resume = self._resume_in(call)
        request = CompileRequest(
            function, call.locals, self.options, subject.family, history.changing, self.dynamic(call), names, origin, self.resumed_after,
            self.upcall_use, resume,
        )  # fmt: skip
        Compiler.compilations += 1
        try:
            return with_room(loader.compiler().compile_call, request)
        except interrupts.Interrupted as interrupted:
            raised = interrupted.error
        except RecursionError:
            # The stack had no room for the compiler: this call runs uncompiled, and a later one with more room may compile.
            self._report(call, breaks.TooDeep(function.__qualname__))
            return None
        except Exception as error:
            if isinstance(error, ResumeError) or (isinstance(error, FramejitError) and not isinstance(error, InternalError)):
                raise
            return self._internal_error(function, error, origin)
        try:
            raise raised
        finally:
            del raised  # its traceback leads to this frame

    def dynamic(self, call: Call) -> Dynamic:
        """The sizes and numbers of a call that are symbols in the next entry."""
        declared = self.options.shapes.find(call) if self.resumed_after is None else NOTHING
        family = self.families.of(compiled_module.module_in(call.locals[0]) if call.locals else None)
        self.history.vary(declared.varying)
        backend = self.options.backend
        if backend.static_shapes:
            return replace(FIXED, reads_data=self.history.reads_data, fixes_data=self.options.fullgraph, aliases_vary=self.history.aliases_vary)
        return Dynamic(
            self.options.dynamic is True,
            self.history.varying,
            sizes=declared.tensors,
            limits=Size("", *backend.sizes),
            reads_data=self.history.reads_data,
            fixes_data=self.options.fullgraph,
            aliases_vary=self.history.aliases_vary,
            differs=functools.partial(self.history.differs, family) if self.options.learns_sizes and self.resumed_after is not None else None,
            compares=self.options.learns_sizes,
        )

    def kept_call(self, call: Call, origin: Origin) -> Any:
        """A call as the entries on disk and in artifacts see it: a `kept.KeptCall`."""
        return kept.KeptCall(call, kept.Own(call.function, self.class_made_for(call)), origin, self._resume_in(call))

    def _resume_in(self, call: Call) -> Callable[..., CompiledFunction]:
        """`_resume` for the resume functions of one call."""
        module = compiled_module.module_in(call.locals[0]) if call.locals else None
        return functools.partial(self._resume, self.families.of(module), self.class_made_for(call))

    def class_made_for(self, call: Call) -> type | None:
        """The class that framejit has made for the compiled module whose call this is, or whose call a resume function continues; None if there is none."""
        if self.resumed_after is None:
            return compiled_module.class_made_for(call.locals[0]) if call.locals else None
        return None if self._cls is None else self._cls()

    def _resume(
        self,
        family: Family,
        cls: type | None,
        function: types.FunctionType,
        resumed_after: BreakNote,
        place: UserFrame,
        carried: Carried,
        names: Mapping[Path, str],
        on_data: Mapping[Path, Dimensions],
        is_saved: bool = False,
    ) -> CompiledFunction:
        """The CompiledFunction of a resume function, which is made once. It begins with what this function has learnt. `is_saved`: the function comes from an
        entry on disk.

        What depends on data (objects/tensors/varying.py) is taken to vary from the start.
        """

        def make() -> CompiledFunction:
            made = Compiler(self.options, family, upcalls=self.upcalls, upcall_use=self.upcall_use, resumed_after=resumed_after)
            made._cls = None if cls is None else weakref.ref(cls)
            return made.attach(function)

        if is_saved or family.has_saved:
            function = family.equal_to(function, kept.digest_of)
        compiled = family.compiled(function, make)
        history: History = compiled.compile_callback.history  # type: ignore[attr-defined]
        history.names, history.resumed_at, history.carried, history.on_data = names, place, tuple(carried), on_data
        history.inherit(self.history, history.carried)
        if self.options.learns_sizes:
            history.vary({path: found for path, found in on_data.items() if path not in history.varying})
        return compiled

    def _entries(self) -> tuple[Entry, ...]:
        """The entries that may still match a call: those of which no guarded object is gone."""
        owner = self._owner() if self._owner is not None else None
        if owner is None:
            return ()
        for entry in owner.entries:
            if not entry.tree.alive:
                owner.remove(entry)
        return owner.entries  # type: ignore[no-any-return]

    # What becomes of calls that run uncompiled.

    def _enable(self, setting: bool) -> None:
        owner = self._owner() if self._owner is not None else None
        if owner is not None:
            owner.enabled = setting

    def _fails_at_limit(self) -> bool:
        return self.options.config.fail_on_recompile_limit or config.current().fail_on_recompile_limit

    def _has_reported_limit(self, subject: Subject) -> bool:
        """Return whether it has been reported that a limit is reached for such calls, and the program doesn't want an error for that."""
        reported = self.history.limits_reported
        return bool(reported) and not self.options.fullgraph and not self._fails_at_limit() and any(name == subject.name for name, _ in reported)

    def _over_limit(self, subject: Subject, decision: Decision) -> None:
        limit, over = decision.limit, decision.over
        if self._fails_at_limit():
            raise recompiles.error(subject.name, f"{limit} is reached", over, subject.call)
        reported = self.history.limits_reported
        if self.options.fullgraph or (subject.name, limit) not in reported:
            reported.add((subject.name, limit))
            reason, stack = recompiles.over_limit(subject.name, limit, over[0], subject.call)
            self._report(subject.call, reason, stack)

    def _without_code(self, call: Call) -> Entry:
        """The entry for a call that a limit forbids to compile: its frame runs uncompiled, and the functions that it calls are compiled by themselves."""
        if self._beyond_limit is None:
            code = compiled_module.home(call.function, call.locals[0] if call.locals else None)
            self._beyond_limit = loader.compiler().for_one_call(self.upcalls.beyond_limits(code))
        return self._beyond_limit

    def _report(self, call: Call, reason: breaks.Break, stack: Sequence[UserFrame] = ()) -> None:
        code = compiled_module.home(call.function, call.locals[0] if call.locals else None)
        stack = stacks.shown(stack) or [UserFrame.of(code, None)]
        if self.options.fullgraph:
            raise Unsupported(reason, stack)
        logs.fallback(code, reason, stack)
        record(FrameNote(code.co_qualname, code.co_filename, code.co_firstlineno, {}, fallback=reason, fallback_stack=tuple(stack)))

    def _is_strict(self) -> bool:
        return self.options.config.strict or config.current().strict

    def _may_not_break(self) -> bool:
        """Return whether the program demands that a call is compiled in one piece: otherwise an error is raised."""
        current = directives.CURRENT.get()
        return bool(directives.breaks_are_errors(current, current, self.families.of(None).number, self.options.fullgraph))

    def _internal_error(self, function: types.FunctionType, error: BaseException, origin: Origin = Origin()) -> Entry:
        if beside.is_worker():  # what the program changes meanwhile may have caused it: the call is compiled again where it is made
            raise InternalError(f"framejit failed on {function.__qualname__}: {type(error).__name__}: {error}") from error
        STATISTICS.add("internal_errors")
        if self._is_strict() or self._may_not_break():
            raise InternalError(f"framejit failed on {function.__qualname__}: {type(error).__name__}: {error}") from error
        code, reason = function.__code__, breaks.FailedInside(f"{type(error).__name__}: {error}", place_noted(error))
        logs.internal_error(code, error)
        record(FrameNote(function.__qualname__, code.co_filename, code.co_firstlineno, {}, fallback=reason))
        return loader.compiler().run_uncompiled(origin)

    def is_sampled(self) -> bool:
        """Return whether this call is one of those that run eagerly too (`check="results"`)."""
        return self.history.is_sampled(self.options.config.check_every)

    def forget(self) -> None:
        """Forget everything: part of `reset()`."""
        self.history.forget()
        self.families.forget()
        self._beyond_limit = self._job = None
        self._wasted = 0
        self._kept = self.precompiled = None
        if self.upcall_use is not None:
            self.upcall_use.forget()
            self._enable(True)


class EntriesOfAll:
    """The entries of all compiled functions, as far as `process/exceptional.py` needs to know of them."""

    def calls_of(self, function: types.FunctionType) -> int:
        return sum(entry.hits for _, entry in self.entries(function))

    def checked_by(self, function: types.FunctionType) -> set[str]:
        return {branch for _, entry in self.entries(function) for branch in branches_of(entry)}

    def drop(self, branch: str) -> None:
        for compiled, entry in self.entries():
            if branch in branches_of(entry):
                compiled.remove(entry)
        logs.info("recompiles", f"calls often go {branch}: the code without it is dropped")

    def entries(self, function: types.FunctionType | None = None) -> list[tuple[Any, Entry]]:
        """The entries of a function, or of all functions, each with the CompiledFunction that has it."""
        with _functions_lock:
            functions = list(_functions)
        return [(compiled, entry) for compiled in functions if function in (None, compiled.function) for entry in compiled.entries]


def branches_of(entry: Entry) -> set[str]:
    """The branches, by name, of which an entry guards that their exceptional ways aren't taken often."""
    return {guard.name for guard in entry.spec.guards if isinstance(guard, KeyAbsent) and type(guard.name) is str and guard.name.startswith(BEGINNINGS)}


BEGINNINGS = tuple(exceptional.ALLOWED)
exceptional.register(EntriesOfAll())


def reset() -> None:
    """Throw all entries away; functions compile again when they are next called."""
    beside.BESIDE.drop()
    retained.clear()
    compiled_module.forget()
    with _functions_lock:
        functions = list(_functions)
    for compiled in functions:
        compiled.clear()
        compiled.compile_callback.forget()
    profile.forget()
    logs.forget()
    exceptional.forget()
    proper = loader.loaded()
    if proper is not None:
        proper.forget()


def upcalls_of(options: Options) -> Upcalls:
    """The Upcalls object that decides about functions which native code calls at the breaks of a compiled function, or which its uncompiled frame calls."""
    alike = replace(options, fullgraph=False, shapes=DeclaredShapes())
    few = replace(alike, config=replace(options.config, recompile_limit=min(options.config.recompile_limit, FEW_BEYOND_LIMIT)))
    return Upcalls(functools.partial(compile_upcall, alike), functools.partial(compile_upcall, few))


def compile_upcall(options: Options, function: types.FunctionType, upcalls: Upcalls) -> CompiledFunction:
    """Make the CompiledFunction of a function that native code has called at a break."""
    return Compiler(options, pooled=True, upcalls=upcalls, upcall_use=UpcallUse()).attach(function)


def call_of(function: types.FunctionType, args: tuple[Any, ...]) -> Call:
    """The call as guards see it, made from the argument slots that the runtime passes."""
    return Call(tuple(MISSING if arg is Unset else arg for arg in args), function)


def numbers_fixed(guards: Iterable[Any]) -> Iterator[tuple[Path, float]]:
    """The numbers that guards fix, by path."""
    return ((guard.source.path(), guard.value) for guard in guards if isinstance(guard, Equals) and type(guard.value) in (int, float))


def log_compilation(subject: Subject, origin: Origin, pool: Pool | None) -> None:
    """Count and report that a function is compiled again."""
    name, call, number = subject.name, subject.call, origin.number
    if origin.cause is not None:
        STATISTICS.add("recompiles")
        recompiles.log(name, number, subject.own, call, subject.history.varying if subject.options.learns_sizes else {})
    elif subject.entries and not subject.own:
        recompiles.log_other(name, number, subject.entries, call, detail=False)
    elif pool is not None:
        recompiles.log_other(name, number, tuple(pool.entries()), call, detail=True)
