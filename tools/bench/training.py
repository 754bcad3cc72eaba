"""Training steps compiled whole, beside torch.compile: 50 steps against eager, with what is compiled, and the time of a step.

Each case runs in a process of its own, for each compiler. torch.compile has its switch for gradients inside graphs on (`trace_autograd_ops`), if it has one.
Neither finds what the other compiled: Inductor's caches on disk are off.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("FRAMEJIT_STRICT", "1")
os.environ.setdefault("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
import torch._inductor.config

from tools import isolate
from tools.bench import markdown
from tools.bench.options import parsed, table_options
from tools.bench.training_cases import CASES, Training, select
from tools.compilers import COMPILERS, one_line, quiet
from tools.measure import Mismatch, elapsed, largest_error

STEPS = 50
HEADER = ("training", "compiler", "graphs", "breaks", "recompiles", "first steps s", "step ms", "eager ms", "losses", "state")


def run(training: Training, step: Any, steps: int) -> tuple[list[float], list[float]]:
    """Losses and seconds of each step, from the same random streams."""
    torch.manual_seed(1)
    losses: list[float] = []
    times: list[float] = []
    for _ in range(steps):
        batch = training.batch()
        seconds, loss = elapsed(lambda batch=batch: step(*batch))
        losses.append(float(loss))
        times.append(seconds)
    losses.append(float(torch.rand(())))  # the state of the random stream
    return losses, times


def build(name: str) -> Training:
    torch.manual_seed(0)
    return CASES[name]()


def trace_gradients(compiler_name: str) -> None:
    """Turn torch.compile's switch for gradients inside graphs on, if it has one."""
    if compiler_name == "torch" and hasattr(torch._dynamo.config, "trace_autograd_ops"):  # type: ignore[attr-defined]
        torch._dynamo.config.trace_autograd_ops = True  # type: ignore[attr-defined]


def trained(name: str, compiler_name: str, backend: str, steps: int, threads: int) -> tuple[str, ...]:
    """One row; in a process of its own."""
    quiet()
    torch.set_num_threads(threads)
    trace_gradients(compiler_name)
    torch._inductor.config.fallback_random = True  # so that dropout draws what eager draws
    expected, training = build(name), build(name)
    losses, times = run(expected, expected.step, steps)
    compiler = COMPILERS[compiler_name]()
    try:
        found, taken = run(training, compiler.compile(training.step, backend), steps)
    except Exception as error:
        return name, compiler_name, "failed: " + one_line(f"{type(error).__name__}: {error}", 80), *["-"] * 7
    counts = compiler.statistics()
    return (
        name,
        compiler_name,
        str(counts.graphs),
        str(counts.graph_breaks),
        str(counts.recompiles),
        f"{sum(taken[:3]):.2f}",
        f"{statistics.median(taken[steps // 2 :]) * 1e3:.2f}",
        f"{statistics.median(times[steps // 2 :]) * 1e3:.2f}",
        difference(losses, found),
        difference(expected.state(), training.state()),
    )


def compile_a_sum() -> None:
    """Compile something small with Inductor: its C++ headers are then compiled and kept for all later processes, whatever the settings of its caches."""
    torch.compile(lambda x: x + 1)(torch.ones(8))


def difference(expected: Any, found: Any) -> str:
    """The largest difference between two results, relative to the tensor in which it is found."""
    try:
        error = largest_error(expected, found)
    except Mismatch as mismatch:
        return one_line(str(mismatch), 60)
    return "same" if error == 0 else f"{error:.0e}"


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = table_options(__doc__, CASES)
    parser.add_argument("--steps", type=int, default=STEPS, help=f"how many steps (default {STEPS})")
    return parsed(parser, select)


def main() -> int:
    options = arguments()
    isolate.preload("torch", "tools.bench.training")
    sections: list[str] = []
    failed = False
    for backend in options.backend.split(","):
        rows: list[tuple[str, ...]] = []
        print(f"backend {backend}")
        if backend == "inductor":
            isolate.call(compile_a_sum)
        for name in select(options.only):
            for compiler in options.compiler.split(","):
                try:
                    row = isolate.call(trained, name, compiler, backend, options.steps, options.threads)
                except isolate.Crash as crash:
                    row = (name, compiler, "failed: " + one_line(str(crash), 80), *["-"] * 7)
                rows.append(row)
                print(markdown.fixed(row, (13, 9, 7, 7, 11, 14, 9, 9, 9, 9)), flush=True)
        failed = failed or any("failed" in row[2] for row in rows)
        sections.append(f"## Backend `{backend}`\n\n{markdown.table(HEADER, rows, right=range(2, 10))}\n")
    if options.markdown:
        options.markdown.write_text(document(options, sections), encoding="utf-8")
    return int(failed)


def document(options: argparse.Namespace, sections: list[str]) -> str:
    """The Markdown page."""
    command = f"python tools/bench/training.py --backend {options.backend} --markdown {options.markdown}"
    return "\n".join([
        "# Training steps compiled whole",
        "",
        f"Written by `{command}`: torch {torch.__version__}, {options.threads} thread(s).",
        "",
        f"{options.steps} steps of each training, compiled whole: zero_grad, forward, loss, backward, clip, the optimizer's step and the schedule's.",
        "*losses* and *state* (parameters, buffers, the optimizer's state, learning rates) are compared with eager's; *same* is bit for bit, else",
        "the largest error relative to its tensor. *first steps* are three, compilations included, without Inductor's caches;",
        "*step* and *eager* are medians of the second half.",
        "",
        *sections,
    ])  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
