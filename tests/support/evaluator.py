"""CPython's own evaluator of frames, for tests that depend on it.

A compilation of torch's that fails leaves torch's PEP 523 hook installed, even if a test only runs `torch.cond` uncompiled. Under such a hook, each call takes
C stack, and holds its arguments until it returns.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any


def function(name: str, result: Any, *arguments: Any) -> Any:
    found = getattr(ctypes.pythonapi, name)
    found.restype, found.argtypes = result, arguments
    return found


CURRENT_INTERPRETER = function("PyInterpreterState_Get", ctypes.c_void_p)
READ = function("_PyInterpreterState_GetEvalFrameFunc", ctypes.c_void_p, ctypes.c_void_p)
WRITE = function("_PyInterpreterState_SetEvalFrameFunc", None, ctypes.c_void_p, ctypes.c_void_p)
OWN = ctypes.cast(ctypes.pythonapi._PyEval_EvalFrameDefault, ctypes.c_void_p).value


@contextlib.contextmanager
def cpythons_evaluator() -> Iterator[None]:
    """Inside the block, CPython runs frames itself, except where framejit installs its hook."""
    interpreter = CURRENT_INTERPRETER()
    before = READ(interpreter)
    WRITE(interpreter, OWN)
    try:
        yield
    finally:
        WRITE(interpreter, before)
