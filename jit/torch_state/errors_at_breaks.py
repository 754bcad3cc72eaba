"""Reads from torch's own tracer that the program wants errors at graph breaks: `torch._dynamo.error_on_graph_break`."""

from __future__ import annotations

import sys

UTILITIES, ASKED = "torch._dynamo.utils", "_error_on_graph_break"
"""The module with the global that it sets, and that."""


def asks_for_errors() -> bool:
    """Return whether `torch._dynamo.error_on_graph_break(True)` is in force. It isn't if nothing has imported torch's own tracer."""
    return bool(getattr(sys.modules.get(UTILITIES), ASKED, False))
