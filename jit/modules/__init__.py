"""What library functions mean to a trace: `load` fills the registry (objects/registry.py)."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from framejit import graph, objects


def load() -> None:
    """Import every file of graph/, objects/ and modules/: each registers what it knows."""
    for path, prefix in ((graph.__path__, graph.__name__), (objects.__path__, objects.__name__), (__path__, __name__)):
        for info in pkgutil.iter_modules(path):
            import_module(f"{prefix}.{info.name}")
