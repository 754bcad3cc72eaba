"""Puts docs/limits.md together from the section "Limits" of the pages of the guide and of subjects: `python -m tools.docs.limits --write`, or `--check`."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tools.docs.subjects import DOCS, Subject, anchor, relinked, subjects

CHAPTERS: dict[str, tuple[str, ...]] = {
    "breaks": ("directives",),
    "sizes": (),
    "recompiles": (),
    "tensors": (
        "torch/tensors", "random", "torch/distributions", "numpy", "torch/overrides", "torch/jagged", "torch/sparse", "torch/masked",
    ),
    "training": ("torch/autograd", "torch/optim", "torch/hooks", "torch/checkpoint", "torch/nn", "torch/recurrent"),
    "backends": ("torch/settings",),
    "operators": (
        *("torch/operators", "torch/script", "torch/triton", "torch/control_flow", "torch/attention", "torch/flex_attention"),
        *("torch/inner_graphs", "torch/transforms"),
    ),
    "python": ("python", "ecosystem"),
    "distributed": ("torch/distributed", "torch/collectives"),
    "threads": (),
    "caches": (),
    "deployment": (),
    "debugging": (),
    "settings": (),
}  # fmt: skip
"""The pages of docs/guide, in the order of docs/limits.md, each with the packages of jit/library whose limits follow its own."""
ELSEWHERE = "The limits of ["
"""The beginning of the paragraph with links to the limits of packages, which is the last of a guide page's limits if the page has one."""
INTRODUCTION = """# Limits

This page lists what framejit doesn't put into a graph, and where compiled code is known to differ from eager. Each limit is tested or was measured. Any
other difference from eager is a bug. This page is put together from the subjects' pages by `python -m tools.docs.limits --write`.

Three things can happen to code that can't be traced. None of them changes a result.

- It **splits the graph**: Python runs it, between two graphs. This is a graph break; `FRAMEJIT_LOGS=graph_breaks` names each with its id, such as FJ001
  (see [the catalogue](breaks/README.md)).
- A call **runs natively** if Python makes it, between two graphs.
- The whole function **runs uncompiled**, with one logged line that says why, which `statistics()["uncompiled"]` and `explain()` repeat. The functions that
  it calls are compiled by themselves, unless the call makes the first step of an optimizer or of a lazy module, or a mode that the program has set must
  see each operation.
"""


def section(page: str) -> str:
    """Return what a page has under "## Limits", which is its last section. Raises ValueError for a page without one."""
    before, heading, text = page.partition("\n## Limits\n")
    if not heading or re.search(r"^## ", text, re.MULTILINE):
        raise ValueError("a page of the guide or of a subject ends with a section '## Limits'")
    return text.strip("\n")


def leads_to(docs: Path, by_page: Mapping[Path, Subject]) -> Callable[[Path, str], str]:
    """Return a function that gives the target of a link from docs/limits.md to a page: for a subject's page, the heading of its limits. It raises
    ValueError for another page that isn't in docs."""

    def target(page: Path, heading: str) -> str:
        if page == docs / "limits.md":
            return heading
        if page in by_page:
            return "#" + anchor(by_page[page].title)
        if not page.is_relative_to(docs):
            raise ValueError(f"docs/limits.md can't have a link to {page}, which is no page in docs")
        return page.relative_to(docs).as_posix() + heading

    return target


def of_guide(page: str) -> str:
    """The limits of a guide's page that are its own: without the paragraph that says where others are."""
    own, _, _ = ("\n\n" + section(page)).partition("\n\n" + ELSEWHERE)
    return own.strip("\n")


def of_subject(subject: Subject) -> str:
    """The limits on a subject's page; empty if it lists none."""
    limits = section(subject.text)
    return limits if re.search(r"^- ", limits, re.MULTILINE) else ""


def chapter(path: Path, about: Sequence[Subject], target: Callable[[Path, str], str]) -> str:
    """The chapter of a guide's page: its limits, then those of these packages."""
    page = path.read_text()
    title = page.partition("\n")[0].removeprefix("# ")
    parts = [f"## {title}", f"More about it: [{title}](guide/{path.name}).", relinked(of_guide(page), path, target)]
    for subject in about:
        limits = of_subject(subject)
        parts += [f"### {subject.title}", relinked(limits, subject.page, target)] if limits else []
    return "\n\n".join(part for part in parts if part) + "\n"


def checked(kind: str, found: set[str], ordered: Sequence[str]) -> None:
    """Raise ValueError if what is there isn't what CHAPTERS orders, or CHAPTERS names a thing twice."""
    if found != set(ordered) or len(ordered) != len(set(ordered)):
        raise ValueError(f"CHAPTERS in tools/docs/limits.py has each {kind} once: {', '.join(sorted(found ^ set(ordered)))}")


def assembled(docs: Path = DOCS) -> str:
    """The text of docs/limits.md. Raises ValueError for a page of the guide, or a package, that CHAPTERS doesn't name, or names and isn't there."""
    by_name = {subject.name: subject for subject in subjects()}
    checked("page of docs/guide", {path.stem for path in (docs / "guide").glob("*.md") if path.stem != "index"}, list(CHAPTERS))
    checked("package of jit/library", set(by_name), [name for names in CHAPTERS.values() for name in names])
    target = leads_to(docs, {subject.page: subject for subject in by_name.values()})
    chapters = [chapter(docs / "guide" / f"{name}.md", [by_name[name] for name in names], target) for name, names in CHAPTERS.items()]
    return "\n".join([INTRODUCTION, *chapters])


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
        print("docs/limits.md is out of date; run python -m tools.docs.limits --write", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
