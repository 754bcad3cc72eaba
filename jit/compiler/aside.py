"""What of the program's is put aside while framejit traces and compiles, so that the program sees nothing of that work.

Modes that look at operators need no putting aside: calls under them aren't compiled at all (observers.py).
"""

from __future__ import annotations

import contextlib
import logging
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from framejit.saved_tensor_hooks import passed_over, take_off_later_hooks, top_hooks

FAKES_LOG = logging.getLogger("torch._subclasses.fake_tensor")


@contextlib.contextmanager
def hooks_and_profilers() -> Iterator[None]:
    """The thread's hooks on saved tensors, and profilers, see nothing of what happens inside the `with` block."""
    hooks = top_hooks()
    with passed_over():
        torch._C._autograd._enable_record_function(False)
        try:
            yield
        finally:
            torch._C._autograd._enable_record_function(True)
            take_off_later_hooks(hooks)


class Silence:
    """Operators on fakes warn, and log errors, as they do on data; but the program will hear that once more when its graph runs.

    What torch says only once in a process it isn't to say here. Nothing of Python's filters and registries of warnings is changed, as that
    would make it show again what it has shown; other threads' warnings are shown.
    """

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._before: tuple[bool, bool, Any] | None = None

    def begin(self) -> None:
        self._before = FAKES_LOG.disabled, torch.is_warn_always_enabled(), warnings._showwarnmsg  # type: ignore[attr-defined]
        FAKES_LOG.disabled = True
        torch.set_warn_always(True)
        warnings._showwarnmsg = self._show  # type: ignore[attr-defined]

    def end(self) -> None:
        assert self._before is not None
        FAKES_LOG.disabled, always, warnings._showwarnmsg = self._before  # type: ignore[attr-defined]
        torch.set_warn_always(always)

    def _show(self, message: Any) -> None:
        assert self._before is not None
        if threading.get_ident() != self._thread:
            self._before[2](message)


_silence: Silence | None = None
"""The Silence of the compilation in progress; there is one at a time."""


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """The program's loggers and warnings hear nothing of operators on fakes inside the `with` block."""
    global _silence
    outer, _silence = _silence, Silence()
    mine = _silence
    mine.begin()
    try:
        yield
    finally:
        mine.end()
        _silence = outer


@contextlib.contextmanager
def aloud() -> Iterator[None]:
    """Inside `silent`: a backend may say what it has to say."""
    mine = _silence
    if mine is None:
        yield
        return
    mine.end()
    try:
        yield
    finally:
        mine.begin()
