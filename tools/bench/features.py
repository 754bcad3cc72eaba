"""Features beside torch.compile, row by row: whether a small program gives what eager gives, and in how many graphs.

Each program of `tools/bench/feature_cases` runs in a process of its own, for each compiler: three calls with fresh arguments, whose results, arguments and
gradients are compared with eager's. torch.compile has its switch for gradients inside graphs on, if it has one.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

os.environ.setdefault("FRAMEJIT_STRICT", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from torch.utils import _pytree as pytree

from tools import isolate
from tools.bench import markdown
from tools.bench.feature_cases import FEATURES, Feature, select
from tools.bench.options import parsed, table_options
from tools.bench.snapshots import plain
from tools.bench.training import difference, trace_gradients
from tools.compilers import COMPILERS, one_line, quiet
from tools.measure import seed_everything

CALLS = 3
SUBJECTS = ("framejit", "torch")
HEADER = ("family", "feature", *(f"{subject}: {what}" for subject in SUBJECTS for what in ("result", "graphs", "breaks")))
WIDTHS = (14, 52, 12, 6, 6, 12, 6, 6)
Found = tuple[tuple[str, str, str], tuple[str, ...]]
"""The three cells of a compiler, and why graphs broke."""


def seen(value: Any) -> list[Any]:
    """The parts of a result, with what is compared of each."""
    parts, structure = pytree.tree_flatten(value)
    return [str(structure), *map(plain, parts)]


def tensors_of(value: Any) -> list[torch.Tensor]:
    """All tensors in arguments and their modules."""
    found: list[torch.Tensor] = []
    for part in pytree.tree_leaves(value):
        found += part.parameters() if isinstance(part, torch.nn.Module) else [part] if isinstance(part, torch.Tensor) else []
    return found


def observed(function: Any, feature: Feature) -> list[Any]:
    """Call a function several times, and return what the calls return and change: results, arguments, gradients."""
    noted: list[Any] = []
    seed_everything()
    for _ in range(CALLS):
        args = feature.arguments()
        result = function(*args)
        roots = [part for part in tensors_of(result) if part.requires_grad]
        noted += [seen(result), seen(args)]
        if roots:
            sum(root.sum() for root in roots if not root.is_complex()).backward()  # type: ignore[union-attr]
            noted.append([plain(leaf.grad) for leaf in tensors_of(args) if leaf.is_leaf])
    noted.append(float(torch.rand(())))  # the state of the random stream
    return noted


def tried(name: str, compiler_name: str, backend: str, threads: int) -> Found:
    """A feature with a compiler; in a process of its own."""
    quiet()
    torch.set_num_threads(threads)
    trace_gradients(compiler_name)
    feature = FEATURES[name]
    os.environ.update(feature.environment)
    expected = observed(feature.function, feature)
    compiler = COMPILERS[compiler_name]()
    compiler.reset()  # in eager, something has been compiled if the program calls torch.cond and the like
    try:
        found = observed(compiler.compile(feature.function, backend), feature)
    except Exception as error:
        return (f"{type(error).__name__}", "-", "-"), (one_line(f"{type(error).__name__}: {error}", 200),)
    counts = compiler.statistics()
    reasons = tuple(one_line(reason, 160) for reason in counts.reasons)
    verdict = difference(expected, found)
    if verdict not in ("same",) and not verdict[0].isdigit():
        reasons, verdict = (f"wrong: {verdict}", *reasons), "WRONG"
    if counts.fallbacks:
        verdict = f"{verdict}, uncompiled"
    return (verdict, str(counts.graphs), str(counts.graph_breaks)), tuple(dict.fromkeys(reasons))


def row_of(name: str, backend: str, options: argparse.Namespace) -> dict[str, Found]:
    """The outcome of a feature with each compiler; outcomes that weren't asked for are left empty."""
    found: dict[str, Found] = {}
    for subject in SUBJECTS:
        try:
            asked = subject in options.compiler.split(",")
            found[subject] = isolate.call(tried, name, subject, backend, options.threads) if asked else (("-", "-", "-"), ())
        except isolate.Crash as crash:
            found[subject] = ("crash", "-", "-"), (one_line(str(crash)[-200:], 200),)
    return found


