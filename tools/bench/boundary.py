"""Graph breaks at calls of library code: how many there are for each call that a program makes, and what the first call costs.

    python tools/bench/boundary.py [--only WORD] [--reasons] [--markdown docs/boundary-table.md]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

import framejit
from framejit.report import reset_statistics
from tools.bench import boundary_cases, boundary_packages, markdown

CALLS = 3
HEADER = ("case", "uses", "breaks", "graphs", "recompiles", "seconds", "before: breaks", "before: recompiles", "before: seconds")


@dataclass
class Found:
    """The outcome of three calls of a program. `breaks`: those of all compilations; `seconds`: the time of the first call."""

    breaks: int
    graphs: int
    recompiles: int
    seconds: float
    error: str = ""


def program(act: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], tuple[torch.Tensor, Any]]:
    """The case between two operations."""

    def run(x: torch.Tensor) -> tuple[torch.Tensor, Any]:
        y = x.sin()
        found = act(y)
        return y.cos() + 1, found

    return run


def measure(act: Callable[[torch.Tensor], Any]) -> Found:
    """Compile the case and call it."""
    framejit.reset()
    reset_statistics()
    times = []
    error = ""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        program(act)(torch.ones(4))
        compiled = framejit.compile(program(act), backend="eager")
        for _ in range(CALLS):
            start = time.perf_counter()
            try:
                compiled(torch.ones(4))
            except Exception as raised:
                error = type(raised).__name__
            times.append(time.perf_counter() - start)
    counts = framejit.statistics()
    return Found(counts["graph_breaks"], counts["graphs"], counts["recompiles"], times[0], error)


def document(rows: list[list[str]]) -> str:
    """The Markdown page."""
    machine = f"torch {torch.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores"
    return "\n".join(
        [
            "# Graph breaks at calls of libraries",
            "",
            f"Written by `python tools/bench/boundary.py --markdown docs/boundary-table.md` ({machine}).",
            "",
            "Each case stands between two operations on a tensor, in `tools/bench/boundary_cases.py` or `boundary_packages.py`. *uses* is how often",
            "the program uses the library: calls, `with` statements, operators, and the ends of files and threads. *breaks* and *recompiles* are",
            "those of three calls, *seconds* those of the first one. Wanted are no more breaks than uses; *before* is what there was when library",
            "code was split in the middle.",
            "",
            markdown.table(HEADER, rows, right=range(1, len(HEADER))),
            "",
        ]
    )


def main() -> int:
    """Runs the cases; the exit status is 1 if one has more breaks than the program has uses of the library."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--reasons", action="store_true", help="print why graphs broke")
    parser.add_argument("--markdown", type=Path, help="also write the table to this file, such as docs/boundary-table.md")
    parser.add_argument("--before", type=Path, help="take the columns of before from this table; by default from the file to be written")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("default")
    logging.getLogger("framejit").setLevel(logging.ERROR)
    framejit.compile(lambda x: x + 1, backend="eager")(torch.ones(4))
    earlier = before(options.before or options.markdown)
    rows, good = [], True
    for name, (uses, act) in (boundary_cases.CASES | boundary_packages.cases()).items():
        if options.only not in name:
            continue
        found = measure(act)
        good &= found.breaks <= uses and not found.error
        breaks = found.error or f"{found.breaks}{'' if found.breaks <= uses else ' (more)'}"
        row = [name, str(uses), breaks, str(found.graphs), str(found.recompiles), f"{found.seconds:.3f}"]
        print(markdown.fixed(row, (36, 3, 10, 3, 4, 8)), flush=True)
        if options.reasons:
            print(*(f"      {reason}" for reason in framejit.statistics()["reasons"]), sep="\n")
        rows.append(row + earlier.get(name, ["", "", ""]))
    if options.markdown:
        options.markdown.write_text(document(rows), encoding="utf-8")
    return 0 if good else 1


def before(path: Path | None) -> dict[str, list[str]]:
    """The last three columns, by the name of the row, of a table that was written earlier."""
    if path is None or not path.exists():
        return {}
    return {row[0]: row[-3:] for row in markdown.cells(path.read_text(encoding="utf-8"))}


if __name__ == "__main__":
    sys.exit(main())
