"""The corpus: an architecture after another of transformers, timm and diffusers, captured by framejit and by torch.compile and compared with eager.

    python -m tools.bench.corpus --sample 20                # twenty entries, in eval and in train
    python -m tools.bench.corpus --only bert,timm:resnet18 --measure eval
    python -m tools.bench.corpus --markdown docs/corpus.md  # all that haven't run yet; then the page from all that have

Models are built from small configurations with random weights, without downloads. Each entry runs in a process of its own, with limits of time and memory.
Results are lines of a file in the repository (records.py); what is in it isn't run again, so a run that ended goes on where it was.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

os.environ.setdefault("FRAMEJIT_STRICT", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["FRAMEJIT_CACHE"] = "0"

import torch

from tools import isolate
from tools.bench import corpus_models, corpus_runs, markdown
from tools.bench.corpus_models import LIBRARIES, Entry
from tools.bench.records import Record, append, missing, read, tidy

RECORDS = Path("tools/bench/corpus.jsonl")
VERDICTS = ("whole", "broken", "uncompiled", "wrong", "failed")
MOST_PLACES = 40
"""So many reasons of graph breaks are listed on the page."""


def isolated(entry: Entry, compiler: str, measures: Sequence[str], timeout: float) -> Record:
    """The record of an entry; a process that dies or hangs fails its measures."""
    try:
        return isolate.call(corpus_runs.run, entry, compiler, list(measures), timeout=timeout)
    except isolate.Crash as crash:
        error = str(crash).strip().splitlines()[-1]
        failed = {"excluded": "", "verdict": "failed", "error": error, "graphs": 0, "breaks": 0, "reasons": [], "first_call": None}
        return {"entry": entry.key, "compiler": compiler, "model": "", "excluded": "", "measures": dict.fromkeys(measures, failed)}


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="comma-separated names of entries or libraries")
    parser.add_argument("--sample", type=int, help="so many entries, spread evenly over those named")
    parser.add_argument("--compilers", default="framejit", help="comma-separated: framejit (the default), torch")
    parser.add_argument("--measure", default="eval,train", help="comma-separated: eval, train (the default is both)")
    parser.add_argument("--timeout", type=float, default=400, help="seconds after which an entry is given up (default 400)")
    parser.add_argument("--results", type=Path, default=RECORDS, help=f"the file of results (default {RECORDS})")
    parser.add_argument("--again", action="store_true", help="run again what is in the file of results")
    parser.add_argument("--markdown", type=Path, help="write the page to this file, such as docs/corpus.md, from all results")
    parser.add_argument("--list", action="store_true", help="only list the entries")
    options = parser.parse_args()
    options.compilers, options.measure = options.compilers.split(","), options.measure.split(",")
    if unknown := set(options.compilers) - {"framejit", "torch"}:
        parser.error(f"unknown compiler {', '.join(sorted(unknown))}; known: framejit, torch")
    if unknown := set(options.measure) - set(corpus_runs.MEASURES):
        parser.error(f"unknown measure {', '.join(sorted(unknown))}; known: {', '.join(corpus_runs.MEASURES)}")
    try:
        options.entries = corpus_models.select(options.only, options.sample)
    except ValueError as error:
        parser.error(str(error))
    return options


def main() -> int:
    """Runs what hasn't run yet; the exit status is 1 if a result is wrong, runs uncompiled or failed."""
    options = arguments()
    if options.list:
        print(*(entry.key for entry in options.entries), sep="\n")
        return 0
    isolate.preload("framejit.compiler.compile", "tools.bench.corpus_runs")
    options.results.parent.mkdir(parents=True, exist_ok=True)
    done = {} if options.again else read(options.results)
    bad = 0
    for number, entry in enumerate(options.entries, 1):
        for compiler in options.compilers:
            measures = missing(done.get((entry.key, compiler)), options.measure)
            if not measures:
                continue
            start = time.perf_counter()
            record = {**isolated(entry, compiler, measures, options.timeout), "ran": datetime.date.today().isoformat()}
            append(options.results, record)
            print(f"{number}/{len(options.entries)} {summary(record)} ({time.perf_counter() - start:.0f} s)", flush=True)
            bad += any(result["verdict"] in ("uncompiled", "wrong", "failed") for result in record["measures"].values())
    tidy(options.results, LIBRARIES)
    if options.markdown:
        options.markdown.write_text(page(list(read(options.results).values()), corpus_models.entries()), encoding="utf-8")
    return 1 if bad else 0


