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
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import fields
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch.utils._config_module import _UNSET_SENTINEL

from framejit import config, logs
from framejit._runtime import Entry
from framejit.driver.compiled_module import ORIGINAL, home
from framejit.driver.declared import DeclaredShapes
from framejit.driver.entry_spec import EntrySpec, Replacement, make
from framejit.driver.options import Options
from framejit.driver.request import Origin
from framejit.guards.explain import explain_failure
from framejit.guards.kinds import Equals, OfObject
from framejit.guards.source import Call, Pinned, Source
from framejit.process import collector
from framejit.program import classes
from framejit.report import is_recording
from framejit.saved import folder
from framejit.saved.form import Identity, Own, by_identity, read, written
from framejit.saved.names import Absent, Unsaved, digest_of
from framejit.torch_state import torch_function_stack

LEAST_SECONDS = 1.0
"""An entry is written if it has taken so long to make: writing takes up to half a second."""
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


class KeptEntries:
    """The entries on disk for one compiled function: those that it has read, and that no call has matched yet."""

    def __init__(self) -> None:
        self._read: dict[Path, Entry | None] = {}

    def find(self, place: Path, call: Call, origin: Origin) -> Entry | None:
        """An entry for a call, from the folder of those for such calls; None if there is none."""
        for path in folder.entries(place)[-MOST_TRIED:]:
            if path not in self._read:
                self._read[path] = load(path, call, origin)
            entry = self._read[path]
            if entry is None:
                continue
            with torch_function_stack.in_force():
                matches = entry.tree.match(call.locals, call.function) is not None
            if matches:
                self._read[path] = None  # it is the compiled function's from now on
                logs.info("cache", f"{call.function.__qualname__} is taken from {path}")
                return entry
            if logs.enabled("cache"):
                number = entry.tree.failing(call.locals, call.function)
                why = "" if number is None or number < 0 else f": {explain_failure([entry.spec.guards[number]], call)}"
                logs.info("cache", f"{path.name} doesn't fit this call of {call.function.__qualname__}{why}")
        return None

    def keep(self, place: Path, entry: Entry, call: Call, seconds: float) -> None:
        """Write a new entry to the folder of those for such calls, unless it was made quickly."""
        if entry.spec is None or seconds < LEAST_SECONDS:
            return
        path = write(place, entry, call)
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
        and options.shapes == DeclaredShapes() and not options.backend.cudagraphs() and not options.backend.freezes()
        and options.backend.name in ("eager", "inductor")
    )  # fmt: skip


def own_of(call: Call) -> Own:
    """The parts of the program that an entry for a call needs no names for."""
    cls = type(call.locals[0]) if call.locals else None
    return Own(call.function, cls if cls is not None and ORIGINAL in classes.class_dict(cls) else None)


def place_of(call: Call, options: Options) -> Path | None:
    """The folder of the entries for such calls; None if there can be none. It depends on settings that a compilation may change."""
    root = folder.usable() if reads(options) else None
    if root is None:
        return None
    asked = key_of(call, options)
    return None if asked is None else root / short(circumstances()) / short(asked)


def short(value: Any) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:32]


def key_of(call: Call, options: Options) -> Any:
    """Plain data that tell calls apart for which different entries were made; None if options aren't plain data."""
    settings = {field.name: getattr(options.config, field.name) for field in fields(options.config) if field.name not in IGNORED_OPTIONS}
    if not is_plain(options.backend.kwargs):
        return None
    return (
        *frame_of(call), options.backend.name, sorted(options.backend.kwargs.items()), options.dynamic, options.regions, options.fullgraph, settings,
    )  # fmt: skip


def frame_of(call: Call) -> tuple[Any, ...]:
    """Plain data that identify the function that is called, and the forward of the module that it is called for."""
    function = call.function
    code = home(function, call.locals[0] if call.locals else None)
    return function.__module__, function.__qualname__, digest_of(function.__code__), code.co_qualname, digest_of(code), own_name(own_of(call).cls)


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


