"""The records of long runs: a file in the repository with a line of JSON for each entry and compiler, which leaves out all that is as usual.

An entry is what runs, as `library:name`. It has a result for each measure: the corpus measures models in eval and in train, the programs of libraries
are measured with one backend or another.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Result:
    """The result of one measure of an entry with one compiler.

    Args:
        excluded: why the measure isn't counted: it doesn't run in eager, or eager's own results vary.
        wrong: how the results differ from eager's; empty if they don't.
        error: the exception of the compiled call where eager raises none.
        rounding: the largest error relative to its tensor, if it is so small that the same was computed with other rounding.
        graphs: the graphs of the first call.
        breaks: its graph breaks.
        recompiles: the graphs that later calls add: of a model that changes its own state, or that framejit makes more general.
        uncompiled: the frames that run uncompiled.
        asks: whether the model asks if it is compiled, and computes the same in another way then: the results are eager's where eager answers yes.
        first_call: processor time of the first compiled call, in seconds.
    """

    excluded: str = ""
    wrong: str = ""
    error: str = ""
    rounding: float = 0.0
    graphs: int = 0
    breaks: int = 0
    recompiles: int = 0
    uncompiled: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    asks: bool = False
    first_call: float | None = None

    @property
    def verdict(self) -> str:
        """In one word: excluded, failed, wrong, uncompiled, broken or whole."""
        for word in ("excluded", "wrong", "uncompiled"):
            if getattr(self, word):
                return word
        if self.error:
            return "failed"
        return "whole" if self.graphs == 1 and not self.breaks else "broken"


Record = dict[str, Any]
USUAL: Record = {**asdict(Result()), "graphs": 1, "verdict": "whole"}
"""The values of the fields that a line leaves out: those of a model that is one graph without a break."""


def line_of(record: Record) -> str:
    """A record as a line, with seconds to the millisecond."""
    short = {key: record[key] for key in ("entry", "compiler", "ran", "model", "excluded") if record.get(key)}
    for measure, result in record["measures"].items():
        short[measure] = {key: value for key, value in result.items() if value != USUAL.get(key)}
        if isinstance(seconds := result.get("first_call"), float):
            short[measure]["first_call"] = round(seconds, 3)
    return json.dumps(short, ensure_ascii=False)


def record_of(line: str) -> Record:
    """The record that a line stands for."""
    short = json.loads(line)
    measures = {key: {**USUAL, **value} for key, value in short.items() if isinstance(value, dict)}
    return {"ran": "", "model": "", "excluded": "", **{key: value for key, value in short.items() if key not in measures}, "measures": measures}


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


def tidy(path: Path, libraries: Sequence[str]) -> None:
    """Write a file anew, with one line for each entry and compiler, in the order of libraries and names."""
    write(path, read(path).values(), libraries)


def write(path: Path, records: Iterable[Record], libraries: Sequence[str]) -> None:
    """Write the records in the order of libraries and names."""
    ordered = sorted(records, key=lambda record: (libraries.index(record["entry"].partition(":")[0]), record["entry"], record["compiler"]))
    path.write_text("".join(line_of(record) + "\n" for record in ordered), encoding="utf-8")


def missing(record: Record | None, measures: Sequence[str]) -> list[str]:
    """The measures of a record that haven't run."""
    if record is None:
        return list(measures)
    if record["excluded"]:
        return []
    return [measure for measure in measures if measure not in record["measures"]]
