"""heapq: each C function is its plain Python stand-in, traced."""

from __future__ import annotations

import heapq

from framejit.objects.core.registry import app
from framejit.plain import heapq as plain

NAMES = {
    "heappush": "heappush", "heappop": "heappop", "heapify": "heapify", "heappushpop": "heappushpop", "heapreplace": "heapreplace",
    "_heappop_max": "heappop_max", "_heapify_max": "heapify_max", "_heapreplace_max": "heapreplace_max",
}  # fmt: skip
for _name, _plain in NAMES.items():
    if hasattr(heapq, _name):
        app(getattr(heapq, _name), first=list)(getattr(plain, _plain))
