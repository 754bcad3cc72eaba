"""Models of library functions, a file per module; `load` fills the registry with them (objects/registry.py)."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from framejit import graph, objects


def load() -> None:
    """Import every file of graph/, objects/ and modules/: each registers its meanings."""
    for path, prefix in ((graph.__path__, graph.__name__), (objects.__path__, objects.__name__), (__path__, __name__)):
        for info in pkgutil.iter_modules(path):
            import_module(f"{prefix}.{info.name}")
