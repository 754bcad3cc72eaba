"""The pages of subjects, README.md in the packages of jit/library: each package has one of one form, which names its files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.docs import limits, subjects
from tools.docs.subjects import DOCS, ROOT, Subject

SUBJECTS = subjects.subjects()
MAP = DOCS / "architecture.md"


def subject_id(subject: Subject) -> str:
    return subject.name


def test_packages_are_found_where_they_lie() -> None:
    """They are what the code imports models from."""
    names = [subject.name for subject in SUBJECTS]
    assert {"python", "torch/hooks"} <= set(names) and "torch" not in names and "." not in names


@pytest.mark.parametrize("subject", SUBJECTS, ids=subject_id)
def test_a_package_has_a_page_with_an_example_its_files_and_its_limits(subject: Subject) -> None:
    assert subject.page.is_file(), f"{subject.name} has no README.md"
    assert re.match(r"# [^\n]+\n\n```python\n.*?\n```\n\n```text\n", subject.text, re.DOTALL)
    assert re.findall(r"^## (.*)", subject.text, re.MULTILINE) == ["Files", "Limits"]
    assert limits.section(subject.text)


@pytest.mark.parametrize("subject", SUBJECTS, ids=subject_id)
def test_a_page_says_of_each_file_what_it_owns(subject: Subject) -> None:
    assert subject.text == subject.written(), "run python -m tools.docs.subjects --write"
    assert [name for name in re.findall(r"^\| `(\w+)\.py` \| [^|]", subject.text, re.MULTILINE)] == sorted(
        path.stem for path in subject.page.parent.glob("*.py") if path.stem != "__init__"
    )


@pytest.mark.parametrize("subject", SUBJECTS, ids=subject_id)
def test_the_map_of_the_code_and_the_tests_know_each_subject(subject: Subject) -> None:
    assert f"](../jit/library/{subject.name}/README.md)" in MAP.read_text()
    assert (ROOT / "tests" / "library" / subject.name).is_dir()


def test_the_map_of_the_code_stays_a_map() -> None:
    assert len(MAP.read_text().split()) <= 2500


def package(folder: Path, page: str = "# A\n\n## Files\n\n\n## Limits\n\n- b\n") -> Subject:
    """The only subject of a library that has one package, with one file."""
    (folder / "a").mkdir()
    (folder / "a" / "__init__.py").write_text('"""A."""\n')
    (folder / "a" / "b.py").write_text('"""Owns x|y.\n\nIn detail.\n"""\n')
    (folder / "a" / "README.md").write_text(page)
    (found,) = subjects.subjects(folder)
    return found


def test_the_table_of_files_is_read_from_docstrings(tmp_path: Path) -> None:
    subject = package(tmp_path)
    written = "# A\n\n## Files\n\n| file | what it owns |\n|---|---|\n| `b.py` | Owns x\\|y. |\n\n## Limits\n\n- b\n"
    assert (subject.name, subject.title, subject.written()) == ("a", "A", written)
    subject.page.write_text(written)
    assert subject.written() == written


def test_a_page_without_a_table_of_files_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has a section '## Files'"):
        package(tmp_path, "# A\n\n## Limits\n\n- b\n").written()


def test_tables_that_are_out_of_date_are_named_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    subject = package(tmp_path)
    monkeypatch.setattr(subjects, "subjects", lambda: [subject])
    monkeypatch.setattr(subjects, "ROOT", tmp_path)
    assert subjects.main(["--check"]) == 1
    assert "the table of a/README.md is out of date; run python -m tools.docs.subjects --write" in capsys.readouterr().err
    assert (subjects.main(["--write"]), subjects.main(["--check"])) == (0, 0)
    assert "| `b.py` |" in subject.page.read_text()


def test_limits_without_a_list_are_not_in_the_page_of_limits(tmp_path: Path) -> None:
    subject = package(tmp_path)
    assert limits.of_subject(subject) == "- b"
    subject.page.write_text("# A\n\n## Limits\n\nNone are known.\n")
    assert limits.of_subject(subject) == ""
