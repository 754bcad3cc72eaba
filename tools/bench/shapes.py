"""Sizes that vary, beside torch.compile: how often each of the programs and models in tests/support is compiled for ten pairs of sizes."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

import torch
import torch._dynamo.utils
from shape_models import LIBRARY_MODELS
from shape_programs import FUNCTIONS, LENGTHS, MODELS

import framejit
from tools import isolate
from tools.bench import markdown
from tools.check import describe
from tools.compilers import COMPILERS, Compiler, quiet
from tools.measure import largest_error

SUBJECTS = ("framejit", "torch")
TEN_LENGTHS = (*LENGTHS, (7, 48), (2, 33), (1, 20), (6, 16))
LIMIT = 32
"""A program may be compiled this often, so that every compilation in ten calls is seen."""
TOLERANCE = 1e-5
HEADER = ("program", *(f"{subject}: {what}" for subject in SUBJECTS for what in ("graphs", "compiled")), "never more")
WIDTHS = (20, 7, 8, 7, 8, 10)

Build = Callable[[], Callable[..., Any]]
Make = Callable[..., tuple[Any, ...]]
Program = tuple[Build, Make, Sequence[tuple[int, int]]]
Counts = tuple[int, int] | str


def programs(group: str) -> dict[str, Program]:
    """The programs of a group by their names: what builds each, what makes its arguments from a pair of sizes, and the pairs."""
    if group == "functions":
        return {program.name: (lambda program=program: program.function, program.make, program.calls) for program in FUNCTIONS}
    return {name: (build, make, TEN_LENGTHS) for name, build, make in (MODELS if group == "models" else LIBRARY_MODELS)}


GROUPS = ("functions", "models", "models of transformers")


class Counting:
    """A backend that runs graphs as they are, and counts them."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Callable[..., Any]:
        self.graphs += 1
        return graph.forward


def prepared(subject: str) -> Compiler:
    """The compiler, with limits out of the way; for a process of its own."""
    quiet()
    torch.set_num_threads(1)
    torch._dynamo.config.recompile_limit = LIMIT  # type: ignore[attr-defined]
    return COMPILERS[subject]()


def outcome(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """The outcome of a call: its value, or the type of the exception."""
    torch.manual_seed(1)
    try:
        return function(*args)
    except (RuntimeError, ValueError, IndexError, ZeroDivisionError) as error:
        return type(error).__name__


def counts(group: str, subject: str) -> dict[str, Counts]:
    """For each program of a group the graphs and how often it is compiled in ten calls, each compared with eager; or what went wrong."""
    compiler = prepared(subject)
    with framejit.config.replace(recompile_limit=LIMIT):
        return {name: count(compiler, *program) for name, program in programs(group).items()}


@torch.no_grad()
def count(compiler: Compiler, build: Build, make: Make, calls: Sequence[tuple[int, int]]) -> Counts:
    """The graphs of one program, and how often it is compiled."""
    torch.manual_seed(3)
    function = build()
    compiler.reset()
    backend = Counting()
    compiled = compiler.compile(function, backend)
    try:
        for sizes in calls:
            results = []
            for callee in (function, compiled):
                torch.manual_seed(0)
                results.append(outcome(callee, make(*sizes)))
            if largest_error(*results) > TOLERANCE:
                return f"wrong for {sizes}"
    except Exception as error:
        return describe(error)
    return backend.graphs, times_compiled(compiler.name)


def times_compiled(subject: str) -> int:
    """Return how many times functions have been compiled since the last reset, with or without a graph."""
    if subject == "framejit":
        return int(framejit.statistics()["frames"])
    return int(torch._dynamo.utils.counters["frames"]["ok"])


def rows(group: str, timeout: float) -> list[tuple[str, ...]]:
    """The cells of the table of a group."""
    found: dict[str, dict[str, Counts] | str] = {}
    for subject in SUBJECTS:
        try:
            found[subject] = isolate.call(counts, group, subject, timeout=timeout, fresh=True)
        except isolate.Crash as crash:
            found[subject] = str(crash).strip().splitlines()[-1]
    made = []
    for name in programs(group):
        cells = [cell if isinstance(cell := found[subject], str) else cell[name] for subject in SUBJECTS]
        ours, theirs = cells
        worse = isinstance(ours, str) or (not isinstance(theirs, str) and ours[0] > theirs[0])
        pairs = [(cell, "") if isinstance(cell, str) else (str(cell[0]), str(cell[1])) for cell in cells]
        made.append((name, *(text for pair in pairs for text in pair), "no" if worse else "yes"))
    return made


def document(tables: dict[str, list[tuple[str, ...]]]) -> str:
    """The Markdown page."""
    machine = f"torch {torch.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores"
    parts = [
        "# Sizes that vary, beside torch.compile",
        "",
        f"Written by `python tools/bench/shapes.py --markdown docs/shapes-table.md` ({machine}).",
        "",
        "Each program is called with ten pairs of sizes or numbers, one after the other: 0, 1, equal and unequal ones among them; models with",
        "ten pairs of a batch and a length. Both compilers have their default settings, but for a limit of recompiles that none reaches.",
        "*graphs* are those that the backend is given; *compiled* is how often a function was compiled, be there a graph in it or not.",
        "*never more* says whether framejit makes no more graphs than torch.compile. Each result was compared with eager's. The programs",
        "are those of `tests/support/shape_programs.py` and `shape_models.py`.",
    ]
    for group, table in tables.items():
        parts += ["", f"## {group.capitalize()}", "", markdown.table(HEADER, table, right=(1, 2, 3, 4))]
    return "\n".join([*parts, ""])


def main() -> int:
    """Runs everything; the exit status is 1 if framejit makes more graphs than torch.compile, or gives a different result from eager."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=GROUPS, help="one group of programs (default all)")
    parser.add_argument("--timeout", type=float, default=900, help="seconds after which a group is given up (default 900)")
    parser.add_argument("--markdown", type=Path, help="also write the tables to this file, such as docs/shapes-table.md")
    options = parser.parse_args()
    start = time.perf_counter()
    tables: dict[str, list[tuple[str, ...]]] = {}
    for group in [options.only] if options.only else GROUPS:
        tables[group] = rows(group, options.timeout)
        for row in tables[group]:
            print(markdown.fixed(row, WIDTHS), flush=True)
    print(f"{time.perf_counter() - start:.0f} s")
    if options.markdown:
        options.markdown.write_text(document(tables), encoding="utf-8")
    return 0 if all(row[-1] == "yes" for table in tables.values() for row in table) else 1


if __name__ == "__main__":
    sys.exit(main())
