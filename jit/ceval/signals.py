"""The signals by which control leaves an instruction: Return, Yield and Raise are classes that travel."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from framejit.objects.object import Object


class Signal(Exception):
    """Base of the signals. Not an error of framejit's: the traced program's control flow."""


class Return(Signal):
    """The frame returns `value`."""

    def __init__(self, value: Object) -> None:
        self.value = value


class Yield(Signal):
    """The generator frame yields `value` and is suspended."""

    def __init__(self, value: Object) -> None:
        self.value = value


class Raise(Signal):
    """The traced program raises `exc`, an exception instance.

    `reraised`: it is raised again as it was (RERAISE, a bare `raise`): the frame that does so adds neither context nor a traceback entry.
    """

    def __init__(self, exc: Object, reraised: bool = False) -> None:
        self.exc = exc
        self.chained = reraised
        self.reraised = reraised
