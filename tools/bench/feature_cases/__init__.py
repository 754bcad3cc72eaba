"""Small programs, one for each feature of PyTorch, NumPy or Python that a compiler of graphs may or may not know; a file for each family."""

from __future__ import annotations

import importlib
import pkgutil

from tools.bench.feature_cases.feature import FEATURES, Feature

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def select(names: str | None) -> list[str]:
    """The names of the rows to run: all, or of the families and rows named, comma-separated.

    Raises:
        ValueError: a name is that of no row and no family.
    """
    if not names:
        return list(FEATURES)
    wanted = names.split(",")
    known = {feature.family for feature in FEATURES.values()} | set(FEATURES)
    if unknown := [name for name in wanted if name not in known]:
        raise ValueError(f"no such row or family: {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    return [name for name, feature in FEATURES.items() if name in wanted or feature.family in wanted]


__all__ = ["FEATURES", "Feature", "select"]
