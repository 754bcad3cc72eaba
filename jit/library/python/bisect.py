"""bisect: each C function is its plain Python stand-in, traced."""

from __future__ import annotations

import bisect

from framejit.objects.core.registry import app
from framejit.plain import bisect as plain

for _name in ("bisect_left", "bisect_right", "insort_left", "insort_right"):
    app(getattr(bisect, _name))(getattr(plain, _name))
