"""Weak references that torch makes in compiled functions."""

from __future__ import annotations

from typing import Any

from torch.distributions import transforms


def weak_reference(value: Any) -> Any:
    """`weakref.ref(value)`: it has a model."""
    raise NotImplementedError


def inverse(self: Any) -> Any:
    """Transform.inv (torch/distributions/transforms.py), before torch 2.13: an inverse that has been freed is made again, and is equal."""
    found = None if self._inv is None else self._inv()
    if found is None:
        found = transforms._InverseTransform(self)
        self._inv = weak_reference(found)
    return found


def inverse_of_parts(self: Any) -> Any:
    """ComposeTransform.inv (torch/distributions/transforms.py)."""
    found = None if self._inv is None else self._inv()
    if found is None:
        found = transforms.ComposeTransform([part.inv for part in reversed(self.parts)])
        self._inv = weak_reference(found)
        found._inv = weak_reference(self)
    return found
