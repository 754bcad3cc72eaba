"""The ShapeEnv of a trace, a subclass of torch's that makes no messages of its own, and whose caches keep nothing alive."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import sympy
from torch import SymInt
from torch.fx.experimental.symbolic_shapes import ShapeEnv


class TraceShapeEnv(ShapeEnv):
    """`takes_unbacked`: sizes that depend on data, and numbers out of tensors, are not refused. `takes_items`: nor are the latter."""

    def __init__(self, takes_unbacked: bool = False) -> None:
        super().__init__(allow_scalar_outputs=takes_unbacked, allow_dynamic_output_shape_ops=takes_unbacked)
        self.takes_items = takes_unbacked
        self.nested: set[sympy.Symbol] = set()
        """The symbols of sizes that stand for the lengths of nested tensors."""

    def create_symbol(self, val: Any, *args: Any, **kwargs: Any) -> sympy.Expr:
        """A symbol for a size; of those that are no numbers it is noted."""
        symbol = super().create_symbol(val, *args, **kwargs)
        if type(val) is SymInt:
            self.nested.add(symbol)
        return symbol

    @property
    def allow_scalar_outputs(self) -> bool:
        return self.takes_items

    def _get_user_frame(self) -> FrameType:
        """The frame of Python that a symbol or guard is put down to: none of the program's. ShapeEnv would walk the stack at each, and import
        torch.export for that; the program's line is noted by `Shapes`."""
        return sys._getframe()


def learnt_by(env: ShapeEnv) -> tuple[int, ...]:
    """A value that differs from the last one whenever a ShapeEnv has learnt something meanwhile."""
    replacements = getattr(env, "_replacements_version_counter", 0)  # older versions count these with the others
    return len(env.guards), env.num_deferred_runtime_asserts, env._version_counter, replacements


CACHED = [function for function in vars(ShapeEnv).values() if hasattr(function, "cache_clear")]
"""The methods of ShapeEnv that remember results for the whole process, and by that each ShapeEnv that they were asked of."""


def forget_shape_envs() -> None:
    """Free what ShapeEnv's methods remember of traces that have ended."""
    for function in CACHED:
        function.cache_clear()
