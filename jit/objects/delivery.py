"""How the result of a frame becomes that of the instruction, in the frame outside it, that the frame runs for."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from framejit.objects.object import Object


class How(enum.Enum):
    """What is still to be done once the frame has returned."""

    AS_IT_IS = enum.auto()
    """Nothing: the result is on top of what the instruction leaves."""
    DROPPED = enum.auto()
    """It leaves nothing: a setter's result."""
    MADE = enum.auto()
    """It is checked to be None, and what lies below it is the instruction's result: an `__init__`."""
    LOOKED_UP = enum.auto()
    """It takes the place of the attribute's owner below it. An AttributeError that comes instead is told what was asked for, and of whom."""


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """`below`: what lies on the stack below the result meanwhile, None for a NULL. The owner in LOOKED_UP, the instruction's topmost operand,
    is added where a call is split.
    """

    how: How = How.AS_IT_IS
    below: tuple[Object | None, ...] = ()


AS_IT_IS = Delivery()
BEHIND_NULL = Delivery(below=(None,))
DROPPED = Delivery(How.DROPPED)
LOOKED_UP = Delivery(How.LOOKED_UP)
LOOKED_UP_BEHIND_NULL = Delivery(How.LOOKED_UP, below=(None,))
