"""What library functions mean to a trace: importing this package fills the registry (objects/registry.py)."""

from __future__ import annotations

import importlib
import pkgutil

from framejit import objects

for _package in (objects, None):
    _path, _prefix = (__path__, __name__) if _package is None else (_package.__path__, _package.__name__)
    for _info in pkgutil.iter_modules(_path):
        importlib.import_module(f"{_prefix}.{_info.name}")
