"""Higher-order operators of torch that are functions of functions: each is its plain Python stand-in, traced."""

from __future__ import annotations

from torch._higher_order_ops.associative_scan import associative_scan

from framejit.modules.app import scan as plain
from framejit.objects.registry import app

app(associative_scan)(plain.associative_scan)
