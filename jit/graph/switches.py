"""Settings of torch that a trace only tracks: the values that the program has set, the operators that they affect, and their values at the end."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch

from framejit.guards.recorder import GuardRecorder
from framejit.objects.core.latercall import LaterCall
from framejit.quick_dataclass import dataclass
from framejit.trail import Trail


@dataclass(frozen=True, slots=True)
class Switch:
    """A setting of the process, given by the C functions that read and write it.

    Attributes:
        devices: types of devices on which it affects operators; none if only functions with a model of their own depend on it.
        shown_by: other functions whose results depend on it.
        everywhere: it affects operators on all devices, including those that make tensors.
    """

    read: Callable[[], Any]
    write: Callable[[Any], Any]
    devices: frozenset[str] = frozenset()
    shown_by: frozenset[Callable[..., Any]] = frozenset()
    everywhere: bool = False


Switched = tuple[tuple[Switch, Any], ...]
"""Switches, and the values that they are set to."""


class Switches:
    """The switches that a trace has set. Undone with the trail."""

    def __init__(self, trail: Trail) -> None:
        self._trail = trail
        self._set: Switched = ()

    def read(self, guards: GuardRecorder, switch: Switch) -> Any:
        """The value that the program reads: the one that it has set, or the one when the trace began, which is guarded."""
        return dict(self._set)[switch] if switch in dict(self._set) else guards.read(switch.read)

    def write(self, guards: GuardRecorder, switch: Switch, value: Any) -> None:
        """Note that the program sets a switch. Its previous value is guarded; if the switch has that value again at the end, nothing needs to be done."""
        guards.read(switch.read)
        self._trail.set(self, "_set", tuple((dict(self._set) | {switch: value}).items()))

    def differences(self) -> Switched:
        """The switches whose values differ from those when the trace began."""
        return tuple([(switch, value) for switch, value in self._set if value != switch.read()])

    def mattering(self, tensors: Iterable[torch.Tensor]) -> Switched:
        """The switches whose values differ from those when the trace began, and that affect operators on these tensors."""
        if not self._set:
            return ()
        devices = {tensor.device.type for tensor in tensors}
        return tuple([(switch, value) for switch, value in self.differences() if switch.everywhere or switch.devices & devices])

    def is_shown_by(self, function: Callable[..., Any]) -> bool:
        """Return whether the program has set a switch that changes the result of a function."""
        return bool(self._set) and any(function in switch.shown_by for switch, _ in self.differences())

    def final_differences(self) -> list[LaterCall]:
        """The effects that set the switches at the end."""
        return [LaterCall(switch.write, (value,)) for switch, value in self.differences()]


@functools.cache
def with_switches(function: Callable[..., Any], switched: Switched) -> Callable[..., Any]:
    """`function`, which runs with these switches set, and restores all of them."""

    @functools.wraps(function, assigned=("__name__", "__qualname__"), updated=())
    def run(*args: Any, **kwargs: Any) -> Any:
        before = [switch.read() for switch, _ in switched]
        for switch, value in switched:
            switch.write(value)
        try:
            return function(*args, **kwargs)
        finally:
            for (switch, _), value in zip(switched, before):
                switch.write(value)

    del run.__wrapped__  # type: ignore[attr-defined]
    run.runs = function  # type: ignore[attr-defined]
    return run