def load(path: Path, call: Call, origin: Origin) -> Entry | None:
    """Make the entry of a file; None if it can't be made here."""
    data = folder.read_entry(path)
    if data is None:
        return None
    try:
        return bound(data, call, origin)
    except Absent as absent:
        logs.info("cache", f"{path.name} isn't used for {call.function.__qualname__}: {absent} isn't there")
    except Exception as error:
        logs.info("cache", f"{path.name} can't be read: {type(error).__name__}: {error}")
        if config.current().strict and not isinstance(error, UnpicklingError):
            raise
    return None


def bound(data: bytes, call: Call, origin: Origin, files_checked: bool = False) -> Entry:
    """Make an entry from its bytes, for this process. Raises Absent if something that it refers to is gone or has changed. `files_checked`: it is known already
    that the files whose functions were traced, which may lie elsewhere here, have the same contents."""
    own = own_of(call)
    with collector.off():
        _, files, cls, parts = read(data, own)
        if own.cls is not None and classes.mro(own.cls)[1] is not cls:
            raise Absent(f"the class {classes.qualname(own.cls)}, which has changed,")
        changed = None if files_checked else next(filter(has_changed, files), None)
        if changed is not None:
            raise Absent(f"{changed[0]}, which has changed,")
        guards, inputs, captures, outcome, shared, code, graph, direct, vouched = parts
        other = next((each for each in vouched if not each.holds()), None)
        if other is not None:
            raise Absent(f"what {other.function.__qualname__} gave")
        names, replacement = frozenset(file for file, *_ in files), Replacement(code, graph, direct)
        return make(
            EntrySpec(guards, origin, inputs, captures, outcome=outcome, shared=shared, files=names, vouched=vouched, replacement=replacement)
        )


def again(entry: Entry, call: Call) -> Entry:
    """The entry as a later process would make it; the entry itself if it can't be written (FRAMEJIT_CHECK=cache)."""
    try:
        return bound(contents(entry, own_of(call)), call, entry.spec.origin)
    except Unsaved:
        return entry


def write(place: Path, entry: Entry, call: Call) -> Path | None:
    """Write an entry to a folder. The result is None if it refers to what the next process couldn't find."""
    try:
        path = folder.write_entry(place, contents(entry, own_of(call)))
    except Unsaved as unsaved:
        logs.info("cache", f"{call.function.__qualname__} isn't kept for later processes: {unsaved}")
    except Exception as error:
        logs.info("cache", f"{call.function.__qualname__} isn't kept for later processes: {type(error).__name__}: {error}")
        if config.current().strict and not isinstance(error, OSError):
            raise
    else:
        logs.info("cache", f"{call.function.__qualname__} is kept for later processes in {path}")
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
        raise Unsaved(f"it rests on {spec.of_process}, which is different in each process")
    if any(type(guard) is Equals and holds_set(guard.value) for guard in spec.guards):
        raise Unsaved("it rests on the order of a frozenset, which is different in each process")
    if made.step is not None or made.resumes:
        raise Unsaved("it ends in a graph break")
    sources = sources_of(spec)
    near: list[Any] = [guard.value for guard in spec.guards if isinstance(guard, OfObject)] + [source.payload for source in sources if type(source) is Pinned]
    cls = None if own.cls is None else Identity(classes.mro(own.cls)[1])
    direct = None
    if made.direct is not None:
        *others, constants = made.direct
        direct = (*others, by_identity(constants))
    parts = tuple(spec.guards), tuple(spec.inputs), tuple(spec.captures), spec.outcome, spec.shared, entry.code, made.graph, direct, tuple(spec.vouched)
    return written((sources, [stamp(file) for file in sorted(spec.files)], cls, parts), own, near)


def holds_set(value: Any) -> bool:
    """Return whether a constant is or contains a frozenset of several elements."""
    return any(map(holds_set, value)) if isinstance(value, tuple) else isinstance(value, frozenset) and len(value) > 1


def sources_of(spec: EntrySpec) -> list[Source]:
    """All sources of an entry, each after those that it goes through."""
    found: dict[int, Source] = {}
    waiting: list[Source | None] = [*spec.inputs, *spec.captures, *[source for guard in spec.guards for source in (guard.source, *guard.sources())]]
    for source in waiting:
        while source is not None and id(source) not in found:
            found[id(source)] = source
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
