"""Runs the programs of the break pages, before and after the cure, and writes down what framejit reports of them and how long they take.

`python -m tools.bench.cures` writes jit/breaks/programs/outcomes.json; with `--times` it measures times too, else it keeps the existing ones.
Then `python -m framejit breaks --write docs/breaks` writes the pages. A program is a script whose last statement is run again and again.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import functools
import io
import json
import logging
import os
import platform
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

import framejit
from framejit import config
from framejit.breaks import Break
from framejit.errors import UserFrame
from framejit.report import FrameNote, recording
from tools.measure import alternate, seed_everything

PROGRAMS = Path(__file__).resolve().parents[2] / "jit" / "breaks" / "programs"
OUTCOMES = PROGRAMS / "outcomes.json"
FORMS = ("before", "after")


@dataclass
class Outcome:
    """The report of one run of a program. `operations`: their number in each graph of its functions; `breaks`, `uncompiled`: a text of a few lines for each.

    Those that no line of the program causes are left out. `raises`: the class of what the program raises.
    """

    operations: list[int]
    breaks: list[str]
    uncompiled: list[str]
    raises: str = ""

    @property
    def ids(self) -> list[str]:
        """The reasons of the breaks and of the frames that run uncompiled."""
        return [text.partition(": ")[2].partition(" ")[0] for text in [*self.breaks, *self.uncompiled]]


class Program:
    """A script: everything but its last statement runs once, and the last one runs as often as it is called."""

    def __init__(self, path: Path) -> None:
        self.path = path
        tree = ast.parse(path.read_text())
        self.names: dict[str, Any] = {"__name__": "__main__", "__file__": str(path)}
        self.beginning = compile(ast.Module(tree.body[:-1], []), str(path), "exec")
        self.end = compile(ast.Module(tree.body[-1:], []), str(path), "exec")

    def begin(self) -> None:
        exec(self.beginning, self.names)

    def call(self) -> Any:
        """Execute the last statement; returns the value of the variable `result`."""
        exec(self.end, self.names)
        return self.names["result"]


def program(identifier: str, form: str) -> Program | None:
    """The program of a reason in one form, "before" or "after" the cure; None if there is none."""
    path = PROGRAMS / f"{identifier}_{form}.py"
    return Program(path) if path.exists() else None


@contextlib.contextmanager
def surroundings(stance: str = "default", **options: Any) -> Iterator[None]:
    """Make the surroundings in which programs of the pages run: nothing is compiled before, nothing is logged, and nothing is left of them afterwards."""
    environment = dict(os.environ)
    imported = {name: sys.modules.pop(name) for name in IMPORTED_BY_PROGRAMS if name in sys.modules}
    os.environ["PYTHONBREAKPOINT"] = "0"  # breakpoint() returns at once
    framejit.reset()
    seed_everything()
    logger = logging.getLogger("framejit")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with config.replace(**options), framejit.set_stance(stance), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
        os.environ.clear()
        os.environ.update(environment)
        for name in IMPORTED_BY_PROGRAMS:
            sys.modules.pop(name, None)
        sys.modules.update(imported)
        framejit.reset()


IMPORTED_BY_PROGRAMS = {"colorsys"}
"""Modules whose first import is what a program is about."""


def run(identifier: str, form: str) -> tuple[Outcome, Any, str]:
    """Run a program once, with the backend "eager" if it asks for none. Returns what framejit reports, its result, and what it prints."""
    script = program(identifier, form)
    assert script is not None
    with surroundings(backend="eager"), recording() as found:
        assert isinstance(sys.stdout, io.StringIO)
        script.begin()
        result, raised = attempt(script.call)
        return outcome(found.frames, script.path, raised), result, sys.stdout.getvalue()


def run_uncompiled(identifier: str, form: str) -> tuple[Any, str, str]:
    """Run a program once without compiling anything. Returns its result, what it prints, and the class of what it raises."""
    script = program(identifier, form)
    assert script is not None
    with surroundings("force_eager"):
        assert isinstance(sys.stdout, io.StringIO)
        script.begin()
        result, raised = attempt(script.call)
        return result, sys.stdout.getvalue(), raised


def attempt(call: Callable[[], Any]) -> tuple[Any, str]:
    """The result of a call, and the class of the exception that it raises."""
    try:
        return call(), ""
    except Exception as error:
        return None, f"{type(error).__module__}.{type(error).__qualname__}"


def outcome(notes: list[FrameNote], path: Path, raised: str) -> Outcome:
    """The outcome that the notes of all compilations add up to."""
    breaks = [told(note.broke.reason, note.broke.stack, path) for note in notes if note.broke is not None]
    uncompiled = [told(note.fallback, note.fallback_stack, path) for note in notes if note.fallback is not None]
    return Outcome(
        [note.operations for note in notes if note.operations is not None and note.filename == str(path)],
        list(filter(None, breaks)),
        list(filter(None, uncompiled)),
        raised,
    )


def told(reason: Break, stack: tuple[UserFrame, ...], path: Path) -> str:
    """A break, or why a function runs uncompiled: the line of the program, and the expression in it that led there; empty if there is none."""
    frames = [frame for frame in stack if frame.filename == str(path)]
    if not frames:
        return ""
    _, *source = frames[-1].render().splitlines()
    indent = len(source[0]) - len(source[0].lstrip())
    text = LIBRARY.sub("", str(reason))
    return "\n".join([f"line {frames[-1].lineno}, in {frames[-1].function}: {text}", *("    " + line[indent:] for line in source)])


LIBRARY = re.compile(r"(?<=\()\S*/lib/python3\.\d+/(site-packages/)?|(?<=\.py):\d+(?=\)$)")
"""The pattern of what depends on the machine in the name of a library's file: the folder that it is installed in, and the line of that release."""


