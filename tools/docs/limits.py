"""Puts docs/limits.md together from the section "Limits" of each page of the guide: `python tools/docs/limits.py --write`, or `--check`."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
ORDER = (
    "breaks", "sizes", "recompiles", "tensors", "training", "backends", "operators", "python", "distributed", "threads", "caches", "deployment", "debugging",
    "settings",
)  # fmt: skip
"""The pages of docs/guide, in the order of the subjects."""
LINK = re.compile(r"\]\((?!https?:)((?:[^)\s#]+\.md)?(?:#[^)\s]+)?)\)")
"""A link to a page of ours, a heading, or both."""
INTRODUCTION = """# Limits

This page lists what framejit doesn't put into a graph, and where compiled code is known to differ from eager. Each limit is tested or was measured. Any
other difference from eager is a bug. This page is put together from the subjects' pages by `python tools/docs/limits.py --write`.

Three things can happen to code that can't be traced. None of them changes a result.

- It **splits the graph**: Python runs it, between two graphs. This is a graph break; `FRAMEJIT_LOGS=graph_breaks` names each with its id, such as FJ001
  (see [the catalogue](breaks/README.md)).
- A call **runs natively** if Python makes it, between two graphs.
- The whole function **runs uncompiled**, with one logged line that says why, which `statistics()["uncompiled"]` and `explain()` repeat. The functions that
  it calls are compiled by themselves, unless the call makes the first step of an optimizer or of a lazy module, or a mode that the program has set must
  see each operation.
"""


def section(page: str) -> str:
    """What a page of the guide has under "## Limits", which is its last section. Raises ValueError for a page without one."""
    before, heading, text = page.partition("\n## Limits\n")
    if not heading or re.search(r"^## ", text, re.MULTILINE):
        raise ValueError("a page of the guide ends with a section '## Limits'")
    return text.strip("\n")


def from_above(text: str, page: str) -> str:
    """The text of docs/guide/`page`.md, with its links as docs/limits.md needs them."""

    def moved(link: re.Match[str]) -> str:
        target = link.group(1)
        if target.startswith("#"):
            return f"](guide/{page}.md{target})"
        return f"]({target.removeprefix('../') if target.startswith('../') else 'guide/' + target})"

    return LINK.sub(moved, text)


def assembled(docs: Path = DOCS) -> str:
    """The text of docs/limits.md. Raises ValueError for a page of the guide that isn't in the order, or is in it and isn't there."""
    pages = {path.stem: path.read_text() for path in (docs / "guide").glob("*.md") if path.stem != "index"}
    if set(pages) != set(ORDER):
        raise ValueError(f"tools/docs/limits.py orders the pages of docs/guide: {', '.join(sorted(set(pages) ^ set(ORDER)))}")
    parts = [INTRODUCTION]
    for name in ORDER:
        title = pages[name].partition("\n")[0].removeprefix("# ")
        parts.append(f"## {title}\n\nMore about it: [{title}](guide/{name}.md).\n\n{from_above(section(pages[name]), name)}\n")
    return "\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write docs/limits.md, or say whether it is up to date; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_true", help="write docs/limits.md")
    action.add_argument("--check", action="store_true", help="fail if docs/limits.md is out of date")
    asked = parser.parse_args(arguments)
    path, text = DOCS / "limits.md", assembled()
    if asked.write:
        path.write_text(text)
    elif path.read_text() != text:
        print("docs/limits.md is out of date; run python tools/docs/limits.py --write", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
