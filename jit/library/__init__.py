"""Models of library functions, a file per module; `load` fills the registry with them (objects/core/registry.py)."""

from __future__ import annotations

import pkgutil
import sys
from importlib import import_module

from framejit import graph, objects


def load() -> None:
    """Import every file of graph/, objects/ and library/: each registers its meanings."""
    for package in (graph, objects, sys.modules[__name__]):
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            import_module(info.name)
