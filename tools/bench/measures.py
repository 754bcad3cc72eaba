"""The measures of the benchmarks; each runs in a process of its own and returns one number per compiler.

A compiler that fails is reported as the text of its error, and leaves the numbers of the others standing.
"""

from __future__ import annotations

import copy
import ctypes
import gc
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

import torch

from tools.bench.cases import CASES, GENERATION_CASES, GUARD_CASES, REGION_CASES, SIZE_CASES, Case, select
from tools.check import describe
from tools.compilers import COMPILERS, Backend, Compiler
from tools.compilers import quiet as quiet_compilers
from tools.measure import alternate, differences, elapsed, largest_error

Numbers = dict[str, float | str]
TOLERANCE = 1e-3
"""The largest error allowed in a result, relative to the tensor compared."""
MOST_GRAPHS = 6
"""At most this many graphs may be made: for the prompt, and for the tokens after it, each of which attends to one more position."""

PLACES = 8
"""The number of compiles of one function, each of which has its data at another place in memory."""


@dataclass(frozen=True)
class Measure:
    """One row per case: what is measured, in which unit, and the ratio framejit / torch.compile to reach, unless each case has its own.

    `apart` says that each compiler gets a process of its own, `processes` of how many processes the median is taken; `cases` are the names of the
    cases that it is about.
    """

    name: str
    about: str
    unit: str
    run: Callable[[str, Sequence[str], int, str], Numbers]
    compilers: tuple[str, ...] = ("torch",)
    target: float | None = None
    apart: bool = False
    processes: int = 1
    cases: tuple[str, ...] = tuple(case.name for case in CASES)


