"""docs/internals and docs/architecture.md: each layer has a page of one form. What they and the pages of subjects name exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.docs.subjects import subjects

ROOT = Path(__file__).resolve().parents[2]
INTERNALS = ROOT / "docs" / "internals"
LAYERS = [INTERNALS / f"{name}.md" for name in
          ("hook", "bytecode", "tracing", "objects", "graphs", "guards", "codegen", "breaks-and-resume", "backends", "driver")]  # fmt: skip
PAGES = [*LAYERS, INTERNALS / "index.md", INTERNALS / "tiny.md", ROOT / "docs" / "architecture.md"]
NAMING_FILES = [*PAGES, *(subject.page for subject in subjects())]
SOURCES = [path.relative_to(ROOT).as_posix() for folder in ("jit", "guards", "runtime_c", "tests", "docs/internals/tiny")
           for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".pyi", ".c", ".h", ".cpp")]  # fmt: skip


def page_id(page: Path) -> str:
    return page.stem if page in PAGES else page.parent.name


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", NAMING_FILES, ids=page_id)
def test_files_that_a_page_names_exist(page):
    """`a/b.py` is a file whose path ends so; `a/*.py` and `pyXYZ.c` stand for several. Those of CPython are named with its folder."""
    named = set(re.findall(rf"`({FILE})`", prose(page)))
    assert not [name for name in named if not name.startswith(("Objects/", "Python/")) and not found(name)]
    assert named or page.stem == "index"


FILE = r"[\w/*]+\.(?:py|pyi|cpp|c|h)"


def found(name: str) -> list[str]:
    """The sources that a name stands for."""
    pattern = re.escape(name).replace(r"\*", r"[^/]*").replace("XYZ", r"\d+")
    return [source for source in SOURCES if re.search(rf"(^|/){pattern}$", source)]


@pytest.mark.parametrize("page", NAMING_FILES, ids=page_id)
def test_what_a_page_says_to_be_in_a_file_is_there(page):
    """`name` in `file.py`, or `name` (`file.py`): the file has that name."""
    said = re.findall(rf"`([A-Za-z_]\w*)`(?: in|,)? (?:the )?\(?`({FILE})`", prose(page))
    assert not [(name, file) for name, file in said if not any(re.search(rf"\b{name}\b", (ROOT / source).read_text()) for source in found(file))]


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_of_a_page_lead_somewhere(page):
    targets = re.findall(r"\]\(([\w./-]+\w)(?:#[^)]*)?\)", prose(page))
    assert targets
    assert not [target for target in targets if not (page.parent / target).exists()]


@pytest.mark.parametrize("page", LAYERS, ids=page_id)
def test_a_layers_page_begins_with_an_example_and_ends_with_what_to_change(page):
    text = page.read_text()
    title, _, rest = text.partition("\n\n")
    assert title.startswith("# ")
    assert rest.startswith("```python\n")
    example, _, after = rest.partition("\n```\n")
    assert after.startswith("```text\n"), "an example is followed by what it prints"
    sections = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert sections[-2:] == ["Invariants and traps", "Where to change what"]


def test_the_index_and_the_map_name_each_layer():
    for page in LAYERS:
        assert f"({page.name})" in (INTERNALS / "index.md").read_text()
        assert f"(internals/{page.name})" in (ROOT / "docs" / "architecture.md").read_text()


def test_each_room_of_the_code_has_a_page():
    rooms = {source.split("/")[1] for source in SOURCES if source.startswith("jit/") and source.count("/") > 1}
    texts = "".join(page.read_text() for page in LAYERS)
    assert not [room for room in rooms if f"jit/{room}/" not in texts and room != "guards"]
