"""torch.jit in plain Python."""

from __future__ import annotations

from typing import Any

from torch import nn


def module_getattr(self: Any, attr: str) -> Any:
    """RecursiveScriptModule.__getattr__, without the module's dict in which that caches methods."""
    if self._initializing:
        return nn.Module.__getattr__(self, attr)
    if attr in self._modules:
        return self._modules[attr]
    if self._c.hasattr(attr):
        return self._c.getattr(attr)
    if self._c._has_method(attr):
        return self._c._get_method(attr)
    return nn.Module.__getattr__(self, attr)
