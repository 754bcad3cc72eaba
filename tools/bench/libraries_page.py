"""The page of the programs of libraries, put together from their records."""

from __future__ import annotations

import importlib.metadata
import platform
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from tools.bench import library_runs, markdown
from tools.bench.library_programs import LIBRARIES, Listed, listed
from tools.bench.records import Record

COMPILERS = ("framejit", "torch")
VERSIONS = Path(__file__).with_suffix("").with_name("libraries.txt")
DISTRIBUTIONS = {"open_clip": "open-clip-torch", "pyro": "pyro-ppl"}
"""Libraries that are installed under another name than they are imported by."""
DIFFERENCES = (
    "A difference of training steps needn't be a mistake: torch.compile computes the steps of optimizers with other roundings, and Adam makes large steps of a "
    "gradient that is zero but for rounding, such as that of a bias before a norm."
)
MOST_REASONS = 4
Results = dict[tuple[str, str], Record]
"""Results by the name of the entry and the compiler."""

SUMMARY = ("library", "compiler", "programs", "whole", "breaks", "recompiles", "uncompiled", "differs", "failed", "first call s")
PROGRAMS = ("program", "what it does", "framejit", "torch", "framejit: result", "torch: result", "framejit: first s", "torch: first s")


def page(records: Iterable[Record]) -> str:
    """The page in Markdown. Programs that the repository doesn't have any more are left out."""
    known = {found.key for found in listed()}
    kept = [record for record in records if record["entry"] in known]
    results = {(record["entry"], record["compiler"]): record["measures"]["eager"] for record in kept if "eager" in record["measures"]}
    with_aot = {record["entry"]: record["measures"]["aot_eager"] for record in kept if "aot_eager" in record["measures"] and record["compiler"] == "framejit"}
    days = sorted({record["ran"] for record in kept if record["ran"]})
    sections = [_introduction(results, days), _summary(results), _behind(results), *(_library(library, results) for library in LIBRARIES)]
    return "\n".join([*sections, _aot(with_aot), _excluded(results)]).rstrip("\n") + "\n"


def counted(results: Results, library: str | None = None) -> list[Listed]:
    """The programs, of a library or all, that both compilers have run to their end."""
    return [
        found
        for found in listed()
        if (library is None or found.library == library) and all(ended(results.get((found.key, compiler))) for compiler in COMPILERS)
    ]


def ended(result: Record | None) -> bool:
    """Return whether a program ran to its end."""
    return result is not None and not result["excluded"] and not result["error"]


def _introduction(results: Results, days: Sequence[str]) -> str:
    programs, both = len(listed()), len(counted(results))
    failed = [_failures(results, compiler) for compiler in COMPILERS]
    slow = sum(result["error"].startswith(library_runs.TOO_LONG) for (_, compiler), result in results.items() if compiler == "torch")
    ran = "" if not days else f" on {days[0]}" if len(days) == 1 else f" from {days[0]} to {days[-1]}"
    return "\n".join([
        "# Programs of libraries",
        "",
        "```sh",
        "make libraries                                 # installs the libraries, runs what has no record, and writes this page",
        'make libraries ARGS="--only kornia --again"    # one library, once more',
        "python -m tools.bench.libraries --list         # what each program does",
        "```",
        "",
        f"{programs} programs of {len(LIBRARIES)} libraries that are built on torch, as the libraries' users write them (`tools/bench/library_programs`, a",
        "file for each library): networks in evaluation mode with sizes that vary, training steps compiled whole, losses, transforms, solvers. Each compiler",
        "runs a program in a process of its own, beside another in eager, and all that can be seen is compared bit for bit: results, parameters, gradients,",
        "buffers, the optimizer's state, exceptions, and where the random generators stand. The backend is `eager`, so that only capturing counts.",
        "torch.compile has the settings that it comes with. It breaks its graph at `backward()` then, in each training step.",
        "",
        f"Measured{ran} on torch {torch.__version__} and Python {platform.python_version()}, one thread, on a machine with two cores beside other programs:",
        f"{_versions()}. The records are in `tools/bench/libraries.jsonl`.",
        "",
        "- *breaks* and *recompiles* are counted over all calls, three or four of each program; *whole* is a program that is one graph, or one for each size.",
        "- *result*: *same* is bit for bit as in eager; *rounding* differs from it by up to 1e-4 of a tensor's largest value; *differs* by more.",
        f"- {DIFFERENCES}",
        "- *asks*: the library asks `torch.compiler.is_compiling()` and computes in another way then; the results are eager's where the answer is yes.",
        "- *uncompiled*: a part of the program runs without being compiled. torch.compile doesn't report it, and counts no break where it gives up a loop.",
        "- *failed*: the compiled program raises what eager doesn't, or takes more than a minute of processor time.",
        "- *first s* are the processor seconds until the first result.",
        "",
        f"Both compilers ran {both} of the programs to their end; framejit failed in {failed[0]} and torch.compile in {failed[1]}. {slow} of these took",
        f"too long. All sums but those of failures are of the {both} programs that both ran.",
        "",
    ])  # fmt: skip


