"""torch's own callbacks of compilations, which framejit calls for its own."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any

from framejit import logs

MODULE = "torch._dynamo.callback"
"""torch's module of callbacks. A program that has registered any has imported it."""
_numbers = itertools.count()


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Inside the block, torch's callbacks know that something is being compiled. What one raises is logged."""
    module: Any = sys.modules.get(MODULE)
    handler = getattr(module, "callback_handler", None)
    if handler is None or not (handler.start_callbacks or handler.end_callbacks):
        yield
        return
    context = handler.install_callbacks(module.CallbackTrigger.DYNAMO, f"framejit/{next(_numbers)}")
    begun = logged(context.__enter__)
    try:
        yield
    finally:
        if begun:
            logged(lambda: context.__exit__(None, None, None))


def logged(call: Callable[[], Any]) -> bool:
    """Make a call that runs callbacks. Returns whether it has raised nothing; what it raises is logged."""
    try:
        call()
    except Exception as error:
        logs.warn(f"a callback of torch's for compilations raised {type(error).__name__}: {error}")
        return False
    return True
