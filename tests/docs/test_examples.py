"""The pages of the documentation, and those of subjects in jit/library: their examples run, and print what the pages show."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
from pages import ROOT, Example, agrees, examples, printed

from tools.docs.subjects import LIBRARY

RUN_ELSEWHERE = {"breaks": "tests/breaks/test_pages.py", "cases": "tests/docs/test_cases.py"}
"""Folders of docs/ with the tests that run their programs in another way."""


def pages_with_examples() -> list[Path]:
    pages = sorted([*(ROOT / "docs").glob("**/*.md"), *LIBRARY.glob("**/README.md")])
    return [page for page in pages if page.parent.name not in RUN_ELSEWHERE and examples(page.read_text())]


@pytest.mark.slow
@pytest.mark.parametrize("page", pages_with_examples(), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_of_a_page_run_and_print_what_it_shows(page: Path, tmp_path: Path) -> None:
    blocks = examples(page.read_text())
    for block, output in zip(blocks, printed(page.stem.replace("-", "_"), blocks, tmp_path), strict=True):
        if block.shown is not None:
            difference = "\n".join(difflib.unified_diff(block.shown.splitlines(), output.splitlines(), "shown", "printed", lineterm=""))
            assert agrees(block.shown, output), f"{page.relative_to(ROOT)}, after the block of line {block.line}:\n{difference}"


PAGE = """
```python
a = 1
print(a)
```

```text
1
```

- A list:

  ```python
  print(a + 1)
  ```

  Words between.

  ```text
  not its output
  ```

```python notest
a.cuda()
```
"""


def test_blocks_are_read_with_the_output_that_follows_them() -> None:
    assert examples(PAGE) == [Example(2, "a = 1\nprint(a)\n", "1\n"), Example(13, "print(a + 1)\n", None)]


def test_blocks_share_a_namespace_and_an_error_names_the_block(tmp_path: Path) -> None:
    assert printed("page", examples(PAGE), tmp_path) == ["1\n", "2\n"]
    with pytest.raises(AssertionError, match=r"(?s)the block of line 9 fails:.*page.py.*ZeroDivisionError"):
        printed("page", [*examples(PAGE), Example(9, "1 / 0\n", None)], tmp_path)


def test_dots_stand_for_lines_and_for_parts_of_a_line() -> None:
    assert agrees("one\n...\nfour\n", "one\ntwo\nthree\nfour\n")
    assert agrees("one\n...\nfour\n", "one\nfour\n")
    assert agrees("took ... s\n", "took 0.12 s\n")
    assert not agrees("took ... s\n", "took 0.12\nor 1 s\n")
    assert not agrees("one\n", "one\ntwo\n")
    assert not agrees("a.c\n", "abc\n")
