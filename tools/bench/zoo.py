"""The zoo: architectures of transformers and timm, each compiled in inference and in training and compared with eager.

Every model runs in a process of its own. A model counts as good when both phases give eager's results from the same
random state, in one graph each, without fallback, and no slower than eager; for every other one the reason is listed.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from pathlib import Path

os.environ.setdefault("FRAMEJIT_STRICT", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tools import isolate, models
from tools.bench import markdown
from tools.check import NOISE, Outcome, check
from tools.compilers import COMPILERS, quiet

PHASES = ("inference", "training")
HEADER = ("model", "family", "inference", "error", "time / eager", "training", "error", "time / eager", "first call s", "verdict")
BESIDE = ("inference", "time / eager", "training", "time / eager", "first call s")
WIDTHS = (18, 20, 9, 6, 12, 9, 6, 12, 12, 9)


def run_model(name: str, compiler: str, backend: str, device: str, seconds: float, threads: int) -> list[Outcome]:
    """Both phases of one model; runs in a process of its own."""
    (architecture,) = models.select(models.ZOO, name)
    quiet()
    torch.set_num_threads(threads)
    return [check(architecture, phase, COMPILERS[compiler](), backend, device, seconds) for phase in PHASES]


def isolated(name: str, compiler: str, options: argparse.Namespace) -> list[Outcome]:
    """Both phases of one model by one compiler; a process that dies or hangs fails them."""
    try:
        settings = (options.backend, options.device, options.seconds, options.threads)
        return isolate.call(run_model, name, compiler, *settings, timeout=options.timeout)
    except isolate.Crash as crash:
        return [Outcome(name, phase, failure=str(crash).strip().splitlines()[-1]) for phase in PHASES]


def ratio(outcome: Outcome) -> float | None:
    """Compiled time over eager's."""
    return outcome.compiled / outcome.eager if outcome.compiled and outcome.eager else None


def problem(outcome: Outcome) -> str:
    """Describe what is wrong with one phase; empty if nothing is."""
    if outcome.failure:
        return outcome.failure
    slower = ratio(outcome)
    if slower is not None and slower > NOISE:
        return f"slower than eager: {slower:.2f} times its time"
    return ""


def line(architecture: models.Architecture, outcomes: list[Outcome]) -> tuple[str, ...]:
    """One row of the table."""
    cells = [architecture.name, architecture.family]
    for outcome in outcomes:
        cells += [graphs(outcome), number(outcome.error, ".0e"), number(ratio(outcome), ".2f")]
    cells.append(number(outcomes[0].first_call, ".2f"))
    cells.append("see below" if any(problem(outcome) for outcome in outcomes) else "good")
    return tuple(cells)


def beside(outcomes: list[Outcome]) -> tuple[str, ...]:
    """The cells of the compiler for comparison."""
    cells = [cell for outcome in outcomes for cell in (graphs(outcome), number(ratio(outcome), ".2f"))]
    return (*cells, number(outcomes[0].first_call, ".2f"))


def graphs(outcome: Outcome) -> str:
    """Return the number of graphs in words, or "failed" if the check ended before it timed eager."""
    if outcome.eager is None:
        return "failed"
    count = outcome.statistics.graphs
    return f"{count} graph{'' if count == 1 else 's'}"


def number(value: float | None, form: str) -> str:
    """A figure, or a dash if there is none."""
    return "-" if value is None else format(value, form)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", default="framejit", choices=sorted(COMPILERS), help="what compiles (default framejit)")
    parser.add_argument("--backend", default="eager", help="the backend (default eager, which runs the graph as it is)")
    parser.add_argument("--beside", choices=sorted(COMPILERS), help="another compiler to run on the same backend, for comparison")
    parser.add_argument("--device", default="cpu", help="cpu (the default) or cuda")
    parser.add_argument("--only", help="comma-separated names of models")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each phase is timed (default 1)")
    parser.add_argument(
        "--threads", type=int, default=1, help="torch's threads (default 1: small models gain nothing from more, and noise goes)"
    )
    parser.add_argument("--timeout", type=float, default=300, help="seconds after which a model is given up (default 300)")
    parser.add_argument("--markdown", type=Path, help="also write the table to this file, such as docs/zoo.md")
    parser.add_argument("--list", action="store_true", help="only list the models")
    options = parser.parse_args()
    try:
        models.select(models.ZOO, options.only)
    except ValueError as error:
        parser.error(str(error))
    return options


