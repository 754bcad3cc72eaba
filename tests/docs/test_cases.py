"""docs/cases: each case is solved by what framejit prints, and prints it still."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import transcripts

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "cases"
PAGES = sorted(FOLDER.glob("[0-9]*.md"))


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_transcript_comes_out_again(path, tmp_path, request):
    page = path.read_text()
    played = transcripts.play(page, tmp_path)
    if request.config.getoption("--write-traces"):
        path.write_text(played)
    else:
        assert played == page


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_each_case_has_a_program_before_and_after(path):
    steps = list(transcripts.steps(path.read_text()))
    commands = [step for step in steps if isinstance(step, transcripts.Command)]
    assert len(commands) >= 2 and not isinstance(steps[0], transcripts.Command)
    assert all(command.printed.strip() for command in commands), "each prints something"


def test_the_index_lists_the_cases():
    listed = re.findall(r"\]\((\d\d-[\w-]+\.md)\)", (FOLDER / "index.md").read_text())
    assert listed == [path.name for path in PAGES]


def test_a_transcript_notices_what_has_changed(tmp_path):
    page = "In `a.py`:\n\n```python\nprint(1)\n```\n\n```console\n$ python a.py\n1\n$ python a.py && pwd\n...\n```\n"
    assert transcripts.play(page, tmp_path) == page
    assert transcripts.play(page.replace("print(1)", "print(2)"), tmp_path) == page.replace("print(1)", "print(2)").replace("\n1\n", "\n2\n")


@pytest.mark.parametrize(("expected", "printed", "same"), [
    ("a\n...\nb\n", "a\nb\n", True), ("a\n...\nb\n", "a\n1\n2\nb\n", True), ("a ... b\n", "a 1 b\n", True), ("a\n", "a\nb\n", False), ("a 1\n", "a 2\n", False),
    ("compiled in 1.5 ms: trace 1.0, plan 0.5\n", "compiled in 20.1 ms: trace 19.0, plan 1.1\n", True), ("8 guards: .guards\n", "9 guards: .guards\n", True),
    ("for torch 2.13.0+cpu, in a\n", "for torch 2.15.0, in a\n", True), ("torch:   2.13.0\n", "torch:   2.15.0\n", True),
    ('  File ".../torch/a.py", line 3, in f\n', '  File ".../torch/a.py", line 4, in f\n', True), ('  File "a.py", line 3\n', '  File "a.py", line 4\n', False),
])  # fmt: skip
def test_what_differs_from_machine_to_machine(expected, printed, same):
    assert transcripts.matches(expected, printed) is same
