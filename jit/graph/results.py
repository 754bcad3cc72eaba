"""What operators give on fakes that is no tensor: numbers that depend on data, immutable values, and containers of Objects like theirs."""

from __future__ import annotations

import enum
from typing import Any

import torch

from framejit.graph.unbacked import is_unbacked
from framejit.objects.constobject import CONST_BUILDERS, EXACT
from framejit.objects.object import Object
from framejit.objects.registry import wrapper_for
from framejit.objects.torchobject import SizeObject
from framejit.objects.tupleobject import TupleObject


def with_items(container: Any, items: list[Object]) -> Any:
    """A container like the one that an operator gave, of Objects; for `VM.from_real`."""
    if isinstance(container, torch.Size):
        return SizeObject(items, torch.Size)
    return items if isinstance(container, list) else TupleObject(items, type(container))


def has_unbacked(value: Any) -> bool:
    """Whether a result is a tuple or list with a number in it that depends on data."""
    return isinstance(value, (tuple, list)) and any(map(is_unbacked, value))


def is_made_of_constants(value: Any) -> bool:
    """Whether a result is an immutable value, or a tuple, list or dict of such. An object of another class may hold fakes."""
    if isinstance(value, (tuple, list, set, frozenset)):
        return all(map(is_made_of_constants, value))
    if type(value) is dict:
        return all(map(is_made_of_constants, value)) and all(map(is_made_of_constants, value.values()))
    cls = type(value)
    return cls in EXACT or cls in CONST_BUILDERS or isinstance(value, enum.Enum) or wrapper_for(cls).by_identity
