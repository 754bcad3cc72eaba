"""The page of the benchmarks: a run replaces the rows that it has measured and leaves the others, with the commands that they come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.bench import markdown
from tools.bench.cases import EVERY
from tools.bench.measures import MEASURES

HEADER = ("case", "measure", "unit", "eager", "torch.compile", "framejit", "ratio", "target", "verdict")
RUNS, FAILURES, NOTES = "\n## Runs\n", "\n## Failures\n", "\n## Notes\n"
ABOUT = """
# Benchmarks beside torch.compile

Written by `python -m tools.bench --markdown docs/bench.md`; the last column says in which of the [runs](#runs) a row was measured.
Read the ratios, not the figures: both compilers are measured in turns, in the same process for times and in
processes of their own for memory. Tensors are computed on one thread.
""".lstrip()
LEGEND = """
*ratio* is framejit / torch.compile. The first call is the median over fresh compiles with a reset in between, with
the backend that runs the graph as it is. The overhead of a call is what remains when the backend returns stored
outputs. Peak memory is the highest resident size of a process that builds, compiles and calls. Growth is what one
more compile, call and reset leaves behind in the process. What shape guards cost is the time of a call with
symbolic sizes, less that of one with constant sizes, both with stored outputs; the functions compare sizes, and no two are equal.
Calls with Inductor give eager's results, or the row says that it failed; with `dynamic=True` the time is that of one call for each of the
sizes in turn, all of which one graph must have served.
"""


@dataclass
class Page:
    """Rows by case and measure, each with the command of its run; what could not be measured; and what is written below by hand."""

    rows: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    runs: dict[tuple[str, str], str] = field(default_factory=dict)
    failures: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    notes: str = ""

    def add(self, run: str, row: Sequence[str], failures: list[str]) -> None:
        """A row that has been measured, the command with the machine, and what could not be measured."""
        key = (row[0], row[1])
        self.rows[key], self.runs[key], self.failures[key] = tuple(row), run, failures

    def text(self) -> str:
        """The page in Markdown."""
        keys = [(case.name, measure.about) for measure in MEASURES for case in EVERY if (case.name, measure.about) in self.rows]
        runs = list(dict.fromkeys(self.runs[key] for key in keys))
        rows = [(*self.rows[key], str(runs.index(self.runs[key]) + 1)) for key in keys]
        failures = [f"- {case}: {measure}: {failure}" for case, measure in keys for failure in self.failures.get((case, measure), [])]
        return "\n".join(
            [
                ABOUT,
                *(f"- **{case.name}**: {case.about}." for case in EVERY),
                LEGEND,
                markdown.table((*HEADER, "run"), rows, right=(3, 4, 5, 6, 7, 9)),
                *([FAILURES, *failures] if failures else []),
                RUNS,
                *(f"{number}. {run}" for number, run in enumerate(runs, 1)),
                *([NOTES + self.notes] if self.notes else [""]),
            ]
        )


def read(path: Path) -> Page:
    """The page at the path; an empty one if there is none."""
    page = Page()
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    text, _, page.notes = text.partition(NOTES)
    text, _, listed = text.partition(RUNS)
    text, _, failures = text.partition(FAILURES)
    runs = dict(line.split(". ", 1) for line in listed.splitlines() if line)
    for case, measure, *cells, run in markdown.cells(text):
        page.rows[case, measure], page.runs[case, measure] = (case, measure, *cells), runs[run]
    for line in failures.splitlines():
        if line:
            case, measure, failure = line.removeprefix("- ").split(": ", 2)
            page.failures.setdefault((case, measure), []).append(failure)
    return page
