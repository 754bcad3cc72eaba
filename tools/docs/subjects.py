"""The pages of subjects, README.md in each package of jit/library, and their tables of files: `python -m tools.docs.subjects --write`, or `--check`."""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
LIBRARY = ROOT / "jit" / "library"
LINK = re.compile(r"\]\((?!https?:)((?:[^)\s#]+\.md)?(?:#[^)\s]+)?)\)")
"""A link to a page of ours, a heading, or both."""
FILES = re.compile(r"(?<=\n## Files\n\n)(?:\|[^\n]*\n)*")
"""The table of files on a page."""


@dataclass(frozen=True)
class Subject:
    """A package of jit/library. `name`: its folder, from jit/library, such as `torch/hooks`; `page`: its page, which is there if the package has one."""

    name: str
    page: Path

    @property
    def text(self) -> str:
        """The text of the page."""
        return self.page.read_text()

    @property
    def title(self) -> str:
        """The heading of the page."""
        return self.text.partition("\n")[0].removeprefix("# ")

    @property
    def on_site(self) -> Path:
        """The path of the page on the documentation's site, which has it among the pages of docs/, as if it were a file there."""
        return DOCS / "subjects" / f"{self.name}.md"

    def table(self) -> str:
        """A row for each file of the package, with the first line of its docstring."""
        files = sorted(path for path in self.page.parent.glob("*.py") if path.stem != "__init__")
        rows = [f"| `{path.name}` | {owned(path)} |\n" for path in files]
        return "".join(["| file | what it owns |\n", "|---|---|\n", *rows])

    def written(self) -> str:
        """The page with its table of files as it should be. Raises ValueError for a page without a section of files."""
        if not FILES.search(self.text):
            raise ValueError(f"{self.page}: a page of a subject has a section '## Files'")
        return FILES.sub(lambda _: self.table(), self.text, count=1)


def owned(path: Path) -> str:
    """The first line of a file's docstring, as a cell of a table."""
    return (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0].replace("|", "\\|")


def subjects(library: Path = LIBRARY) -> list[Subject]:
    """The packages that hold files of models, in alphabetical order."""
    folders = {path.parent for path in library.rglob("*.py") if path.stem != "__init__"} - {library}
    return [Subject(folder.relative_to(library).as_posix(), folder / "README.md") for folder in sorted(folders)]


def anchor(heading: str) -> str:
    """The anchor that a code host and the site give to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def relinked(text: str, page: Path, leads_to: Callable[[Path, str], str]) -> str:
    """The text of a page with other links. `leads_to` gives the new target of a link, for the page and the anchor ("" or "#heading") that it led to."""

    def moved(link: re.Match[str]) -> str:
        target, _, heading = link.group(1).partition("#")
        return f"]({leads_to((page.parent / target).resolve() if target else page, heading and '#' + heading)})"

    return LINK.sub(moved, text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the tables of files, or say which are out of date; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_true", help="write the tables of files")
    action.add_argument("--check", action="store_true", help="fail if one is out of date")
    asked = parser.parse_args(arguments)
    stale = [subject for subject in subjects() if subject.written() != subject.text]
    for subject in stale:
        if asked.write:
            subject.page.write_text(subject.written())
        else:
            print(
                f"the table of {subject.page.relative_to(ROOT)} is out of date; run python -m tools.docs.subjects --write", file=sys.stderr
            )
    return int(bool(stale) and not asked.write)


if __name__ == "__main__":
    sys.exit(main())