def summary(record: Record) -> str:
    """One record on one line."""
    text = f"{record['entry']} {record['compiler']}"
    if record["excluded"]:
        return f"{text} excluded: {record['excluded']}"
    parts = [f"{measure}: {result['verdict']} {_detail(result)}".strip() for measure, result in record["measures"].items()]
    return f"{text} {record['model']}  " + "; ".join(parts)


def _detail(result: Record) -> str:
    """Describe a result that isn't whole; empty for a whole one."""
    for name in ("excluded", "wrong", "error"):
        if text := result.get(name, ""):
            return str(text)
    if result.get("uncompiled"):
        return "; ".join(result["uncompiled"])
    if result["verdict"] == "whole":
        return ""
    return f"{result['graphs']} graphs, {result['breaks']} breaks: {'; '.join(result['reasons'])}"


# -- the page -------------------------------------------------------------------------------------------------------


def counted(records: Iterable[Record], compiler: str, measure: str, library: str | None = None) -> list[tuple[Record, Record]]:
    """Records with their results of one measure by one compiler, of one library or of all, without those that don't run in eager."""
    return [
        (record, result)
        for record in records
        if record["compiler"] == compiler and not record["excluded"] and (library is None or record["entry"].startswith(f"{library}:"))
        if (result := record["measures"].get(measure)) is not None and result["verdict"] != "excluded"
    ]


def page(records: list[Record], entries: Sequence[Entry]) -> str:
    """The page in Markdown, put together from all records. `entries`: all that there are, run or not."""
    records = sorted(records, key=lambda record: record["entry"])
    return "\n".join(
        [
            "# The corpus",
            "",
            "```sh",
            "python -m tools.bench.corpus --compilers framejit,torch --markdown docs/corpus.md",
            "```",
            "",
            f"Architectures of transformers, timm and diffusers, one model of each, on torch {torch.__version__} and Python {platform.python_version()}.",
            "A model is built from a small configuration with random weights, and compiled with the backend `eager`, so that only capturing counts. *Whole* is",
            "one graph without a break. *Wrong* is any difference from eager, to the last bit, in results, loss, gradients, buffers or the state of random",
            "generators, in two calls. *Failed* is an exception that eager doesn't raise, or a process that died or took too long. *Breaks* are those of the",
            "first call, and *first call* is the median of its processor seconds.",
            "",
            *_parts(records, entries),
            "",
            *_totals(records),
            "",
            *_beside(records),
            *_reasons(records),
            *_problems(records),
            *_asking(records),
            *_excluded(records),
        ]
    )


def _parts(records: list[Record], entries: Sequence[Entry]) -> list[str]:
    """Describe which part of the corpus has run, and when."""
    own = [record for record in records if record["compiler"] == "framejit"]
    tried = Counter(record["entry"].partition(":")[0] for record in own)
    counts = Counter(entry.library for entry in entries)
    parts = [f"{tried[library]} of {counts[library]} of {library}" for library in LIBRARIES if counts[library]]
    days = sorted({record["ran"] for record in own if record["ran"]})
    ran = f" from {days[0]} to {days[-1]}" if days else ""
    kept = Counter(record["entry"].partition(":")[0] for record in own if not record["model"] and not record["excluded"])
    of_page = f" Of {', '.join(f'{kept[library]} of {library}' for library in LIBRARIES if kept[library])}, only the verdict of an earlier run is known."
    return [
        f"Tried so far: {', '.join(parts)}. Those that [aren't counted](#not-counted) are listed at the end. The records are in `{RECORDS}`.",
        f"They were gathered{ran}, over several runs beside other programs, and some may be of earlier states of framejit.{of_page if kept else ''}",
    ]


