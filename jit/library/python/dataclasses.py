"""dataclasses: the mark that stands for a default made by a factory is a constant, so that signatures which have it are known."""

from __future__ import annotations

import dataclasses
from typing import Any

from framejit.guards.source import Source
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import wraps
from framejit.objects.types.constobject import ConstObject


@wraps(type(dataclasses._HAS_DEFAULT_FACTORY), by_identity=True)  # type: ignore[attr-defined]
def wrap_mark(vm: VM, value: Any, source: Source | None) -> Object:
    return ConstObject(value, source)