def _versions() -> str:
    """The libraries with their versions."""
    pinned = dict(line.split("==") for line in VERSIONS.read_text(encoding="utf-8").splitlines() if "==" in line)
    found = []
    for library in LIBRARIES:
        name = DISTRIBUTIONS.get(library, library).replace("_", "-")
        versions = {key.replace("_", "-"): version for key, version in pinned.items()}
        found.append(f"{library} {versions.get(name) or importlib.metadata.version(name)}")
    return ", ".join(found)


def _summary(results: Results) -> str:
    rows = []
    for library in (*LIBRARIES, None):
        programs = counted(results, library)
        for compiler in COMPILERS if programs or _failures(results, "torch", library) else ():
            *sums, seconds = _sums([results[found.key, compiler] for found in programs])
            rows.append((library or "all", compiler, *sums, str(_failures(results, compiler, library)), seconds))
    return "\n".join(["## All libraries", "", markdown.table(SUMMARY, rows, right=range(2, len(SUMMARY))), ""])


def _failures(results: Results, compiler: str, library: str | None = None) -> int:
    """The number of programs, of a library or all, in which a compiler failed."""
    return sum(bool(result["error"]) for (key, name), result in results.items() if name == compiler and library in (None, key.partition(":")[0]))


def _sums(results: Sequence[Record]) -> tuple[str, ...]:
    """The cells of a compiler: sums, and the median of the first calls."""
    calls = [result["first_call"] for result in results if result["first_call"] is not None]
    return (
        str(len(results)),
        str(sum(not result["breaks"] and result["verdict"] == "whole" for result in results)),
        str(sum(result["breaks"] for result in results)),
        str(sum(result["recompiles"] for result in results)),
        str(sum(bool(result["uncompiled"]) for result in results)),
        str(sum(bool(result["wrong"]) for result in results)),
        f"{statistics.median(calls):.2f}" if calls else "-",
    )


def _behind(results: Results) -> str:
    """Where torch.compile has done better: a list for each respect."""
    pairs = [(found.key, results[found.key, "framejit"], results[found.key, "torch"]) for found in counted(results)]
    fewer = [f"`{key}` ({_counts(own)} to {_counts(other)})" for key, own, other in pairs if own["breaks"] > other["breaks"]]
    again = [f"`{key}` ({own['recompiles']} to {other['recompiles']})" for key, own, other in pairs if own["recompiles"] > other["recompiles"]]
    slower = [f"`{key}` ({_seconds(own)} s to {_seconds(other)} s)" for key, own, other in pairs if (own["first_call"] or 0) > (other["first_call"] or 0)]
    bad = [f"`{found.key}`" for found in listed() if (own := results.get((found.key, "framejit"))) and (own["wrong"] or own["uncompiled"] or own["error"])]
    lines = [
        f"- More breaks than torch.compile (breaks/recompiles): {', '.join(fewer) or 'none'}.",
        f"- More recompiles: {', '.join(again) or 'none'}.",
        f"- A first call that takes longer: {', '.join(slower) or 'none'}.",
        f"- Different from eager, failed, or with a part that runs uncompiled: {', '.join(bad) or 'none'}.",
    ]
    return "\n".join(["## Where framejit is behind", "", *lines, ""])


