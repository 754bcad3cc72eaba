"""Models of library functions, a file per module; `load` fills the registry with them (objects/core/registry.py).

A package whose subject is a module of torch's that `import torch` doesn't import says so: `IS_ABOUT = "torch.distributed.tensor"`. Its files are loaded once
something has imported that module, before the next trace: until then, no value can be of this subject.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib import import_module

from framejit import graph, objects
from framejit.process import when_needed

_waiting: dict[str, list[str]] = {}
"""The files that aren't loaded yet, by the module that their package is about."""


def load() -> None:
    """Import every file of graph/, objects/ and library/, where each registers its meanings, but those that are imported when needed."""
    for package in (graph, objects, sys.modules[__name__]):
        for name in files_in(package.__name__):
            about = getattr(sys.modules[name.rpartition(".")[0]], "IS_ABOUT", None)
            if about is not None:
                _waiting.setdefault(about, []).append(name)
            elif name not in when_needed.NAMES:
                import_module(name)
    load_waiting()


def files_in(package: str) -> Iterator[str]:
    """The names of the modules in a package and in its packages, which are imported. `pkgutil` asks the file system about each of them several times."""
    for folder in import_module(package).__path__:
        for name, dot, suffix in sorted(file.partition(".") for file in os.listdir(folder)):
            if not dot and name != "__pycache__":
                yield from files_in(f"{package}.{name}")
            elif suffix == "py" and name != "__init__":
                yield f"{package}.{name}"


def load_waiting() -> None:
    """Import the files about modules that have been imported by now."""
    for about in [about for about in _waiting if when_needed.is_loaded(about)]:
        for name in _waiting.pop(about):
            when_needed.load(name)
