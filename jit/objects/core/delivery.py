"""Deliveries: how the result of a frame becomes the result of the instruction, in the calling frame, that the frame runs for."""

from __future__ import annotations

import enum
from typing import Any

from framejit.quick_dataclass import dataclass


class How(enum.Enum):
    """The actions that remain to be done once the frame has returned."""

    AS_IT_IS = enum.auto()
    """Nothing: the result is pushed on top of what the instruction leaves on the stack."""
    DROPPED = enum.auto()
    """The result is dropped, as that of a setter."""
    MADE = enum.auto()
    """The result must be None, and the instruction's result is the value below it on the stack, as for an `__init__`."""
    LOOKED_UP = enum.auto()
    """The result replaces the attribute's owner, which lies below it. If an AttributeError is raised instead, it notes the name and the owner."""


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """The way in which a call's result is delivered. It is passed along with the call: an operation whose result is that of one call passes it on to that call.

    `below`: the Objects that lie on the stack below the result meanwhile, None for a NULL. For LOOKED_UP, the owner, the instruction's topmost operand,
    is added when a call is split.
    """

    how: How = How.AS_IT_IS
    below: tuple[Any, ...] = ()


AS_IT_IS = Delivery()
BEHIND_NULL = Delivery(below=(None,))
DROPPED = Delivery(How.DROPPED)
LOOKED_UP = Delivery(How.LOOKED_UP)
LOOKED_UP_BEHIND_NULL = Delivery(How.LOOKED_UP, below=(None,))