def _library(library: str, results: Results) -> str:
    """A section: a row for each program, and why graphs break or frames run uncompiled."""
    rows, reasons = [], []
    for found in (found for found in listed() if found.library == library):
        own, other = (results.get((found.key, compiler)) for compiler in COMPILERS)
        rows.append((found.name, found.about, _counts(own), _counts(other), _verdict(own), _verdict(other), _seconds(own), _seconds(other)))
        if own is not None and (texts := [*own["uncompiled"], *own["reasons"]]):
            more = f"; and {len(texts) - MOST_REASONS} more" if len(texts) > MOST_REASONS else ""
            reasons.append(f"- {found.name}: {'; '.join(texts[:MOST_REASONS])}{more}")
    remains = ["What remains for framejit:", "", *reasons, ""] if reasons else []
    about = "Columns *framejit* and *torch* are breaks/recompiles."
    return "\n".join([f"## {library}", "", about, "", markdown.table(PROGRAMS, rows, right=(2, 3, 6, 7)), "", *remains])


def _counts(result: Record | None) -> str:
    """Breaks and recompiles, with the number of graphs if there are several without a break."""
    if result is None or not ended(result):
        return "-"
    graphs = f" in {result['graphs']} graphs" if not result["breaks"] and result["graphs"] > 1 else ""
    return f"{result['breaks']}/{result['recompiles']}{graphs}"


def _seconds(result: Record | None) -> str:
    return f"{result['first_call']:.2f}" if result is not None and ended(result) and result["first_call"] is not None else "-"


def _verdict(result: Record | None) -> str:
    """How a result compares with eager's, in a few words."""
    if result is None or result["excluded"] or result["error"].startswith(library_runs.TOO_LONG):
        return "-"
    text = "failed" if result["error"] else "differs" if result["wrong"] else f"rounding, {result['rounding']:.0e}" if result["rounding"] else "same"
    return text + (", asks" if result["asks"] else "") + (", uncompiled" if result["uncompiled"] else "")


def _aot(results: dict[str, Record]) -> str:
    """The programs with AOTAutograd, which is compared up to rounding."""
    if not results:
        return ""
    good = [result for result in results.values() if not (result["wrong"] or result["error"])]
    exact = sum(not result["rounding"] for result in good)
    odd = [f"- `{key}`: {text}" for key, result in results.items() if (text := _oddity(result))]
    return "\n".join([
        "## With AOTAutograd",
        "",
        f"With `--backend aot_eager`, {len(results)} programs have run so far with framejit. {len(good)} of them give eager's results, {exact} bit for bit and",
        "the others up to rounding: operators are taken apart there. The first step of an optimizer, which makes its state, runs uncompiled (FJ040).",
        "",
        *odd,
        "",
    ])  # fmt: skip


def _oddity(result: Record) -> str:
    """What is unlike eager about a program with AOTAutograd, or runs uncompiled there; empty if nothing is."""
    uncompiled = [text for text in result["uncompiled"] if "FJ040" not in text]
    for word in ("wrong", "error"):
        if result[word]:
            return f"{'differs' if word == 'wrong' else 'failed'}: {result[word]}"
    return f"uncompiled: {'; '.join(uncompiled)}" if uncompiled else ""


def _excluded(results: Results) -> str:
    lines = [f"- `{key}`: {result['excluded']}" for (key, compiler), result in results.items() if result["excluded"] and compiler == "framejit"]
    return "\n".join(["## Not counted", "", *lines]) if lines else ""
