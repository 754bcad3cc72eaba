"""Python's filters of warnings, whose version framejit's own work must not change.

Each change of the filters makes Python forget which warnings it has shown, and `warnings.catch_warnings`, which torch's and NumPy's code uses, changes them
twice. The program would hear once more what it has heard.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

_lock = threading.Lock()
_threads: Counter[int] = Counter()
"""The threads that are inside `version_kept`, and how often."""
_real: Any = None
_module: Any = warnings
MUTATED = "_filters_mutated_lock_held" if hasattr(warnings, "_filters_mutated_lock_held") else "_filters_mutated"
"""The function of the module that is called after each change of the filters."""


def _mutated() -> None:
    """In place of the function that MUTATED names: changes by threads that are about the program's work count."""
    if threading.get_ident() not in _threads:
        _real()


@contextlib.contextmanager
def version_kept() -> Iterator[None]:
    """Changes that a thread makes to the filters inside the `with` block, it undoes: Python isn't told of it. None of the program's code is traced inside."""
    global _real
    thread = threading.get_ident()
    with _lock:
        if not _threads:
            _real = getattr(_module, MUTATED)
            setattr(_module, MUTATED, _mutated)
        _threads[thread] += 1
    try:
        yield
    finally:
        with _lock:
            _threads[thread] -= 1
            if not _threads[thread]:
                del _threads[thread]
            if not _threads:
                setattr(_module, MUTATED, _real)


def forget_shown() -> None:
    """Make Python forget which warnings it has shown, as each change of the filters does. Newer versions want their lock to be held."""
    with getattr(_module, "_lock", contextlib.nullcontext()):
        getattr(_module, MUTATED)()


def recorder() -> Any:
    """Return the object that takes warnings which are to be shown: each `catch_warnings(record=True)` puts another in its place."""
    context = warnings._get_context() if hasattr(warnings, "_get_context") else None
    log = context.log if context is not None else None
    return log if log is not None else _module._showwarnmsg_impl
