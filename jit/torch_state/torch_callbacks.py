"""torch's own callbacks of compilations, which framejit calls for its own."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Iterator
from typing import Any

from framejit import logs

MODULE = "torch._dynamo.callback"
"""torch's module of callbacks. A program that has registered any has imported it."""
_numbers = itertools.count()


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Inside the block, torch's callbacks know that something is being compiled. What one raises at the start is logged."""
    module: Any = sys.modules.get(MODULE)
    handler = getattr(module, "callback_handler", None)
    if handler is None or not (handler.start_callbacks or handler.end_callbacks):
        yield
        return
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(handler.install_callbacks(module.CallbackTrigger.DYNAMO, f"framejit/{next(_numbers)}"))
        except Exception as error:
            logs.warn(f"a callback of torch's at the start of a compilation raised {type(error).__name__}: {error}")
        yield
