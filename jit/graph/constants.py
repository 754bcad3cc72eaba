"""Checks constants in the nodes of a graph. FX writes them into Python code by their `repr`, so their `repr` must give them back exactly.

It doesn't for NumPy's scalars (which become Python's, with the same meaning to operators), zeros with a sign in complex numbers, NaNs with a payload, and
objects of most other types. Operators with such arguments run outside the graph.
"""

from __future__ import annotations

import enum
import math
import struct
from types import EllipsisType, NoneType
from typing import Any

import numpy
import torch
from torch import fx

WRITTEN_AS_THEY_ARE = frozenset({
    fx.Node, bool, str, bytes, NoneType, EllipsisType, range, torch.dtype, torch.device, torch.layout, torch.memory_format, torch.qscheme,
})  # fmt: skip
MOST_BITS = 1024
"""The largest size of an integer in a graph; Python refuses to write out very long ones."""
NAN = struct.pack("d", math.nan)


class Inexact(Exception):
    """Signal: a constant that FX cannot write exactly."""


def exact(value: Any) -> Any:
    """A constant for a node that means the same as `value`, and that the generated code reproduces exactly. Raises Inexact."""
    cls = type(value)
    if cls in WRITTEN_AS_THEY_ARE:
        return value
    if cls is int:
        if value.bit_length() <= MOST_BITS:
            return value
    elif cls is float:
        if value == value or struct.pack("d", value) == NAN:
            return value
    elif cls is complex:
        if all(math.isfinite(part) and (part or math.copysign(1, part) == 1) for part in (value.real, value.imag)):
            return value
    elif issubclass(cls, tuple):
        return tuple([exact(item) for item in value])
    elif cls is list:
        return [exact(item) for item in value]
    elif cls is dict:
        return {exact(key): exact(item) for key, item in value.items()}
    elif cls is slice:
        return slice(exact(value.start), exact(value.stop), exact(value.step))
    elif issubclass(cls, numpy.generic):
        return plain_number(value)
    elif issubclass(cls, enum.Enum):
        return exact_member(value)
    raise Inexact(value)


def plain_number(value: numpy.generic) -> Any:
    """Python's number for a NumPy scalar that torch treats as one. Raises Inexact."""
    if isinstance(value, numpy.floating) or (isinstance(value, numpy.integer) and -(2**63) <= value < 2**63):
        return exact(value.item()) if type(value) is not numpy.longdouble else exact(float(value))
    raise Inexact(value)


def exact_member(value: enum.Enum) -> Any:
    """A constant for a member of an enum: the number or text that it also is, else the member if its class has it by its name."""
    for kind, plain in ((int, int.__int__), (float, float.__float__), (str, str.__str__)):
        if isinstance(value, kind):
            return exact(plain(value))  # type: ignore[arg-type]
    if getattr(type(value), str(value.name), None) is value:
        return value
    raise Inexact(value)
