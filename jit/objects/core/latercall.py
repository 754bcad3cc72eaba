"""`LaterCall`, the effect of one call of a function, which the generated code makes when the graph has run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from framejit.objects.core.naming import callable_name
from framejit.objects.core.object import Codegen, Object
from framejit.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class LaterCall:
    """A call of a real function, whose result is dropped. `arguments`: Objects and constants."""

    function: Callable[..., object]
    arguments: tuple[Any, ...]

    def replay(self, cg: Codegen) -> None:
        """Emit the call."""
        for argument in self.arguments:
            if isinstance(argument, Object):
                cg.load(argument)
            else:
                cg.load_const(argument)
        cg.call_const(self.function, len(self.arguments))
        cg.pop_top()

    def referents(self) -> list[Object]:
        return [argument for argument in self.arguments if isinstance(argument, Object)]

    def __str__(self) -> str:
        return f"a call of {callable_name(self.function)}"
