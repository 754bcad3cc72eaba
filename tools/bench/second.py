"""Measures the seconds of CPU that deep models need until their first result in a second process, with all caches warm, beside torch.compile.

Each compiler runs in a process that fills its caches on disk, and then in the one that is measured; for `framejit.precompile`, the first process saves an
artifact, and the one that is measured loads it. `import torch`, `import framejit` and the construction of the model don't count.

    python -m tools.bench.second                       every model
    python -m tools.bench.second --only bert36 --markdown docs/second-table.md
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from tools.bench import fresh, markdown
from tools.bench.start import ARTIFACT, MODELS

HEADER = ("model", "framejit, s", "its artifact, s", "torch, s", "ratio", "to eager's result")
WIDTHS = (9, 11, 15, 8, 6, 17)
COMPILERS = ("framejit", "artifact", "torch")


def measured(name: str, compiler: str) -> dict[str, float]:
    """The figures of the second process."""
    with tempfile.TemporaryDirectory(prefix="framejit-second-") as folder:
        caches = {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor", "FRAMEJIT_CACHE": "1", "FRAMEJIT_CACHE_DIR": f"{folder}/framejit"}
        environment = {**fresh.environment(), **caches, ARTIFACT: f"{folder}/artifact"}
        command = [sys.executable, "-m", "tools.bench.start", "--one", name, "inference", compiler, "0"]
        for _ in range(2):
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1800)
            if done.returncode:
                print(done.stderr[-2000:], file=sys.stderr)
                return {"first": math.nan, "error": math.nan}
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def row(name: str) -> tuple[str, ...]:
    """The cells of one model."""
    found = {compiler: measured(name, compiler) for compiler in COMPILERS}
    first = [found[compiler]["first"] for compiler in COMPILERS]
    error = max(found[compiler]["error"] for compiler in ("framejit", "artifact"))
    return name, *(f"{seconds:.2f}" for seconds in first), f"{first[0] / first[2]:.3f}", f"{error:.0e}"


def document(rows: Sequence[Sequence[str]]) -> str:
    """The Markdown page."""
    machine = f"torch {torch.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores"
    return "\n".join([
        "# The second process, beside torch.compile",
        "",
        f"Written by `python -m tools.bench.second --markdown docs/second-table.md` ({machine}).",
        "",
        "Seconds of CPU until the first result of a model without gradients, with Inductor, in a process that finds all that an earlier one has compiled: in",
        "[framejit's cache](guide/caches.md#code-for-later-processes) and in Inductor's; or in an",
        "[artifact](guide/deployment.md#code-compiled-ahead-of-time). The result is computed within that time. `import torch`, `import framejit` and the",
        "construction of the model don't count.",
        "",
        markdown.table(HEADER, rows, right=tuple(range(1, len(HEADER)))),
        "",
    ])  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help=f"comma-separated models: {', '.join(MODELS)}")
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    print(markdown.fixed(HEADER, WIDTHS))
    rows = []
    for name in options.only.split(",") if options.only else MODELS:
        rows.append(row(name))
        print(markdown.fixed(rows[-1], WIDTHS), flush=True)
    ratios = [float(cells[4]) for cells in rows if cells[4] != "nan"]
    if ratios:
        print(f"ratio: geometric mean {statistics.geometric_mean(ratios):.3f}, largest {max(ratios):.3f}")
    if options.markdown:
        before = options.markdown.read_text(encoding="utf-8") if options.markdown.exists() else ""
        options.markdown.write_text(document(markdown.merged(before, rows, 1, list(MODELS))), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