def stored_outputs(graph: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """A backend whose callable computes once and then returns the same outputs: what remains is the front end's own time."""
    kept: list[Any] = []

    def call(*inputs: Any) -> Any:
        if not kept:
            kept.append(graph(*inputs))
        return kept[0]

    return call


def quiet() -> None:
    """No warnings between the rows, and one thread: arithmetic on tensors isn't what is measured, and threads that wait for one another
    on a busy machine would hide what is."""
    quiet_compilers()
    torch.set_num_threads(1)


def complaint(compiler: Compiler, case: Case) -> str:
    """The reason why a compiler hasn't made one graph for each entry of the case; eager makes none."""
    return "" if compiler.name == Compiler.name else compiler.statistics().complaint(case.entries)


def _calls(
    case: str, names: Sequence[str], backend: Backend, device: str, dynamic: bool | None = None
) -> tuple[dict[str, Callable[[], Any]], Numbers]:
    """Per compiler a call without arguments, compiled and called once; and the failures."""
    chosen = select(case)[0]
    function, args, kwargs = chosen.build(device)
    ready: dict[str, Callable[[], Any]] = {}
    failures: Numbers = {}
    for name in names:
        compiler = COMPILERS[name]()
        try:
            call = chosen.calls(compiler.compile(function, backend, dynamic), args, kwargs)
            call()
        except Exception as error:
            failures[name] = describe(error)
            continue
        if found := complaint(compiler, chosen):
            failures[name] = found
            continue
        ready[name] = call
    return ready, failures


@torch.no_grad()
def first_call(
    case: str, names: Sequence[str], repeat: int, device: str, dynamic: bool | None = None, backend: Backend = "eager"
) -> Numbers:
    """Seconds of the first call: median over fresh compiles in turns, after one of each to warm up."""
    quiet()
    chosen = select(case)[0]
    function, args, kwargs = chosen.build(device)
    compilers: list[Compiler] = [COMPILERS[name]() for name in names]
    times: dict[str, list[float]] = {name: [] for name in names}
    failures: Numbers = {}
    for round_number in range(repeat + 1):
        for compiler in compilers:
            if compiler.name in failures:
                continue
            compiler.reset()
            call = chosen.calls(compiler.compile(function, backend, dynamic), args, kwargs)
            try:
                seconds, _ = elapsed(call)
            except Exception as error:
                failures[compiler.name] = describe(error)
                continue
            if found := complaint(compiler, chosen):
                failures[compiler.name] = found
            elif round_number:
                times[compiler.name].append(seconds)
        compilers.reverse()
    return {**{name: statistics.median(found) for name, found in times.items() if found and name not in failures}, **failures}


@torch.no_grad()
def call_overhead(case: str, names: Sequence[str], repeat: int, device: str, dynamic: bool | None = None) -> Numbers:
    """Microseconds of one call when the graph itself costs nothing."""
    quiet()
    ready, failures = _calls(case, names, stored_outputs, device, dynamic)
    times = alternate(ready, 0.5 * repeat) if ready else {}
    return {**{name: found * 1e6 for name, found in times.items()}, **failures}


@torch.no_grad()
def shape_guards(case: str, names: Sequence[str], repeat: int, device: str) -> Numbers:
    """Microseconds by which a call with symbolic sizes, and so with guards on them, is longer than one with constant sizes.

    For torch.compile, its configuration says so while it compiles: `dynamic=False` and `dynamic=True` would each be written into its configuration in
    every call, at costs that differ. The place of its data in memory changes its call by more than one guard costs, so that one guard's number differs from
    process to process and from compile to compile: several processes measure it, each the mean of `PLACES` compiles.
    """
    quiet()
    chosen = select(case)[0]
    function, args, kwargs = chosen.build(device)

    def ready(name: str, dynamic: bool) -> Callable[[], Any]:
        own = FunctionType(function.__code__.replace(), function.__globals__)  # what is compiled belongs to the code object
        call = chosen.calls(COMPILERS[name]().compile(own, stored_outputs, None if name == "torch" else dynamic), args, kwargs)
        with torch._dynamo.config.patch(assume_static_by_default=not dynamic):
            call()
        return call

    pairs = {(name, place): (ready(name, False), ready(name, True)) for place in range(PLACES) for name in names}
    found = differences(pairs, seconds=repeat)
    return {name: statistics.mean(found[name, place] for place in range(PLACES)) * 1e6 for name in names}


@torch.no_grad()
def generation(case: str, names: Sequence[str], repeat: int, device: str) -> Numbers:
    """Milliseconds of one `generate()` of a model whose forward is compiled with the backend that runs graphs as they are.

    If it fails, the result is a text instead of a time: if it raises, generates other tokens than eager, makes more than `MOST_GRAPHS` graphs, or makes
    any when the same call is repeated.
    """
    quiet()
    model, args, kwargs = select(case)[0].build(device)
    expected = model.generate(*args, **kwargs)
    ready: dict[str, Callable[[], Any]] = {}
    failures: Numbers = {}
    # torch.compile puts another `__init__` on nn.Module when it first runs; code that framejit has compiled before may depend on it.
    for name in sorted(names, key=lambda name: name != "torch"):
        compiler = COMPILERS[name]()
        own = copy.deepcopy(model)
        own.forward = compiler.compile(own.forward, "eager")
        call = partial(own.generate, *args, **kwargs)
        try:
            same = torch.equal(call(), expected)
            graphs = compiler.statistics().graphs
            same = torch.equal(call(), expected) and same
        except Exception as error:
            failures[name] = describe(error)
            continue
        if not same:
            failures[name] = "other tokens than eager's"
        elif compiler.statistics().graphs != graphs or graphs > MOST_GRAPHS:
            failures[name] = f"{graphs} graphs, then {compiler.statistics().graphs}"
        else:
            ready[name] = call
    times = alternate(ready, seconds=float(repeat)) if ready else {}
    return {**{name: found * 1e3 for name, found in times.items()}, **failures}


@torch.no_grad()
def inductor_call(case: str, names: Sequence[str], repeat: int, device: str, dynamic: bool | None = None) -> Numbers:
    """Milliseconds of one call with Inductor, from end to end. Results that aren't eager's are failures."""
    quiet()
    chosen = select(case)[0]
    function, args, kwargs = chosen.build(device)
    ready, failures = _calls(case, [name for name in names if name != "eager"], "inductor", device, dynamic)
    eager = chosen.calls(function, args, kwargs)
    for name, call in list(ready.items()):
        if not (error := largest_error(eager(), call())) <= TOLERANCE:
            failures[name] = f"error {error:.1e} is above {TOLERANCE:.0e}"
            del ready[name]
    ready["eager"] = eager
    return {**{name: found * 1e3 for name, found in alternate(ready, 0.5 * repeat).items()}, **failures}


@torch.no_grad()
def peak_memory(case: str, names: Sequence[str], repeat: int, device: str) -> Numbers:
    """MiB at the highest point of a process that builds, compiles with the eager backend and calls: resident, or on the GPU."""
    quiet()
    ready, failures = _calls(case, names, "eager", device)
    for call in ready.values():
        for _ in range(repeat):
            call()
    if device == "cpu":
        found = _status("VmHWM") / 1024
    else:
        found = torch.cuda.max_memory_allocated() / 2**20
    return {**dict.fromkeys(ready, found), **failures}


@torch.no_grad()
def retained_memory(case: str, names: Sequence[str], repeat: int, device: str) -> Numbers:
    """KiB by which the process grows with each compile, call and reset, after two to warm up: what `reset()` doesn't give back."""
    quiet()
    chosen = select(case)[0]
    function, args, kwargs = chosen.build(device)
    numbers: Numbers = {}
    for name in names:
        compiler = COMPILERS[name]()
        sizes: list[int] = []
        try:
            for _ in range(repeat + 2):
                call = chosen.calls(compiler.compile(function, "eager"), args, kwargs)
                call()
                del call
                compiler.reset()
                sizes.append(_resident())
        except Exception as error:
            numbers[name] = describe(error)
            continue
        numbers[name] = (sizes[-1] - sizes[1]) / repeat
    return numbers


def _resident() -> int:
    """KiB resident, with free memory handed back to the system first."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return _status("VmRSS")


def _status(key: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1])
    raise KeyError(key)


MEASURES: tuple[Measure, ...] = (
    Measure("first-call", "first call, backend eager", "s", first_call, target=1.0),
    Measure("overhead", "overhead of a call, stored outputs", "us", call_overhead),
    Measure("first-call-dynamic", "first call, dynamic=True", "s", partial(first_call, dynamic=True), target=0.33),
    Measure(
        "first-call-regions",
        "first call, backend aot_eager",
        "s",
        partial(first_call, backend="aot_eager"),
        target=1.0,
        cases=tuple(case.name for case in REGION_CASES),
    ),
    Measure("overhead-dynamic", "overhead of a call, dynamic=True", "us", partial(call_overhead, dynamic=True), target=0.15),
    Measure("shape-guards", "shape guards of a call", "us", shape_guards, processes=3, target=0.1, cases=tuple(case.name for case in GUARD_CASES)),
    Measure(
        "generate",
        "generate(), backend eager",
        "ms",
        generation,
        compilers=("torch", "eager"),
        target=1.0,
        cases=tuple(case.name for case in GENERATION_CASES),
    ),
    Measure("inductor", "call with Inductor", "ms", inductor_call, compilers=("torch", "eager")),
    Measure(
        "inductor-dynamic",
        "calls with Inductor, dynamic=True",
        "ms",
        partial(inductor_call, dynamic=True),
        compilers=("torch", "eager"),
        cases=tuple(case.name for case in SIZE_CASES),
    ),
    Measure("peak", "peak memory of the process", "MiB", peak_memory, compilers=("torch", "eager"), apart=True),
    Measure("retained", "growth per compile and reset", "KiB", retained_memory, apart=True),
)
