"""docs/guide: each page begins with an example and ends with its limits, and its tables name what there is. docs/limits.md is put together from it."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from framejit import config, logs
from tools.docs import limits
from tools.docs.subjects import DOCS, LINK, ROOT, anchor, subjects

SUBJECTS = {subject.name: subject for subject in subjects()}
GUIDE = sorted((DOCS / "guide").glob("*.md"))


def page_id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", GUIDE, ids=lambda page: page.stem)
def test_a_page_begins_with_an_example_and_ends_with_its_limits(page: Path) -> None:
    assert re.match(r"# [^\n]+\n\n```python\n", page.read_text())
    assert limits.section(page.read_text())


def test_the_page_of_limits_is_up_to_date() -> None:
    assert (DOCS / "limits.md").read_text() == limits.assembled(), "run python -m tools.docs.limits --write"


@pytest.mark.parametrize(
    ("page", "text", "moved"),
    [
        (DOCS / "guide" / "python.md", "[a](sizes.md#limits) [b](../breaks/FJ001.md)", "[a](guide/sizes.md#limits) [b](breaks/FJ001.md)"),
        (DOCS / "guide" / "python.md", "[c](#limits) [d](https://example.org)", "[c](guide/python.md#limits) [d](https://example.org)"),
        (DOCS / "guide" / "python.md", "[e](../limits.md#hooks)", "[e](#hooks)"),
        (SUBJECTS["numpy"].page, "[f](../../../docs/faq.md)", "[f](faq.md)"),
        (SUBJECTS["numpy"].page, "[g](../torch/hooks/README.md#limits)", "[g](#hooks)"),
    ],
)
def test_links_in_limits_are_moved_with_them(page: Path, text: str, moved: str) -> None:
    target = limits.leads_to(DOCS, {subject.page: subject for subject in SUBJECTS.values()})
    assert limits.relinked(text, page, target) == moved


def test_limits_have_no_links_to_code() -> None:
    with pytest.raises(ValueError, match=r"can't have a link to .*CONTRIBUTING.md"):
        limits.relinked("[a](../../CONTRIBUTING.md)", DOCS / "guide" / "python.md", limits.leads_to(DOCS, {}))


@pytest.mark.parametrize("page", GUIDE, ids=lambda page: page.stem)
def test_a_page_leads_to_the_limits_of_its_packages(page: Path) -> None:
    """The last paragraph of its limits has links to the headings of those packages that list limits, in the order of docs/limits.md, and the rest has none."""
    _, begins, paragraph = ("\n" + limits.section(page.read_text())).partition("\n" + limits.ELSEWHERE)
    about = [SUBJECTS[name] for name in limits.CHAPTERS[page.stem]]
    expected = [f"../limits.md#{anchor(subject.title)}" for subject in about if limits.of_subject(subject)]
    assert [link for link in LINK.findall(paragraph) if "#" in link] == expected
    assert "\n\n" not in paragraph and "limits.md" not in limits.of_guide(page.read_text())


@pytest.mark.parametrize("text", ["# A\n\nno limits\n", "# A\n\n## Limits\n\n- b\n\n## More\n"])
def test_limits_are_the_last_section_of_a_page(text: str) -> None:
    with pytest.raises(ValueError, match="ends with a section '## Limits'"):
        limits.section(text)


def test_a_page_that_is_not_in_the_order_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "guide").mkdir()
    for name in (*limits.CHAPTERS, "new"):
        (tmp_path / "guide" / f"{name}.md").write_text("# A\n\n## Limits\n\n- b\n")
    with pytest.raises(ValueError, match="page of docs/guide once: new"):
        limits.assembled(tmp_path)


def test_a_package_that_is_in_no_chapter_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(limits.CHAPTERS, "operators", ())
    with pytest.raises(ValueError, match="package of jit/library once: .*torch/script"):
        limits.assembled()


@pytest.mark.parametrize(
    "page", [*GUIDE, *(subject.page for subject in SUBJECTS.values()), DOCS / "limits.md", DOCS / "faq.md"], ids=page_id
)
def test_links_lead_to_pages_and_headings(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
        target, _, heading = link.partition("#")
        linked = page.parent / target if target else page
        assert linked.is_file(), target
        headings = re.findall(r"^#+ (.*)", linked.read_text(), re.MULTILINE)
        assert not heading or heading in map(anchor, headings), link


def rows(page: str, heading: str) -> list[list[str]]:
    """The rows of the first table on a page whose heading row begins so, without its heading."""
    lines = (DOCS / "guide" / page).read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith(f"| {heading} |")) + 2
    last = next(i for i in range(first, len(lines)) if not lines[i].startswith("|"))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[first:last]]


def test_the_table_of_settings_names_each_with_its_default() -> None:
    shown = {name.strip("` "): default.strip("`") for names, default, _ in rows("settings.md", "variable") for name in names.split(",")}
    defaults = {f.name: f.default for f in dataclasses.fields(config.Config)}
    expected = {f"{config.PREFIX}{name.upper()}": str(int(value) if isinstance(value, bool) else value) for name, value in defaults.items()}
    assert shown == expected | {"TORCH_COMPILE_DISABLE": "0"}


def test_the_tables_of_logs_and_checks_name_all() -> None:
    assert {name.strip("`") for name, _ in rows("debugging.md", "log")} == set(logs.NAMES)
    checks = {word for name, _ in rows("debugging.md", "check") for word in re.findall(r"FRAMEJIT_CHECK=(\w+)", name)}
    assert checks == config.CHECKS
