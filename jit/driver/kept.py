"""Entries on disk: each new entry that took long to make is written, and a later process makes it again instead of compiling.

An entry is found by what it was made for (`key_of`) and under (`circumstances`), and is bound to what this process has under the names that it refers to.
Its guards are all there, and decide about the call like those of any other entry.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import re
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import fields, replace
from pathlib import Path
from pickle import UnpicklingError
from types import FunctionType
from typing import Any, NamedTuple

import torch
from torch.utils._config_module import _UNSET_SENTINEL

from framejit import config, logs
from framejit._runtime import CompiledFunction, Entry
from framejit.breaks import Break
from framejit.driver.compiled_module import home
from framejit.driver.entry_spec import EntrySpec, Replacement, ended, hand_back, make
from framejit.driver.options import Options
from framejit.driver.request import Origin
from framejit.errors import UserFrame
from framejit.guards.container_sources import LookedUp
from framejit.guards.dynamic import Dimensions
from framejit.guards.explain import explain_failure
from framejit.guards.global_state import GlobalState, renewed, with_setting
from framejit.guards.kinds import Equals, Guard, OfObject
from framejit.guards.relations import Distinct
from framejit.guards.source import Call, Item, Pinned, Source
from framejit.guards.source import Path as SourcePath
from framejit.process import collector
from framejit.program import classes
from framejit.report import BreakNote, is_recording
from framejit.reporting import split_calls
from framejit.saved import folder
from framejit.saved.form import Identity, Own, by_identity, read, written
from framejit.saved.names import Absent, Awaited, Unsaved, digest_of
from framejit.torch_state import errors_at_breaks, torch_function_stack

LEAST_SECONDS = 1.0
"""An entry is written if it has taken so long to make: writing takes up to half a second. With a backend that compiles kernels, all pieces of a split call are
written, since a later process that lacks one of them would have to load the compiler."""
MOST_TRIED = 16
"""So many entries of a function are read."""
VARIABLES = re.compile(r"(TORCH|PYTORCH|TRITON|OMP_|MKL_|KMP_|GOMP_|ATEN_|CUDA|HIP|ROCM|CXX|CC$|CFLAGS|CXXFLAGS|CPATH|LD_)")
"""Environment variables on which compiled code may depend."""
OTHER_VARIABLES = re.compile(r"TORCH_LOGS|TORCH_TRACE|TORCH_HOME|TORCHINDUCTOR_CACHE_DIR|TORCHINDUCTOR_(FX_GRAPH|AUTOGRAD)_CACHE|TRITON_CACHE_DIR")
"""Those among them that don't matter."""
IGNORED_OPTIONS = frozenset({"strict", "disable", "progress", "logs", "logs_out", "profile", "cache", "cache_dir", "backend", "check_every"})
"""Options of framejit's that don't change what is compiled."""
SETTINGS = ("torch._inductor.config", "torch._functorch.config")
"""Modules of torch whose settings compiled code depends on."""
DETAILS = ("graph_code", "guards", "bytecode", "effects", "trace", "resume")
"""Logs of what the compiler does."""


class KeptCall(NamedTuple):
    """A call for which an entry is looked for.

    Attributes:
        own: the parts of the program that the entry needs no names for.
        origin: why the entry is made.
        resume: makes the CompiledFunction of a resume function: `Compiler._resume_in`.
        place: the folder of the entries for such calls.
        is_piece: whether the function is a resume function.
        keeps_pieces: whether the pieces of a split call are written, however quickly they were made.
    """

    call: Call
    own: Own
    origin: Origin
    resume: Callable[..., CompiledFunction]
    place: Path = Path()
    is_piece: bool = False
    keeps_pieces: bool = False

    @property
    def name(self) -> str:
        """The function's name, for the log."""
        return self.call.function.__qualname__


