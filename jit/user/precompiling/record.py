"""Compiles calls of a program, without running those that are compiled whole."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from torch._functorch import config as functorch_config

from framejit import config, report
from framejit._runtime import CompiledFunction, Entry
from framejit.breaks import Break
from framejit.driver.callback import Compiler
from framejit.driver.options import Options
from framejit.driver.precompiled import frame_key
from framejit.driver.recorded import RecordedEntries, is_whole
from framejit.driver.second_run import random_state, set_random_state
from framejit.errors import ArtifactError
from framejit.guards.dynamic import Dynamic
from framejit.guards.source import Call
from framejit.user.api import compile_target
from framejit.user.exploring.program import ChosenSizes, NotRun, compiling_anyway, why_stopped

MANY = 100_000
"""The limits on recompiles while an artifact is made: none."""


class RecordingCompiler(Compiler):
    """Compiles each call that no entry serves, and doesn't let it run if its whole frame was compiled.

    Attributes:
        compiled: the last such call, with its entry if one was made.
        runs: whether other calls run, since what is compiled next depends on what the program does at the break.
        superseded: entries whose calls later entries serve too.
        chosen: the dimensions whose sizes are symbols, by the ids of tensors; None if that isn't said, but learnt from the calls.
    """

    def __init__(self, options: Options, runs: bool) -> None:
        super().__init__(options)
        self.runs = runs
        self.compiled: tuple[Call, Entry | None] | None = None
        self.superseded: list[Entry] = []
        self.chosen: Mapping[int, frozenset[int]] | None = None

    def dynamic(self, call: Call) -> Dynamic:
        return super().dynamic(call) if self.chosen is None else ChosenSizes(tensors=self.chosen)

    def _made(self, call: Call, *others: Any) -> Any:
        before, recorded = self._entries(), self.options.precompiled
        assert isinstance(recorded, RecordedEntries)
        recorded.outermost.add(frame_key(call))
        entry = super()._made(call, *others)
        self.superseded += set(before) - set(self._entries())
        self.compiled = call, entry
        owner = None if self._owner is None else self._owner()
        if entry is not None and owner is not None:
            owner.add(entry)
        if entry is not None and is_whole(entry):
            raise NotRun
        if not self.runs:
            recorded.leave_out(call, "the rest of it isn't compiled, since the tensors are fake ones, on which it can't run")
            raise NotRun
        return NotImplemented if entry is not None else None

    def _published(self, call: Call, entry: Entry | None) -> Any:
        return entry

    def _observed(self, call: Call, seen_by: Break) -> None:
        raise ArtifactError(f"precompile() compiles nothing here: {seen_by}")


class RecordedProgram:
    """The program to precompile. It can be compiled for one call after another. `runs`: tensors have data, so that calls split at graph breaks may run."""

    def __init__(self, target: Any, options: Options, runs: bool) -> None:
        self.recorded = RecordedEntries(has_data=runs)
        self._target = target
        self._compilers: list[RecordingCompiler] = []
        checks = ",".join(sorted(options.config.checks() - {"cache", "guards", "results"}))  # what is recorded is checked, and nothing runs
        own = dataclasses.replace(options.config, recompile_limit=MANY, accumulated_recompile_limit=MANY, cache=False, check=checks)
        settings = dataclasses.replace(options, config=own, isolated=True, precompiled=self.recorded)
        self._compiled = compile_target(target, settings, make=adding_to(self._compilers, runs))
        if not self._compilers:
            raise ArtifactError(f"precompile(): {target!r:.80} is not compiled: it is disabled, or compiling is")

    @property
    def compiled(self) -> tuple[Call, Entry | None] | None:
        """The frame's call, and its entry if one was made; None if an entry served the last call already."""
        return self._compilers[0].compiled

    def compile(self, args: tuple[Any, ...], kwargs: dict[str, Any], chosen: Mapping[int, frozenset[int]] | None = None) -> None:
        """Compile a call. `chosen`: the dimensions whose sizes are symbols, by the ids of tensors; None if that is learnt from the calls."""
        (compiler,), left_out = self._compilers, self.recorded.left_out
        compiler.compiled, compiler.chosen, known = None, chosen, len(left_out)
        self.recorded.takes_splits = compiler.runs and chosen is None
        seeds = random_state()
        # With the cache on, Inductor says what another process needs to know of its code.
        # The backward pass is compiled now, and not when it is first needed.
        eager_backward = functorch_config.patch(force_non_lazy_backward_lowering=True)
        with report.recording() as found, config.replace(cache=True), eager_backward:
            try:
                with compiling_anyway():
                    self._compiled(*args, **kwargs)
            finally:
                set_random_state(seeds)
                stopped, _ = why_stopped(found.frames)
                left_out[known:] = [dataclasses.replace(left, why=f"{left.why}: {stopped}" if stopped else left.why) for left in left_out[known:]]
                for entry in compiler.superseded:
                    self.recorded.entries.pop(entry, None)


def adding_to(compilers: list[RecordingCompiler], runs: bool) -> Callable[[FunctionType, Options, bool], CompiledFunction]:
    """A function that makes CompiledFunctions, and adds the RecordingCompiler of each to a list."""

    def make(function: FunctionType, settings: Options, pooled: bool) -> CompiledFunction:
        compilers.append(RecordingCompiler(settings, runs))
        return compilers[-1].attach(function)

    return make
