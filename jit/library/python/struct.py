"""struct: numbers are packed into bytes, and unpacked, while tracing."""

from __future__ import annotations

import struct
from typing import Any

from framejit.guards.source import Source
from framejit.objects.core.object import VM, Object
from framejit.objects.core.registry import pure, wraps
from framejit.objects.types.constobject import ConstObject

pure(struct.pack, struct.unpack, struct.calcsize, struct.unpack_from, struct.Struct.pack, struct.Struct.unpack, struct.Struct.unpack_from)


@wraps(struct.Struct, by_identity=True)
def wrap_format(vm: VM, value: Any, source: Source | None) -> Object:
    """Wrap a compiled format, which is immutable."""
    return ConstObject(value, source)
