"""README.md: its examples run, one after the other, and print what stands after them; its figures are those of the pages; it stays short."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.bench import figures

README = Path(__file__).parent.parent / "README.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```(?:\n+```text\n(.*?)^```)?", README.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_examples_run_and_print_what_stands_after_them(tmp_path: Path) -> None:
    program = tmp_path / "examples.py"
    program.write_text("\n".join(code for code, _ in EXAMPLES))
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=280, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert EXAMPLES and done.stdout == "".join(printed for _, printed in EXAMPLES)


def test_it_is_read_in_minutes() -> None:
    assert len(README.read_text().splitlines()) <= 150


def test_its_table_and_plot_are_what_the_pages_of_the_benchmarks_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert figures.main(["--check"]) == 0, capsys.readouterr().out


def test_a_page_that_has_changed_makes_the_figures_outdated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "docs").mkdir()
    for name in ("bench.md", "training.md", "zoo.md", "start-table.md", "second-table.md", "figures.svg", "start.svg"):
        text = (figures.ROOT / "docs" / name).read_text()
        (tmp_path / "docs" / name).write_text(text.replace("| 0.805 |", "| 0.905 |"))
    (tmp_path / "README.md").write_text(README.read_text())
    places = {"ROOT": tmp_path, "README": tmp_path / "README.md", "PLOT": tmp_path / "docs" / "figures.svg", "START": tmp_path / "docs" / "start.svg"}
    for name, path in places.items():
        monkeypatch.setattr(figures, name, path)
    assert figures.main(["--check"]) == 1
    assert "README.md isn't what the pages" in (said := capsys.readouterr().out) and "docs/figures.svg isn't" in said
    assert figures.main([]) == 0 and figures.main(["--check"]) == 0
    assert "| 0.905 s | 0.20 |" in (tmp_path / "README.md").read_text() and ">0.905 s<" in (tmp_path / "docs" / "figures.svg").read_text()
