"""The creation of a `torch.utils.hooks.RemovableHandle` in plain Python."""

from __future__ import annotations

from typing import Any

from framejit.plain.weak_references import weak_reference


def next_id() -> Any:
    """A number that no handle has had before: it has a model."""
    raise NotImplementedError


def init(self: Any, hooks_dict: Any, *, extra_dict: Any = None) -> None:
    """RemovableHandle.__init__ (torch/utils/hooks.py)."""
    self.hooks_dict_ref = weak_reference(hooks_dict)
    self.id = next_id()
    self.extra_dict_ref = ()
    if isinstance(extra_dict, dict):
        self.extra_dict_ref = (weak_reference(extra_dict),)
    elif isinstance(extra_dict, list):
        self.extra_dict_ref = tuple([weak_reference(item) for item in extra_dict])
