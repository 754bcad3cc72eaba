"""The ShapeEnv of a trace, a subclass of torch's that makes no messages of its own, and whose caches keep nothing alive.

It is imported when something is symbolic for the first time in the process: torch's ShapeEnv needs sympy, z3, and through its validator all of the peer.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import sympy
from torch import SymInt
from torch.fx.experimental.symbolic_shapes import ShapeEnv, safe_expand
from torch.utils._sympy.functions import IntTrueDiv, TruncToInt

from framejit.torch_state import peer


class TraceShapeEnv(ShapeEnv):
    """`takes_unbacked`: it allows sizes that depend on data, and numbers read from tensors. `takes_items`: it allows the latter."""

    def __init__(self, takes_unbacked: bool = False) -> None:
        peer.bring()  # torch's own __init__ would import it on this thread, whose frames some of its modules would keep
        super().__init__(allow_scalar_outputs=takes_unbacked, allow_dynamic_output_shape_ops=takes_unbacked)
        self.takes_items = takes_unbacked
        self.nested: set[sympy.Symbol] = set()
        """The symbols of sizes that stand for the lengths of nested tensors."""

    def create_symbol(self, val: Any, *args: Any, **kwargs: Any) -> sympy.Expr:
        """A symbol for a size. Symbols for nested lengths, which aren't numbers, are noted."""
        symbol = super().create_symbol(val, *args, **kwargs)
        if type(val) is SymInt:
            self.nested.add(symbol)
        return symbol

    def _set_replacement(self, a: sympy.Symbol, tgt: sympy.Expr, msg: str) -> None:
        """Replace a symbol by what it is equal to. ShapeEnv doesn't replace an unbacked size by 0 or 1, since it takes such sizes for neither where it isn't
        known: here it is known.
        """
        if tgt in (0, 1):
            self.size_like.discard(a)
        super()._set_replacement(a, tgt, msg)

    def simplify(self, expr: Any, *args: Any, **kwargs: Any) -> Any:
        """An equal expression that is simpler. `args`, `kwargs`: those that the version of torch knows.

        ShapeEnv takes a quotient that is rounded towards zero (`int(n / m)`) for one that is rounded down (torch 2.11 to 2.15). An expression with one that
        may be negative is left as it is.
        """
        if expr.has(TruncToInt) and not all(map(self._is_rounded_down, expr.atoms(TruncToInt))):
            return self.replace(safe_expand(expr))
        return super().simplify(expr, *args, **kwargs)

    def _is_rounded_down(self, rounded: sympy.Expr) -> bool:
        """Return whether rounding towards zero is the same here as rounding down, or ShapeEnv takes it for what it is: it isn't that of an exact quotient."""
        quotient = rounded.args[0]
        if not isinstance(quotient, IntTrueDiv):
            return True
        return all(self.bound_sympy(part).lower >= 0 for part in quotient.args)

    @property
    def allow_scalar_outputs(self) -> bool:
        return self.takes_items

    def _get_user_frame(self) -> FrameType:
        """The Python frame to which a symbol or guard is attributed: none of the program's. ShapeEnv would walk the stack each time, and import
        torch.export for that; the program's line is noted by `Shapes`."""
        return sys._getframe()


CACHED = [function for function in vars(ShapeEnv).values() if hasattr(function, "cache_clear")]
"""ShapeEnv's methods that cache results for the whole process, and so keep each ShapeEnv alive on which they were called."""


def forget_shape_envs() -> None:
    """Free what ShapeEnv's methods have cached for traces that have ended."""
    for function in CACHED:
        function.cache_clear()
