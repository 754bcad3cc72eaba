"""framejit beside torch.compile, in one run: first call, overhead of a call, Inductor, memory; ratios with their targets."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tools import isolate
from tools.bench import cases, markdown
from tools.bench.measures import MEASURES, Measure, Numbers
from tools.compilers import COMPILERS

HEADER = ("case", "measure", "unit", "eager", "torch.compile", "framejit", "ratio", "target", "verdict")
WIDTHS = (11, 36, 4, 9, 13, 9, 6, 6, 7)


def numbers(measure: Measure, case: cases.Case, subject: str, options: argparse.Namespace) -> Numbers:
    """One measure of one case, for framejit (or what stands in its place) and for what it's compared with."""
    names = list(dict.fromkeys([subject, *measure.compilers]))
    groups = [[name] for name in names] if measure.apart else [names]
    found: Numbers = {}
    for group in groups:
        settings = (case.name, group, options.repeat, options.device)
        try:
            found.update(isolate.call(measure.run, *settings, timeout=options.timeout, fresh=True))
        except isolate.Crash as crash:
            found.update(dict.fromkeys(group, str(crash).strip().splitlines()[-1]))
    return found


def row(measure: Measure, case: cases.Case, subject: str, found: Numbers) -> tuple[str, ...]:
    """The cells of one measure of one case."""

    def cell(name: str) -> str:
        value = found.get(name)
        return "" if value is None else "failed" if isinstance(value, str) else f"{value:.3g}" if value < 1000 else f"{value:.0f}"

    ours, theirs = found.get(subject), found.get("torch")
    ratio = ours / theirs if isinstance(ours, float) and isinstance(theirs, float) and theirs > 0 else None
    wanted = case.overhead if measure.name == "overhead" else measure.target
    verdict = "" if ratio is None or wanted is None else "reached" if ratio <= wanted else "missed"
    target = "" if wanted is None else f"{wanted:.2f}"
    ratio_text = "-" if ratio is None else f"{ratio:.2f}"
    return (case.name, measure.about, measure.unit, cell("eager"), cell("torch"), cell(subject), ratio_text, target, verdict)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiler", default="framejit", choices=sorted(COMPILERS), help="what is measured (default framejit)")
    parser.add_argument("--only", help=f"comma-separated cases: {', '.join(case.name for case in cases.CASES)}")
    parser.add_argument("--measure", help=f"comma-separated measures: {', '.join(measure.name for measure in MEASURES)}")
    parser.add_argument("--repeat", type=int, default=5, help="fresh compiles per first call, and half-seconds per timing (default 5)")
    parser.add_argument("--device", default="cpu", help="cpu (the default) or cuda")
    parser.add_argument("--timeout", type=float, default=900, help="seconds after which one measure is given up (default 900)")
    parser.add_argument("--markdown", type=Path, help="also write the table to this file, such as docs/bench.md")
    options = parser.parse_args()
    wanted = [name.strip() for name in options.measure.split(",")] if options.measure else [measure.name for measure in MEASURES]
    unknown = [name for name in wanted if name not in {measure.name for measure in MEASURES}]
    if unknown:
        parser.error(f"unknown measure {', '.join(unknown)}; known: {', '.join(measure.name for measure in MEASURES)}")
    options.measures = [measure for measure in MEASURES if measure.name in wanted]
    try:
        options.cases = cases.select(options.only)
    except ValueError as error:
        parser.error(str(error))
    return options


def document(options: argparse.Namespace, rows: list[tuple[str, ...]], failures: list[str]) -> str:
    """The Markdown page."""
    machine = f"torch {torch.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores, {options.device}"
    return "\n".join(
        [
            "# Benchmarks beside torch.compile",
            "",
            f"Written by `python tools/bench/compare.py --markdown docs/bench.md` ({options.compiler}; {machine}).",
            "Read the ratios, not the figures: both compilers are measured in turns, in the same process for times and in",
            "processes of their own for memory. Tensors are computed on one thread.",
            "",
            *(f"- **{case.name}**: {case.about}." for case in options.cases),
            "",
            "*ratio* is framejit / torch.compile. The first call is the median over fresh compiles with a reset in between, with",
            "the backend that runs the graph as it is. The overhead of a call is what remains when the backend returns stored",
            "outputs. Peak memory is the highest resident size of a process that builds, compiles and calls. Growth is what one",
            "more compile, call and reset leaves behind in the process.",
            "",
            markdown.table(HEADER, rows, right=(3, 4, 5, 6, 7)),
            "",
            *(["## Failures", "", *(f"- {failure}" for failure in failures), ""] if failures else []),
        ]
    )


def main() -> int:
    """Runs the benchmarks; the exit status is 1 if something could not be measured (a missed target is no failure)."""
    options = arguments()
    rows: list[tuple[str, ...]] = []
    failures: list[str] = []
    start = time.perf_counter()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, disable=not sys.stdout.isatty(), transient=True) as progress:
        task = progress.add_task("bench", total=len(options.cases) * len(options.measures))
        progress.console.print(markdown.fixed(HEADER, WIDTHS), soft_wrap=True, highlight=False, markup=False)
        for measure in options.measures:
            for case in options.cases:
                progress.update(task, description=f"{case.name}, {measure.name}")
                found = numbers(measure, case, options.compiler, options)
                rows.append(row(measure, case, options.compiler, found))
                progress.console.print(markdown.fixed(rows[-1], WIDTHS), soft_wrap=True, highlight=False, markup=False)
                failures += [f"{case.name}, {measure.name}, {name}: {value}" for name, value in found.items() if isinstance(value, str)]
                progress.advance(task)
    for failure in failures:
        print(failure)
    print(f"{len(rows)} rows in {time.perf_counter() - start:.0f} s")
    if options.markdown:
        options.markdown.write_text(document(options, rows, failures), encoding="utf-8")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
