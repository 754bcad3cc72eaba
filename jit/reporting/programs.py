"""Sections of the break pages: for each reason a program that breaks and one that doesn't, with the reports of framejit about both."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from framejit import breaks
from framejit.report import counted, graphs_of

FOLDER = Path(breaks.__file__).parent / "programs"
COMMAND = "python -m tools.bench.cures --times"


WITHOUT = {
    "FJ027": "No short program shows this break reliably: another thread has to change something just while framejit compiles.",
    "FJ031": "There is no program that shows this break and a cure, since it is a bug in framejit. Until it is fixed, such calls run uncompiled.",
    "FJ080": "There is no program that shows this break and a cure, since it is a bug in framejit. Until it is fixed, the function runs uncompiled.",
}
"""For reasons whose pages show no program: the sentence that says why."""


@functools.cache
def outcomes() -> dict[str, Any]:
    """The outcomes of each reason's two programs, by id, as tools/bench/cures.py has recorded them in outcomes.json."""
    return dict(json.loads((FOLDER / "outcomes.json").read_text()))


def section(identifier: str, form: str) -> list[str]:
    """The part of a reason's page that shows its program "before" or "after" the cure, in Markdown. The list is empty if the reason has no such program."""
    found = outcomes().get(identifier, {})
    if form not in found:
        return []
    source = (FOLDER / f"{identifier}_{form}.py").read_text().rstrip()
    return [f"## {form.capitalize()}", f"```python notest\n{source}\n```", report(found[form])]


def costs(identifier: str) -> list[str]:
    """The part of a reason's page that compares its programs, in Markdown, or says why it has none."""
    found = outcomes().get(identifier)
    return [WITHOUT[identifier]] if found is None else ["## What it costs", table(found)]


def report(outcome: dict[str, Any]) -> str:
    """The report on one run of a program."""
    split, uncompiled = outcome["breaks"], outcome["uncompiled"]
    kinds = [counted(len(split), "break")] if split else []
    if uncompiled:
        kinds.append(f"{counted(len(uncompiled), 'function')} that {'runs' if len(uncompiled) == 1 else 'run'} uncompiled")
    text = f"framejit compiles {graphs_of(outcome['operations']) if outcome['operations'] else 'no graph'}"
    if kinds:
        text += f", and reports {' and '.join(kinds)}:\n\n```text\n" + "\n".join([*split, *uncompiled]) + "\n```"
    else:
        text += ", without a break."
    if outcome["raises"]:
        text += f"\n\nThe program raises {outcome['raises']}, compiled or not."
    return text


def table(found: dict[str, Any]) -> str:
    """A Markdown table with the costs of a reason's two programs side by side, and a note about how they were measured."""
    forms = [form for form in ("before", "after") if form in found]
    rows = [
        ("graphs", [str(len(found[form]["operations"])) for form in forms]),
        ("operations in graphs", [str(sum(found[form]["operations"])) for form in forms]),
        ("graph breaks", [str(len(found[form]["breaks"])) for form in forms]),
        ("functions that run uncompiled", [str(len(found[form]["uncompiled"])) for form in forms]),
    ]
    times, note = found.get("microseconds"), ""
    if times:
        rows.append(("time of the last statement", [duration(times[form]) for form in forms]))
        note = f"\n\nTimes are of later calls, with the backend {found['backend']} where the program names none, on one core. The tensors are small: \
the times show what calls cost, and not what larger graphs save."
    lines = [f"| | {' | '.join(forms)} |", "|---" * (len(forms) + 1) + "|", *(f"| {name} | {' | '.join(cells)} |" for name, cells in rows)]
    return "\n".join(lines) + f"\n\nPython {found['python']}, torch {found['torch']}; written by `{COMMAND}`.{note}"


def duration(microseconds: float) -> str:
    """A time in words."""
    return f"{microseconds:.1f} µs" if microseconds < 1000 else f"{microseconds / 1000:.1f} ms"
