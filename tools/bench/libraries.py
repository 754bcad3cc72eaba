"""Programs of libraries that are built on torch, compiled by framejit and by torch.compile and compared with eager.

    python -m tools.bench.libraries --only kornia,monai:validation --compilers framejit   # those named
    python -m tools.bench.libraries --markdown docs/libraries.md       # all that haven't run yet; then the page from all that have
    python -m tools.bench.libraries --backend aot_eager --compilers framejit

`make libraries` installs the libraries and runs all. Each run of a program has a process of its own, with limits of time and memory. Results are lines of a
file in the repository (records.py); what is in it isn't run again, so a run that ended goes on where it was. torch.compile has the settings that it comes with.
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path

os.environ.setdefault("FRAMEJIT_STRICT", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["FRAMEJIT_CACHE"] = "0"

from tools import isolate
from tools.bench import libraries_page, library_runs, records
from tools.bench.library_programs import LIBRARIES, Listed, select

RECORDS = Path("tools/bench/libraries.jsonl")
PACKAGES = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "framejit" / "libraries"


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="comma-separated names of libraries, or of programs as library:name")
    parser.add_argument("--backend", default="eager", help="eager (the default, compared bit for bit), aot_eager or inductor")
    parser.add_argument("--compilers", default="framejit,torch", help="comma-separated (default framejit,torch)")
    parser.add_argument("--timeout", type=float, default=60, help="seconds of processor time after which a program is given up (default 60)")
    parser.add_argument("--packages", type=Path, default=PACKAGES, help="the folder in which the libraries are (default: where make libraries puts them)")
    parser.add_argument("--results", type=Path, default=RECORDS, help=f"the file of results (default {RECORDS})")
    parser.add_argument("--again", action="store_true", help="run again what is in the file of results")
    parser.add_argument("--markdown", type=Path, help="write the page to this file, such as docs/libraries.md, from all results")
    parser.add_argument("--list", action="store_true", help="only list the programs")
    options = parser.parse_args()
    options.compilers = options.compilers.split(",")
    if unknown := set(options.compilers) - {"framejit", "torch"}:
        parser.error(f"unknown compiler {', '.join(sorted(unknown))}; known: framejit, torch")
    try:
        options.programs = select(options.only)
    except ValueError as error:
        parser.error(str(error))
    return options


def main() -> int:
    """Runs what hasn't run yet; the exit status is 1 if a result of framejit is wrong, runs uncompiled or failed."""
    options = arguments()
    if options.list:
        print(*(f"{listed.key}: {listed.about}" for listed in options.programs), sep="\n")
        return 0
    isolate.preload("framejit.compiler.compile", "torch._dynamo.convert_frame", "tools.libraries", "tools.bench.library_runs")
    done = {} if options.again else records.read(options.results)
    bad = False
    for number, listed in enumerate(options.programs, 1):
        for record in ran(listed, options, done):
            records.append(options.results, record)
            result = record["measures"][options.backend]
            print(f"{number}/{len(options.programs)} {summary(record, result)}", flush=True)
            bad = bad or (record["compiler"] == "framejit" and result["verdict"] in ("uncompiled", "wrong", "failed"))
    records.tidy(options.results, LIBRARIES)
    if options.markdown:
        options.markdown.write_text(libraries_page.page(list(records.read(options.results).values())), encoding="utf-8")
    return int(bad)


def ran(listed: Listed, options: argparse.Namespace, done: dict[tuple[str, str], records.Record]) -> list[records.Record]:
    """The records of a program with the compilers for which the file of results has none."""
    runner, found = library_runs.Runner(listed.key, options.packages, options.timeout), []
    for compiler in options.compilers:
        if records.missing(done.get((listed.key, compiler)), [options.backend]):
            result = runner.compared(compiler, options.backend)
            measures = {options.backend: {**asdict(result), "verdict": result.verdict}}
            found.append({"entry": listed.key, "compiler": compiler, "ran": datetime.date.today().isoformat(), "excluded": "", "measures": measures})
    return found


def summary(record: records.Record, result: records.Record) -> str:
    """One record on one line."""
    counts = f"{result['breaks']} breaks, {result['recompiles']} recompiles"
    seconds = f", first call {result['first_call']:.1f} s" if result["first_call"] else ""
    detail = next((result[name] for name in ("excluded", "wrong", "error") if result[name]), "") or "; ".join(result["uncompiled"] or result["reasons"])
    return f"{time.strftime('%H:%M:%S')} {record['entry']} {record['compiler']}: {result['verdict']}, {counts}{seconds}  {detail}"


if __name__ == "__main__":
    sys.exit(main())
