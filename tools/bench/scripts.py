"""Training scripts of packages and of users of torch alone, beside torch.compile: losses and weights as in eager, and where and why graphs break.

Each script runs in a process of its own, for each compiler: with its model compiled and its loop left alone, and with its whole step compiled. Scripts whose
packages aren't installed are skipped: `make scripts` installs them. torch.compile has its switch for gradients inside graphs on, if it has one.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("FRAMEJIT_STRICT", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

from tools import isolate
from tools.bench import markdown
from tools.bench.options import parsed, table_options
from tools.bench.script_cases import SCRIPTS, Way, select
from tools.bench.training import difference, trace_gradients
from tools.compilers import COMPILERS, one_line, quiet

HEADER = ("script", "compiled", "compiler", "graphs", "breaks", "recompiles", "fallbacks", "s", "eager s", "losses", "state")
WIDTHS = (13, 9, 9, 7, 7, 11, 10, 7, 8, 9, 9)
PARTS = ("model", "step")
Row = tuple[str, ...]
Trial = tuple[Row, tuple[str, ...]]
"""A row of the table, and why graphs broke."""


def tried(name: str, part: str, compiler_name: str, backend: str, threads: int) -> Trial:
    """A script with a part of it compiled, compared with eager; in a process of its own."""
    quiet()
    torch.set_num_threads(threads)
    trace_gradients(compiler_name)
    script, compiler = SCRIPTS[name], COMPILERS[compiler_name]()
    start = time.perf_counter()
    expected = script.run(Way())
    between = time.perf_counter()
    try:
        found = script.run(Way(**{part: lambda compiled: compiler.compile(compiled, backend)}))
    except Exception as error:
        return failed(name, part, compiler_name, f"{type(error).__name__}: {error}"), ()
    end, counts = time.perf_counter(), compiler.statistics()
    row = (
        name,
        part,
        compiler_name,
        *map(str, (counts.graphs, counts.graph_breaks, counts.recompiles, counts.fallbacks)),
        f"{end - between:.1f}",
        f"{between - start:.1f}",
        difference(expected.losses, found.losses),
        difference(expected.state, found.state),
    )
    return row, tuple(one_line(reason) for reason in counts.reasons if not reason.startswith("recompiling"))


def failed(name: str, part: str, compiler: str, why: str) -> Row:
    return name, part, compiler, "failed: " + one_line(why, 80), *["-"] * 7


def table_of(options: argparse.Namespace, backend: str, names: list[str]) -> tuple[str, bool]:
    """The section of a backend, and whether framejit has failed."""
    rows: list[Row] = []
    reasons: list[str] = []
    print(f"backend {backend}")
    for name in names:
        for part in options.compiled.split(","):
            for compiler in options.compiler.split(","):
                try:
                    row, why = isolate.call(tried, name, part, compiler, backend, options.threads)
                except isolate.Crash as crash:
                    row, why = failed(name, part, compiler, str(crash)), ()
                rows.append(row)
                print(markdown.fixed(row, WIDTHS), flush=True)
                if why and compiler == "framejit":
                    reasons += ["", f"`{name}`, {part} compiled:", "", *[f"- {reason}" for reason in dict.fromkeys(why)]]
    right = range(3, len(HEADER))
    section = [f"## Backend `{backend}`", "", markdown.table(HEADER, rows, right=right), ""]
    if reasons:
        section += ["### Where framejit breaks graphs, and why", *reasons, ""]
    return "\n".join(section), any(row[2] == "framejit" and "failed" in row[3] for row in rows)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = table_options(__doc__, SCRIPTS)
    parser.add_argument("--compiled", default=",".join(PARTS), help="what is compiled, comma-separated (default model,step)")
    return parsed(parser, select)


def main() -> int:
    options = arguments()
    missing = {name: SCRIPTS[name].missing() for name in select(options.only)}
    skipped = [f"{name} is passed over: {', '.join(packages)} not installed" for name, packages in missing.items() if packages]
    print(*skipped, sep="\n")
    isolate.preload("torch", "tools.bench.scripts")
    found = [table_of(options, backend, [name for name in missing if not missing[name]]) for backend in options.backend.split(",")]
    if options.markdown:
        options.markdown.write_text(document(options, [section for section, _ in found], skipped), encoding="utf-8")
    return int(any(failed for _, failed in found))


def document(options: argparse.Namespace, sections: list[str], skipped: list[str]) -> str:
    """The Markdown page."""
    command = f"python tools/bench/scripts.py --backend {options.backend} --markdown {options.markdown}"
    return "\n".join([
        "# Training scripts",
        "",
        f"Written by `{command}`: torch {torch.__version__}, {options.threads} thread(s). `make scripts` installs the packages and runs it.",
        "",
        "Each script trains a tiny model with random weights, as its package's users write it (`tools/bench/script_cases.py`), or as users of torch alone do",
        "(`script_sequences.py`, `script_vision.py`, `script_agents.py`): once with the *model* compiled",
        "and the loop left alone, once with the whole *step*. *losses* (with metrics, and where the random streams stand in the end) and *state* (parameters,",
        "buffers, averages, the optimizer's state, learning rates) are compared with eager's; *same* is bit for bit, else the largest error relative to its",
        "tensor. *s* and *eager s* are seconds for the whole script, compilations included. transformers' models take another mask for attention while they",
        "are compiled, by any compiler, so that their losses differ in the last bits. What `torch.compile(model)` gives has another signature of `forward`, by",
        "which transformers' Trainer chooses columns: its own setting `torch_compile=True` avoids that.",
        "",
        "Under AOTAutograd (`--backend aot_eager`) operators of bfloat16 are taken apart, which rounds otherwise: in `accelerate` the state then differs from",
        "eager's by up to 5e-2, and with `torch.compile` by 4e-2.",
        "",
        *skipped,
        *sections,
    ])  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
