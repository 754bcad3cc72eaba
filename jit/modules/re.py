"""Regular expressions: compiled patterns and matches are constants, and their methods pure."""

from __future__ import annotations

import re
from typing import Any

from framejit.guards.source import Source
from framejit.objects.constobject import ConstObject
from framejit.objects.object import VM, Object
from framejit.objects.registry import pure_methods, wraps

pure_methods(re.Pattern, re.Match)


@wraps(re.Pattern, re.Match, by_identity=True)
def wrap_pattern(vm: VM, value: Any, source: Source | None) -> Object:
    return ConstObject(value, source)
