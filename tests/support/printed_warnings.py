"""Python's own function that prints warnings, in whose place pytest has put one that records them."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from typing import Any


def own_printer() -> Callable[[Any], None]:
    """Return the function that `warnings._showwarnmsg_impl` is in a process in which nobody has replaced it."""
    spec = importlib.util.spec_from_file_location("warnings", warnings.__file__)
    assert spec is not None and spec.loader is not None
    fresh: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fresh)
    printer: Callable[[Any], None] = fresh._showwarnmsg_impl
    return printer
