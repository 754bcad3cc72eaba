"""The signals by which control leaves an instruction of a frame, besides Raise (objects/core/object.py): Return and Yield are classes that travel."""

from __future__ import annotations

from typing import ClassVar

from framejit.ceval.frame import State
from framejit.objects.core.object import Object


class Signal(Exception):
    """Base of the signals. It isn't an error of framejit, but the traced program's control flow."""


class Return(Signal):
    """The frame returns `value`."""

    leaves: ClassVar[State] = State.FINISHED

    def __init__(self, value: Object) -> None:
        self.value = value


class Created(Return):
    """The frame of a generator function returns the generator, which will resume the frame later."""

    leaves = State.CREATED


class Yield(Signal):
    """The generator frame yields `value` and is suspended."""

    leaves: ClassVar[State] = State.SUSPENDED

    def __init__(self, value: Object) -> None:
        self.value = value


class Arrived(Exception):
    """Signal: the frame has come to the instruction up to which it was to be run."""


class LeftElsewhere(Exception):
    """Signal: the frame was left before it came to the instruction up to which it was to be run, or was suspended."""
