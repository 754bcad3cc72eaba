"""Pages of the documentation: their blocks of code, and the output of running these."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
BLOCK = re.compile(r"^( *)```(\S*)([^\n]*)\n(.*?)^\1```[ ]*$", re.MULTILINE | re.DOTALL)
END_OF_BLOCK = "-- end of block --"
NEEDS_LIBRARIES = f"import sys\nsys.path.insert(0, {str(ROOT / 'tools')!r})\nimport libraries\n"
"""What the processes of a page with models run first, so that transformers can be imported beside a torchvision that can't."""


@dataclass(frozen=True)
class Example:
    """A block of Python on a page, the line it begins in, and the output that the page shows after it (None if it shows none)."""

    line: int
    code: str
    shown: str | None


def examples(page: str) -> list[Example]:
    """Return the Python blocks of a page that can run here. A block ```` ```python notest ```` can't; it shows code that needs a GPU, for example."""
    blocks = list(BLOCK.finditer(page))
    found = []
    for block, after in zip(blocks, [*blocks[1:], None]):
        indent, language, options, code = block.groups()
        if language == "python" and "notest" not in options.split():
            follows = after is not None and after.group(2) == "text" and not page[block.end() : after.start()].strip()
            shown = textwrap.dedent(after.group(4)) if after is not None and follows else None
            found.append(Example(page.count("\n", 0, block.start()) + 1, textwrap.dedent(code), shown))
    return found


def printed(name: str, blocks: list[Example], folder: Path, timeout: float = 280) -> list[str]:
    """
    Return each block's output on stdout and stderr. All blocks are one program `NAME.py`, in a process of its own, which works in `folder`.
    Raise an AssertionError with everything that was printed if the program fails.
    """
    program = folder / f"{name}.py"
    program.write_text("".join(f"{block.code}print({END_OF_BLOCK!r})\n" for block in blocks))
    (folder / "startup").mkdir(exist_ok=True)
    (folder / "startup" / "sitecustomize.py").write_text(NEEDS_LIBRARIES if any("transformers" in block.code for block in blocks) else "")
    own = {"FRAMEJIT_STRICT": "1", "FRAMEJIT_CACHE": "0", "PYTHONPATH": str(folder / "startup")}
    own |= {"HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1", "COLUMNS": "120"}
    environment = {variable: value for variable, value in os.environ.items() if not variable.startswith("FRAMEJIT_")} | own
    done = subprocess.run(
        [sys.executable, program.name], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout
    )
    outputs = done.stdout.split(END_OF_BLOCK + "\n")
    assert done.returncode == 0, f"the block of line {blocks[min(len(outputs), len(blocks)) - 1].line} fails:\n{done.stdout}"
    return outputs[:-1]


def agrees(shown: str, output: str) -> bool:
    """Return whether output is as shown. A line `...` in the shown text stands for any lines, `...` within a line for anything in that line."""
    pattern = []
    for line in shown.strip().splitlines():
        within = ".*".join(map(re.escape, line.rstrip().split("...")))
        pattern.append(r"(?:.*\n)*?" if line.strip() == "..." else within + r"[ ]*\n")
    return re.fullmatch("".join(pattern), output.strip("\n") + "\n") is not None
