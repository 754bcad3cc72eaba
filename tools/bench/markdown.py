"""Text tables of the benchmarks: Markdown for the pages in docs/, fixed columns for the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> str:
    """A Markdown table; the columns numbered in `right` are aligned to the right."""
    rule = ["---:" if index in right else "---" for index in range(len(header))]
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in [list(header), rule, *escaped])


def cells(text: str) -> list[list[str]]:
    """The rows of the table in a text that has one; text outside the table is skipped."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def merged(text: str, rows: Sequence[Sequence[str]], names: int, order: Sequence[str]) -> list[Sequence[str]]:
    """The rows of the table in a text, if it has one, with those of a new run in place of the rows whose first `names` cells are the same.

    `order`: what the first cells are, in the order of the table.
    """
    found: dict[tuple[str, ...], Sequence[str]] = {tuple(row[:names]): row for row in [*cells(text), *rows]}
    return sorted(found.values(), key=lambda row: order.index(row[0]))


def fixed(cells: Sequence[str], widths: Sequence[int]) -> str:
    """One line with each cell padded to its width."""
    return "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()