def identifiers() -> list[str]:
    """The reasons that have a program."""
    return sorted({path.name.partition("_")[0] for path in PROGRAMS.glob("FJ*.py")})


SINCE_PYTHON = {"FJ061": (3, 12)}
"""Reasons that older versions of Python don't know."""


def runnable() -> list[str]:
    """The reasons whose programs show something with the running Python."""
    return [identifier for identifier in identifiers() if sys.version_info >= SINCE_PYTHON.get(identifier, (3,))]


def microseconds(identifier: str, backend: str, seconds: float) -> dict[str, float]:
    """The time that the last statement of each form takes, once all is compiled."""
    scripts = {form: found for form in FORMS if (found := program(identifier, form)) is not None}
    with surroundings(backend=backend):
        calls: dict[str, Callable[[], Any]] = {}
        for form, script in scripts.items():
            script.begin()
            calls[form] = functools.partial(attempt, script.call)
            for _ in range(3):
                attempt(script.call)
        return {form: round(found * 1e6, 1) for form, found in alternate(calls, seconds).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", metavar="IDS", default="", help="only these reasons, with commas between them")
    parser.add_argument("--times", action="store_true", help="measure times too")
    parser.add_argument("--backend", default="inductor", help="the backend of the times (default: inductor)")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long the times of a reason are measured")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    reasons = json.loads(OUTCOMES.read_text()) if OUTCOMES.exists() else {}
    for identifier in asked.only.split(",") if asked.only else runnable():
        row = reasons.setdefault(identifier, {})
        row["python"], row["torch"] = platform.python_version().rpartition(".")[0], torch.__version__.partition("+")[0]
        for form in FORMS:
            row.pop(form, None)
            if program(identifier, form) is not None:
                row[form] = asdict(run(identifier, form)[0])
        if asked.times:
            row["backend"], row["microseconds"] = asked.backend, microseconds(identifier, asked.backend, asked.seconds)
        print(identifier, json.dumps(row, indent=1, ensure_ascii=False), flush=True)
        ordered = {identifier: reasons[identifier] for identifier in identifiers() if identifier in reasons}
        OUTCOMES.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
