"""Graph breaks at calls of library code: how many there are for each call that a program makes, and what the first call costs.

    python tools/bench/boundary.py [--only WORD] [--compiler torch] [--markdown FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
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
from tools import libraries  # noqa: F401 - lets torchvision be imported
from tools.bench import boundary_cases, markdown

CALLS = 3


@dataclass
class Found:
    """What three calls of a program came to. `breaks`: those of all compilations; `recompiles` likewise; `seconds`: of the first call."""

    breaks: int
    graphs: int
    recompiles: int
    seconds: float
    eager: float
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
        start = time.perf_counter()
        program(act)(torch.ones(4))
        eager = time.perf_counter() - start
        compiled = framejit.compile(program(act), backend="eager")
        for _ in range(CALLS):
            start = time.perf_counter()
            try:
                compiled(torch.ones(4))
            except Exception as raised:
                error = type(raised).__name__
            times.append(time.perf_counter() - start)
    counts = framejit.statistics()
    return Found(counts["graph_breaks"], counts["graphs"], counts["recompiles"], times[0], eager, error)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--markdown", type=Path, help="write the table here")
    parser.add_argument("--reasons", action="store_true", help="print why graphs broke")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("default")
    logging.getLogger("framejit").setLevel(logging.ERROR)
    framejit.compile(lambda x: x + 1, backend="eager")(torch.ones(4))
    rows = []
    for name, (calls, act) in (boundary_cases.CASES | boundary_cases.third_party()).items():
        if options.only not in name:
            continue
        found = measure(act)
        verdict = found.error or ("" if found.breaks <= calls else "more")
        print(f"{name:36} calls {calls}  breaks {found.breaks:4} graphs {found.graphs:3} recompiles {found.recompiles:3}"
              f"  first call {found.seconds:7.3f} s  eager {found.eager:7.3f} s  {verdict}", flush=True)  # fmt: skip
        if options.reasons:
            for reason in framejit.statistics()["reasons"]:
                print("     ", reason)
        rows.append((f"`{name}`", calls, found.breaks, found.graphs, found.recompiles, f"{found.seconds:.3f}", verdict))


if __name__ == "__main__":
    main()
