"""framejit beside torch.compile, in one run: first call, overhead of a call, Inductor, memory; ratios with their targets."""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import statistics
import sys
import time
from pathlib import Path

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tools import isolate
from tools.bench import cases, markdown
from tools.bench.measures import MEASURES, Measure, Numbers
from tools.bench.page import HEADER, Page, read
from tools.compilers import COMPILERS

WIDTHS = (11, 36, 4, 9, 13, 9, 6, 6, 7)


def numbers(measure: Measure, case: cases.Case, subject: str, options: argparse.Namespace) -> Numbers:
    """One measure of one case, for framejit (or what replaces it) and for the compiler that it's compared with."""
    names = list(dict.fromkeys([subject, *measure.compilers]))
    groups = [[name] for name in names] if measure.apart else [names]
    found: Numbers = {}
    for group in groups:
        found.update(middle([once(measure, case, group, options) for _ in range(measure.processes)]))
    return found


def once(measure: Measure, case: cases.Case, group: list[str], options: argparse.Namespace) -> Numbers:
    """One measure of one case for some compilers, in a process of its own."""
    settings = (case.name, group, options.repeat, options.device)
    try:
        return isolate.call(measure.run, *settings, timeout=options.timeout, fresh=True)  # type: ignore[no-any-return]
    except isolate.Crash as crash:
        return dict.fromkeys(group, str(crash).strip().splitlines()[-1])


def middle(runs: list[Numbers]) -> Numbers:
    """The median of several runs for each compiler, or its failure."""
    return {name: next((run[name] for run in runs if isinstance(run[name], str)), None) or statistics.median(run[name] for run in runs) for name in runs[0]}  # type: ignore[type-var]


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
    parser.add_argument("--only", help=f"comma-separated cases: {', '.join(case.name for case in cases.EVERY)}")
    parser.add_argument("--measure", help=f"comma-separated measures: {', '.join(measure.name for measure in MEASURES)}")
    parser.add_argument("--repeat", type=int, default=5, help="fresh compiles per first call, and half-seconds per timing (default 5)")
    parser.add_argument("--device", default="cpu", help="cpu (the default) or cuda")
    parser.add_argument("--timeout", type=float, default=900, help="seconds after which one measure is given up (default 900)")
    parser.add_argument("--markdown", type=Path, help="also put the rows into the table of this page, such as docs/bench.md")
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


def run_of(options: argparse.Namespace) -> str:
    """The command of this run, and the machine."""
    machine = f"torch {torch.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores, {options.device}"
    return f"`{shlex.join(['python', '-m', 'tools.bench', *sys.argv[1:]])}` ({options.compiler}; {machine})"


def main() -> int:
    """Runs the benchmarks; the exit status is 1 if something could not be measured (a missed target is no failure)."""
    options = arguments()
    page = read(options.markdown) if options.markdown else Page()
    failures: list[str] = []
    start = time.perf_counter()
    work = [(measure, case) for measure in options.measures for case in options.cases if case.name in measure.cases]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, disable=not sys.stdout.isatty(), transient=True) as progress:
        task = progress.add_task("bench", total=len(work))
        progress.console.print(markdown.fixed(HEADER, WIDTHS), soft_wrap=True, highlight=False, markup=False)
        for measure, case in work:
            progress.update(task, description=f"{case.name}, {measure.name}")
            found = numbers(measure, case, options.compiler, options)
            cells = row(measure, case, options.compiler, found)
            progress.console.print(markdown.fixed(cells, WIDTHS), soft_wrap=True, highlight=False, markup=False)
            failed = [f"{name}: {value}" for name, value in found.items() if isinstance(value, str)]
            page.add(run_of(options), cells, failed)
            failures += [f"{case.name}, {measure.name}, {text}" for text in failed]
            progress.advance(task)
    for failure in failures:
        print(failure)
    print(f"{len(work)} rows in {time.perf_counter() - start:.0f} s")
    if options.markdown:
        options.markdown.write_text(page.text(), encoding="utf-8")
    return 1 if failures else 0