def document(options: argparse.Namespace, lines: list[tuple[str, ...]], problems: list[str], summary: str) -> str:
    """The Markdown page."""
    command = f"python tools/bench/zoo.py --compiler {options.compiler} --backend {options.backend} --device {options.device}"
    header = HEADER
    if options.beside:
        command += f" --beside {options.beside}"
        header = (*HEADER, *(f"{options.beside}: {name}" for name in BESIDE))
    return "\n".join(
        [
            "# The model zoo",
            "",
            f"Written by `{command} --markdown docs/zoo.md`:",
            f"{options.compiler}, backend `{options.backend}`, torch {torch.__version__}, Python {platform.python_version()},",
            f"{options.threads} thread(s).",
            "",
            "Each model is built from a small configuration with random weights and runs in a process of its own, in strict mode,",
            "in inference and in training (forward, loss, backward), from the same random state as eager. *error* is the largest",
            "difference of any output, gradient or buffer, relative to its tensor; *time / eager* is a call's best",
            "time over eager's, measured in turns, and once more for longer where it is above. The verdict is *good* when both phases",
            f"are right, in one graph each, without a fallback or a recompile, and take at most {NOISE:.2f} times eager's time (the",
            "margin is the noise of a shared machine).",
            "",
            *(
                [f"The last columns are `{options.beside}` on the same backend, measured in the same way in another process.", ""]
                if options.beside
                else []
            ),
            markdown.table(header, lines, right=(3, 4, 6, 7, 8, 11, 13, 14)),
            "",
            summary,
            "",
            *(["## Models that aren't good, and why", "", *(f"- {problem}" for problem in problems), ""] if problems else []),
        ]
    )


def main() -> int:
    """Runs the zoo; the exit status is 1 if any model isn't good."""
    options = arguments()
    selected = models.select(models.ZOO, options.only)
    if options.list:
        for architecture in selected:
            print(f"{architecture.name:20} {architecture.family}")
        return 0
    isolate.preload("tools.check", "tools.models")
    lines: list[tuple[str, ...]] = []
    problems: list[str] = []
    header, widths = (HEADER, WIDTHS) if options.beside is None else ((*HEADER, *BESIDE), (*WIDTHS, 9, 12, 9, 12, 12))
    start = time.perf_counter()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, disable=not sys.stdout.isatty(), transient=True) as progress:
        task = progress.add_task("zoo", total=len(selected))
        progress.console.print(markdown.fixed(header, widths), soft_wrap=True, highlight=False, markup=False)
        for architecture in selected:
            progress.update(task, description=architecture.name)
            outcomes = isolated(architecture.name, options.compiler, options)
            row = line(architecture, outcomes)
            if options.beside:
                row += beside(isolated(architecture.name, options.beside, options))
            lines.append(row)
            progress.console.print(markdown.fixed(row, widths), soft_wrap=True, highlight=False, markup=False)
            for outcome in outcomes:
                if found := problem(outcome):
                    problems.append(f"{architecture.name}, {outcome.phase}: {found}")
            progress.advance(task)
    good = sum(row[HEADER.index("verdict")] == "good" for row in lines)
    summary = f"{good} of {len(lines)} models good, in {time.perf_counter() - start:.0f} s."
    for text in problems:
        print(text)
    print(summary)
    if options.markdown:
        options.markdown.write_text(document(options, lines, problems, summary), encoding="utf-8")
    return 0 if good == len(lines) else 1


if __name__ == "__main__":
    sys.exit(main())
