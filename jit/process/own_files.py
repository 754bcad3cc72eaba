"""Finders for framejit's own packages, in force while many of its modules are imported: the import system's own ask the file system about each one."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, FileFinder, ModuleSpec, SourceFileLoader
from types import ModuleType

FRAMEJIT = __name__.partition(".")[0]


class Folder:
    """Finds the modules in the folder of a package (a path entry finder). `files`: the names of what is in it; `packages`: those of packages among these."""

    def __init__(self, path: str, files: frozenset[str], packages: frozenset[str]) -> None:
        self.path = path
        self.files = files
        self.packages = packages

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        """The spec of a module of this package, as `FileFinder` gives it; None if there is none."""
        name = fullname.rpartition(".")[2]
        path = os.path.join(self.path, name)
        if name in self.packages:
            spec = ModuleSpec(fullname, SourceFileLoader(fullname, file := os.path.join(path, "__init__.py")), origin=file, is_package=True)
            spec.submodule_search_locations = [path]
        elif f"{name}.py" in self.files:
            spec = ModuleSpec(fullname, SourceFileLoader(fullname, file := f"{path}.py"), origin=file)
        else:
            return FileFinder(self.path, (ExtensionFileLoader, EXTENSION_SUFFIXES)).find_spec(fullname, target)
        spec.has_location = True
        return spec


def read(path: str, found: dict[str, Folder]) -> bool:
    """Add a finder for a folder, and for those inside, to `found`. Returns whether it is that of a package."""
    try:
        files = frozenset(os.listdir(path))
    except OSError:
        return False
    inside = [name for name in files if "." not in name and name != "__pycache__"]
    found[path] = Folder(path, files, frozenset(name for name in inside if read(os.path.join(path, name), found)))
    return "__init__.py" in files


@contextlib.contextmanager
def found_at_once() -> Iterator[None]:
    """Let framejit's modules be found by the names of the files that are there now, during the `with` block."""
    known = sys.path_importer_cache
    made: dict[str, Folder] = {}
    read(sys.modules[FRAMEJIT].__path__[0], made)
    known.update(made)
    try:
        yield
    finally:
        for path, finder in made.items():
            if known.get(path) is finder:
                del known[path]
