"""Reads the stance that programs and libraries set with `torch.compiler.set_stance`, so that framejit follows it too."""

from __future__ import annotations

import sys
from typing import Any

from framejit import logs
from framejit._runtime import set_watched_eager, watch
from framejit.said import stance

MODULE = "torch._dynamo.eval_frame"
VARIABLE = "_stance"
NEAREST = {"aot_eager_then_compile": "eager_then_compile"}
"""For torch's stances that framejit doesn't have, the nearest one."""


def _setting() -> Any:
    """torch's own record of the stance: its name, whether guards are checked at all, and a backend for everything. None if the module isn't loaded yet."""
    module = sys.modules.get(MODULE)
    return None if module is None else module.__dict__.get(VARIABLE)


def current() -> str:
    """The framejit stance that corresponds to torch's current one."""
    name = getattr(_setting(), "stance", "default")
    name = NEAREST.get(name, name)
    return name if name in stance.STANCES else "default"


def look() -> None:
    """Pass torch's stance on to the runtime, and arrange that this is called again when the stance may have changed."""
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