def table_of(options: argparse.Namespace, backend: str, names: list[str]) -> tuple[str, bool]:
    """The section of a backend, and whether framejit has failed or given a different result from eager."""
    rows: list[tuple[str, ...]] = []
    reasons: list[str] = []
    print(f"backend {backend}")
    failed = False
    with ThreadPoolExecutor(options.jobs) as pool:
        for name, found in zip(names, pool.map(lambda name: row_of(name, backend, options), names)):
            (verdict, *_), why = found["framejit"]
            failed = failed or found["framejit"][0][1] == "-" or verdict.startswith("WRONG")
            reasons += [f"- {name}: {reason}" for reason in why]
            if options.why:
                print(*(f"    {reason}" for reason in why), sep="\n")
            rows.append((FEATURES[name].family, name, *(cell for subject in SUBJECTS for cell in found[subject][0])))
            print(markdown.fixed(rows[-1], WIDTHS), flush=True)
    section = [f"## Backend `{backend}`", "", summary(rows), "", markdown.table(HEADER, rows, right=(3, 4, 6, 7)), ""]
    if reasons:
        section += ["### What framejit says where it breaks graphs", "", *reasons, ""]
    print(summary(rows))
    return "\n".join(section), failed


def summary(rows: list[tuple[str, ...]]) -> str:
    """One sentence: in how many rows each compiler gives eager's results, in one graph, and in which framejit is behind."""
    parts = []
    for index, subject in enumerate(SUBJECTS):
        cells = [row[2 + 3 * index : 5 + 3 * index] for row in rows]
        right = [cell for cell in cells if cell[0] == "same" or cell[0][0].isdigit()]
        parts.append(f"{subject} gives eager's results in {len(right)} of {len(rows)} rows, {sum(cell[1:] == ('1', '0') for cell in right)} in one graph")
    behind = [row[1] for row in rows if is_behind(row)]
    return "; ".join(parts) + f". Behind torch.compile: {', '.join(behind) or 'none'}."


def is_behind(row: tuple[str, ...]) -> bool:
    """Return whether torch.compile gives eager's results with a graph, and framejit doesn't, or only in more graphs or with more breaks."""
    ours, theirs = row[2:5], row[5:8]
    if (theirs[0] != "same" and not theirs[0][0].isdigit()) or theirs[1] == "0":
        return False
    if ours[0] != "same" and not ours[0][0].isdigit():
        return True
    if "uncompiled" in ours[0]:
        return True
    return int(ours[1]) > int(theirs[1]) or int(ours[2]) > int(theirs[2])


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = table_options(__doc__, sorted({feature.family for feature in FEATURES.values()}))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="rows at a time (default: as many as there are cores)")
    parser.add_argument("--why", action="store_true", help="print why framejit breaks graphs, or what it raises")
    return parsed(parser, select)


def main() -> int:
    options = arguments()
    isolate.preload("torch", "tools.bench.features")
    skipped = [f"{name} is passed over: {', '.join(missing)} not installed" for name in select(options.only) if (missing := FEATURES[name].missing())]
    print(*skipped, sep="\n")
    names = [name for name in select(options.only) if not FEATURES[name].missing()]
    found = [table_of(options, backend, names) for backend in options.backend.split(",")]
    if options.markdown:
        options.markdown.write_text(document(options, [section for section, _ in found], skipped), encoding="utf-8")
    return int(any(failed for _, failed in found))


def document(options: argparse.Namespace, sections: list[str], skipped: list[str]) -> str:
    """The Markdown page."""
    command = f"python tools/bench/features.py --backend {options.backend} --markdown {options.markdown}"
    return "\n".join([
        "# Features beside torch.compile",
        "",
        f"Written by `{command}`: torch {torch.__version__}, {options.threads} thread(s).",
        "",
        f"Each row is a small program of `tools/bench/feature_cases`, called {CALLS} times with fresh arguments. *result* compares what it returns,",
        "its arguments afterwards and the gradients of what it returns with eager's: *same* is bit for bit, else the largest error relative to its",
        "tensor; *WRONG*: something else than eager gives; an exception's name: the compiled program raises it; *uncompiled*: it runs uncompiled.",
        "*graphs* and *breaks* are counted over all calls.",
        "",
        *skipped,
        *sections,
    ])  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