class KeptEntries:
    """The entries on disk for one compiled function: those that it has read, and that no call has matched yet."""

    def __init__(self) -> None:
        self._read: dict[Path, Entry | None] = {}

    def find(self, asked: KeptCall) -> Entry | None:
        """An entry for a call; None if there is none."""
        call = asked.call
        for path in folder.entries(asked.place)[-MOST_TRIED:]:
            if path not in self._read:
                self._read[path] = load(path, asked)
            entry = self._read[path]
            if entry is None:
                continue
            with torch_function_stack.in_force():
                matches = entry.tree.match(call.locals, call.function) is not None
            if matches:
                self._read[path] = None  # it is the compiled function's from now on
                logs.info("cache", f"{asked.name} is taken from {path}")
                if entry.spec.replacement.broke is not None:
                    split_calls.report_break(entry.spec.replacement.broke)
                return entry
            if logs.enabled("cache"):
                number = entry.tree.failing(call.locals, call.function)
                why = "" if number is None or number < 0 else f": {explain_failure([entry.spec.guards[number]], call)}"
                logs.info("cache", f"{path.name} doesn't fit this call of {asked.name}{why}")
        return None

    def keep(self, asked: KeptCall, entry: Entry, seconds: float) -> None:
        """Write a new entry to the folder of those for such calls, unless it was made quickly."""
        if entry.spec is not None and (seconds >= LEAST_SECONDS or (asked.keeps_pieces and (asked.is_piece or entry.spec.replacement.resumes))):
            self._write(asked.place, entry, asked.own)

    def _write(self, place: Path, entry: Entry, own: Own) -> None:
        """Write an entry, or have it written as soon as its code is complete, unless it has gone by then."""
        try:
            path = write(place, entry, own)
        except Awaited as awaited:
            logs.info("cache", f"{own.function.__qualname__} isn't kept for later processes yet: {awaited}")
            function: Any = weakref.ref(own.function)
            owner, waiting, cls = weakref.ref(self), weakref.ref(entry), None if own.cls is None else weakref.ref(own.cls)

            def now() -> None:
                kept, entry, code_of = owner(), waiting(), function()
                if kept is not None and entry is not None and code_of is not None:
                    kept._write(place, entry, Own(code_of, None if cls is None else cls()))

            awaited.listeners.append(now)
        else:
            if path is not None:
                self._read[path] = None


def reads(options: Options) -> bool:
    """Return whether entries are read from disk, and written there. They aren't while the compiler is watched, nor if Inductor's caches are off."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return False  # what one rank has compiled isn't what another one would
    if os.environ.get("TORCHINDUCTOR_FORCE_DISABLE_CACHES") == "1" or os.environ.get("TORCHINDUCTOR_FX_GRAPH_CACHE") == "0":
        return False
    return (
        options.config.cache and config.current().cache and not is_recording() and not any(map(logs.enabled, DETAILS))
        and not options.backend.cudagraphs() and not options.backend.freezes() and options.backend.name in ("eager", "inductor")
    )  # fmt: skip


def asked(made: KeptCall, options: Options, is_piece: bool) -> KeptCall | None:
    """The call with the folder of its entries; None if there can be none on disk. The folder depends on settings that a compilation may change."""
    root = folder.usable() if reads(options) else None
    key = None if root is None else key_of(made.call, made.own.cls, options)
    if root is None or key is None:
        return None
    place = root / short(circumstances()) / short(key)
    return made._replace(place=place, is_piece=is_piece, keeps_pieces=options.backend.takes.compiles_kernels)


def short(value: Any) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:32]


def key_of(call: Call, cls: type | None, options: Options) -> Any:
    """Plain data that tell calls apart for which different entries were made; None if options aren't plain data."""
    settings = {field.name: getattr(options.config, field.name) for field in fields(options.config) if field.name not in IGNORED_OPTIONS}
    if not is_plain(options.backend.kwargs) or not all(map(is_plain, options.shapes.keys())):
        return None
    return (
        *frame_of(call, cls), options.backend.name, sorted(options.backend.kwargs.items()),
        options.dynamic, options.shapes, options.regions, options.branches, options.fullgraph, settings,
    )  # fmt: skip


