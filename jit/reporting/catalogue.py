"""Makes the pages of the break reasons from the classes in breaks/, for docs/breaks and for the command line."""

from __future__ import annotations

import re
import textwrap
from dataclasses import fields
from pathlib import Path

from framejit.breaks import CATALOGUE, Break
from framejit.errors import UnknownOption, suggestion
from framejit.reporting import programs

WIDTH = 120
INDEX = "README.md"
ONLY_SPECIFICS = re.compile(r"^\{\w+\}\.$")
"""Matches a piece of advice that consists of nothing but a field of the reason, so that a page can't show it."""


def page(reason: type[Break]) -> str:
    """One reason's page, in Markdown."""
    specifics = {field.name: f"<{field.name}>" for field in fields(reason)}
    hints = [ONLY_SPECIFICS.sub("Do what the report says about it.", hint).format(**specifics) for hint in reason.hints]
    first, _, rest = reason.page().partition("\n\n")
    parts = [
        f"# {reason.id}: {reason.__name__}",
        f"> {reason.message.format(**specifics)}",
        first,
        *programs.section(reason.id, "before"),
        f"**Why.** {reason.explanation}",
        "**What to do.**",
        "\n".join(textwrap.fill(f"- {hint}", WIDTH, subsequent_indent="  ", break_on_hyphens=False) for hint in hints),
        *programs.section(reason.id, "after"),
        *programs.costs(reason.id),
        *(["## In detail", rest] if rest else []),
    ]
    return "\n\n".join(parts) + "\n"


def summary(reason: type[Break]) -> str:
    """The first paragraph of a reason's documentation."""
    return reason.page().split("\n\n")[0].replace("\n", " ")


def index() -> str:
    """The list of all reasons, in Markdown."""
    rows = [f"| [{reason.id}]({reason.id}.md) | {reason.__name__} | {summary(reason)} |" for reason in CATALOGUE.values()]
    return "\n".join([
        "# Graph breaks, by reason",
        "",
        "Each page shows a program with this break, what to do about it, and what framejit reports about the program before and after.",
        "`python -m framejit breaks --write docs/breaks` writes these pages from `jit/breaks/`.",
        "",
        "| id | reason | |",
        "|---|---|---|",
        *rows,
        "",
    ])  # fmt: skip


def pages() -> dict[str, str]:
    """The text of each file of docs/breaks, by name."""
    return {INDEX: index(), **{f"{reason.id}.md": page(reason) for reason in CATALOGUE.values()}}


def write(folder: Path) -> list[Path]:
    """Write all pages into a folder, and remove the pages of reasons that no longer exist. Returns the files that were changed. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = pages()
    changed = []
    for path in sorted(folder.glob("FJ*.md")):
        if path.name not in wanted:
            path.unlink()
            changed.append(path)
    for name, text in wanted.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            changed.append(path)
    return changed


def find(identifier: str) -> type[Break]:
    """The reason with this id (FJ012, fj012, 12) or class name. Raises UnknownOption, with a suggestion."""
    word = identifier.strip()
    number = word.lower().removeprefix("fj")
    for reason in CATALOGUE.values():
        if word.lower() == reason.__name__.lower() or (number.isdecimal() and int(number) == int(reason.id[2:])):
            return reason
    known = [*CATALOGUE, *(reason.__name__ for reason in CATALOGUE.values())]
    raise UnknownOption(f"there is no break reason {identifier!r}{suggestion(word, known) or '; `python -m framejit breaks` lists them all'}")
