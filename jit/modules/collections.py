"""collections: models of the C helpers of its Python classes."""

from __future__ import annotations

import collections

from framejit.modules.app import collections as plain
from framejit.objects.registry import app

app(collections._count_elements, first=dict)(plain.count_elements)  # type: ignore[attr-defined]
