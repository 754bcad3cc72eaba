"""`torch.compiler.set_stance`, which programs and libraries call for torch.compile: framejit does as it says too."""

from __future__ import annotations

import sys
from typing import Any

from framejit import logs, stance
from framejit._runtime import set_watched_eager, watch

MODULE = "torch._dynamo.eval_frame"
VARIABLE = "_stance"
NEAREST = {"aot_eager_then_compile": "eager_then_compile"}
"""Stances of torch's that have no equal here."""


def _setting() -> Any:
    """torch's own record of the stance: its name, whether to check guards at all, and a backend for everything. None before it is loaded."""
    module = sys.modules.get(MODULE)
    return None if module is None else module.__dict__.get(VARIABLE)


def current() -> str:
    """What torch has been told, as a stance of ours."""
    name = getattr(_setting(), "stance", "default")
    name = NEAREST.get(name, name)
    return name if name in stance.STANCES else "default"


def look() -> None:
    """Tell the runtime what torch has been told, and have this called again when that may have changed."""
    module = sys.modules.get(MODULE)
    if module is None:
        watch(look, sys.modules)
    else:
        watch(look, sys.modules, module.__dict__)
    set_watched_eager(current() == "force_eager")
    setting = _setting()
    if getattr(setting, "skip_guard_eval_unsafe", False):
        logs.warn(
            "torch.compiler.set_stance(skip_guard_eval_unsafe=True) does not hold for framejit: all guards are checked at every call, "
            "because a result that rests on an unchecked assumption may be wrong"
        )
    if getattr(setting, "backend", None) is not None:
        logs.warn("torch.compiler.set_stance(force_backend=...) does not hold for framejit: functions keep the backend they were compiled with")


look()
