"""Methods that run on a real object in the same state as one that the trace has made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from framejit.objects.core.object import VM


class Simulated(Protocol):
    """An Object whose whole state is known."""

    def follow(self, vm: VM, real: Any) -> None:
        """Take over the state of a real object on which a method has run."""


def run_on(vm: VM, own: Simulated, real: Any, method: Callable[..., Any], arguments: Sequence[Any], by_name: Mapping[str, Any]) -> Any:
    """The result of a method of `real`, which has the state of `own`; `own` has the new state afterwards. If the method raises, the traced program does."""
    try:
        found = method(*arguments, **by_name)
    except Exception as error:
        own.follow(vm, real)
        vm.raise_(type(error), *error.args)
    own.follow(vm, real)
    return found
