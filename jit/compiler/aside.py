"""Puts hooks, profilers, loggers and warnings of the program aside while framejit traces and compiles, so that the program doesn't see that work.

Modes that observe operators needn't be put aside: calls under them aren't compiled at all (observers.py).
"""

from __future__ import annotations

import contextlib
import logging
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from framejit.process.warning_filters import recorder
from framejit.torch_state.saved_tensor_hooks import passed_over, take_off_later_hooks, top_hooks

FAKES_LOG = logging.getLogger("torch._subclasses.fake_tensor")


@contextlib.contextmanager
def hooks_and_profilers() -> Iterator[None]:
    """Inside the `with` block, the thread's hooks on saved tensors, and profilers, are switched off."""
    hooks = top_hooks()
    with passed_over():
        torch._C._autograd._enable_record_function(False)
        try:
            yield
        finally:
            torch._C._autograd._enable_record_function(True)
            take_off_later_hooks(hooks)


class Silence:
    """Suppresses warnings and logged errors of operators on fakes: the program gets them when its graph runs.

    Warnings that torch gives only once in a process must not be used up here. Python's filters and registries of warnings aren't changed, since
    Python would then show warnings again that it has shown before. Warnings of other threads are shown, and those that code run by the compiler records.
    """

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._before: tuple[bool, bool, Any] | None = None
        self._recorder: Any = None

    def begin(self) -> None:
        self._before = FAKES_LOG.disabled, torch.is_warn_always_enabled(), warnings._showwarnmsg  # type: ignore[attr-defined]
        self._recorder = recorder()
        FAKES_LOG.disabled = True
        torch.set_warn_always(True)
        warnings._showwarnmsg = self._show  # type: ignore[attr-defined]

    def end(self) -> None:
        assert self._before is not None
        FAKES_LOG.disabled, always, warnings._showwarnmsg = self._before  # type: ignore[attr-defined]
        torch.set_warn_always(always)

    def _show(self, message: Any) -> None:
        assert self._before is not None
        if threading.get_ident() != self._thread or recorder() is not self._recorder:
            self._before[2](message)


_silence: Silence | None = None
"""The Silence of the compilation in progress, of which there is only one at a time."""


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Inside the `with` block, warnings and logged errors of operators on fakes don't reach the program."""
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
    """Inside `silent`, allow warnings and logs again, for a backend."""
    mine = _silence
    if mine is None:
        yield
        return
    mine.end()
    try:
        yield
    finally:
        mine.begin()