def _totals(records: list[Record]) -> list[str]:
    header = ("library", "mode", "compiler", "models", *VERDICTS, "whole %", "breaks", "first call s")
    rows = []
    for library in (*LIBRARIES, None):
        for measure in corpus_runs.MEASURES:
            for compiler in ("framejit", "torch"):
                if found := counted(records, compiler, measure, library):
                    rows.append((library or "all", measure, compiler, *_row([result for _, result in found])))
    return [markdown.table(header, rows, right=range(3, len(header)))]


def _row(results: list[Record]) -> tuple[str, ...]:
    verdicts = Counter(result["verdict"] for result in results)
    calls = [result["first_call"] for result in results if result["first_call"] is not None]
    return (
        str(len(results)),
        *(str(verdicts[verdict]) for verdict in VERDICTS),
        f"{100 * verdicts['whole'] / len(results):.1f}",
        str(sum(result["breaks"] for result in results)),
        f"{statistics.median(calls):.2f}" if calls else "-",
    )


def _beside(records: list[Record]) -> list[str]:
    """The same models by both compilers, if torch.compile has run for some but not for all."""
    rows = []
    for measure in corpus_runs.MEASURES:
        found = {compiler: {record["entry"]: result for record, result in counted(records, compiler, measure)} for compiler in ("framejit", "torch")}
        both = found["framejit"].keys() & found["torch"].keys()
        if both and len(both) < len(found["framejit"]):
            rows += [(measure, compiler, *_row([results[entry] for entry in sorted(both)])) for compiler, results in found.items()]
    header = ("mode", "compiler", "models", *VERDICTS, "whole %", "breaks", "first call s")
    return ["The models that both compilers have run:", "", markdown.table(header, rows, right=range(2, len(header))), ""] if rows else []


def _reasons(records: list[Record]) -> list[str]:
    """List the places where framejit's graphs break, the commonest first, with the models."""
    places: dict[str, list[str]] = {}
    for measure in corpus_runs.MEASURES:
        for record, result in counted(records, "framejit", measure):
            if result["verdict"] == "broken":
                for reason in result["reasons"]:
                    places.setdefault(reason, []).append(f"{record['entry'].partition(':')[2]} ({measure})")
    common = sorted(places.items(), key=lambda item: (-len(item[1]), item[0]))
    lines = [f"- {reason}: {', '.join(models)}" for reason, models in common[:MOST_PLACES]]
    more = [f"- and {len(common) - MOST_PLACES} more places"] if len(common) > MOST_PLACES else []
    return ["## Where graphs break", "", *lines, *more, ""] if lines else []


def _problems(records: list[Record]) -> list[str]:
    lines = [
        f"- {record['entry']}, {measure}: {result['verdict']}: {_detail(result)}"
        for measure in corpus_runs.MEASURES
        for record, result in counted(records, "framejit", measure)
        if result["verdict"] in ("uncompiled", "wrong", "failed")
    ]
    return ["## Wrong, uncompiled or failed", "", *lines, ""] if lines else []


def _asking(records: list[Record]) -> list[str]:
    """The models whose own code takes another way where it is compiled."""
    names = {record["entry"] for measure in corpus_runs.MEASURES for record, result in counted(records, "framejit", measure) if result.get("asks")}
    about = "These ask `torch.compiler.is_compiling()`, and compute the same in another way then. Their results are those of eager where the answer is yes:"
    return [about + " " + ", ".join(sorted(names)) + ".", ""] if names else []


def _excluded(records: list[Record]) -> list[str]:
    """List what isn't counted, with the reason."""
    lines = [f"- {record['entry']}: {record['excluded']}" for record in records if record["excluded"] and record["compiler"] == "framejit"]
    lines += [
        f"- {record['entry']}, {measure}: {result['excluded']}"
        for record in records
        if record["compiler"] == "framejit"
        for measure, result in record["measures"].items()
        if result["verdict"] == "excluded"
    ]
    about = "These don't run in eager with a small configuration and inputs made by rule, have no gradient, or give results in eager that vary:"
    return ["## Not counted", "", about, "", *lines, ""] if lines else []


if __name__ == "__main__":
    sys.exit(main())
