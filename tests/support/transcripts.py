"""Transcripts in Markdown, which can be replayed: pages that hold programs, commands and the commands' output.

A ```python block is the file that is named, as `name.py`, in the paragraph before it. A ```console block holds commands, each after `$ `, and under each
what it prints (stdout and stderr). Files and commands come in the order of the page, in a folder of its own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

import framejit

BLOCK = re.compile(r"^```(python|console)\b[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"`([\w/]+\.py)`")
PACKAGES = "|".join(re.escape(str(Path(module.__file__).parent.parent)) for module in (torch, framejit))
STANDARD_LIBRARY = re.escape(os.path.dirname(os.__file__))
VARYING = [
    (r"\b(trace|plan|backend|guards|emit) \d+\.\d", r"\1 #"),
    (r"\d[\d.]*(?= (?:ms|s|seconds|guards?)\b)", "#"),
    (r'(File "\.\.\..*", line) \d+', r"\1 #"),
    (r"\b((?:Python|torch):? +)\d[\w.+]*", r"\1#"),
    (r"0x[0-9a-f]+", "0x#"),
]
"""What differs from machine to machine, and with the versions of Python and torch."""


@dataclass(frozen=True)
class Command:
    """A command of a page. `printed`: the output that the page shows for it, which is the page's text from `start` to `end`."""

    line: str
    printed: str
    start: int
    end: int


def steps(page: str) -> Iterator[tuple[str, str] | Command]:
    """Yield the files (name and content) and commands of a page, in order."""
    for block in BLOCK.finditer(page):
        kind, text = block.groups()
        if kind == "python":
            names = FILE_NAME.findall(page[: block.start()].rstrip().rpartition("\n\n")[2])
            assert names, f"no file is named in the paragraph before: {text[:80]}"
            yield names[-1], text
            continue
        commands = list(re.finditer(r"^\$ (.*)\n", text, re.MULTILINE))
        assert commands and commands[0].start() == 0, f"a console block begins with a command: {text[:80]}"
        for command, following in zip(commands, [*commands[1:], None]):
            end = len(text) if following is None else following.start()
            yield Command(command[1], text[command.end() : end], block.start(2) + command.end(), block.start(2) + end)


def run(command: str, folder: Path) -> str:
    """Return a command's output in a folder, with framejit's default configuration, but without the entries that other processes have kept on disk."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FRAMEJIT_")}
    environment |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if "site-packages" in path or path.endswith("build")),
        "PYTHONUNBUFFERED": "1",
        "FRAMEJIT_CACHE": "0",
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
    }
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=280)
    return shown(done.stdout, folder)


def shown(text: str, folder: Path) -> str:
    """Return printed text with the paths of this machine shortened."""
    text = re.sub(rf"{re.escape(str(folder / 'inductor'))}/[\w/]+", ".../inductor/generated", text)
    text = text.replace(f"{folder}/", "")
    text = re.sub(rf"(?:{PACKAGES}|{STANDARD_LIBRARY})(?=/)", "...", text)
    return "".join(line.rstrip() + "\n" for line in text.splitlines())


def matches(expected: str, printed: str) -> bool:
    """Return whether a text is what a page expects. A line `...` stands for any lines, `...` within a line for any text; varying numbers are equal."""
    for pattern, replacement in VARYING:
        expected, printed = re.sub(pattern, replacement, expected), re.sub(pattern, replacement, printed)
    lines = [r"(?:.*\n)*?" if line.strip() == "..." else re.escape(line).replace(re.escape("..."), ".*?") + r"\n" for line in expected.splitlines()]
    return re.fullmatch("".join(lines), printed) is not None


def play(page: str, folder: Path) -> str:
    """Run a page's commands; return the page, with new output where a command prints something else than the page shows."""
    pieces, written = [], 0
    for step in steps(page):
        if isinstance(step, Command):
            printed = run(step.line, folder)
            pieces += [page[written : step.start], step.printed if matches(step.printed, printed) else printed]
            written = step.end
        else:
            (folder / step[0]).write_text(step[1])
    return "".join([*pieces, page[written:]])
