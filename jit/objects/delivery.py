"""How the result of a frame becomes that of the instruction, in the frame outside it, that the frame runs for."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any


class How(enum.Enum):
    """What is still to be done once the frame has returned."""

    AS_IT_IS = enum.auto()
    """Nothing: the result is on top of what the instruction leaves."""
    DROPPED = enum.auto()
    """The result leaves nothing: a setter's."""
    MADE = enum.auto()
    """The result is checked to be None, and what lies below it on the stack is the instruction's: an `__init__`'s."""
    LOOKED_UP = enum.auto()
    """The result takes the place of the attribute's owner below it. An AttributeError that comes instead is told what was asked for, and of whom."""


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """How the result of a call is delivered, passed along with the call: an operation that gives the result of one call as it is hands it on.

    `below`: the Objects that lie on the stack below the result meanwhile, None for a NULL. The owner in LOOKED_UP, the instruction's topmost operand,
    is added where a call is split.
    """

    how: How = How.AS_IT_IS
    below: tuple[Any, ...] = ()


AS_IT_IS = Delivery()
BEHIND_NULL = Delivery(below=(None,))
DROPPED = Delivery(How.DROPPED)
LOOKED_UP = Delivery(How.LOOKED_UP)
LOOKED_UP_BEHIND_NULL = Delivery(How.LOOKED_UP, below=(None,))
