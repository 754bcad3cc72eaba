"""One program of a library in a process of its own, in eager or compiled, and the comparison of the two."""

from __future__ import annotations

import contextlib
import pickle
import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch

from tools import isolate
from tools.bench.library_programs import loaded
from tools.bench.library_programs.program import Program
from tools.bench.records import Result
from tools.bench.snapshots import snapshot
from tools.check import answering, describe
from tools.compilers import COMPILERS, Backend, Compiler, one_line, quiet
from tools.measure import Mismatch, largest_error, seed_everything

TOO_LONG = "took too long"
"""Begins the error of a program that was given up."""
WAITING = 12
"""A process is waited for so many times longer than the processor time that it may take."""
ROUNDING = 1e-4
"""Errors up to this one, relative to the tensor in which they are, are those of another order of the same operations, repeated in a few training steps."""


@dataclass
class Observation:
    """All that can be seen of a run of a program, and what the compiler says of it.

    Args:
        noted: snapshots of what the program yields, and where the random generators stand in the end.
        error: the exception that it raises; empty if it doesn't.
        result: the compiler's statistics, and the seconds of the first call.
    """

    noted: list[Any]
    error: str
    result: Result


def observe(key: str, compiler_name: str, backend: str, packages: Path, asks: bool, seconds: float) -> bytes:
    """Runs a program; in a process of its own. Returns an `Observation`, pickled: torch would share the memory of tensors between the processes otherwise."""
    isolate.limit(seconds)
    quiet()
    torch.set_num_threads(1)
    # At the end: what the environment has is taken from there.
    sys.path.append(str(packages))
    with contextlib.redirect_stdout(None):
        program = loaded(key)
        compiler = COMPILERS[compiler_name]()
        # What a compiler imports at its first call isn't the program's.
        compiler.compile(torch.nn.Linear(2, 2), backend)(torch.ones(1, 2)).sum().backward()
        compiler.reset()
        return pickle.dumps(observed(program, Timed(compiler, backend), packages, asks))


def observed(program: Program, compiler: Timed, packages: Path, asks: bool = False) -> Observation:
    """Runs a program in this process. `asks`: eager code is told that it is compiled; `packages`: the folder of the libraries, which reasons leave out."""
    seed_everything(0)
    noted: list[Any] = []
    error = ""
    try:
        with answering(asks):
            for value in program(compiler.compile):
                compiler.result_is_there()
                noted.append(snapshot(value))
    except Exception as exception:
        error = describe(exception)
    noted.append((float(torch.rand(())), random.random(), float(numpy.random.rand())))
    return Observation(noted, error, compiler.result(packages))


class Timed:
    """A compiler that notes how many functions it compiles, and how long it takes from the first compilation to the first result after it."""

    def __init__(self, inner: Compiler, backend: Backend) -> None:
        self.inner, self.backend = inner, backend
        self.functions, self.start = 0, time.process_time()
        self.first_call: float | None = None
        """Processor seconds; of the first function that a program calls, if it compiles several."""

    def compile(self, target: Any) -> Any:
        compiled = self.inner.compile(target, self.backend)
        self.functions += 1
        if self.first_call is None:
            self.start = time.process_time()
        return compiled

    def result_is_there(self) -> None:
        """A call has returned."""
        if self.first_call is None:
            self.first_call = time.process_time() - self.start

    def result(self, folder: Path) -> Result:
        """The statistics over all calls: graphs without those of recompilations, and without one for each further function. `folder`: the libraries'."""
        found = self.inner.statistics()

        def short(text: str) -> str:
            return one_line(text.replace(f"{folder}/", ""))

        return Result(
            graphs=max(found.graphs - found.recompiles - max(self.functions - 1, 0), min(found.graphs, 1)),
            breaks=found.graph_breaks,
            recompiles=found.recompiles,
            uncompiled=[short(text) for text in found.uncompiled],
            reasons=list(dict.fromkeys(short(reason) for reason in found.reasons if not reason.startswith("recompiling"))),
            first_call=self.first_call,
        )


class Runner:
    """Runs a program with one compiler after another, each in a process of its own; the run in eager is made once, when it is needed."""

    def __init__(self, key: str, packages: Path, seconds: float) -> None:
        self.key, self.packages, self.seconds = key, packages, seconds
        self._eager: Observation | None = None

    def observed(self, compiler: str, backend: str, asks: bool = False) -> Observation:
        """A run; a process that dies or takes too long is an error of its own kind."""
        seconds = self.seconds
        try:
            # Other programs may have most of the processor's time.
            pickled = isolate.call(observe, self.key, compiler, backend, self.packages, asks, seconds, timeout=WAITING * seconds)
            return pickle.loads(pickled)
        except isolate.Crash as crash:
            text = str(crash).strip().splitlines()[-1]
            slow = "SIGXCPU" in text or text.startswith("no answer")
            return Observation([], f"{TOO_LONG}: more than {seconds:.0f} s of processor time" if slow else text, Result())

    def eager(self) -> Observation:
        """The run in eager."""
        if self._eager is None:
            self._eager = self.observed("eager", "eager")
        return self._eager

    def compared(self, compiler: str, backend: str) -> Result:
        """The result of a run with a compiler, compared with eager: bit for bit with the backend eager, else up to rounding."""
        expected = self.eager()
        if expected.error:
            return Result(excluded=expected.error)
        found = self.observed(compiler, backend)
        result = found.result
        result.error = found.error
        if not result.error:
            result.wrong, result.rounding = difference(expected, found)
        if result.wrong or (result.rounding and backend == "eager"):
            return self._explained(expected, found, backend)
        return result

    def _explained(self, expected: Observation, found: Observation, backend: str) -> Result:
        """The result of a run that differs from eager: eager may vary itself, or the library asks whether it is compiled."""
        if (again := difference(expected, self.observed("eager", "eager"))) != ("", 0.0):
            return Result(excluded=f"eager's own results vary: {again[0] or again[1]}")
        wrong, rounding = difference(self.observed("eager", "eager", asks=True), found)
        if not wrong and rounding <= (0.0 if backend == "eager" else ROUNDING):
            found.result.asks, found.result.wrong, found.result.rounding = True, "", rounding
        return found.result


def difference(expected: Observation, found: Observation) -> tuple[str, float]:
    """How a run differs from eager's, and if it does only by rounding, by how much."""
    try:
        error = largest_error(expected.noted, found.noted)
    except Mismatch as mismatch:
        return one_line(str(mismatch), 200), 0.0
    return (f"the largest error is {error:.1e}", 0.0) if error > ROUNDING else ("", error)
