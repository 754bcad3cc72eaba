"""The cost of a first compile besides its trace, beside torch.compile: seconds of CPU, and modules imported, after `import torch`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

from tools.bench import fresh, markdown

SUBJECTS = {"framejit": "import framejit; compile = framejit.compile", "torch": "compile = torch.compile"}
"""The code that makes each compiler's `compile`."""
CASES = {
    "a sum": ("make = lambda: (lambda x: x + 1); x = torch.ones(3)", 'dict(backend="eager")'),
    "a model": (
        "make = lambda: torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.GELU()); x = torch.ones(2, 4)",
        'dict(backend="eager")',
    ),
    "symbolic sizes": ("make = lambda: (lambda x: x * x.size(0)); x = torch.ones(3)", 'dict(backend="eager", dynamic=True)'),
    "AOTAutograd": ("make = lambda: (lambda x: x + 1); x = torch.ones(3)", 'dict(backend="aot_eager")'),
}
"""Programs: what makes the function and its argument, and the options of `compile`."""
PACKAGES = ("torch._dynamo", "torch._inductor", "torch._functorch.partitioners", "sympy", "z3", "triton", "networkx")
PROGRAM = """
import json, resource, sys
import torch

def seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime

def since(start):
    return round(seconds() - start, 4)

with_torch = set(sys.modules)
start = seconds()
{compiler}
found = dict(imported=since(start), modules=[len(set(sys.modules) - with_torch)])
options = {options}
for part in ("first", "second"):
    exec({case!r})  # new code each time, which shares nothing
    function = make()
    start = seconds()
    result = compile(function, **options)(x)
    found[part] = since(start)
    assert torch.equal(result, function(x))
    found["modules"].append(len(set(sys.modules) - with_torch))
found["packages"] = [name for name in {packages} if name in sys.modules and name not in with_torch]
print(json.dumps(found))
"""
HEADER = ("program", "compiler", "import, s", "first call, s", "a second one, s", "modules imported", "of these packages")
WIDTHS = (15, 9, 10, 13, 15, 17, 60)


def measured(subject: str, case: str) -> dict[str, Any]:
    """The figures of one process that compiles the program of a case, and then a second, equal one."""
    build, options = CASES[case]
    program = PROGRAM.format(compiler=SUBJECTS[subject], case=build, options=options, packages=PACKAGES)
    done = subprocess.run([sys.executable, "-c", program], env=fresh.environment(), capture_output=True, text=True, timeout=300, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def row(subject: str, case: str, repeats: int) -> tuple[str, ...]:
    """The cells of one program and compiler: medians over fresh processes, after one that reads all files."""
    measured(subject, case)
    runs = [measured(subject, case) for _ in range(repeats)]
    times = [f"{statistics.median(run[part] for run in runs):.3f}" for part in ("imported", "first", "second")]
    *_, modules = runs[0]["modules"]
    return case, subject, *times, str(modules), ", ".join(runs[0]["packages"]) or "none"


def document(rows: Sequence[Sequence[str]], repeats: int) -> str:
    """The Markdown page."""
    machine = f"torch {torch.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores"
    parts = [
        "# What a first compile costs, beside torch.compile",
        "",
        f"Written by `python tools/bench/load.py --markdown docs/load-table.md` ({machine}).",
        "",
        f"Each figure is the median over {repeats} processes of the seconds of CPU that are used after `import torch`: for importing the",
        "compiler, for the first call of the first compiled function, and for that of an equal function that is compiled next, which shows",
        "what the trace itself costs. Modules are counted after both calls, without those that `import torch` imports.",
        "",
        markdown.table(HEADER, rows, right=(2, 3, 4, 5)),
        "",
    ]
    return "\n".join(parts)


def main() -> int:
    """Measures everything; the exit status is 1 if a first compile with framejit costs more than with torch.compile."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=tuple(CASES), help="one program (default all)")
    parser.add_argument("--repeats", type=int, default=5, help="processes for each figure (default 5)")
    parser.add_argument("--markdown", type=Path, help="also write the table to this file, such as docs/load-table.md")
    options = parser.parse_args()
    start = time.perf_counter()
    rows = []
    for case in [options.only] if options.only else CASES:
        for subject in SUBJECTS:
            rows.append(row(subject, case, options.repeats))
            print(markdown.fixed(rows[-1], WIDTHS), flush=True)
    print(f"{time.perf_counter() - start:.0f} s")
    if options.markdown:
        options.markdown.write_text(document(rows, options.repeats), encoding="utf-8")
    cost = [float(cells[2]) + float(cells[3]) for cells in rows]
    return 0 if all(ours <= theirs for ours, theirs in zip(cost[::2], cost[1::2], strict=True)) else 1


if __name__ == "__main__":
    sys.exit(main())
