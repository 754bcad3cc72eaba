"""Programs of libraries that are built on torch, as the libraries' users write them; a file for each library, named as it is imported.

The files import their libraries, which needn't be installed: names and descriptions of programs are read from the files' syntax trees.
"""

from __future__ import annotations

import ast
import functools
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.bench.library_programs import program

FOLDER = Path(__file__).parent
LIBRARIES = tuple(sorted((path.stem for path in FOLDER.glob("*.py") if path.stem not in ("__init__", "program")), key=str.lower))


@dataclass(frozen=True)
class Listed:
    """A program as its file names it: the library, its own name, what it does."""

    library: str
    name: str
    about: str

    @property
    def key(self) -> str:
        """The name of its entry among the records: `library:name`."""
        return f"{self.library}:{self.name}"


@functools.cache
def listed() -> tuple[Listed, ...]:
    """All programs, without importing any library."""
    return tuple(found for library in LIBRARIES for found in _of_file(library))


def _of_file(library: str) -> Iterator[Listed]:
    """The programs of a file: functions that `@program` decorates, and the two of each that `@model(...)` does."""
    tree = ast.parse((FOLDER / f"{library}.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            about = " ".join((ast.get_docstring(node) or "").split()).rstrip(".")
            match node.decorator_list[0]:
                case ast.Name("program"):
                    yield Listed(library, node.name, about)
                case ast.Call(ast.Name("model")):
                    yield from (Listed(library, f"{node.name}_{kind}", text.format(about)) for kind, text in program.KINDS.items())


def loaded(key: str) -> program.Program:
    """A program, whose library is imported."""
    importlib.import_module(f"{__name__}.{key.partition(':')[0]}")
    return program.PROGRAMS[key]


def select(only: str | None) -> list[Listed]:
    """The programs of a comma-separated list of libraries and `library:name`s, or all.

    Raises:
        ValueError: there is no such library or program.
    """
    wanted = only.split(",") if only else list(LIBRARIES)
    known = {*LIBRARIES, *(found.key for found in listed())}
    if unknown := [name for name in wanted if name not in known]:
        raise ValueError(f"unknown program {', '.join(unknown)}; libraries are {', '.join(LIBRARIES)}")
    return [found for found in listed() if found.library in wanted or found.key in wanted]
