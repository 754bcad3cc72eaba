"""Checks constants in the nodes of a graph. FX writes them into Python code by their `repr`, so their `repr` must give them back exactly.

It doesn't for NumPy's scalars (which become Python's, with the same meaning to operators), complex numbers with some signs (`-1j` has the real part -0.0, and
`complex(0, -1)` is written as `-1j`), NaNs with a payload, and objects of most other types. Operators with such arguments run outside the graph, unless only
FX writes them: then such a complex number is one that is written as a call.
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


class WrittenComplex(complex):
    """A complex number that is written as the call that makes it."""

    def __repr__(self) -> str:
        return f"complex({self.real!r}, {self.imag!r})"


def is_written_exactly(value: complex) -> bool:
    """Return whether the `repr` of a finite complex number is an expression that gives the number, with the signs of zeros."""
    signs = [math.copysign(1, part) for part in (value.real, value.imag)]
    return (bool(value.imag) or signs[1] == 1) and (bool(value.real) or signs == [1, 1])


def exact(value: Any, only_fx_writes: bool = False) -> Any:
    """A constant for a node that means the same as `value`, and that the generated code reproduces exactly. Raises Inexact. `only_fx_writes`: no other
    compiler, such as AOTAutograd, writes code with it."""
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
        is_finite = math.isfinite(value.real) and math.isfinite(value.imag)
        if is_finite and (only_fx_writes or is_written_exactly(value)):
            return value if is_written_exactly(value) else WrittenComplex(value)
    elif issubclass(cls, tuple):
        return tuple([exact(item, only_fx_writes) for item in value])
    elif cls is list:
        return [exact(item, only_fx_writes) for item in value]
    elif cls is dict:
        return {exact(key): exact(item, only_fx_writes) for key, item in value.items()}
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