def frame_of(call: Call, cls: type | None) -> tuple[Any, ...]:
    """Plain data that identify the function that is called, and the forward of the module that it is called for. `cls`: see `Own`."""
    function = call.function
    code = home(function, call.locals[0] if call.locals else None)
    return function.__module__, function.__qualname__, digest_of(function.__code__), code.co_qualname, digest_of(code), own_name(cls)


def own_name(cls: type | None) -> Any:
    return None if cls is None else (classes.module(cls), classes.qualname(cls))


def is_plain(value: Any) -> bool:
    """Return whether a value consists of plain data."""
    if isinstance(value, Mapping):
        return all(is_plain(key) and is_plain(item) for key, item in value.items())
    if type(value) in (tuple, list):
        return all(map(is_plain, value))
    return value is None or type(value) in (bool, int, float, str)


# The circumstances under which an entry is made.


def circumstances() -> Any:
    """Plain data about the process on which compiled code depends: versions, the processor, environment variables, settings of torch."""
    variables = sorted((name, value) for name, value in os.environ.items() if VARIABLES.match(name) and not OTHER_VARIABLES.match(name))
    return (
        of_the_machine(), variables, torch.get_num_threads(), torch.backends.mkldnn.is_available() and torch._C._get_mkldnn_enabled(),
        torch.are_deterministic_algorithms_enabled(), torch.get_float32_matmul_precision(),
        [setting for name in SETTINGS for setting in changed_settings(name)],
    )  # fmt: skip


@functools.cache
def of_the_machine() -> Any:
    """The part of the circumstances that stays as long as the process lives."""
    return (
        build(), torch.__version__, torch.version.git_version, sys.version, sys.implementation.cache_tag, sys.flags.optimize, platform.machine(),
        torch.backends.cpu.get_cpu_capability(), processor(),
    )  # fmt: skip


def processor() -> str:
    """The processor's name and features, as far as the system tells them."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
        return "\n".join(line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part")))
    return platform.processor()


def build() -> Any:
    """The files of framejit, with their sizes and times."""
    found = []
    for part in sorted(Path(__file__).resolve().parents[1].iterdir()):
        for path in sorted(part.rglob("*")) if part.is_dir() else [part]:
            if path.suffix in (".py", ".so"):
                seen = path.stat()
                found.append((path.name, seen.st_size, seen.st_mtime_ns))
    return found


def changed_settings(name: str) -> Iterator[tuple[str, str, str]]:
    """The settings of one of torch's modules to which the program has given other values than their defaults. One that hasn't been imported has none."""
    for key, entry in getattr(sys.modules.get(name), "_config", {}).items():
        value = entry.user_override
        value = value.get() if isinstance(value, ContextVar) else value  # the former from torch 2.13 on
        if value is not _UNSET_SENTINEL and repr(value) != repr(entry.default):
            yield name, key, repr(value)


# One entry.


def load(path: Path, asked: KeptCall) -> Entry | None:
    """Make the entry of a file; None if it can't be made here."""
    data = folder.read_entry(path)
    if data is None:
        return None
    try:
        return bound(data, asked)
    except Absent as absent:
        logs.info("cache", f"{path.name} isn't used for {asked.name}: {absent} isn't there")
    except Exception as error:
        logs.info("cache", f"{path.name} can't be read: {type(error).__name__}: {error}")
        if config.current().strict and not isinstance(error, UnpicklingError):
            raise
    return None


