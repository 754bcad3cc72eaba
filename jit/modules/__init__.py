"""What library functions mean to a trace: `load` fills the registry (objects/registry.py)."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from framejit import objects


def load() -> None:
    """Import every file of objects/ and modules/: each registers what it knows."""
    for path, prefix in ((objects.__path__, objects.__name__), (__path__, __name__)):
        for info in pkgutil.iter_modules(path):
            import_module(f"{prefix}.{info.name}")
