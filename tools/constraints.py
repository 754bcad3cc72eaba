"""Lets pip install the torch that a tool names, on machines where a file of constraints allows only older ones.

PIP_CONSTRAINT="$(python -m tools.constraints FOLDER)" pip install torch==2.15.0

Prints the path of a copy of the constraints, written into the folder, without the lines about torch and the packages that are released
with it; prints nothing where pip's constraints have no such line, and pip then reads what it would read anyway.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

RELEASED_WITH_TORCH = re.compile(r"\s*(torch|torchvision|torchaudio|triton)\b(?![.-])", re.IGNORECASE)


def configured() -> list[Path]:
    """The files of constraints that pip reads here, by its variable or its configuration."""
    done = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    values = dict(re.findall(r"^(\S+)\.constraint='(.*)'$", done.stdout, re.MULTILINE))
    named = next(filter(None, map(values.get, (":env:", "install", "global"))), "")
    return [Path(name) for name in named.replace("\\n", " ").split() if os.path.isfile(name)]


def without_torch(folder: Path) -> str:
    """The path of a file of the constraints that don't concern torch; empty if none do. Prints one line where it leaves some out."""
    files = configured()
    lines = [line for file in files for line in file.read_text().splitlines()]
    kept = [line for line in lines if not RELEASED_WITH_TORCH.match(line)]
    if kept == lines:
        return ""
    print(f"pip's constraints on torch are lifted here, where versions are named ({', '.join(map(str, files))})", file=sys.stderr)
    folder.mkdir(parents=True, exist_ok=True)
    copy = folder / "constraints.txt"
    copy.write_text("".join(f"{line}\n" for line in kept))
    return str(copy)


def main(arguments: Sequence[str]) -> int:
    (folder,) = arguments
    print(without_torch(Path(folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
