"""Selects the version file of the running Python. This is the only place that asks which version it is."""

from __future__ import annotations

import importlib
import sys

from framejit.bytecode.versions.version import Version

SUPPORTED = {(3, 11): "py311", (3, 12): "py312", (3, 13): "py313", (3, 14): "py314", (3, 15): "py315"}


class UnsupportedPython(ImportError):
    """The running Python's frame layout and bytecode are not known to framejit, which never guesses them."""


def select(version: tuple[int, int], implementation: str = "cpython") -> Version:
    """The description of one Python version's bytecode; raises UnsupportedPython if it has no file here."""
    if version not in SUPPORTED or implementation != "cpython":
        known = " to ".join(f"{major}.{minor}" for major, minor in (min(SUPPORTED), max(SUPPORTED)))
        raise UnsupportedPython(
            f"framejit supports CPython {known}; this is {implementation} {version[0]}.{version[1]}. "
            "Run it with one of these, or add a file to jit/bytecode/versions and runtime_c/cpython."
        )
    module = importlib.import_module(f"framejit.bytecode.versions.{SUPPORTED[version]}")
    selected: Version = module.VERSION
    return selected


CURRENT: Version = select(sys.version_info[:2], sys.implementation.name)
