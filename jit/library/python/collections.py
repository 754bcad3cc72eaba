"""collections: models of the C helpers of its Python classes."""

from __future__ import annotations

import collections

from framejit.objects.core.registry import app, pure
from framejit.plain import collections as plain

pure(collections._tuplegetter)  # type: ignore[attr-defined]  # what namedtuple() makes for each field: an immutable descriptor

app(collections._count_elements, first=dict)(plain.count_elements)  # type: ignore[attr-defined]