def bound(data: bytes, asked: KeptCall, files_checked: bool = False) -> Entry:
    """Make an entry from its bytes, for this process. Raises Absent if something that it refers to is gone or has changed. `files_checked`: it is known already
    that the files whose functions were traced, which may lie elsewhere here, have the same contents."""
    own = asked.own
    with collector.off():
        _, files, cls, parts = read(data, own)
        if own.cls is not None and classes.mro(own.cls)[1] is not cls:
            raise Absent(f"the class {classes.qualname(own.cls)}, which has changed,")
        changed = None if files_checked else next(filter(has_changed, files), None)
        if changed is not None:
            raise Absent(f"{changed[0]}, which has changed,")
        guards, inputs, captures, outcome, shared, code, graph, direct, vouched, step, following, broke = parts
        other = next((each for each in vouched if not each.holds()), None)
        if other is not None:
            raise Absent(f"what {other.function.__qualname__} gave")
        resumes = tuple(each.compiled(asked.resume) for each in following)
        note = None if broke is None else BreakNote(*broke)
        replacement = Replacement(code, graph, direct, step, resumes, note)
        return make(
            EntrySpec(
                renewed(guards), asked.origin, inputs, captures, outcome=outcome, shared=shared, files=frozenset(file for file, *_ in files),
                vouched=vouched, replacement=replacement,
            )
        )  # fmt: skip


class ResumeRecord(NamedTuple):
    """A resume function, with the arguments of `Compiler._resume`. `function` is None for the one that returns the result of a call that has ended."""

    function: FunctionType | None
    broke: tuple[Break, tuple[UserFrame, ...], int] | None = None
    place: UserFrame | None = None
    carried: tuple[tuple[SourcePath, SourcePath], ...] = ()
    names: dict[SourcePath, str] | None = None
    on_data: dict[SourcePath, Dimensions] | None = None

    @classmethod
    def of(cls, compiled: CompiledFunction) -> ResumeRecord:
        """From a resume function's CompiledFunction."""
        if compiled.function is hand_back:
            return cls(None)
        compiler: Any = compiled.compile_callback
        function: Any = compiled.function
        history, broke = compiler.history, compiler.resumed_after
        return cls(function, facts_of(broke), history.resumed_at, history.carried, dict(history.names), dict(history.on_data))

    def compiled(self, resume: Callable[..., CompiledFunction]) -> CompiledFunction:
        """The CompiledFunction, made for this process."""
        if self.function is None or self.broke is None:
            return ended()
        return resume(self.function, BreakNote(*self.broke), self.place, self.carried, self.names, self.on_data or {}, is_saved=True)


def facts_of(broke: BreakNote) -> tuple[Break, tuple[UserFrame, ...], int]:
    """The arguments of a BreakNote that don't depend on what has been reported in this process."""
    return broke.reason, tuple(broke.stack), broke.before


def again(entry: Entry, asked: KeptCall) -> Entry:
    """The entry as a later process would make it; the entry itself if it can't be written (FRAMEJIT_CHECK=cache)."""
    try:
        return bound(contents(entry, asked.own), asked)
    except Unsaved:
        return entry


def write(place: Path, entry: Entry, own: Own) -> Path | None:
    """Write an entry to a folder. The result is None if it refers to what the next process couldn't find. Raises Awaited if its code isn't complete yet."""
    name = own.function.__qualname__
    try:
        path = folder.write_entry(place, contents(entry, own))
    except Awaited:
        raise
    except Unsaved as unsaved:
        logs.info("cache", f"{name} isn't kept for later processes: {unsaved}")
    except Exception as error:
        logs.info("cache", f"{name} isn't kept for later processes: {type(error).__name__}: {error}")
        if config.current().strict and not isinstance(error, OSError):
            raise
    else:
        logs.info("cache", f"{name} is kept for later processes in {path}")
        tidy_up()
        return path
    return None


@functools.cache
def tidy_up() -> None:
    """Delete what is old, once in a process."""
    root = folder.usable()
    if root is not None:
        folder.prune(root)


