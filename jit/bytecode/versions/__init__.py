"""Selects the version file of the running Python; the only place that asks which one it is."""

from __future__ import annotations

import importlib
import sys

from framejit.bytecode.versions.rows import Version

SUPPORTED = {(3, 11): "py311", (3, 12): "py312"}


class UnsupportedPython(ImportError):
    """The running Python's bytecode is not known to framejit: nothing is guessed about it."""


def select(version: tuple[int, int]) -> Version:
    """The description of one Python version's bytecode; raises UnsupportedPython for one that has no file here."""
    if version not in SUPPORTED:
        known = ", ".join(f"{major}.{minor}" for major, minor in SUPPORTED)
        raise UnsupportedPython(
            f"framejit does not know the bytecode of Python {version[0]}.{version[1]}; it supports CPython {known}. "
            "Run it with one of these, or add a file to jit/bytecode/versions and runtime_c/cpython."
        )
    module = importlib.import_module(f"framejit.bytecode.versions.{SUPPORTED[version]}")
    selected: Version = module.VERSION
    return selected


CURRENT: Version = select(sys.version_info[:2])
