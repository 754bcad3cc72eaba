"""The documentation's site: it builds without a warning, and each of its pages begins with an example or is known not to need one."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from pages import BLOCK, ROOT

from tools.docs.subjects import subjects

DOCS = ROOT / "docs"
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)")
WITHOUT_EXAMPLES = {
    "architecture.md": "the map of the pages in internals/, each of which begins with one",
    "bench.md": "a generated table",
    "zoo.md": "a generated table",
    "corpus.md": "a generated table",
    "features.md": "a generated table",
    "training.md": "a generated table",
    "scripts.md": "a generated table",
    "libraries.md": "a generated table",
    "checkpointing.md": "a generated table",
    "shapes-table.md": "a generated table",
    "load-table.md": "a generated table",
    "start-table.md": "a generated table",
    "second-table.md": "a generated table",
    "breaks-table.md": "a generated table",
    "boundary-table.md": "a generated table",
    "breaks/README.md": "a list of the break reasons, each with a page that has a program",
    "cases/index.md": "a list of the cases, each with a transcript",
}
"""Pages that have no example, and why."""


class ThingsLoaded(HTMLParser):
    """Addresses that a browser loads when it opens a page: scripts, style sheets, pictures and frames, but no links to other pages."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if tag in ("script", "img", "iframe"):
            self.addresses.append(given.get("src") or "")
        elif tag == "link" and given.get("rel") in ("stylesheet", "preload"):
            self.addresses.append(given.get("href") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def pages_in_nav() -> list[str]:
    """The pages that the navigation of mkdocs.yml names, which holds nothing but titles, files and lists of them."""
    lines = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2].splitlines()
    return [line.strip().removeprefix("- ").rpartition(": ")[2] for line in lines if line.strip().endswith(".md")]


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_has_every_page(site: Path) -> None:
    added = [subject.on_site.relative_to(DOCS).as_posix() for subject in subjects()]
    missing = [page for page in (*pages_in_nav(), *added) if not (site / Path(page.replace("README", "index"))).with_suffix(".html").exists()]
    assert pages_in_nav() and added and not missing


@pytest.mark.slow
def test_blocks_of_code_are_shown_as_code(site: Path) -> None:
    assert not [page for page in site.glob("**/*.html") if "```" in page.read_text()]


@pytest.mark.slow
def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    for page in site.glob("**/*.html"):
        loaded = ThingsLoaded()
        loaded.feed(page.read_text())
        assert not [address for address in loaded.addresses if "//" in address], page


@pytest.mark.parametrize("page", pages_in_nav())
def test_a_page_has_an_example_or_a_reason_to_have_none(page: str) -> None:
    languages = {block.group(2) for block in BLOCK.finditer((DOCS / page).read_text())}
    assert ("python" in languages) != (page in WITHOUT_EXAMPLES), page


@pytest.mark.parametrize("page", sorted({*DOCS.glob("**/*.md")} - {*DOCS.glob("breaks/FJ*.md")}), ids=lambda page: str(page.relative_to(DOCS)))
def test_pictures_of_a_page_are_in_the_repository_and_described(page: Path) -> None:
    for words, target in PICTURE.findall(page.read_text()):
        assert words, f"{page}: {target} has no description"
        assert (page.parent / target).is_file(), f"{page}: {target}"
