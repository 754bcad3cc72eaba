"""The records of the corpus: a file in the repository with a line of JSON for each entry and compiler, which leaves out all that is as usual."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tools.bench.corpus_models import LIBRARIES
from tools.bench.corpus_runs import MEASURES, Result

RECORDS = Path("tools/bench/corpus.jsonl")
Record = dict[str, Any]
USUAL: Record = {**asdict(Result()), "graphs": 1, "verdict": "whole"}
"""The values of the fields that a line leaves out: those of a model that is one graph without a break."""


def line_of(record: Record) -> str:
    """A record as a line, with seconds to the millisecond."""
    short = {key: record[key] for key in ("entry", "compiler", "ran", "model", "excluded") if record.get(key)}
    for measure in MEASURES:
        if (result := record["measures"].get(measure)) is not None:
            short[measure] = {key: value for key, value in result.items() if value != USUAL.get(key)}
            if isinstance(seconds := result.get("first_call"), float):
                short[measure]["first_call"] = round(seconds, 3)
    return json.dumps(short, ensure_ascii=False)


def record_of(line: str) -> Record:
    """The record that a line stands for."""
    short = json.loads(line)
    measures = {measure: {**USUAL, **short.pop(measure)} for measure in MEASURES if measure in short}
    return {"ran": "", "model": "", "excluded": "", **short, "measures": measures}


def read(path: Path) -> dict[tuple[str, str], Record]:
    """The records of a file by entry and compiler. Of several lines about the same, the measures are put together, and later ones count."""
    found: dict[tuple[str, str], Record] = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            record = record_of(line)
            key = (record["entry"], record["compiler"])
            if key in found:
                record["measures"] = {**found[key]["measures"], **record["measures"]}
            found[key] = record
    return found


def append(path: Path, record: Record) -> None:
    """Add a record at the end of a file, so that a run which is interrupted loses none."""
    with path.open("a", encoding="utf-8") as file:
        file.write(line_of(record) + "\n")


def tidy(path: Path) -> None:
    """Write a file anew, with one line for each entry and compiler, in the order of libraries and names."""
    write(path, read(path).values())


def write(path: Path, records: Iterable[Record]) -> None:
    """Write the records in their order."""
    ordered = sorted(records, key=lambda record: (LIBRARIES.index(record["entry"].partition(":")[0]), record["entry"], record["compiler"]))
    path.write_text("".join(line_of(record) + "\n" for record in ordered), encoding="utf-8")


def missing(record: Record | None, measures: Sequence[str]) -> list[str]:
    """The measures of a record that haven't run."""
    if record is None:
        return list(measures)
    if record["excluded"]:
        return []
    return [measure for measure in measures if measure not in record["measures"]]