def contents(entry: Entry, own: Own) -> bytes:
    """An entry as bytes. Raises Unsaved."""
    spec: EntrySpec = entry.spec
    made = spec.replacement
    if spec.reason is not None or entry.code is None:
        raise Unsaved("its frame runs uncompiled")
    if spec.of_process:
        raise Unsaved(f"it depends on {spec.of_process}, which is different in each process")
    if any(type(guard) is Equals and holds_set(guard.value) for guard in spec.guards):
        raise Unsaved("it depends on the order of a frozenset, which is different in each process")
    guards = without_torchs_tracer(spec.guards)
    sources = sources_of(spec, guards)
    near: list[Any] = [guard.value for guard in guards if isinstance(guard, OfObject)] + [source.payload for source in sources if type(source) is Pinned]
    cls = None if own.cls is None else Identity(classes.mro(own.cls)[1])
    direct = None
    if made.direct is not None:
        *others, constants = made.direct
        direct = (*others, by_identity(constants))
    following, broke = tuple(map(ResumeRecord.of, made.resumes)), None if made.broke is None else facts_of(made.broke)
    parts = (
        tuple(guards), tuple(spec.inputs), tuple(spec.captures), spec.outcome, spec.shared, entry.code, made.graph, direct, tuple(spec.vouched),
        made.step, following, broke,
    )  # fmt: skip
    return written((sources, [stamp(file) for file in sorted(spec.files)], cls, parts), own, near)


def holds_set(value: Any) -> bool:
    """Return whether a constant is or contains a frozenset of several elements."""
    return any(map(holds_set, value)) if isinstance(value, tuple) else isinstance(value, frozenset) and len(value) > 1


def without_torchs_tracer(guards: Sequence[Guard]) -> list[Guard]:
    """The guards, of which none reads a global of torch's tracer: the next process may not have imported it. That one which asks for errors at graph breaks
    is read as a setting."""
    tracer = vars(sys.modules[errors_at_breaks.UTILITIES]) if errors_at_breaks.UTILITIES in sys.modules else None
    found: list[Guard] = []
    asked: list[Any] = []
    for guard in guards:
        base = guard.source.base
        if type(guard) is Equals and type(guard.source) is Item and guard.source.payload == errors_at_breaks.ASKED and is_pinned(base, tracer):
            asked.append(guard.value)
        elif isinstance(guard, Distinct):
            found.append(replace(guard, others=tuple(other for other in guard.others if not is_pinned(other, tracer))))
        else:
            found.append(guard)
    for value in asked:
        found = [with_setting(guard, (errors_at_breaks.asks_for_errors, (), bool(value))) if isinstance(guard, GlobalState) else guard for guard in found]
    return found


def is_pinned(source: Source | None, value: Any) -> bool:
    return type(source) is Pinned and value is not None and source.payload is value


def sources_of(spec: EntrySpec, guards: Sequence[Guard]) -> list[Source]:
    """All sources of an entry, each after those that it goes through."""
    found: dict[int, Source] = {}
    waiting: list[Source | None] = [*spec.inputs, *spec.captures, *[source for guard in guards for source in (guard.source, *guard.sources())]]
    for source in waiting:
        while source is not None and id(source) not in found:
            found[id(source)] = source
            if isinstance(source, LookedUp):
                waiting.append(source.payload)
            source = source.base
    return sorted(found.values(), key=lambda source: source.depth)


Stamp = tuple[str, int, int, str]
"""A file's name, its size, its time of modification, and the hash of its contents; the numbers are -1 if there is no such file."""


def stamp(file: str) -> Stamp:
    try:
        seen, data = os.stat(file), Path(file).read_bytes()
    except (OSError, ValueError):
        return file, -1, -1, ""
    return file, seen.st_size, seen.st_mtime_ns, folder.digest(data)


def has_changed(before: Stamp) -> bool:
    """Return whether a file has other contents than when a stamp was made."""
    file, size, modified, contents_hash = before
    try:
        seen = os.stat(file)
    except (OSError, ValueError):
        return size != -1
    return (seen.st_size, seen.st_mtime_ns) != (size, modified) and stamp(file)[3] != contents_hash
