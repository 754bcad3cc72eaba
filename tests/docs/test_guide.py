"""docs/guide: each page begins with an example and ends with its limits, and its tables name what there is. docs/limits.md is put together from it."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from framejit import config, logs
from tools.docs import limits

DOCS = Path(__file__).parent.parent.parent / "docs"
GUIDE = sorted((DOCS / "guide").glob("*.md"))


@pytest.mark.parametrize("page", GUIDE, ids=lambda page: page.stem)
def test_a_page_begins_with_an_example_and_ends_with_its_limits(page: Path) -> None:
    assert re.match(r"# [^\n]+\n\n```python\n", page.read_text())
    assert limits.section(page.read_text())


def test_the_page_of_limits_is_up_to_date() -> None:
    assert (DOCS / "limits.md").read_text() == limits.assembled(), "run python tools/docs/limits.py --write"


def test_links_in_limits_are_moved_with_them() -> None:
    text = "[a](sizes.md#limits) [b](../breaks/FJ001.md) [c](#limits) [d](https://example.org)"
    assert limits.from_above(text, "python") == (
        "[a](guide/sizes.md#limits) [b](breaks/FJ001.md) [c](guide/python.md#limits) [d](https://example.org)"
    )


@pytest.mark.parametrize("text", ["# A\n\nno limits\n", "# A\n\n## Limits\n\n- b\n\n## More\n"])
def test_limits_are_the_last_section_of_a_page(text: str) -> None:
    with pytest.raises(ValueError, match="ends with a section '## Limits'"):
        limits.section(text)


def test_a_page_that_is_not_in_the_order_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "guide").mkdir()
    for name in (*limits.ORDER, "new"):
        (tmp_path / "guide" / f"{name}.md").write_text("# A\n\n## Limits\n\n- b\n")
    with pytest.raises(ValueError, match="docs/guide: new"):
        limits.assembled(tmp_path)


@pytest.mark.parametrize("page", [*GUIDE, DOCS / "limits.md", DOCS / "faq.md"], ids=lambda page: page.stem)
def test_links_lead_to_pages_and_headings(page: Path) -> None:
    for link in limits.LINK.findall(page.read_text()):
        target, _, anchor = link.partition("#")
        linked = page.parent / target if target else page
        assert linked.is_file(), target
        headings = re.findall(r"^#+ (.*)", linked.read_text(), re.MULTILINE)
        assert not anchor or anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}, (
            f"{target}#{anchor}"
        )


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
